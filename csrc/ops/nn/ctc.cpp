// SPDX-License-Identifier: BSD-3-Clause
// Connectionist temporal classification loss.
#include "kernels/nn/ctc.h"

#include <limits>

#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/nn/loss.h"

namespace cograd {

namespace {

struct CtcState {
  int64_t blank = 0;
};
// The labels of all samples, and the offset of each sample's labels.
struct CtcTargets {
  Tensor labels;
  Tensor offsets;
};

CtcTargets targets_of(const Tensor& targets, const Tensor& lengths) {
  CtcTargets r;
  r.labels = raw_contiguous(targets);
  std::vector<int64_t> offsets;
  int64_t at = 0;
  for (const int64_t n : host_values_or<int64_t>(lengths, 0)) {
    const auto b = static_cast<int64_t>(offsets.size());
    offsets.push_back(targets.dim() == 2 ? b * targets.size(1) : at);
    at += n;
  }
  r.offsets = tensor_of(offsets);
  return r;
}
kernels::Ctc problem(const Tensor& log_probs, const CtcTargets& t, const Tensor& input_lengths,
                     const Tensor& target_lengths, int64_t blank) {
  return {log_probs.size(0),
          log_probs.size(1),
          log_probs.size(2),
          blank,
          t.labels.data<int64_t>(),
          t.offsets.data<int64_t>(),
          input_lengths.data<int64_t>(),
          target_lengths.data<int64_t>()};
}

// The gradient as a separate op: linear in g; it raises if differentiated with respect to
// log_probs.
struct CtcGrad {
  static constexpr OpSpec spec{"_ctc_loss_backward",
                               "grad, log_probs, targets, input_lengths, target_lengths, blank",
                               kInternal | kLoss, "", "none: gradient of ctc_loss"};
  static constexpr DTypeSet kDTypes = kWideTypes;
  static constexpr int kSaved = 4;
  using State = CtcState;
  static Tensor forward(Ctx<CtcGrad>& ctx, const Tensor& g, const Tensor& log_probs,
                        const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths, int64_t blank) {
    ctx->blank = blank;
    ctx.save(log_probs, targets, input_lengths, target_lengths);
    return run(g, log_probs, targets, input_lengths, target_lengths, blank);
  }
  static void backward(Ctx<CtcGrad>& ctx, const Tensor& gg) {
    COGRAD_CHECK_NOT_IMPLEMENTED(
        !ctx.needs(1),
        "ctc_loss: the second derivative with respect to log_probs is not implemented");
    const Tensor x = ctx.saved(0);
    const int64_t batch[1] = {x.size(1)}, dims[2] = {0, 2};
    const Tensor ones = raw_full(batch, x.dtype(), 1);
    const Tensor each = run(ones, x, ctx.saved(1), ctx.saved(2), ctx.saved(3), ctx->blank);
    if (ctx.needs(0)) ctx.grad(0) = sum(gg * each, IntList(dims, 2));
  }

