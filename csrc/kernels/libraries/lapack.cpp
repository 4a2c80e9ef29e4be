// SPDX-License-Identifier: BSD-3-Clause
// Calls OpenBLAS's LAPACK: handles workspace sizes, index widths and Fortran's calling convention.
#include "kernels/libraries/lapack.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cograd/error.h"

// The trailing size_t are the lengths of the character arguments, as Fortran compilers pass them.
#define COGRAD_LAPACK(T, p)                                                                        \
  void scipy_##p##getrf_(const int* m, const int* n, T* a, const int* lda, int* ipiv, int* info);  \
  void scipy_##p##getrs_(const char* trans, const int* n, const int* nrhs, const T* a,             \
                         const int* lda, const int* ipiv, T* b, const int* ldb, int* info,         \
                         size_t);                                                                  \
  void scipy_##p##getri_(const int* n, T* a, const int* lda, const int* ipiv, T* work,             \
                         const int* lwork, int* info);                                             \
  void scipy_##p##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, size_t); \
  void scipy_##p##trsm_(const char* side, const char* uplo, const char* trans, const char* diag,   \
                        const int* m, const int* n, const T* alpha, const T* a, const int* lda,    \
                        T* b, const int* ldb, size_t, size_t, size_t, size_t);                     \
  void scipy_##p##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,        \
                         const int* lwork, int* info);                                             \
  void scipy_##p##sytrf_(const char* uplo, const int* n, T* a, const int* lda, int* ipiv, T* work, \
                         const int* lwork, int* info, size_t);                                     \
  void scipy_##p##sytrs_(const char* uplo, const int* n, const int* nrhs, const T* a,              \
                         const int* lda, const int* ipiv, T* b, const int* ldb, int* info,         \
                         size_t);
#define COGRAD_LAPACK_REAL(T, p)                                                                   \
  void scipy_##p##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda,           \
                         const T* tau, T* work, const int* lwork, int* info);                      \
  void scipy_##p##syevd_(const char* jobz, const char* uplo, const int* n, T* a, const int* lda,   \
                         T* w, T* work, const int* lwork, int* iwork, const int* liwork,           \
                         int* info, size_t, size_t);                                               \
  void scipy_##p##gesdd_(const char* jobz, const int* m, const int* n, T* a, const int* lda, T* s, \
                         T* u, const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork,  \
                         int* iwork, int* info, size_t);                                           \
  void scipy_##p##geev_(const char* jobvl, const char* jobvr, const int* n, T* a, const int* lda,  \
                        T* wr, T* wi, T* vl, const int* ldvl, T* vr, const int* ldvr, T* work,     \
                        const int* lwork, int* info, size_t, size_t);
#define COGRAD_LAPACK_COMPLEX(T, R, p)                                                             \
  void scipy_##p##hetrf_(const char* uplo, const int* n, T* a, const int* lda, int* ipiv, T* work, \
                         const int* lwork, int* info, size_t);                                     \
  void scipy_##p##hetrs_(const char* uplo, const int* n, const int* nrhs, const T* a,              \
                         const int* lda, const int* ipiv, T* b, const int* ldb, int* info,         \
                         size_t);                                                                  \
  void scipy_##p##ungqr_(const int* m, const int* n, const int* k, T* a, const int* lda,           \
                         const T* tau, T* work, const int* lwork, int* info);                      \
  void scipy_##p##heevd_(const char* jobz, const char* uplo, const int* n, T* a, const int* lda,   \
                         R* w, T* work, const int* lwork, R* rwork, const int* lrwork, int* iwork, \
                         const int* liwork, int* info, size_t, size_t);                            \
  void scipy_##p##gesdd_(const char* jobz, const int* m, const int* n, T* a, const int* lda, R* s, \
                         T* u, const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork,  \
                         R* rwork, int* iwork, int* info, size_t);                                 \
  void scipy_##p##geev_(const char* jobvl, const char* jobvr, const int* n, T* a, const int* lda,  \
                        T* w, T* vl, const int* ldvl, T* vr, const int* ldvr, T* work,             \
                        const int* lwork, R* rwork, int* info, size_t, size_t);
using cfloat = cograd::Complex<float>;
using cdouble = cograd::Complex<double>;
extern "C" {
COGRAD_LAPACK(float, s)
COGRAD_LAPACK(double, d)
COGRAD_LAPACK(cfloat, c)
COGRAD_LAPACK(cdouble, z)
COGRAD_LAPACK_REAL(float, s)
COGRAD_LAPACK_REAL(double, d)
COGRAD_LAPACK_COMPLEX(cfloat, float, c)
COGRAD_LAPACK_COMPLEX(cdouble, double, z)
}
#undef COGRAD_LAPACK
#undef COGRAD_LAPACK_REAL
#undef COGRAD_LAPACK_COMPLEX

