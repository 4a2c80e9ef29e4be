// SPDX-License-Identifier: BSD-3-Clause
// A library with the functions of cuSOLVER and cuBLAS that cograd calls, which computes by plain
// loops on the fake driver. It writes NaN into workspaces, and refuses memory that is not the
// GPU's.
#include <algorithm>
#include <complex>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "library.h"

namespace {

enum : int { kSuccess = 0, kNotInitialized = 1, kSolverInvalid = 3, kBlasInvalid = 7 };

using Number = std::complex<double>;

struct Handle {
  int device;
  bool has_stream = false;
  void* stream = nullptr;
};

template <class T>
Number number_of(T v) {
  return {static_cast<double>(v), 0};
}
template <class T>
Number number_of(std::complex<T> v) {
  return {static_cast<double>(v.real()), static_cast<double>(v.imag())};
}
template <class T>
T element_of(Number v) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(v.real());
  else
    return T(static_cast<typename T::value_type>(v.real()),
             static_cast<typename T::value_type>(v.imag()));
}

// A column-major matrix in memory of the GPU.
template <class T>
struct Matrix {
  T* data;
  int rows, cols, ld;

  Number get(int i, int j) const { return number_of(data[static_cast<ptrdiff_t>(j) * ld + i]); }
  void set(int i, int j, Number v) const {
    data[static_cast<ptrdiff_t>(j) * ld + i] = element_of<T>(v);
  }
  bool valid() const {
    const size_t last = static_cast<size_t>(cols - 1) * static_cast<size_t>(ld);
    return rows >= 1 && cols >= 1 && ld >= rows &&
           fake::driver().owns(data, (last + static_cast<size_t>(rows)) * sizeof(T));
  }
};

bool ready(const void* handle) {
  const auto* h = static_cast<const Handle*>(handle);
  return h != nullptr && h->has_stream && h->device == fake::driver().device();
}
void start(const char* name, const void* handle, std::function<void()> work) {
  fake::driver().enqueue(name, static_cast<const Handle*>(handle)->stream, std::move(work));
}
bool valid_info(const int* info, int n = 1) {
  return fake::driver().owns(info, static_cast<size_t>(n) * sizeof(int));
}
// The size of workspaces, in elements.
int work_size(int m, int n) { return 3 * m + 5 * n + 7; }
template <class T>
bool valid_work(const T* work, int size, int m, int n) {
  return size == work_size(m, n) &&
         fake::driver().owns(work, static_cast<size_t>(size) * sizeof(T));
}
template <class T>
void spoil(T* work, int size) {
  std::memset(static_cast<void*>(work), 0xff, static_cast<size_t>(size) * sizeof(T));
}

// ---- triangles and pivots
// --------------------------------------------------------------------------

// As LAPACK's, this takes a NaN for positive.
template <class T>
int cholesky(const Matrix<T>& a) {
  for (int j = 0; j < a.rows; ++j) {
    double d = a.get(j, j).real();
    for (int k = 0; k < j; ++k) d -= std::norm(a.get(j, k));
    if (d <= 0) return j + 1;
    d = std::sqrt(d);
    a.set(j, j, d);
    for (int i = j + 1; i < a.rows; ++i) {
      Number v = a.get(i, j);
      for (int k = 0; k < j; ++k) v -= a.get(i, k) * std::conj(a.get(j, k));
      a.set(i, j, v / d);
    }
  }
  return 0;
}

template <class T>
int lu(const Matrix<T>& a, int* pivots) {
  int info = 0;
  const auto size = [&](int i, int j) {
    const Number v = a.get(i, j);
    return std::abs(v.real()) + std::abs(v.imag());
  };
  for (int j = 0; j < std::min(a.rows, a.cols); ++j) {
    int p = j;
    for (int i = j + 1; i < a.rows; ++i)
      if (size(i, j) > size(p, j)) p = i;
    pivots[j] = p + 1;
    for (int k = 0; k < a.cols && p != j; ++k) {
      const Number kept = a.get(j, k);
      a.set(j, k, a.get(p, k));
      a.set(p, k, kept);
    }
    if (a.get(j, j) == 0.0) {
      if (info == 0) info = j + 1;
      continue;
    }
    for (int i = j + 1; i < a.rows; ++i) {
      const Number factor = a.get(i, j) / a.get(j, j);
      a.set(i, j, factor);
      for (int k = j + 1; k < a.cols; ++k) a.set(i, k, a.get(i, k) - factor * a.get(j, k));
    }
  }
  return info;
}

