// SPDX-License-Identifier: BSD-3-Clause
// The arguments of moves.h and sequences.h, for the host and for kernels' text.
#pragma once

namespace cograd::device {

struct TriangleArgs {
  const void* x;
  void* out;
  long long n, rows, cols, shift;
  int upper;
};
// Copies n elements in rows of `row`, which begin `step` elements apart in out. The source repeats
// after `period` elements.
struct RowCopyArgs {
  const void* x;
  void* out;
  long long n, row, step, period;
};

struct RangeArgs {
  void* out;
  long long n;
  unsigned long long first, by;  // integers
  double start, end, step, base;
};

// Column numbers of row r of a triangle begin or end at the cut.
struct TriangleSpace {
  long long first, last, cols, shift;
  int upper;
  long long cut(long long r) const {
    const long long c = shift + r;
    return c < 0 ? 0 : c > cols ? cols : c;
  }
  // Number of elements in rows [first, r).
  long long before(long long r) const {
    const long long low = -shift < first ? first : -shift > r ? r : -shift;
    const long long top = cols - shift, high = top < low ? low : top > r ? r : top;
    const long long n = high - low;
    const long long left = n * shift + (low + high - 1) * n / 2 + (r - high) * cols;
    return upper ? (r - first) * cols - left : left;
  }
};
struct TriangleIndexArgs {
  long long *row, *col;  // without col, row gets the number r * cols + c
  long long n;
  TriangleSpace space;
};
struct PadArgs {
  long long* out;
  long long n, left, count;
  int mode;
};
// Writes the offset, in elements, of each element of a strided region.
struct OffsetArgs {
  long long* out;
  long long n;
  int ndim;
  long long size[8], stride[8];
};
struct RepeatArgs {
  const long long* ends;  // [n], where the numbers 0, 1, ... end
  long long* out;
  long long n, total;
};

}  // namespace cograd::device
