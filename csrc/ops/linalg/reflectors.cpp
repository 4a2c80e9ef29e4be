// SPDX-License-Identifier: BSD-3-Clause
// Householder reflectors, and LDL factors. The product of reflectors is I - V T V^H with T = (I + D
// S)^-1 D, where D holds the factors and S is the strict upper triangle of V^H V (R. Schreiber and
// C. Van Loan, "A storage-efficient WY representation for products of Householder transformations",
// 1989).
#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"

namespace cograd {

namespace {

void check_reflectors(const char* name, const Tensor& a, const Tensor& tau) {
  COGRAD_CHECK(a.dim() >= 2, name, ": input must have at least 2 dimensions.");
  check_matrix(name, a, "input");
  COGRAD_CHECK(a.size(-1) >= tau.size(-1), name,
               ": input.shape[-1] must be greater than or equal to tau.shape[-1]");
  COGRAD_CHECK(tau.dim() == a.dim() - 1, name,
               ": Expected tau to have one dimension less than input, but got tau.ndim equal to ",
               tau.dim(), " and input.ndim is equal to ", a.dim());
  COGRAD_CHECK(same(tau.sizes().first(static_cast<size_t>(a.dim()) - 2), batch_of(a)), name,
               ": Expected batch dimensions of tau to be equal to input.shape[:-2], but got ",
               to_string(tau.sizes()));
  COGRAD_CHECK(tau.dtype() == a.dtype(), name, ": tau dtype ", scalar_type_name(tau.dtype()),
               " does not match input dtype ", scalar_type_name(a.dtype()));
}

Tensor identity(int64_t rows, int64_t cols, DType t) {
  const Tensor out = zeros(Dims{rows, cols}, t);
  fill_(diagonal(out), 1);
  return out;
}

struct Product {
  Tensor v, t;
};
Product product_of(const Tensor& a, const Tensor& tau) {
  const int64_t m = a.size(-2), k = tau.size(-1);
  const Tensor v = tril(narrow(a, -1, 0, k), -1) + identity(m, k, a.dtype());
  const Tensor scaled = unsqueeze(tau, -1) * triu(matmul_hn(v, v), 1);
  return {v, solve_triangular(scaled + identity(k, k, a.dtype()), diag_embed(tau), true, true)};
}

Tensor householder_product(const char* name, const Tensor& a, const Tensor& tau) {
  check_reflectors(name, a, tau);
  const int64_t m = a.size(-2), n = a.size(-1);
  COGRAD_CHECK(m >= n, name, ": input.shape[-2] must be greater than or equal to input.shape[-1]");
  const Product p = product_of(a, tau);
  const Tensor head = matrix_h(narrow(p.v, -2, 0, n));
  return identity(m, n, a.dtype()) - matmul(p.v, matmul(p.t, head));
}

struct LinalgHouseholderProduct {
  static constexpr OpSpec spec{
      "linalg_householder_product", "input, tau", kInternal | kOut | kDecomposition | kAutocastWide,
      "The first columns of the product of the reflectors I - tau_i v_i v_i^H, whose vectors are "
      "below input's diagonal.",
      "T(4, 3), T(3); T(2, 4, 4), T(2, 2)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& a, const Tensor& tau) {
    return householder_product("torch.linalg.householder_product", a, tau);
  }
};
COGRAD_OP(LinalgHouseholderProduct)

struct Orgqr {
  static constexpr OpSpec spec{"orgqr", "input, input2",
                               kFunctional | kOut | kDecomposition | kAutocastWide,
                               "linalg.householder_product under its older name.", "T(4, 3), T(3)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& a, const Tensor& tau) {
    return householder_product("torch.linalg.householder_product", a, tau);
  }
};
COGRAD_OP(Orgqr)

struct Ormqr {
  static constexpr OpSpec spec{
      "ormqr", "input, input2, input3, left=True, transpose=False",
      kFunctional | kOut | kDecomposition | kAutocastWide,
      "Q input3, or input3 Q unless left, with Q^H if transpose, for the Q of "
      "reflectors input and input2.",
      "T(4, 3), T(3), T(4, 2); T(4, 3), T(3), T(2, 4), False, True"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& a, const Tensor& tau, const Tensor& other, bool left,
                        bool transpose) {
    constexpr const char* kName = "torch.ormqr";
    check_reflectors(kName, a, tau);
    COGRAD_CHECK(other.dim() >= 2, kName, ": other must have at least 2 dimensions.");
    COGRAD_CHECK(other.size(left ? -2 : -1) == a.size(-2), kName, ": other.shape[", left ? -2 : -1,
                 "] must be equal to input.shape[-2]");
    COGRAD_CHECK(other.size(left ? -2 : -1) >= tau.size(-1), kName, ": other.shape[",
                 left ? -2 : -1, "] must be greater than or equal to tau.shape[-1]");
    COGRAD_CHECK(other.dim() == a.dim() && same(batch_of(other), batch_of(a)), kName,
                 ": Expected batch dimensions of other to be equal to input.shape[:-2], but got ",
                 to_string(other.sizes()));
    COGRAD_CHECK(other.dtype() == a.dtype(), kName,
                 ": Expected input and other to have the same dtype, but input has dtype ",
                 scalar_type_name(a.dtype()), " and other has dtype ",
                 scalar_type_name(other.dtype()));
    const Product p = product_of(a, tau);
    const Tensor t = transpose ? matrix_h(p.t) : p.t;
    if (left) return other - matmul(p.v, matmul(t, matmul_hn(p.v, other)));
    return other - matmul_nh(matmul(matmul(other, p.v), t), p.v);
  }
};
COGRAD_OP(Ormqr)

struct Geqrf {
  static constexpr OpSpec spec{"geqrf",
                               "input",
                               kFunctional | kOut | kDecomposition | kAutocastWide | kNondiff,
                               "R and the reflectors of A = Q R in one matrix, and their factors, "
                               "in LAPACK's format, for ormqr. Not differentiable.",
                               "S(3); T(2, 4, 3); T(2, 4)",
                               "",
                               "a, tau"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<Geqrf>&, const Tensor& input) {
    COGRAD_CHECK(input.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
    check_matrix("torch.geqrf", input, "input");
    const int64_t m = input.size(-2), n = input.size(-1), k = std::min(m, n);
    const Tensor a = copy_columns(input), tau = zeros(batch_and(input, {k}), input.dtype());
    kernels::batched_reflectors(batch_in(a), m, n, a.bytes(), tau.bytes());
    return {a, tau};
  }
  static void backward(Ctx<Geqrf>&, std::span<Tensor>) {
    detail::fail(ErrorKind::NotImplemented, "the derivative for 'geqrf' is not implemented.");
  }
};
COGRAD_OP(Geqrf)

struct LdlFactorOp {
  static constexpr OpSpec spec{"linalg_ldl_factor_ex",
                               "input, *, hermitian=False, check_errors=False",
                               kInternal | kOut | kDecomposition | kNondiff,
                               "linalg.ldl_factor that returns LAPACK's info instead of raising.",
                               "none: tested by hand",
                               "",
                               "LD, pivots, info"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor, Tensor> forward(Ctx<LdlFactorOp>&, const Tensor& a,
                                                    bool hermitian, bool check) {
    check_square("torch.linalg.ldl_factor_ex", a);
    const int64_t n = a.size(-1);
    const Tensor ld = copy_columns(a), pivots = empty(batch_and(a, {n}), DType::Int32),
                 info = empty(batch_of(a), DType::Int32);
    kernels::batched_ldl_factor(batch_in(a), hermitian, n, ld.bytes(), pivots.data<int32_t>(),
                                info.data<int32_t>());
    if (check) check_info("torch.linalg.ldl_factor_ex", info, singular);
    return {ld, pivots, info};
  }
  static void backward(Ctx<LdlFactorOp>&, std::span<Tensor>) {
    detail::fail(ErrorKind::Runtime,
                 "derivative for aten::linalg_ldl_factor_ex is not implemented");
  }
  static std::string singular(int at) {
    return detail::concat("The factor D has a zero on its diagonal, at ", at,
                          ": the matrix is singular.");
  }
};
COGRAD_OP(LdlFactorOp)

struct LinalgLdlFactor {
  static constexpr OpSpec spec{"linalg_ldl_factor",
                               "input, *, hermitian=False",
                               kInternal | kOut | kDecomposition | kNondiff,
                               "L D L^T (L D L^H if hermitian) of a symmetric matrix, whose lower "
                               "triangle is read. Not differentiable.",
                               "none: tested by hand",
                               "",
                               "LD, pivots"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a, bool hermitian) {
    auto [ld, pivots, info] = apply<LdlFactorOp>(a, hermitian, false);
    check_info("torch.linalg.ldl_factor", info, LdlFactorOp::singular);
    return {ld, pivots};
  }
};
COGRAD_OP(LinalgLdlFactor)

// Checks what LAPACK trusts: a 1x1 block has one row number, a 2x2 block the same one twice,
// negated.
void check_ldl_pivots(const Tensor& pivots) {
  const int64_t n = pivots.size(-1), count = n == 0 ? 0 : pivots.numel() / n;
  const std::vector<int32_t> values = host_values_or<int32_t>(pivots, 1);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t* p = values.data() + i * n;
    for (int64_t k = 0; k < n; ++k) {
      const bool pair = p[k] < 0;
      const int64_t row = pair ? -int64_t{p[k]} : int64_t{p[k]};
      COGRAD_CHECK(row >= 1 && row <= n && (!pair || (k + 1 < n && p[k + 1] == p[k])),
                   "torch.linalg.ldl_solve: pivots[", k, "] is ", p[k],
                   ", expected what linalg.ldl_factor returned");
      k += pair;
    }
  }
}

struct LinalgLdlSolve {
  static constexpr OpSpec spec{
      "linalg_ldl_solve", "LD, pivots, B, *, hermitian=False", kInternal | kOut | kDecomposition,
      "X of A X = B from linalg.ldl_factor(A), differentiable with respect to B.",
      "none: tested by hand"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr bool kHolomorphic = false;
  static constexpr uint32_t kConstants = parameter_bits({0});
  static constexpr int kSaved = 2;
  struct State {
    bool hermitian;
    Dims sizes;
  };
  static Tensor forward(Ctx<LinalgLdlSolve>& ctx, const Tensor& ld, const Tensor& pivots,
                        const Tensor& b, bool hermitian) {
    constexpr const char* kName = "torch.linalg.ldl_solve";
    check_square(kName, ld, "LD");
    check_matrix(kName, b, "B");
    COGRAD_CHECK(ld.dtype() == b.dtype(), kName, ": B dtype ", scalar_type_name(b.dtype()),
                 " does not match LD dtype ", scalar_type_name(ld.dtype()));
    COGRAD_CHECK(b.size(-2) == ld.size(-1), "Incompatible matrix sizes for ", kName,
                 ": each A matrix is ", ld.size(-1), " by ", ld.size(-1), " but each b matrix is ",
                 b.size(-2), " by ", b.size(-1));
    COGRAD_CHECK(is_integral(pivots.dtype()) && pivots.dtype() != DType::Bool, kName,
                 ": Expected pivots to be integers. Got ", scalar_type_name(pivots.dtype()));
    COGRAD_CHECK(
        same(pivots.sizes(), ld.sizes().first(static_cast<size_t>(ld.dim()) - 1)), kName,
        ": Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape ",
        to_string(pivots.sizes()), " instead");
    Dims batch;
    COGRAD_CHECK(broadcast_shapes(batch_of(ld), batch_of(b), batch), kName, ": the batch shapes ",
                 to_string(batch_of(ld)), " and ", to_string(batch_of(b)), " do not broadcast");
    *ctx.operator->() = {hermitian, Dims(b.sizes())};
    if (ctx.recording()) ctx.save(ld, pivots);
    const int64_t n = ld.size(-1), k = b.size(-1);
    const auto grown = [&](const Tensor& x, std::initializer_list<int64_t> own) {
      Dims sizes(batch);
      sizes.append(own.begin(), own.end());
      return expand(x, sizes);
    };
    const Tensor factors = copy_columns(grown(ld, {n, n})), x = copy_columns(grown(b, {n, k}));
    const Tensor rows = contiguous_clone(raw_cast(grown(pivots, {n}), DType::Int32));
    check_ldl_pivots(rows);
    kernels::batched_ldl_solve(batch_in(x), hermitian, n, k, factors.bytes(), rows.data<int32_t>(),
                               x.bytes());
    return x;
  }
  static void backward(Ctx<LinalgLdlSolve>& ctx, const Tensor& g) {
    if (ctx.needs(0))
      detail::fail(ErrorKind::Runtime, "derivative for aten::linalg_ldl_solve is not implemented");
    if (!ctx.needs(2)) return;
    const bool hermitian = ctx->hermitian;  // A^-H is A^-1 or its conjugate
    const Tensor x =
        apply<LinalgLdlSolve>(ctx.saved(0), ctx.saved(1), hermitian ? g : conj(g), hermitian);
    ctx.grad(2) = sum_to(hermitian ? x : conj(x), ctx->sizes);
  }
};
COGRAD_OP(LinalgLdlSolve)

}  // namespace

}  // namespace cograd
