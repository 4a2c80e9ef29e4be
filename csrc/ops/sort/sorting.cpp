// SPDX-License-Identifier: BSD-3-Clause
// Sorting and selection along a dim.
#include "kernels/index/sort.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

struct RankState {
  Dims sizes;  // sizes of the input
  int dim = 0;
};

// Computes the gradient of values picked at the saved indices.
template <class Op>
void picked_gradient(Ctx<Op>& ctx, std::span<Tensor> gs) {
  if (ctx.needs(0) && gs[0].defined())
    ctx.grad(0) = gather_grad(gs[0], ctx->dim, ctx.saved(0), ctx->sizes);
}

struct Sort {
  static constexpr OpSpec spec{
      "sort",
      "input, dim=-1, descending=False, *, stable=False",
      kFunctional | kOut | kSorting,
      "Sorted values along dim and their indices; equal elements keep their order, NaN counts as "
      "largest.",
      "T(3, 5); T(2, 3, 4), 1, True; T(), 0; T(6), stable=True",
      "(-np.sort(-input, axis=dim) if descending else np.sort(input, axis=dim), "
      "np.argsort(-input if descending else input, axis=dim, kind='stable')) "
      "if input.ndim else (input, 0)",
      "values, indices"};
  static constexpr int kSaved = 1;
  using State = RankState;
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static std::tuple<Tensor, Tensor> forward(Ctx<Sort>& ctx, const Tensor& x, Dim dim,
                                            bool descending, std::optional<bool>) {
    ctx->dim = wrap_dim(dim, x.dim());
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const Tensor in = raw_contiguous(x);
    Tensor values = empty(x.sizes(), x.dtype());
    Tensor indices = empty(x.sizes(), DType::Int64);
    const Axis a = axis_of(x.sizes(), ctx->dim);
    kernels::sort(x.dtype(), in.bytes(), values.bytes(), indices.data<int64_t>(), a.outer, a.n,
                  a.inner, descending);
    ctx.save(indices);
    return {std::move(values), std::move(indices)};
  }
  static void backward(Ctx<Sort>& ctx, std::span<Tensor> gs) { picked_gradient(ctx, gs); }
};
COGRAD_OP(Sort)

struct Argsort {
  static constexpr OpSpec spec{
      "argsort",
      "input, dim=-1, descending=False, stable=False",
      kFunctional | kNondiff | kSorting,
      "The indices that sort input along dim; always stable.",
      "T(3, 5); T(2, 3, 4), 1, True",
      "np.argsort(-input if descending else input, axis=dim, kind='stable')"};
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({});
  static Tensor forward(Ctx<Argsort>&, const Tensor& x, Dim dim, bool descending, bool) {
    const int d = wrap_dim(dim, x.dim());
    const Tensor in = raw_contiguous(x);
    Tensor indices = empty(x.sizes(), DType::Int64);
    const Axis a = axis_of(x.sizes(), d);
    kernels::sort(x.dtype(), in.bytes(), nullptr, indices.data<int64_t>(), a.outer, a.n, a.inner,
                  descending);
    return indices;
  }
};
COGRAD_OP(Argsort)

struct Msort {
  static constexpr OpSpec spec{"msort",
                               "input",
                               kFunctional | kOut | kSorting | kExactOut,
                               "Sorted values along the first dim.",
                               "T(3, 5); T(4)",
                               "np.sort(input, axis=0)"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(const Tensor& x) {
    return std::get<0>(apply<Sort>(x, int64_t{0}, false, std::optional<bool>()));
  }
};
COGRAD_OP(Msort)

struct TopK {
  static constexpr OpSpec spec{
      "topk",
      "input, k, dim=-1, largest=True, sorted=True",
      kFunctional | kOut | kSorting,
      "The k largest (or smallest) elements along dim, in order, and their indices.",
      "T(3, 5), 2; T(2, 3, 4), 3, 1, False; T(), 1",
      "",
      "values, indices"};
  static constexpr int kSaved = 1;
  static constexpr const char* kNodeName = "TopkBackward0";
  using State = RankState;
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static std::tuple<Tensor, Tensor> forward(Ctx<TopK>& ctx, const Tensor& x, int64_t k, Dim dim,
                                            bool largest, bool) {
    ctx->dim = wrap_dim(dim, x.dim());
    const Axis a = axis_of(x.sizes(), ctx->dim);
    COGRAD_CHECK(k >= 0 && k <= a.n, "selected index k out of range: topk() got k = ", k,
                 " for a dimension of size ", a.n);
    if (x.dim() == 0) k = 1;  // the result has no dim that could be empty
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const Tensor in = raw_contiguous(x);
    Dims sizes(x.sizes());
    if (!sizes.empty()) sizes[static_cast<size_t>(ctx->dim)] = k;
    Tensor values = empty(sizes, x.dtype());
    Tensor indices = empty(sizes, DType::Int64);
    if (values.numel() > 0)
      kernels::topk(x.dtype(), in.bytes(), values.bytes(), indices.data<int64_t>(), a.outer, a.n,
                    a.inner, k, largest);
    ctx.save(indices);
    return {std::move(values), std::move(indices)};
  }
  static void backward(Ctx<TopK>& ctx, std::span<Tensor> gs) { picked_gradient(ctx, gs); }
};
COGRAD_OP(TopK)

}  // namespace

}  // namespace cograd
