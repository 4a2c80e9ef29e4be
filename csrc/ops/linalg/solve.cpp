// SPDX-License-Identifier: BSD-3-Clause
// Linear systems, inverses and matrix powers from LU factors. Gradients: M. B. Giles, "An extended
// collection of matrix derivative results" (2008), 2.2.
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"
#include "ops/shape/geometry.h"

namespace cograd {

Factors factored(const Tensor& a) {
  const int64_t n = a.size(-1);
  Factors f{copy_columns(a), empty(batch_and(a, {n}), DType::Int32),
            empty(batch_of(a), DType::Int32)};
  kernels::batched_lu_factor(batch_in(a), n, n, f.lu.bytes(), f.pivots.data<int32_t>(),
                             f.info.data<int32_t>());
  return f;
}

namespace {

Tensor solved(const Factors& f, const Tensor& b, bool transpose) {
  const int64_t n = b.size(-2), k = b.size(-1);
  Tensor x = copy_columns(b);
  kernels::batched_lu_solve({b.dtype(), f.info.numel()}, transpose, n, k, f.lu.bytes(),
                            f.pivots.data<int32_t>(), x.bytes());
  return x;
}

struct LinalgSolveEx {
  static constexpr OpSpec spec{"linalg_solve_ex",
                               "A, B",
                               kInternal | kDecomposition,
                               "X of A X = B and info, for operands of the same batch shape.",
                               "none: tested by hand",
                               "",
                               "result, info"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 5;
  static std::tuple<Tensor, Tensor> forward(Ctx<LinalgSolveEx>& ctx, const Tensor& a,
                                            const Tensor& b) {
    const Factors f = factored(a);
    Tensor x = solved(f, b, false);
    if (ctx.recording()) ctx.save(a, f.lu, f.pivots, f.info);
    ctx.save_output(x);
    return {x, f.info};
  }
  // A X = B: dX = A^-1 (dB - dA X), so gB = A^-T g and gA = -gB X^T.
  static void backward(Ctx<LinalgSolveEx>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    const Tensor a = ctx.saved(0);
    const Tensor gb =
        ctx.differentiated()
            ? solve(matrix_t(a), gs[0])
            : solved({as_columns(ctx.saved(1)), ctx.saved(2), ctx.saved(3)}, gs[0], true);
    if (ctx.needs(0)) ctx.grad(0) = neg(matmul_t(gb, ctx.saved(4), false, true));
    if (ctx.needs(1)) ctx.grad(1) = gb;
  }
};

std::string singular_solve(int) {
  return "The solver failed because the input matrix is singular.";
}
std::string singular_inverse(int at) {
  return detail::concat("The diagonal element ", at,
                        " is zero, the inversion could not be completed because the input matrix "
                        "is singular.");
}

// Operands with common batch dims; B is a batch of matrices.
struct System {
  Tensor a, b;
  bool vector;
};

Tensor with_batch(const Tensor& x, const Dims& batch) {
  Dims sizes(batch);
  sizes.push_back(x.size(-2));
  sizes.push_back(x.size(-1));
  return same(x.sizes(), sizes) ? x : expand(x, sizes);
}

Dims joint_batch(const char* name, const Tensor& a, const Tensor& b) {
  Dims joint;
  COGRAD_CHECK(broadcast_shapes(batch_of(a), batch_of(b), joint), name, ": the batch shapes ",
               to_string(batch_of(a)), " and ", to_string(batch_of(b)), " do not broadcast");
  return joint;
}

void check_system(const char* name, const Tensor& a, const Tensor& b, bool left) {
  COGRAD_CHECK(a.dtype() == b.dtype(), name,
               ": Expected A and B to have the same dtype, but found ", "A of type ",
               scalar_type_name(a.dtype()), " and B of type ", scalar_type_name(b.dtype()),
               " instead");
  const bool fits = b.size(left ? -2 : -1) == a.size(-1);
  COGRAD_CHECK(fits, name, ": Incompatible shapes of A and B for the equation ",
               left ? "AX = B" : "XA = B", " (", a.size(-2), "x", a.size(-1), " and ", b.size(-2),
               "x", b.size(-1), ")");
}

// Returns the system A X = B; for X A = B it is transposed.
System system_of(const char* name, const Tensor& a, const Tensor& b, bool left) {
  check_square(name, a);
  const IntList rows = a.sizes().first(static_cast<size_t>(a.dim()) - 1);
  const bool vector = b.dim() == 1 || (b.dim() == a.dim() - 1 && same(b.sizes(), rows));
  COGRAD_CHECK(b.dim() >= 1, name, ": The input tensor B must have at least 1 dimension.");
  COGRAD_CHECK(left || !vector, name, ": Vector broadcasting of the left hand side is not ",
               "supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze",
               "(-1)");
  Tensor right = vector ? unsqueeze(b, -1) : b;
  check_system(name, a, right, left);
  const Dims batch = joint_batch(name, a, right);
  const Tensor lhs = with_batch(a, batch);
  right = with_batch(right, batch);
  if (left) return {lhs, right, vector};
  return {matrix_t(lhs), matrix_t(right), false};
}

std::pair<Tensor, Tensor> solve_system(const char* name, const Tensor& a, const Tensor& b,
                                       bool left) {
  const System s = system_of(name, a, b, left);
  auto [x, info] = apply<LinalgSolveEx>(s.a, s.b);
  if (s.vector) x = without_dim(x, -1);
  return {left ? x : matrix_t(x), info};
}

struct LinalgSolve {
  static constexpr OpSpec spec{
      "linalg_solve", "A, B, *, left=True", kInternal | kOut | kDecomposition | kAutocastWide,
      "X of A X = B, or of X A = B unless left.", "S(3), T(3, 2); S(3), T(3); S(2, 3), T(2, 3, 1)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a, const Tensor& b, bool left) {
    auto [x, info] = solve_system("linalg.solve", a, b, left);
    check_info("torch.linalg.solve", info, singular_solve);
    return x;
  }
};
COGRAD_OP(LinalgSolve)

struct LinalgSolveInfo {
  static constexpr OpSpec spec{"linalg_solve_ex",
                               "A, B, *, left=True, check_errors=False",
                               kInternal | kOut | kDecomposition,
                               "linalg.solve that returns LAPACK's info instead of raising.",
                               "none: tested by hand",
                               "",
                               "result, info"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a, const Tensor& b, bool left,
                                            bool check) {
    auto [x, info] = solve_system("linalg.solve_ex", a, b, left);
    if (check) check_info("torch.linalg.solve_ex", info, singular_solve);
    return {x, info};
  }
};
COGRAD_OP(LinalgSolveInfo)

struct LinalgInvEx {
  static constexpr OpSpec spec{
      "linalg_inv_ex",
      "A, *, check_errors=False",
      kInternal | kOut | kDecomposition | kAutocastWide,
      "The inverse of each matrix; returns LAPACK's info instead of raising.",
      "none: tested by hand",
      "",
      "inverse, info"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 1;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<LinalgInvEx>& ctx, const Tensor& a, bool check) {
    check_square("linalg.inv", a);
    const Factors f = factored(a);
    if (check) check_info("linalg.inv_ex", f.info, singular_inverse);
    const int64_t n = a.size(-1);
    kernels::batched_lu_inverse(batch_in(a), n, f.lu.bytes(), f.pivots.data<int32_t>(),
                                f.info.data<int32_t>());
    ctx.save_output(f.lu);
    return {f.lu, f.info};
  }
  // Y = A^-1: dY = -Y dA Y.
  static void backward(Ctx<LinalgInvEx>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    const Tensor y = ctx.saved(0);
    ctx.grad(0) = neg(matmul_t(matmul_t(y, gs[0], true, false), y, false, true));
  }
};
COGRAD_OP(LinalgInvEx)

Tensor checked_inverse(const char* name, const Tensor& a) {
  check_square(name, a);
  auto [y, info] = apply<LinalgInvEx>(a, false);
  check_info(name, info, singular_inverse);
  return y;
}

#define COGRAD_INVERSE(Struct, name, flags)                                                \
  struct Struct {                                                                          \
    static constexpr OpSpec spec{name,                                                     \
                                 "input",                                                  \
                                 flags | kDecomposition | kAutocastWide,                   \
                                 "The inverse of a square matrix, or of each of a batch.", \
                                 "S(3); S(2, 3)",                                          \
                                 "np.linalg.inv(x)"};                                      \
    static constexpr DTypeSet kDTypes = kMatrixTypes;                                      \
    static Tensor forward(const Tensor& a) { return checked_inverse("linalg.inv", a); }    \
  };                                                                                       \
  COGRAD_OP(Struct)
COGRAD_INVERSE(Inverse, "inverse", kFunctional | kOut)
COGRAD_INVERSE(LinalgInv, "linalg_inv", kInternal | kOut)
#undef COGRAD_INVERSE

struct MatrixPower {
  static constexpr OpSpec spec{"matrix_power",
                               "input, n",
                               kFunctional | kOut | kContraction,
                               "The n-th power of square matrices; of their inverses for n < 0.",
                               "S(3), 3; S(2, 3), 0; S(2, 3), 2",
                               "np.linalg.matrix_power(x, n)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& a, int64_t n) {
    check_square_of_any("linalg.matrix_power", a);
    if (n == 0) {  // overwrites a clone, so that `a` stays connected in the graph
      const Tensor power = clone(a);
      copy_(power, diag_embed(ones(Dims{a.size(-1)}, a.dtype())));
      return power;
    }
    Tensor square = n < 0 ? checked_inverse("linalg.matrix_power", a) : a;
    Tensor power;
    for (uint64_t rest = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);;
         square = matmul(square, square)) {
      if ((rest & 1) != 0) power = power.defined() ? matmul(power, square) : square;
      rest >>= 1;
      if (rest == 0) break;
    }
    return n == 1 ? clone(power) : power;
  }
};
COGRAD_OP(MatrixPower)

struct TriangularState {
  bool upper, unit;
};

struct LinalgSolveTriangularOp {
  static constexpr OpSpec spec{"linalg_solve_triangular", "A, B, upper, unit",
                               kInternal | kDecomposition, "", "none: linalg_solve_triangular"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr const char* kNodeName = "LinalgSolveTriangularBackward0";
  static constexpr int kSaved = 2;
  using State = TriangularState;
  static Tensor forward(Ctx<LinalgSolveTriangularOp>& ctx, const Tensor& a, const Tensor& b,
                        bool upper, bool unit) {
    *ctx.operator->() = {upper, unit};
    ctx.save(a);
    const int64_t n = a.size(-1), k = b.size(-1);
    const Tensor m = copy_columns(a);
    Tensor x = copy_columns(b);
    kernels::batched_triangular_solve(batch_in(a), upper, unit, n, k, m.bytes(), x.bytes());
    ctx.save_output(x);
    return x;
  }
  // The gradient is that of solve, restricted to the triangle of A that was read.
  static void backward(Ctx<LinalgSolveTriangularOp>& ctx, const Tensor& g) {
    const bool upper = ctx->upper, unit = ctx->unit;
    const Tensor gb = solve_triangular(matrix_t(ctx.saved(0)), g, !upper, unit);
    if (ctx.needs(1)) ctx.grad(1) = gb;
    if (!ctx.needs(0)) return;
    const Tensor ga = neg(matmul_t(gb, ctx.saved(1), false, true));
    ctx.grad(0) = upper ? triu(ga, unit ? 1 : 0) : tril(ga, unit ? -1 : 0);
  }
};

struct LinalgSolveTriangular {
  static constexpr OpSpec spec{
      "linalg_solve_triangular", "A, B, *, upper, left=True, unitriangular=False",
      kInternal | kOut | kDecomposition, "X of A X = B (X A = B unless left) for a triangular A.",
      "none: tested by hand"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit) {
    constexpr const char* kName = "linalg.solve_triangular";
    check_matrix(kName, b, "B");
    check_square(kName, a);
    check_system(kName, a, b, left);
    const Dims batch = joint_batch(kName, a, b);
    const Tensor lhs = with_batch(a, batch), rhs = with_batch(b, batch);
    if (left) return solve_triangular(lhs, rhs, upper, unit);
    return matrix_t(solve_triangular(matrix_t(lhs), matrix_t(rhs), !upper, unit));
  }
};
COGRAD_OP(LinalgSolveTriangular)

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) { return std::get<0>(apply<LinalgSolveEx>(a, b)); }
Tensor inverse(const Tensor& a) { return checked_inverse("linalg.inv", a); }
Tensor inverse_or_nan(const Tensor& a) { return std::get<0>(apply<LinalgInvEx>(a, false)); }
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool unit) {
  return apply<LinalgSolveTriangularOp>(a, b, upper, unit);
}

}  // namespace cograd
