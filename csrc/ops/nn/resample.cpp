// SPDX-License-Identifier: BSD-3-Clause
// Separable linear maps of the last dims.
#include "ops/nn/resample.h"

#include "ops/compute/elementwise.h"
#include "ops/declare/kinked.h"

namespace cograd {

namespace {

struct ResampleOp {
  static constexpr OpSpec spec{"_resample", "input, maps", kInternal | kReduction, "",
                               "none: average pooling, interpolation"};
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = leading_alone();
  struct State {
    ResampleMaps maps;
  };
  static Tensor forward(Ctx<ResampleOp>& ctx, const Tensor& x, const ResampleMaps& maps) {
    if (ctx.recording()) ctx->maps = maps;
    const kernels::Resampling& r = *maps.map;
    Dims sizes(x.sizes());
    int64_t planes = 1;
    for (int i = 0; i < x.dim() - maps.dims; ++i) planes = checked_mul(planes, x.size(i));
    for (int i = 0; i < maps.dims; ++i)
      sizes[static_cast<size_t>(x.dim() - maps.dims + i)] = r.dims[3 - maps.dims + i].out;
    Tensor y = empty(sizes, x.dtype());
    const Tensor in = raw_contiguous(x);
    kernels::resample(x.dtype(), r, planes, in.bytes(), y.bytes());
    return y;
  }
  static Tensor backward(Ctx<ResampleOp>& ctx, const Tensor& g) {
    const ResampleMaps& m = ctx->maps;
    const Tensor gx = resample(g, {m.dims, m.transposed, m.map, m.kinked});
    return m.kinked ? kinked(ctx, gx) : gx;
  }
};

}  // namespace

Tensor resample(const Tensor& x, const ResampleMaps& maps) { return apply<ResampleOp>(x, maps); }

}  // namespace cograd
