// SPDX-License-Identifier: BSD-3-Clause
// Calls LAPACK on one column-major matrix of float, double or their complex types, with no gaps
// between columns. Functions that return an int return LAPACK's info: 0, or the place where the
// computation failed. `transpose` never conjugates.
#pragma once
#include <cstdint>

#include "cograd/complex.h"

namespace cograd::kernels {

namespace detail {
template <class T>
struct Parts {
  using real = T;
  using complex_type = cograd::Complex<T>;
};
template <class T>
struct Parts<cograd::Complex<T>> : Parts<T> {};
}  // namespace detail
template <class T>
using real_of = typename detail::Parts<T>::real;
template <class T>
using complex_of = typename detail::Parts<T>::complex_type;

// Computes P A = L U in place in the m x n matrix a; pivots receives min(m, n) row numbers from 1.
template <class T>
int lu_factor(int64_t m, int64_t n, T* a, int* pivots);
// Computes b (n x k) = op(A)^-1 b from lu_factor of the n x n matrix A; op transposes if
// `transpose`.
template <class T>
void lu_solve(bool transpose, int64_t n, int64_t k, const T* lu, const int* pivots, T* b);
// Replaces lu_factor's result by A^-1.
template <class T>
int lu_inverse(int64_t n, T* lu, const int* pivots);

// Computes A = L L^H from the lower triangle, in place; the upper triangle becomes zero.
template <class T>
int cholesky(int64_t n, T* a);

// Computes b (n x k) = op(A)^-1 b for a triangular n x n matrix; does not read the other triangle.
template <class T>
void triangular_solve(bool upper, bool transpose, bool unit, int64_t n, int64_t k, const T* a,
                      T* b);

// Computes A = Q R with min(m, n) <= columns <= m columns of Q, which replace the first columns of
// `a` (it has space for m x max(n, columns)); r receives the columns x n triangle.
template <class T>
void qr(int64_t m, int64_t n, int64_t columns, T* a, T* r);

// Computes Householder's reflectors of A = Q R: stores R above the diagonal of the m x n matrix a,
// the vectors below it, and min(m, n) factors in tau.
template <class T>
void reflectors(int64_t m, int64_t n, T* a, T* tau);

// Computes A = L D L^T, or L D L^H if `hermitian`, from the lower triangle (Bunch and Kaufman); the
// upper triangle becomes zero. pivots receives n entries in the format of LAPACK's sytrf.
template <class T>
int ldl_factor(bool hermitian, int64_t n, T* a, int* pivots);
template <class T>
void ldl_solve(bool hermitian, int64_t n, int64_t k, const T* a, const int* pivots, T* b);

// Computes ascending eigenvalues of a Hermitian matrix; reads one triangle. If `vectors`, the
// eigenvectors replace the matrix, otherwise it is destroyed.
template <class T>
int eigh(bool vectors, bool upper, int64_t n, T* a, real_of<T>* values);

// Computes A = U diag(s) V^H, s descending; destroys a. u is m x m and vh n x n if `full`, else m x
// k and k x n with k = min(m, n). If both are null, computes singular values only.
template <class T>
int svd(bool full, int64_t m, int64_t n, T* a, real_of<T>* s, T* u, T* vh);

// Computes the eigenvalues of any square matrix and, unless null, its eigenvectors in columns, of
// norm 1; destroys a.
template <class T>
int eig(int64_t n, T* a, complex_of<T>* values, complex_of<T>* vectors);

}  // namespace cograd::kernels
