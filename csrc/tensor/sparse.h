// SPDX-License-Identifier: BSD-3-Clause
// The flag of sparse tensors, whose memory has no elements.
#pragma once
#include "tensor/tensor.h"

namespace cograd {

// A bit beside TensorFlags. A sparse tensor has kDual, too, so that every op leaves the direct path
// and meets the stage that refuses it; plain tensors pay nothing for it.
inline constexpr uint32_t kSparse = 65536;

inline bool is_sparse(const TensorImpl* t) noexcept { return (t->flags & kSparse) != 0; }
inline bool is_sparse(const Tensor& t) noexcept { return t.defined() && is_sparse(t.impl()); }
// Raises: `who` reads the memory of a sparse tensor, which has none.
[[noreturn]] COGRAD_API void fail_sparse(const char* who);
inline void check_not_sparse(const Tensor& t, const char* who) {
  if (is_sparse(t)) [[unlikely]]
    fail_sparse(who);
}

}  // namespace cograd