namespace cograd::kernels {
namespace {

// Defines one name for all dtypes: getrf<float> is sgetrf, getrf<double> is dgetrf, and so on.
#define COGRAD_ROUTINE(name, real, complex_one)   \
  template <class T>                              \
  constexpr auto* name = [] {                     \
    if constexpr (std::is_same_v<T, float>)       \
      return &scipy_s##real##_;                   \
    else if constexpr (std::is_same_v<T, double>) \
      return &scipy_d##real##_;                   \
    else if constexpr (std::is_same_v<T, cfloat>) \
      return &scipy_c##complex_one##_;            \
    else                                          \
      return &scipy_z##complex_one##_;            \
  }();
COGRAD_ROUTINE(getrf, getrf, getrf)
COGRAD_ROUTINE(getrs, getrs, getrs)
COGRAD_ROUTINE(getri, getri, getri)
COGRAD_ROUTINE(potrf, potrf, potrf)
COGRAD_ROUTINE(trsm, trsm, trsm)
COGRAD_ROUTINE(geqrf, geqrf, geqrf)
COGRAD_ROUTINE(orgqr, orgqr, ungqr)
COGRAD_ROUTINE(heevd, syevd, heevd)
COGRAD_ROUTINE(gesdd, gesdd, gesdd)
COGRAD_ROUTINE(geev, geev, geev)
COGRAD_ROUTINE(sytrf, sytrf, sytrf)
COGRAD_ROUTINE(sytrs, sytrs, sytrs)
COGRAD_ROUTINE(hetrf, sytrf, hetrf)
COGRAD_ROUTINE(hetrs, sytrs, hetrs)
#undef COGRAD_ROUTINE

int narrow(int64_t v) {
  COGRAD_CHECK(v <= std::numeric_limits<int>::max(), "linalg: a matrix has ", v,
               " rows or columns, expected at most 2147483647");
  return static_cast<int>(v);
}
// Leading dimensions must be positive, even for empty matrices.
int leading(int64_t rows) { return std::max(1, narrow(rows)); }

template <class T>
real_of<T> real_part(T v) {
  if constexpr (is_complex_type<T>)
    return v.re;
  else
    return v;
}

// Allocates a workspace for `run`, which returns the size for lwork = -1. The size is a floating
// number, rounded in float: 1 % more covers that.
template <class T, class F>
void with_workspace(const F& run) {
  T size = 0;
  run(&size, -1);
  const auto n = static_cast<int64_t>(static_cast<double>(real_part(size)) * 1.01) + 1;
  std::vector<T> work(static_cast<size_t>(n));
  run(work.data(), narrow(n));
}

}  // namespace

namespace {
template <class T>
bool is_nan(T v) {
  return v != v;
}
template <class T>
bool is_nan(cograd::Complex<T> v) {
  return is_nan(v.re) || is_nan(v.im);
}
// Fills with NaN what a NaN pivot divides and everything computed from it: OpenBLAS leaves zeros
// there.
template <class T>
void spread_nan(int64_t m, int64_t n, T* a) {
  int64_t k = 0;
  while (k < std::min(m, n) && !is_nan(a[k * m + k])) ++k;
  for (int64_t j = k; j < n; ++j)
    std::fill_n(a + j * m + k + 1, std::max<int64_t>(m - k - 1, 0), a[k * m + k]);
}
}  // namespace

template <class T>
int lu_factor(int64_t m, int64_t n, T* a, int* pivots) {
  const int im = narrow(m), in = narrow(n), ld = leading(m);
  int info = 0;
  if (m > 0 && n > 0) getrf<T>(&im, &in, a, &ld, pivots, &info);
  spread_nan(m, n, a);
  return info;
}

template <class T>
void lu_solve(bool transpose, int64_t n, int64_t k, const T* lu, const int* pivots, T* b) {
  const int in = narrow(n), ik = narrow(k), ld = leading(n);
  int info = 0;
  if (n > 0 && k > 0) getrs<T>(transpose ? "T" : "N", &in, &ik, lu, &ld, pivots, b, &ld, &info, 1);
}

template <class T>
int lu_inverse(int64_t n, T* lu, const int* pivots) {
  const int in = narrow(n), ld = leading(n);
  int info = 0;
  if (n == 0) return 0;
  with_workspace<T>([&](T* work, int size) { getri<T>(&in, lu, &ld, pivots, work, &size, &info); });
  return info;
}

template <class T>
int cholesky(int64_t n, T* a) {
  const int in = narrow(n), ld = leading(n);
  int info = 0;
  if (n > 0) potrf<T>("L", &in, a, &ld, &info, 1);
  for (int64_t j = 0; j < n && info == 0; ++j)  // OpenBLAS treats NaN as positive
    if (!(real_part(a[j * n + j]) > 0)) info = static_cast<int>(j + 1);
  for (int64_t j = 1; j < n; ++j) std::fill_n(a + j * n, j, T(0));
  return info;
}

template <class T>
void triangular_solve(bool upper, bool transpose, bool unit, int64_t n, int64_t k, const T* a,
                      T* b) {
  const int in = narrow(n), ik = narrow(k), ld = leading(n);
  const T one = 1;
  if (n > 0 && k > 0)
    trsm<T>("L", upper ? "U" : "L", transpose ? "T" : "N", unit ? "U" : "N", &in, &ik, &one, a, &ld,
            b, &ld, 1, 1, 1, 1);
}

template <class T>
void qr(int64_t m, int64_t n, int64_t columns, T* a, T* r) {
  const int im = narrow(m), in = narrow(n), ld = leading(m);
  const int64_t rank = std::min(m, n);
  const int reflectors = narrow(rank);
  std::vector<T> tau(static_cast<size_t>(rank));
  int info = 0;
  if (rank > 0)
    with_workspace<T>(
        [&](T* work, int size) { geqrf<T>(&im, &in, a, &ld, tau.data(), work, &size, &info); });
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < columns; ++i)
      r[j * columns + i] = i <= j && i < rank ? a[j * m + i] : T(0);
  const int wanted = narrow(columns);
  if (columns > 0)
    with_workspace<T>([&](T* work, int size) {
      orgqr<T>(&im, &wanted, &reflectors, a, &ld, tau.data(), work, &size, &info);
    });
}

