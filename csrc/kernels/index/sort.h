// SPDX-License-Identifier: BSD-3-Clause
// Sorting, selection, uniqueness, searching and counting. NaN is larger than every other value.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "cograd/dtype.h"

namespace cograd::kernels {

// These functions work along n on contiguous [outer, n, inner]; the sort is always stable. Either
// output may be null.
void sort(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, bool descending);
// Outputs are [outer, k, inner], 0 <= k <= n; they are always sorted.
void topk(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, int64_t k, bool largest);
// k counts from 1; outputs are [outer, inner].
void kthvalue(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
              int64_t inner, int64_t k);
// Computes the lower median; a row with a NaN results in NaN unless ignore_nan (then nanmedian).
void median(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner, bool ignore_nan);

// Writes the distinct values of x[n], ascending, to `values` (space for n); returns their number.
// inverse[n] and counts (space for n) may be null. Each NaN is a separate value, as in torch.
int64_t unique(DType t, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts);
// Does the same for runs of equal neighbours, in order of appearance.
int64_t unique_consecutive(DType t, const void* x, int64_t n, void* values, int64_t* inverse,
                           int64_t* counts);
// Finds the distinct rows of x[rows, cols] in lexicographic order: first_row[r] is the number of a
// row that equals distinct row r (space for `rows`); the caller gathers. Returns their number.
int64_t unique_rows(DType t, const void* x, int64_t rows, int64_t cols, bool consecutive,
                    int64_t* first_row, int64_t* inverse, int64_t* counts);

// Finds the positions that keep `sorted` in order. sorted is [batch, n] or, with shared, [n];
// values and out are [batch, m]; out_dtype is Int64 or Int32. sorter (null, or int64 of sorted's
// shape) is the order of an unsorted sequence; its entries must already be checked.
void searchsorted(DType t, const void* sorted, const int64_t* sorter, int64_t n, bool shared,
                  const void* values, int64_t batch, int64_t m, bool right, DType out_dtype,
                  void* out);

// Returns the largest entry + 1 of a non-negative integer array (0 if empty); raises RuntimeError
// for a negative entry.
int64_t bincount_size(DType t, const void* x, int64_t n);
// Zeroes and fills out[bins]: int64 without weights, else double (float for Float32 weights).
void bincount(DType t, const void* x, int64_t n, DType weight_dtype, const void* weights,
              int64_t bins, void* out);
// Counts x in [lo, hi] in equal bins (torch.histc, or histogram with an int); out has x's dtype.
// weights (null, or x's dtype) has n entries. Values outside the range and NaN are not counted.
void histogram_uniform(DType t, const void* x, const void* weights, int64_t n, double lo, double hi,
                       int64_t bins, void* out);
// Does the same for bins + 1 ascending edges of x's dtype; the last bin is closed.
void histogram_edges(DType t, const void* x, const void* weights, int64_t n, const void* edges,
                     int64_t bins, void* out);

enum class Interpolation : uint8_t { Linear, Lower, Higher, Midpoint, Nearest };
struct QuantileSpec {
  const double* fractions;  // on the host
  int64_t count;
  Interpolation mode;
  bool ignore_nan;
};
struct QuantileOutputs {
  int64_t *low, *high;  // [outer, count, inner]
  void *weight, *steps;

  template <class F>
  void each_pointer(F&& f) {
    for (int64_t** p : {&low, &high}) f(*p);
    for (void** p : {&weight, &steps}) f(*p);
  }
};
// Finds the two elements of every row that form each quantile, the weight of the second, and the
// derivative of the rank with respect to the fraction (steps, [outer, inner]). x is float or
// double; `order` sorts its rows.
void quantile_positions(DType t, const void* x, const int64_t* order, int64_t outer, int64_t n,
                        int64_t inner, const QuantileSpec& q, const QuantileOutputs& out);
// Finds the longest run of equal values in each sorted row. In a tie the smallest value wins; the
// last of its positions is reported.
void modes(DType t, const void* sorted, const int64_t* order, int64_t outer, int64_t n,
           int64_t inner, void* values, int64_t* indices);
// Writes (x[i] is in sorted[m]) != invert; at[i] is where searchsorted finds it.
void is_member(DType t, const void* sorted, int64_t m, const void* x, const int64_t* at, int64_t n,
               bool invert, bool* out);

struct ValueRange {
  double lo, hi;
};
// Returns the smallest and the largest of n > 0 values; NaN if one of them is NaN.
ValueRange value_range(const double* x, int64_t n);

}  // namespace cograd::kernels
