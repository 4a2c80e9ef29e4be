// SPDX-License-Identifier: BSD-3-Clause
// Determinants from LU factors. Gradients: M. B. Giles, "An extended collection of matrix
// derivative results" (2008), 2.2.
#include <cmath>

#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

// The determinant, and its sign and log|det|, all from the factors.
struct Determinants {
  Tensor det, sign, logabs;
  bool ill_conditioned = false;  // according to the pivots, some inverse would be inaccurate
};

Determinants determinants(const Tensor& a) {
  const Factors f = factored(a);
  const int64_t n = a.size(-1);
  Determinants d{empty(batch_of(a), a.dtype()), empty(batch_of(a), a.dtype()),
                 empty(batch_of(a), real_dtype(a.dtype()))};
  d.ill_conditioned =
      kernels::lu_determinants(batch_in(a), n, f.lu.bytes(), f.pivots.data<int32_t>(),
                               d.det.bytes(), d.sign.bytes(), d.logabs.bytes());
  return d;
}

Tensor per_matrix(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

Tensor determinant(const Tensor& a);

// Returns det(U V^H) for A = U S V^H; for a real A it is locally constant.
Tensor turn(const Tensor& u, const Tensor& vh) {
  const Tensor unitary = matmul(u, vh);
  if (is_complex(unitary.dtype())) return per_matrix(determinant(unitary));
  return per_matrix(determinants(detach(unitary)).sign);
}

// The matrix of cofactors from the SVD A = U S V^H, which exists for a singular A too: det(U V^H)
// conj(U diag(prod_{j != i} s_j) V^H).
struct Cofactors {
  static constexpr OpSpec spec{"_cofactors", "input", kInternal | kDecomposition,
                               "The derivative of the determinant.", "none: reached through det"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 1;
  static constexpr BatchRule kBatch = leading(2);
  static Tensor forward(Ctx<Cofactors>& ctx, const Tensor& a) {
    check_square("linalg.det", a);
    ctx.save(a);
    const GradGuard no_grad(false);
    auto [u, s, vh] = svd(detach(a), false);
    const Tensor others = product_of_others(s, DimMask{1} << (s.dim() - 1));
    return turn(u, vh) * conj(matmul(u * unsqueeze(others, -2), vh));
  }
  // The cofactors C of diag(s) have dC_kk / dX_ll = prod_{m != k, l} s_m = -dC_kl / dX_lk and no
  // other derivatives; C(U X V^H) = det(U V^H) conj(U) C(X) V^T.
  static Tensor backward(Ctx<Cofactors>& ctx, const Tensor& g) {
    const Tensor a = ctx.saved(0);
    auto [u, s, vh] = svd(a, false);
    const Tensor inner = matmul(matmul(matrix_h(u), g), matrix_h(vh));
    const Tensor eye = diag_embed(ones_like(detach(s)));
    const Tensor without = where(ne(eye, 0), 1.0, unsqueeze(s, -2));  // row k: s without s_k
    const Tensor minors = product_of_others(without, DimMask{1} << s.dim()) * (1.0 - eye);
    const int64_t last[] = {-1};
    const Tensor along = sum(minors * unsqueeze(diagonal(inner, 0, -2, -1), -2), IntList(last));
    const Tensor found = diag_embed(along) - matrix_t(inner) * minors;
    return turn(u, vh) * matmul(matmul(conj(u), found), conj(vh));
  }
};
COGRAD_OP(Cofactors)

struct LinalgDet {
  static constexpr OpSpec spec{"linalg_det",
                               "A",
                               kInternal | kOut | kDecomposition,
                               "The determinant of each matrix.",
                               "S(3); S(2, 3)",
                               "np.linalg.det(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr const char* kNodeName = "LinalgDetBackward0";
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = leading(2);
  struct State {
    bool ill_conditioned = false;
  };
  static Tensor forward(Ctx<LinalgDet>& ctx, const Tensor& a) {
    check_square("linalg.det", a);
    ctx.save(a);
    Determinants d = determinants(a);
    ctx->ill_conditioned = d.ill_conditioned;
    ctx.save_output(d.det);
    return d.det;
  }
  static Tensor backward(Ctx<LinalgDet>& ctx, const Tensor& g) {
    const Tensor a = ctx.saved(0), det = ctx.saved(1);
    if (ctx->ill_conditioned) return per_matrix(g) * apply<Cofactors>(a);
    return per_matrix(g * det) * matrix_t(inverse(a));
  }
};
COGRAD_OP(LinalgDet)
Tensor determinant(const Tensor& a) { return apply<LinalgDet>(a); }

struct LinalgSlogdet {
  static constexpr OpSpec spec{"linalg_slogdet",
                               "A",
                               kInternal | kOut | kDecomposition,
                               "Sign and logarithm of the absolute value of the determinant.",
                               "S(3); S(2, 3)",
                               "np.linalg.slogdet(x)",
                               "sign, logabsdet"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<LinalgSlogdet>& ctx, const Tensor& a) {
    check_square("linalg.slogdet", a);
    ctx.save(a);
    const Determinants d = determinants(a);
    if (is_complex(a.dtype())) ctx.save_output(d.sign, 0);
    return {d.sign, d.logabs};
  }
  // d log|det A| = Re tr(A^-1 dA). Im tr(A^-1 dA) rotates a complex sign; a real sign is locally
  // constant.
  static void backward(Ctx<LinalgSlogdet>& ctx, std::span<Tensor> gs) {
    const Tensor a = ctx.saved(0);
    const bool turned = is_complex(a.dtype()) && gs[0].defined();
    if (!gs[1].defined() && !turned) return;
    Tensor g = gs[1];
    if (turned) {
      const Tensor turn = imag(gs[0] * conj(ctx.saved(1)));
      g = complex_of(g.defined() ? g : zeros_like(turn), turn);
    }
    ctx.grad(0) = per_matrix(g) * matrix_h(inverse_or_nan(a));
  }
};
COGRAD_OP(LinalgSlogdet)

struct Det {
  static constexpr OpSpec spec{
      "det",  "input",           kFunctional | kDecomposition, "The determinant of each matrix.",
      "S(3)", "np.linalg.det(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a) { return apply<LinalgDet>(a); }
};
COGRAD_OP(Det)

struct Slogdet {
  static constexpr OpSpec spec{"slogdet",
                               "input",
                               kFunctional | kOut | kDecomposition,
                               "Sign and logarithm of the absolute value of the determinant.",
                               "S(3)",
                               "np.linalg.slogdet(x)",
                               "sign, logabsdet"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a) { return apply<LinalgSlogdet>(a); }
};
COGRAD_OP(Slogdet)

struct Logdet {
  static constexpr OpSpec spec{
      "logdet",
      "input",
      kFunctional | kDecomposition,
      "The logarithm of the determinant; NaN where a real determinant is negative.",
      "S(3); S(2, 3)",
      "np.log(np.linalg.det(x))"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a) {
    auto [sign, logabs] = apply<LinalgSlogdet>(a);
    if (is_complex(a.dtype())) return log(sign) + logabs;
    return where(eq(sign, -1), std::nan(""), logabs);
  }
};
COGRAD_OP(Logdet)

}  // namespace

}  // namespace cograd
