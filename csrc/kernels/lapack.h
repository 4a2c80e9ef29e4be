// SPDX-License-Identifier: BSD-3-Clause
// LAPACK on one column-major matrix of float, double or complex numbers of these, its columns
// without gaps. Functions that return an int return LAPACK's info: 0, or where the computation
// broke down. To transpose never conjugates.
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

// P A = L U in place of the m x n matrix a; pivots: min(m, n) row numbers from 1.
template <class T>
int lu_factor(int64_t m, int64_t n, T* a, int* pivots);
// b (n x k) = op(A)^-1 b from lu_factor of the n x n matrix A; op transposes if `transpose`.
template <class T>
void lu_solve(bool transpose, int64_t n, int64_t k, const T* lu, const int* pivots, T* b);
// A^-1 in place of lu_factor's result.
template <class T>
int lu_inverse(int64_t n, T* lu, const int* pivots);

// A = L L^H from the lower triangle; the upper one becomes zero.
template <class T>
int cholesky(int64_t n, T* a);

// b (n x k) = op(A)^-1 b for a triangular n x n matrix, of which the other half is not read.
template <class T>
void triangular_solve(bool upper, bool transpose, bool unit, int64_t n, int64_t k, const T* a,
                      T* b);

// A = Q R with min(m, n) <= columns <= m columns of Q, which replace the first ones of `a` (there
// is room for m x max(n, columns)); r gets the columns x n triangle.
template <class T>
void qr(int64_t m, int64_t n, int64_t columns, T* a, T* r);

// Householder's reflectors of A = Q R: R above the diagonal of the m x n matrix a, the vectors
// below it, and min(m, n) factors tau.
template <class T>
void reflectors(int64_t m, int64_t n, T* a, T* tau);

// A = L D L^T, or L D L^H if `hermitian`, from the lower triangle (Bunch and Kaufman); the upper
// one becomes zero. pivots: n, as LAPACK's sytrf has them.
template <class T>
int ldl_factor(bool hermitian, int64_t n, T* a, int* pivots);
template <class T>
void ldl_solve(bool hermitian, int64_t n, int64_t k, const T* a, const int* pivots, T* b);

// Ascending eigenvalues of a Hermitian matrix, of which one triangle is read; the eigenvectors
// replace it if `vectors`, otherwise it is destroyed.
template <class T>
int eigh(bool vectors, bool upper, int64_t n, T* a, real_of<T>* values);

// A = U diag(s) V^H, s descending; destroys a. u is m x m and vh n x n if `full`, else m x k and
// k x n with k = min(m, n); both null: singular values only.
template <class T>
int svd(bool full, int64_t m, int64_t n, T* a, real_of<T>* s, T* u, T* vh);

// Eigenvalues of any square matrix and, unless null, its eigenvectors in columns, of norm 1;
// destroys a.
template <class T>
int eig(int64_t n, T* a, complex_of<T>* values, complex_of<T>* vectors);

}  // namespace cograd::kernels
