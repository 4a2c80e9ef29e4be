// SPDX-License-Identifier: BSD-3-Clause
// Runs a node's backward while a stage is open: on the node's device and stream, or on batched
// gradients.
#include <algorithm>
#include <vector>

#include "autograd/graph/transform_hooks.h"
#include "autograd/run/run.h"
#include "tensor/backend.h"
#include "tensor/slot.h"

namespace cograd {

namespace {

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
  if (any_batched(args.grads)) return transform_hooks.backward_of_samples(n, args);
  if (may_lack_kernels(thread_place.now)) return backward_on_device(n, args);
  n.backward(args);
}

}  // namespace cograd
