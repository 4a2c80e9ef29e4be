// SPDX-License-Identifier: BSD-3-Clause
// Eigenvalues and eigenvectors of general square matrices; they are complex for real matrices too.
// Gradients: M. B. Giles, "An extended collection of matrix derivative results" (2008), 3.1.
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"

namespace cograd {

namespace {

void check_eig_input(const char* name, const Tensor& a) {
  check_square(name, a);
  const Tensor values = raw_contiguous(a);
  COGRAD_CHECK(kernels::all_finite(a.dtype(), values.bytes(), values.numel()),
               "torch.linalg.eig: input tensor should not contain infs or NaNs.");
}

struct EigOp {
  static constexpr OpSpec spec{"linalg_eig", "A, vectors", kInternal | kDecomposition, "",
                               "none: linalg_eig"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<EigOp>& ctx, const Tensor& a, bool vectors) {
    check_eig_input("linalg.eig", a);
    const int64_t n = a.size(-1);
    const DType t = complex_dtype(a.dtype());
    const Tensor work = copy_columns(a);
    Tensor values = empty(batch_and(a, {n}), t);
    Tensor v = empty_columns(a, vectors ? n : 0, vectors ? n : 0, t);
    const Tensor info = empty(batch_of(a), DType::Int32);
    kernels::batched_eig(batch_in(a), n, work.bytes(), values.bytes(),
                         vectors ? v.bytes() : nullptr, info.data<int32_t>());
    check_info("linalg.eig", info, [](int code) {
      return detail::concat(
          "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
          "many repeated eigenvalues (error code: ",
          code, ").");
    });
    ctx.save_output(values, 0);
    ctx.save_output(v, 1);
    return {values, v};
  }
  // gA = V^-H M V^H with M = diag(gL) + (T - V^H V Re diag(T)) / conj(E) off the diagonal, T = V^H
  // gV and E_ij = value_j - value_i, since the vectors keep norm 1.
  static void backward(Ctx<EigOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined() && !gs[1].defined()) return;
    const Tensor values = ctx.saved(0), v = ctx.saved(1);
    const Tensor vh = matrix_h(v);
    if (!gs[1].defined()) {
      ctx.grad(0) = solve(vh, unsqueeze(gs[0], -1) * vh);
      return;
    }
    Tensor middle = of_vectors(values, v, vh, gs[1]);
    if (gs[0].defined()) middle = middle + diag_embed(gs[0]);
    ctx.grad(0) = solve(vh, matmul(middle, vh));
  }

 private:
  static Tensor of_vectors(const Tensor& values, const Tensor& v, const Tensor& vh,
                           const Tensor& g) {
    const Tensor turn = matmul(vh, g), diag = diagonal(turn, 0, -2, -1);
    check_phase(
        "linalg_eig_backward: The eigenvectors in the complex case are specified up to "
        "multiplication by e^{i phi}. The specified loss function depends on this quantity, so it "
        "is ill-defined.",
        imag(diag));
    const Tensor same = diag_embed(ones(Dims{values.size(-1)}, DType::Bool));
    const Tensor e = conj(unsqueeze(values, -2) - unsqueeze(values, -1));
    const Tensor kept = turn - matmul(vh, v) * unsqueeze(real(diag), -2);
    return where(same, 0.0, kept / where(same, 1.0, e));
  }
};

struct LinalgEig {
  static constexpr OpSpec spec{"linalg_eig",
                               "A",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "Eigenvalues in arbitrary order and eigenvectors; always complex.",
                               "none: tested by hand",
                               "",
                               "eigenvalues, eigenvectors"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a) { return apply<EigOp>(a, true); }
};
COGRAD_OP(LinalgEig)

struct LinalgEigvals {
  static constexpr OpSpec spec{
      "linalg_eigvals", "A", kInternal | kOut | kDecomposition | kAutocastWide,
      "Eigenvalues in arbitrary order; always complex.", "none: tested by hand"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a) {
    const bool recorded = differentiable({&a});
    return std::get<0>(apply<EigOp>(a, recorded));
  }
};
COGRAD_OP(LinalgEigvals)

}  // namespace

}  // namespace cograd
