// SPDX-License-Identifier: BSD-3-Clause
// Products with sparse matrices, on the tensors that cograd.sparse stores: the values, and the
// pattern of the rows (starts, columns, places) and of the columns, that is of the transpose.
#include "ops/linalg/csr.h"

#include "kernels/product/csr.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/op.h"
#include "ops/declare/ops.h"

namespace cograd {

namespace {

// The arrays of a pattern, held while a kernel reads them.
struct Pattern {
  Tensor start, col, place;
  kernels::CsrPattern of(const char* op, int64_t cols) const {
    const bool ints = start.dtype() == DType::Int32 || start.dtype() == DType::Int64;
    COGRAD_CHECK(ints && col.dtype() == start.dtype() && start.dim() == 1 && col.dim() == 1 &&
                     start.numel() > 0 &&
                     (!place.defined() || (place.dtype() == start.dtype() && place.dim() == 1 &&
                                           place.numel() == col.numel())),
                 op, "(): starts, columns and places must be vectors of one dtype, int32 or int64");
    return {
        start.dtype(),     start.bytes(), col.bytes(), place.defined() ? place.bytes() : nullptr,
        start.numel() - 1, cols,          col.numel()};
  }
};

Pattern pattern(const Tensor& start, const Tensor& col, const Tensor& place) {
  return {raw_contiguous(start), raw_contiguous(col),
          place.defined() ? raw_contiguous(place) : Tensor()};
}

void check_range(const char* op, bool good) {
  COGRAD_CHECK_INDEX(good, op, "(): an index of the sparse matrix is out of range");
}

// One op for two functions that are each other's derivatives: the product A @ x of a sparse matrix,
// whose values are `left`, and with `sampled` the elements of left @ x.T where A has values.
struct Csr {
  static constexpr OpSpec spec{
      "_csr",
      "left, x, start, col, place=None, t_start=None, t_col=None, t_place=None, sampled=False",
      kInternal | kContraction,
      "The product of a sparse matrix in compressed rows with a dense matrix, or elements of a "
      "dense product.",
      "T(3), T(3, 2), cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]); T(3), T(3, 5), "
      "cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]), cograd.tensor([1, 0, 2]); T(2, 3), T(4, "
      "3), cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]), sampled=True; T(2, 1), T(3, 1), "
      "cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]), cograd.tensor([1, 0, 2]), sampled=True",
      ""};
  static constexpr DTypeSet kDTypes = dtype_set({DType::Float32, DType::Float64});
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static constexpr int kSaved = 8;
  struct State {
    bool sampled = false;
  };
  static Tensor forward(Ctx<Csr>& ctx, const Tensor& left, const Tensor& x, const Tensor& start,
                        const Tensor& col, const Tensor& place, const Tensor& t_start,
                        const Tensor& t_col, const Tensor& t_place, bool sampled) {
    COGRAD_CHECK_NOT_IMPLEMENTED(left.dtype() == DType::Float32 || left.dtype() == DType::Float64,
                                 "_csr(): not implemented for dtype ", dtype_name(left.dtype()));
    COGRAD_CHECK(left.dtype() == x.dtype(), "_csr(): operands of dtype ", dtype_name(left.dtype()),
                 " and ", dtype_name(x.dtype()));
    const bool fits = sampled ? left.dim() == 2 && x.dim() == 2 && left.size(1) == x.size(1) &&
                                    start.numel() == left.size(0) + 1
                              : left.dim() == 1 && x.dim() == 2 && left.numel() == col.numel();
    COGRAD_CHECK(fits, "_csr(): the shapes of the operands and the pattern do not fit together");
    ctx->sampled = sampled;
    ctx.save(left, x, start, col, place, t_start, t_col, t_place);
    const Pattern p = pattern(start, col, place);
    const kernels::CsrPattern a = p.of("_csr", x.size(0));
    const Tensor from = raw_contiguous(left), by = raw_contiguous(x);
    Tensor out = sampled ? empty({{a.entries}}, x.dtype())
                         : empty_checked("_csr", {{a.rows, x.size(1)}}, x.dtype());
    check_range("_csr", (sampled ? kernels::csr_sampled : kernels::csr_product)(
                            x.dtype(), a, from.bytes(), by.bytes(), x.size(1), out.bytes()));
    return out;
  }
  static void backward(Ctx<Csr>& ctx, const Tensor& g) {
    const Tensor left = ctx.saved(0), x = ctx.saved(1), start = ctx.saved(2), col = ctx.saved(3),
                 place = ctx.saved(4);
    Tensor t_start = ctx.saved(5), t_col = ctx.saved(6), t_place = ctx.saved(7);
    if (ctx.needs(1) && !t_start.defined())
      std::tie(t_start, t_col, t_place) = csr_transpose(start, col, place, x.size(0));
    // The values of the matrix that the gradient of x is a product with, and the other operand.
    const Tensor &values = ctx->sampled ? g : left, &other = ctx->sampled ? left : g;
    if (ctx.needs(1))
      ctx.grad(1) = apply<Csr>(values, other, t_start, t_col, t_place, start, col, place, false);
    if (ctx.needs(0))
      ctx.grad(0) = apply<Csr>(g, x, start, col, place, t_start, t_col, t_place, !ctx->sampled);
  }
};
COGRAD_OP(Csr)

}  // namespace

std::tuple<Tensor, Tensor, Tensor> csr_transpose(const Tensor& start, const Tensor& col,
                                                 const Tensor& place, int64_t cols) {
  const PlaceGuard here(start->device);  // cograd.sparse calls this outside of ops
  const Pattern p = pattern(start, col, place);
  const kernels::CsrPattern a = p.of("_csr_transpose", cols);
  Tensor starts = empty_checked("_csr_transpose", {{cols + 1}}, start.dtype());
  Tensor rows = empty({{a.entries}}, start.dtype()), places = empty({{a.entries}}, start.dtype());
  check_range("_csr_transpose",
              kernels::csr_transpose(a, starts.bytes(), rows.bytes(), places.bytes()));
  return {starts, rows, places};
}

}  // namespace cograd
