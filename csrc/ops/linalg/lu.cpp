// SPDX-License-Identifier: BSD-3-Clause
// LU factors as results, and solving with them. Gradient: S. de Hoog, R. Anderssen, M. Lukas,
// "Differentiation of matrix functionals using triangular factorization" (2011).
#include <algorithm>

#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"
#include "transforms/batch.h"

namespace cograd {

namespace {

Tensor identity(int64_t rows, int64_t cols, DType t) {
  const Tensor out = zeros(Dims{rows, cols}, t);
  fill_(diagonal(out), 1);
  return out;
}

// Raises unless all pivots are in 1..rows; pivots of an unrelated call may not be.
void check_pivots(const char* name, const Tensor& pivots, int64_t rows) {
  const Tensor p = raw_contiguous(physical_tensor(pivots));
  const std::vector<int32_t> v = host_values_or<int32_t>(p, 1);
  const bool fits =
      std::all_of(v.begin(), v.end(), [&](int32_t row) { return row >= 1 && row <= rows; });
  COGRAD_CHECK(fits, name, ": pivots must be between 1 and LU.size(-2) = ", rows,
               " inclusive. Did you properly pass the result of lu_factor?");
}

// Converts the row exchanges of each matrix to a permutation of `rows` rows, int64 (.., rows): row
// i of the product L U is row out[i] of A; with `inverse`, row i of A is row out[i] of L U.
struct Permutation {
  static constexpr OpSpec spec{"_lu_permutation", "LU_pivots, rows, inverse",
                               kInternal | kNondiff | kDecomposition, "",
                               "none: tested through lu_unpack"};
  static constexpr BatchRule kBatch = leading(1);
  static Tensor forward(Ctx<Permutation>&, const Tensor& pivots, int64_t rows, bool inverse) {
    check_pivots("lu_unpack", pivots, rows);
    const Tensor p = raw_contiguous(pivots);
    const int64_t k = p.size(-1);
    Dims sizes(p.sizes());
    sizes[sizes.size() - 1] = rows;
    const Tensor out = empty(sizes, DType::Int64);
    const int64_t count = rows == 0 ? 0 : out.numel() / rows;
    kernels::lu_permutations(count, p.data<int32_t>(), k, rows, inverse, out.data<int64_t>());
    return out;
  }
};

// Reorders the rows of x (.., m, n) by the order (.., m).
Tensor permuted(const Tensor& x, const Tensor& order) {
  return take_along(x, x.dim() - 2, expand(unsqueeze(order, -1), x.sizes()));
}

struct LuFactorOp {
  static constexpr OpSpec spec{"_lu_factor", "A", kInternal | kDecomposition, "",
                               "none: linalg_lu_factor"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr const char* kNodeName = "LinalgLuFactorExBackward0";
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor, Tensor> forward(Ctx<LuFactorOp>& ctx, const Tensor& a) {
    const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
    const Tensor lu = copy_columns(a), pivots = empty(batch_and(a, {k}), DType::Int32),
                 info = empty(batch_of(a), DType::Int32);
    kernels::batched_lu_factor(batch_in(a), m, n, lu.bytes(), pivots.data<int32_t>(),
                               info.data<int32_t>());
    if (ctx.recording()) ctx.save(pivots);
    ctx.save_output(lu, 0);
    return {lu, pivots, info};
  }
  static void backward(Ctx<LuFactorOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    const Tensor pivots = ctx.saved(0), lu = ctx.saved(1);
    const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
    const Tensor square = narrow(narrow(lu, -2, 0, k), -1, 0, k);
    const Tensor lower = tril(square, -1) + identity(k, k, lu.dtype()), upper = triu(square);
    const Tensor head = narrow(narrow(gs[0], -2, 0, k), -1, 0, k);
    Tensor gl = tril(head, -1), gu = triu(head), rest;
    if (n > m) {  // U2 = L^-1 B2
      const Tensor g2 = narrow(gs[0], -1, k, n - k), u2 = narrow(lu, -1, k, n - k);
      rest = solve_triangular(matrix_h(lower), g2, true, true);
      gl = gl - tril(matmul_nh(rest, u2), -1);
    } else if (m > n) {  // L2 = B2 U^-1
      const Tensor g2 = narrow(gs[0], -2, k, m - k), l2 = narrow(lu, -2, k, m - k);
      rest = matrix_h(solve_triangular(upper, matrix_h(g2), true));
      gu = gu - triu(matmul_hn(l2, rest));
    }
    // L^-H (tril(L^H gL, -1) + triu(gU U^H)) U^-H
    const Tensor middle = tril(matmul_hn(lower, gl), -1) + triu(matmul_nh(gu, upper));
    const Tensor left = solve_triangular(matrix_h(lower), middle, true, true);
    Tensor g = matrix_h(solve_triangular(upper, matrix_h(left), true));
    if (rest.defined()) {
      const Tensor parts[2] = {g, rest};
      g = cat(parts, n > m ? -1 : -2);
    }
    ctx.grad(0) = permuted(g, apply<Permutation>(pivots, m, true));
  }
};

std::string zero_pivot(int at) {
  return detail::concat(
      "U[", at, ",", at,
      "] is zero and using it on lu_solve would result in a division by zero. If you still want to "
      "perform the factorization, consider calling linalg.lu(A, pivot) or "
      "linalg.lu_factor_ex(A, pivot)");
}

std::tuple<Tensor, Tensor, Tensor> factor(const Tensor& a, bool pivot) {
  COGRAD_CHECK(a.dim() >= 2,
               "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: ",
               to_string(a.sizes()), " instead");
  check_matrix("linalg.lu_factor", a);
  COGRAD_CHECK(pivot, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  return apply<LuFactorOp>(a);
}

struct LinalgLuFactorEx {
  static constexpr OpSpec spec{"linalg_lu_factor_ex",
                               "A, *, pivot=True, check_errors=False",
                               kInternal | kOut | kDecomposition,
                               "linalg.lu_factor that returns LAPACK's info instead of raising.",
                               "none: tested by hand",
                               "",
                               "LU, pivots, info"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& a, bool pivot, bool check) {
    auto result = factor(a, pivot);
    if (check) check_info("torch.linalg.lu_factor_ex", std::get<2>(result), zero_pivot);
    return result;
  }
};
COGRAD_OP(LinalgLuFactorEx)

struct LinalgLuFactor {
  static constexpr OpSpec spec{"linalg_lu_factor",
                               "A, *, pivot=True",
                               kInternal | kOut | kDecomposition,
                               "L (without its diagonal of ones) and U of P L U = A in one matrix, "
                               "and the rows exchanged.",
                               "S(3); T(2, 4, 3); T(2, 4)",
                               "",
                               "LU, pivots"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a, bool pivot) {
    auto [lu, pivots, info] = factor(a, pivot);
    check_info("torch.linalg.lu_factor", info, zero_pivot);
    return {lu, pivots};
  }
};
COGRAD_OP(LinalgLuFactor)

Tensor permutation_matrix(const Tensor& pivots, int64_t rows, DType t) {
  const Tensor order = apply<Permutation>(pivots, rows, true);
  Dims sizes(order.sizes());
  sizes.push_back(rows);
  return permuted(expand(identity(rows, rows, t), sizes), order);
}

std::tuple<Tensor, Tensor, Tensor> unpack(const Tensor& lu, const Tensor& pivots, bool data,
                                          bool rows) {
  const int64_t m = lu.size(-2), n = lu.size(-1), k = std::min(m, n);
  const Tensor none = empty(Dims{0}, lu.dtype());
  std::tuple<Tensor, Tensor, Tensor> out{none, none, none};
  if (rows) std::get<0>(out) = permutation_matrix(pivots, m, lu.dtype());
  if (data) {
    std::get<1>(out) = tril(narrow(lu, -1, 0, k), -1) + identity(m, k, lu.dtype());
    std::get<2>(out) = triu(narrow(lu, -2, 0, k));
  }
  return out;
}

struct LuUnpack {
  static constexpr OpSpec spec{"lu_unpack",
                               "LU_data, LU_pivots, unpack_data=True, unpack_pivots=True",
                               kFunction | kOut | kDecomposition,
                               "P, L and U of the results of linalg.lu_factor.",
                               "none: tested by hand",
                               "",
                               "P, L, U"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = through();
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& lu, const Tensor& pivots,
                                                    bool data, bool rows) {
    check_matrix("torch.lu_unpack", lu, "LU_data");
    COGRAD_CHECK(!rows || pivots.dtype() == DType::Int32,
                 "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
                 "dtype.\nNote: this function is intended to be used with the output produced by "
                 "torch.linalg.lu_factor");
    COGRAD_CHECK(
        !rows || (pivots.dim() == lu.dim() - 1 &&
                  same(pivots.sizes().first(static_cast<size_t>(lu.dim()) - 2), batch_of(lu)) &&
                  pivots.size(-1) <= lu.size(-2)),
        "torch.lu_unpack: LU_pivots of shape ", to_string(pivots.sizes()),
        " do not belong to LU_data of shape ", to_string(lu.sizes()));
    return unpack(lu, pivots, data, rows);
  }
};
COGRAD_OP(LuUnpack)

struct LinalgLu {
  static constexpr OpSpec spec{"linalg_lu",
                               "A, *, pivot=True",
                               kInternal | kOut | kDecomposition,
                               "A = P L U: a permutation, unit lower and upper triangles.",
                               "S(3); T(2, 4, 3); T(2, 4)",
                               "",
                               "P, L, U"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& a, bool pivot) {
    const auto [lu, pivots, info] = factor(a, pivot);
    return unpack(lu, pivots, true, true);
  }
};
COGRAD_OP(LinalgLu)

// Solves A X = B with A = P L U, or A^H X = B.
Tensor solved(const Tensor& lu, const Tensor& order, const Tensor& inverse, const Tensor& b,
              bool adjoint) {
  if (!adjoint)
    return solve_triangular(lu, solve_triangular(lu, permuted(b, order), false, true), true);
  const Tensor h = matrix_h(lu);
  return permuted(solve_triangular(h, solve_triangular(h, b, false), true, true), inverse);
}

Tensor lu_solve(const char* name, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                bool left, bool adjoint) {
  check_square(name, lu);
  check_matrix(name, b, "B");
  COGRAD_CHECK(lu.dtype() == b.dtype(), name,
               ": Expected LU and B to have the same dtype, but found LU of type ",
               scalar_type_name(lu.dtype()), " and B of type ", scalar_type_name(b.dtype()),
               " instead");
  COGRAD_CHECK(pivots.dtype() == DType::Int32, name,
               ": pivots should be a Tensor of scalar type torch.int32");
  const int64_t n = lu.size(-1);
  COGRAD_CHECK(b.size(left ? -2 : -1) == n, name,
               ": Incompatible shapes of A and B for the equation ", left ? "AX = B" : "XA = B",
               " (", n, "x", n, " and ", b.size(-2), "x", b.size(-1), ")");
  COGRAD_CHECK(pivots.dim() == lu.dim() - 1 && pivots.size(-1) == n, name,
               ": Number of pivots per batch should be same as the dimension of the matrix");
  COGRAD_CHECK(same(pivots.sizes().first(static_cast<size_t>(lu.dim()) - 2), batch_of(lu)), name,
               ": Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with "
               "shape ",
               to_string(pivots.sizes()), " instead");
  Dims batch;
  COGRAD_CHECK(broadcast_shapes(batch_of(lu), batch_of(b), batch), name, ": the batch shapes ",
               to_string(batch_of(lu)), " and ", to_string(batch_of(b)), " do not broadcast");
  const auto grown = [&](const Tensor& x, int own) {
    Dims sizes(batch);
    for (int d = own; d > 0; --d) sizes.push_back(x.size(-d));
    return expand(x, sizes);
  };
  const Tensor order = grown(apply<Permutation>(pivots, n, false), 1);
  const Tensor inverse = grown(apply<Permutation>(pivots, n, true), 1);
  const Tensor all = grown(lu, 2), right = grown(b, 2);
  if (left) return solved(all, order, inverse, right, adjoint);
  return matrix_h(solved(all, order, inverse, matrix_h(right), !adjoint));
}

struct LinalgLuSolve {
  static constexpr OpSpec spec{"linalg_lu_solve", "LU, pivots, B, *, left=True, adjoint=False",
                               kInternal | kOut | kDecomposition,
                               "X of A X = B, X A = B unless left, A^H for A if adjoint, from "
                               "linalg.lu_factor(A).",
                               "none: tested by hand"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left,
                        bool adjoint) {
    return lu_solve("linalg.lu_solve", lu, pivots, b, left, adjoint);
  }
};
COGRAD_OP(LinalgLuSolve)

struct LuSolve {
  static constexpr OpSpec spec{
      "lu_solve", "input, LU_data, LU_pivots", kFunctional | kOut | kDecomposition | kAutocastWide,
      "linalg.lu_solve under its older name: X of A X = input.", "none: tested by hand"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& b, const Tensor& lu, const Tensor& pivots) {
    return lu_solve("linalg.lu_solve", lu, pivots, b, true, false);
  }
};
COGRAD_OP(LuSolve)

struct TriangularSolve {
  static constexpr OpSpec spec{
      "triangular_solve",
      "input, A, upper=True, transpose=False, unitriangular=False",
      kFunctional | kOut | kDecomposition | kAutocastWide,
      "X of A X = input for a triangular A (A^T if transpose), and a copy of A.",
      "T(3, 2), S(3); T(2, 3, 2), S(3), False, True, True",
      "",
      "solution, cloned_coefficient"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr BatchRule kBatch = through();
  static std::tuple<Tensor, Tensor> forward(const Tensor& b, const Tensor& a, bool upper,
                                            bool transpose, bool unit) {
    COGRAD_CHECK(b.dim() >= 2,
                 "torch.triangular_solve: Expected b to have at least 2 dimensions, but it has ",
                 b.dim(), " dimensions instead");
    COGRAD_CHECK(a.dim() >= 2,
                 "torch.triangular_solve: Expected A to have at least 2 dimensions, but it has ",
                 a.dim(), " dimensions instead");
    check_square("triangular_solve", a);
    check_matrix("triangular_solve", b, "b");
    COGRAD_CHECK(a.dtype() == b.dtype(),
                 "triangular_solve: Expected b and A to have the same dtype, but found b of type ",
                 scalar_type_name(b.dtype()), " and A of type ", scalar_type_name(a.dtype()));
    COGRAD_CHECK(a.size(-1) == b.size(-2),
                 "Incompatible matrix sizes for triangular_solve: each A matrix is ", a.size(-2),
                 " by ", a.size(-1), " but each b matrix is ", b.size(-2), " by ", b.size(-1));
    Dims batch;
    COGRAD_CHECK(broadcast_shapes(batch_of(a), batch_of(b), batch),
                 "triangular_solve: the batch shapes ", to_string(batch_of(a)), " and ",
                 to_string(batch_of(b)), " do not broadcast");
    const auto grown = [&](const Tensor& x) {
      Dims sizes(batch);
      sizes.push_back(x.size(-2));
      sizes.push_back(x.size(-1));
      return expand(x, sizes);
    };
    const Tensor all = grown(a);
    return {solve_triangular(transpose ? matrix_t(all) : all, grown(b), upper != transpose, unit),
            contiguous_clone(all)};
  }
};
COGRAD_OP(TriangularSolve)

}  // namespace

}  // namespace cograd
