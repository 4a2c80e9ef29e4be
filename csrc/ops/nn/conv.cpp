// SPDX-License-Identifier: BSD-3-Clause
// Convolution over one to three spatial dims, and its two gradients, as separate ops.
#include "ops/nn/conv.h"
#include "ops/compute/pointers.h"

#include "ops/compute/elementwise.h"
#include "ops/declare/batch_call.h"
#include "tensor/checked.h"

namespace cograd {

namespace {

constexpr DTypeSet kConvTypes = kNumericTypes | kComplexTypes;

kernels::ConvShape shape_of(IntList x, IntList w, IntList out, const ConvOptions& o) {
  kernels::ConvShape s;
  s.batch = x[0];
  s.groups = o.groups;
  s.in_channels = w[1];
  s.out_channels = w[0] / o.groups;
  const size_t n = x.size() - 2;
  for (size_t i = 0; i < n; ++i) {
    const size_t d = 3 - n + i;
    s.in[d] = x[i + 2];
    s.out[d] = out[i + 2];
    s.kernel[d] = w[i + 2];
    s.stride[d] = o.stride[i];
    s.padding[d] = o.padding[i];
    s.dilation[d] = o.dilation[i];
  }
  return s;
}

// Returns the dtype that the kernels compute in: only those of GPUs take 16-bit floats.
DType kernel_dtype(DType t) {
  return thread_place.now.type == DeviceType::CUDA ? t : wide_dtype(t);
}
// Returns x as the kernels need it: contiguous, and of that dtype.
Tensor operand(const Tensor& x) {
  return x.defined() ? raw_contiguous(raw_cast(x, kernel_dtype(x.dtype()))) : x;
}

Dims conv_sizes(IntList x, IntList w, const ConvOptions& o) {
  Dims sizes{x[0], w[0]};
  for (const int64_t n : conv_output_sizes(x, w, o)) sizes.push_back(n);
  return sizes;
}

// Merges the batch dim of vmap, dim 0 of `t`, into dim `dim`.
Tensor fold_samples(const Tensor& t, int dim) {
  const Tensor moved = movedim(t, 0, dim);
  Dims sizes;
  for (int i = 0; i < moved.dim(); ++i) {
    if (i == dim + 1)
      sizes.back() = checked_mul(sizes.back(), moved.size(i));
    else
      sizes.push_back(moved.size(i));
  }
  return reshape(moved, sizes);
}
// Splits the batch dim of vmap off dim `dim` of the result and moves it to dim 0.
Tensor unfold_samples(const Tensor& t, int dim, int64_t samples) {
  Dims sizes;
  for (int i = 0; i < t.dim(); ++i) {
    if (i == dim) sizes.push_back(samples);
    sizes.push_back(i == dim && samples > 0 ? t.size(i) / samples : t.size(i));
  }
  return movedim(reshape(t, sizes), dim, 0);
}
Dims scaled(IntList sizes, size_t dim, int64_t by) {
  Dims out(sizes);
  COGRAD_CHECK(!__builtin_mul_overflow(out[dim], by, &out[dim]), "conv: too many samples");
  return out;
}

bool all_from(const Dims& d, int64_t least) {
  return std::all_of(d.begin(), d.end(), [least](int64_t v) { return v >= least; });
}

void check_list(IntList v, const char* name, size_t n) {
  COGRAD_CHECK(v.size() == n, "expected ", name, " to be a single integer value or a list of ", n,
               " values to match the convolution dimensions, but got ", name, "=", to_string(v));
}

// Raises unless the shapes x (N, C, *), w (O, C / groups, *) and the options are consistent; a
// kernel must not be empty.
void check_geometry(IntList x, IntList w, const ConvOptions& o) {
  const size_t n = x.size() < 2 ? 0 : x.size() - 2;
  COGRAD_CHECK(n >= 1 && n <= 3 && w.size() == x.size(),
               "convolution: expected an input of 3 to 5 dims and a weight of as many, but got "
               "shapes ",
               to_string(x), " and ", to_string(w));
  check_list(o.stride, "stride", n);
  check_list(o.padding, "padding", n);
  check_list(o.dilation, "dilation", n);
  check_options(o);
  COGRAD_CHECK(all_from(Dims(w.last(n)), 1), "kernel size should be greater than zero, but got ",
               to_string(w.last(n)));
  COGRAD_CHECK(w[0] >= o.groups, "Given groups=", o.groups, ", expected weight to be at least ",
               o.groups, " at dimension 0, but got weight of size ", to_string(w), " instead");
  COGRAD_CHECK(w[0] % o.groups == 0, "Given groups=", o.groups,
               ", expected weight to be divisible by ", o.groups,
               " at dimension 0, but got weight of size [", to_string(w), "] instead");
  int64_t channels = 0;
  COGRAD_CHECK(!__builtin_mul_overflow(w[1], o.groups, &channels) && x[1] == channels,
               "Given groups=", o.groups, ", weight of size ", to_string(w), ", expected input",
               to_string(x), " to have ", channels, " channels, but got ", x[1],
               " channels instead");
}
void check_types(const Tensor& a, const Tensor& b) {
  COGRAD_CHECK_NOT_IMPLEMENTED(a.dtype() != DType::Bool,
                               "convolution is not implemented for 'Bool'");
  COGRAD_CHECK(a.dtype() == b.dtype(), "expected scalar type ", scalar_type_name(a.dtype()),
               " but found ", scalar_type_name(b.dtype()));
}
// Raises unless the bias has `channels` elements in the first of `dims` dims.
void check_column(const Tensor& bias, int64_t channels, int dims) {
  if (!bias.defined()) return;
  COGRAD_CHECK(bias.dim() == dims && bias.size(0) == channels && bias.numel() == channels,
               "convolution: expected a bias of ", channels, " elements in the first of ", dims,
               " dims, but got shape ", to_string(bias.sizes()));
}
// Raises unless g has the shape of y. With output padding, g of a transposed convolution may be
// smaller.
void check_grad(const Tensor& g, IntList x, IntList w, const ConvOptions& o) {
  check_geometry(x, w, o);
  const Dims sizes = conv_sizes(x, w, o);
  bool fits = g.dim() == static_cast<int>(sizes.size()) && g.size(0) == x[0] && g.size(1) == w[0];
  for (size_t i = 2; fits && i < sizes.size(); ++i) fits = g.sizes()[i] <= sizes[i];
  COGRAD_CHECK(fits, "convolution: expected a gradient of shape ", to_string(IntList(sizes)),
               ", but got one of shape ", to_string(g.sizes()));
}
// Returns the convolution, restricted to the shape `sizes` of a gradient.
Tensor conv_within(const Tensor& x, const Tensor& w, const ConvOptions& o, IntList sizes) {
  Tensor y = conv(x, w, Tensor(), o);
  for (int d = 2; d < y.dim(); ++d)
    if (y.size(d) > sizes[static_cast<size_t>(d)])
      y = narrow(y, d, 0, sizes[static_cast<size_t>(d)]);
  return y;
}

struct ConvState {
  ConvOptions options;
  Dims sizes;  // of the input or weight, for which this is the gradient
  Dims grad_sizes;
};

// Returns the options of a call, which start at argument `first`.
ConvOptions options_of(const BatchCall& c, size_t first) {
  return {Dims(c.arg(first).ints()), Dims(c.arg(first + 1).ints()), Dims(c.arg(first + 2).ints()),
          c.arg(first + 3).integer()};
}

struct ConvOp {
  static constexpr OpSpec spec{
      "_conv", "input, weight, stride, padding, dilation, groups, bias=None",
      kInternal | kContraction,
      "The sums over a window that slides over the input (N, C, *), for each row of weight; "
      "bias is (O, 1, ...).",
      "T(2, 3, 5), T(4, 3, 2), (1,), (0,), (1,), 1, T(4, 1); "
      "T(2, 4, 5, 6), T(6, 2, 3, 2), (2, 1), (1, 2), (1, 2), 2; "
      "T(1, 2, 3, 4, 3), T(2, 2, 2, 2, 2), (1, 2, 1), (1, 0, 0), (1, 1, 2), 1, T(2, 1, 1, 1); "
      "T(2, 3, 6, 5), T(3, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3, T(3, 1, 1)"};
  static constexpr const char* kNodeName = "ConvolutionBackward0";
  static constexpr DTypeSet kDTypes = kConvTypes;
  static constexpr TangentRule kTangent = multilinear({0, 1}, {6});
  static constexpr int kSaved = 2;
  using State = ConvState;
  static Tensor forward(Ctx<ConvOp>& ctx, const Tensor& x, const Tensor& w, IntList stride,
                        IntList padding, IntList dilation, int64_t groups, const Tensor& bias) {
    const ConvOptions o{Dims(stride), Dims(padding), Dims(dilation), groups};
    check_geometry(x.sizes(), w.sizes(), o);
    check_types(x, w);
    check_column(bias, w.size(0), w.dim() - 1);
    const Dims sizes = conv_sizes(x.sizes(), w.sizes(), o);
    if (ctx.recording()) {
      *ctx.operator->() = {o, {}, {}};
      ctx.save(ctx.needs(1) ? x : Tensor(), ctx.needs(0) ? w : Tensor());
      // Backward needs the shapes even of tensors that are not saved.
      ctx->sizes = Dims(x.sizes());
      for (const int64_t n : w.sizes()) ctx->sizes.push_back(n);
    }
    Tensor y = empty(sizes, kernel_dtype(x.dtype()));
    const Tensor cx = operand(x), cw = operand(w);
    const Tensor cb = bias.defined() ? operand(raw_cast(bias, x.dtype())) : bias;
    kernels::conv_forward(y.dtype(), shape_of(x.sizes(), w.sizes(), sizes, o), cx.bytes(),
                          cw.bytes(), bytes_or_null(cb), y.bytes());
    return raw_cast(y, x.dtype());
  }
  static void backward(Ctx<ConvOp>& ctx, const Tensor& g) {
    const IntList both(ctx->sizes);
    const size_t n = both.size() / 2;
    if (ctx.needs(0)) ctx.grad(0) = conv_input_grad(g, ctx.saved(1), both.first(n), ctx->options);
    if (ctx.needs(1)) ctx.grad(1) = conv_weight_grad(g, ctx.saved(0), both.last(n), ctx->options);
    if (ctx.needs(2)) ctx.grad(2) = g;  // the engine sums it to the bias' shape
  }
  static void batch(BatchCall& c) {
    const Tensor &x = c.arg(0).tensor(), &w = c.arg(1).tensor(), &b = c.arg(6).tensor();
    ConvOptions o = options_of(c, 2);
    if (!c.batched(w) && (!b.defined() || !c.batched(b))) {
      const Tensor y = conv(fold_samples(c.physical(x), 0), w, b, o);
      return c.set_result(unfold_samples(y, 0, c.size()));
    }
    const bool shared = !c.batched(x) && o.groups == 1;  // all samples see the same input
    const Tensor in = shared ? x : fold_samples(c.physical_expanded(x), 1);
    if (!shared) o.groups = checked_mul(o.groups, c.size());
    const Tensor bias = b.defined() ? fold_samples(c.physical_expanded(b), 0) : b;
    c.set_result(
        unfold_samples(conv(in, fold_samples(c.physical_expanded(w), 0), bias, o), 1, c.size()));
  }
};
COGRAD_OP(ConvOp)

struct ConvInputGrad {
  static constexpr OpSpec spec{
      "_conv_input_grad", "grad, weight, sizes, stride, padding, dilation, groups",
      kInternal | kContraction,
      "The gradient of _conv with respect to its input of shape sizes: a transposed convolution.",
      "T(2, 4, 4), T(4, 3, 2), (2, 3, 5), (1,), (0,), (1,), 1; "
      "T(2, 6, 3, 8), T(6, 2, 3, 2), (2, 4, 5, 6), (2, 1), (1, 2), (1, 2), 2; "
      "T(2, 3, 6, 5), T(3, 1, 3, 3), (2, 3, 6, 5), (1, 1), (1, 1), (1, 1), 3"};
  static constexpr const char* kNodeName = "ConvolutionBackward0";
  static constexpr DTypeSet kDTypes = kConvTypes;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static constexpr int kSaved = 2;
  using State = ConvState;
  static Tensor forward(Ctx<ConvInputGrad>& ctx, const Tensor& g, const Tensor& w, IntList sizes,
                        IntList stride, IntList padding, IntList dilation, int64_t groups) {
    const ConvOptions o{Dims(stride), Dims(padding), Dims(dilation), groups};
    check_types(g, w);
    check_grad(g, sizes, w.sizes(), o);
    if (ctx.recording()) {
      *ctx.operator->() = {o, Dims(w.sizes()), Dims(g.sizes())};
      ctx.save(ctx.needs(1) ? g : Tensor(), ctx.needs(0) ? w : Tensor());
    }
    Tensor gx = empty(sizes, kernel_dtype(g.dtype()));
    const Tensor cg = operand(g), cw = operand(w);
    kernels::conv_input_grad(gx.dtype(), shape_of(sizes, w.sizes(), g.sizes(), o), cg.bytes(),
                             cw.bytes(), gx.bytes());
    return raw_cast(gx, g.dtype());
  }
  static void backward(Ctx<ConvInputGrad>& ctx, const Tensor& h) {
    if (ctx.needs(0))
      ctx.grad(0) = conv_within(h, ctx.saved(1), ctx->options, IntList(ctx->grad_sizes));
    if (ctx.needs(1))
      ctx.grad(1) = conv_weight_grad(ctx.saved(0), h, IntList(ctx->sizes), ctx->options);
  }
  static void batch(BatchCall& c) {
    const Tensor &g = c.arg(0).tensor(), &w = c.arg(1).tensor();
    ConvOptions o = options_of(c, 3);
    const bool fold_batch = !c.batched(w);
    const size_t dim = fold_batch ? 0 : 1;
    if (!fold_batch) o.groups = checked_mul(o.groups, c.size());
    const Tensor weight = fold_batch ? w : fold_samples(c.physical(w), 0);
    const Tensor gx = conv_input_grad(fold_samples(c.physical_expanded(g), static_cast<int>(dim)),
                                      weight, scaled(c.arg(2).ints(), dim, c.size()), o);
    c.set_result(unfold_samples(gx, static_cast<int>(dim), c.size()));
  }
};
COGRAD_OP(ConvInputGrad)

struct ConvWeightGrad {
  static constexpr OpSpec spec{
      "_conv_weight_grad", "grad, input, sizes, stride, padding, dilation, groups",
      kInternal | kContraction, "The gradient of _conv with respect to its weight of shape sizes.",
      "T(2, 4, 4), T(2, 3, 5), (4, 3, 2), (1,), (0,), (1,), 1; "
      "T(2, 6, 3, 8), T(2, 4, 5, 6), (6, 2, 3, 2), (2, 1), (1, 2), (1, 2), 2; "
      "T(2, 3, 6, 5), T(2, 3, 6, 5), (3, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3"};
  static constexpr const char* kNodeName = "ConvolutionBackward0";
  static constexpr DTypeSet kDTypes = kConvTypes;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static constexpr int kSaved = 2;
  using State = ConvState;
  static Tensor forward(Ctx<ConvWeightGrad>& ctx, const Tensor& g, const Tensor& x, IntList sizes,
                        IntList stride, IntList padding, IntList dilation, int64_t groups) {
    const ConvOptions o{Dims(stride), Dims(padding), Dims(dilation), groups};
    check_types(g, x);
    check_grad(g, x.sizes(), sizes, o);
    if (ctx.recording()) {
      *ctx.operator->() = {o, Dims(x.sizes()), Dims(g.sizes())};
      ctx.save(ctx.needs(1) ? g : Tensor(), ctx.needs(0) ? x : Tensor());
    }
    Tensor gw = empty(sizes, kernel_dtype(g.dtype()));
    const Tensor cg = operand(g), cx = operand(x);
    kernels::conv_weight_grad(gw.dtype(), shape_of(x.sizes(), sizes, g.sizes(), o), cg.bytes(),
                              cx.bytes(), gw.bytes());
    return raw_cast(gw, g.dtype());
  }
  static void backward(Ctx<ConvWeightGrad>& ctx, const Tensor& h) {
    if (ctx.needs(0))
      ctx.grad(0) = conv_within(ctx.saved(1), h, ctx->options, IntList(ctx->grad_sizes));
    if (ctx.needs(1))
      ctx.grad(1) = conv_input_grad(ctx.saved(0), h, IntList(ctx->sizes), ctx->options);
  }
  static void batch(BatchCall& c) {
    const Tensor &g = c.arg(0).tensor(), &x = c.arg(1).tensor();
    ConvOptions o = options_of(c, 3);
    const bool shared = !c.batched(x) && o.groups == 1;
    if (!shared) o.groups = checked_mul(o.groups, c.size());
    const Tensor in = shared ? x : fold_samples(c.physical_expanded(x), 1);
    const Tensor gw = conv_weight_grad(fold_samples(c.physical_expanded(g), 1), in,
                                       scaled(c.arg(2).ints(), 0, c.size()), o);
    c.set_result(unfold_samples(gw, 0, c.size()));
  }
};
COGRAD_OP(ConvWeightGrad)

}  // namespace

void check_options(const ConvOptions& o) {
  COGRAD_CHECK(all_from(o.padding, 0), "negative padding is not supported");
  COGRAD_CHECK(all_from(o.stride, 1), "non-positive stride is not supported");
  COGRAD_CHECK(all_from(o.dilation, 1), "dilation should be greater than zero, but got ",
               to_string(IntList(o.dilation)));
  COGRAD_CHECK(o.groups >= 1, "non-positive groups is not supported");
}

Dims conv_output_sizes(IntList x, IntList w, const ConvOptions& o) {
  Dims out, padded;
  bool fits = true;
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    int64_t both = 0, room = 0, reach = 0;
    const bool bad = __builtin_mul_overflow(o.padding[i], 2, &both) ||
                     __builtin_add_overflow(x[i + 2], both, &room) ||
                     __builtin_mul_overflow(o.dilation[i], w[i + 2] - 1, &reach) ||
                     __builtin_add_overflow(reach, 1, &reach);
    COGRAD_CHECK(!bad, "conv: padding ", to_string(IntList(o.padding)), " or dilation ",
                 to_string(IntList(o.dilation)), " is too large for an input of shape ",
                 to_string(x));
    padded.push_back(room);
    fits = fits && room >= reach;
    out.push_back(fits ? (room - reach) / o.stride[i] + 1 : 0);
  }
  if (fits) return out;
  const auto by = [](const Dims& d, size_t skip) {
    std::string s;
    for (size_t i = skip; i < d.size(); ++i) s += (i > skip ? " x " : "") + std::to_string(d[i]);
    return s;
  };
  Dims reach;
  for (size_t i = 0; i < padded.size(); ++i) reach.push_back(o.dilation[i] * (w[i + 2] - 1) + 1);
  detail::fail(ErrorKind::Runtime, "Calculated padded input size per channel: (", by(padded, 0),
               "). Kernel size: (", by(reach, 0),
               "). Kernel size can't be greater than actual input size");
}

Tensor conv(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvOptions& o) {
  return apply<ConvOp>(x, w, IntList(o.stride), IntList(o.padding), IntList(o.dilation), o.groups,
                       bias);
}
Tensor conv_input_grad(const Tensor& g, const Tensor& w, IntList sizes, const ConvOptions& o) {
  return apply<ConvInputGrad>(g, w, sizes, IntList(o.stride), IntList(o.padding),
                              IntList(o.dilation), o.groups);
}
Tensor conv_weight_grad(const Tensor& g, const Tensor& x, IntList sizes, const ConvOptions& o) {
  return apply<ConvWeightGrad>(g, x, sizes, IntList(o.stride), IntList(o.padding),
                               IntList(o.dilation), o.groups);
}

}  // namespace cograd
