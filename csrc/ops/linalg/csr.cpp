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

constexpr DTypeSet kWide = dtype_set({DType::Float32, DType::Float64});

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

// The saved pattern of rows and columns, in slots 2 to 7. The latter is computed if it was not
// given.
struct Both {
  Tensor start, col, place, t_start, t_col, t_place;
  void need_transpose(int64_t cols) {
    if (t_start.defined()) return;
    std::tie(t_start, t_col, t_place) = csr_transpose(start, col, place, cols);
  }
};
template <class Op>
Both both(Ctx<Op>& ctx) {
  return {ctx.saved(2), ctx.saved(3), ctx.saved(4), ctx.saved(5), ctx.saved(6), ctx.saved(7)};
}

struct CsrSampled;
Tensor csr_sampled(const Tensor& y, const Tensor& x, const Both& b);

struct CsrProduct {
  static constexpr OpSpec spec{
      "_csr_product",
      "values, x, start, col, place=None, t_start=None, t_col=None, t_place=None",
      kInternal | kContraction,
      "The product of a sparse matrix in compressed rows with a dense matrix.",
      "T(3), T(3, 2), cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]); T(3), T(3, 5), "
      "cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]), cograd.tensor([1, 0, 2])",
      ""};
  static constexpr DTypeSet kDTypes = kWide;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static constexpr int kSaved = 8;
  static Tensor forward(Ctx<CsrProduct>& ctx, const Tensor& values, const Tensor& x,
                        const Tensor& start, const Tensor& col, const Tensor& place,
                        const Tensor& t_start, const Tensor& t_col, const Tensor& t_place) {
    COGRAD_CHECK_NOT_IMPLEMENTED(
        values.dtype() == DType::Float32 || values.dtype() == DType::Float64,
        "_csr_product(): not implemented for dtype ", dtype_name(values.dtype()));
    COGRAD_CHECK(values.dtype() == x.dtype(), "_csr_product(): values of dtype ",
                 dtype_name(values.dtype()), " and a matrix of dtype ", dtype_name(x.dtype()));
    COGRAD_CHECK(values.dim() == 1 && x.dim() == 2 && values.numel() == col.numel(),
                 "_csr_product(): expected one value for each column and a matrix");
    ctx.save(ctx.needs(1) ? values : Tensor(), x, start, col, place, t_start, t_col, t_place);
    const Pattern p = pattern(start, col, place);
    const kernels::CsrPattern a = p.of("_csr_product", x.size(0));
    const Tensor v = raw_contiguous(values), from = raw_contiguous(x);
    Tensor out = empty_checked("_csr_product", {{a.rows, x.size(1)}}, values.dtype());
    check_range("_csr_product", kernels::csr_product(v.dtype(), a, v.bytes(), from.bytes(),
                                                     x.size(1), out.bytes()));
    return out;
  }
  static void backward(Ctx<CsrProduct>& ctx, const Tensor& g) {
    Both b = both(ctx);
    const Tensor x = ctx.saved(1);
    if (ctx.needs(1)) {
      b.need_transpose(x.size(0));
      ctx.grad(1) = apply<CsrProduct>(ctx.saved(0), g, b.t_start, b.t_col, b.t_place, b.start,
                                      b.col, b.place);
    }
    if (ctx.needs(0)) ctx.grad(0) = csr_sampled(g, x, b);
  }
};
COGRAD_OP(CsrProduct)

struct CsrSampled {
  static constexpr OpSpec spec{
      "_csr_sampled",
      "y, x, start, col, place=None, t_start=None, t_col=None, t_place=None",
      kInternal | kContraction,
      "The elements of y @ x.T where a sparse matrix has entries.",
      "T(2, 3), T(4, 3), cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]); T(2, 1), T(3, "
      "1), cograd.tensor([0, 2, 3]), cograd.tensor([0, 2, 1]), cograd.tensor([1, 0, 2])",
      ""};
  static constexpr DTypeSet kDTypes = kWide;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static constexpr int kSaved = 8;
  static Tensor forward(Ctx<CsrSampled>& ctx, const Tensor& y, const Tensor& x, const Tensor& start,
                        const Tensor& col, const Tensor& place, const Tensor& t_start,
                        const Tensor& t_col, const Tensor& t_place) {
    COGRAD_CHECK_NOT_IMPLEMENTED(y.dtype() == DType::Float32 || y.dtype() == DType::Float64,
                                 "_csr_sampled(): not implemented for dtype ",
                                 dtype_name(y.dtype()));
    COGRAD_CHECK(y.dtype() == x.dtype() && y.dim() == 2 && x.dim() == 2 && y.size(1) == x.size(1) &&
                     start.numel() == y.size(0) + 1,
                 "_csr_sampled(): the matrices and the pattern do not fit together");
    ctx.save(y, x, start, col, place, t_start, t_col, t_place);
    const Pattern p = pattern(start, col, place);
    const kernels::CsrPattern a = p.of("_csr_sampled", x.size(0));
    const Tensor left = raw_contiguous(y), right = raw_contiguous(x);
    Tensor out = empty({{a.entries}}, y.dtype());
    check_range("_csr_sampled", kernels::csr_sampled(y.dtype(), a, left.bytes(), right.bytes(),
                                                     x.size(1), out.bytes()));
    return out;
  }
  static void backward(Ctx<CsrSampled>& ctx, const Tensor& g) {
    Both b = both(ctx);
    const Tensor x = ctx.saved(1);
    if (ctx.needs(0))
      ctx.grad(0) = apply<CsrProduct>(g, x, b.start, b.col, b.place, b.t_start, b.t_col, b.t_place);
    if (!ctx.needs(1)) return;
    b.need_transpose(x.size(0));
    ctx.grad(1) =
        apply<CsrProduct>(g, ctx.saved(0), b.t_start, b.t_col, b.t_place, b.start, b.col, b.place);
  }
};
COGRAD_OP(CsrSampled)

Tensor csr_sampled(const Tensor& y, const Tensor& x, const Both& b) {
  return apply<CsrSampled>(y, x, b.start, b.col, b.place, b.t_start, b.t_col, b.t_place);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> csr_transpose(const Tensor& start, const Tensor& col,
                                                 const Tensor& place, int64_t cols) {
  const Pattern p = pattern(start, col, place);
  const kernels::CsrPattern a = p.of("_csr_transpose", cols);
  Tensor starts = empty_checked("_csr_transpose", {{cols + 1}}, start.dtype());
  Tensor rows = empty({{a.entries}}, start.dtype()), places = empty({{a.entries}}, start.dtype());
  check_range("_csr_transpose",
              kernels::csr_transpose(a, starts.bytes(), rows.bytes(), places.bytes()));
  return {starts, rows, places};
}

}  // namespace cograd
