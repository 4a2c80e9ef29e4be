// SPDX-License-Identifier: BSD-3-Clause
// Pointwise losses: squared and absolute error, binary cross entropy.
#include "ops/nn/loss.h"
#include "ops/compute/host_values.h"

#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/kinked.h"

namespace cograd {

using kernels::ReduceOp;

Reduction reduction_of(std::string_view name, std::optional<bool> size_average,
                       std::optional<bool> reduce) {
  if (size_average || reduce) {
    if (!reduce.value_or(true)) return Reduction::None;
    return size_average.value_or(true) ? Reduction::Mean : Reduction::Sum;
  }
  if (name == "mean") return Reduction::Mean;
  if (name == "sum") return Reduction::Sum;
  COGRAD_CHECK_VALUE(name == "none", name, " is not a valid value for reduction");
  return Reduction::None;
}

Tensor reduced_loss(const Tensor& loss, Reduction r) {
  if (r == Reduction::None) return loss;
  return r == Reduction::Mean ? mean(loss) : sum(loss);
}

namespace {

struct LossState {
  Reduction reduction = Reduction::Mean;
  double count = 1;
};

// Returns the gradient of the reduced loss with respect to one element's loss.
Tensor element_gradient(const Tensor& g, const LossState& s) {
  return s.reduction == Reduction::Mean ? g / s.count : g;
}

Tensor fold(ReduceOp op, const Tensor& d, Reduction r) {
  const ReducePlan plan(d, all_dims(d.dim()), false);
  Tensor out = empty({}, d.dtype());
  kernels::reduce(op, d.dtype(), d.bytes(), plan.geometry(), d.dtype(), out.bytes());
  return r == Reduction::Mean ? out / static_cast<double>(d.numel()) : out;
}

// Returns the errors input - target, on which the loss depends.
template <class Op>
Tensor difference(Ctx<Op>& ctx, const Tensor& x, const Tensor& t, int64_t reduction) {
  ctx.save(x, t);
  const Tensor d = x - t;
  *ctx.operator->() = {static_cast<Reduction>(reduction), static_cast<double>(d.numel())};
  return d;
}

struct MseOp {
  static constexpr OpSpec spec{"mse_loss", "input, target, reduction", kInternal | kLoss, "",
                               "none: mse_loss"};
  static constexpr int kSaved = 2;
  using State = LossState;
  static Tensor forward(Ctx<MseOp>& ctx, const Tensor& x, const Tensor& t, int64_t reduction) {
    GradGuard no_grad(false);
    const Tensor d = difference(ctx, x, t, reduction);
    if (ctx->reduction == Reduction::None) return square(d);
    return fold(ReduceOp::SumSquares, d, ctx->reduction);
  }
  static void batch(BatchCall& c) {
    const Tensor squares = square(c.arg(0).tensor() - c.arg(1).tensor());
    const auto reduction = static_cast<Reduction>(c.arg(2).integer());
    box(c.out(), reduction == Reduction::None  ? squares
                 : reduction == Reduction::Sum ? sum(squares)
                                               : mean(squares));
  }
  static void backward(Ctx<MseOp>& ctx, const Tensor& g) {
    const LossState& s = *ctx.operator->();
    const double scale = s.reduction == Reduction::Mean ? 2.0 / s.count : 2.0;
    const Tensor gd = (ctx.saved(0) - ctx.saved(1)) * (g * scale);
    if (ctx.needs(0)) ctx.grad(0) = gd;
    if (ctx.needs(1)) ctx.grad(1) = -gd;
  }
};

// Saves the sign of the error, so that input and target may be written afterwards.
struct L1Op {
  static constexpr OpSpec spec{"l1_loss", "input, target, reduction", kInternal | kLoss, "",
                               "none: l1_loss"};
  static constexpr int kSaved = 1;
  using State = LossState;
  static Tensor forward(Ctx<L1Op>& ctx, const Tensor& x, const Tensor& t, int64_t reduction) {
    GradGuard no_grad(false);
    const Tensor d = x - t;
    *ctx.operator->() = {static_cast<Reduction>(reduction), static_cast<double>(d.numel())};
    if (ctx.recording()) ctx.save(sign(d));
    if (ctx->reduction == Reduction::None) return abs(d);
    return fold(ReduceOp::Norm1, d, ctx->reduction);
  }
  static void backward(Ctx<L1Op>& ctx, const Tensor& g) {
    const Tensor by_error = ctx.saved(0) * element_gradient(g, *ctx.operator->());
    const Tensor gd = kinked(ctx, kinked(ctx, by_error, 0), 1);
    if (ctx.needs(0)) ctx.grad(0) = gd;
    if (ctx.needs(1)) ctx.grad(1) = -gd;
  }
};

DType loss_dtype(const char* name, const Tensor& x, const Tensor& t) {
  const DType type = result_type(x, t);
  COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(type), name, "(): not implemented for dtype ",
                               scalar_type_name(type), ", expected a floating one");
  return type;
}

// Multiplies element losses by weights; 'mean' then divides by the sum of the weights.
Tensor weighted_loss(const Tensor& loss, const Tensor& weight, Reduction r) {
  const Tensor terms = loss * weight;
  if (r != Reduction::Mean) return reduced_loss(terms, r);
  return sum(terms) / sum(expand(weight, terms.sizes()));
}

template <class Op>
constexpr DTypeSet kDTypesOf = std::is_same_v<Op, L1Op> ? kFloatTypes | kComplexTypes : kFloatTypes;

// Returns the reduced |x - t| of complex numbers.
Tensor complex_loss(const Tensor& x, const Tensor& t, const Tensor& weight, Reduction r) {
  const Tensor size = abs(x - t);
  return weight.defined() ? weighted_loss(size, weight, r) : reduced_loss(size, r);
}

#define COGRAD_ERROR_LOSS(Struct, Op, name, doc, ref)                                           \
  struct Struct {                                                                               \
    static constexpr OpSpec spec{                                                               \
        name,                                                                                   \
        "input, target, size_average=None, reduce=None, reduction='mean', weight=None",         \
        kFunction | kNN | kLoss | kAutocastWide,                                                \
        doc,                                                                                    \
        "T(3, 4), T(3, 4); T(3, 4), T(3, 4), reduction='sum'; "                                 \
        "T(3, 4), T(3, 4), reduction='none'; T(3, 4), T(3, 4), weight=P(3, 4)",                 \
        ref};                                                                                   \
    static constexpr DTypeSet kDTypes = kDTypesOf<Op>;                                          \
    static Tensor forward(const Tensor& x, const Tensor& t, std::optional<bool> size_average,   \
                          std::optional<bool> reduce, std::string_view reduction,               \
                          const Tensor& weight) {                                               \
      const Reduction r = reduction_of(reduction, size_average, reduce);                        \
      if (is_complex(result_type(x, t))) return complex_loss(x, t, weight, r);                  \
      const DType type = loss_dtype(name, x, t);                                                \
      const Reduction inner = weight.defined() ? Reduction::None : r;                           \
      const Tensor loss = apply<Op>(cast(x, type), cast(t, type), static_cast<int64_t>(inner)); \
      return weight.defined() ? weighted_loss(loss, weight, r) : loss;                          \
    }                                                                                           \
  };                                                                                            \
  COGRAD_OP(Struct)
#define COGRAD_REDUCED(expression)                                                           \
  "(lambda l: l if reduction == 'none' else l.sum() if reduction == 'sum' else l.mean() if " \
  "weight is None else l.sum() / weight.sum())((" expression                                 \
  ") * (1 if weight is None else weight))"
COGRAD_ERROR_LOSS(MseLoss, MseOp, "mse_loss", "Squared error, averaged, summed or per element.",
                  COGRAD_REDUCED("(input - target)**2"))
COGRAD_ERROR_LOSS(L1Loss, L1Op, "l1_loss", "Absolute error, averaged, summed or per element.",
                  COGRAD_REDUCED("np.abs(input - target)"))
#undef COGRAD_ERROR_LOSS

void check_probabilities(const char* name, const Tensor& handle) {
  const Tensor& x = physical_tensor(handle);
  if (x.numel() == 0) return;
  const Tensor low = fold(ReduceOp::Min, x, Reduction::Sum);
  const Tensor high = fold(ReduceOp::Max, x, Reduction::Sum);
  const double lo = host_values_or<double>(raw_cast(low, DType::Float64), 0)[0];
  const double hi = host_values_or<double>(raw_cast(high, DType::Float64), 1)[0];
  COGRAD_CHECK(lo >= 0 && hi <= 1, "binary_cross_entropy(): all elements of ", name,
               " should be between 0 and 1, got values from ", lo, " to ", hi);
}

struct BceOp {
  static constexpr OpSpec spec{"binary_cross_entropy", "input, target", kInternal | kLoss, "",
                               "none: binary_cross_entropy"};
  static constexpr int kSaved = 2;
  // Logarithms are limited to -100, so that 0 and 1 yield a large loss instead of infinity.
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<BceOp>& ctx, const Tensor& x, const Tensor& t) {
    GradGuard no_grad(false);
    ctx.save(x, t);
    const Tensor yes = clamp_min(log(x), -100), no = clamp_min(log1p(-x), -100);
    return (t - 1.0) * no - t * yes;
  }
  static void backward(Ctx<BceOp>& ctx, const Tensor& g) {
    const Tensor x = ctx.saved(0), t = ctx.saved(1);
    if (ctx.needs(0)) ctx.grad(0) = g * (x - t) / clamp_min((1.0 - x) * x, 1e-12);
    if (ctx.needs(1)) ctx.grad(1) = g * (clamp_min(log1p(-x), -100) - clamp_min(log(x), -100));
  }
};

