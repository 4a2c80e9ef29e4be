// SPDX-License-Identifier: BSD-3-Clause
// layer_norm and rms_norm.
#include "kernels/nn/norm.h"

#include <limits>

#include "ops/compute/pointers.h"
#include "ops/reduce/reduce.h"

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

void check_normalized(const Tensor& x, IntList shape, const Tensor& weight, const Tensor& bias,
                      bool complex = false) {
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
  COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()) || (complex && is_complex(x.dtype())),
                               "normalisation is not implemented for dtype ",
                               scalar_type_name(x.dtype()), ", expected a floating one");
}

// Returns the mask of the last `count` dims.
DimMask last_dims(int ndim, size_t count) {
  return all_dims(ndim) & ~all_dims(ndim - static_cast<int>(count));
}

struct LayerNormOp {
  static constexpr OpSpec spec{"native_layer_norm", "input, weight, bias, count, eps",
                               kInternal | kReduction, "", "none: layer_norm"};
  static constexpr const char* kNodeName = "NativeLayerNormBackward0";
  static constexpr int kSaved = 4;
  struct State {
    int64_t rows = 0;
    int64_t n = 0;
    int64_t dims = 0;  // number of normalised dims
    double eps = 0;
  };
  static constexpr BatchRule kBatch = leading_alone();
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
    kernels::layer_norm_forward(x.dtype(), in.bytes(), bytes_or_null(cw), bytes_or_null(cb), rows,
                                n, eps, y.bytes(), mean.bytes(), rstd.bytes());
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
    kernels::layer_norm_backward(x.dtype(), cg.bytes(), cx.bytes(), mean.bytes(), rstd.bytes(),
                                 bytes_or_null(cw), ctx->rows, ctx->n, bytes_or_null(gx),
                                 bytes_or_null(gw), bytes_or_null(gb));
    if (gx.defined()) ctx.grad(0) = gx;
    if (gw.defined()) ctx.grad(1) = gw;
    if (gb.defined()) ctx.grad(2) = gb;
  }
  // With xh = (x - mean) r and h = g * weight: dx = r (h - mean(h) - xh mean(h xh)). In float32 for
  // 16-bit dtypes, as the kernels.
  static void backward(Ctx<LayerNormOp>& ctx, const Tensor& grad) {
    const DType own = grad.dtype(), t = wide_dtype(own);
    const Tensor g = cast(grad, t), x = cast(ctx.saved(0), t), w = ctx.saved(1);
    const Dims dims = mask_dims(last_dims(x.dim(), static_cast<size_t>(ctx->dims)));
    const Tensor center = x - mean(x, IntList(dims), true);
    const Tensor r = rsqrt(mean(square(center), IntList(dims), true) + ctx->eps);
    const Tensor xh = center * r;
    if (ctx.needs(0)) {
      const Tensor h = w.defined() ? g * cast(w, t) : g;
      ctx.grad(0) = cast(
          r * (h - mean(h, IntList(dims), true) - xh * mean(h * xh, IntList(dims), true)), own);
    }
    const auto of_weight = [&](const Tensor& v) {
      return cast(sum_to(v, x.sizes().last(static_cast<size_t>(ctx->dims))), own);
    };
    if (ctx.needs(1)) ctx.grad(1) = of_weight(g * xh);
    if (ctx.needs(2)) ctx.grad(2) = of_weight(g);
  }
};

struct LayerNorm {
  static constexpr OpSpec spec{
      "layer_norm",
      "input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True",
      kFunction | kReduction,
      "(input - mean) / sqrt(var + eps) * weight + bias over the last dims, normalized_shape.",
      "T(3, 4), (4,); T(2, 3, 4), (3, 4), T(3, 4), T(3, 4); T(5, 4), (4,), T(4), T(4), 0.1",
      "(input - input.mean(tuple(range(-len(normalized_shape), 0)), keepdims=True)) / "
      "np.sqrt(input.var(tuple(range(-len(normalized_shape), 0)), keepdims=True) + eps) * "
      "(1 if weight is None else weight) + (0 if bias is None else bias)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, Shape shape, const Tensor& weight, const Tensor& bias,
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
      kFunction | kReduction,
      "input / sqrt(mean(input^2) + eps) * weight over the last dims, normalized_shape.",
      "T(3, 4), (4,), T(4), 0.1; T(2, 3, 4), (3, 4), None, 0.01",
      "input / np.sqrt(np.square(input).mean(tuple(range(-len(normalized_shape), 0)), "
      "keepdims=True) + eps) * (1 if weight is None else weight)"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(const Tensor& x, Shape shape, const Tensor& weight,
                        std::optional<double> eps) {
    check_normalized(x, shape, weight, Tensor(), true);
    const Dims dims = mask_dims(last_dims(x.dim(), shape.size()));
    // 16-bit dtypes are normalised in float32, as in torch.
    const Tensor in = cast(x, wide_dtype(x.dtype()));
    const double e = eps.value_or(real_dtype(in.dtype()) == DType::Float64
                                      ? std::numeric_limits<double>::epsilon()
                                      : double{std::numeric_limits<float>::epsilon()});
    const Tensor y = in * rsqrt(mean(square(in), IntList(dims), true) + e);
    return cast(weight.defined() ? y * weight : y, x.dtype());
  }
};
COGRAD_OP(RmsNorm)

}  // namespace

}  // namespace cograd
