// SPDX-License-Identifier: BSD-3-Clause
// Views that drop or add dims of size 1.
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/declare/view.h"
#include "ops/shape/geometry.h"
#include "ops/shape/inplace_geometry.h"

namespace cograd {

namespace {

struct InputSizes {
  Dims sizes;
};

template <class Op>
Tensor squeezed(Ctx<Op>& ctx, const Tensor& x, const SmallVec<bool, 8>& drop) {
  if (ctx.recording()) ctx->sizes = Dims(x.sizes());
  Dims sizes;
  Dims strides;
  for (int d = 0; d < x.dim(); ++d) {
    if (drop[static_cast<size_t>(d)] && x.size(d) == 1) continue;
    sizes.push_back(x.size(d));
    strides.push_back(x.stride(d));
  }
  return make_view(x, sizes, strides, x.bytes());
}

template <bool kInplaceForm>
struct SqueezeOp {
  static constexpr OpSpec spec{"squeeze",
                               "input",
                               kFunctional | kView,
                               "A view without the dims of size 1.",
                               "T(3, 1, 4, 1); T(3, 4)",
                               "np.squeeze(input)"};
  static constexpr const char* kNodeName = kInplaceForm ? "SqueezeBackward3" : "SqueezeBackward0";
  using State = InputSizes;
  static Tensor forward(Ctx<SqueezeOp>& ctx, const Tensor& x) {
    return squeezed(ctx, x, SmallVec<bool, 8>(static_cast<size_t>(x.dim()), true));
  }
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    Dims sizes{c.size()};
    for (const int64_t n : x.sizes())
      if (n != 1) sizes.push_back(n);
    c.set_result(view(c.physical(x), sizes));
  }
  static Tensor backward(Ctx<SqueezeOp>& ctx, const Tensor& g) { return reshape(g, ctx->sizes); }
};
using Squeeze = SqueezeOp<false>;
COGRAD_OP(Squeeze)
[[maybe_unused]] const bool squeeze_inplace = add_geometry_op<SqueezeOp<true>>();

template <bool kInplaceForm>
struct SqueezeDimOp {
  static constexpr OpSpec spec{"squeeze",
                               "input, dim",
                               kFunctional | kView,
                               "A view without those of the given dims that have size 1.",
                               "T(3, 1, 4), 1; T(3, 1, 1), (-1, 0)",
                               ""};
  struct State {
    Dims sizes;
    bool several;
  };
  static std::string node_name(const State& s) {
    return std::string("SqueezeBackward") + "1245"[2 * kInplaceForm + s.several];
  }
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<SqueezeDimOp>& ctx, const Tensor& x, DimList dims) {
    ctx->several = dims.size() != 1;
    SmallVec<bool, 8> drop(static_cast<size_t>(std::max(x.dim(), 1)), false);
    for (int64_t dim : dims) {
      const int d = wrap_dim(dim, x.dim());
      COGRAD_CHECK(!drop[static_cast<size_t>(d)], "dim ", d,
                   " appears multiple times in the list of dims");
      drop[static_cast<size_t>(d)] = true;
    }
    return squeezed(ctx, x, drop);
  }
  static Tensor backward(Ctx<SqueezeDimOp>& ctx, const Tensor& g) { return reshape(g, ctx->sizes); }
};
using SqueezeDim = SqueezeDimOp<false>;
COGRAD_OP(SqueezeDim)
[[maybe_unused]] const bool squeezedim_inplace = add_geometry_op<SqueezeDimOp<true>>();

template <bool kInplaceForm>
struct UnsqueezeOp {
  static constexpr OpSpec spec{"unsqueeze",
                               "input, dim",
                               kFunctional | kView,
                               "A view with a dim of size 1 added at `dim`.",
                               "T(3, 4), 1; T(3), -1; T(), 0",
                               "np.expand_dims(input, dim)"};
  static constexpr const char* kNodeName =
      kInplaceForm ? "UnsqueezeBackward1" : "UnsqueezeBackward0";
  struct State {
    int dim;
  };
  static constexpr BatchRule kBatch = by_dims(1);
  static Tensor forward(Ctx<UnsqueezeOp>& ctx, const Tensor& x, Dim dim) {
    const int d = wrap_dim(dim, x.dim() + 1);
    const auto at = static_cast<size_t>(d);
    ctx->dim = d;
    Dims sizes(x.sizes());
    Dims strides(x.strides());
    strides.insert(at, at < sizes.size() ? sizes[at] * strides[at] : 1);
    sizes.insert(at, 1);
    return make_view(x, sizes, strides, x.bytes());
  }
  static Tensor backward(Ctx<UnsqueezeOp>& ctx, const Tensor& g) { return squeeze(g, ctx->dim); }
};
using Unsqueeze = UnsqueezeOp<false>;
COGRAD_OP(Unsqueeze)
[[maybe_unused]] const bool unsqueeze_inplace = add_geometry_op<UnsqueezeOp<true>>();

}  // namespace

Tensor squeeze(const Tensor& x, int64_t dim) { return apply<SqueezeDim>(x, IntList(&dim, 1)); }
Tensor unsqueeze(const Tensor& x, int64_t dim) { return apply<Unsqueeze>(x, dim); }

}  // namespace cograd
