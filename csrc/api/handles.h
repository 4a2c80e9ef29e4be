// SPDX-License-Identifier: BSD-3-Clause
// Handles of the C interface and the objects they stand for.
#pragma once
#include "api/error.h"
#include "autograd/variable.h"

namespace cograd::api {

inline TensorImpl* impl(cograd_tensor t) noexcept { return reinterpret_cast<TensorImpl*>(t); }
inline cograd_tensor handle(TensorImpl* p) noexcept { return reinterpret_cast<cograd_tensor>(p); }
inline cograd_tensor handle(const Tensor& t) noexcept { return handle(t.impl()); }
inline Tensor borrow(cograd_tensor t) noexcept { return Tensor::borrow(impl(t)); }
// Hands the reference out.
inline cograd_tensor give(Tensor t) noexcept { return handle(t.release()); }

// The variable `t` seen as a Tensor, without a reference of its own.
inline const Tensor& view_of(const cograd_tensor& t) noexcept {
  return reinterpret_cast<const Tensor&>(t);
}
inline const Tensor& view_of(const cograd_tensor& t, const char* who) {
  COGRAD_CHECK_TYPE(t != nullptr, who, "(): got no tensor (None)");
  return view_of(t);
}
inline TensorList list_of(const cograd_tensor* t, size_t n) noexcept {
  return {reinterpret_cast<const Tensor*>(t), n};
}

}  // namespace cograd::api
