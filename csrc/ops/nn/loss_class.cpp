// SPDX-License-Identifier: BSD-3-Clause
// nll_loss and cross_entropy over classes, given as indices or as probabilities.
#include "kernels/index/index.h"
#include "ops/compute/pointers.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/constants.h"
#include "ops/declare/kinked.h"
#include "ops/nn/loss.h"

namespace cograd {

namespace {

using kernels::NllGeometry;

struct ClassState {
  NllGeometry geometry;
  Dims sizes;  // sizes of the input
  Dims target_sizes;
};

// Raises unless the target has the input's shape without classes; torch has a message per rank.
void check_target_shape(const Tensor& x, const Tensor& t) {
  if (x.dim() == 1)
    COGRAD_CHECK_VALUE(t.dim() == 0 || (t.dim() == 1 && t.size(0) == 1),
                       "For 1D input, 1D target must have size 1, but got target size: ",
                       t.dim() == 1 ? std::to_string(t.size(0)) : to_string(t.sizes()));
  if (x.dim() == 1) return;
  if (x.dim() == 2)
    COGRAD_CHECK(t.dim() == 1, "0D or 1D target tensor expected, multi-target not supported");
  if (x.dim() == 4)
    COGRAD_CHECK(t.dim() == 3,
                 "only batches of spatial targets supported (3D tensors) but got targets of "
                 "dimension: ",
                 t.dim());
  Dims expected(x.sizes());
  expected.erase(1);
  const bool fits = same(expected, t.sizes());
  if (x.dim() == 4)
    COGRAD_CHECK(fits, "size mismatch (got input: ", to_string(x.sizes()),
                 " , target: ", to_string(t.sizes()), ")");
  COGRAD_CHECK(fits, "Expected target size ", to_string(expected), ", got ", to_string(t.sizes()));
}

// Raises unless the input is (C), (N, C) or (N, C, ...) and the target the same without C; for (C)
// the target may be (1).
void check_classes(const Tensor& x, const Tensor& t, const Tensor& weight) {
  COGRAD_CHECK_VALUE(x.dim() >= 1, "Expected 1 or more dimensions (got ", x.dim(), ")");
  const bool batched = x.dim() > 1;
  if (batched) {
    COGRAD_CHECK_VALUE(t.dim() >= 1 && x.size(0) == t.size(0), "Expected input batch_size (",
                       x.size(0), ") to match target batch_size (", t.dim() == 0 ? 0 : t.size(0),
                       ").");
  }
  const int64_t classes = x.size(batched ? 1 : 0);
  check_target_shape(x, t);
  COGRAD_CHECK(t.dtype() == DType::Int64 || t.dtype() == DType::UInt8,
               "expected target dtype to be Long or Byte, but got ", scalar_type_name(t.dtype()));
  if (!weight.defined()) return;
  COGRAD_CHECK(
      weight.dim() == 1 && weight.numel() == classes,
      "weight tensor should be defined either for all ", classes,
      " classes or no classes but got weight tensor of shape: ", to_string(weight.sizes()));
  COGRAD_CHECK(weight.dtype() == x.dtype(), "expected scalar type ", scalar_type_name(x.dtype()),
               " but found ", scalar_type_name(weight.dtype()));
}

NllGeometry geometry_of(const Tensor& x, int64_t ignore_index, double smoothing, Reduction r) {
  NllGeometry g;
  g.batch = x.dim() > 1 ? x.size(0) : 1;
  g.classes = x.size(x.dim() > 1 ? 1 : 0);
  g.spatial = x.dim() > 2 ? product(x.sizes().subspan(2)) : 1;
  g.ignore_index = ignore_index;
  g.label_smoothing = smoothing;
  g.reduction = r;
  return g;
}

// Returns the factor of each log-probability in the unreduced losses, minus the weights of the
// target distribution, in the input's shape. It is a constant.
Tensor class_weights(const ClassState& s, const Tensor& target, const Tensor& weight, DType t) {
  NllGeometry g = s.geometry;
  g.reduction = Reduction::Sum;
  const Tensor one = raw_full({}, t, 1);
  Tensor out = empty(s.sizes, t);
  kernels::nll_loss_backward(t, g, one.bytes(), target.data<int64_t>(), bytes_or_null(weight),
                             one.bytes(), out.bytes());
  return out;
}

// Returns the gradient of every position's loss, shaped to broadcast against the input.
Tensor position_gradient(const ClassState& s, const Tensor& g, const Tensor& total_weight) {
  switch (s.geometry.reduction) {
    case Reduction::Sum:
      return g;
    case Reduction::Mean:
      // If no position counts, the losses have weight 0; this avoids 0 / 0.
      return g / where(eq(total_weight, 0), 1, total_weight);
    case Reduction::None:
      break;
  }
  return s.sizes.size() == 1 ? g : unsqueeze(g, 1);
}

struct ClassInputs {
  Tensor x, target, weight;  // contiguous, int64 target
};
ClassInputs prepared(const Tensor& x, const Tensor& target, const Tensor& weight) {
  return {raw_contiguous(x), raw_contiguous(raw_cast(target, DType::Int64)),
          weight.defined() ? raw_contiguous(weight) : Tensor()};
}

// Allocates one loss per sample and position, or a 0-dim tensor for a single sample.
Tensor loss_output(const NllGeometry& g, const Tensor& x, const Tensor& target) {
  const bool per_sample = g.reduction == Reduction::None && x.dim() > 1;
  return per_sample ? empty(target.sizes(), x.dtype()) : empty({}, x.dtype());
}

// Computes the losses of all samples' elements at once, then each sample's reduction. With weights,
// a mean's divisor differs from sample to sample, so it loops over the samples.
template <class Op, class... Smoothing>
void samples_of_losses(BatchCall& c, Smoothing... smoothing) {
  const Tensor &x = c.arg(0).tensor(), &target = c.arg(1).tensor(), &weight = c.arg(2).tensor();
  if (weight.defined() || x.dim() == 0) return c.loop();
  const bool one = x.dim() == 1;
  const auto rows = [&](const Tensor& t) {
    const Tensor all = c.physical_expanded(t);
    return one ? all : flatten(all, 0, 1);
  };
  const auto reduction = static_cast<Reduction>(c.arg(4).integer());
  const Tensor rows_target =
      one ? reshape(c.physical_expanded(target), Dims{c.size()}) : rows(target);
  Tensor loss = apply<Op>(rows(x), rows_target, weight, c.arg(3).integer(),
                          static_cast<int64_t>(Reduction::None), smoothing...);
  const Dims flat{c.size(), c.size() > 0 ? loss.numel() / c.size() : 0};
  if (reduction == Reduction::None)
    return c.set_result(reshape(loss, detail::with_samples(c.size(), target.sizes())));
  const int64_t last = 1;
  loss = sum(reshape(loss, flat), IntList(&last, 1));
  if (reduction == Reduction::Mean) {
    const Tensor counts = cast(ne(rows_target, Scalar(c.arg(3).integer())), loss.dtype());
    loss = loss / sum(reshape(counts, flat), IntList(&last, 1));
  }
  c.set_result(loss);
}

struct NllOp {
  static constexpr OpSpec spec{"nll_loss", "input, target, weight, ignore_index, reduction",
                               kInternal | kLoss, "", "none: nll_loss"};
  static constexpr int kSaved = 3;
  using State = ClassState;
  static Tensor forward(Ctx<NllOp>& ctx, const Tensor& x, const Tensor& target,
                        const Tensor& weight, int64_t ignore_index, int64_t reduction) {
    const ClassInputs in = prepared(x, target, weight);
    const NllGeometry g = geometry_of(x, ignore_index, 0, static_cast<Reduction>(reduction));
    Tensor out = loss_output(g, x, target);
    const Tensor total = empty({}, x.dtype());
    kernels::nll_loss_forward(x.dtype(), g, in.x.bytes(), in.target.data<int64_t>(),
                              bytes_or_null(in.weight), out.bytes(), total.bytes());
    if (ctx.recording()) {
      *ctx.operator->() = {g, Dims(x.sizes()), Dims(target.sizes())};
      ctx.save(in.target, in.weight, total);
    }
    return out;
  }
  static void batch(BatchCall& c) { samples_of_losses<NllOp>(c); }
  static void backward(Ctx<NllOp>& ctx, const Tensor& g) {
    if (!ctx.needs(0)) return;
    const ClassState& s = *ctx.operator->();
    const Tensor target = ctx.saved(0), weight = ctx.saved(1), total = ctx.saved(2);
    if (ctx.differentiated()) {
      ctx.grad(0) =
          kinked(ctx, class_weights(s, target, weight, g.dtype()) * position_gradient(s, g, total));
      return;
    }
    const Tensor cg = raw_contiguous(g);
    Tensor gx = empty(s.sizes, g.dtype());
    kernels::nll_loss_backward(g.dtype(), s.geometry, cg.bytes(), target.data<int64_t>(),
                               bytes_or_null(weight), total.bytes(), gx.bytes());
    ctx.grad(0) = gx;
  }
};

struct CrossEntropyOp {
  static constexpr OpSpec spec{"cross_entropy",
                               "input, target, weight, ignore_index, reduction, label_smoothing",
                               kInternal | kLoss, "", "none: cross_entropy"};
  static constexpr int kSaved = 5;
  using State = ClassState;
  static Tensor forward(Ctx<CrossEntropyOp>& ctx, const Tensor& x, const Tensor& target,
                        const Tensor& weight, int64_t ignore_index, int64_t reduction,
                        double smoothing) {
    const ClassInputs in = prepared(x, target, weight);
    const NllGeometry g =
        geometry_of(x, ignore_index, smoothing, static_cast<Reduction>(reduction));
    Tensor out = loss_output(g, x, target);
    const Tensor total = empty({}, x.dtype());
    const Tensor logp = empty(x.sizes(), x.dtype());
    kernels::cross_entropy_forward(x.dtype(), g, in.x.bytes(), in.target.data<int64_t>(),
                                   bytes_or_null(in.weight), logp.bytes(), out.bytes(),
                                   total.bytes());
    if (ctx.recording()) {
      *ctx.operator->() = {g, Dims(x.sizes()), Dims(target.sizes())};
      ctx.save(in.target, in.weight, total, logp, x);
    }
    return out;
  }
  static void batch(BatchCall& c) { samples_of_losses<CrossEntropyOp>(c, c.arg(5).number()); }
  static void backward(Ctx<CrossEntropyOp>& ctx, const Tensor& g) {
    if (!ctx.needs(0)) return;
    const ClassState& s = *ctx.operator->();
    const Tensor target = ctx.saved(0), weight = ctx.saved(1), total = ctx.saved(2);
    if (ctx.differentiated()) {
      // d loss / dx = softmax(x) sum(q) - q, where q is the weights of the target distribution.
      // In float32 for 16-bit dtypes, as the kernel.
      const DType t = wide_dtype(g.dtype());
      const int dim = s.sizes.size() == 1 ? 0 : 1;
      const Tensor w = weight.defined() ? raw_cast(weight, t) : weight;
      const Tensor minus_q = class_weights(s, target, w, t);
      const Tensor all = sum_mask(minus_q, DimMask{1} << dim, true);
      const Tensor gx = (minus_q - softmax(cast(ctx.saved(4), t), dim) * all) *
                        position_gradient(s, cast(g, t), cast(total, t));
      ctx.grad(0) = cast(gx, g.dtype());
      return;
    }
    const Tensor cg = raw_contiguous(g);
    const Tensor logp = ctx.saved(3);
    Tensor gx = empty(s.sizes, g.dtype());
    kernels::cross_entropy_backward(g.dtype(), s.geometry, cg.bytes(), logp.bytes(),
                                    target.data<int64_t>(), bytes_or_null(weight), total.bytes(),
                                    gx.bytes());
    ctx.grad(0) = gx;
  }
};

struct NllLoss {
  static constexpr OpSpec spec{
      "nll_loss",
      "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, "
      "reduction='mean'",
      kFunction | kNN | kLoss | kAutocastWide,
      "-input[n, target[n]] of log-probabilities (N, C, ...), weighted by class and reduced.",
      "T(5, 3), I(5, hi=3); T(5, 3), I(5, hi=3), P(3), reduction='sum'; "
      "T(2, 3, 4), I(2, 4, hi=3), reduction='none'; T(5, 3), I(5, hi=3), P(3), ignore_index=1",
      ""};
  static constexpr uint32_t kConstants = parameter_bits({2});
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, const Tensor& target, const Tensor& weight,
                        std::optional<bool> size_average, int64_t ignore_index,
                        std::optional<bool> reduce, std::string_view reduction) {
    const Reduction r = reduction_of(reduction, size_average, reduce);
    check_classes(x, target, weight);
    check_constant("nll_loss_forward", weight, "weight");
    COGRAD_CHECK_NOT_IMPLEMENTED(x.is_floating(), "nll_loss(): not implemented for dtype ",
                                 scalar_type_name(x.dtype()), ", expected a floating one");
    return apply<NllOp>(x, target, weight, ignore_index, static_cast<int64_t>(r));
  }
};
COGRAD_OP(NllLoss)

Tensor class_probability_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                              Reduction r, double smoothing) {
  const int dim = x.dim() > 1 ? 1 : 0;
  const int64_t classes = x.size(dim);
  COGRAD_CHECK(!weight.defined() || (weight.dim() == 1 && weight.numel() == classes),
               "cross_entropy: weight tensor should be defined either for all ", classes,
               " classes or no classes but got weight tensor of shape: ",
               weight.defined() ? to_string(weight.sizes()) : "");
  Tensor q = target;
  if (smoothing > 0) q = q * (1 - smoothing) + smoothing / static_cast<double>(classes);
  if (weight.defined()) {
    Dims shape(static_cast<size_t>(x.dim()), 1);
    shape[static_cast<size_t>(dim)] = classes;
    q = q * reshape(weight, shape);
  }
  const int64_t over[1] = {dim};
  const Tensor loss = -sum(log_softmax(x, dim) * q, IntList(over));
  if (r == Reduction::Mean) return sum(loss) / static_cast<double>(loss.numel());
  return reduced_loss(loss, r);
}

