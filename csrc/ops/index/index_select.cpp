// SPDX-License-Identifier: BSD-3-Clause
// Ops that select whole slices by a vector of indices along one dim: index_select, index_add,
// index_copy, index_fill.
#include "kernels/index/index.h"
#include "ops/compute/scalars.h"
#include "ops/declare/batch_call.h"
#include "ops/index/gather_scatter.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

// The checked arguments that all index_* ops share.
struct Slices {
  int dim;
  Tensor index;  // int64, contiguous
  int64_t count;
};

Slices slices_of(const char* op, const Tensor& self, int64_t dim, const Tensor& index) {
  const int d = wrap_dim(dim, self.dim());
  Tensor at = raw_contiguous(index64(index, op));
  COGRAD_CHECK_INDEX(index.dim() <= 1, op,
                     "(): Index is supposed to be a vector, but got dim: ", index.dim(),
                     " and size: ", to_string(index.sizes()));
  return {d, std::move(at), index.numel()};
}

// Checks that source has self's shape apart from dim, where it has one entry per index.
void check_source(const char* op, const Tensor& self, const Slices& s, const Tensor& source,
                  ErrorKind kind) {
  if (source.dtype() != self.dtype())
    detail::fail(ErrorKind::Runtime, op, "(): self (", scalar_type_name(self.dtype()),
                 ") and source (", scalar_type_name(source.dtype()),
                 ") must have the same scalar type: expected one dtype");
  const int64_t given = source.dim() == 0 ? 1 : source.dim() > s.dim ? source.size(s.dim) : -1;
  if (given != s.count)
    detail::fail(kind, op, "(): Number of indices (", s.count,
                 ") should be equal to source.size(dim): (", given, "), for dim: ", s.dim);
  bool fits = source.dim() == self.dim() || (self.dim() == 0 && source.numel() == s.count);
  for (int d = 0; fits && d < self.dim(); ++d) fits = d == s.dim || self.size(d) == source.size(d);
  COGRAD_CHECK(fits, op,
               "(): source tensor shape must match self tensor shape, excluding the specified "
               "dimension. Got self.shape = ",
               to_string(self.sizes()), " source.shape = ", to_string(source.sizes()));
}

struct SliceState {
  Dims sizes;
  int dim = 0;
  Scalar alpha;
};

Tensor index_select_grad(const Tensor& g, int dim, const Tensor& index, IntList sizes);

struct IndexSelect {
  static constexpr OpSpec spec{"index_select",
                               "input, dim, index",
                               kFunctional | kOut | kIndex | kExactOut | kOutApart,
                               "The slices of input at index, a vector of ints, along dim.",
                               "T(3, 4), 0, I(5, hi=3); T(2, 3, 4), -1, I(2, hi=4)",
                               "np.take(input, index, axis=dim)"};
  static constexpr int kSaved = 1;
  using State = SliceState;
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<IndexSelect>& ctx, const Tensor& x, Dim dim, const Tensor& index) {
    const Slices s = slices_of("index_select", x, dim, index);
    ctx->dim = s.dim;
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    ctx.save(s.index);
    Dims sizes(x.sizes());
    if (!sizes.empty())
      sizes[static_cast<size_t>(s.dim)] = s.count;
    else
      COGRAD_CHECK_INDEX(s.count == 1,
                         "index_select(): Index to scalar can have only 1 value, got ", s.count,
                         " value(s)");
    Tensor out = empty(sizes, x.dtype());
    const Tensor in = raw_contiguous(x);
    const Axis a = axis_of(x.sizes(), s.dim);
    kernels::index_select(in.bytes(), a.outer, a.n, a.inner * x.itemsize(), s.index.data<int64_t>(),
                          s.count, out.bytes(), s.dim);
    return out;
  }
  static void backward(Ctx<IndexSelect>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = index_select_grad(g, ctx->dim, ctx.saved(0), ctx->sizes);
  }
  static void batch(BatchCall& c) {
    const Tensor &x = c.arg(0).tensor(), &index = c.arg(2).tensor();
    if (x.dim() == 0 || index.dim() > 1) return c.loop();
    const int d = wrap_dim(c.arg(1).integer(), x.dim());
    const Tensor each = c.physical(x);
    if (!c.batched(index)) return c.set_result(apply<IndexSelect>(each, int64_t{d + 1}, index));
    const int64_t n = index.dim() == 0 ? 1 : index.size(0);
    if (c.batched(x)) {
      Dims sizes = detail::with_samples(c.size(), x.sizes());
      Dims one(sizes.size(), 1);
      sizes[static_cast<size_t>(d) + 1] = one[static_cast<size_t>(d) + 1] = n;
      one[0] = c.size();
      return c.set_result(gather(each, d + 1, expand(reshape(c.physical(index), one), sizes)));
    }
    const int64_t all[1] = {c.size() * n};
    Dims sizes;
    for (int i = 0; i < x.dim(); ++i) {
      if (i == d) sizes.push_back(c.size());
      sizes.push_back(i == d ? n : x.size(i));
    }
    c.set_result(reshape(apply<IndexSelect>(x, int64_t{d}, reshape(c.physical(index), all)), sizes),
                 d);
  }
};
COGRAD_OP(IndexSelect)

