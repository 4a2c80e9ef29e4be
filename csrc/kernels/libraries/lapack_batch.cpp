// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/libraries/lapack_batch.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/core/element.h"
#include "kernels/libraries/blas_guard.h"
#include "kernels/libraries/lapack.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

// Calls f(TypeTag<T>{}) with the C++ type of `t`.
template <class F>
void dispatch_matrix(DType t, const F& f) {
  if (t == DType::Float32) return f(TypeTag<float>{});
  if (t == DType::Float64) return f(TypeTag<double>{});
  if (t == DType::Complex64) return f(TypeTag<Complex<float>>{});
  f(TypeTag<Complex<double>>{});
}

// Calls f(TypeTag<T>{}, i) for each matrix in parallel; `work` is the cost of one call.
template <class F>
void each_matrix(MatrixBatch b, int64_t work, const F& f) {
  constexpr int64_t kGrain = 1 << 15;
  const HeavyScope heavy(b.count * work);
  parallel_for(0, b.count, std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1)),
               [&](int64_t lo, int64_t hi) {
                 const BlasCall call(true);  // complex routines call real ones, too
                 for (; lo < hi; ++lo) dispatch_matrix(b.t, [&](auto tag) { f(tag, lo); });
               });
}

// Returns the place of matrix i, of `size` elements each; null if there are none.
template <class T>
T* part(void* a, int64_t i, int64_t size) {
  return a == nullptr ? nullptr : static_cast<T*>(a) + i * size;
}
template <class T>
const T* part(const void* a, int64_t i, int64_t size) {
  return static_cast<const T*>(a) + i * size;
}

template <class T>
T sign_of(T u) {
  return std::isnan(u) ? u : static_cast<T>((u > 0) - (u < 0));
}
template <class T>
Complex<T> sign_of(Complex<T> u) {
  const T size = std::hypot(u.re, u.im);
  return size == 0 ? Complex<T>(0) : u / size;
}
template <class T>
T size_of(T u) {
  return std::abs(u);
}
template <class T>
T size_of(Complex<T> u) {
  return std::hypot(u.re, u.im);
}

}  // namespace

void batched_lu_factor(MatrixBatch b, int64_t m, int64_t n, void* a, int* pivots, int* info) {
  COGRAD_SLOT(batched_lu_factor, b, m, n, a, pivots, info);
  const int64_t k = std::min(m, n);
  each_matrix(b, m * n * k, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    info[i] = lu_factor(m, n, part<T>(a, i, m * n), pivots + i * k);
  });
}

void batched_lu_solve(MatrixBatch b, bool transpose, int64_t n, int64_t k, const void* lu,
                      const int* pivots, void* x) {
  COGRAD_SLOT(batched_lu_solve, b, transpose, n, k, lu, pivots, x);
  each_matrix(b, n * n * k, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    lu_solve(transpose, n, k, part<T>(lu, i, n * n), pivots + i * n, part<T>(x, i, n * k));
  });
}

void batched_lu_inverse(MatrixBatch b, int64_t n, void* lu, const int* pivots, const int* info) {
  COGRAD_SLOT(batched_lu_inverse, b, n, lu, pivots, info);
  each_matrix(b, 2 * n * n * n, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    T* matrix = part<T>(lu, i, n * n);
    if (info[i] == 0)
      lu_inverse(n, matrix, pivots + i * n);
    else  // LAPACK leaves a singular matrix unchanged
      std::fill_n(matrix, n * n, T(std::numeric_limits<real_of<T>>::quiet_NaN()));
  });
}

bool lu_determinants(MatrixBatch b, int64_t n, const void* lu, const int* pivots, void* dets,
                     void* signs, void* logs) {
  COGRAD_SLOT_OR(false, lu_determinants, b, n, lu, pivots, dets, signs, logs);
  std::atomic<bool> ill_conditioned = false;
  each_matrix(b, n, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    using R = real_of<T>;
    T det = 1, sign = 1;
    R logabs = 0, least = std::numeric_limits<R>::infinity(), most = 0;
    for (int64_t k = 0; k < n; ++k) {
      const T u = part<T>(lu, i, n * n)[k * n + k];
      const bool swapped = pivots[i * n + k] != k + 1;
      det *= swapped ? -u : u;
      sign *= sign_of(swapped ? -u : u);
      logabs += std::log(size_of(u));
      least = std::min(least, size_of(u));
      most = std::max(most, size_of(u));
    }
    if (n > 0 && least <= std::cbrt(std::numeric_limits<R>::epsilon()) * most)
      ill_conditioned.store(true, std::memory_order_relaxed);
    static_cast<T*>(dets)[i] = det;
    static_cast<T*>(signs)[i] = sign;
    static_cast<R*>(logs)[i] = logabs;
  });
  return ill_conditioned;
}

