// SPDX-License-Identifier: BSD-3-Clause
// Copies, casts, expansion and strided views: the ops autograd itself is built on.
#include "kernels/reduce.h"
#include "ops/core/ops.h"
#include "ops/core/options.h"
#include "ops/core/raw.h"
#include "ops/core/strides.h"
#include "ops/core/view.h"
#include "ops/shape/inplace_geometry.h"

namespace cograd {

namespace {

Tensor raw_clone(const Tensor& x) {
  Tensor out = empty_preserving(x, x.dtype());
  raw_copy(out, x);
  return out;
}

struct Clone {
  static constexpr OpSpec spec{
      "clone",        "input, *, memory_format=None",
      kFunctional,    "A copy with its own memory; gradients flow through.",
      "T(3, 4); T()", "np.copy(input)"};
  static Tensor forward(Ctx<Clone>&, const Tensor& x, std::optional<std::string_view> format) {
    Tensor out = empty_in_format(x, x.dtype(), memory_format("clone", format));
    raw_copy(out, x);
    return out;
  }
  static Tensor backward(Ctx<Clone>&, const Tensor& g) { return g; }
};
COGRAD_OP(Clone)

struct ToContiguous {
  static constexpr OpSpec spec{"_to_contiguous", "input, format", kInternal,
                               "A copy in a memory format.", "none: reached through contiguous()"};
  static constexpr const char* kNodeName = "CloneBackward0";
  static Tensor forward(Ctx<ToContiguous>&, const Tensor& x, int64_t format) {
    Tensor out = empty_in_format(x, x.dtype(), static_cast<MemoryFormat>(format));
    raw_copy(out, x);
    return out;
  }
  static Tensor backward(Ctx<ToContiguous>&, const Tensor& g) { return g; }
};

struct Contiguous {
  static constexpr OpSpec spec{
      "contiguous", "input, memory_format=None",
      kMethod,      "The tensor itself if its memory is in the format's order, else such a copy.",
      "T(3, 4)",    "input"};
  static Tensor forward(const Tensor& x, std::optional<std::string_view> format) {
    return contiguous(x, memory_format("contiguous", format, MemoryFormat::Contiguous));
  }
};
COGRAD_OP(Contiguous)

struct Cast {
  static constexpr OpSpec spec{"_cast", "input, dtype", kInternal,
                               "A copy of another dtype; the gradient comes back in the old one.",
                               "none: reached through to()"};
  static constexpr const char* kNodeName = "ToCopyBackward0";
  struct State {
    DType from;
  };
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
  static constexpr OpSpec spec{"copy", "input, src, non_blocking=False", kInplace | kInternal,
                               "Writes src, broadcast and converted, into the tensor.",
                               "none: tested by hand, in place only"};
  static constexpr const char* kNodeName = "CopyBackwards";
  static Tensor forward(Ctx<Copy>& ctx, const Tensor& self, const Tensor& src, bool) {
    Dims shape;
    COGRAD_CHECK(broadcast_shapes(self.sizes(), src.sizes(), shape) && same(shape, self.sizes()),
                 "copy_(): The expanded size of the tensor ", to_string(self.sizes()),
                 " must match the existing size ", to_string(src.sizes()));
    Tensor source = src->storage == self->storage && !src.is(self) ? raw_clone(src) : src;
    Tensor out = ctx.out(self.sizes(), self.dtype());
    if (!source.is(self)) raw_copy(out, source);
    return out;
  }
  static void backward(Ctx<Copy>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = zeros_like(g);
    if (ctx.needs(1)) ctx.grad(1) = g;
  }
};
COGRAD_OP(Copy)

// The tensor to write one value to; its elements may share memory.
Tensor to_fill(CtxBase& ctx, const Tensor& x) {
  return ctx.inplace_target() != nullptr ? *ctx.inplace_target() : ctx.out(x.sizes(), x.dtype());
}

struct Fill {
  static constexpr OpSpec spec{
      "fill",         "input, value",     kFunction | kInplace, "Every element set to value.",
      "T(3, 4), 2.0", "input * 0 + value"};
  static Tensor forward(Ctx<Fill>& ctx, const Tensor& x, const TensorOrScalar& value) {
    if (value.is_tensor())
      COGRAD_CHECK(value.tensor().dim() == 0,
                   "fill_ only supports 0-dimension value tensor but got tensor with ",
                   value.tensor().dim(), " dimensions.");
    else
      check_representable(value.scalar(), x.dtype());
    Tensor out = to_fill(ctx, x);
    if (value.is_tensor())
      raw_copy(out, value.tensor());
    else
      raw_fill(out, value.scalar());
    return out;
  }
  static void backward(Ctx<Fill>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = zeros_like(g);
    if (ctx.needs(1)) ctx.grad(1) = sum_to(g, {});
  }
};
COGRAD_OP(Fill)

struct Zero {
  static constexpr OpSpec spec{"zero", "input", kInplace | kInternal, "Every element set to 0.",
                               "none: in place only"};
  static Tensor forward(Ctx<Zero>& ctx, const Tensor& x) {
    Tensor out = to_fill(ctx, x);
    raw_fill(out, 0);
    return out;
  }
  static Tensor backward(Ctx<Zero>&, const Tensor& g) { return zeros_like(g); }
};
COGRAD_OP(Zero)

struct SumTo {
  static constexpr OpSpec spec{"sum_to_size",
                               "input, *size",
                               kMethod,
                               "Sum over the dims in which size is smaller: undoes broadcasting.",
                               "T(2, 3, 4), (3, 1); T(3, 4), (4,)",
                               ""};
  struct State {
    Dims sizes;
  };
  static Tensor forward(Ctx<SumTo>& ctx, const Tensor& x, IntList sizes) {
    Dims joint;
    COGRAD_CHECK(broadcast_shapes(x.sizes(), sizes, joint) && same(joint, x.sizes()), "size {",
                 to_string(sizes), "} is not expandable to size {", to_string(x.sizes()), "}.");
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const size_t lead = static_cast<size_t>(x.dim()) - sizes.size();
    Dims kept, kept_steps, reduced, reduced_steps;
    for (size_t i = 0; i < static_cast<size_t>(x.dim()); ++i) {
      const bool sum = i < lead || (sizes[i - lead] == 1 && x.sizes()[i] != 1);
      (sum ? reduced : kept).push_back(x.sizes()[i]);
      (sum ? reduced_steps : kept_steps).push_back(x.strides()[i] * x.itemsize());
    }
    Tensor out = empty(sizes, x.dtype());
    kernels::reduce(kernels::ReduceOp::Sum, x.dtype(), x.bytes(),
                    {kept, kept_steps, reduced, reduced_steps}, x.dtype(), out.bytes());
    return out;
  }
  static Tensor backward(Ctx<SumTo>& ctx, const Tensor& g) { return expand(g, ctx->sizes); }
};
COGRAD_OP(SumTo)

struct Expand {
  static constexpr OpSpec spec{"expand",
                               "input, *size, implicit=False",
                               kMethod,
                               "A view with size-1 dims stretched; -1 keeps a dim.",
                               "T(3, 1), (2, 3, 4); T(3), (2, -1)",
                               ""};
  static constexpr bool kView = true;
  struct State {
    Dims sizes;
  };
  static Tensor forward(Ctx<Expand>& ctx, const Tensor& x, IntList asked, bool) {
    COGRAD_CHECK(asked.size() >= static_cast<size_t>(x.dim()),
                 "expand(): the number of sizes provided (", asked.size(),
                 ") must be greater or equal to the number of dimensions in the tensor (", x.dim(),
                 ")");
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const size_t lead = asked.size() - static_cast<size_t>(x.dim());
    Dims sizes(asked);
    Dims strides(asked.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (i < lead) {
        COGRAD_CHECK(sizes[i] >= 0, "expand(): the expanded size of the tensor (", sizes[i],
                     ") isn't allowed in a leading, non-existing dimension ", i);
        continue;
      }
      const int64_t have = x.sizes()[i - lead];
      if (sizes[i] == -1) sizes[i] = have;
      COGRAD_CHECK(
          have == sizes[i] || (have == 1 && sizes[i] >= 0), "The expanded size of the tensor (",
          sizes[i], ") must match the existing size (", have, ") at non-singleton dimension ", i,
          ".  Target sizes: ", to_string(asked), ".  Tensor sizes: ", to_string(x.sizes()));
      strides[i] = have == sizes[i] ? x.strides()[i - lead] : 0;
    }
    return make_view(x, sizes, strides, x.bytes());
  }
  static Tensor backward(Ctx<Expand>& ctx, const Tensor& g) { return sum_to(g, ctx->sizes); }
};
COGRAD_OP(Expand)

// Copies into new memory with the given strides, which must not overlap.
Tensor raw_relayout(const Tensor& x, IntList strides) {
  int64_t last = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    if (x.sizes()[i] > 0) last += (x.sizes()[i] - 1) * strides[i];
  const int64_t room[1] = {x.numel() == 0 ? 0 : last + 1};
  const Tensor flat = zeros(room, x.dtype());
  Tensor out = alias_strided(flat, x.sizes(), strides, flat.bytes());
  raw_copy(out, x);
  return out;
}

struct Relayout {
  static constexpr OpSpec spec{"_relayout", "input, strides", kInternal,
                               "The same values in memory with other strides.",
                               "none: used by in-place writes to views"};
  static Tensor forward(Ctx<Relayout>&, const Tensor& x, IntList strides) {
    COGRAD_CHECK(strides.size() == static_cast<size_t>(x.dim()), "_relayout(): got ",
                 strides.size(), " strides for ", x.dim(), " dims");
    for (int64_t s : strides)
      COGRAD_CHECK(s >= 0, "_relayout(): strides must not be negative, got ", to_string(strides));
    return raw_relayout(x, strides);
  }
  static Tensor backward(Ctx<Relayout>&, const Tensor& g) { return g; }
};
COGRAD_OP(Relayout)

// Where a strided region lies, relative to the first element of the tensor it is a region of.
struct Region {
  Dims base_sizes, base_strides, sizes, strides;
  int64_t offset;
};

Tensor region_of(const Tensor& whole, const Region& r) {
  return alias_strided(whole, r.sizes, r.strides, whole.bytes() + r.offset * whole.itemsize());
}

struct AsStrided;
struct AsStridedScatter;
Tensor scatter_region(const Tensor& base, const Tensor& slice, const Region& r);

void check_region(const Tensor& x, IntList sizes, IntList strides, int64_t offset) {
  COGRAD_CHECK(sizes.size() == strides.size(),
               "mismatch in length of strides and shape: as_strided() got size ", to_string(sizes),
               " and stride ", to_string(strides));
  COGRAD_CHECK(offset >= 0, "as_strided(): Tensor: invalid storage offset ", offset);
  int64_t last = offset;
  bool none = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    COGRAD_CHECK(sizes[i] >= 0, "Trying to create tensor with negative dimension ", sizes[i], ": ",
                 to_string(sizes));
    COGRAD_CHECK(strides[i] >= 0,
                 "as_strided: Negative strides are not supported at the moment, "
                 "got strides: ",
                 to_string(strides));
    none |= sizes[i] == 0;
    last += (sizes[i] - 1) * strides[i];
  }
  const int64_t room = x->storage->nbytes / x.itemsize();
  COGRAD_CHECK(none || last < room, "setStorage: sizes ", to_string(sizes), ", strides ",
               to_string(strides), ", storage offset ", offset, ", and itemsize ", x.itemsize(),
               " requiring a storage size of ", (last + 1) * x.itemsize(),
               " are out of bounds for storage of size ", x->storage->nbytes);
}

struct AsStrided {
  static constexpr OpSpec spec{
      "as_strided",
      "input, size, stride, storage_offset=None",
      kFunctional,
      "A view of the storage with the given size, stride and offset (in elements).",
      "T(6), (2, 2), (2, 1), 1; T(6), (4, 3), (1, 1)",
      ""};
  static constexpr bool kView = true;
  using State = Region;
  static Tensor forward(Ctx<AsStrided>& ctx, const Tensor& x, IntList sizes, IntList strides,
                        std::optional<int64_t> offset) {
    const int64_t at = offset.value_or(x.storage_offset());
    check_region(x, sizes, strides, at);
    if (ctx.recording())
      *ctx.operator->() = {Dims(x.sizes()), Dims(x.strides()), Dims(sizes), Dims(strides),
                           at - x.storage_offset()};
    return make_view(x, sizes, strides, static_cast<char*>(x->storage->data) + at * x.itemsize());
  }
  static Tensor backward(Ctx<AsStrided>& ctx, const Tensor& g);
};
COGRAD_OP(AsStrided)
[[maybe_unused]] const bool as_strided_inplace = add_geometry_op<AsStrided>();

// Adjoint of AsStrided: zeros of the base's geometry, g added where the region was.
struct AsStridedGrad {
  static constexpr OpSpec spec{"_as_strided_grad",
                               "grad, base_sizes, base_strides, sizes, strides, offset", kInternal,
                               "Gradient of as_strided.", "none: used by as_strided"};
  using State = Region;
  static Tensor forward(Ctx<AsStridedGrad>& ctx, const Tensor& g, IntList base_sizes,
                        IntList base_strides, IntList sizes, IntList strides, int64_t offset) {
    const Region r{Dims(base_sizes), Dims(base_strides), Dims(sizes), Dims(strides), offset};
    if (ctx.recording()) *ctx.operator->() = r;
    int64_t lo = 0, hi = 0, region_last = offset;
    for (size_t i = 0; i < base_sizes.size(); ++i) {
      COGRAD_CHECK(base_strides[i] != 0 || base_sizes[i] <= 1,
                   "as_strided(): no gradient for an input whose elements share memory; clone() it "
                   "first");
      hi += std::max<int64_t>(base_sizes[i] - 1, 0) * base_strides[i];
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      region_last += std::max<int64_t>(sizes[i] - 1, 0) * strides[i];
    lo = std::min<int64_t>(0, offset);
    hi = std::max(hi, region_last);
    const int64_t room[1] = {hi - lo + 1};
    const Tensor flat = zeros(room, g.dtype());
    const Tensor base =
        alias_strided(flat, base_sizes, base_strides, flat.bytes() - lo * flat.itemsize());
    add_region(region_of(base, r), g);
    return base;
  }
  static Tensor backward(Ctx<AsStridedGrad>& ctx, const Tensor& g) {
    const Region& r = *ctx.operator->();
    const Tensor whole = relayout(g, r.base_strides);
    return apply<AsStrided>(whole, IntList(r.sizes), IntList(r.strides),
                            std::optional<int64_t>(whole.storage_offset() + r.offset));
  }

 private:
  // Adds one slice of the outermost dim at a time: elements of one region may share memory.
  static void add_region(const Tensor& region, const Tensor& g) {
    const Tensor values = raw_contiguous(g);
    const int64_t n = region.numel();
    dispatch_all(g.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* src = values.data<T>();
      Dims index(static_cast<size_t>(region.dim()));
      T* at = region.data<T>();
      for (int64_t k = 0; k < n; ++k) {
        if constexpr (std::is_same_v<T, bool>)
          *at = *at || src[k];
        else
          *at = static_cast<T>(*at + src[k]);
        for (size_t d = index.size(); d-- > 0;) {
          at += region.strides()[d];
          if (++index[d] < region.sizes()[d]) break;
          at -= region.strides()[d] * region.sizes()[d];
          index[d] = 0;
        }
      }
    });
  }
};
COGRAD_OP(AsStridedGrad)

Tensor AsStrided::backward(Ctx<AsStrided>& ctx, const Tensor& g) {
  const Region& r = *ctx.operator->();
  return apply<AsStridedGrad>(g, IntList(r.base_sizes), IntList(r.base_strides), IntList(r.sizes),
                              IntList(r.strides), r.offset);
}

struct AsStridedScatter {
  static constexpr OpSpec spec{"_scatter_region", "input, src, size, stride, offset", kInternal,
                               "input with a strided region replaced by src.",
                               "none: used by in-place writes to views"};
  using State = Region;
  static Tensor forward(Ctx<AsStridedScatter>& ctx, const Tensor& x, const Tensor& src,
                        IntList sizes, IntList strides, int64_t offset) {
    const Region r{Dims(x.sizes()), Dims(x.strides()), Dims(sizes), Dims(strides), offset};
    if (ctx.recording()) *ctx.operator->() = r;
    Tensor out = raw_relayout(x, x.strides());
    raw_copy(region_of(out, r), src);
    return out;
  }
  static void backward(Ctx<AsStridedScatter>& ctx, const Tensor& g) {
    const Region& r = *ctx.operator->();
    const Tensor whole = relayout(g, r.base_strides);
    if (ctx.needs(0)) ctx.grad(0) = scatter_region(whole, zeros(r.sizes, g.dtype()), r);
    if (ctx.needs(1))
      ctx.grad(1) = apply<AsStrided>(whole, IntList(r.sizes), IntList(r.strides),
                                     std::optional<int64_t>(whole.storage_offset() + r.offset));
  }
};
COGRAD_OP(AsStridedScatter)

Tensor scatter_region(const Tensor& base, const Tensor& slice, const Region& r) {
  return apply<AsStridedScatter>(base, slice, IntList(r.sizes), IntList(r.strides), r.offset);
}

}  // namespace

