// SPDX-License-Identifier: BSD-3-Clause
// im2col and col2im: sliding blocks of images as columns, and the sum of columns back to images.
#include "kernels/conv/conv.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

struct Window {
  Dims kernel, dilation, padding, stride;
};

Dims two(IntList v, const char* op, const char* name) {
  COGRAD_CHECK(v.size() == 1 || v.size() == 2, op, "(): expected ", name,
               " to be an integer or two of them, but got ", to_string(v));
  return v.size() == 2 ? Dims(v) : Dims(2, v[0]);
}

Window window_of(const char* op, IntList kernel, IntList dilation, IntList padding,
                 IntList stride) {
  Window w{two(kernel, op, "kernel_size"), two(dilation, op, "dilation"),
           two(padding, op, "padding"), two(stride, op, "stride")};
  for (size_t i = 0; i < 2; ++i) {
    COGRAD_CHECK(w.kernel[i] > 0, op, "(): kernel size should be greater than zero, but got ",
                 to_string(IntList(w.kernel)));
    COGRAD_CHECK(w.dilation[i] > 0, op, "(): dilation should be greater than zero, but got ",
                 to_string(IntList(w.dilation)));
    COGRAD_CHECK(w.padding[i] >= 0, op, "(): padding should be non-negative, but got ",
                 to_string(IntList(w.padding)));
    COGRAD_CHECK(w.stride[i] > 0, op, "(): stride should be greater than zero, but got ",
                 to_string(IntList(w.stride)));
  }
  return w;
}

// Returns the window over images of sizes h and w; raises if it does not fit.
kernels::ConvShape shape_of(const char* op, int64_t batch, int64_t channels, IntList image,
                            const Window& w) {
  kernels::ConvShape s;
  s.batch = batch;
  s.in_channels = channels;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t room = checked_add(image[i], checked_mul(2, w.padding[i]));
    const int64_t reach = checked_add(checked_mul(w.dilation[i], w.kernel[i] - 1), 1);
    COGRAD_CHECK(room >= reach, op, "(): an image of ", to_string(image), " with padding ",
                 to_string(IntList(w.padding)), " is too small for a kernel of ",
                 to_string(IntList(w.kernel)), " with dilation ", to_string(IntList(w.dilation)));
    s.in[i + 1] = image[i];
    s.out[i + 1] = (room - reach) / w.stride[i] + 1;
    s.kernel[i + 1] = w.kernel[i];
    s.stride[i + 1] = w.stride[i];
    s.padding[i + 1] = w.padding[i];
    s.dilation[i + 1] = w.dilation[i];
  }
  return s;
}

struct FoldState {
  Window window;
  Dims image;
};

Tensor fold_columns(const Tensor& cols, IntList image, const Window& w);

