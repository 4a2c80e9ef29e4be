// SPDX-License-Identifier: BSD-3-Clause
// layer_norm, rms_norm and embedding.
#include "kernels/norm.h"

#include <limits>

#include "kernels/index.h"
#include "kernels/reduce.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

std::string starred(IntList shape) {
  std::string s = "[*, ";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) s += ", ";
    s += std::to_string(shape[i]);
  }
  return s + "]";
}

void check_normalized(const Tensor& x, IntList shape, const Tensor& weight, const Tensor& bias) {
  COGRAD_CHECK(!shape.empty(),
               "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
               "one element, but got normalized_shape = ",
               to_string(shape));
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    const char* name = t == &weight ? "weight" : "bias";
    COGRAD_CHECK(same(t->sizes(), shape), "Expected ", name,
                 " to be of same shape as normalized_shape, but got ", name, " of shape ",
                 to_string(t->sizes()), " and normalized_shape = ", to_string(shape));
  }
  const auto n = static_cast<size_t>(x.dim());
  COGRAD_CHECK(n >= shape.size() && same(x.sizes().last(shape.size()), shape),
               "Given normalized_shape=", to_string(shape), ", expected input with shape ",
               starred(shape), ", but got input of size", to_string(x.sizes()));
  COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()),
                               "normalisation is not implemented for dtype ",
                               scalar_type_name(x.dtype()), ", expected a floating one");
}

// The last `count` dims as a mask.
DimMask last_dims(int ndim, size_t count) {
  return all_dims(ndim) & ~all_dims(ndim - static_cast<int>(count));
}

struct LayerNormOp {
  static constexpr OpSpec spec{"native_layer_norm", "input, weight, bias, count, eps", kInternal,
                               "", "none: layer_norm"};
  static constexpr const char* kNodeName = "NativeLayerNormBackward0";
  static constexpr int kSaved = 4;
  struct State {
    int64_t rows = 0;
    int64_t n = 0;
    int64_t dims = 0;  // normalised ones
    double eps = 0;
  };
  static Tensor forward(Ctx<LayerNormOp>& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                        int64_t dims, double eps) {
    const int64_t n = product(x.sizes().last(static_cast<size_t>(dims)));
    const int64_t rows = n == 0 ? 0 : x.numel() / n;
    const int64_t row_shape[1] = {rows};
    const DType wide = x.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
    const Tensor in = raw_contiguous(x);
    const Tensor cw = w.defined() ? raw_contiguous(raw_cast(w, x.dtype())) : w;
    const Tensor cb = b.defined() ? raw_contiguous(raw_cast(b, x.dtype())) : b;
    const Tensor mean = empty(row_shape, wide);
    const Tensor rstd = empty(row_shape, wide);
    if (ctx.recording()) {
      *ctx.operator->() = {rows, n, dims, eps};
      ctx.save(x, w, mean, rstd);
    }
    Tensor y = empty(x.sizes(), x.dtype());
    kernels::layer_norm_forward(x.dtype(), in.bytes(), cw.defined() ? cw.bytes() : nullptr,
                                cb.defined() ? cb.bytes() : nullptr, rows, n, eps, y.bytes(),
                                mean.bytes(), rstd.bytes());
    return y;
  }
  static void backward_fused(Ctx<LayerNormOp>& ctx, const Tensor& g) {
    const Tensor x = ctx.saved(0), w = ctx.saved(1), mean = ctx.saved(2), rstd = ctx.saved(3);
    const Tensor cx = raw_contiguous(x), cg = raw_contiguous(g);
    const Tensor cw = w.defined() ? raw_contiguous(raw_cast(w, x.dtype())) : w;
    const IntList shape = x.sizes().last(static_cast<size_t>(ctx->dims));
    Tensor gx, gw, gb;
    if (ctx.needs(0)) gx = empty(x.sizes(), x.dtype());
    if (ctx.needs(1)) gw = empty(shape, x.dtype());
    if (ctx.needs(2)) gb = empty(shape, x.dtype());
    auto at = [](const Tensor& t) { return t.defined() ? t.bytes() : nullptr; };
    kernels::layer_norm_backward(x.dtype(), cg.bytes(), cx.bytes(), mean.bytes(), rstd.bytes(),
                                 at(cw), ctx->rows, ctx->n, at(gx), at(gw), at(gb));
    if (gx.defined()) ctx.grad(0) = gx;
    if (gw.defined()) ctx.grad(1) = gw;
    if (gb.defined()) ctx.grad(2) = gb;
  }
  // With xh = (x - mean) r: dx = r (h - mean(h) - xh mean(h xh)), where h = g * weight.
  static void backward(Ctx<LayerNormOp>& ctx, const Tensor& g) {
    const Tensor x = ctx.saved(0), w = ctx.saved(1);
    const Dims dims = mask_dims(last_dims(x.dim(), static_cast<size_t>(ctx->dims)));
    const Tensor center = x - mean(x, IntList(dims), true);
    const Tensor r = rsqrt(mean(square(center), IntList(dims), true) + ctx->eps);
    const Tensor xh = center * r;
    if (ctx.needs(0)) {
      const Tensor h = w.defined() ? g * w : g;
      ctx.grad(0) = r * (h - mean(h, IntList(dims), true) - xh * mean(h * xh, IntList(dims), true));
    }
    if (ctx.needs(1)) ctx.grad(1) = g * xh;  // summed to the weight's shape by the engine
    if (ctx.needs(2)) ctx.grad(2) = g;
  }
};

