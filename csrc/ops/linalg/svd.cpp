// SPDX-License-Identifier: BSD-3-Clause
// The singular value decomposition and the pseudoinverse. Gradients: J. Townsend, "Differentiating
// the singular value decomposition" (2016); G. H. Golub, V. Pereyra, "The differentiation of
// pseudo-inverses and nonlinear least squares problems whose variables separate" (1973), 4.12.
#include <algorithm>

#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"
#include "transforms/probing.h"

namespace cograd {

namespace {

void check_finite(const Tensor& a) {
  const Tensor values = raw_contiguous(a);
  if (!kernels::all_finite(a.dtype(), values.bytes(), values.numel()))
    throw LinAlgError(
        "linalg.svd: The algorithm failed to converge because the input matrix contained "
        "non-finite values.");
}

// Returns x - x^H; for complex matrices the diagonal is set to zero.
Tensor skew(const Tensor& x, const Tensor& on_diagonal) {
  const Tensor y = x - matrix_h(x);
  return is_complex(x.dtype()) ? where(on_diagonal, 0.0, y) : y;
}

struct SvdOp {
  static constexpr OpSpec spec{"linalg_svd", "A, full, vectors", kInternal | kDecomposition, "",
                               "none: linalg_svd"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 3;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor, Tensor> forward(Ctx<SvdOp>& ctx, const Tensor& a, bool full,
                                                    bool vectors) {
    check_finite(a);
    const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
    const int64_t columns = full ? m : k, rows = full ? n : k;
    const Tensor work = copy_columns(a);
    Tensor u = empty_columns(a, vectors ? m : 0, vectors ? columns : 0);
    Tensor vh = empty_columns(a, vectors ? rows : 0, vectors ? n : 0);
    Tensor s = empty(batch_and(a, {k}), real_dtype(a.dtype()));
    const Tensor info = empty(batch_of(a), DType::Int32);
    kernels::batched_svd(batch_in(a), full, m, n, work.bytes(), s.bytes(),
                         vectors ? u.bytes() : nullptr, vectors ? vh.bytes() : nullptr,
                         info.data<int32_t>());
    check_info("linalg.svd", info, [](int code) {
      return detail::concat(
          "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
          "many repeated singular values (error code: ",
          code, ").");
    });
    if (vectors && k == 0) {
      raw_copy(u, identity(columns, a.dtype()));
      raw_copy(vh, identity(rows, a.dtype()));
    }
    ctx.save_output(u, 0);
    ctx.save_output(s, 1);
    ctx.save_output(vh, 2);
    return {u, s, vh};
  }
  static void backward(Ctx<SvdOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined() && !gs[1].defined() && !gs[2].defined()) return;
    const Tensor s = ctx.saved(1);
    const int64_t k = s.size(-1);
    const Tensor whole_u = ctx.saved(0), whole_vh = ctx.saved(2);
    const Tensor u = narrow(whole_u, -1, 0, k), vh = narrow(whole_vh, -2, 0, k);
    if (!gs[0].defined() && !gs[2].defined()) {
      ctx.grad(0) = matmul(u * unsqueeze(gs[1], -2), vh);
      return;
    }
    Tensor core = gs[1].defined() ? diag_embed(gs[1]) : zeros(batch_and(u, {k, k}), s.dtype());
    const Tensor row = unsqueeze(s, -2), column = unsqueeze(s, -1);
    const Tensor on_diagonal = diag_embed(ones(Dims{k}, DType::Bool));
    const Tensor e = where(on_diagonal, 1.0, (row - column) * (row + column));
    Tensor left, right, phase_u, phase_v;
    const bool phases = is_complex(u.dtype());
    if (gs[0].defined()) {
      const Tensor gu = of_first(u, whole_u, gs[0]);
      const Tensor turn = matmul_hn(u, gu);
      if (phases) phase_u = imag(diagonal(turn, 0, -2, -1));
      core = core + skew(turn, on_diagonal) / e * row;
      if (u.size(-2) > k) left = (gu - matmul(u, turn)) / row;
    }
    if (gs[2].defined()) {
      const Tensor gvh = matrix_h(of_first(matrix_h(vh), matrix_h(whole_vh), matrix_h(gs[2])));
      const Tensor turn = matmul_nh(gvh, vh);
      if (phases) phase_v = imag(diagonal(turn, 0, -2, -1));
      core = core + column * (skew(matrix_h(turn), on_diagonal) / e);
      if (vh.size(-1) > k) right = (gvh - matmul(turn, vh)) / column;
    }
    if (phases) core = core + of_phases(phase_u, phase_v, s);
    Tensor result = matmul(matmul(u, core), vh);
    if (left.defined()) result = result + matmul(left, vh);
    if (right.defined()) result = result + matmul(u, right);
    ctx.grad(0) = result;
  }