struct Im2Col {
  static constexpr OpSpec spec{
      "im2col", "input, kernel_size, dilation, padding, stride", kInternal | kShape,
      "The sliding blocks of images (N, C, H, W) as columns (N, C KH KW, L).",
      "T(2, 3, 4, 5), (2, 3), (1, 1), (0, 0), (1, 1); T(1, 2, 5, 4), 2, (2, 1), 1, (1, 2)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | kUnsignedTypes;
  static constexpr TangentRule kTangent = linear({0});
  using State = FoldState;
  static Tensor forward(Ctx<Im2Col>& ctx, const Tensor& x, IntList kernel, IntList dilation,
                        IntList padding, IntList stride) {
    const Window w = window_of("im2col", kernel, dilation, padding, stride);
    COGRAD_CHECK(x.dim() == 4, "im2col(): expected images of shape (N, C, H, W), but got ",
                 to_string(x.sizes()));
    COGRAD_CHECK_NOT_IMPLEMENTED(x.dtype() != DType::Bool, "im2col(): not implemented for 'Bool'");
    const auto s = shape_of("im2col", x.size(0), x.size(1), x.sizes().last(2), w);
    if (ctx.recording()) *ctx.operator->() = {w, Dims(x.sizes().last(2))};
    const int64_t sizes[3] = {x.size(0), checked_mul(x.size(1), s.taps()), s.out_size()};
    Tensor out = empty(sizes, x.dtype());
    const Tensor in = raw_contiguous(x);
    kernels::im2col(x.dtype(), s, in.bytes(), out.bytes());
    return out;
  }
  static Tensor backward(Ctx<Im2Col>& ctx, const Tensor& g) {
    return fold_columns(g, ctx->image, ctx->window);
  }
  static void batch(BatchCall& c) {
    const Tensor x = c.physical(c.arg(0).tensor());
    const Tensor y = apply<Im2Col>(flatten(x, 0, 1), c.arg(1).ints(), c.arg(2).ints(),
                                   c.arg(3).ints(), c.arg(4).ints());
    const int64_t sizes[4] = {x.size(0), x.size(1), y.size(1), y.size(2)};
    c.set_result(reshape(y, sizes));
  }
};
COGRAD_OP(Im2Col)

struct Col2Im {
  static constexpr OpSpec spec{
      "col2im", "input, output_size, kernel_size, dilation, padding, stride", kInternal | kShape,
      "The sums of columns (N, C KH KW, L) at their positions in images (N, C, H, W).",
      "T(2, 18, 9), (4, 5), (2, 3), (1, 1), (0, 0), (1, 1); "
      "T(1, 8, 15), (5, 4), 2, (2, 1), 1, (1, 2)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | kUnsignedTypes;
  static constexpr TangentRule kTangent = linear({0});
  using State = FoldState;
  static Tensor forward(Ctx<Col2Im>& ctx, const Tensor& cols, IntList image, IntList kernel,
                        IntList dilation, IntList padding, IntList stride) {
    const Window w = window_of("col2im", kernel, dilation, padding, stride);
    const Dims size = two(image, "col2im", "output_size");
    COGRAD_CHECK(size[0] > 0 && size[1] > 0,
                 "col2im(): expected output spatial size to be positive, but got ",
                 to_string(IntList(size)));
    COGRAD_CHECK(cols.dim() == 3, "col2im(): expected columns of shape (N, C KH KW, L), but got ",
                 to_string(cols.sizes()));
    COGRAD_CHECK_NOT_IMPLEMENTED(cols.dtype() != DType::Bool,
                                 "col2im(): not implemented for 'Bool'");
    const int64_t taps = checked_mul(w.kernel[0], w.kernel[1]);
    COGRAD_CHECK(cols.size(1) % taps == 0,
                 "Expected size of input's dimension 1 to be divisible by the product of "
                 "kernel_size, but got input.size(1)=",
                 cols.size(1), " and kernel_size=", to_string(IntList(w.kernel)), ".");
    const auto s = shape_of("col2im", cols.size(0), cols.size(1) / taps, size, w);
    COGRAD_CHECK(cols.size(2) == s.out_size(), "Given output_size=", to_string(IntList(size)),
                 ", kernel_size=", to_string(IntList(w.kernel)),
                 ", dilation=", to_string(IntList(w.dilation)),
                 ", padding=", to_string(IntList(w.padding)),
                 ", stride=", to_string(IntList(w.stride)),
                 ", expected size of input's dimension 2 to match the calculated number of sliding "
                 "blocks ",
                 s.out[1], " * ", s.out[2], " = ", s.out_size(),
                 ", but got input.size(2)=", cols.size(2), ".");
    if (ctx.recording()) *ctx.operator->() = {w, size};
    const int64_t sizes[4] = {cols.size(0), cols.size(1) / taps, size[0], size[1]};
    Tensor out = empty(sizes, cols.dtype());
    const Tensor in = raw_contiguous(cols);
    kernels::col2im(cols.dtype(), s, in.bytes(), out.bytes());
    return out;
  }
  static Tensor backward(Ctx<Col2Im>& ctx, const Tensor& g) {
    const Window& w = ctx->window;
    return apply<Im2Col>(g, IntList(w.kernel), IntList(w.dilation), IntList(w.padding),
                         IntList(w.stride));
  }
  static void batch(BatchCall& c) {
    const Tensor x = c.physical(c.arg(0).tensor());
    const Tensor y = apply<Col2Im>(flatten(x, 0, 1), c.arg(1).ints(), c.arg(2).ints(),
                                   c.arg(3).ints(), c.arg(4).ints(), c.arg(5).ints());
    const int64_t sizes[5] = {x.size(0), x.size(1), y.size(1), y.size(2), y.size(3)};
    c.set_result(reshape(y, sizes));
  }
};
COGRAD_OP(Col2Im)

Tensor fold_columns(const Tensor& cols, IntList image, const Window& w) {
  return apply<Col2Im>(cols, image, IntList(w.kernel), IntList(w.dilation), IntList(w.padding),
                       IntList(w.stride));
}

// Applies f to images or columns with a batch dim, which it adds to those without one.
template <class F>
Tensor with_batch(const char* op, const Tensor& x, int dims, F&& f) {
  COGRAD_CHECK(x.dim() == dims || x.dim() == dims - 1, op, "(): expected a tensor of ", dims - 1,
               " or ", dims, " dims, but got shape ", to_string(x.sizes()));
  return x.dim() == dims ? f(x) : without_dim(f(unsqueeze(x, 0)), 0);
}

struct Unfold {
  static constexpr OpSpec spec{
      "unfold", "input, kernel_size, dilation=1, padding=0, stride=1", kNN | kShape,
      "The sliding blocks of images (N, C, H, W) as columns (N, C KH KW, L).",
      "T(2, 3, 4, 5), (2, 3); T(2, 5, 4), 2, (2, 1), 1, (1, 2)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | kUnsignedTypes;
  static Tensor forward(const Tensor& x, IntList kernel, IntList dilation, IntList padding,
                        IntList stride) {
    return with_batch("unfold", x, 4, [&](const Tensor& images) {
      return apply<Im2Col>(images, kernel, dilation, padding, stride);
    });
  }
};
COGRAD_OP(Unfold)

struct Fold {
  static constexpr OpSpec spec{
      "fold", "input, output_size, kernel_size, dilation=1, padding=0, stride=1", kNN | kShape,
      "The sums of columns (N, C KH KW, L) at their positions in images (N, C, H, W).",
      "T(2, 18, 9), (4, 5), (2, 3); T(8, 15), (5, 4), 2, (2, 1), 1, (1, 2)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | kUnsignedTypes;
  static Tensor forward(const Tensor& x, IntList image, IntList kernel, IntList dilation,
                        IntList padding, IntList stride) {
    return with_batch("fold", x, 3, [&](const Tensor& cols) {
      return apply<Col2Im>(cols, image, kernel, dilation, padding, stride);
    });
  }
};
COGRAD_OP(Fold)

}  // namespace

}  // namespace cograd
