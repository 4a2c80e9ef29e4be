// SPDX-License-Identifier: BSD-3-Clause
// These kernels prepare and complete calls of cuSOLVER and cuBLAS on column-major matrices.
// -DCOGRAD_T= is the dtype. Blocks have one warp, and a matrix each.
#include "cuda/args/linalg_args.h"
#include "cuda/text/prelude.h"

namespace cograd::device {

using T = COGRAD_T;

template <class V>
struct PartOf {
  using type = V;
};
template <class V>
struct PartOf<Complex<V>> {
  using type = V;
};
using R = typename PartOf<T>::type;

inline R real_part(R v) { return v; }
inline R real_part(Complex<R> v) { return v.re; }
inline R size_of(R v) { return v < 0 ? -v : v; }
inline R size_of(Complex<R> v) {
  return static_cast<R>(hypot(static_cast<double>(v.re), static_cast<double>(v.im)));
}
inline R sign_of(R v) { return v > 0 ? R(1) : v < 0 ? R(-1) : v == 0 ? R(0) : v; }
inline Complex<R> sign_of(Complex<R> v) {
  const R size = size_of(v);
  return size == 0 ? Complex<R>(0, 0) : v / size;
}

COGRAD_KERNEL(pointers, PointersArgs, 256) {
  for (int64_t i = grid_index(); i < a.count; i += grid_size()) a.out[i] = a.first + i * a.step;
}

COGRAD_KERNEL(lower_triangle, MatricesArgs, 256) {
  for (int64_t i = grid_index(); i < a.rows * a.cols * a.count; i += grid_size())
    if (i % a.rows < i / a.rows % a.cols) static_cast<T*>(a.a)[i] = T(0);
}
COGRAD_KERNEL(identity, MatricesArgs, 256) {
  for (int64_t i = grid_index(); i < a.rows * a.cols * a.count; i += grid_size())
    static_cast<T*>(a.a)[i] = i % a.rows == i / a.rows % a.cols ? T(1) : T(0);
}
inline R conj_of(R v) { return v; }
inline Complex<R> conj_of(Complex<R> v) { return conj(v); }
COGRAD_KERNEL(adjoint, CopyArgs, 256) {
  const int64_t size = a.rows * a.cols;
  for (int64_t i = grid_index(); i < size * a.count; i += grid_size()) {
    const int64_t at = i % size, row = at % a.rows, col = at / a.rows;
    const T* const from = static_cast<const T*>(a.from) + i / size * a.step;
    static_cast<T*>(a.to)[i] = conj_of(from[row * a.cols + col]);
  }
}
COGRAD_KERNEL(first_columns, CopyArgs, 256) {
  const int64_t size = a.rows * a.cols;
  for (int64_t i = grid_index(); i < size * a.count; i += grid_size())
    static_cast<T*>(a.to)[i] = static_cast<const T*>(a.from)[i / size * a.step + i % size];
}
// As LAPACK's orgqr, for small matrices: applies the reflectors in descending order; a lane has
// every 32nd column behind the reflector's own.
COGRAD_BLOCK_KERNEL(q_of_reflectors, QArgs, 32) {
  const int t = static_cast<int>(threadIdx.x);
  for (int64_t m = blockIdx.x; m < a.count; m += gridDim.x) {
    T* const matrix = static_cast<T*>(a.a) + m * a.step;
    for (int64_t c = a.rank + t; c < a.cols; c += 32)
      for (int64_t i = 0; i < a.rows; ++i) matrix[c * a.rows + i] = T(i == c ? 1 : 0);
    for (int64_t k = a.rank - 1; k >= 0; --k) {
      __syncwarp();
      T* const v = matrix + k * a.rows;  // is 1 at row k
      const T factor = static_cast<const T*>(a.tau)[m * a.rank + k];
      for (int64_t c = k + 1 + t; c < a.cols; c += 32) {
        T* const x = matrix + c * a.rows;
        T sum = x[k];
        for (int64_t i = k + 1; i < a.rows; ++i) sum += conj_of(v[i]) * x[i];
        sum = factor * sum;
        x[k] = x[k] - sum;
        for (int64_t i = k + 1; i < a.rows; ++i) x[i] = x[i] - sum * v[i];
      }
      __syncwarp();
      for (int64_t i = t; i < a.rows; i += 32)
        v[i] = i < k ? T(0) : i == k ? T(1) - factor : -(factor * v[i]);
    }
    __syncwarp();
  }
}
COGRAD_KERNEL(triangle_of_qr, TriangleOfQrArgs, 256) {
  const int64_t size = a.rows * a.cols;
  for (int64_t i = grid_index(); i < size * a.count; i += grid_size()) {
    const int64_t at = i % size, row = at % a.rows, col = at / a.rows;
    const T* const from = static_cast<const T*>(a.a) + i / size * a.step;
    static_cast<T*>(a.r)[i] = row <= col && row < a.rank ? from[col * a.m + row] : T(0);
  }
}
// Fills matrices whose info is not 0.
COGRAD_KERNEL(nan_if_failed, MatricesArgs, 256) {
  const int64_t size = a.rows * a.cols;
  for (int64_t i = grid_index(); i < size * a.count; i += grid_size())
    if (a.info[i / size] != 0) static_cast<T*>(a.a)[i] = T(static_cast<R>(NAN));
}

// Writes the place of the first element of the diagonal that is not positive, such as a NaN.
COGRAD_BLOCK_KERNEL(check_diagonal, MatricesArgs, 32) {
  for (int64_t m = blockIdx.x; m < a.count; m += gridDim.x) {
    const T* const matrix = static_cast<const T*>(a.a) + m * a.rows * a.cols;
    int bad = 0x7FFFFFFF;
    for (int64_t i = threadIdx.x; i < a.rows && bad == 0x7FFFFFFF; i += 32)
      if (!(real_part(matrix[i * a.rows + i]) > 0)) bad = static_cast<int>(i + 1);
    for (int mask = 16; mask > 0; mask /= 2) {
      const int other = shuffle_xor(bad, mask);
      if (other < bad) bad = other;
    }
    if (threadIdx.x == 0 && bad != 0x7FFFFFFF && a.info[m] == 0) a.info[m] = bad;
  }
}

// Gives matrices with an eigenvalue that is NaN an info: LAPACK does not converge then.
COGRAD_BLOCK_KERNEL(check_values, MatricesArgs, 32) {
  for (int64_t m = blockIdx.x; m < a.count; m += gridDim.x) {
    const R* const values = static_cast<const R*>(a.a) + m * a.rows;
    int bad = 0;
    for (int64_t i = threadIdx.x; i < a.rows; i += 32)
      if (values[i] != values[i]) bad = 1;
    for (int mask = 16; mask > 0; mask /= 2) bad |= shuffle_xor(bad, mask);
    if (threadIdx.x == 0 && bad != 0 && a.info[m] == 0) a.info[m] = static_cast<int>(a.rows);
  }
}

COGRAD_BLOCK_KERNEL(lu_determinants, DeterminantArgs, 32) {
  for (int64_t m = blockIdx.x; m < a.count; m += gridDim.x) {
    const T* const lu = static_cast<const T*>(a.lu) + m * a.n * a.n;
    T det = T(1), sign = T(1);
    R log_size = 0, least = static_cast<R>(INFINITY), most = 0;
    for (int64_t k = threadIdx.x; k < a.n; k += 32) {
      const T stored = lu[k * a.n + k];
      const T u = a.pivots[m * a.n + k] != k + 1 ? -stored : stored;
      const R size = size_of(u);
      det = det * u;
      sign = sign * sign_of(u);
      log_size += static_cast<R>(log(static_cast<double>(size)));
      if (size < least) least = size;
      if (most < size) most = size;
    }
    for (int mask = 16; mask > 0; mask /= 2) {
      det = det * shuffle_xor(det, mask);
      sign = sign * shuffle_xor(sign, mask);
      log_size += shuffle_xor(log_size, mask);
      const R small = shuffle_xor(least, mask), large = shuffle_xor(most, mask);
      if (small < least) least = small;
      if (most < large) most = large;
    }
    if (threadIdx.x != 0) continue;
    static_cast<T*>(a.det)[m] = det;
    static_cast<T*>(a.sign)[m] = sign;
    static_cast<R*>(a.log)[m] = log_size;
    if (a.n > 0 && least <= static_cast<R>(a.narrow) * most) *a.ill = 1;
  }
}

// Exchanges rows in the order of the pivots; in the opposite order for the inverse.
COGRAD_KERNEL(lu_permutations, PermutationArgs, 256) {
  for (int64_t m = grid_index(); m < a.count; m += grid_size()) {
    long long* const out = a.out + m * a.rows;
    for (int64_t i = 0; i < a.rows; ++i) out[i] = i;
    const int64_t n = a.k < a.rows ? a.k : a.rows;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t j = a.inverse ? n - 1 - i : i, row = a.pivots[m * a.k + j] - 1;
      if (row < 0 || row >= a.rows) continue;
      const long long kept = out[j];
      out[j] = out[row];
      out[row] = kept;
    }
  }
}

}  // namespace cograd::device
