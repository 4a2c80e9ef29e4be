// SPDX-License-Identifier: BSD-3-Clause
// Strided n-d iteration over raw pointers: reorders, coalesces and splits the work of a 1-d loop.
#pragma once
#include <cstdint>

#include "cograd/error.h"
#include "tensor/device.h"

namespace cograd::kernels {

// Runs over n elements; ptrs[0] is the output, strides are in bytes. A null LoopFn means that the
// operation does not exist for that dtype.
using LoopFn = void (*)(char* const* ptrs, const int64_t* strides, int64_t n, const void* params);

struct Operand {
  char* data;
  const int64_t* strides;  // bytes per dim, already broadcast: 0 for a broadcast dim

  template <class F>
  void each_pointer(F&& f) {
    f(data);
  }
};

inline constexpr int kMaxDims = 64;
inline constexpr int kMaxOperands = 6;

// Runs `fn` over all elements; ops[0] is the output. An operand may be the output itself (in
// place), but must not partially overlap it. Splits large work over the pool inside a HeavyScope.
COGRAD_API void run_loop(LoopFn fn, int ndim, const int64_t* shape, const Operand* ops, int nops,
                         const void* params, int cost_per_element = 1);

COGRAD_API void run_row_elsewhere(LoopFn fn, char* const* ptrs, size_t count,
                                  const int64_t* strides, int64_t n, const void* params);
// Runs `fn` on this thread over elements that a stride per operand describes.
template <size_t kCount>
void run_row(LoopFn fn, char* const (&ptrs)[kCount], const int64_t* strides, int64_t n,
             const void* params) {
  if (on_host()) [[likely]]
    return fn(ptrs, strides, n, params);
  run_row_elsewhere(fn, ptrs, kCount, strides, n, params);
}

}  // namespace cograd::kernels
