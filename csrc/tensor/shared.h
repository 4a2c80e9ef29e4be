// SPDX-License-Identifier: BSD-3-Clause
// Storages in memory that several processes map: anonymous files, which have no name to leak.
#pragma once
#include <span>

#include "tensor/tensor.h"

namespace cograd {

// A new storage of nbytes zeros in an anonymous file of its own.
COGRAD_API Storage* shared_make(int64_t nbytes);
// The storage in the file `fd`, which stays the caller's. With `keep` the storage can be sent on;
// without, it needs no descriptor. `fill` maps all pages at once.
COGRAD_API Storage* shared_open(int fd, int64_t nbytes, bool keep, bool fill);
COGRAD_API bool is_shared(const Storage* s) noexcept;
// The file of a shared storage, which goes with it; -1 of a part, or where it was not kept.
COGRAD_API int shared_fd(const Storage* s) noexcept;
// Puts the storage of all `users` into shared memory, with its version. The caller has made sure
// that nobody else points into it.
COGRAD_API void move_to_shared(std::span<TensorImpl* const> users);

}  // namespace cograd
