// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/nn/loss.h.
#include "kernels/nn/loss.h"

#include "cograd/error.h"
#include "cuda/args/loss_args.h"
#include "cuda/driver/capture.h"
#include "cuda/driver/late.h"
#include "cuda/slots/reduce_plan.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/nn/softmax.h"

namespace cograd::cuda {

using kernels::NllGeometry;
using kernels::Reduction;

void log_softmax(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner);

namespace {

using device::kLossThreads;
using device::LossArgs;

// A capture does not wait for the check: the kernel makes it in each replay.
void check_targets(const char* slot, const NllGeometry& g, const int64_t* target) {
  if (capture_of(here().stream()) != 0) return;
  const int64_t i =
      find_first(slot, Leaf::FirstBadTarget, DType::Int64, target, g.batch * g.spatial,
                 static_cast<double>(g.ignore_index), static_cast<double>(g.classes));
  if (i < 0) return;
  COGRAD_CHECK_INDEX(false, "Target ", read_back<int64_t>(target + i), " is out of bounds for ",
                     g.classes, " classes");
}

// The sum of a weight in double on the device, which smoothing needs.
class WeightSum {
 public:
  WeightSum(DType t, const NllGeometry& g, const void* weight)
      : used_(g.label_smoothing != 0 && weight != nullptr), sum_(sizeof(double)) {
    if (!used_) return;
    const int64_t n[1] = {g.classes}, step[1] = {dtype_size(t)};
    ReduceArgs a{};
    a.y = sum_.data();
    a.out = static_cast<int>(DType::Float64);
    run_reduction("nll_loss", Leaf::Sum, t, weight, {{}, {}, n, step}, false, a);
  }
  const double* get() const { return used_ ? static_cast<const double*>(sum_.data()) : nullptr; }

 private:
  bool used_;
  Scratch sum_;
};

LossArgs args_of(const NllGeometry& g, const int64_t* target, const void* weight) {
  LossArgs a{};
  a.weight = weight;
  a.target = reinterpret_cast<const long long*>(target);
  a.batch = g.batch;
  a.classes = g.classes;
  a.spatial = g.spatial;
  a.ignore_index = g.ignore_index;
  a.hit = 1 - g.label_smoothing;
  a.spread = g.label_smoothing / static_cast<double>(g.classes);
  a.reduction = g.reduction == Reduction::None ? 0 : g.reduction == Reduction::Mean ? 1 : 2;
  return a;
}

void forward(const char* slot, DType t, const NllGeometry& g, const void* logp,
             const int64_t* target, const void* weight, void* out, void* total_weight) {
  LossArgs a = args_of(g, target, weight);
  a.logp = logp;
  a.out = out;
  a.op = slot;
  if (capture_of(here().stream()) != 0) a.late = late_error();
  a.total_weight = total_weight;
  a.lanes = a.spread != 0 && g.spatial == 1 ? 32 : 1;
  a.blocks = std::clamp<int64_t>(ceil_div(g.batch * g.spatial, kLossThreads / a.lanes), 1, 1024);
  const Scratch partial(2 * a.blocks * static_cast<int64_t>(sizeof(double)));
  a.partial = static_cast<double*>(partial.data());
  launch(slot, function_of("loss.h", "nll_forward", t), grid_of(a.blocks, kLossThreads), a);
  launch(slot, function_of("loss.h", "nll_total", t), grid_of(1, kLossThreads), a);
}

void backward(const char* slot, DType t, const NllGeometry& g, const void* gout, const void* logp,
              const int64_t* target, const void* weight, const void* total_weight, bool softmax,
              void* out) {
  if (g.batch * g.spatial * g.classes == 0) return;
  const WeightSum sum(t, g, weight);
  LossArgs a = args_of(g, target, weight);
  a.logp = logp;
  a.gout = gout;
  a.total_weight = const_cast<void*>(total_weight);
  a.out = out;
  a.weight_sum = sum.get();
  a.softmax = softmax ? 1 : 0;
  if (g.spatial == 1) {
    const auto threads = std::clamp<int64_t>(round_up_to_power(g.classes), 32, kLossThreads);
    return launch(slot, function_of("loss.h", "loss_gradient_rows", t),
                  grid_of(g.batch, static_cast<int>(threads)), a);
  }
  launch(slot, function_of("loss.h", "loss_gradient_columns", t),
         grid_of(ceil_div(g.batch * g.spatial, kLossThreads), kLossThreads), a);
}

}  // namespace

void nll_loss_forward(DType t, const NllGeometry& g, const void* logp, const int64_t* target,
                      const void* weight, void* out, void* total_weight) {
  check_targets("nll_loss_forward", g, target);
  forward("nll_loss", t, g, logp, target, weight, out, total_weight);
}
// The forward has checked the targets; a second check would wait for the device once more.
void nll_loss_backward(DType t, const NllGeometry& g, const void* gout, const int64_t* target,
                       const void* weight, const void* total_weight, void* glogp) {
  backward("nll_loss_backward", t, g, gout, nullptr, target, weight, total_weight, false, glogp);
}
void cross_entropy_forward(DType t, const NllGeometry& g, const void* logits, const int64_t* target,
                           const void* weight, void* logp, void* out, void* total_weight) {
  check_targets("cross_entropy_forward", g, target);
  cuda::log_softmax(t, logits, logp, g.batch, g.classes, g.spatial);
  forward("cross_entropy", t, g, logp, target, weight, out, total_weight);
}
void cross_entropy_backward(DType t, const NllGeometry& g, const void* gout, const void* logp,
                            const int64_t* target, const void* weight, const void* total_weight,
                            void* glogits) {
  backward("cross_entropy_backward", t, g, gout, logp, target, weight, total_weight, true, glogits);
}

COGRAD_CUDA_SLOT(nll_loss_forward)
COGRAD_CUDA_SLOT(nll_loss_backward)
COGRAD_CUDA_SLOT(cross_entropy_forward)
COGRAD_CUDA_SLOT(cross_entropy_backward)

}  // namespace cograd::cuda