template <class T>
void solve_triangle(bool upper, bool transposed, bool unit, const Matrix<T>& a,
                    const Matrix<T>& b) {
  const int n = a.rows;
  const bool backward = upper != transposed;
  for (int c = 0; c < b.cols; ++c)
    for (int s = 0; s < n; ++s) {
      const int i = backward ? n - 1 - s : s;
      Number v = b.get(i, c);
      for (int r = 0; r < s; ++r) {
        const int k = backward ? n - 1 - r : r;
        v -= (transposed ? a.get(k, i) : a.get(i, k)) * b.get(k, c);
      }
      b.set(i, c, unit ? v : v / a.get(i, i));
    }
}
template <class T>
void solve_lu(bool transposed, const Matrix<T>& a, const int* pivots, const Matrix<T>& b) {
  const auto exchange = [&](int j) {
    for (int c = 0; c < b.cols && pivots[j] - 1 != j; ++c) {
      const Number kept = b.get(j, c);
      b.set(j, c, b.get(pivots[j] - 1, c));
      b.set(pivots[j] - 1, c, kept);
    }
  };
  for (int j = 0; j < a.rows && !transposed; ++j) exchange(j);
  solve_triangle(transposed, transposed, !transposed, a, b);
  solve_triangle(!transposed, transposed, transposed, a, b);
  for (int j = a.rows; j-- > 0 && transposed;) exchange(j);
}

// ---- the libraries' functions for each dtype
// --------------------------------------------------------------------------

template <class T>
int potrf(void* handle, int triangle, int n, T* a, int ld, T* work, int size, int* info) {
  const Matrix<T> m{a, n, n, ld};
  if (!ready(handle)) return kNotInitialized;
  if (triangle != 0 || !m.valid() || !valid_work(work, size, n, n) || !valid_info(info))
    return kSolverInvalid;
  start("cusolver_potrf", handle, [=] {
    spoil(work, size);
    *info = cholesky(m);
  });
  return kSuccess;
}
template <class T>
int potrf_batched(void* handle, int triangle, int n, T** list, int ld, int* info, int count) {
  if (!ready(handle)) return kNotInitialized;
  if (triangle != 0 || n < 1 || ld < n || count < 1 || !valid_info(info, count) ||
      !fake::driver().owns(list, static_cast<size_t>(count) * sizeof(T*)))
    return kSolverInvalid;
  start("cusolver_potrfBatched", handle, [=] {
    for (int i = 0; i < count; ++i) info[i] = cholesky(Matrix<T>{list[i], n, n, ld});
  });
  return kSuccess;
}
template <class T>
int getrf(void* handle, int rows, int cols, T* a, int ld, T* work, int* pivots, int* info) {
  const Matrix<T> m{a, rows, cols, ld};
  const int size = work_size(rows, cols);
  if (!ready(handle)) return kNotInitialized;
  if (!m.valid() || !valid_work(work, size, rows, cols) || !valid_info(info) ||
      !valid_info(pivots, std::min(rows, cols)))
    return kSolverInvalid;
  start("cusolver_getrf", handle, [=] {
    spoil(work, size);
    *info = lu(m, pivots);
  });
  return kSuccess;
}
template <class T>
int getrs(void* handle, int transposed, int n, int k, const T* a, int lda, const int* pivots, T* b,
          int ldb, int* info) {
  const Matrix<T> m{const_cast<T*>(a), n, n, lda}, x{b, n, k, ldb};
  if (!ready(handle)) return kNotInitialized;
  if (transposed > 1 || !m.valid() || !x.valid() || !valid_info(info) || !valid_info(pivots, n))
    return kSolverInvalid;
  start("cusolver_getrs", handle, [=] {
    *info = 0;
    solve_lu(transposed == 1, m, pivots, x);
  });
  return kSuccess;
}
template <class T>
int trsm(void* handle, int side, int triangle, int transposed, int unit, int m, int n,
         const T* factor, const T* a, int lda, T* b, int ldb) {
  const Matrix<T> matrix{const_cast<T*>(a), m, m, lda}, x{b, m, n, ldb};
  if (!ready(handle)) return kNotInitialized;
  if (side != 0 || *factor != T(1) || !matrix.valid() || !x.valid()) return kBlasInvalid;
  start("cublas_trsm", handle,
        [=] { solve_triangle(triangle == 1, transposed == 1, unit == 1, matrix, x); });
  return kSuccess;
}
template <class T>
int trsm_batched(void* handle, int side, int triangle, int transposed, int unit, int m, int n,
                 const T* factor, T** a, int lda, T** b, int ldb, int count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T*);
  if (!ready(handle)) return kNotInitialized;
  if (side != 0 || *factor != T(1) || m < 1 || n < 1 || lda < m || ldb < m ||
      !fake::driver().owns(a, bytes) || !fake::driver().owns(b, bytes))
    return kBlasInvalid;
  start("cublas_trsmBatched", handle, [=] {
    for (int i = 0; i < count; ++i)
      solve_triangle(triangle == 1, transposed == 1, unit == 1, Matrix<T>{a[i], m, m, lda},
                     Matrix<T>{b[i], m, n, ldb});
  });
  return kSuccess;
}