void lu_permutations(int64_t count, const int* pivots, int64_t k, int64_t rows, bool inverse,
                     int64_t* out) {
  COGRAD_SLOT(lu_permutations, count, pivots, k, rows, inverse, out);
  std::vector<int64_t> order(static_cast<size_t>(rows));
  for (int64_t i = 0; i < count; ++i) {
    std::iota(order.begin(), order.end(), 0);
    for (int64_t j = 0; j < std::min(k, rows); ++j) {
      const int64_t row = int64_t{load_index(pivots + i * k + j)} - 1;
      if (within(row, rows))
        std::swap(order[static_cast<size_t>(j)], order[static_cast<size_t>(row)]);
    }
    int64_t* to = out + i * rows;
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t from = order[static_cast<size_t>(j)];
      inverse ? to[from] = j : to[j] = from;
    }
  }
}

void batched_cholesky(MatrixBatch b, int64_t n, void* a, int* info) {
  COGRAD_SLOT(batched_cholesky, b, n, a, info);
  each_matrix(b, n * n * n / 3, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    info[i] = cholesky(n, part<T>(a, i, n * n));
  });
}

void batched_triangular_solve(MatrixBatch b, bool upper, bool unit, int64_t n, int64_t k,
                              const void* a, void* x) {
  COGRAD_SLOT(batched_triangular_solve, b, upper, unit, n, k, a, x);
  each_matrix(b, n * n * k, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    triangular_solve(upper, false, unit, n, k, part<T>(a, i, n * n), part<T>(x, i, n * k));
  });
}

void batched_qr(MatrixBatch b, int64_t m, int64_t n, int64_t columns, void* a, void* r) {
  COGRAD_SLOT(batched_qr, b, m, n, columns, a, r);
  each_matrix(b, 2 * m * n * columns, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    qr(m, n, columns, part<T>(a, i, m * std::max(n, columns)), part<T>(r, i, columns * n));
  });
}

void batched_reflectors(MatrixBatch b, int64_t m, int64_t n, void* a, void* tau) {
  COGRAD_SLOT(batched_reflectors, b, m, n, a, tau);
  const int64_t k = std::min(m, n);
  each_matrix(b, m * n * k, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    reflectors(m, n, part<T>(a, i, m * n), part<T>(tau, i, k));
  });
}

void batched_ldl_factor(MatrixBatch b, bool hermitian, int64_t n, void* a, int* pivots, int* info) {
  COGRAD_SLOT(batched_ldl_factor, b, hermitian, n, a, pivots, info);
  each_matrix(b, n * n * n, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    info[i] = ldl_factor(hermitian, n, part<T>(a, i, n * n), pivots + i * n);
  });
}

void batched_ldl_solve(MatrixBatch b, bool hermitian, int64_t n, int64_t k, const void* a,
                       const int* pivots, void* x) {
  COGRAD_SLOT(batched_ldl_solve, b, hermitian, n, k, a, pivots, x);
  each_matrix(b, n * n * k, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    ldl_solve(hermitian, n, k, part<T>(a, i, n * n), pivots + i * n, part<T>(x, i, n * k));
  });
}

void batched_eigh(MatrixBatch b, bool vectors, bool upper, int64_t n, void* a, void* values,
                  int* info) {
  COGRAD_SLOT(batched_eigh, b, vectors, upper, n, a, values, info);
  each_matrix(b, 9 * n * n * n, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    info[i] = eigh(vectors, upper, n, part<T>(a, i, n * n), part<real_of<T>>(values, i, n));
  });
}

void batched_svd(MatrixBatch b, bool full, int64_t m, int64_t n, void* a, void* s, void* u,
                 void* vh, int* info) {
  COGRAD_SLOT(batched_svd, b, full, m, n, a, s, u, vh, info);
  const int64_t k = std::min(m, n), columns = full ? m : k, rows = full ? n : k;
  each_matrix(b, 20 * m * n * k, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    info[i] = svd(full, m, n, part<T>(a, i, m * n), part<real_of<T>>(s, i, k),
                  part<T>(u, i, m * columns), part<T>(vh, i, rows * n));
  });
}

void batched_eig(MatrixBatch b, int64_t n, void* a, void* values, void* vectors, int* info) {
  COGRAD_SLOT(batched_eig, b, n, a, values, vectors, info);
  each_matrix(b, 25 * n * n * n, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    using C = complex_of<T>;
    info[i] = eig(n, part<T>(a, i, n * n), part<C>(values, i, n), part<C>(vectors, i, n * n));
  });
}

bool all_finite(DType t, const void* x, int64_t n) {
  COGRAD_SLOT_OR(true, all_finite, t, x, n);
  bool finite = true;
  dispatch_matrix(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* v = static_cast<const T*>(x);
    for (int64_t i = 0; i < n; ++i) finite &= v[i] - v[i] == T(0);
  });
  return finite;
}

int64_t first_nonzero(const int* info, int64_t n) {
  COGRAD_SLOT_OR(n, first_nonzero, info, n);
  return std::find_if(info, info + n, [](int code) { return code != 0; }) - info;
}

}  // namespace cograd::kernels
