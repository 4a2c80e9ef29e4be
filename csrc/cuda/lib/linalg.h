// SPDX-License-Identifier: BSD-3-Clause
// The slots of lapack_batch.h share these helpers for batches of column-major matrices without
// gaps.
#pragma once
#include <cstdint>

#include "cuda/args/linalg_args.h"
#include "cuda/slots/support.h"
#include "kernels/libraries/lapack_batch.h"

namespace cograd::cuda {

using kernels::MatrixBatch;

inline int narrow(int64_t v) {
  COGRAD_CHECK(v <= INT32_MAX, "linalg: there are ", v,
               " rows, columns or matrices, expected at most 2147483647");
  return static_cast<int>(v);
}

inline CUfunction linalg_kernel(DType t, const char* name) {
  return function_of("linalg.h", name, t);
}

// Matrix number i, of `size` elements each.
inline void* at(MatrixBatch b, void* a, int64_t i, int64_t size) {
  return static_cast<char*>(a) + i * size * dtype_size(b.t);
}
inline const void* at(MatrixBatch b, const void* a, int64_t i, int64_t size) {
  return static_cast<const char*>(a) + i * size * dtype_size(b.t);
}

// The values of a batch, such as eigenvalues, are real.
inline MatrixBatch reals_of(MatrixBatch b) { return {real_dtype(b.t), b.count}; }
inline size_t bytes_of(MatrixBatch b, int64_t elements) {
  return static_cast<size_t>(elements) * static_cast<size_t>(dtype_size(b.t));
}

// The libraries' functions for batches are made for small matrices.
inline bool many_small(MatrixBatch b, int64_t n) noexcept { return b.count > 1 && n <= 256; }

// The addresses of a batch's matrices, in memory of the GPU.
class Pointers {
 public:
  Pointers(MatrixBatch b, const void* a, int64_t size)
      : list_(static_cast<size_t>(b.count) * sizeof(void*)) {
    const device::PointersArgs args{get(), static_cast<char*>(const_cast<void*>(a)),
                                    size * dtype_size(b.t), b.count};
    launch("pointers", linalg_kernel(b.t, "pointers"), grid_over(b.count), args);
  }
  void** get() const { return list_.get<void*>(); }

 private:
  Scratch list_;
};

// Sets the info of all matrices to 0.
inline void clear_info(MatrixBatch b, int* info) {
  set_bytes(info, 0, b.count * static_cast<int64_t>(sizeof(int)));
}

// Starts a kernel with a thread for each element.
inline void each_element(const char* name, MatrixBatch b, void* a, int64_t rows, int64_t cols,
                         int* info = nullptr) {
  const device::MatricesArgs args{a, info, rows, cols, b.count};
  launch(name, linalg_kernel(b.t, name), grid_over(rows * cols * b.count), args);
}

}  // namespace cograd::cuda
