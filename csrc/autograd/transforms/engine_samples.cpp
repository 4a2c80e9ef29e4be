// SPDX-License-Identifier: BSD-3-Clause
// Runs a node's backward on its device, and on batched gradients if the graph was recorded outside
// of the vmap. A formula that reads values, and a user's function that accepts no batched tensors,
// run sample by sample.
#include <algorithm>

#include "autograd/function/custom_function.h"
#include "autograd/run/run.h"
#include "autograd/transforms/batch.h"
#include "tensor/backend.h"
#include "tensor/slot.h"

namespace cograd {

namespace {

Tensor sample(const Tensor& g, LevelId level, int64_t at) {
  if (!g.defined() || batch_level(g) != level) return g;
  return autograd_ops.select(batch_dim_first(g), 0, at);
}

void sample_by_sample(Node& n, BackwardArgs& args) {
  const std::vector<Tensor> grads(args.grads.begin(), args.grads.end());
  const VmapLevel level = vmap_level(highest_batch_level(grads), "backward");
  std::vector<std::vector<Tensor>> found(args.out.size());
  for (int64_t b = 0; b < level.size; ++b) {
    std::vector<Tensor> one, out(args.out.size());
    for (const Tensor& g : grads) one.push_back(sample(g, level.id, b));
    BackwardArgs part = args;
    part.grads = one;
    part.out = out;
    part.keep_graph = true;
    call_backward(n, part);
    for (size_t i = 0; i < out.size(); ++i) found[i].push_back(std::move(out[i]));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const auto some =
        std::find_if(found[i].begin(), found[i].end(), [](const Tensor& t) { return t.defined(); });
    if (some == found[i].end()) continue;
    const Tensor zeros = autograd_ops.zeros(some->sizes(), some->dtype());
    for (Tensor& t : found[i])
      if (!t.defined()) t = zeros;
    args.out[i] = make_batched(autograd_ops.stack(found[i]), 0, level.id);
  }
}

void backward_of_samples(Node& n, BackwardArgs& args) {
  if (const auto* custom = dynamic_cast<const CustomNode*>(&n))
    return custom->accepts_batched() ? n.backward(args) : sample_by_sample(n, args);
  // A node that is not an op runs user code: do not catch its errors and run it a second time.
  if (n.op_text().name == nullptr) return n.backward(args);
  const std::vector<Tensor> grads(args.grads.begin(), args.grads.end());
  try {
    n.backward(args);
  } catch (const CannotBatch& e) {
    if (e.hooks != thread_state.hooks_in_use) throw;
    for (Tensor& t : args.out) t.reset();
    std::copy(grads.begin(), grads.end(), args.grads.begin());
    sample_by_sample(n, args);
  }
}

// A formula that runs a kernel by itself cannot fall back to the host. The one that is used when a
// graph is recorded consists of ops, each of which can.
void try_on_device(Node& n, BackwardArgs& args) {
  if (thread_state.grad_enabled || n.op_text().name == nullptr) return n.backward(args);
  const std::vector<Tensor> grads(args.grads.begin(), args.grads.end());
  try {
    return n.backward(args);
  } catch (const NoKernel&) {
    for (Tensor& t : args.out) t.reset();
    std::copy(grads.begin(), grads.end(), args.grads.begin());
  }
  const GradGuard recorded(true);
  n.backward(args);
  for (Tensor& t : args.out)
    if (t.defined()) t = detach(t);
}

// Runs a node on the stream that computed its output. The streams wait for one another where the
// run goes from one to the next, so gradients are complete where they are read.
class OnStreamOf {
 public:
  explicit OnStreamOf(const Node& n) : backend_(backend_of(n.output(0).device.type)) {
    if (backend_ == nullptr) return;
    device_ = n.output(0).device;
    before_ = backend_->stream_index(device_);
    other_ = n.output(0).stream != before_;
    if (other_) backend_->switch_stream(device_, n.output(0).stream);
  }
  ~OnStreamOf() {
    if (!other_) return;
    try {
      backend_->switch_stream(device_, before_);
    } catch (const Error&) {  // the context is lost, which the next call reports
    }
  }
  OnStreamOf(const OnStreamOf&) = delete;
  OnStreamOf& operator=(const OnStreamOf&) = delete;

 private:
  Backend* backend_;
  Device device_ = kHost;
  uint8_t before_ = 0;
  bool other_ = false;
};

void backward_on_device(Node& n, BackwardArgs& args) {
  const OnStreamOf stream(n);
  try_on_device(n, args);
}

}  // namespace

void staged_backward(Node& n, BackwardArgs& args) {
  for (size_t i = 0; i < args.grads.size() && i < n.num_outputs(); ++i) {
    const Tensor& g = args.grads[i];
    COGRAD_CHECK(!g.defined() || g->device == n.output(i).device, n.name(),
                 " got an invalid gradient at index ", i, " - expected device ",
                 to_string(n.output(i).device), " but got ", to_string(g->device),
                 ": a hook, a Function or the call of backward gave it");
  }
  const PlaceGuard here(n.output(0).device);
  if (any_batched(args.grads)) return backward_of_samples(n, args);
  if (may_lack_kernels(thread_place.now)) return backward_on_device(n, args);
  n.backward(args);
}

}  // namespace cograd