struct CrossEntropy {
  static constexpr OpSpec spec{
      "cross_entropy",
      "input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, "
      "reduction='mean', label_smoothing=0.0",
      kFunction | kNN | kLoss | kAutocastWide,
      "nll_loss of log_softmax over the classes of (N, C, ...); targets are class indices "
      "(N, ...) or probabilities of the input's shape.",
      "T(5, 3), I(5, hi=3); T(5, 3), I(5, hi=3), P(3), label_smoothing=0.1; "
      "T(2, 3, 4), I(2, 4, hi=3), reduction='none'; T(5, 3), I(5, hi=3), ignore_index=1; "
      "T(3), I(hi=3); T(5, 3), P(5, 3); T(5, 3), P(5, 3), P(3), label_smoothing=0.1, "
      "reduction='sum'",
      ""};
  static constexpr uint32_t kConstants = parameter_bits({2});
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, const Tensor& target, const Tensor& weight,
                        std::optional<bool> size_average, int64_t ignore_index,
                        std::optional<bool> reduce, std::string_view reduction, double smoothing) {
    const Reduction r = reduction_of(reduction, size_average, reduce);
    COGRAD_CHECK(smoothing >= 0 && smoothing <= 1,
                 "label_smoothing must be between 0.0 and 1.0. Got: ", smoothing);
    const bool probabilities = same(x.sizes(), target.sizes());
    if (probabilities) {
      COGRAD_CHECK(ignore_index < 0, "ignore_index is not supported for floating point target");
      COGRAD_CHECK(is_floating(target.dtype()),
                   "Expected floating point type for target with class probabilities, got ",
                   scalar_type_name(target.dtype()));
      COGRAD_CHECK_VALUE(x.dim() > 0, "Expected 1 or more dimensions (got 0)");
    } else {
      check_classes(x, target, weight);
      check_constant("nll_loss_forward", weight, "weight");
    }
    COGRAD_CHECK_NOT_IMPLEMENTED(x.is_floating(), "cross_entropy(): not implemented for dtype ",
                                 scalar_type_name(x.dtype()), ", expected a floating one");
    if (probabilities) return class_probability_loss(x, target, weight, r, smoothing);
    return apply<CrossEntropyOp>(x, target, weight, ignore_index, static_cast<int64_t>(r),
                                 smoothing);
  }
};
COGRAD_OP(CrossEntropy)

}  // namespace

}  // namespace cograd
