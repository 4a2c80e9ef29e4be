// SPDX-License-Identifier: BSD-3-Clause
// The files that implement conv_direct.h share these declarations.
#pragma once
#include <algorithm>
#include <memory>

#include "kernels/conv/conv.h"
#include "kernels/conv/conv_direct_loops.h"
#include "kernels/conv/conv_shift.h"
#include "tensor/threads.h"

namespace cograd::kernels::direct {

inline constexpr int64_t kTasks = 8;           // minimum number of tasks
inline constexpr int64_t kTasksPerThread = 4;  // so that quick threads can take more of them

// Returns the number of tasks that work should be cut into. Only cuts that leave every result's sum
// as it is may depend on it.
inline int64_t wanted_tasks() { return std::max<int64_t>(kTasks, kTasksPerThread * num_threads()); }

using Buffer = std::unique_ptr<char[]>;
inline Buffer buffer(int64_t elements, DType t) {
  return Buffer(new char[static_cast<size_t>(elements * dtype_size(t)) + 64]);
}
inline const char* at(DType t, const void* p, int64_t i) {
  return static_cast<const char*>(p) + i * dtype_size(t);
}
inline char* at(DType t, void* p, int64_t i) { return static_cast<char*>(p) + i * dtype_size(t); }

// Treats an image as one row if the kernel has one element and moves by one.
inline ConvShape flattened(const ConvShape& s) {
  ConvShape f = s;
  for (int d = 0; d < 3; ++d)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0 || s.in[d] != s.out[d]) return s;
  f.in[2] = f.out[2] = s.in_size();
  f.in[0] = f.in[1] = f.out[0] = f.out[1] = 1;
  for (int64_t& d : f.dilation) d = 1;
  return f;
}

inline bool suits(DType t, const ConvShape& s) {
  return (t == DType::Float32 || t == DType::Float64) && s.batch > 0 && s.in_channels > 0 &&
         s.out_size() > 0 && s.in_size() > 0 && s.taps() <= 4096 && s.depth() < (1 << 24);
}

}  // namespace cograd::kernels::direct
