// SPDX-License-Identifier: BSD-3-Clause
// The three Fourier transforms that those of cograd.fft consist of. Each is linear, and its adjoint
// is one of the three with the same factor.
#include "kernels/fft/fft.h"

#include <algorithm>
#include <cmath>

#include "ops/compute/elementwise.h"
#include "ops/compute/raw.h"
#include "ops/declare/op.h"
#include "ops/declare/ops.h"

namespace cograd {

namespace {

enum class Norm : uint8_t { None, RootOfN, N };  // as torch numbers them

// Returns the checked dims, counted from the front.
Dims axes_of(const char* op, const Tensor& x, IntList asked) {
  Dims axes;
  for (const int64_t d : asked) {
    const int axis = wrap_dim(d, x.dim());
    COGRAD_CHECK(std::find(axes.begin(), axes.end(), axis) == axes.end(), op,
                 "(): FFT dims must be unique, got ", to_string(asked));
    COGRAD_CHECK(x.size(axis) > 0, op, "(): Invalid number of data points (0) specified in dim ",
                 axis);
    axes.push_back(axis);
  }
  return axes;
}

double factor_of(const char* op, int64_t norm, IntList sizes, const Dims& axes) {
  COGRAD_CHECK(norm >= 0 && norm <= 2, op,
               "(): expected norm to be 0 (none), 1 (square root of n) or 2 (n), got ", norm);
  double n = 1;
  for (const int64_t d : axes) n *= static_cast<double>(sizes[static_cast<size_t>(d)]);
  if (norm == static_cast<int64_t>(Norm::None)) return 1;
  return norm == static_cast<int64_t>(Norm::N) ? 1 / n : 1 / std::sqrt(n);
}

kernels::FftArrays arrays_of(const Tensor& in, const Tensor& out) {
  return {Dims(in.sizes()), byte_strides(in.strides(), in.itemsize()), Dims(out.sizes()),
          byte_strides(out.strides(), out.itemsize())};
}

Dims all_but_last(const Dims& axes) { return Dims(axes.begin(), axes.end() - 1); }

// Returns the numbers, along `dim` of a spectrum's half, by which a sum over the half has to be
// multiplied to be one over the whole: `inner`, but 1 for bins 0 and n/2, which occur once.
Tensor bin_weights(DType t, int rank, int dim, int64_t n, double inner) {
  Tensor weights = raw_full({{n / 2 + 1}}, t, inner);
  const auto set_one = [&](int64_t at) {
    raw_fill(alias_strided(weights, {{1}}, {{1}}, weights.bytes() + at * weights.itemsize()), 1);
  };
  set_one(0);
  if (n % 2 == 0) set_one(n / 2);
  Dims shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(dim)] = n / 2 + 1;
  return reshape(weights, shape);
}

struct FftState {
  Dims axes;
  int64_t norm = 0, n = 0;  // n: the points of the last axis in the real array
  bool flag = false;
};

struct FftC2C {
  static constexpr OpSpec spec{
      "_fft_c2c", "input, dim, norm, forward", kInternal | kOut | kReduction,
      "Transforms complex numbers along dims; norm is 0 (factor 1), 1 (1 / sqrt(n)) or 2 (1 / n).",
      "none: tested through cograd.fft"};
  static constexpr const char* kNodeName = "FftC2CBackward0";
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr bool kHolomorphic = false;  // backward conjugates, by the direction
  static constexpr BatchRule kBatch = by_dims();
  using State = FftState;
  static Tensor forward(Ctx<FftC2C>& ctx, const Tensor& x, DimList dims, int64_t norm,
                        bool forward) {
    COGRAD_CHECK_NOT_IMPLEMENTED(is_complex(x.dtype()), "_fft_c2c(): not implemented for dtype ",
                                 dtype_name(x.dtype()), ", expected a complex one");
    const Dims axes = axes_of("_fft_c2c", x, dims);
    const double scale = factor_of("_fft_c2c", norm, x.sizes(), axes);
    if (ctx.recording()) *ctx.operator->() = {axes, norm, 0, forward};
    Tensor out = empty(x.sizes(), x.dtype());
    if (axes.empty())
      raw_copy(out, x);
    else
      kernels::fft_c2c(real_dtype(x.dtype()), arrays_of(x, out), x.bytes(), out.bytes(), axes,
                       forward, scale);
    return out;
  }
  static Tensor backward(Ctx<FftC2C>& ctx, const Tensor& g) {
    return apply<FftC2C>(g, DimList(ctx->axes), ctx->norm, !ctx->flag);
  }
};
COGRAD_OP(FftC2C)

struct FftC2R;
Tensor to_real(const Tensor& x, const Dims& axes, int64_t norm, int64_t n);

struct FftR2C {
  static constexpr OpSpec spec{
      "_fft_r2c",
      "input, dim, norm, onesided",
      kInternal | kOut | kReduction,
      "Transforms real numbers along dims, to all bins or to bins 0 to n/2 of the last dim.",
      "T(3, 4), (1,), 0, True; T(3, 5), (0, 1), 1, True; T(2, 5, 4), (-1, 0), 2, False; "
      "T(3, 5), (1,), 0, False",
      "(np.fft.rfftn if onesided else np.fft.fftn)(input, axes=dim, "
      "norm=['backward', 'ortho', 'forward'][norm])"};
  static constexpr const char* kNodeName = "FftR2CBackward0";
  static constexpr DTypeSet kDTypes = kWideTypes;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr bool kHolomorphic = false;
  static constexpr BatchRule kBatch = by_dims();
  using State = FftState;
  static Tensor forward(Ctx<FftR2C>& ctx, const Tensor& x, DimList dims, int64_t norm,
                        bool onesided) {
    const DType t = x.dtype();
    COGRAD_CHECK_NOT_IMPLEMENTED(t == DType::Float32 || t == DType::Float64,
                                 "_fft_r2c(): not implemented for dtype ", dtype_name(t),
                                 ", expected float32 or float64");
    const Dims axes = axes_of("_fft_r2c", x, dims);
    COGRAD_CHECK(!axes.empty(), "_fft_r2c(): must transform at least one axis");
    const double scale = factor_of("_fft_r2c", norm, x.sizes(), axes);
    const auto last = static_cast<size_t>(axes.back());
    const int64_t n = x.sizes()[last];
    if (ctx.recording()) *ctx.operator->() = {axes, norm, n, onesided};
    Dims sizes(x.sizes());
    if (onesided) sizes[last] = n / 2 + 1;
    Tensor out = empty(sizes, complex_dtype(t));
    kernels::fft_r2c(t, arrays_of(x, out), x.bytes(), out.bytes(), static_cast<int>(last), scale);
    sizes[last] = n / 2 + 1;
    const Tensor half = alias_strided(out, sizes, out.strides(), out.bytes());
    if (const Dims others = all_but_last(axes); !others.empty())
      kernels::fft_c2c(t, arrays_of(half, half), half.bytes(), half.bytes(), others, true, 1);
    if (!onesided) kernels::fft_mirror(t, arrays_of(out, out), out.bytes(), axes);
    return out;
  }
  static Tensor backward(Ctx<FftR2C>& ctx, const Tensor& g) {
    const Dims& axes = ctx->axes;
    if (!ctx->flag) return real(apply<FftC2C>(g, DimList(axes), ctx->norm, false));
    const auto last = static_cast<int>(axes.back());
    // The real result counts the inner bins twice.
    const Tensor weights = bin_weights(real_dtype(g.dtype()), g.dim(), last, ctx->n, 0.5);
    return to_real(g * weights, axes, ctx->norm, ctx->n);
  }
};
COGRAD_OP(FftR2C)

struct FftC2R {
  static constexpr OpSpec spec{
      "_fft_c2r", "input, dim, norm, last_dim_size", kInternal | kOut | kReduction,
      "Transforms bins 0 to n/2 of the last dim back to last_dim_size real numbers.",
      "none: tested through cograd.fft"};
  static constexpr const char* kNodeName = "FftC2RBackward0";
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr bool kHolomorphic = false;
  static constexpr BatchRule kBatch = by_dims();
  using State = FftState;
  static Tensor forward(Ctx<FftC2R>& ctx, const Tensor& x, DimList dims, int64_t norm, int64_t n) {
    COGRAD_CHECK_NOT_IMPLEMENTED(is_complex(x.dtype()), "_fft_c2r(): not implemented for dtype ",
                                 dtype_name(x.dtype()), ", expected a complex one");
    const Dims axes = axes_of("_fft_c2r", x, dims);
    COGRAD_CHECK(!axes.empty(), "_fft_c2r(): must transform at least one axis");
    COGRAD_CHECK(n >= 1, "_fft_c2r(): Invalid number of data points (", n, ") specified");
    const auto last = static_cast<size_t>(axes.back());
    COGRAD_CHECK(x.sizes()[last] == n / 2 + 1, "_fft_c2r(): expected ", n / 2 + 1, " bins in dim ",
                 axes.back(), " for last_dim_size=", n, ", got ", x.sizes()[last]);
    const DType t = real_dtype(x.dtype());
    Dims sizes(x.sizes());
    sizes[last] = n;
    const double scale = factor_of("_fft_c2r", norm, sizes, axes);
    if (ctx.recording()) *ctx.operator->() = {axes, norm, n, false};
    Tensor from = x;
    if (const Dims others = all_but_last(axes); !others.empty()) {
      from = empty(x.sizes(), x.dtype());
      kernels::fft_c2c(t, arrays_of(x, from), x.bytes(), from.bytes(), others, false, 1);
    }
    Tensor out = empty_checked("_fft_c2r", sizes, t);
    kernels::fft_c2r(t, arrays_of(from, out), from.bytes(), out.bytes(), static_cast<int>(last),
                     scale);
    return out;
  }
  static Tensor backward(Ctx<FftC2R>& ctx, const Tensor& g) {
    const auto last = static_cast<int>(ctx->axes.back());
    const Tensor spectrum = apply<FftR2C>(g, DimList(ctx->axes), ctx->norm, true);
    return spectrum * bin_weights(g.dtype(), g.dim(), last, ctx->n, 2);
  }
};
COGRAD_OP(FftC2R)

Tensor to_real(const Tensor& x, const Dims& axes, int64_t norm, int64_t n) {
  return apply<FftC2R>(x, DimList(axes), norm, n);
}

}  // namespace

}  // namespace cograd