struct LayerNorm {
  static constexpr OpSpec spec{
      "layer_norm",
      "input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True",
      kFunction,
      "(input - mean) / sqrt(var + eps) * weight + bias over the last dims, normalized_shape.",
      "T(3, 4), (4,); T(2, 3, 4), (3, 4), T(3, 4), T(3, 4); T(5, 4), (4,), T(4), T(4), 0.1",
      "(input - input.mean(tuple(range(-len(normalized_shape), 0)), keepdims=True)) / "
      "np.sqrt(input.var(tuple(range(-len(normalized_shape), 0)), keepdims=True) + eps) * "
      "(1 if weight is None else weight) + (0 if bias is None else bias)"};
  static Tensor forward(const Tensor& x, IntList shape, const Tensor& weight, const Tensor& bias,
                        double eps, bool) {
    check_normalized(x, shape, weight, bias);
    return apply<LayerNormOp>(x, weight, bias, static_cast<int64_t>(shape.size()), eps);
  }
};
COGRAD_OP(LayerNorm)

struct RmsNorm {
  static constexpr OpSpec spec{
      "rms_norm",
      "input, normalized_shape, weight=None, eps=None",
      kFunction,
      "input / sqrt(mean(input^2) + eps) * weight over the last dims, normalized_shape.",
      "T(3, 4), (4,), T(4), 0.1; T(2, 3, 4), (3, 4), None, 0.01",
      "input / np.sqrt(np.square(input).mean(tuple(range(-len(normalized_shape), 0)), "
      "keepdims=True) + eps) * (1 if weight is None else weight)"};
  static Tensor forward(const Tensor& x, IntList shape, const Tensor& weight,
                        std::optional<double> eps) {
    check_normalized(x, shape, weight, Tensor());
    const Dims dims = mask_dims(last_dims(x.dim(), shape.size()));
    // As torch, half types are normalised in float.
    const bool narrow = x.dtype() == DType::Float16 || x.dtype() == DType::BFloat16;
    const Tensor in = narrow ? cast(x, DType::Float32) : x;
    const double e =
        eps.value_or(in.dtype() == DType::Float64 ? std::numeric_limits<double>::epsilon()
                                                  : double{std::numeric_limits<float>::epsilon()});
    const Tensor y = in * rsqrt(mean(square(in), IntList(dims), true) + e);
    return cast(weight.defined() ? y * weight : y, x.dtype());
  }
};
COGRAD_OP(RmsNorm)

struct EmbeddingState {
  int64_t rows = 0;
  int64_t padding = -1;
  bool by_freq = false;
};

// The gradient of embedding with respect to its weight, itself linear in g. Not in the table: its
// indices have been checked.
struct EmbeddingGrad {
  static constexpr OpSpec spec{"_embedding_grad", "grad, indices, rows, padding_idx, by_freq",
                               kInternal, "Rows of grad added where the indices say.",
                               "none: gradient of embedding"};
  static constexpr int kSaved = 1;
  using State = EmbeddingState;
  static Tensor forward(Ctx<EmbeddingGrad>& ctx, const Tensor& g, const Tensor& index, int64_t rows,
                        int64_t padding, bool by_freq) {
    *ctx.operator->() = {rows, padding, by_freq};
    ctx.save(index);
    const Tensor cg = raw_contiguous(g);
    const Tensor at = raw_contiguous(index);
    const int64_t n = g.size(-1);
    const int64_t sizes[2] = {rows, n};
    Tensor out = empty(sizes, g.dtype());
    kernels::embedding_backward(g.dtype(), cg.bytes(), at.data<int64_t>(), at.numel(), n, rows,
                                padding, by_freq, out.bytes());
    return out;
  }
  // The transpose: rows of g looked up again, skipped and scaled alike.
  static void backward(Ctx<EmbeddingGrad>& ctx, const Tensor& g);
};

void check_rows(const Tensor& index, int64_t rows) {
  const auto* at = index.data<int64_t>();
  for (int64_t i = 0; i < index.numel(); ++i)
    COGRAD_CHECK_INDEX(at[i] >= 0 && at[i] < rows, "index out of range in self: embedding() got ",
                       at[i], " for ", rows, " rows");
}