// Formats sizes as "torch.Size([2, 3])".
std::string size_name(const Tensor& x) {
  return detail::concat("torch.Size(", to_string(x.sizes()), ")");
}

#define COGRAD_LOGISTIC(p) "-(target * np.log(" p ") + (1 - target) * np.log(1 - (" p ")))"

struct BinaryCrossEntropy {
  static constexpr OpSpec spec{
      "binary_cross_entropy",
      "input, target, weight=None, size_average=None, reduce=None, reduction='mean'",
      kFunction | kNN | kLoss | kAutocastWide,
      "-(target log(input) + (1 - target) log(1 - input)) of probabilities, reduced.",
      "T(3, 4, lo=0.1, hi=0.9), T(3, 4, lo=0.1, hi=0.9); T(5, lo=0.1, hi=0.9), "
      "T(5, lo=0.1, hi=0.9), P(5), reduction='sum'",
      "(lambda l: l if reduction == 'none' else l.sum() if reduction == 'sum' else l.mean())("
      "(" COGRAD_LOGISTIC("input") ") * (1 if weight is None else weight))"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, const Tensor& t, const Tensor& weight,
                        std::optional<bool> size_average, std::optional<bool> reduce,
                        std::string_view reduction) {
    const Reduction r = reduction_of(reduction, size_average, reduce);
    COGRAD_CHECK_VALUE(same(x.sizes(), t.sizes()), "Using a target size (", size_name(t),
                       ") that is different to the input size (", size_name(x),
                       ") is deprecated. Please ensure they have the same size.");
    COGRAD_CHECK(x.dtype() == t.dtype(), "Found dtype ", scalar_type_name(t.dtype()),
                 " for target but expected the input's ", scalar_type_name(x.dtype()));
    loss_dtype("binary_cross_entropy", x, t);
    check_probabilities("input", x);
    check_probabilities("target", t);
    const Tensor loss = apply<BceOp>(x, t);
    if (!weight.defined()) return reduced_loss(loss, r);
    Dims shape;
    COGRAD_CHECK(broadcast_shapes(weight.sizes(), x.sizes(), shape) && same(shape, x.sizes()),
                 "binary_cross_entropy: weight of shape ", to_string(weight.sizes()),
                 " does not broadcast to the input's shape ", to_string(x.sizes()));
    return reduced_loss(loss * weight, r);
  }
};
COGRAD_OP(BinaryCrossEntropy)

