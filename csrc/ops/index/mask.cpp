// SPDX-License-Identifier: BSD-3-Clause
// Masked ops: masked_fill, masked_select, masked_scatter.
#include "kernels/index/index.h"
#include "ops/compute/scalars.h"
#include "ops/declare/batch_call.h"

#include "ops/index/indexing.h"

namespace cograd {

namespace {

void check_mask(const char* op, const Tensor& mask) {
  COGRAD_CHECK(
      mask.dtype() == DType::Bool, op,
      " only supports boolean masks (expected BoolTensor for mask), but got mask with dtype ",
      dtype_name(mask.dtype()));
}

// Returns the shape to which self and mask broadcast; for an in-place call it must be self's.
Dims joint_shape(const char* op, const Tensor& self, const Tensor& mask, bool inplace) {
  Dims shape;
  const bool ok = broadcast_shapes(mask.sizes(), self.sizes(), shape);
  if (ok && inplace && !same(shape, self.sizes()))
    detail::fail(ErrorKind::Runtime, "output with shape ", to_string(self.sizes()),
                 " doesn't match the broadcast shape ", to_string(shape));
  if (ok) return shape;
  const int n = std::max(mask.dim(), self.dim());
  for (int i = 1; i <= std::min(mask.dim(), self.dim()); ++i) {
    const int64_t a = mask.size(mask.dim() - i);
    const int64_t b = self.size(self.dim() - i);
    if (a != b && a != 1 && b != 1)
      detail::fail(ErrorKind::Runtime, "The size of tensor a (", a,
                   ") must match the size of tensor b (", b, ") at non-singleton dimension ", n - i,
                   "; ", op, "() got mask ", to_string(mask.sizes()), " and self ",
                   to_string(self.sizes()));
  }
  return shape;
}

// Returns t broadcast to `sizes` in contiguous memory.
Tensor spread(const Tensor& t, IntList sizes) {
  if (t.is_contiguous() && same(t.sizes(), sizes)) return t;
  Tensor out = empty(sizes, t.dtype());
  raw_copy(out, t);
  return out;
}

// Returns the target for a result of shape `sizes`, initialised with self, broadcast.
Tensor start_from(CtxBase& ctx, const Tensor& self, IntList sizes, bool contiguous) {
  if (same(self.sizes(), sizes)) return rewrite_target(ctx, self, contiguous, {});
  Tensor out = empty(sizes, self.dtype());
  raw_copy(out, self);
  return out;
}

struct MaskedFill {
  static constexpr OpSpec spec{
      "masked_fill",
      "input, mask, value",
      kFunctional | kInplace | kElementwise,
      "value where mask is true, else input; mask broadcasts, value is a scalar or a 0-dim tensor.",
      "T(3, 4), B(3, 4), 2.5; T(2, 3, 4), B(4), T(); T(3, 1), B(4), -1.0",
      "np.where(mask, np.asarray(value, input.dtype), input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr int kSaved = 1;
  static Tensor forward(Ctx<MaskedFill>& ctx, const Tensor& self, const Tensor& mask,
                        const TensorOrScalar& value) {
    check_mask("masked_fill_", mask);
    const Tensor v = fill_value("masked_fill", value, self.dtype());
    const Dims shape = joint_shape("masked_fill", self, mask, ctx.inplace_target() != nullptr);
    ctx.save(mask);
    Tensor m = mask;
    Tensor out = start_from(ctx, self, shape, false);
    if (m->storage == out->storage) m = spread(m, shape);
    Dims steps(out.strides());
    for (int64_t& s : steps) s = scaled_stride(s, out.itemsize());
    kernels::masked_fill(out.itemsize(), out.sizes(), out.bytes(), steps, m.data<bool>(),
                         broadcast_strides(m, shape), v.bytes());
    return out;
  }
  static void batch(BatchCall& c) {
    const Tensor &self = c.arg(0).tensor(), &mask = c.arg(1).tensor();
    const Value& v = c.arg(2);
    if (v.has_tensor()) {
      if (const Tensor values = c.physical(v.tensor()); !is_batched(values))
        check_fill_values("masked_fill", values, self.dtype());
      box(c.out(), where(mask, cast(v.tensor(), self.dtype()), self));
      return;
    }
    const int rank = std::max(self.dim(), mask.dim());
    c.set_result(apply<MaskedFill>(c.aligned(self, rank), c.aligned(mask, rank), v.scalar()));
  }
  static void backward(Ctx<MaskedFill>& ctx, const Tensor& g) {
    const Tensor mask = ctx.saved(0);
    if (ctx.needs(0)) ctx.grad(0) = apply<MaskedFill>(g, mask, TensorOrScalar(0));
    if (ctx.needs(2)) ctx.grad(2) = sum(where(mask, g, 0.0));
  }
};
COGRAD_OP(MaskedFill)

struct MaskedSelect {
  static constexpr OpSpec spec{
      "masked_select",
      "input, mask",
      kFunctional | kOut | kIndex | kExactOut | kOutApart,
      "The elements of input where mask is true, in C order; broadcasts.",
      "T(3, 4), B(3, 4); T(2, 3, 4), B(3, 1); T(4), B(3, 1)",
      "np.broadcast_to(input, np.broadcast(input, mask).shape)"
      "[np.broadcast_to(mask, np.broadcast(input, mask).shape).astype(bool)]"};
  static constexpr int kSaved = 1;
  struct State {
    Dims sizes;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<MaskedSelect>& ctx, const Tensor& x, const Tensor& mask) {
    COGRAD_CHECK(mask.dtype() == DType::Bool, "masked_select: expected BoolTensor for mask, got ",
                 dtype_name(mask.dtype()));
    const Dims shape = joint_shape("masked_select", x, mask, false);
    if (ctx.recording()) ctx->sizes = shape;
    ctx.save(mask);
    const Tensor in = spread(x, shape);
    const Tensor m = spread(mask, shape);
    const int64_t count[1] = {kernels::mask_count(m.data<bool>(), m.numel())};
    Tensor out = empty(count, x.dtype());
    kernels::masked_select(x.itemsize(), in.bytes(), m.data<bool>(), m.numel(), count[0],
                           out.bytes());
    return out;
  }
  static void backward(Ctx<MaskedSelect>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = masked_select_grad(g, ctx.saved(0), ctx->sizes);
  }
};
COGRAD_OP(MaskedSelect)

struct MaskedSelectGrad {
  static constexpr OpSpec spec{"_masked_select_grad", "grad, mask, sizes", kInternal | kIndex,
                               "Zeros with grad's elements where mask is true.",
                               "none: gradient of masked_select"};
  static constexpr int kSaved = 1;
  static constexpr const char* kNodeName = "MaskedSelectBackwardBackward0";
  struct State {
    int64_t count;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<MaskedSelectGrad>& ctx, const Tensor& g, const Tensor& mask,
                        Shape sizes) {
    ctx->count = g.numel();
    ctx.save(mask);
    Tensor out = zeros(sizes, g.dtype());
    const Tensor m = spread(mask, sizes);
    const Tensor from = raw_contiguous(g);
    kernels::masked_scatter(g.itemsize(), out.bytes(), m.data<bool>(), m.numel(), from.bytes(),
                            from.numel());
    return out;
  }
  static void backward(Ctx<MaskedSelectGrad>& ctx, const Tensor& g) {
    // The source of masked_scatter may have more elements than the mask selects.
    if (!ctx.needs(0)) return;
    const int64_t n[1] = {ctx->count};
    ctx.grad(0) = pad_corner(apply<MaskedSelect>(g, ctx.saved(0)), n);
  }
};

struct MaskedScatter {
  static constexpr OpSpec spec{
      "masked_scatter",
      "input, mask, source",
      kFunctional | kInplace | kIndex,
      "input with the elements of source written, in order, where mask is true.",
      "T(3, 4), B(3, 4), T(12); T(2, 3, 4), B(4), T(4, 6); T(3, 1), B(4), T(12)",
      ""};
  static constexpr int kSaved = 1;
  struct State {
    Dims sizes;
  };
  static Tensor forward(Ctx<MaskedScatter>& ctx, const Tensor& self, const Tensor& mask,
                        const Tensor& source) {
    check_mask("masked_scatter_", mask);
    COGRAD_CHECK(source.dtype() == self.dtype(),
                 "masked_scatter: expected self and source to have same dtypes but got ",
                 scalar_type_name(self.dtype()), " and ", scalar_type_name(source.dtype()));
    const Dims shape = joint_shape("masked_scatter", self, mask, ctx.inplace_target() != nullptr);
    if (ctx.recording()) ctx->sizes = Dims(source.sizes());
    ctx.save(mask);
    const Tensor m = spread(mask, shape);
    const bool known = self->device.type != DeviceType::Meta;
    const int64_t wanted = known ? kernels::mask_count(m.data<bool>(), m.numel()) : 0;
    COGRAD_CHECK(wanted <= source.numel(),
                 "Number of elements of source < number of ones in mask: masked_scatter() got ",
                 source.numel(), " and ", wanted);
    Tensor from = raw_contiguous(source);
    Tensor kept = m;
    Tensor out = same(self.sizes(), shape) ? rewrite_target(ctx, self, true, {&from, &kept})
                                           : start_from(ctx, self, shape, true);
    kernels::masked_scatter(out.itemsize(), out.bytes(), kept.data<bool>(), m.numel(), from.bytes(),
                            from.numel());
    return out;
  }
  static void backward(Ctx<MaskedScatter>& ctx, const Tensor& g) {
    const Tensor mask = ctx.saved(0);
    if (ctx.needs(0)) ctx.grad(0) = apply<MaskedFill>(g, mask, TensorOrScalar(0));
    if (!ctx.needs(2)) return;
    const int64_t n[1] = {product(ctx->sizes)};
    const Tensor taken = apply<MaskedSelect>(g, mask);
    COGRAD_CHECK(taken.numel() <= n[0], "masked_scatter: the mask selects ", taken.numel(),
                 " elements, but source had ", n[0], ": the mask was changed after the call");
    ctx.grad(2) = reshape(pad_corner(taken, n), ctx->sizes);
  }
};
COGRAD_OP(MaskedScatter)

}  // namespace

Tensor masked_select_grad(const Tensor& g, const Tensor& mask, IntList sizes) {
  return apply<MaskedSelectGrad>(g, mask, sizes);
}

void masked_fill_(const Tensor& self, const Tensor& mask, const TensorOrScalar& value) {
  apply_inplace<MaskedFill>(self, {}, self, mask, value);
}

}  // namespace cograd