struct EmbeddingOp {
  static constexpr OpSpec spec{"embedding", "weight, indices, padding_idx, by_freq", kInternal, "",
                               "none: embedding"};
  static constexpr int kSaved = 1;
  using State = EmbeddingState;
  static Tensor forward(Ctx<EmbeddingOp>& ctx, const Tensor& weight, const Tensor& indices,
                        int64_t padding, bool by_freq) {
    const Tensor index = raw_contiguous(raw_cast(indices, DType::Int64));
    check_rows(index, weight.size(0));
    *ctx.operator->() = {weight.size(0), padding, by_freq};
    ctx.save(index);
    const Tensor rows = raw_contiguous(weight);
    Dims sizes(indices.sizes());
    sizes.push_back(weight.size(1));
    Tensor out = empty(sizes, weight.dtype());
    kernels::embedding(rows.bytes(), weight.size(0), weight.size(1) * weight.itemsize(),
                       index.data<int64_t>(), index.numel(), out.bytes());
    return out;
  }
  static void backward(Ctx<EmbeddingOp>& ctx, const Tensor& g) {
    if (ctx.needs(0))
      ctx.grad(0) = apply<EmbeddingGrad>(g, ctx.saved(0), ctx->rows, ctx->padding, ctx->by_freq);
  }
};

void EmbeddingGrad::backward(Ctx<EmbeddingGrad>& ctx, const Tensor& g) {
  const Tensor index = ctx.saved(0);
  COGRAD_CHECK_NOT_IMPLEMENTED(!ctx->by_freq,
                               "embedding: no second derivative with "
                               "scale_grad_by_freq=True");
  Tensor rows = apply<EmbeddingOp>(g, index, int64_t{-1}, false);
  if (ctx->padding >= 0)
    rows = where(unsqueeze(eq(index, TensorOrScalar(ctx->padding)), -1), 0.0, rows);
  ctx.grad(0) = rows;
}

struct Embedding {
  static constexpr OpSpec spec{
      "embedding",
      "input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, "
      "sparse=False",
      kFunction | kNN,
      "Rows of weight (V, D) at the indices input (*): (*, D). Row padding_idx gets no gradient.",
      "I(2, 3, hi=5), T(5, 4); I(4, hi=5), T(5, 2)",
      "weight[input]"};
  static Tensor forward(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding,
                        std::optional<double> max_norm, double norm_type, bool by_freq,
                        bool sparse) {
    COGRAD_CHECK(weight.dim() == 2, "'weight' must be 2-D");
    COGRAD_CHECK(input.dtype() == DType::Int64 || input.dtype() == DType::Int32,
                 "Expected tensor for argument #1 'indices' to have one of the following scalar "
                 "types: Long, Int; but got ",
                 scalar_type_name(input.dtype()),
                 " instead (while checking arguments for embedding)");
    COGRAD_CHECK_NOT_IMPLEMENTED(!sparse,
                                 "embedding: sparse=True is not supported, gradients are dense");
    const int64_t rows = weight.size(0);
    if (padding)
      COGRAD_CHECK(*padding >= -rows && *padding < rows,
                   "Padding_idx must be within num_embeddings, got ", *padding, " for ", rows);
    const int64_t skip = padding ? (*padding < 0 ? *padding + rows : *padding) : -1;
    if (max_norm) renormalize(weight, input, *max_norm, norm_type);
    return apply<EmbeddingOp>(weight, input, skip, by_freq);
  }

 private:
  // Scales the rows looked up down to max_norm, in place and outside of any graph.
  static void renormalize(const Tensor& weight, const Tensor& input, double max_norm, double p) {
    const GradGuard no_grad(false);
    const Tensor index = raw_contiguous(raw_cast(input, DType::Int64));
    check_rows(index, weight.size(0));
    check_inplace(weight, "embedding_renorm_", false);
    std::vector<int64_t> rows(index.data<int64_t>(), index.data<int64_t>() + index.numel());
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (int64_t r : rows) {
      const Tensor row = select_region(weight, 0, r);
      const Tensor values = raw_cast(raw_contiguous(row), DType::Float64);
      double norm = 0;
      const int64_t sizes[1] = {row.numel()}, steps[1] = {values.itemsize()};
      kernels::reduce_norm(p, values.dtype(), values.bytes(), {{}, {}, sizes, steps},
                           DType::Float64, reinterpret_cast<char*>(&norm));
      if (norm > max_norm) raw_copy(row, mul(values, max_norm / (norm + 1e-7)));
    }
    weight->bump_version();
  }
};
COGRAD_OP(Embedding)

}  // namespace

}  // namespace cograd
