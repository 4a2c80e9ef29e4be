// SPDX-License-Identifier: BSD-3-Clause
// Tensor hooks inside a vmap: they see batched gradients.
#include "transforms/sample_hook.h"

#include "transforms/custom_samples.h"
#include "transforms/function_inputs.h"

namespace cograd {

namespace {

class SampleHook final : public Hook {
 public:
  SampleHook(const Tensor& t, std::shared_ptr<Hook> hook) : hook_(std::move(hook)) {
    VmapFrames frames;
    const Tensor physical = frames.strip(t, chain_);
    sizes_ = Dims(physical.sizes());
    dtype_ = physical.dtype();
  }

  void call(HookCall& call) override {
    Tensor& g = call.values[0];
    if (!g.defined()) return hook_->call(call);
    for (const auto& at : chain_) vmap_level(at.first, "register_hook()");
    // A single expanded element suffices: only sizes and vmap levels of the tensor are needed.
    Tensor like;
    {
      const PlaceGuard here(g->device);
      like = rewrapped(autograd_ops.expand(autograd_ops.zeros({}, dtype_), sizes_), chain_);
    }
    std::vector<Tensor> seen{batched_like(like, g)};
    HookCall inner{seen, call.also};
    hook_->call(inner);
    g = seen[0].defined() ? physical_like(like, seen[0]) : Tensor();
  }
  void visit(GraphVisitor& v) const override { hook_->visit(v); }

 private:
  std::shared_ptr<Hook> hook_;
  SampleChain chain_;
  Dims sizes_;
  DType dtype_ = DType::Float32;
};

}  // namespace

std::shared_ptr<Hook> hook_on_samples(const Tensor& t, std::shared_ptr<Hook> hook) {
  Node* n = grad_fn(t.impl());
  // The hook runs only in the backward of that function, not in those of enclosing functions.
  if (n == nullptr || !function_within_vmaps(scope_of(*n))) fail_batched("register_hook()");
  return std::make_shared<SampleHook>(t, std::move(hook));
}

}  // namespace cograd
