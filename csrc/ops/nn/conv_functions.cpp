// SPDX-License-Identifier: BSD-3-Clause
// conv1d to conv_transpose3d, convolution, conv_tbc: the user's arguments and their checks.
#include "ops/declare/autocast.h"
#include "ops/nn/conv.h"
#include "ops/nn/pad.h"

namespace cograd {

namespace {

// Expands one value to all dims; accepts one value per dim.
Dims each_dim(IntList v, const char* name, size_t n) {
  COGRAD_CHECK(v.size() == n || v.size() == 1, "expected ", name,
               " to be a single integer value or a list of ", n,
               " values to match the convolution dimensions, but got ", name, "=", to_string(v));
  return v.size() == n ? Dims(v) : Dims(n, v[0]);
}

// The input as a batch; a single sample becomes a batch of one.
struct Batched {
  Batched(const Tensor& input, const Tensor& weight, int n, bool transposed) : x(input) {
    const char* prefix = transposed ? "conv_transpose" : "conv";
    COGRAD_CHECK(input.dim() == n + 1 || input.dim() == n + 2, "Expected ", n + 1,
                 "D (unbatched) or ", n + 2, "D (batched) input to ", prefix, n,
                 "d, but got input of size: ", to_string(input.sizes()));
    COGRAD_CHECK(weight.dim() == n + 2, "Expected ", n + 2, "-dimensional weight for ", n + 2,
                 "-dimensional input of ", prefix, n, "d, but got weight of size ",
                 to_string(weight.sizes()));
    single = input.dim() == n + 1;
    if (single) x = unsqueeze(input, 0);
  }
  Tensor result(const Tensor& y) const { return single ? squeeze(y, 0) : y; }
  Tensor x;
  bool single = false;
};

// Views the bias (O) as (O, 1, ...), the shape in which it is added.
Tensor bias_column(const Tensor& bias, const Tensor& w, int64_t channels, bool transposed) {
  if (!bias.defined()) return bias;
  COGRAD_CHECK(bias.dim() == 1 && bias.size(0) == channels, "Given ",
               transposed ? "transposed=1, " : "", "weight of size ", to_string(w.sizes()),
               ", expected bias to be 1-dimensional with ", channels,
               " elements, but got bias of size ", to_string(bias.sizes()), " instead");
  Dims shape(static_cast<size_t>(w.dim()) - 1, 1);
  shape[0] = channels;
  return reshape(bias, shape);
}

Tensor transposed_conv(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvOptions& o,
                       const Dims& extra) {
  const size_t n = static_cast<size_t>(x.dim()) - 2;
  check_options(o);
  COGRAD_CHECK(w.dim() == x.dim() && x.size(1) == w.size(0), "Given transposed=1, weight of size ",
               to_string(w.sizes()), ", expected input", to_string(x.sizes()), " to have ",
               w.size(0), " channels, but got ", x.size(1), " channels instead");
  Dims sizes{x.size(0), checked_mul(w.size(1), o.groups)};
  for (size_t i = 0; i < n; ++i) {
    const int64_t in = x.sizes()[i + 2], kernel = w.sizes()[i + 2];
    COGRAD_CHECK(extra[i] >= 0, "negative output_padding is not supported");
    COGRAD_CHECK(extra[i] < o.stride[i] || extra[i] < o.dilation[i],
                 "output padding must be smaller than either stride or dilation, but got "
                 "output_padding: ",
                 to_string(IntList(extra)), " stride: ", to_string(IntList(o.stride)),
                 " dilation: ", to_string(IntList(o.dilation)));
    const int64_t reach = checked_add(checked_mul(o.dilation[i], kernel - 1), extra[i] + 1);
    const int64_t out =
        checked_add(checked_mul(in - 1, o.stride[i]), reach) - checked_mul(2, o.padding[i]);
    COGRAD_CHECK(out >= 1, "Given input size per channel: ", to_string(x.sizes().last(n)),
                 ". Calculated output size per channel: (", out, "). Output size is too small");
    sizes.push_back(out);
  }
  const Tensor column = bias_column(bias, w, sizes[1], true);
  const Tensor y = conv_input_grad(x, w, IntList(sizes), o);
  return column.defined() ? add(y, column) : y;
}

template <int N>
Tensor conv_of(const Tensor& input, const Tensor& w, const Tensor& bias, IntList stride,
               IntList padding, IntList dilation, int64_t groups) {
  const Batched b(input, w, N, false);
  return b.result(conv(b.x, w, bias_column(bias, w, w.size(0), false),
                       {each_dim(stride, "stride", N), each_dim(padding, "padding", N),
                        each_dim(dilation, "dilation", N), groups}));
}

// padding='same' adds half of what the kernel removes on either side; if that is odd, the input
// gets one more element at its end.
template <int N>
Tensor conv_padded(const Tensor& input, const Tensor& w, const Tensor& bias, IntList stride,
                   std::string_view padding, IntList dilation, int64_t groups) {
  if (padding == "valid") {
    const int64_t none[1] = {0};
    return conv_of<N>(input, w, bias, stride, none, dilation, groups);
  }
  COGRAD_CHECK(padding == "same", "Invalid padding string: '", padding, "'");
  const Batched b(input, w, N, false);
  const Dims steps = each_dim(stride, "stride", N), holes = each_dim(dilation, "dilation", N);
  for (const int64_t s : steps)
    COGRAD_CHECK(s == 1, "padding='same' is not supported for strided convolutions");
  Dims both, more(2 * size_t{N});
  bool uneven = false;
  for (size_t i = 0; i < N; ++i) {
    const int64_t total = checked_mul(holes[i], w.sizes()[i + 2] - 1);
    both.push_back(total / 2);
    more[2 * (N - 1 - i) + 1] = total % 2;
    uneven = uneven || total % 2 != 0;
  }
  const Tensor x = uneven ? constant_pad(b.x, more, Scalar(0)) : b.x;
  return b.result(conv(x, w, bias_column(bias, w, w.size(0), false), {steps, both, holes, groups}));
}

template <int N>
Tensor conv_transpose_of(const Tensor& input, const Tensor& w, const Tensor& bias, IntList stride,
                         IntList padding, IntList output_padding, int64_t groups,
                         IntList dilation) {
  const Batched b(input, w, N, true);
  return b.result(transposed_conv(b.x, w, bias,
                                  {each_dim(stride, "stride", N), each_dim(padding, "padding", N),
                                   each_dim(dilation, "dilation", N), groups},
                                  each_dim(output_padding, "output_padding", N)));
}

#define COGRAD_CONV(N, shapes, samples, strings, transposed)                                     \
  struct Conv##N##d {                                                                            \
    static constexpr OpSpec spec{                                                                \
        "conv" #N "d", "input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1",    \
        kFunction | kContraction | kAutocastLow,                                                 \
        "Convolution: " shapes ". padding is an int, one int per dim, 'same' or 'valid'.",       \
        samples};                                                                                \
    static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;                           \
    static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b, IntList stride,     \
                          IntList padding, IntList dilation, int64_t groups) {                   \
      return conv_of<N>(x, w, b, stride, padding, dilation, groups);                             \
    }                                                                                            \
  };                                                                                             \
  COGRAD_OP(Conv##N##d)                                                                          \
  struct PaddedConv##N##d {                                                                      \
    static constexpr OpSpec spec{                                                                \
        "conv" #N "d",                                                                           \
        "input, weight, bias=None, stride=1, padding='valid', dilation=1, groups=1",             \
        kFunction | kContraction | kAutocastLow,                                                 \
        "Convolution: " shapes ". padding is an int, one int per dim, 'same' or 'valid'.",       \
        strings};                                                                                \
    static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;                           \
    static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b, IntList stride,     \
                          std::string_view padding, IntList dilation, int64_t groups) {          \
      return conv_padded<N>(x, w, b, stride, padding, dilation, groups);                         \
    }                                                                                            \
  };                                                                                             \
  COGRAD_OP(PaddedConv##N##d)                                                                    \
  struct ConvTranspose##N##d {                                                                   \
    static constexpr OpSpec spec{                                                                \
        "conv_transpose" #N "d",                                                                 \
        "input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1", \
        kFunction | kContraction | kAutocastLow,                                                 \
        "Transposed convolution (conv's gradient with respect to its input): weight is "         \
        "(C, O / groups, *kernel).",                                                             \
        transposed};                                                                             \
    static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;                           \
    static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b, IntList stride,     \
                          IntList padding, IntList output_padding, int64_t groups,               \
                          IntList dilation) {                                                    \
      return conv_transpose_of<N>(x, w, b, stride, padding, output_padding, groups, dilation);   \
    }                                                                                            \
  };                                                                                             \
  COGRAD_OP(ConvTranspose##N##d)

COGRAD_CONV(1, "input (N, C, L) or (C, L), weight (O, C / groups, K)",
            "T(2, 3, 5), T(4, 3, 2), T(4); T(3, 6), T(2, 3, 3), None, 2, 1; "
            "T(2, 4, 9), T(6, 2, 3), T(6), (1,), 2, 2, 2; T(0, 2, 4), T(3, 2, 2)",
            "T(2, 3, 5), T(4, 3, 2), T(4), 1, 'same'; T(2, 3, 7), T(2, 3, 3), None, 1, 'same', 2; "
            "T(3, 6), T(2, 3, 3), None, 2, 'valid'",
            "T(2, 3, 5), T(3, 4, 2), T(4); T(3, 5), T(3, 2, 3), None, 2, 1, 1; "
            "T(2, 4, 5), T(4, 3, 3), T(6), 1, 1, 0, 2, 2")
COGRAD_CONV(
    2, "input (N, C, H, W) or (C, H, W), weight (O, C / groups, KH, KW)",
    "T(2, 3, 4, 5), T(4, 3, 2, 3), T(4); T(3, 5, 4), T(2, 3, 3, 3), None, (2, 1), 1; "
    "T(1, 4, 5, 5), T(4, 1, 3, 3), T(4), 1, (1, 2), (2, 1), 4; T(2, 3, 4, 4), T(2, 3, 1, 1)",
    "T(1, 2, 4, 5), T(3, 2, 2, 3), T(3), 1, 'same'; T(2, 5, 5), T(2, 2, 3, 3), None, 1, 'valid'",
    "T(2, 3, 3, 4), T(3, 2, 2, 3), T(2); T(3, 3, 4), T(3, 2, 3, 3), None, (2, 1), 1, (1, 0); "
    "T(1, 4, 3, 3), T(4, 1, 3, 3), T(2), 2, (1, 2), 1, 2, (2, 1)")
COGRAD_CONV(3, "input (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, KD, KH, KW)",
            "T(1, 2, 3, 4, 3), T(3, 2, 2, 2, 2), T(3); "
            "T(2, 4, 3, 4), T(2, 1, 2, 3, 2), None, (2, 1, 1), (1, 1, 0), 1, 2",
            "T(1, 2, 3, 2, 3), T(2, 2, 2, 3, 1), T(2), 1, 'same'",
            "T(1, 2, 2, 2, 3), T(2, 2, 2, 1, 2), T(2); "
            "T(2, 2, 2, 3), T(2, 1, 2, 3, 2), None, (2, 1, 1), (1, 1, 0), (1, 0, 0), 2")
#undef COGRAD_CONV

struct Convolution {
  static constexpr OpSpec spec{
      "convolution",
      "input, weight, bias=None, stride=1, padding=0, dilation=1, transposed=False, "
      "output_padding=0, groups=1",
      kFunction | kContraction | kAutocastLow,
      "The convolution of an input (N, C, *) or, if transposed, its transpose.",
      "T(2, 3, 5), T(4, 3, 2), T(4), (1,), (0,), (1,), False, (0,), 1; "
      "T(2, 3, 3, 4), T(3, 2, 2, 3), T(2), (2, 1), (1, 0), (1, 1), True, (1, 0), 1"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, IntList stride,
                        IntList padding, IntList dilation, bool transposed, IntList output_padding,
                        int64_t groups) {
    COGRAD_CHECK(x.dim() >= 3 && x.dim() <= 5,
                 "convolution: expected an input of 3 to 5 dims, but got shape ",
                 to_string(x.sizes()));
    const size_t n = static_cast<size_t>(x.dim()) - 2;
    const ConvOptions o{each_dim(stride, "stride", n), each_dim(padding, "padding", n),
                        each_dim(dilation, "dilation", n), groups};
    COGRAD_CHECK(w.dim() == x.dim(), "convolution: expected a weight of ", x.dim(),
                 " dims as the input has, but got shape ", to_string(w.sizes()));
    if (!transposed) return conv(x, w, bias_column(bias, w, w.size(0), false), o);
    return transposed_conv(x, w, bias, o, each_dim(output_padding, "output_padding", n));
  }
};
COGRAD_OP(Convolution)

struct ConvTbc {
  static constexpr OpSpec spec{"conv_tbc", "input, weight, bias, pad=0",
                               kFunction | kContraction | kAutocastLow,
                               "Convolution over time: input (T, B, C), weight (K, C, O).",
                               "T(5, 2, 3), T(2, 3, 4), T(4); T(4, 1, 2), T(3, 2, 2), T(2), 1"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias, int64_t pad) {
    COGRAD_CHECK(x.dim() == 3, "Input must have 3 dims: time, batch, in_channel");
    COGRAD_CHECK(w.dim() == 3,
                 "Weight tensor must have 3 dims: kernel_width, in_channels, "
                 "out_channels.");
    COGRAD_CHECK(bias.defined() && bias.dim() == 1, "Bias must be 1-D");
    const int64_t batch_dim_first[3] = {1, 2, 0}, rows_first[3] = {2, 1, 0},
                  time_first[3] = {2, 0, 1};
    const Tensor kernel = permute(w, rows_first);
    const Tensor y =
        conv(permute(x, batch_dim_first), kernel, bias_column(bias, kernel, kernel.size(0), false),
             {Dims{1}, Dims{pad}, Dims{1}, 1});
    return contiguous_clone(permute(y, time_first));
  }
};
COGRAD_OP(ConvTbc)

}  // namespace

}  // namespace cograd
