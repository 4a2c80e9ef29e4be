// SPDX-License-Identifier: BSD-3-Clause
// Products with a sparse matrix in compressed rows (CSR), float or double.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "cograd/dtype.h"

namespace cograd::kernels {

// The pattern of a matrix. The entries of row i are start[i] to start[i + 1]; entry e is in column
// col[e], and its value is values[place[e]], or values[e] if there are no places. All arrays have
// one index type, int32 or int64.
struct CsrPattern {
  DType index;
  const void *start, *col, *place;
  int64_t rows, cols, entries;

  template <class F>
  void each_pointer(F&& f) {
    for (const void** p : {&start, &col, &place}) f(*p);
  }
};

// Both return false if an index is out of range, having read and written nothing out of range.
// Writes out = A @ x for x [cols, k] and out [rows, k], contiguous. The terms of an element are
// added in the order of the entries by fused multiplications.
bool csr_product(DType t, const CsrPattern& a, const void* values, const void* x, int64_t k,
                 void* out);
// Writes out[place[e]] = dot(y[i], x[col[e]]) for each entry e of each row i, with y [rows, k].
bool csr_sampled(DType t, const CsrPattern& a, const void* y, const void* x, int64_t k, void* out);
// Writes the pattern of the transposed matrix.
bool csr_transpose(const CsrPattern& a, void* start, void* col, void* place);

struct CsrLoops {
  bool (*product)(DType t, const CsrPattern& a, const void* values, const void* x, int64_t k,
                  void* out, int64_t lo, int64_t hi);
  bool (*sampled)(DType t, const CsrPattern& a, const void* y, const void* x, int64_t k, void* out,
                  int64_t lo, int64_t hi);
};
const CsrLoops& csr_loops();

}  // namespace cograd::kernels
