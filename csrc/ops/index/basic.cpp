// SPDX-License-Identifier: BSD-3-Clause
// Basic indexing (ints, slices, None) as a single view, and its gradient.

#include "kernels/core/moves.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/view.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

using Kind = BasicIndex::Kind;

constexpr const char* node_name_of(Kind k) {
  switch (k) {
    case Kind::Slice:
      return "SliceBackward0";
    case Kind::Select:
      return "SelectBackward0";
    case Kind::Unsqueeze:
      return "UnsqueezeBackward0";
    case Kind::Alias:
      break;
  }
  return "AliasBackward0";
}

Tensor region_view(const Tensor& whole, IntList sizes, const Region& r);

// Returns the same region for each of n samples, stored one after the other.
Region of_samples(const Region& r, int64_t n) {
  return {detail::with_samples(n, r.base_sizes),
          detail::with_samples(product(r.base_sizes), r.strides), r.offset};
}

template <Kind kKind>
struct BasicView {
  static constexpr OpSpec spec{"_index_view", "input", kInternal | kView,
                               "A view by basic indexing.", "none: reached through x[...]"};
  static constexpr const char* kNodeName = node_name_of(kKind);
  using State = Region;
  static Tensor forward(Ctx<BasicView>& ctx, const Tensor& x, const BasicIndex& index) {
    if (ctx.recording()) {
      ctx->base_sizes = Dims(x.sizes());
      ctx->strides = index.region_strides();
      ctx->offset = index.region_offset();
    }
    return make_view(x, index.sizes, index.strides,
                     x.bytes() + checked_mul(index.offset, x.itemsize()));
  }
  static void batch(BatchCall& c) {
    const Tensor whole = c.physical(c.arg(0).tensor());
    const auto& index = *static_cast<const BasicIndex*>(c.arg(1).u.list);
    c.set_result(apply<BasicView>(whole, index.of_samples(whole)));
  }
  static Tensor backward(Ctx<BasicView>& ctx, const Tensor& g) {
    return region_grad(g, *ctx.operator->());
  }
};

// The adjoint of a region view: zeros with g in the region, whose elements are distinct.
struct RegionGrad {
  static constexpr OpSpec spec{"_region_grad", "input", kInternal | kIndex,
                               "Zeros with a region set.", "none: gradient of indexing"};
  static constexpr const char* kNodeName = "SliceBackwardBackward0";
  struct State {
    Region region;
    Dims sizes;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<RegionGrad>& ctx, const Tensor& g, const Region& r) {
    if (ctx.recording()) *ctx.operator->() = {r, Dims(g.sizes())};
    Tensor out = empty(r.base_sizes, g.dtype());
    kernels::zero_bytes(out.bytes(), out.numel() * out.itemsize());
    raw_copy(alias_strided(out, g.sizes(), r.strides, out.bytes() + r.offset * out.itemsize()), g);
    return out;
  }
  static void batch(BatchCall& c) {
    const auto& r = *static_cast<const Region*>(c.arg(1).u.list);
    c.set_result(region_grad(c.physical(c.arg(0).tensor()), of_samples(r, c.size())));
  }
  static Tensor backward(Ctx<RegionGrad>& ctx, const Tensor& g) {
    return region_view(contiguous(g), ctx->sizes, ctx->region);
  }
};

struct RegionView {
  static constexpr OpSpec spec{"_region_view", "input", kInternal | kView, "A region of a tensor.",
                               "none: gradient of indexing"};
  static constexpr const char* kNodeName = "SliceBackward0";
  using State = Region;
  static constexpr TangentRule kTangent = TangentRule{};
  static Tensor forward(Ctx<RegionView>& ctx, const Tensor& whole, IntList sizes, const Region& r) {
    if (ctx.recording()) *ctx.operator->() = r;
    return make_view(whole, sizes, r.strides, whole.bytes() + r.offset * whole.itemsize());
  }
  static void batch(BatchCall& c) {
    const auto& r = *static_cast<const Region*>(c.arg(2).u.list);
    c.set_result(region_view(contiguous(c.physical(c.arg(0).tensor())),
                             detail::with_samples(c.size(), c.arg(1).ints()),
                             of_samples(r, c.size())));
  }
  static Tensor backward(Ctx<RegionView>& ctx, const Tensor& g) {
    return region_grad(g, *ctx.operator->());
  }
};

Tensor region_view(const Tensor& whole, IntList sizes, const Region& r) {
  return apply<RegionView>(whole, sizes, r);
}

}  // namespace

Tensor index_view(const Tensor& x, const BasicIndex& index) {
  switch (index.kind) {
    case Kind::Slice:
      return apply<BasicView<Kind::Slice>>(x, index);
    case Kind::Select:
      return apply<BasicView<Kind::Select>>(x, index);
    case Kind::Unsqueeze:
      return apply<BasicView<Kind::Unsqueeze>>(x, index);
    case Kind::Alias:
      break;
  }
  return apply<BasicView<Kind::Alias>>(x, index);
}

Tensor region_grad(const Tensor& g, const Region& r) {
  // A region with all elements is the tensor itself, except for dims of size 1.
  if (g.numel() == product(r.base_sizes)) return reshape(g, r.base_sizes);
  return apply<RegionGrad>(g, r);
}

Tensor corner(const Tensor& x, IntList sizes) {
  if (same(x.sizes(), sizes)) return x;
  BasicIndex index(x);
  for (size_t i = 0; i < sizes.size(); ++i) index.slice(0, sizes[i], 1);
  index.kind = Kind::Slice;
  return index_view(x, index);
}

Tensor pad_corner(const Tensor& g, IntList sizes) {
  if (same(g.sizes(), sizes)) return g;
  return apply<RegionGrad>(g, Region{Dims(sizes), contiguous_strides(sizes), 0});
}

Tensor index_backwards(const Tensor& x, IntList dims) { return flip(x, dims); }
void set_backwards(const Tensor& target, IntList dims, const Tensor& value) {
  copy_(target, flip(expand(value, target.sizes()), dims));
}

}  // namespace cograd