template <class T>
void reflectors(int64_t m, int64_t n, T* a, T* tau) {
  const int im = narrow(m), in = narrow(n), ld = leading(m);
  int info = 0;
  if (m > 0 && n > 0)
    with_workspace<T>(
        [&](T* work, int size) { geqrf<T>(&im, &in, a, &ld, tau, work, &size, &info); });
}

template <class T>
int ldl_factor(bool hermitian, int64_t n, T* a, int* pivots) {
  const int in = narrow(n), ld = leading(n);
  int info = 0;
  if (n == 0) return 0;
  with_workspace<T>([&](T* work, int size) {
    (hermitian ? hetrf<T> : sytrf<T>)("L", &in, a, &ld, pivots, work, &size, &info, 1);
  });
  for (int64_t j = 1; j < n; ++j) std::fill_n(a + j * n, j, T(0));
  return info;
}

template <class T>
void ldl_solve(bool hermitian, int64_t n, int64_t k, const T* a, const int* pivots, T* b) {
  const int in = narrow(n), ik = narrow(k), ld = leading(n);
  int info = 0;
  if (n > 0 && k > 0)
    (hermitian ? hetrs<T> : sytrs<T>)("L", &in, &ik, a, &ld, pivots, b, &ld, &info, 1);
}

template <class T>
int eigh(bool vectors, bool upper, int64_t n, T* a, real_of<T>* values) {
  const int in = narrow(n), ld = leading(n);
  const char *job = vectors ? "V" : "N", *half = upper ? "U" : "L";
  int info = 0;
  if (n == 0) return 0;
  std::vector<int> integers(static_cast<size_t>(vectors ? 3 + 5 * n : 1));
  const int count = narrow(static_cast<int64_t>(integers.size()));
  if constexpr (is_complex_type<T>) {
    std::vector<real_of<T>> reals(static_cast<size_t>(vectors ? 1 + 5 * n + 2 * n * n : n));
    const int real_count = narrow(static_cast<int64_t>(reals.size()));
    with_workspace<T>([&](T* work, int size) {
      heevd<T>(job, half, &in, a, &ld, values, work, &size, reals.data(), &real_count,
               integers.data(), &count, &info, 1, 1);
    });
  } else {
    with_workspace<T>([&](T* work, int size) {
      heevd<T>(job, half, &in, a, &ld, values, work, &size, integers.data(), &count, &info, 1, 1);
    });
  }
  return info;
}

