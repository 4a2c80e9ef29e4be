// SPDX-License-Identifier: BSD-3-Clause
// gather, scatter and related ops: one index per element along one dim.
#include "ops/index/gather_scatter.h"

#include "ops/compute/scalars.h"

namespace cograd {

namespace {

using kernels::ScatterReduce;

int at_least_1d(const Tensor& t) { return std::max(t.dim(), 1); }

constexpr const char* kGatherSamples =
    "T(3, 4), 1, I(3, 6, hi=4); T(3, 4), 0, I(2, 3, hi=3); T(4), -1, I(5, hi=4)";
constexpr const char* kScatterSamples =
    "T(3, 4), 0, cograd.tensor([[0, 1, 2, 0], [1, 2, 0, 1]]), T(2, 4); "
    "T(3, 4), 1, cograd.tensor([[3, 0], [1, 2]]), T(3, 3)";
constexpr const char* kScatterRepeatedSamples =
    "T(3, 4), 0, I(2, 4, hi=3), T(2, 4); T(3, 4), 1, I(2, 3, hi=4), T(3, 3); T(4), 0, I(6, hi=4), "
    "T(6)";

Tensor raw_gather(const Tensor& x, int dim, const Tensor& index) {
  Tensor out = empty(index.sizes(), x.dtype());
  if (out.numel() == 0) return out;
  const IndexLoop loop(x, index, &out, dim);
  kernels::gather(x.itemsize(), loop.get(), x.bytes(), index.data<int64_t>(), out.bytes());
  return out;
}

struct GatherGrad {
  static constexpr OpSpec spec{"_gather_grad", "grad, dim, index, sizes", kInternal | kIndex,
                               "Zeros of `sizes` with grad added at index along dim.",
                               "none: gradient of gather"};
  static constexpr int kSaved = 1;
  static constexpr const char* kNodeName = "GatherBackwardBackward0";
  using State = AlongDim;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_shaped_aligned_dims();
  static Tensor forward(Ctx<GatherGrad>& ctx, const Tensor& g, Dim dim, const Tensor& index,
                        Shape sizes) {
    ctx->dim = static_cast<int>(dim);
    ctx.save(index);
    Tensor out = zeros(sizes, g.dtype());
    raw_scatter_reduce(ScatterReduce::Sum, out, ctx->dim, index64_if_any(index, "gather"), g, true);
    return out;
  }
  static void backward(Ctx<GatherGrad>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = gather(g, ctx->dim, ctx.saved(0));
  }
};

struct Gather {
  static constexpr OpSpec spec{
      "gather",
      "input, dim, index, *, sparse_grad=False",
      kFunctional | kOut | kIndex | kExactOut | kOutApart,
      "Picks along dim: out[i][j] = input[index[i][j]][j] for dim 0. index has input's number of "
      "dims and is nowhere larger except along dim.",
      kGatherSamples,
      ""};
  static constexpr int kSaved = 1;
  using State = AlongDim;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_aligned_dims();
  static Tensor forward(Ctx<Gather>& ctx, const Tensor& x, Dim dim, const Tensor& index, bool) {
    const int d = wrap_dim(dim, x.dim());
    const Tensor at = index64_if_any(index, "gather");
    if (index.numel() > 0) check_gather_shapes("gather", x, d, index, nullptr);
    ctx->dim = d;
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    ctx.save(at);
    return raw_gather(x, d, at);
  }
  static void backward(Ctx<Gather>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = gather_grad(g, ctx->dim, ctx.saved(0), ctx->sizes);
  }
};
COGRAD_OP(Gather)

struct ScatterAdd {
  static constexpr OpSpec spec{
      "scatter_add",
      "input, dim, index, src",
      kFunctional | kInplace | kOut | kIndex | kExactOut | kOutIsInput,
      "input with src added at index along dim, repeated positions included.",
      kScatterRepeatedSamples,
      ""};
  static constexpr int kSaved = 1;
  using State = AlongDim;
  static constexpr TangentRule kTangent = linear({0, 3});
  static constexpr BatchRule kBatch = by_aligned_dims();
  static Tensor forward(Ctx<ScatterAdd>& ctx, const Tensor& self, Dim dim, const Tensor& index,
                        const Tensor& src) {
    const int d = wrap_dim(dim, self.dim());
    Tensor at = index64_if_any(index, "scatter_add");
    COGRAD_CHECK(self.dtype() == src.dtype(),
                 "scatter_add(): Expected self.dtype to be equal to src.dtype, got ",
                 dtype_name(self.dtype()), " and ", dtype_name(src.dtype()));
    if (index.numel() > 0) check_gather_shapes("scatter_add", self, d, index, &src);
    ctx->dim = d;
    if (ctx.recording()) ctx->sizes = Dims(src.sizes());
    ctx.save(at);
    Tensor from = src;
    Tensor out = rewrite_target(ctx, self, true, {&from, &at});
    raw_scatter_reduce(ScatterReduce::Sum, out, d, at, from, true);
    return out;
  }
  static void backward(Ctx<ScatterAdd>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = g;
    if (ctx.needs(2)) ctx.grad(2) = pad_corner(gather(g, ctx->dim, ctx.saved(0)), ctx->sizes);
  }
};
COGRAD_OP(ScatterAdd)

enum class ScatterMode : uint8_t { Replace, Add, Multiply };

ScatterMode scatter_mode(std::optional<std::string_view> reduce) {
  if (!reduce) return ScatterMode::Replace;
  COGRAD_CHECK(*reduce == "add" || *reduce == "multiply",
               "reduce argument must be either add or multiply., got '", *reduce, "'");
  return *reduce == "add" ? ScatterMode::Add : ScatterMode::Multiply;
}

// One struct for each type of the written value; torch names the argument differently.
template <class V>
struct Scatter {
  static constexpr bool kTensor = std::is_same_v<V, Tensor>;
  static constexpr OpSpec spec{
      "scatter",
      kTensor ? "input, dim, index, src, *, reduce=None"
              : "input, dim, index, value, *, reduce=None",
      kFunctional | kInplace | kOut | kIndex | kExactOut | kOutIsInput,
      kTensor ? "input with the elements of src written at index along dim; reduce 'add' or "
                "'multiply' combines instead. At repeated positions the last one wins."
              : "input with a scalar written at index along dim; reduce 'add' or 'multiply' "
                "combines instead.",
      kTensor ? kScatterSamples : "T(3, 4), 0, I(2, 4, hi=3), 2.5; T(3, 4), 1, I(2, 3, hi=4), 2.5",
      ""};
  static constexpr int kSaved = 1;
  struct State : AlongDim {
    ScatterMode mode;
    Scalar value;
  };
  // The gradient counts overwritten values, too, so a tangent that follows from it would be wrong.
  static bool is_linear(const Value* args) {
    return kTensor && (args[4].none() || args[4].text() == "add");
  }
  static constexpr TangentRule kTangent = linear_if(is_linear, {0, 3});
  static Tensor forward(Ctx<Scatter>& ctx, const Tensor& self, Dim dim, const Tensor& index,
                        const V& value, std::optional<std::string_view> reduce) {
    const int d = wrap_dim(dim, self.dim());
    ctx->mode = scatter_mode(reduce);
    ctx->dim = d;
    Tensor at = index64_if_any(index, "scatter");
    const Tensor* src = nullptr;
    if constexpr (kTensor) {
      src = &value;
      COGRAD_CHECK(self.dtype() == value.dtype(),
                   "scatter(): Expected self.dtype to be equal to src.dtype, got ",
                   dtype_name(self.dtype()), " and ", dtype_name(value.dtype()));
      if (ctx.recording()) ctx->sizes = Dims(value.sizes());
    } else {
      ctx->value = value;
    }
    if (index.numel() > 0) check_gather_shapes("scatter", self, d, index, src);
    ctx.save(at);
    Tensor from = spread(value, self, at);
    Tensor out = rewrite_target(ctx, self, ctx->mode != ScatterMode::Replace, {&from, &at});
    write(ctx->mode, out, d, at, from);
    return out;
  }
  static void backward(Ctx<Scatter>& ctx, const Tensor& g) {
    const Tensor index = ctx.saved(0);
    if constexpr (kTensor) {
      if (ctx->mode == ScatterMode::Multiply)
        detail::fail(ErrorKind::NotImplemented,
                     "scatter(): no derivative for reduce='multiply' with a tensor src; use "
                     "scatter_reduce(reduce='prod')");
      if (ctx.needs(2)) ctx.grad(2) = pad_corner(gather(g, ctx->dim, index), ctx->sizes);
    }
    if (!ctx.needs(0)) return;
    const int64_t d = ctx->dim;
    using Value = Scatter<Scalar>;
    if (ctx->mode == ScatterMode::Replace)
      ctx.grad(0) = apply<Value>(g, d, index, Scalar(0), std::optional<std::string_view>());
    else if (ctx->mode == ScatterMode::Add)
      ctx.grad(0) = g;
    else
      ctx.grad(0) =
          apply<Value>(g, d, index, ctx->value, std::optional<std::string_view>("multiply"));
  }