Tensor clone(const Tensor& x) { return apply<Clone>(x, std::optional<std::string_view>()); }
Tensor contiguous(const Tensor& x, MemoryFormat format) {
  return has_format(x, format) ? x : apply<ToContiguous>(x, static_cast<int64_t>(format));
}
Tensor contiguous(const Tensor& x) { return contiguous(x, MemoryFormat::Contiguous); }
Tensor cast(const Tensor& x, DType t) { return x.dtype() == t ? x : apply<Cast>(x, t); }
void copy_(const Tensor& dst, const Tensor& src) { apply_inplace<Copy>(dst, {}, dst, src, false); }
void fill_(const Tensor& x, Scalar v) { apply_inplace<Fill>(x, {}, x, TensorOrScalar(v)); }
Tensor expand(const Tensor& x, IntList sizes) { return apply<Expand>(x, sizes, false); }
Tensor sum_to(const Tensor& x, IntList sizes) {
  return same(x.sizes(), sizes) ? x : apply<SumTo>(x, sizes);
}
Tensor as_strided(const Tensor& x, IntList sizes, IntList strides, int64_t offset) {
  return apply<AsStrided>(x, sizes, strides, std::optional<int64_t>(offset));
}
Tensor relayout(const Tensor& x, IntList strides) { return apply<Relayout>(x, strides); }

