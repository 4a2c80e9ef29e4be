// SPDX-License-Identifier: BSD-3-Clause
// Cholesky, QR and Hermitian eigenvalue decompositions. Gradients: I. Murray, "Differentiation of
// the Cholesky decomposition" (2016); S. F. Walter, L. Lehmann, "Algorithmic differentiation of
// linear algebra functions" (2010), for QR; M. B. Giles (2008), 3.1, for eigenvalues.
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"

namespace cograd {

namespace {

std::string not_positive(int order) {
  return detail::concat(
      "The factorization could not be completed because the input is not positive-definite (the "
      "leading minor of order ",
      order, " is not positive-definite).");
}

// Returns the lower triangle with the diagonal halved.
Tensor half_lower(const Tensor& x) { return tril(x, -1) + tril(triu(x)) * 0.5; }

struct CholeskyOp {
  static constexpr OpSpec spec{"linalg_cholesky_ex", "A", kInternal | kDecomposition, "",
                               "none: linalg_cholesky"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 1;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<CholeskyOp>& ctx, const Tensor& a) {
    const int64_t n = a.size(-1);
    Tensor l = copy_columns(a);
    Tensor info = empty(batch_of(a), DType::Int32);
    kernels::batched_cholesky(batch_in(a), n, l.bytes(), info.data<int32_t>());
    ctx.save_output(l);
    return {l, info};
  }
  // dL = L half_lower(L^-1 dA L^-H), so gA = L^-H half_lower(L^H g) L^-1, made Hermitian.
  static void backward(Ctx<CholeskyOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    const Tensor l = ctx.saved(0);
    const Tensor lh = matrix_h(l);
    const Tensor middle = half_lower(matmul_hn(l, tril(gs[0])));
    const Tensor left = solve_triangular(lh, middle, true);
    const Tensor whole = matrix_h(solve_triangular(lh, matrix_h(left), true));
    ctx.grad(0) = (whole + matrix_h(whole)) * 0.5;
  }
};

std::pair<Tensor, Tensor> cholesky(const Tensor& a, bool upper) {
  check_square("linalg.cholesky", a);
  auto [l, info] = apply<CholeskyOp>(upper ? matrix_h(a) : a);
  return {upper ? matrix_h(l) : l, info};
}

struct LinalgCholeskyEx {
  static constexpr OpSpec spec{"linalg_cholesky_ex",
                               "input, *, upper=False, check_errors=False",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "linalg.cholesky that returns LAPACK's info instead of raising.",
                               "none: tested by hand",
                               "",
                               "L, info"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a, bool upper, bool check) {
    auto [l, info] = cholesky(a, upper);
    if (check) check_info("linalg.cholesky_ex", info, not_positive);
    return {l, info};
  }
};
COGRAD_OP(LinalgCholeskyEx)

struct LinalgCholesky {
  static constexpr OpSpec spec{"linalg_cholesky",
                               "input, *, upper=False",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "L of A = L L^H for a positive definite A, or L^H if upper.",
                               "~S(3); ~S(2, 3)",
                               "np.linalg.cholesky(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a, bool upper) {
    auto [l, info] = cholesky(a, upper);
    check_info("linalg.cholesky", info, not_positive);
    return l;
  }
};
COGRAD_OP(LinalgCholesky)

struct Cholesky {
  static constexpr OpSpec spec{"cholesky",
                               "input, upper=False",
                               kFunctional | kOut | kDecomposition | kAutocastWide,
                               "linalg.cholesky under its older name.",
                               "~S(3)",
                               "np.linalg.cholesky(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a, bool upper) {
    auto [l, info] = cograd::cholesky(a, upper);
    check_info("cholesky", info, not_positive);
    return l;
  }
};
COGRAD_OP(Cholesky)

struct CholeskySolve {
  static constexpr OpSpec spec{"cholesky_solve", "input, input2, upper=False",
                               kFunctional | kOut | kDecomposition | kAutocastWide,
                               "X of A X = input, given the Cholesky factor input2 of A.",
                               "none: tested by hand"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& b, const Tensor& l, bool upper) {
    COGRAD_CHECK(b.dim() >= 2, "b should have at least 2 dimensions, but has ", b.dim(),
                 " dimensions instead");
    COGRAD_CHECK(l.dim() >= 2, "u should have at least 2 dimensions, but has ", l.dim(),
                 " dimensions instead");
    check_square("cholesky_solve", l);
    check_matrix("cholesky_solve", b, "b");
    COGRAD_CHECK(l.dtype() == b.dtype() && b.size(-2) == l.size(-1),
                 "cholesky_solve: Incompatible matrix sizes or dtypes: each b matrix is ",
                 b.size(-2), " by ", b.size(-1), " but each A matrix is ", l.size(-2), " by ",
                 l.size(-1));
    Dims batch;
    COGRAD_CHECK(broadcast_shapes(batch_of(l), batch_of(b), batch),
                 "cholesky_solve: the batch shapes ", to_string(batch_of(b)), " and ",
                 to_string(batch_of(l)), " do not broadcast");
    const auto grown = [&](const Tensor& x) {
      Dims sizes(batch);
      sizes.push_back(x.size(-2));
      sizes.push_back(x.size(-1));
      return expand(x, sizes);
    };
    const Tensor lower = grown(upper ? matrix_h(l) : l);
    return solve_triangular(matrix_h(lower), solve_triangular(lower, grown(b), false), true);
  }
};
COGRAD_OP(CholeskySolve)

struct CholeskyInverse {
  static constexpr OpSpec spec{
      "cholesky_inverse", "input, upper=False", kFunctional | kOut | kDecomposition | kAutocastWide,
      "The inverse of A, given its Cholesky factor.", "none: tested by hand"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& l, bool upper) {
    check_square("cholesky_inverse", l);
    const int64_t n = l.size(-1);
    const Tensor one = diag_embed(ones(batch_and(l, {n}), l.dtype()));
    return apply<CholeskySolve>(one, l, upper);
  }
};
COGRAD_OP(CholeskyInverse)

enum class QrMode : uint8_t { Reduced, Complete, TriangleOnly };

struct QrOp {
  static constexpr OpSpec spec{"linalg_qr", "A, mode", kInternal | kDecomposition, "",
                               "none: linalg_qr"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 3;
  struct State {
    QrMode mode;
  };
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<QrOp>& ctx, const Tensor& a, int64_t mode) {
    ctx->mode = static_cast<QrMode>(mode);
    const int64_t m = a.size(-2), n = a.size(-1);
    const int64_t columns = ctx->mode == QrMode::Complete ? m : std::min(m, n);
    const int64_t room = std::max(n, columns);
    const Tensor work = empty_columns(a, m, room);
    raw_copy(first_columns(work, n), a);
    Tensor r = empty_columns(a, columns, n);
    kernels::batched_qr(batch_in(a), m, n, columns, work.bytes(), r.bytes());
    Tensor q = room == columns ? work : copy_columns(first_columns(work, columns));
    ctx.save(a);
    ctx.save_output(q, 0);
    ctx.save_output(r, 1);
    return {q, r};
  }
  static void backward(Ctx<QrOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined() && !gs[1].defined()) return;
    const Tensor a = ctx.saved(0), q = ctx.saved(1), r = ctx.saved(2);
    const int64_t m = a.size(-2), n = a.size(-1);
    COGRAD_CHECK(ctx->mode != QrMode::TriangleOnly,
                 "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
                 "Please use linalg.qr(A, mode='reduced') if you are going to differentiate "
                 "through linalg.qr.");
    COGRAD_CHECK(ctx->mode != QrMode::Complete || m <= n,
                 "The QR decomposition is not differentiable when mode='complete' and nrows > "
                 "ncols.");
    const Tensor gq = gs[0].defined() ? gs[0] : zeros_like(q);
    const Tensor gr = gs[1].defined() ? gs[1] : zeros_like(r);
    if (m >= n) {
      ctx.grad(0) = of_tall(q, r, gq, gr);
      return;
    }
    // With [X Y] = Q [R1 R2], R2 = Q^H Y propagates its gradient to Q and Y.
    const Tensor g2 = narrow(gr, -1, m, n - m);
    const Tensor y = narrow(a, -1, m, n - m);
    const Tensor to_q = gq + matmul_nh(y, g2);
    const Tensor gx = of_tall(q, narrow(r, -1, 0, m), to_q, narrow(gr, -1, 0, m));
    const Tensor parts[2] = {gx, matmul(q, g2)};
    ctx.grad(0) = cat(parts, -1);
  }

