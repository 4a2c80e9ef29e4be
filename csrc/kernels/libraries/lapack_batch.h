// SPDX-License-Identifier: BSD-3-Clause
// Factors, solves and decomposes batches of matrices in parallel, by the functions of lapack.h.
// `t` is a float or complex dtype of 32 or 64 bits per part; `count` matrices follow one another,
// each column-major without gaps. info[i] receives LAPACK's info.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

struct MatrixBatch {
  DType t;
  int64_t count;
};

void batched_lu_factor(MatrixBatch b, int64_t m, int64_t n, void* a, int* pivots, int* info);
void batched_lu_solve(MatrixBatch b, bool transpose, int64_t n, int64_t k, const void* lu,
                      const int* pivots, void* x);
// Matrices whose info is not 0 become NaN.
void batched_lu_inverse(MatrixBatch b, int64_t n, void* lu, const int* pivots, const int* info);
// Writes determinants, their signs and log|det| from lu_factor; all three have one element per
// matrix. Returns true if, according to the pivots, some inverse would be inaccurate.
bool lu_determinants(MatrixBatch b, int64_t n, const void* lu, const int* pivots, void* det,
                     void* sign, void* logabs);
// Converts the row exchanges of `count` matrices, `k` each, to permutations of `rows` rows: row i
// of L U is row out[i] of A; with `inverse`, row i of A is row out[i] of L U.
void lu_permutations(int64_t count, const int* pivots, int64_t k, int64_t rows, bool inverse,
                     int64_t* out);

void batched_cholesky(MatrixBatch b, int64_t n, void* a, int* info);
void batched_triangular_solve(MatrixBatch b, bool upper, bool unit, int64_t n, int64_t k,
                              const void* a, void* x);
void batched_qr(MatrixBatch b, int64_t m, int64_t n, int64_t columns, void* a, void* r);
void batched_reflectors(MatrixBatch b, int64_t m, int64_t n, void* a, void* tau);
void batched_ldl_factor(MatrixBatch b, bool hermitian, int64_t n, void* a, int* pivots, int* info);
void batched_ldl_solve(MatrixBatch b, bool hermitian, int64_t n, int64_t k, const void* a,
                       const int* pivots, void* x);
void batched_eigh(MatrixBatch b, bool vectors, bool upper, int64_t n, void* a, void* values,
                  int* info);
// u and vh may both be null.
void batched_svd(MatrixBatch b, bool full, int64_t m, int64_t n, void* a, void* s, void* u,
                 void* vh, int* info);
// vectors may be null.
void batched_eig(MatrixBatch b, int64_t n, void* a, void* values, void* vectors, int* info);

// Returns true if none of n elements of dtype t is infinite or NaN.
bool all_finite(DType t, const void* x, int64_t n);
// Returns the position of the first of n entries that is not 0, or n.
int64_t first_nonzero(const int* info, int64_t n);

}  // namespace cograd::kernels
