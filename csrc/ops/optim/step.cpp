// SPDX-License-Identifier: BSD-3-Clause
// Checks the tensors of an optimizer's step and runs its loop over each parameter.
#include "ops/optim/step.h"

#include <functional>
#include <vector>

#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"
#include "ops/compute/overlap.h"
#include "transforms/levels.h"

namespace cograd {
namespace {

using namespace kernels::optim_scalar;

// The functions below find the elements for kernels.
char* memory_of(const Tensor& t) { return t.bytes(); }
bool is_plain(const Tensor& t) { return !transformed(t) && (t->flags & kTaint) == 0; }

}  // namespace

inline bool StepCall::applies(size_t i) const {
  const Tensor& param = operands_[0][i];
  if (!param.defined()) return false;
  const DType t = param.dtype();
  if (!is_floating(t) && !is_complex(t)) return false;
  if (!is_plain(param)) return false;
  for (int k = 1; k < num_operands_; ++k) {
    const Tensor& x = operands_[k][i];
    if (!x.defined() || x.dtype() != t || !same(x.sizes(), param.sizes()) || !is_plain(x))
      return false;
  }
  for (int k = 0; k < num_counters_; ++k) {
    const Tensor& x = counters_[k][i];
    if (!x.defined() || x.numel() != 1 || !is_plain(x) ||
        (x.dtype() != DType::Float32 && x.dtype() != DType::Float64))
      return false;
  }
  return true;
}

// Raises if a write is not allowed; false if two tensors of an item are identical.
inline bool StepCall::check_memory(size_t i) const {
  bool apart = true;
  for (int k = 0; k < num_operands_; ++k) {
    const Tensor& x = operands_[k][i];
    if (k != 1) {
      check_inplace(x, subject_, false);
      check_distinct(subject_, x);
    }
    for (int m = 0; m < k; ++m) {
      const Tensor& y = operands_[m][i];
      if (x->storage != y->storage) continue;
      if (overlaps_partially(x, y)) fail_overlap(subject_);
      // The parameter may be its own gradient: every element is read before it is written.
      apart &= k == 1 || !same_elements(x, y) || x.numel() == 0;
    }
  }
  for (int k = 0; k < num_counters_; ++k) check_inplace(counters_[k][i], subject_, false);
  return apart;
}

// Sets the counters of this step and the scalars that all rules share.
[[gnu::always_inline]] inline void StepCall::begin(size_t i, StepPlan& p) const {
  for (int k = 0; k < num_counters_; ++k) {
    const Tensor& t = counters_[k][i];
    p.single[k] = t.dtype() == DType::Float32;
    if (anywhere_ && t->device != kHost) [[unlikely]] {
      p.count.counter = memory_of(t);
      p.count.single = p.single[k];
      continue;
    }
    p.counters[k] = p.single[k] ? static_cast<double>(host_value<float>(t)) : host_value<double>(t);
  }
  if (num_counters_ > 0) p.counters[0] = p.rounded(0, p.counters[0] + 1);
  p.s[kSign] = maximize_ ? -1 : 1;
  p.s[kDecay] = weight_decay_;
  p.set(kernels::kOptimDecay, weight_decay_ != 0);
  p.shrink(1);
}

inline int StepCall::dims_of(size_t i) const {
  const Tensor& param = operands_[0][i];
  return param.dim() + (is_complex(param.dtype()) ? 1 : 0);
}

[[gnu::always_inline]] inline kernels::LoopFn StepCall::loop_of(size_t i, const StepPlan& p,
                                                                int64_t* strides,
                                                                kernels::Operand* ops) const {
  const int n = num_operands_;
  COGRAD_CHECK(rule_.variants[p.flags].operands == n, subject_, "(): expected ",
               rule_.variants[p.flags].operands - 2, " lists of state, got ", n - 2);
  const Tensor& param = operands_[0][i];
  const DType t = param.dtype();
  const bool parts = is_complex(t);
  const DType real = parts ? real_dtype(t) : t;
  const int ndim = param.dim() + (parts ? 1 : 0);
  const int64_t size = dtype_size(real);
  for (int k = 0; k < n; ++k) {
    const Tensor& x = operands_[k][i];
    int64_t* own = strides + k * ndim;
    for (int d = 0; d < param.dim(); ++d) own[d] = x.stride(d) * x.itemsize();
    if (parts) own[ndim - 1] = size;
    ops[k] = {memory_of(x), own};
  }
  return kernels::optim_loop(rule_, p.flags, real);
}

inline void StepCall::update(size_t i, const StepPlan& p) const {
  const int ndim = dims_of(i), n = num_operands_;
  SmallVec<int64_t, 64> strides(static_cast<size_t>(ndim * n));
  Dims shape(operands_[0][i].sizes());
  if (static_cast<int>(shape.size()) < ndim) shape.push_back(2);
  kernels::Operand ops[kernels::kOptimOperands];
  const kernels::LoopFn loop = loop_of(i, p, strides.data(), ops);
  run_loop(loop, ndim, shape.data(), ops, n, p.s, 2);
}

[[gnu::always_inline]] inline void StepCall::finish(size_t i, const StepPlan& p) const {
  for (int k = 0; k < num_counters_; ++k) {
    const Tensor& t = counters_[k][i];
    if (p.count.counter == nullptr) {  // else the kernel has written it
      if (p.single[k])
        write_element(t, static_cast<float>(p.counters[k]));
      else
        write_element(t, p.counters[k]);
    }
    t->bump_version();
  }
  for (int k = 0; k < num_operands_; ++k)
    if (k != 1) operands_[k][i]->bump_version();
}

const Tensor* StepCall::checked(TensorList list) const {
  COGRAD_CHECK(list.size() == size_, subject_, "(): a list has ", list.size(),
               " tensors, expected one for each of the ", size_, " parameters");
  return list.data();
}

const kernels::OptimRule& step_rule(std::string_view op) {
  std::string_view name = op;
  COGRAD_CHECK(name.starts_with('_') && name.ends_with("_step"), "op '", op,
               "': expected a name like _adam_step");
  name.remove_prefix(1);
  name.remove_suffix(5);
  const kernels::OptimRule* rule = kernels::optim_rule(name);
  COGRAD_CHECK(rule != nullptr, "op '", op, "': kernels/optim/optim_loops.cpp has no rule '", name,
               "'");
  return *rule;
}

bool StepCall::independent() const {
  struct Range {
    const char *begin, *end;
    bool written;
  };
  std::vector<Range> all;
  all.reserve(size_ * static_cast<size_t>(num_operands_ + num_counters_));
  const auto add = [&](const Tensor& x, bool written) {
    if (x.numel() == 0) return;
    const char* begin = x.bytes();
    const char* end = begin + x.itemsize();
    for (int d = 0; d < x.dim(); ++d) {
      const int64_t span = (x.size(d) - 1) * x.stride(d) * x.itemsize();
      (span < 0 ? begin : end) += span;
    }
    all.push_back({begin, end, written});
  };
  for (size_t i = 0; i < size_; ++i) {
    for (int k = 0; k < num_operands_; ++k) add(operands_[k][i], k != 1);
    for (int k = 0; k < num_counters_; ++k) add(counters_[k][i], true);
  }
  std::sort(all.begin(), all.end(),
            [](const Range& a, const Range& b) { return std::less<>()(a.begin, b.begin); });
  const char *any = nullptr, *written = nullptr;  // where the ranges so far end
  for (const Range& r : all) {
    if (std::less<>()(r.begin, r.written ? any : written)) return false;
    if (std::less<>()(any, r.end)) any = r.end;
    if (r.written && std::less<>()(written, r.end)) written = r.end;
  }
  return true;
}

void StepCall::run_together(ErasedPlan plan, void* context) const {
  const int n = num_operands_;
  size_t total = 0;
  for (size_t i = 0; i < size_; ++i) total += static_cast<size_t>(dims_of(i) * (n + 1));
  std::vector<int64_t> room(total);  // sizes and strides
  std::vector<StepPlan> plans(size_);
  std::vector<kernels::OptimStep> steps(size_);
  int64_t* at = room.data();
  for (size_t i = 0; i < size_; ++i) {
    begin(i, plans[i]);
    plan(context, plans[i], i);
    const int ndim = dims_of(i);
    kernels::OptimStep& s = steps[i];
    s = {nullptr, ndim, n, at, plans[i].s, {}, plans[i].count};
    s.loop = loop_of(i, plans[i], at + ndim, s.ops);
    const IntList sizes = operands_[0][i].sizes();
    std::copy(sizes.begin(), sizes.end(), at);
    if (static_cast<int>(sizes.size()) < ndim) at[ndim - 1] = 2;
    at += ndim * (n + 1);
  }
  kernels::optim_steps(steps);
  for (size_t i = 0; i < size_; ++i) finish(i, plans[i]);
}

bool StepCall::run_erased(ErasedPlan plan, void* context) const {
  if (thread_state.vmaps > 0 || thread_state.taint) return false;
  for (size_t i = 0; i < size_; ++i)
    if (!applies(i)) return false;
  for (size_t i = 0; i < size_; ++i)
    if (!check_memory(i)) return false;
  const bool together = !on_host() && independent();
  // Counters on a device are counted by the kernel for many parameters.
  if (!together && anywhere_)
    for (size_t i = 0; i < size_; ++i)
      if (counters_[0][i]->device != kHost) return false;
  if (together) {
    run_together(plan, context);
    return true;
  }
  for (size_t i = 0; i < size_; ++i) {
    StepPlan p;
    begin(i, p);
    plan(context, p, i);
    update(i, p);
    finish(i, p);
  }
  return true;
}

}  // namespace cograd
