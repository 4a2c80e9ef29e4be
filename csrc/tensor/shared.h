// SPDX-License-Identifier: BSD-3-Clause
// Storages in memory that several processes map: anonymous files, which leave no name behind.
#pragma once
#include <span>

#include "tensor/tensor.h"

namespace cograd {

// Returns a new storage of nbytes zeros in a new anonymous file.
COGRAD_API Storage* shared_make(int64_t nbytes);
// Returns a storage over the file `fd`; the caller still owns `fd`. With `keep` the storage holds a
// duplicate descriptor and can be sent to other processes. `fill` maps all pages at once.
COGRAD_API Storage* shared_open(int fd, int64_t nbytes, bool keep, bool fill);
COGRAD_API bool is_shared(const Storage* s) noexcept;
// Returns the descriptor of a shared storage's file, which the storage owns; -1 for a part of a
// storage, or if the descriptor was not kept.
COGRAD_API int shared_fd(const Storage* s) noexcept;
// Moves the storage of all `users` into shared memory and keeps its version. The caller must ensure
// that nothing else points into the storage.
COGRAD_API void move_to_shared(std::span<TensorImpl* const> users);

}  // namespace cograd
