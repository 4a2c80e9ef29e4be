// SPDX-License-Identifier: BSD-3-Clause
// What slots of moves, indices, sorting and random numbers share.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "cograd/dtype.h"
#include "cuda/driver/launch.h"
#include "cuda/memory/scratch.h"
#include "tensor/slot.h"

namespace cograd::cuda {

// The grid of a kernel with a grid-stride loop over n items.
Grid grid_over(int64_t n, unsigned threads = 256);
Grid grid_of_blocks(int64_t blocks, unsigned threads);

// The type of kernels' text for elements of a dtype; with `unsigned_too`, unsigned integers have
// their own.
const char* text_type(DType t);

// Copies from the current device, after everything in the stream.
void read_back(const void* from, void* to, size_t bytes);
// Sets bytes in the stream.
void set_bytes(void* at, int value, int64_t n);
// Copies bytes to a scratch buffer if they are in host memory; they may change after the call.
class OnDevice {
 public:
  OnDevice(const void* p, size_t bytes);
  const void* get() const noexcept { return at_; }

 private:
  Scratch copy_;
  const void* at_;
};

inline int64_t blocks_of(int64_t n, int64_t per_block) { return (n + per_block - 1) / per_block; }

}  // namespace cograd::cuda
