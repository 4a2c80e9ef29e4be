// SPDX-License-Identifier: BSD-3-Clause
// The matrix exponential by Pade approximation, scaling and squaring: N. J. Higham, "The scaling
// and squaring method for the matrix exponential revisited" (2005). Gradient: R. Mathias, "A chain
// rule for matrix functions and applications" (1996).
#include <cmath>

#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"

namespace cograd {

namespace {

constexpr double kPade[14] = {64764752532480000.,
                              32382376266240000.,
                              7771770303897600.,
                              1187353796428800.,
                              129060195264000.,
                              10559470521600.,
                              670442572800.,
                              33522128640.,
                              1323241920.,
                              40840800.,
                              960960.,
                              16380.,
                              182.,
                              1.};
constexpr double kPadeReach = 5.371920351148152;  // the largest norm for which it is exact

// Returns how often each matrix must be halved.
std::vector<double> halvings(const Tensor& a) {
  const int64_t last = -1;
  const auto rows = host_values_or<double>(
      raw_contiguous(raw_cast(sum(abs(a), IntList(&last, 1)), DType::Float64)), 0);
  const auto n = static_cast<size_t>(a.size(-1));
  std::vector<double> counts(rows.size() / n);
  for (size_t i = 0; i < counts.size(); ++i) {
    const double* row = rows.data() + i * n;
    const double norm = *std::max_element(row, row + n);
    int exponent = 0;
    if (std::isfinite(norm)) std::frexp(norm / kPadeReach, &exponent);
    counts[i] = std::max(exponent, 0);
  }
  return counts;
}

// Returns c2 x2 + c4 x4 + c6 x6.
Tensor mixed(const Tensor& x2, const Tensor& x4, const Tensor& x6, double c2, double c4,
             double c6) {
  return x2 * c2 + x4 * c4 + x6 * c6;
}

Tensor pade(const Tensor& x) {
  const double* b = kPade;
  const Tensor one = diag_embed(ones(Dims{x.size(-1)}, x.dtype()));
  const Tensor x2 = matmul(x, x), x4 = matmul(x2, x2), x6 = matmul(x4, x2);
  const Tensor odd = matmul(x, matmul(x6, mixed(x2, x4, x6, b[9], b[11], b[13])) +
                                   mixed(x2, x4, x6, b[3], b[5], b[7]) + one * b[1]);
  const Tensor even = matmul(x6, mixed(x2, x4, x6, b[8], b[10], b[12])) +
                      mixed(x2, x4, x6, b[2], b[4], b[6]) + one * b[0];
  return solve(even - odd, even + odd);
}

struct MatrixExp {
  static constexpr OpSpec spec{"matrix_exp",
                               "input",
                               kFunctional | kDecomposition | kAutocastWide,
                               "The matrix exponential of each square matrix.",
                               "S(3); S(2, 3)",
                               ""};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr const char* kNodeName = "LinalgMatrixExpBackward0";
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 1;
  static constexpr BatchRule kBatch = leading(2);
  static Tensor forward(Ctx<MatrixExp>& ctx, const Tensor& a) {
    check_square("linalg.matrix_exp", a);
    ctx.save(a);
    return a.numel() == 0 ? clone(a) : computed(a);
  }
  // exp([[X, G], [0, X]]) has the derivative of exp at X in direction G in its upper right block.
  static Tensor backward(Ctx<MatrixExp>& ctx, const Tensor& g) {
    const Tensor x = matrix_t(ctx.saved(0));
    const int64_t n = x.size(-1);
    const Tensor upper[2] = {x, g}, below[2] = {zeros_like(x), x};
    const Tensor rows[2] = {cat(upper, -1), cat(below, -1)};
    return narrow(narrow(apply<MatrixExp>(cat(rows, -2)), -2, 0, n), -1, n, n);
  }

 private:
  static Tensor computed(const Tensor& a) {
    const GradGuard no_grad(false);
    const std::vector<double> each = halvings(a);
    const double most = *std::max_element(each.begin(), each.end());
    const Tensor counts = empty(batch_and(a, {1, 1}), DType::Float64);
    write_elements<double>(counts, each);
    Tensor x = pade(a * cast(pow(2.0, neg(counts)), real_dtype(a.dtype())));
    for (double k = 0; k < most; ++k) x = where(gt(counts, k), matmul(x, x), x);
    return x;
  }
};
COGRAD_OP(MatrixExp)

}  // namespace

}  // namespace cograd