 private:
  // Returns (gQ + Q sym(M)) R^-H, where M = R gR^H - gQ^H Q and sym(M) mirrors its lower triangle;
  // the diagonal of R is real.
  static Tensor of_tall(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
    const Tensor m = matmul_nh(r, triu(gr)) - matmul_hn(gq, q);
    const Tensor right = gq + matmul(q, mirrored(m));
    return matrix_h(solve_triangular(r, matrix_h(right), true));
  }
  static Tensor mirrored(const Tensor& m) {
    if (!is_complex(m.dtype())) return tril(m) + matrix_t(tril(m, -1));
    const Tensor half = half_lower(m);
    return half + matrix_h(half);
  }
};

std::pair<Tensor, Tensor> decompose_qr(const Tensor& a, QrMode mode) {
  check_matrix("linalg.qr", a);
  auto [q, r] = apply<QrOp>(a, static_cast<int64_t>(mode));
  if (mode == QrMode::TriangleOnly) q = empty(Dims{0}, a.dtype());
  return {q, r};
}

struct LinalgQr {
  static constexpr OpSpec spec{"linalg_qr",
                               "A, mode='reduced'",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "A = Q R with orthonormal columns in Q and R upper triangular.",
                               "S(3); S(2, 3)",
                               "",
                               "Q, R"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a, std::string_view mode) {
    COGRAD_CHECK(mode == "reduced" || mode == "complete" || mode == "r",
                 "qr received unrecognized mode '", mode,
                 "' but expected one of 'reduced' (default), 'r', or 'complete'");
    return decompose_qr(a, mode == "r"         ? QrMode::TriangleOnly
                           : mode == "reduced" ? QrMode::Reduced
                                               : QrMode::Complete);
  }
};
COGRAD_OP(LinalgQr)

struct Qr {
  static constexpr OpSpec spec{"qr",
                               "input, some=True",
                               kFunctional | kOut | kDecomposition | kAutocastWide,
                               "linalg.qr under its older name: mode 'reduced' if some.",
                               "S(3)",
                               "",
                               "Q, R"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a, bool some) {
    return decompose_qr(a, some ? QrMode::Reduced : QrMode::Complete);
  }
};
COGRAD_OP(Qr)

struct EighOp {
  static constexpr OpSpec spec{"linalg_eigh", "A, upper, vectors", kInternal | kDecomposition, "",
                               "none: linalg_eigh"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<EighOp>& ctx, const Tensor& a, bool upper,
                                            bool vectors) {
    const int64_t n = a.size(-1);
    Tensor v = copy_columns(a);
    Tensor values = empty(batch_and(a, {n}), real_dtype(a.dtype()));
    const Tensor info = empty(batch_of(a), DType::Int32);
    kernels::batched_eigh(batch_in(a), vectors, upper, n, v.bytes(), values.bytes(),
                          info.data<int32_t>());
    check_info("linalg.eigh", info, [](int code) {
      return detail::concat(
          "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
          "many repeated eigenvalues (error code: ",
          code, ").");
    });
    ctx.save_output(values, 0);
    ctx.save_output(v, 1);
    return {values, v};
  }
  // gA = V (diag(g) + skew(V^H gV) / 2E) V^H with E_ij = value_j - value_i off the diagonal; it is
  // Hermitian like A.
  static void backward(Ctx<EighOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined() && !gs[1].defined()) return;
    const Tensor values = ctx.saved(0), v = ctx.saved(1);
    Tensor middle;
    if (gs[1].defined()) {
      const int64_t n = values.size(-1);
      const Tensor same = diag_embed(ones(Dims{n}, DType::Bool));
      const Tensor e = unsqueeze(values, -2) - unsqueeze(values, -1);
      const Tensor turn = matmul_hn(v, gs[1]);
      if (is_complex(turn.dtype())) check_phase(kPhaseMessage, imag(diagonal(turn, 0, -2, -1)));
      const Tensor half = (turn - matrix_h(turn)) * 0.5;
      middle = where(same, 0.0, half / where(same, 1.0, e));
      if (gs[0].defined()) middle = middle + diag_embed(gs[0]);
      middle = matmul(v, middle);
    } else {
      middle = v * unsqueeze(gs[0], -2);
    }
    ctx.grad(0) = matmul_nh(middle, v);
  }

