// SPDX-License-Identifier: BSD-3-Clause
// Ops that address elements by their position in the flattened tensor: take, put.
#include "kernels/index/index.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

struct Take;
struct PutGrad {
  static constexpr OpSpec spec{"_take_grad", "grad, index, sizes", kInternal | kIndex,
                               "Zeros of `sizes` with grad added at flat positions.",
                               "none: gradient of take"};
  static constexpr int kSaved = 1;
  static constexpr const char* kNodeName = "TakeBackwardBackward0";
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<PutGrad>& ctx, const Tensor& g, const Tensor& index, Shape sizes) {
    ctx.save(index);
    Tensor out = zeros(sizes, g.dtype());
    const Tensor at = raw_contiguous(index);
    const Tensor from = raw_contiguous(g);
    kernels::put(g.dtype(), out.bytes(), out.numel(), at.data<int64_t>(), at.numel(), from.bytes(),
                 true);
    return out;
  }
  static void backward(Ctx<PutGrad>& ctx, const Tensor& g);
};

struct Take {
  static constexpr OpSpec spec{"take",
                               "input, index",
                               kFunctional | kOut | kOutApart | kIndex | kExactOut,
                               "Elements of the flattened input; the result has index's shape.",
                               "T(3, 4), I(2, 3, hi=12); T(4), cograd.tensor([-1, 0, -1])",
                               "np.take(input, index)"};
  static constexpr int kSaved = 1;
  struct State {
    Dims sizes;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<Take>& ctx, const Tensor& x, const Tensor& index) {
    COGRAD_CHECK(index.dtype() == DType::Int64,
                 "take(): Expected a long tensor for index, but got ",
                 scalar_type_name(index.dtype()));
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    ctx.save(index);
    Tensor out = empty(index.sizes(), x.dtype());
    const Tensor in = raw_contiguous(x);
    const Tensor at = raw_contiguous(index);
    kernels::take(x.itemsize(), in.bytes(), in.numel(), at.data<int64_t>(), at.numel(),
                  out.bytes());
    return out;
  }
  static void backward(Ctx<Take>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = apply<PutGrad>(g, ctx.saved(0), IntList(ctx->sizes));
  }
};
COGRAD_OP(Take)

void PutGrad::backward(Ctx<PutGrad>& ctx, const Tensor& g) {
  if (ctx.needs(0)) ctx.grad(0) = apply<Take>(g, ctx.saved(0));
}

struct Put {
  static constexpr OpSpec spec{
      "put",
      "input, index, source, accumulate=False",
      kFunctional | kInplace | kIndex,
      "input with the elements of source written at flat positions; accumulate adds instead.",
      "T(3, 4), cograd.tensor([[0, 5], [-1, 7]]), T(2, 2); T(3, 4), I(5, hi=12), T(5), True",
      ""};
  static constexpr int kSaved = 1;
  struct State {
    Dims sizes;
    bool accumulate;
  };
  // The gradient counts overwritten values, too, so a tangent that follows from it would be wrong.
  static constexpr TangentRule kTangent = linear({0, 2});
  static Tensor forward(Ctx<Put>& ctx, const Tensor& self, const Tensor& index,
                        const Tensor& source, bool accumulate) {
    COGRAD_CHECK(index.dtype() == DType::Int64,
                 "put_(): Expected a long tensor for index, but got ",
                 scalar_type_name(index.dtype()));
    COGRAD_CHECK(source.dtype() == self.dtype(),
                 "put_(): self and source expected to have the same dtype, but got self.dtype = ",
                 scalar_type_name(self.dtype()),
                 " and source.dtype = ", scalar_type_name(source.dtype()));
    COGRAD_CHECK_INDEX(source.numel() == index.numel(),
                       "put_(): Expected source and index to have the same number of elements, but "
                       "got source.numel() = ",
                       source.numel(), ", index.numel() = ", index.numel());
    ctx->sizes = Dims(source.sizes());
    ctx->accumulate = accumulate;
    ctx.save(index);
    Tensor at = raw_contiguous(index);
    Tensor from = source;
    Tensor out = rewrite_target(ctx, self, true, {&from, &at});
    from = raw_contiguous(from);
    kernels::put(self.dtype(), out.bytes(), out.numel(), at.data<int64_t>(), at.numel(),
                 from.bytes(), accumulate);
    return out;
  }
  static void backward(Ctx<Put>& ctx, const Tensor& g) {
    const Tensor index = ctx.saved(0);
    if (ctx.needs(0))
      ctx.grad(0) =
          ctx->accumulate ? g : apply<Put>(g, index, zeros(index.sizes(), g.dtype()), false);
    if (ctx.needs(2)) ctx.grad(2) = reshape(apply<Take>(g, index), ctx->sizes);
  }
};
COGRAD_OP(Put)

}  // namespace

}  // namespace cograd
