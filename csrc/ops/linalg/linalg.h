// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra ops that other ops use, and helpers shared by the ops based on LAPACK.
#pragma once
#include "kernels/libraries/lapack_batch.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"

namespace cograd {

// Raised for a matrix for which a computation breaks down; torch.linalg.LinAlgError.
class COGRAD_API LinAlgError : public Error {
 public:
  explicit LinAlgError(std::string message) : Error(ErrorKind::Runtime, std::move(message)) {}
};

// Returns (sum |x|^p)^(1/p) over dims; None means all dims.
Tensor vector_norm(const Tensor& x, double p, std::optional<IntList> dims, bool keepdim);

// Raise unless x is a batch of matrices with a dtype of kMatrixTypes. Messages use `name`
// ("linalg.inv") and `arg` ("A").
void check_matrix(const char* name, const Tensor& x, const char* arg = "A");
void check_square(const char* name, const Tensor& x, const char* arg = "A");
// Raises unless x is a batch of square matrices of any dtype.
void check_square_of_any(const char* name, const Tensor& x, const char* arg = "A");
// Raises LinAlgError for the first non-zero element of `info`, an int32 tensor with one element per
// matrix; text(info) describes the failure.
void check_info(const char* name, const Tensor& info, std::string (*text)(int));

inline IntList batch_of(const Tensor& x) {
  return x.sizes().first(static_cast<size_t>(x.dim()) - 2);
}
// Returns the batch dims followed by `tail`.
Dims batch_and(const Tensor& x, std::initializer_list<int64_t> tail);
// Returns a new tensor of rows x cols matrices with these batch dims, each column-major without
// gaps.
Tensor empty_columns(const Tensor& batch, int64_t rows, int64_t cols);
Tensor empty_columns(const Tensor& batch, int64_t rows, int64_t cols, DType t);
// Returns a copy of x in that layout.
Tensor copy_columns(const Tensor& x);
// Returns x if it has that layout, else a copy: an unpacked saved tensor may have other strides.
Tensor as_columns(const Tensor& x);
// Returns the first `cols` columns of each column-major matrix; not a view.
Tensor first_columns(const Tensor& x, int64_t cols);

// The dtypes in which matrices are factored.
inline constexpr DTypeSet kMatrixTypes = kWideTypes | kComplexTypes;
// Describes x as a batch of matrices for the kernels.
inline kernels::MatrixBatch batch_in(const Tensor& x) { return {x.dtype(), product(batch_of(x))}; }

// P A = L U for every matrix: the factors, int32 pivots (.., n) and info (..).
struct Factors {
  Tensor lu, pivots, info;
};

Factors factored(const Tensor& a);

// These are differentiable.
Tensor solve(const Tensor& a, const Tensor& b);
Tensor inverse(const Tensor& a);
Tensor inverse_or_nan(const Tensor& a);  // NaN for a singular matrix
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unit = false);
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a, bool full);
// Returns the singular values of each matrix, descending.
Tensor singular_values(const Tensor& a);
inline Tensor matrix_t(const Tensor& x) { return transpose(x, -2, -1); }
// Returns the conjugate transpose; for real matrices the transpose.
inline Tensor matrix_h(const Tensor& x) { return conj(matrix_t(x)); }
// Return a^H b and a b^H; real factors are not copied.
inline Tensor matmul_hn(const Tensor& a, const Tensor& b) {
  return matmul_t(conj(a), b, true, false);
}
inline Tensor matmul_nh(const Tensor& a, const Tensor& b) {
  return matmul_t(a, conj(b), false, true);
}
// Raises if `phase`, the imaginary part of a gradient with respect to the phases of vectors, is not
// close to 0: LAPACK chooses these phases arbitrarily. Skips the check under a transform, or if
// backward runs only to compute its own derivative.
void check_phase(const char* message, const Tensor& phase);

}  // namespace cograd