// Returns zeros of `sizes` with the slices of g added at index.
struct IndexSelectGrad {
  static constexpr OpSpec spec{"_index_select_grad", "grad, dim, index, sizes", kInternal | kIndex,
                               "Adjoint of index_select.", "none: gradient of index_select"};
  static constexpr int kSaved = 1;
  static constexpr const char* kNodeName = "IndexSelectBackwardBackward0";
  using State = SliceState;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_shaped_dims();
  static Tensor forward(Ctx<IndexSelectGrad>& ctx, const Tensor& g, Dim dim, const Tensor& index,
                        Shape sizes) {
    ctx->dim = static_cast<int>(dim);
    ctx.save(index);
    Tensor out = zeros(sizes, g.dtype());
    const Tensor at = raw_contiguous(index64(index, "index_select"));
    const Tensor from = raw_contiguous(g);
    const Axis a = axis_of(sizes, ctx->dim);
    kernels::index_add(g.dtype(), out.bytes(), a.outer, a.n, a.inner, at.data<int64_t>(),
                       at.numel(), from.bytes(), 1, dim);
    return out;
  }
  static void backward(Ctx<IndexSelectGrad>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = index_select(g, ctx->dim, ctx.saved(0));
  }
};

Tensor index_select_grad(const Tensor& g, int dim, const Tensor& index, IntList sizes) {
  return apply<IndexSelectGrad>(g, int64_t{dim}, index, sizes);
}

struct IndexAdd {
  static constexpr OpSpec spec{
      "index_add",
      "input, dim, index, source, *, alpha=1",
      kFunctional | kInplace | kOut | kIndex | kExactOut | kOutIsInput,
      "input with alpha times the slices of source added to the slices at index along dim.",
      "T(3, 4), 0, I(5, hi=3), T(5, 4); T(3, 4), 1, I(2, hi=4), T(3, 2), alpha=0.5",
      ""};
  static constexpr int kSaved = 1;
  using State = SliceState;
  static constexpr TangentRule kTangent = linear({0, 3});
  static constexpr bool kHolomorphic = true;  // alpha may be complex
  static Tensor forward(Ctx<IndexAdd>& ctx, const Tensor& self, Dim dim, const Tensor& index,
                        const Tensor& source, Scalar alpha) {
    Slices s = slices_of("index_add", self, dim, index);
    check_source("index_add", self, s, source, ErrorKind::Runtime);
    COGRAD_CHECK(is_complex(self.dtype()) || !alpha.is_complex(),
                 "index_add(): expected a real alpha for tensors of dtype ",
                 dtype_name(self.dtype()));
    COGRAD_CHECK(is_differentiable(self.dtype()) || !alpha.is_float(),
                 "index_add(): For integral input tensors, argument alpha must not be a floating "
                 "point number.");
    check_number("index_add", "alpha", alpha, self.dtype(), OutOfRange::Raises);
    ctx->dim = s.dim;
    ctx->alpha = alpha;
    ctx.save(s.index);
    Tensor from = source;
    if (!is_double(alpha)) {
      const GradGuard no_grad(false);
      from = mul(source, std::exchange(alpha, Scalar(1)));
    }
    Tensor out = rewrite_target(ctx, self, true, {&from, &s.index});
    from = raw_contiguous(from);
    const Axis a = axis_of(self.sizes(), s.dim);
    kernels::index_add(self.dtype(), out.bytes(), a.outer, a.n, a.inner, s.index.data<int64_t>(),
                       s.count, from.bytes(), alpha.to_double(), s.dim);
    return out;
  }
  static void backward(Ctx<IndexAdd>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (!ctx.needs(2)) return;
    const Tensor picked = index_select(g, ctx->dim, ctx.saved(0));
    ctx.grad(2) = ctx->alpha.equals(1) ? picked : mul(picked, TensorOrScalar(ctx->alpha));
  }
};
COGRAD_OP(IndexAdd)