 private:
  static Tensor run(const Tensor& g, const Tensor& log_probs, const Tensor& targets,
                    const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank) {
    const Tensor x = raw_contiguous(log_probs), cg = raw_contiguous(g);
    const CtcTargets t = targets_of(targets, target_lengths);
    Tensor out = empty(x.sizes(), x.dtype());
    kernels::ctc_backward(x.dtype(), problem(x, t, input_lengths, target_lengths, blank), x.bytes(),
                          cg.bytes(), out.bytes());
    return out;
  }
};

struct CtcOp {
  static constexpr OpSpec spec{"_ctc_loss",
                               "log_probs, targets, input_lengths, target_lengths, blank",
                               kInternal | kLoss, "", "none: reached through ctc_loss"};
  static constexpr const char* kNodeName = "CtcLossBackward0";
  static constexpr DTypeSet kDTypes = kWideTypes;
  static constexpr int kSaved = 4;
  using State = CtcState;
  static Tensor forward(Ctx<CtcOp>& ctx, const Tensor& log_probs, const Tensor& targets,
                        const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank) {
    ctx->blank = blank;
    ctx.save(log_probs, targets, input_lengths, target_lengths);
    const Tensor x = raw_contiguous(log_probs);
    const CtcTargets t = targets_of(targets, target_lengths);
    const int64_t batch[1] = {x.size(1)};
    Tensor out = empty(batch, x.dtype());
    kernels::ctc_forward(x.dtype(), problem(x, t, input_lengths, target_lengths, blank), x.bytes(),
                         out.bytes());
    return out;
  }
  static Tensor backward(Ctx<CtcOp>& ctx, const Tensor& g) {
    return apply<CtcGrad>(g, ctx.saved(0), ctx.saved(1), ctx.saved(2), ctx.saved(3), ctx->blank);
  }
};

struct CtcLoss {
  static constexpr OpSpec spec{
      "_ctc_losses",
      "log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False",
      kInternal | kLoss | kAutocastWide,
      "Losses (N) of log-probabilities (T, N, C) against labels, (N, S) or concatenated.",
      "none: the gradient is that of the logits behind the log-probabilities"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr BatchRule kBatch{};
  static Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths, int64_t blank, bool zero_infinity) {
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(log_probs.dtype()),
                                 "\"ctc_loss\" not implemented for '",
                                 scalar_type_name(log_probs.dtype()), "'");
    COGRAD_CHECK(log_probs.dim() == 3, "ctc_loss: log_probs must have the shape (T, N, C), got ",
                 to_string(log_probs.sizes()));
    COGRAD_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
    const bool half = log_probs.dtype() != DType::Float32 && log_probs.dtype() != DType::Float64;
    const Tensor x = half ? cast(log_probs, DType::Float32) : log_probs;
    const Tensor in = plain_lengths("input_lengths", input_lengths, x.size(1));
    const Tensor out = plain_lengths("target_lengths", target_lengths, x.size(1));
    const Tensor labels = raw_contiguous(raw_cast(targets, DType::Int64));
    check(x, labels, in, out, blank);
    Tensor loss = apply<CtcOp>(x, labels, in, out, blank);
    if (zero_infinity) {
      const TensorOrScalar zero(Scalar(0.0));
      loss = where(eq(loss, std::numeric_limits<double>::infinity()), zero, loss);
    }
    return cast(loss, log_probs.dtype());
  }

 private:
  static Tensor plain_lengths(const char* name, const Tensor& t, int64_t batch) {
    COGRAD_CHECK(t.dim() <= 1 && t.numel() == batch, name, " must be of size batch_size");
    COGRAD_CHECK(is_integral(t.dtype()), name, " must be integral");
    const int64_t sizes[1] = {batch};
    return contiguous_clone(reshape(raw_cast(t, DType::Int64), sizes));
  }
  static void check(const Tensor& x, const Tensor& labels, const Tensor& in, const Tensor& out,
                    int64_t blank) {
    const int64_t steps = x.size(0), batch = x.size(1), classes = x.size(2);
    COGRAD_CHECK(blank >= 0 && blank < classes, "blank must be in label range");
    COGRAD_CHECK(labels.dim() == 1 || (labels.dim() == 2 && labels.size(0) == batch),
                 "ctc_loss: targets must be (N, S) or concatenated in one dim, got shape ",
                 to_string(labels.sizes()));
    const auto inputs = host_values_or<int64_t>(in, 1), targets = host_values_or<int64_t>(out, 0);
    int64_t total = 0;
    for (size_t b = 0; b < inputs.size(); ++b) {
      const int64_t i = inputs[b], o = targets[b];
      COGRAD_CHECK(i >= 0 && i <= steps, "Expected input_lengths to have value at most ", steps,
                   ", but got value ", i);
      COGRAD_CHECK(o >= 0, "Expected target_lengths to have value at least 0, but got value ", o);
      if (labels.dim() == 2)
        COGRAD_CHECK(o <= labels.size(1), "Expected tensor to have size at least ", o,
                     " at dimension 1, but got size ", labels.size(1), " for argument 'targets'");
      COGRAD_CHECK(o <= labels.numel() - (labels.dim() == 1 ? total : 0),
                   "Expected tensor to have size ", total, " + ", o,
                   " at dimension 0, but got size ", labels.numel(), " for argument 'targets'");
      total += o;
    }
    if (labels.dim() == 1)
      COGRAD_CHECK(total == labels.numel(), "Expected tensor to have size ", total,
                   " at dimension 0, but got size ", labels.numel(), " for argument 'targets'");
    int64_t bad = 0;
    const int64_t width = labels.dim() == 1 ? 0 : labels.size(1);
    COGRAD_CHECK(kernels::ctc_labels_within(labels.data<int64_t>(), labels.numel(), width,
                                            out.data<int64_t>(), classes, &bad),
                 "ctc_loss: targets has the label ", bad, ", expected 0 to ", classes - 1);
  }
};
COGRAD_OP(CtcLoss)

}  // namespace

}  // namespace cograd
