// SPDX-License-Identifier: BSD-3-Clause
// Convolutions: by cuDNN, else as products with columns: for each group, y = w cols, and its
// transposes.
#include <algorithm>

#include "cograd/dtype.h"
#include "cuda/args/gemm_args.h"
#include "cuda/lib/convolution.h"
#include "cuda/slots/loops.h"
#include "cuda/slots/products.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/conv/conv.h"
#include "kernels/core/loops.h"
#include "kernels/elementwise/tables.h"

namespace cograd::cuda {

namespace {

using kernels::ConvShape;

// Columns of more images than this would take too much memory at once.
constexpr int64_t kColumnBytes = int64_t{256} << 20;
// The kernels loop over what is left.
constexpr int64_t kMostThreads = int64_t{256} << 20;

void run_columns(const char* name, DType t, const ConvShape& s, int64_t images, const void* from,
                 void* to, int64_t total) {
  ColumnsArgs args{from, to, images, s.in_channels * s.groups, s.out_size(), {}, {}, {},
                   {},   {}, {}};
  for (int d = 0; d < 3; ++d) {
    args.in[d] = s.in[d];
    args.places[d] = s.out[d];
    args.kernel[d] = s.kernel[d];
    args.stride[d] = s.stride[d];
    args.padding[d] = s.padding[d];
    args.dilation[d] = s.dilation[d];
  }
  if (total == 0) return;
  launch(name, function_of("columns.h", name, t), grid_over(std::min(total, kMostThreads)), args);
}

// The sizes of a convolution's parts, in elements.
struct Sizes {
  explicit Sizes(DType t, const ConvShape& s)
      : item(static_cast<int64_t>(dtype_size(t))),
        depth(s.depth()),
        places(s.out_size()),
        x(s.in_channels * s.groups * s.in_size()),
        y(s.out_channels * s.groups * places),
        w(s.out_channels * depth),
        columns(s.groups * depth * places) {
    per_step = std::clamp<int64_t>(kColumnBytes / std::max<int64_t>(1, columns * item), 1,
                                   std::max<int64_t>(1, s.batch));
  }
  const void* at(const void* p, int64_t elements) const {
    return static_cast<const char*>(p) + elements * item;
  }
  void* at(void* p, int64_t elements) const { return static_cast<char*>(p) + elements * item; }
  int64_t item, depth, places, x, y, w, columns;
  int64_t per_step;  // images
};

// Calls f(first image, images, columns) for all images, by as many as the columns' memory holds.
template <class F>
void each_step(const ConvShape& s, const Sizes& z, F&& f) {
  if (s.batch == 0) return;
  const Scratch columns(static_cast<size_t>(z.per_step * z.columns * z.item));
  for (int64_t i = 0; i < s.batch; i += z.per_step)
    f(i, std::min(z.per_step, s.batch - i), columns.get());
}

void cast(DType from, DType to, const void* p, void* q, int64_t n) {
  const int64_t steps[2] = {dtype_size(to), dtype_size(from)};
  if (n > 0)
    copy_strided(from, to, 1, &n, {static_cast<char*>(q), &steps[0]},
                 {static_cast<char*>(const_cast<void*>(p)), &steps[1]});
}
// Calls f(dtype, a, b, c, out) with copies in float32 of arrays of a 16-bit dtype, because sums of
// products need that; else with the arrays themselves. c has nc elements or is null.
template <class F>
void in_wide_dtype(DType t, const void* a, int64_t na, const void* b, int64_t nb, const void* c,
                   int64_t nc, void* out, int64_t n, F&& f) {
  const DType wide = wide_dtype(t);
  if (wide == t) return f(t, a, b, c, out);
  const auto bytes = [wide](int64_t count) {
    return static_cast<size_t>(count * dtype_size(wide));
  };
  const Scratch wa(bytes(na)), wb(bytes(nb)), wc(bytes(c == nullptr ? 0 : nc)), result(bytes(n));
  cast(t, wide, a, wa.get(), na);
  cast(t, wide, b, wb.get(), nb);
  if (c != nullptr) cast(t, wide, c, wc.get(), nc);
  f(wide, wa.get(), wb.get(), c == nullptr ? nullptr : wc.get(), result.get());
  cast(wide, t, result.get(), out, n);
}

// y += bias, which is broadcast over images and places.
void add_bias(DType t, const ConvShape& s, const void* bias, void* y) {
  const Sizes z(t, s);
  if (bias == nullptr || s.batch * z.y == 0) return;
  const int64_t shape[3] = {s.batch, s.out_channels * s.groups, z.places};
  const int64_t whole[3] = {z.y * z.item, z.places * z.item, z.item};
  const int64_t by_channel[3] = {0, z.item, 0};
  char* out = static_cast<char*>(y);
  char* add = const_cast<char*>(static_cast<const char*>(bias));
  const kernels::Operand ops[3] = {{out, whole}, {out, whole}, {add, by_channel}};
  kernels::run_loop(kernels::ElementRow(kernels::BinaryOp::add).loop(t), 3, shape, ops, 3, nullptr);
}

void product_with_columns(DType t, const ConvShape& s, const void* x, const void* w, void* y) {
  const Sizes z(t, s);
  if (z.depth == 0) set_bytes(y, 0, s.batch * z.y * z.item);
  each_step(s, z, [&](int64_t i, int64_t n, void* columns) {
    run_columns("im2col", t, s, n, z.at(x, i * z.x), columns, n * z.columns);
    for (int64_t g = 0; g < s.groups; ++g)
      gemm_batched(t, false, false, s.out_channels, z.places, z.depth, 1, z.at(w, g * z.w), z.depth,
                   0, z.at(columns, g * z.depth * z.places), z.places, z.columns, 0,
                   z.at(y, i * z.y + g * s.out_channels * z.places), z.places, z.y, n);
  });
}
void columns_of_products(DType t, const ConvShape& s, const void* w, const void* g, void* gx) {
  const Sizes z(t, s);
  each_step(s, z, [&](int64_t i, int64_t n, void* columns) {
    for (int64_t k = 0; k < s.groups; ++k)
      gemm_batched(t, true, false, z.depth, z.places, s.out_channels, 1, z.at(w, k * z.w), z.depth,
                   0, z.at(g, i * z.y + k * s.out_channels * z.places), z.places, z.y, 0,
                   z.at(columns, k * z.depth * z.places), z.places, z.columns, n);
    run_columns("col2im", t, s, n, columns, z.at(gx, i * z.x), n * z.x);
  });
}
void products_by_columns(DType t, const ConvShape& s, const void* x, const void* g, void* gw) {
  const Sizes z(t, s);
  if (s.batch == 0) return set_bytes(gw, 0, s.groups * z.w * z.item);
  // Images are added in order, so the bits repeat.
  each_step(s, z, [&](int64_t i, int64_t n, void* columns) {
    run_columns("im2col", t, s, n, z.at(x, i * z.x), columns, n * z.columns);
    for (int64_t b = 0; b < n; ++b)
      for (int64_t k = 0; k < s.groups; ++k)
        gemm(t, false, true, s.out_channels, z.depth, z.places, 1,
             z.at(g, (i + b) * z.y + k * s.out_channels * z.places), z.places,
             z.at(columns, b * z.columns + k * z.depth * z.places), z.places, i + b > 0 ? 1 : 0,
             z.at(gw, k * z.w), z.depth);
  });
}

}  // namespace

void im2col(DType t, const ConvShape& s, const void* x, void* cols) {
  run_columns("im2col", t, s, s.batch, x, cols,
              s.batch * s.in_channels * s.groups * s.taps() * s.out_size());
}
COGRAD_CUDA_SLOT(im2col)
void col2im(DType t, const ConvShape& s, const void* cols, void* x) {
  run_columns("col2im", t, s, s.batch, cols, x, s.batch * s.in_channels * s.groups * s.in_size());
}
COGRAD_CUDA_SLOT(col2im)

void conv_forward(DType t, const ConvShape& s, const void* x, const void* w, const void* bias,
                  void* y) {
  if (cudnn_convolution(ConvPass::Forward, t, s, x, w, y)) return add_bias(t, s, bias, y);
  const Sizes z(t, s);
  in_wide_dtype(t, x, s.batch * z.x, w, s.groups * z.w, bias, s.groups * s.out_channels, y,
                s.batch * z.y,
                [&](DType wide, const void* a, const void* b, const void* add, void* out) {
                  product_with_columns(wide, s, a, b, out);
                  add_bias(wide, s, add, out);
                });
}
COGRAD_CUDA_SLOT(conv_forward)

void conv_input_grad(DType t, const ConvShape& s, const void* g, const void* w, void* gx) {
  if (cudnn_convolution(ConvPass::InputGrad, t, s, w, g, gx)) return;
  const Sizes z(t, s);
  in_wide_dtype(t, w, s.groups * z.w, g, s.batch * z.y, nullptr, 0, gx, s.batch * z.x,
                [&](DType wide, const void* a, const void* b, const void*, void* out) {
                  columns_of_products(wide, s, a, b, out);
                });
}
COGRAD_CUDA_SLOT(conv_input_grad)

void conv_weight_grad(DType t, const ConvShape& s, const void* g, const void* x, void* gw) {
  if (cudnn_convolution(ConvPass::WeightGrad, t, s, x, g, gw)) return;
  const Sizes z(t, s);
  in_wide_dtype(t, x, s.batch * z.x, g, s.batch * z.y, nullptr, 0, gw, s.groups * z.w,
                [&](DType wide, const void* a, const void* b, const void*, void* out) {
                  products_by_columns(wide, s, a, b, out);
                });
}
COGRAD_CUDA_SLOT(conv_weight_grad)

}  // namespace cograd::cuda