 private:
  // Returns the gradient with respect to u, the first columns of `all`. A determines only the span
  // of the other columns: d(others) = -u d(u)^H others, up to a rotation among them.
  static Tensor of_first(const Tensor& u, const Tensor& all, const Tensor& g) {
    const int64_t k = u.size(-1), n = all.size(-1);
    const Tensor first = narrow(g, -1, 0, k);
    if (n == k || k == 0) return first;
    const Tensor others = narrow(all, -1, k, n - k), go = narrow(g, -1, k, n - k);
    check_rotation(matmul_hn(others, go), go);
    return first - matmul(others, matmul_hn(go, u));
  }
  // Raises if the loss depends on that rotation, which is the case if `turn` = others^H go is not
  // Hermitian up to rounding errors; `go` is the gradient with respect to the other columns.
  static void check_rotation(const Tensor& turn, const Tensor& go) {
    constexpr double kTolerance = 1e-3;
    if (probing_backward() || transformed(turn) || transformed(go) || turn.numel() == 0) return;
    const GradGuard no_grad(false);
    const auto off = host_values_or<double>(
        raw_cast(raw_contiguous(abs(turn - matrix_h(turn))), DType::Float64), 0);
    const auto sizes = host_values_or<double>(raw_cast(raw_contiguous(abs(go)), DType::Float64), 0);
    const int64_t count = turn.size(-2) * turn.size(-1), each = go.size(-2) * go.size(-1);
    const double *o = off.data(), *g = sizes.data();
    for (int64_t left = std::ssize(off) / count; left > 0; --left, o += count, g += each) {
      const double size = *std::max_element(g, g + each);  // a NaN gradient passes the check
      COGRAD_CHECK(
          !std::any_of(o, o + count, [=](double x) { return x > kTolerance * size; }),
          "svd_backward: The singular vectors beyond the first min(m, n) of full_matrices=True are "
          "specified up to a rotation among themselves. The specified loss function depends on "
          "this rotation, making it ill-defined; use full_matrices=False.");
    }
  }
  // Returns what the phases of the singular vectors add to the gradient. A determines only the
  // phase of a vector of U relative to that of V, so the loss must not depend on their common
  // phase. `u` and `v` are the imaginary parts of diag(U^H gU) and diag(gVh V).
  static Tensor of_phases(const Tensor& u, const Tensor& v, const Tensor& s) {
    const bool both = u.defined() && v.defined();
    check_phase(
        "svd_backward: The singular vectors in the complex case are specified up to multiplication "
        "by e^{i phi}. The specified loss function depends on this phase term, making it "
        "ill-defined.",
        both          ? u - v
        : u.defined() ? u
                      : v);
    const Tensor turn = both ? u + v : u.defined() ? u : v;
    return diag_embed(mul(turn / s, Scalar(Complex<double>(0, 0.5))));
  }
  static Tensor identity(int64_t n, DType t) {
    const Tensor out = zeros(Dims{n, n}, t);
    raw_fill(alias_strided(out, Dims{n}, Dims{n + 1}, out.bytes()), 1);
    return out;
  }
};

struct LinalgSvd {
  static constexpr OpSpec spec{"linalg_svd",
                               "A, full_matrices=True, *, driver=None",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "A = U diag(S) Vh with unitary U and Vh, S descending.",
                               "none: tested by hand",
                               "",
                               "U, S, Vh"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& a, bool full,
                                                    std::optional<std::string_view> driver) {
    COGRAD_CHECK(!driver,
                 "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs "
                 "with cuSOLVER backend.");
    check_matrix("linalg.svd", a);
    return svd(a, full);
  }
};
COGRAD_OP(LinalgSvd)

struct LinalgSvdvals {
  static constexpr OpSpec spec{"linalg_svdvals",
                               "A",
                               kInternal | kOut | kDecomposition | kAutocastWide,
                               "The singular values of each matrix, descending.",
                               "S(3); T(3, 4); T(2, 4, 3)",
                               "np.linalg.svd(x, compute_uv=False)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a) {
    check_matrix("linalg.svd", a);
    const bool recorded = differentiable({&a});
    return std::get<1>(apply<SvdOp>(a, false, recorded));
  }
};
COGRAD_OP(LinalgSvdvals)

struct Svd {
  static constexpr OpSpec spec{"svd",
                               "input, some=True, compute_uv=True",
                               kFunctional | kOut | kDecomposition | kAutocastWide,
                               "input = U diag(S) V^H; zeros for U and V unless compute_uv.",
                               "none: tested by hand",
                               "",
                               "U, S, V"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& a, bool some, bool vectors) {
    check_matrix("linalg.svd", a);
    if (vectors) {
      auto [u, s, vh] = svd(a, !some);
      return {u, s, matrix_h(vh)};
    }
    const int64_t m = a.size(-2), n = a.size(-1);
    return {zeros(batch_and(a, {m, m}), a.dtype()), apply<LinalgSvdvals>(a),
            zeros(batch_and(a, {n, n}), a.dtype())};
  }
};
COGRAD_OP(Svd)

struct LinalgPinv {
  static constexpr OpSpec spec{
      "linalg_pinv", "A, atol, rtol", kInternal | kDecomposition,
      "The pseudoinverse; singular values up to max(atol, rtol * the "
      "largest) count as 0.",
      "S(3), P().abs() * 0, P().abs() * 0; T(3, 4), P().abs() * 0, P().abs() * 0"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 2;
  static Tensor forward(Ctx<LinalgPinv>& ctx, const Tensor& a, const Tensor& atol,
                        const Tensor& rtol) {
    check_matrix("linalg.pinv", a);
    ctx.save(a);
    Tensor p = raw_contiguous(computed(a, atol, rtol));
    ctx.save_output(p);
    return p;
  }
  // dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P.
  static void backward(Ctx<LinalgPinv>& ctx, const Tensor& g) {
    if (!ctx.needs(0)) return;
    const Tensor a = ctx.saved(0), p = ctx.saved(1);
    const Tensor gp = matmul_hn(g, p);
    const Tensor pg = matmul_nh(p, g);
    const Tensor to_a = neg(matmul_nh(matmul_hn(p, g), p));
    const Tensor one = matmul_nh(gp, p);  // g^H P P^H
    const Tensor two = matmul_hn(p, pg);  // P^H P g^H
    ctx.grad(0) = to_a + (one - matmul(a, matmul(p, one))) + (two - matmul(matmul(two, p), a));
  }

 private:
  static Tensor computed(const Tensor& a, const Tensor& atol, const Tensor& rtol) {
    const GradGuard no_grad(false);
    if (a.numel() == 0) return zeros(batch_and(a, {a.size(-1), a.size(-2)}), a.dtype());
    auto [u, s, vh] = svd(a, false);
    const Tensor largest = narrow(s, -1, 0, 1);
    const Tensor limit = maximum(unsqueeze(atol, -1), unsqueeze(rtol, -1) * largest);
    const Tensor inverse = where(gt(s, limit), div(1.0, s), 0.0);
    return matmul_nh(matrix_h(vh) * unsqueeze(inverse, -2), u);
  }
};
COGRAD_OP(LinalgPinv)

struct Pinverse {
  static constexpr OpSpec spec{"pinverse",
                               "input, rcond=1e-15",
                               kFunctional | kDecomposition | kAutocastWide,
                               "The pseudoinverse; singular values up to rcond times the largest "
                               "count as 0.",
                               "S(3)",
                               "np.linalg.pinv(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a, double rcond) {
    check_matrix("linalg.pinv", a);
    return apply<LinalgPinv>(a, zeros({}, real_dtype(a.dtype())),
                             full({}, real_dtype(a.dtype()), rcond));
  }
};
COGRAD_OP(Pinverse)

}  // namespace

std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& a, bool full) {
  return apply<SvdOp>(a, full, true);
}

Tensor singular_values(const Tensor& a) { return apply<LinalgSvdvals>(a); }

}  // namespace cograd
