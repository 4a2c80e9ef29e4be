// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra ops that other ops use, and what the LAPACK ones share.
#pragma once
#include "kernels/blas_guard.h"
#include "ops/core/ops.h"
#include "ops/core/raw.h"
#include "tensor/threads.h"

namespace cograd {

// A matrix for which a computation breaks down; torch.linalg.LinAlgError.
class COGRAD_API LinAlgError : public Error {
 public:
  explicit LinAlgError(std::string message) : Error(ErrorKind::Runtime, std::move(message)) {}
};

// (sum |x|^p)^(1/p) over dims; None: all.
Tensor vector_norm(const Tensor& x, double p, std::optional<IntList> dims, bool keepdim);

// Batches of matrices of one of kMatrixTypes; `name` ("linalg.inv") and `arg` ("A") are for
// messages.
void check_matrix(const char* name, const Tensor& x, const char* arg = "A");
void check_square(const char* name, const Tensor& x, const char* arg = "A");
// Of any dtype.
void check_square_of_any(const char* name, const Tensor& x, const char* arg = "A");
// Raises LinAlgError for the first non-zero element of `info`, an int32 tensor with one element per
// matrix; text(info) says what happened.
void check_info(const char* name, const Tensor& info, std::string (*text)(int));

inline IntList batch_of(const Tensor& x) {
  return x.sizes().first(static_cast<size_t>(x.dim()) - 2);
}
// The batch dims followed by `tail`.
Dims batch_and(const Tensor& x, std::initializer_list<int64_t> tail);
// A new tensor of the batch dims and rows x cols matrices, each column-major without gaps.
Tensor empty_columns(const Tensor& batch, int64_t rows, int64_t cols);
Tensor empty_columns(const Tensor& batch, int64_t rows, int64_t cols, DType t);
// A copy of x in that layout.
Tensor copy_columns(const Tensor& x);
// x, or such a copy: what was saved may come back in other strides.
Tensor as_columns(const Tensor& x);
// The first `cols` columns of each column-major matrix; not a view.
Tensor first_columns(const Tensor& x, int64_t cols);

// The dtypes that matrices are factored in.
inline constexpr DTypeSet kMatrixTypes = kWideTypes | kComplexTypes;
// Calls f(TypeTag<T>{}) with the C++ type of `t`, one of kMatrixTypes.
template <class F>
void dispatch_matrix(DType t, const F& f) {
  if (t == DType::Float32) return f(TypeTag<float>{});
  if (t == DType::Float64) return f(TypeTag<double>{});
  if (t == DType::Complex64) return f(TypeTag<Complex<float>>{});
  f(TypeTag<Complex<double>>{});
}

// Calls f(TypeTag<T>{}, i) for each of `count` matrices, in parallel; work: operations of one.
template <class F>
void each_matrix(DType t, int64_t count, int64_t work, const F& f);

void sync_lapack_threads();

template <class F>
void each_matrix(DType t, int64_t count, int64_t work, const F& f) {
  constexpr int64_t kGrain = 1 << 15;
  const HeavyScope heavy(count * work);
  parallel_for(0, count, std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1)),
               [&](int64_t lo, int64_t hi) {
                 sync_lapack_threads();
                 const kernels::BlasCall call;
                 for (; lo < hi; ++lo) {
                   dispatch_matrix(t, [&](auto tag) { f(tag, lo); });
                 }
               });
}

// P A = L U of every matrix: the factors, int32 pivots (.., n) and info (..).
struct Factors {
  Tensor lu, pivots, info;
};

Factors factored(const Tensor& a);

// Differentiable.
Tensor solve(const Tensor& a, const Tensor& b);
Tensor inverse(const Tensor& a);
Tensor inverse_or_nan(const Tensor& a);  // NaN for a singular matrix
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unit = false);
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a, bool full);
// The singular values of each matrix, descending.
Tensor singular_values(const Tensor& a);
inline Tensor matrix_t(const Tensor& x) { return transpose(x, -2, -1); }
// The conjugate transpose; of real numbers the transpose.
inline Tensor matrix_h(const Tensor& x) { return conj(matrix_t(x)); }
// a^H b and a b^H, without a copy of real factors.
inline Tensor matmul_hn(const Tensor& a, const Tensor& b) {
  return matmul_t(conj(a), b, true, false);
}
inline Tensor matmul_nh(const Tensor& a, const Tensor& b) {
  return matmul_t(a, conj(b), false, true);
}
// Raises if `phase`, the imaginary parts of what a gradient says about the phases of vectors, is
// not about 0: these are of LAPACK's choosing. Nothing is looked at under a transform, or if
// backward is called for its derivative only.
void check_phase(const char* message, const Tensor& phase);

}  // namespace cograd
