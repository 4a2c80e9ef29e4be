// SPDX-License-Identifier: BSD-3-Clause
// Pinned memory of the host, which GPUs copy from without the CPU's help. Freed blocks are kept for
// later; a block that a copy still reads is reused only after it.
#pragma once
#include <cstddef>

#include "cuda/driver/api.h"

namespace cograd::cuda {

// Returns memory of at least `bytes`; a GPU's context is current. Raises OutOfMemoryError.
void* pinned_allocate(size_t bytes);
void pinned_free(void* p) noexcept;
bool is_pinned(const void* p) noexcept;
// Notes that the work which the stream has by now reads the block that holds p.
void pinned_used_by(const void* p, CUstream stream);
// A graph reads the block that holds p in each of its replays, until it leaves; the replays on
// `last` may still run then, if there were any.
void pinned_enter_graph(const void* p);
void pinned_leave_graph(const void* p, bool replayed, CUstream last);
// Gives the blocks that nobody uses back to the driver.
void pinned_release_cached();

}  // namespace cograd::cuda