 private:
  static constexpr const char* kPhaseMessage =
      "linalg_eigh_backward: The eigenvectors in the complex case are specified up to "
      "multiplication by e^{i phi}. The specified loss function depends on this quantity, so it is "
      "ill-defined.";
};

std::tuple<Tensor, Tensor> eigenpairs(const char* name, const Tensor& a, std::string_view uplo,
                                      bool vectors) {
  check_square(name, a);
  const bool upper = uplo == "U" || uplo == "u";
  COGRAD_CHECK(upper || uplo == "L" || uplo == "l",
               "Expected UPLO argument to be 'L' or 'U', but got ", uplo);
  return apply<EighOp>(a, upper, vectors);
}

struct LinalgEigh {
  static constexpr OpSpec spec{"linalg_eigh",
                               "A, UPLO='L'",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "Eigenvalues, ascending, and eigenvectors of Hermitian matrices.",
                               "~S(3); ~S(2, 3)",
                               "",
                               "eigenvalues, eigenvectors"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a, std::string_view uplo) {
    return eigenpairs("linalg.eigh", a, uplo, true);
  }
};
COGRAD_OP(LinalgEigh)

struct LinalgEigvalsh {
  static constexpr OpSpec spec{"linalg_eigvalsh",
                               "A, UPLO='L'",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "Eigenvalues, ascending, of Hermitian matrices.",
                               "~S(3); ~S(2, 3)",
                               "np.linalg.eigvalsh(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a, std::string_view uplo) {
    const bool recorded = differentiable({&a});
    return std::get<0>(eigenpairs("linalg.eigh", a, uplo, recorded));
  }
};
COGRAD_OP(LinalgEigvalsh)

}  // namespace

}  // namespace cograd
