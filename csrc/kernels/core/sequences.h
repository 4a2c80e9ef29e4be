// SPDX-License-Identifier: BSD-3-Clause
// Fills arrays with sequences: ranges, and the indices of triangles and combinations. `out` is
// contiguous with n elements.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// Writes start + i * step. The first is for integer dtypes and wraps, the second for all others.
void arange_integers(DType t, void* out, int64_t n, uint64_t start, uint64_t step);
void arange(DType t, void* out, int64_t n, double start, double step);

// Computes the i-th of n evenly spaced values from the nearer end, so that both ends are exact.
template <class V>
struct Evenly {
  V start, end, step;
  int64_t n;
  Evenly(V a, V b, int64_t count)
      : start(a),
        end(b),
        step(count > 1 ? (end - start) / static_cast<double>(count - 1) : V(0)),
        n(count) {}
  V operator()(int64_t i) const {
    return i < n / 2 || n == 1 ? start + step * static_cast<double>(i)
                               : end - step * static_cast<double>(n - 1 - i);
  }
};
// Write n evenly spaced values, in floating dtypes with torch's bits.
void linspace(DType t, void* out, int64_t n, double start, double end);
void linspace_complex(DType t, void* out, int64_t n, Complex<double> start, Complex<double> end);
// Write base to the power of these values.
void logspace(DType t, void* out, int64_t n, double base, double start, double end);
void logspace_complex(DType t, void* out, int64_t n, double base, Complex<double> start,
                      Complex<double> end);

// Writes row and column numbers of the elements of rows [first, last) of a triangle. The lower one
// has the first r + shift of `cols` columns in row r, the upper one has the others.
void triangle_indices(int64_t* row, int64_t* col, int64_t first, int64_t last, int64_t cols,
                      int64_t shift, bool upper);
// Writes i * n + j for all pairs i < j of n numbers.
void pair_indices(int64_t n, int64_t* out);
// Writes the first of the combinations of r out of n numbers, in order; with `repeat`, a number can
// occur several times.
void first_combination(int64_t* row, int64_t r, bool repeat);
// Writes the next `count` combinations behind the one at `row`.
void next_combinations(int64_t* row, int64_t count, int64_t n, int64_t r, bool repeat);
enum class PadMode : uint8_t { Constant, Reflect, Replicate, Circular };
// Writes for each of `count` positions of a padded dim which of its n elements is there; `left` of
// them are before the first element. Not for Constant.
void pad_indices(PadMode mode, int64_t n, int64_t left, int64_t count, int64_t* out);
// Returns the sum of n numbers, and raises if it overflows; for a negative number, which `bad`
// receives, returns -1.
int64_t total_of(const int64_t* counts, int64_t n, int64_t* bad);
// Writes the numbers 0, 1, ..., each i counts[i] times.
void repeat_numbers(const int64_t* counts, int64_t n, int64_t* out);

}  // namespace cograd::kernels