int create(void** handle) {
  *handle = new Handle{fake::driver().device()};
  return kSuccess;
}
int set_stream(void* handle, void* stream) {
  auto* const h = static_cast<Handle*>(handle);
  h->has_stream = true;
  h->stream = stream;
  return kSuccess;
}

}  // namespace

FAKE_API cusolverDnCreate(void** handle) {
  FAKE_ENTER(cusolverDnCreate);
  return create(handle);
}
FAKE_API cusolverDnSetStream(void* handle, void* stream) {
  FAKE_ENTER(cusolverDnSetStream);
  return set_stream(handle, stream);
}
FAKE_API cublasCreate_v2(void** handle) {
  FAKE_ENTER(cublasCreate_v2);
  return create(handle);
}
FAKE_API cublasSetStream_v2(void* handle, void* stream) {
  FAKE_ENTER(cublasSetStream_v2);
  return set_stream(handle, stream);
}

#define FUNCTIONS(L, T)                                                                            \
  FAKE_API cusolverDn##L##potrf_bufferSize(void*, int, int n, T*, int, int* size) {                \
    *size = work_size(n, n);                                                                       \
    return kSuccess;                                                                               \
  }                                                                                                \
  FAKE_API cusolverDn##L##potrf(void* h, int triangle, int n, T* a, int ld, T* work, int size,     \
                                int* info) {                                                       \
    FAKE_ENTER(potrf);                                                                             \
    return potrf(h, triangle, n, a, ld, work, size, info);                                         \
  }                                                                                                \
  FAKE_API cusolverDn##L##potrfBatched(void* h, int triangle, int n, T** a, int ld, int* info,     \
                                       int count) {                                                \
    FAKE_ENTER(potrfBatched);                                                                      \
    return potrf_batched(h, triangle, n, a, ld, info, count);                                      \
  }                                                                                                \
  FAKE_API cusolverDn##L##getrf_bufferSize(void*, int m, int n, T*, int, int* size) {              \
    *size = work_size(m, n);                                                                       \
    return kSuccess;                                                                               \
  }                                                                                                \
  FAKE_API cusolverDn##L##getrf(void* h, int m, int n, T* a, int ld, T* work, int* pivots,         \
                                int* info) {                                                       \
    FAKE_ENTER(getrf);                                                                             \
    return getrf(h, m, n, a, ld, work, pivots, info);                                              \
  }                                                                                                \
  FAKE_API cusolverDn##L##getrs(void* h, int transposed, int n, int k, const T* a, int lda,        \
                                const int* pivots, T* b, int ldb, int* info) {                     \
    FAKE_ENTER(getrs);                                                                             \
    return getrs(h, transposed, n, k, a, lda, pivots, b, ldb, info);                               \
  }                                                                                                \
  FAKE_API cublas##L##trsm_v2(void* h, int side, int triangle, int transposed, int unit, int m,    \
                              int n, const T* factor, const T* a, int lda, T* b, int ldb) {        \
    FAKE_ENTER(trsm);                                                                              \
    return trsm(h, side, triangle, transposed, unit, m, n, factor, a, lda, b, ldb);                \
  }                                                                                                \
  FAKE_API cublas##L##trsmBatched(void* h, int side, int triangle, int transposed, int unit,       \
                                  int m, int n, const T* factor, T** a, int lda, T** b, int ldb,   \
                                  int count) {                                                     \
    FAKE_ENTER(trsmBatched);                                                                       \
    return trsm_batched(h, side, triangle, transposed, unit, m, n, factor, a, lda, b, ldb, count); \
  }
FUNCTIONS(S, float)
FUNCTIONS(D, double)
FUNCTIONS(C, std::complex<float>)
FUNCTIONS(Z, std::complex<double>)