// Returns index_fill with 0, which several gradients need.
Tensor index_zeroed(const Tensor& g, int dim, const Tensor& index);

struct IndexCopy {
  static constexpr OpSpec spec{
      "index_copy",
      "input, dim, index, source",
      kFunctional | kInplace | kOut | kIndex | kExactOut | kOutIsInput,
      "input with the slices at index along dim replaced by those of source.",
      "T(3, 4), 0, cograd.tensor([2, 0]), T(2, 4); T(3, 4), 1, cograd.tensor([1, 3]), T(3, 2)",
      ""};
  static constexpr int kSaved = 1;
  using State = SliceState;
  static constexpr TangentRule kTangent = linear({0, 3});
  static Tensor forward(Ctx<IndexCopy>& ctx, const Tensor& self, Dim dim, const Tensor& index,
                        const Tensor& source) {
    Slices s = slices_of("index_copy", self, dim, index);
    check_source("index_copy", self, s, source, ErrorKind::Index);
    ctx->dim = s.dim;
    ctx.save(s.index);
    Tensor from = source;
    Tensor out = rewrite_target(ctx, self, true, {&from, &s.index});
    from = raw_contiguous(from);
    const Axis a = axis_of(self.sizes(), s.dim);
    kernels::index_copy(out.bytes(), a.outer, a.n, a.inner * out.itemsize(),
                        s.index.data<int64_t>(), s.count, from.bytes(), s.dim);
    return out;
  }
  static void backward(Ctx<IndexCopy>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = index_zeroed(g, ctx->dim, ctx.saved(0));
    if (ctx.needs(2)) ctx.grad(2) = index_select(g, ctx->dim, ctx.saved(0));
  }
};
COGRAD_OP(IndexCopy)

struct IndexFill {
  static constexpr OpSpec spec{"index_fill",
                               "input, dim, index, value",
                               kFunctional | kInplace | kIndex,
                               "input with the slices at index along dim set to value.",
                               "T(3, 4), 0, I(2, hi=3), 2.5; T(3, 4), 1, I(2, hi=4), T()",
                               ""};
  static constexpr int kSaved = 1;
  using State = SliceState;
  static Tensor forward(Ctx<IndexFill>& ctx, const Tensor& self, Dim dim, const Tensor& index,
                        const TensorOrScalar& value) {
    Slices s = slices_of("index_fill", self, dim, index);
    const Tensor v = fill_value("index_fill", value, self.dtype());
    ctx->dim = s.dim;
    ctx.save(s.index);
    Tensor out = rewrite_target(ctx, self, true, {&s.index});
    const Axis a = axis_of(self.sizes(), s.dim);
    kernels::index_fill(out.itemsize(), out.bytes(), a.outer, a.n, a.inner, s.index.data<int64_t>(),
                        s.count, v.bytes(), s.dim);
    return out;
  }
  static void backward(Ctx<IndexFill>& ctx, const Tensor& g) {
    const Tensor index = ctx.saved(0);
    const Tensor rest = index_zeroed(g, ctx->dim, index);
    if (ctx.needs(0)) ctx.grad(0) = rest;
    // g minus rest is g at the filled positions, each counted once.
    if (ctx.needs(2)) ctx.grad(2) = sum(sub(g, rest));
  }
};
COGRAD_OP(IndexFill)

Tensor index_zeroed(const Tensor& g, int dim, const Tensor& index) {
  return apply<IndexFill>(g, int64_t{dim}, index, TensorOrScalar(0));
}

}  // namespace

Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  return apply<IndexSelect>(x, dim, index);
}

}  // namespace cograd
