// SPDX-License-Identifier: BSD-3-Clause
// Sorting, selection, uniqueness, searching and counting. NaN counts as larger than every number.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

// All of these take contiguous [outer, n, inner] and work along n; the sort is always stable.
// Either output may be null.
void sort(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, bool descending);
// Outputs are [outer, k, inner], 0 <= k <= n, in order whether asked to be sorted or not.
void topk(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, int64_t k, bool largest);
// k counts from 1; outputs are [outer, inner].
void kthvalue(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
              int64_t inner, int64_t k);
// The lower median; a row with a NaN gives NaN unless ignore_nan (then nanmedian).
void median(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner, bool ignore_nan);

// Distinct values of x[n], ascending, into values (room for n); returns how many. inverse[n] and
// counts (room for n) may be null. Every NaN is a value of its own, as in torch.
int64_t unique(DType t, const void* x, int64_t n, void* values, int64_t* inverse, int64_t* counts);
// The same over runs of equal neighbours, in order of appearance.
int64_t unique_consecutive(DType t, const void* x, int64_t n, void* values, int64_t* inverse,
                           int64_t* counts);
// Distinct rows of x[rows, cols] in lexicographic order: first_row[r] is a row holding distinct
// row r (room for `rows`); the caller gathers. Returns how many.
int64_t unique_rows(DType t, const void* x, int64_t rows, int64_t cols, bool consecutive,
                    int64_t* first_row, int64_t* inverse, int64_t* counts);

// Positions that keep `sorted` in order. sorted is [batch, n] or, with shared, [n]; values and out
// are [batch, m]; out_dtype is Int64 or Int32. sorter (null, or int64 of sorted's shape) gives an
// order for an unsorted sequence; its entries must already be checked.
void searchsorted(DType t, const void* sorted, const int64_t* sorter, int64_t n, bool shared,
                  const void* values, int64_t batch, int64_t m, bool right, DType out_dtype,
                  void* out);

// Largest entry + 1 of a non-negative integer array (0 if empty); raises RuntimeError on a
// negative entry.
int64_t bincount_size(DType t, const void* x, int64_t n);
// out[bins] is int64 without weights, double (or float for Float32 weights) with them; zeroed here.
void bincount(DType t, const void* x, int64_t n, DType weight_dtype, const void* weights,
              int64_t bins, void* out);
// Counts of x in [lo, hi] in equal bins (torch.histc / histogram with an int); out has x's dtype.
// weights (null, or x's dtype) has n entries. Values outside and NaN are not counted.
void histogram_uniform(DType t, const void* x, const void* weights, int64_t n, double lo, double hi,
                       int64_t bins, void* out);
// The same for bins + 1 ascending edges of x's dtype; the last bin is closed.
void histogram_edges(DType t, const void* x, const void* weights, int64_t n, const void* edges,
                     int64_t bins, void* out);

}  // namespace cograd::kernels
