// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/core/moves.h"

#include <algorithm>
#include <cstring>

#include "tensor/dims.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

void triangle(int64_t itemsize, void* out, const void* x, int64_t all, int64_t rows, int64_t cols,
              int64_t diagonal, bool upper) {
  COGRAD_SLOT(triangle, itemsize, out, x, all, rows, cols, diagonal, upper);
  const HeavyScope heavy(all * cols);
  // Clamps the diagonal first, so that no sum can overflow.
  const int64_t shift = std::clamp(diagonal, -rows - 1, cols + 1) + (upper ? 0 : 1);
  parallel_for(0, all, std::max<int64_t>(1, 32768 / cols), [=](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      const int64_t cut = std::clamp<int64_t>(i % rows + shift, 0, cols);
      char* to = static_cast<char*>(out) + i * cols * itemsize;
      const char* from = static_cast<const char*>(x) + i * cols * itemsize;
      const int64_t keep_from = upper ? cut : 0;
      const int64_t keep_to = upper ? cols : cut;
      if (to != from)
        std::memcpy(to + keep_from * itemsize, from + keep_from * itemsize,
                    static_cast<size_t>((keep_to - keep_from) * itemsize));
      std::memset(to, 0, static_cast<size_t>(keep_from * itemsize));
      std::memset(to + keep_to * itemsize, 0, static_cast<size_t>((cols - keep_to) * itemsize));
    }
  });
}

void join(std::span<const JoinedPart> parts, int64_t outer, void* out) {
  COGRAD_SLOT(join, parts, outer, out);
  char* to = static_cast<char*>(out);
  for (int64_t o = 0; o < outer; ++o)
    for (const JoinedPart& p : parts) {
      std::memcpy(to, static_cast<const char*>(p.data) + o * p.bytes, static_cast<size_t>(p.bytes));
      to += p.bytes;
    }
}

void copy_bytes(const void* from, int64_t n, void* to) {
  COGRAD_SLOT(copy_bytes, from, n, to);
  if (n > 0) std::memcpy(to, from, static_cast<size_t>(n));
}
void zero_bytes(void* at, int64_t n) {
  COGRAD_SLOT(zero_bytes, at, n);
  if (n > 0) std::memset(at, 0, static_cast<size_t>(n));
}

void repeat_row(const void* row, int64_t bytes, int64_t rows, void* out) {
  COGRAD_SLOT(repeat_row, row, bytes, rows, out);
  for (char* to = static_cast<char*>(out); rows > 0; --rows, to += bytes)
    std::memcpy(to, row, static_cast<size_t>(bytes));
}

void add_strided(DType t, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                 void* region, const void* values) {
  COGRAD_SLOT(add_strided, t, sizes, strides, region, values);
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* src = static_cast<const T*>(values);
    Dims index(sizes.size());
    T* at = static_cast<T*>(region);
    for (int64_t k = 0; k < n; ++k) {
      if constexpr (std::is_same_v<T, bool>)
        *at = *at || src[k];
      else
        *at = static_cast<T>(*at + src[k]);
      for (size_t d = index.size(); d-- > 0;) {
        at += strides[d];
        if (++index[d] < sizes[d]) break;
        at -= strides[d] * sizes[d];
        index[d] = 0;
      }
    }
  });
}

}  // namespace cograd::kernels