Tensor zeros(IntList sizes, DType t) { return full(sizes, t, 0); }
Tensor ones(IntList sizes, DType t) { return full(sizes, t, 1); }
Tensor full(IntList sizes, DType t, Scalar v) { return raw_full(sizes, t, v); }

namespace {

const bool installed = [] {
  autograd_ops.add = [](const Tensor& a, const Tensor& b) { return add(a, b); };
  autograd_ops.add_ = [](const Tensor& a, const Tensor& b) {
    CtxBase ctx;
    ctx.set_target(&a, true, "add_", {});
    const Tensor sum = binary_op(ctx, kernels::BinaryOp::add, a, b, Rule::Same, "add");
    if (!sum.is(a)) raw_copy(a, sum);
  };
  autograd_ops.clone = clone;
  autograd_ops.contiguous_clone = [](const Tensor& x) {
    return apply<ToContiguous>(x, static_cast<int64_t>(MemoryFormat::Contiguous));
  };
  autograd_ops.cast = cast;
  autograd_ops.sum_to = sum_to;
  autograd_ops.expand = expand;
  autograd_ops.zeros = zeros;
  autograd_ops.ones = ones;
  autograd_ops.as_strided = as_strided;
  autograd_ops.scatter_slice = [](const Tensor& base, const Tensor& slice, IntList sizes,
                                  IntList strides, int64_t offset) {
    return apply<AsStridedScatter>(base, slice, sizes, strides, offset);
  };
  autograd_ops.relayout = relayout;
  return true;
}();

}  // namespace

}  // namespace cograd
