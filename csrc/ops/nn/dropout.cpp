// SPDX-License-Identifier: BSD-3-Clause
// Dropout and its variants.
#include "ops/nn/dropout.h"

#include <cmath>

#include "kernels/nn/dropout.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/random/fill.h"

namespace cograd {

namespace {

// Computes out[i] = x[i] * mask[i] * scale for dense tensors with the same order of dims and one
// floating dtype.
void raw_masked_scale(const Tensor& out, const Tensor& x, const Tensor& mask, double scale) {
  kernels::masked_scale(x.dtype(), x.bytes(), mask.data<bool>(), scale, x.numel(), out.bytes());
}

// Fills the mask with 1 for elements to keep; p = 1 uses no random numbers, as in torch.
void fill_keep(const Tensor& mask, Generator* g, double p) {
  if (p < 1)
    fill_bernoulli(mask, g, 1 - p);
  else
    raw_fill(mask, Scalar(0));
}

// Returns 1 / (1 - p). With torch's stream it is rounded to a 16-bit dtype, as torch stores it.
double scale_of(const Tensor& x, Generator* g, double p) {
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  if (generator_or_default(g).stream() != Stream::Torch) return scale;
  if (x.dtype() == DType::Float16) return Half(static_cast<float>(scale));
  if (x.dtype() == DType::BFloat16) return BFloat16(static_cast<float>(scale));
  return scale;
}

struct MaskScale {
  double scale;
};

struct MaskedScale {
  static constexpr OpSpec spec{"_masked_scale", "input, mask, scale", kInternal | kElementwise,
                               "input * mask * scale.", "none: reached through dropout"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr int kSaved = 1;
  using State = MaskScale;
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<MaskedScale>& ctx, const Tensor& x, const Tensor& mask, double scale) {
    COGRAD_CHECK(mask.dtype() == DType::Bool && same(mask.sizes(), x.sizes()) &&
                     is_differentiable(x.dtype()),
                 "_masked_scale(): expected a floating input and a bool mask of its shape");
    ctx.save(mask);
    ctx->scale = scale;
    Tensor out = empty(x.sizes(), x.dtype());
    raw_masked_scale(out, raw_contiguous(x), raw_contiguous(mask), scale);
    return out;
  }
  static Tensor backward(Ctx<MaskedScale>& ctx, const Tensor& g) {
    return apply<MaskedScale>(g, ctx.saved(0), ctx->scale);
  }
};
COGRAD_OP(MaskedScale)

struct NativeDropout {
  static constexpr OpSpec spec{"_dropout", "input, p, generator=None", kInternal | kReduction,
                               "dropout in training mode.", "none: random"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static constexpr const char* kNodeName = "NativeDropoutBackward0";
  static constexpr int kSaved = 1;
  using State = MaskScale;
  static Tensor forward(Ctx<NativeDropout>& ctx, const Tensor& x, double p, Generator* g) {
    COGRAD_CHECK(is_differentiable(x.dtype()), "_dropout(): expected a floating input, got dtype ",
                 dtype_name(x.dtype()));
    Tensor out = empty_preserving(x, x.dtype());
    const Tensor mask = empty_preserving(out, DType::Bool);
    fill_keep(mask, g, p);
    const double scale = scale_of(x, g, p);
    ctx->scale = scale;
    const bool as_out = same(x.strides(), out.strides());
    const Tensor in = as_out ? x : empty_preserving(out, x.dtype());
    if (!as_out) raw_copy(in, x);
    raw_masked_scale(out, in, mask, scale);
    ctx.save(mask);
    return out;
  }
  static Tensor backward(Ctx<NativeDropout>& ctx, const Tensor& g) {
    return apply<MaskedScale>(g, ctx.saved(0), ctx->scale);
  }
};
COGRAD_OP(NativeDropout)

void check_rate(ErrorKind kind, double p) {
  if (!(p >= 0 && p <= 1))
    detail::fail(kind, "dropout probability has to be between 0 and 1, but got ", p);
}

bool idle(const Tensor& x, double p, bool train) { return !train || p == 0 || x.numel() == 0; }

}  // namespace

Tensor dropped(const Tensor& x, double p, bool train) {
  if (idle(x, p, train)) return x;
  if (p == 1 && (is_batched(x) || !is_differentiable(x.dtype())))
    return mul(x, zeros({}, x.dtype()));
  COGRAD_CHECK(is_differentiable(x.dtype()),
               "dropout(): expected a floating point input, got dtype ", dtype_name(x.dtype()));
  return apply<NativeDropout>(x, p, static_cast<Generator*>(nullptr));
}

namespace {

// Draws once per sample and channel, which zeros whole features.
Tensor feature_mask(const Tensor& x, double p) {
  COGRAD_CHECK(x.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input");
  Dims sizes(x.sizes());
  for (size_t i = 2; i < sizes.size(); ++i) sizes[i] = 1;
  const Tensor mask = empty(sizes, real_dtype(x.dtype()));
  fill_keep(mask, nullptr, p);
  return mask;
}

// Keeps mean and variance of SELU's output: dropped elements become its negative saturation.
Tensor alpha_dropped(const Tensor& x, double p, const Tensor& keep) {
  constexpr double kAlpha = 1.7580993408473766;
  if (p == 1) return mul(x, zeros_like(keep));
  const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Tensor shift = add(mul(sub(keep, 1.0), kAlpha * a), kAlpha * a * p);
  return add(mul(x, mul(keep, a)), shift);
}

struct Dropout {
  static constexpr OpSpec spec{"dropout",
                               "input, p, train",
                               kFunction | kInplace | kRandom,
                               "input with elements zeroed with probability p and the others "
                               "scaled by 1 / (1 - p); input itself unless train.",
                               "T(3, 4), 0.0, True; T(3, 4), 1.0, True; T(3, 4), 0.5, False",
                               "input * (1 - p * train) / np.maximum(1 - p * train, 1e-30)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, double p, bool train) {
    check_rate(ErrorKind::Runtime, p);
    return dropped(x, p, train);
  }
};
COGRAD_OP(Dropout)

struct FunctionalDropout {
  static constexpr OpSpec spec{"dropout",
                               "input, p=0.5, training=True, inplace=False",
                               kNN | kRandom,
                               "input with elements zeroed with probability p and the others "
                               "scaled by 1 / (1 - p); input itself unless training.",
                               "T(3, 4), 0.5, False",
                               "input"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, double p, bool training, bool inplace) {
    check_rate(ErrorKind::Value, p);
    if (!inplace || idle(x, p, training)) return dropped(x, p, training);
    apply_inplace<Dropout>(x, {}, x, p, training);
    return x;
  }
};
COGRAD_OP(FunctionalDropout)

struct FeatureDropout {
  static constexpr OpSpec spec{"feature_dropout",
                               "input, p, train",
                               kFunction | kInplace | kRandom,
                               "dropout of whole features: all of input[n, c] is kept or zeroed.",
                               "T(3, 4), 0.5, False",
                               "input"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, double p, bool train) {
    check_rate(ErrorKind::Runtime, p);
    if (idle(x, p, train)) return x;
    const Tensor keep = feature_mask(x, p);
    return mul(x, p < 1 ? div(keep, 1 - p) : keep);
  }
};
COGRAD_OP(FeatureDropout)

struct AlphaDropout {
  static constexpr OpSpec spec{"alpha_dropout",
                               "input, p, train",
                               kFunction | kInplace | kRandom,
                               "dropout that keeps the mean and variance of SELU activations.",
                               "T(3, 4), 0.5, False",
                               "input"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, double p, bool train) {
    check_rate(ErrorKind::Runtime, p);
    if (idle(x, p, train)) return x;
    const Tensor keep = empty_preserving(x, real_dtype(x.dtype()));
    fill_keep(keep, nullptr, p);
    return alpha_dropped(x, p, keep);
  }
};
COGRAD_OP(AlphaDropout)

struct FeatureAlphaDropout {
  static constexpr OpSpec spec{"feature_alpha_dropout",        "input, p, train",
                               kFunction | kInplace | kRandom, "alpha_dropout of whole features.",
                               "T(3, 4), 0.5, False",          "input"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, double p, bool train) {
    check_rate(ErrorKind::Runtime, p);
    if (idle(x, p, train)) return x;
    return alpha_dropped(x, p, feature_mask(x, p));
  }
};
COGRAD_OP(FeatureAlphaDropout)

}  // namespace

}  // namespace cograd
