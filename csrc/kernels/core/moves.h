// SPDX-License-Identifier: BSD-3-Clause
// Moves rows and blocks of elements as bytes.
#pragma once
#include <cstdint>
#include <span>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Copies the kept part of each row of x to out (both contiguous, may be the same) and zeros the
// rest. There are `all` rows, `rows` per matrix. Column c of row r is kept if c - r <= diagonal
// (lower) or c - r >= diagonal (upper).
void triangle(int64_t itemsize, void* out, const void* x, int64_t all, int64_t rows, int64_t cols,
              int64_t diagonal, bool upper);

// One of the arrays that are joined: each of its `outer` blocks has this many bytes.
struct JoinedPart {
  const void* data;
  int64_t bytes;

  template <class F>
  void each_pointer(F&& f) {
    f(data);
  }
};
// Writes the first blocks of all parts one after the other, then the second blocks, and so on.
void join(std::span<const JoinedPart> parts, int64_t outer, void* out);

void copy_bytes(const void* from, int64_t n, void* to);
void zero_bytes(void* at, int64_t n);

// Writes the same `bytes` bytes `rows` times.
void repeat_row(const void* row, int64_t bytes, int64_t rows, void* out);

// Adds contiguous values to a strided region one by one, since its elements may share memory;
// strides are in elements.
void add_strided(DType t, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                 void* region, const void* values);

}  // namespace cograd::kernels