// Computes (1 - t) x - log(sigmoid(x)), which neither overflows nor cancels.
struct BceLogitsOp {
  static constexpr OpSpec spec{"binary_cross_entropy_with_logits", "input, target",
                               kInternal | kLoss, "", "none: binary_cross_entropy_with_logits"};
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<BceLogitsOp>& ctx, const Tensor& x, const Tensor& t) {
    GradGuard no_grad(false);
    ctx.save(x, t);
    return (1.0 - t) * x - logsigmoid(x);
  }
  static void backward(Ctx<BceLogitsOp>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = (sigmoid(ctx.saved(0)) - ctx.saved(1)) * g;
    if (ctx.needs(1)) ctx.grad(1) = -(ctx.saved(0) * g);
  }
};

struct BceWithLogits {
  static constexpr OpSpec spec{
      "binary_cross_entropy_with_logits",
      "input, target, weight=None, size_average=None, reduce=None, reduction='mean', "
      "pos_weight=None",
      kFunction | kNN | kLoss | kAutocastWide,
      "binary_cross_entropy of sigmoid(input); pos_weight multiplies positive targets' terms.",
      "T(3, 4), T(3, 4, lo=0, hi=1); T(5), T(5, lo=0, hi=1), P(5), reduction='sum'; "
      "T(3, 4), T(3, 4, lo=0, hi=1), pos_weight=P(4)",
      "(lambda l: l if reduction == 'none' else l.sum() if reduction == 'sum' else l.mean())("
      "(target * np.log1p(np.exp(-input)) * (1 if pos_weight is None else pos_weight) + "
      "(1 - target) * np.log1p(np.exp(input))) * (1 if weight is None else weight))"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, const Tensor& t, const Tensor& weight,
                        std::optional<bool> size_average, std::optional<bool> reduce,
                        std::string_view reduction, const Tensor& pos_weight) {
    const Reduction r = reduction_of(reduction, size_average, reduce);
    COGRAD_CHECK_VALUE(same(x.sizes(), t.sizes()), "Target size (", size_name(t),
                       ") must be the same as input size (", size_name(x), ")");
    const DType type = loss_dtype("binary_cross_entropy_with_logits", x, t);
    const Tensor input = cast(x, type), target = cast(t, type);
    Tensor loss;
    if (pos_weight.defined()) {
      const Tensor factor = (pos_weight - 1.0) * target + 1.0;
      loss = (1.0 - target) * input - factor * logsigmoid(input);
    } else {
      loss = apply<BceLogitsOp>(input, target);
    }
    if (weight.defined()) loss = loss * weight;
    // torch writes its first product into 1 - target, so the result has a floating target's dtype.
    return reduced_loss(cast(loss, is_floating(t.dtype()) ? t.dtype() : type), r);
  }
};
COGRAD_OP(BceWithLogits)

}  // namespace

}  // namespace cograd