template <class T>
int svd(bool full, int64_t m, int64_t n, T* a, real_of<T>* s, T* u, T* vh) {
  const int im = narrow(m), in = narrow(n), ld = leading(m);
  const int64_t rank = std::min(m, n);
  if (rank == 0) return 0;
  const char* job = u == nullptr ? "N" : full ? "A" : "S";
  const int ldv = u == nullptr ? 1 : leading(full ? n : rank);
  std::vector<int> integers(static_cast<size_t>(8 * rank));
  int info = 0;
  if constexpr (is_complex_type<T>) {
    const int64_t room =
        u == nullptr ? 7 * rank : rank * std::max(5 * rank + 7, 2 * std::max(m, n) + 2 * rank + 1);
    std::vector<real_of<T>> reals(static_cast<size_t>(room));
    with_workspace<T>([&](T* work, int size) {
      gesdd<T>(job, &im, &in, a, &ld, s, u, &ld, vh, &ldv, work, &size, reals.data(),
               integers.data(), &info, 1);
    });
  } else {
    with_workspace<T>([&](T* work, int size) {
      gesdd<T>(job, &im, &in, a, &ld, s, u, &ld, vh, &ldv, work, &size, integers.data(), &info, 1);
    });
  }
  return info;
}

namespace {

// LAPACK stores the vectors of a conjugate pair as the parts of the first one, in two columns.
template <class T>
void join_vectors(int64_t n, const T* im_values, const T* columns, Complex<T>* vectors) {
  for (int64_t j = 0; j < n; ++j) {
    const T* re = columns + j * n;
    Complex<T>* v = vectors + j * n;
    if (im_values[j] == 0) {
      for (int64_t i = 0; i < n; ++i) v[i] = {re[i], T(0)};
      continue;
    }
    const T* im = re + n;
    for (int64_t i = 0; i < n; ++i) {
      v[i] = {re[i], im[i]};
      v[n + i] = {re[i], -im[i]};
    }
    ++j;
  }
}

}  // namespace

template <class T>
int eig(int64_t n, T* a, complex_of<T>* values, complex_of<T>* vectors) {
  const int in = narrow(n), ld = leading(n), one = 1;
  const char* job = vectors == nullptr ? "N" : "V";
  int info = 0;
  if (n == 0) return 0;
  const int ldv = vectors == nullptr ? 1 : ld;
  if constexpr (is_complex_type<T>) {
    std::vector<real_of<T>> reals(static_cast<size_t>(2 * n));
    with_workspace<T>([&](T* work, int size) {
      geev<T>("N", job, &in, a, &ld, values, nullptr, &one, vectors, &ldv, work, &size,
              reals.data(), &info, 1, 1);
    });
  } else {
    std::vector<T> parts(static_cast<size_t>(2 * n));
    std::vector<T> columns(static_cast<size_t>(vectors == nullptr ? 0 : n * n));
    T *re = parts.data(), *im = re + n;
    with_workspace<T>([&](T* work, int size) {
      geev<T>("N", job, &in, a, &ld, re, im, nullptr, &one, columns.data(), &ldv, work, &size,
              &info, 1, 1);
    });
    for (int64_t i = 0; i < n; ++i) values[i] = {re[i], im[i]};
    if (vectors != nullptr && info == 0) join_vectors(n, im, columns.data(), vectors);
  }
  return info;
}

#define COGRAD_INSTANTIATE(T)                                                       \
  template int lu_factor(int64_t, int64_t, T*, int*);                               \
  template void lu_solve(bool, int64_t, int64_t, const T*, const int*, T*);         \
  template int lu_inverse(int64_t, T*, const int*);                                 \
  template int cholesky(int64_t, T*);                                               \
  template void triangular_solve(bool, bool, bool, int64_t, int64_t, const T*, T*); \
  template void qr(int64_t, int64_t, int64_t, T*, T*);                              \
  template void reflectors(int64_t, int64_t, T*, T*);                               \
  template int ldl_factor(bool, int64_t, T*, int*);                                 \
  template void ldl_solve(bool, int64_t, int64_t, const T*, const int*, T*);        \
  template int eigh(bool, bool, int64_t, T*, real_of<T>*);                          \
  template int svd(bool, int64_t, int64_t, T*, real_of<T>*, T*, T*);                \
  template int eig(int64_t, T*, complex_of<T>*, complex_of<T>*);
COGRAD_INSTANTIATE(float)
COGRAD_INSTANTIATE(double)
COGRAD_INSTANTIATE(cfloat)
COGRAD_INSTANTIATE(cdouble)
#undef COGRAD_INSTANTIATE

}  // namespace cograd::kernels