 private:
  // Returns the value as a tensor of index's shape; a scalar is expanded.
  static Tensor spread(const V& value, const Tensor& self, const Tensor& index) {
    if constexpr (kTensor) {
      return value;
    } else {
      const Tensor one = fill_value("scatter", value, self.dtype());
      const Dims strides(static_cast<size_t>(index.dim()), 0);
      return alias_strided(one, index.sizes(), strides, one.bytes());
    }
  }
  static void write(ScatterMode mode, const Tensor& out, int dim, const Tensor& index,
                    const Tensor& src) {
    if (index.numel() == 0) return;
    if (mode != ScatterMode::Replace) {
      const auto op = mode == ScatterMode::Add ? ScatterReduce::Sum : ScatterReduce::Prod;
      return raw_scatter_reduce(op, out, dim, index, src, true);
    }
    const IndexLoop loop(out, index, &src, dim);
    kernels::scatter(out.itemsize(), loop.get(), out.bytes(), index.data<int64_t>(), src.bytes());
  }
};
using ScatterTensor = Scatter<Tensor>;
using ScatterValue = Scatter<Scalar>;
COGRAD_OP(ScatterTensor)
COGRAD_OP(ScatterValue)

struct TakeAlongDim {
  static constexpr OpSpec spec{
      "take_along_dim",
      "input, indices, dim=None",
      kFunctional | kOut | kIndex | kExactOut | kOutApart,
      "gather with input and indices broadcast against each other, negative indices counting from "
      "the end; without dim, over the flattened input.",
      "T(3, 4), I(3, 2, lo=-4, hi=4), 1; T(3, 4), I(1, 4, hi=3), 0; T(3, 4), I(5, hi=12)",
      "np.take_along_axis(input, indices, dim) if dim is not None else input.reshape(-1)[indices]"};
  static Tensor forward(const Tensor& x, const Tensor& indices, std::optional<Dim> dim) {
    COGRAD_CHECK(indices.dtype() == DType::Int64,
                 "torch.take_along_dim(): dtype of indices should be Long but got ",
                 scalar_type_name(indices.dtype()));
    if (!dim) return gather(flatten(x), 0, flatten(indices));
    COGRAD_CHECK(x.dim() == indices.dim(),
                 "torch.take_along_dim(): input and indices should have the same number of "
                 "dimensions, but got ",
                 x.dim(), " dimensions for input, and ", indices.dim(), " dimensions for indices");
    const int d = wrap_dim(*dim, x.dim());
    if (x.dim() == 0) return gather(x, 0, indices);
    const auto at = static_cast<size_t>(d);
    Dims wide_x(x.sizes());
    Dims wide_index(indices.sizes());
    wide_x[at] = wide_index[at] = 1;
    Dims joint;
    COGRAD_CHECK(broadcast_shapes(wide_x, wide_index, joint), "take_along_dim(): shapes ",
                 to_string(x.sizes()), " and ", to_string(indices.sizes()),
                 " do not broadcast apart from dimension ", d);
    wide_x = wide_index = joint;
    wide_x[at] = x.size(d);
    wide_index[at] = indices.size(d);
    const Tensor at_index = where(lt(indices, 0), add(indices, x.size(d)), indices);
    return gather(expand(x, wide_x), d, expand(at_index, wide_index));
  }
};
COGRAD_OP(TakeAlongDim)

}  // namespace

void check_gather_shapes(const char* op, const Tensor& self, int dim, const Tensor& index,
                         const Tensor* src) {
  const bool scatters = src != nullptr || std::string_view(op) == "scatter";
  COGRAD_CHECK(at_least_1d(index) == at_least_1d(self),
               "Index tensor must have the same number of dimensions as ",
               scatters ? "self" : "input", " tensor; ", op, "() got ", index.dim(), " and ",
               self.dim());
  if (src != nullptr)
    COGRAD_CHECK(at_least_1d(*src) == at_least_1d(index),
                 "Index tensor must have the same number of dimensions as src tensor; ", op,
                 "() got ", index.dim(), " and ", src->dim());
  for (int d = 0; d < at_least_1d(index); ++d) {
    const int64_t n = size_or_1(index, d);
    const bool fits_self = d == dim || n <= size_or_1(self, d);
    if (!scatters)
      COGRAD_CHECK(fits_self, "Size does not match at dimension ", d, " expected index ",
                   to_string(index.sizes()), " to be no larger than self ", to_string(self.sizes()),
                   " apart from dimension ", dim);
    const bool fits_src = src == nullptr || n <= size_or_1(*src, d);
    COGRAD_CHECK(fits_self && fits_src, "Expected index ", to_string(index.sizes()),
                 " to be no larger than self ", to_string(self.sizes()), " apart from dimension ",
                 dim, src == nullptr ? "" : " and to be no larger size than src ",
                 src == nullptr ? std::string() : to_string(src->sizes()));
  }
}

void raw_scatter_reduce(ScatterReduce op, const Tensor& self, int dim, const Tensor& index,
                        const Tensor& src, bool include_self) {
  if (index.numel() == 0) return;
  const IndexLoop loop(self, index, &src, dim);
  kernels::scatter_reduce(op, self.dtype(), loop.get(), self.bytes(), self.numel(),
                          index.data<int64_t>(), src.bytes(), include_self);
}

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  return apply<Gather>(x, int64_t{dim}, index, false);
}
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& src) {
  return apply<ScatterAdd>(x, int64_t{dim}, index, src);
}
Tensor scatter_value(const Tensor& x, int dim, const Tensor& index, Scalar value) {
  return apply<ScatterValue>(x, int64_t{dim}, index, value, std::optional<std::string_view>());
}
Tensor gather_grad(const Tensor& g, int dim, const Tensor& index, IntList sizes) {
  return apply<GatherGrad>(g, int64_t{dim}, index, sizes);
}

}  // namespace cograd
