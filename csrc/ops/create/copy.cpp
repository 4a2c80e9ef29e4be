// SPDX-License-Identifier: BSD-3-Clause
// Ops that copy a tensor: clone, contiguous, casts, copy_.
#include "ops/compute/elementwise.h"
#include "ops/compute/strides.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/declare/options.h"
#include "ops/declare/start_copy.h"

namespace cograd {

namespace {

Tensor raw_clone(const Tensor& x) {
  Tensor out = empty_preserving(x, x.dtype());
  raw_copy(out, x);
  return out;
}

struct Clone {
  static constexpr OpSpec spec{"clone",
                               "input, *, memory_format=None",
                               kFunctional | kShape,
                               "A copy with its own memory; gradients flow through.",
                               "T(3, 4); T()",
                               "np.copy(input)"};
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<Clone>&, const Tensor& x, std::optional<std::string_view> format) {
    Tensor out = empty_in_format(x, x.dtype(), memory_format("clone", format));
    raw_copy(out, x);
    return out;
  }
  static Tensor backward(Ctx<Clone>&, const Tensor& g) { return g; }
};
COGRAD_OP(Clone)

struct ToContiguous {
  static constexpr OpSpec spec{"_to_contiguous", "input, format", kInternal | kShape,
                               "A copy in a memory format.", "none: reached through contiguous()"};
  static constexpr const char* kNodeName = "CloneBackward0";
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<ToContiguous>&, const Tensor& x, int64_t format) {
    Tensor out = empty_in_format(x, x.dtype(), static_cast<MemoryFormat>(format));
    raw_copy(out, x);
    return out;
  }
  static Tensor backward(Ctx<ToContiguous>&, const Tensor& g) { return g; }
};

struct Contiguous {
  static constexpr OpSpec spec{
      "contiguous",
      "input, memory_format=None",
      kMethod | kShape,
      "The tensor itself if its memory is in the format's order, else a copy in that order.",
      "T(3, 4)",
      "input"};
  static Tensor forward(const Tensor& x, std::optional<std::string_view> format) {
    return contiguous(x, memory_format("contiguous", format, MemoryFormat::Contiguous));
  }
};
COGRAD_OP(Contiguous)

struct Cast {
  static constexpr OpSpec spec{"_cast", "input, dtype", kInternal | kCast,
                               "A copy in another dtype; its gradient has the input's dtype.",
                               "none: reached through to()"};
  static constexpr const char* kNodeName = "ToCopyBackward0";
  struct State {
    DType from;
  };
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<Cast>& ctx, const Tensor& x, DType t) {
    ctx->from = x.dtype();
    Tensor out = empty_preserving(x, t);
    raw_copy(out, x);
    return out;
  }
  static Tensor backward(Ctx<Cast>& ctx, const Tensor& g) { return cast(g, ctx->from); }
};
COGRAD_OP(Cast)

struct Copy {
  static constexpr OpSpec spec{"copy", "input, src, non_blocking=False",
                               kInplace | kInternal | kShape | kNoCpp,
                               "Writes src, broadcast and converted, into the tensor.",
                               "none: tested by hand, in place only"};
  static constexpr const char* kNodeName = "CopyBackwards";
  static constexpr TangentRule kTangent = linear({0, 1});
  static constexpr bool kMixesDevices = true;
  struct State {
    Device from = kHost;  // the device of src
  };
  // The result is batched even if the overwritten tensor is not.
  static void batch(BatchCall& c) {
    const Tensor& self = c.arg(0).tensor();
    c.set_result(
        apply<Copy>(c.physical_expanded(self), c.aligned(c.arg(1).tensor(), self.dim()), false));
  }
  static Tensor forward(Ctx<Copy>& ctx, const Tensor& self, const Tensor& src, bool non_blocking) {
    Dims shape;
    COGRAD_CHECK(broadcast_shapes(self.sizes(), src.sizes(), shape) && same(shape, self.sizes()),
                 "copy_(): The expanded size of the tensor ", to_string(self.sizes()),
                 " must match the existing size ", to_string(src.sizes()));
    ctx->from = src->device;
    if (non_blocking && self->device == kHost && src->device != kHost && start_copy_to(self, src))
      return ctx.out(self.sizes(), self.dtype());
    Tensor source = src->storage == self->storage && !src.is(self) ? raw_clone(src) : src;
    if (src->device != self->device) [[unlikely]]
      source = to_device(src, self->device, non_blocking);
    Tensor out = ctx.out(self.sizes(), self.dtype());
    if (!source.is(out)) raw_copy(out, source);
    return out;
  }
  static void backward(Ctx<Copy>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = zeros_like(g);
    if (ctx.needs(1)) ctx.grad(1) = to_device(g, ctx->from);
  }
};
COGRAD_OP(Copy)

struct CopyNumber {
  static constexpr OpSpec spec{
      "copy", "input, src, non_blocking=False", kInplace | kInternal | kShape | kNoCpp,
      "Writes a number, converted like a 0-dim tensor.", "none: tested by hand, in place only"};
  static constexpr const char* kNodeName = "CopyBackwards";
  static Tensor forward(Ctx<CopyNumber>& ctx, const Tensor& self, Scalar src, bool) {
    Tensor out = ctx.out(self.sizes(), self.dtype());
    raw_copy(out, wrapped_number(src));
    return out;
  }
  static Tensor backward(Ctx<CopyNumber>&, const Tensor& g) { return zeros_like(g); }
};
COGRAD_OP(CopyNumber)

}  // namespace

Tensor clone(const Tensor& x) { return apply<Clone>(x, std::optional<std::string_view>()); }
Tensor contiguous(const Tensor& x, MemoryFormat format) {
  return has_format(x, format) ? x : in_format(x, format);
}
Tensor in_format(const Tensor& x, MemoryFormat format) {
  return apply<ToContiguous>(x, static_cast<int64_t>(format));
}
Tensor contiguous(const Tensor& x) { return contiguous(x, MemoryFormat::Contiguous); }
Tensor contiguous_clone(const Tensor& x) {
  return apply<ToContiguous>(x, static_cast<int64_t>(MemoryFormat::Contiguous));
}
Tensor cast(const Tensor& x, DType t) { return x.dtype() == t ? x : apply<Cast>(x, t); }
void copy_(const Tensor& dst, const Tensor& src) { apply_inplace<Copy>(dst, {}, dst, src, false); }
void copy_past_stages_(const Tensor& dst, const Tensor& src) {
  enter<Copy, Form::InPlace>(CallForm::inplace(dst, {}).past_stages(), dst, src, false);
}

}  // namespace cograd
