// SPDX-License-Identifier: BSD-3-Clause
// The C interface to gradients, hooks, modes and threads.
#include <utility>

#include "api/handles.h"
#include "autograd/run/backward_job.h"
#include "ops/declare/ops.h"
#include "tensor/threads.h"

namespace cograd::api {

namespace {

struct CHook final : Hook {
  CHook(cograd_hook_fn f, void* c, void (*d)(void*)) : fn(f), context(c), destroy(d) {}
  ~CHook() override {
    if (destroy != nullptr) destroy(context);
  }
  void call(HookCall& call) override {
    cograd_tensor replacement = nullptr;
    const cograd_status s = fn(context, handle(call.values[0]), &replacement);
    if (s != COGRAD_OK) raise(s, "tensor hook");
    if (replacement == nullptr) return;
    Tensor g = Tensor::steal(impl(replacement));
    const Tensor& before = call.values[0];
    COGRAD_CHECK(before.defined(), "a tensor hook can't replace a None gradient with a value");
    COGRAD_CHECK(same(g.sizes(), before.sizes()),
                 "a tensor hook has changed the size of value: got ", to_string(g.sizes()),
                 ", expected ", to_string(before.sizes()));
    COGRAD_CHECK(g.dtype() == before.dtype(), "a tensor hook has changed the type of value: got ",
                 dtype_name(g.dtype()), ", expected ", dtype_name(before.dtype()));
    call.values[0] = std::move(g);
  }
  cograd_hook_fn fn;
  void* context;
  void (*destroy)(void*);
};

BackwardJob make_job(const char* who, const cograd_tensor* roots, const cograd_tensor* grads,
                     size_t n, const cograd_tensor* inputs, size_t n_inputs, uint32_t flags,
                     bool accumulate) {
  BackwardJob job(who);
  given_list(roots, n, who, "roots");
  given_list(inputs, n_inputs, who, "inputs");
  for (size_t i = 0; i < n; ++i)
    job.add_root(view_of(roots, i, who, "roots"), grads == nullptr ? Tensor() : borrow(grads[i]),
                 i);
  for (size_t i = 0; i < n_inputs; ++i)
    job.add_input(view_of(inputs, i, who, "inputs"), accumulate);
  job.request.accumulate = accumulate;
  job.request.create_graph = (flags & COGRAD_CREATE_GRAPH) != 0;
  job.request.keep_graph = (flags & (COGRAD_CREATE_GRAPH | COGRAD_RETAIN_GRAPH)) != 0;
  return job;
}

// Runs the job without the Python lock, which nodes and hooks take when they need it.
std::vector<Tensor> run(BackwardJob& job) {
  if (reading_graphs_here()) return job.run();
  const Unlocked lock;
  const UnlockedRun open;
  return job.run();
}

}  // namespace

}  // namespace cograd::api

using namespace cograd;
using namespace cograd::api;

cograd_status cograd_tensor_set_requires_grad(cograd_tensor t, int32_t value) noexcept {
  return guarded([&] { set_requires_grad(view_of(t, "requires_grad_"), value != 0); });
}

cograd_status cograd_tensor_grad(cograd_tensor t, cograd_tensor* out) noexcept {
  return guarded([&] {
    const Tensor& x = view_of(t, "grad");
    put(out, "grad", grad_of(x.impl()));
  });
}

cograd_status cograd_tensor_set_grad(cograd_tensor t, cograd_tensor grad) noexcept {
  return guarded([&] {
    const Tensor& x = view_of(t, "grad");
    set_gradient(x, borrow(grad));
  });
}

cograd_status cograd_tensor_detach(cograd_tensor t, cograd_tensor* out) noexcept {
  return guarded([&] {
    const Tensor& x = view_of(t, "detach");
    put(out, "detach", detach(x));
  });
}

cograd_status cograd_tensor_variable_data(cograd_tensor t, cograd_tensor* out) noexcept {
  return guarded([&] {
    const Tensor& x = view_of(t, "variable_data");
    put(out, "variable_data", variable_data(x));
  });
}

cograd_status cograd_tensor_retain_grad(cograd_tensor t) noexcept {
  return guarded([&] { retain_grad(view_of(t, "retain_grad")); });
}

cograd_status cograd_tensor_grad_fn_name(cograd_tensor t, char* text, size_t capacity) noexcept {
  return guarded([&] {
    Node* n = grad_fn(view_of(t, "grad_fn").impl());
    const std::string name = n == nullptr ? "" : n->name();
    if (given_list(text, capacity, "grad_fn", "text").empty()) return;
    text[name.copy(text, capacity - 1)] = '\0';
  });
}

cograd_status cograd_tensor_register_hook(cograd_tensor t, cograd_hook_fn hook, void* context,
                                          void (*destroy)(void*), uint64_t* id) noexcept {
  return guarded([&] {
    auto h = std::make_shared<CHook>(hook, context, destroy);  // owns context even on failure
    const Tensor& x = view_of(t, "register_hook");
    COGRAD_CHECK_TYPE(hook != nullptr, "register_hook(): hook is NULL");
    uint64_t number = 0;
    add_tensor_hook(x, std::move(h), &number);
    if (id != nullptr) *id = number;
  });
}

cograd_status cograd_tensor_remove_hook(cograd_tensor t, uint64_t id) noexcept {
  return guarded([&] {
    const Tensor& x = view_of(t, "remove_hook");
    if (!requires_grad(x)) return;
    const NodeRef node(gradient_edge(x.impl()).node);
    if (node) remove_hook(*node.get(), &NodeExtra::tensor_hooks, id);
  });
}

cograd_status cograd_backward(const cograd_tensor* roots, const cograd_tensor* grads,
                              size_t n_roots, const cograd_tensor* inputs, size_t n_inputs,
                              uint32_t flags) noexcept {
  return guarded([&] {
    BackwardJob job = make_job("backward", roots, grads, n_roots, inputs, n_inputs, flags, true);
    run(job);
  });
}

cograd_status cograd_grad(const cograd_tensor* roots, const cograd_tensor* grads, size_t n_roots,
                          const cograd_tensor* inputs, size_t n_inputs, uint32_t flags,
                          cograd_tensor* out) noexcept {
  return guarded([&] {
    COGRAD_CHECK_VALUE(n_inputs > 0, "grad(): grad requires non-empty inputs.");
    given(out, "grad", "out");
    BackwardJob job = make_job("grad", roots, grads, n_roots, inputs, n_inputs, flags, false);
    std::vector<Tensor> found = run(job);
    for (size_t i = 0; i < n_inputs; ++i)
      COGRAD_CHECK(found[i].defined() || (flags & COGRAD_ALLOW_UNUSED) != 0,
                   "grad(): One of the differentiated Tensors appears to not have been used in the "
                   "graph (input ",
                   i, "). Set allow_unused=True if this is the desired behavior.");
    for (size_t i = 0; i < n_inputs; ++i) out[i] = owned_handle(std::move(found[i]));
  });
}

int32_t cograd_grad_enabled(void) noexcept { return thread_state.grad_enabled; }
void cograd_set_grad_enabled(int32_t enabled) noexcept { thread_state.grad_enabled = enabled != 0; }
int32_t cograd_inference_enabled(void) noexcept { return thread_state.inference; }
void cograd_set_inference_enabled(int32_t enabled) noexcept {
  thread_state.inference = enabled != 0;
}

cograd_status cograd_parallel_for(int64_t begin, int64_t end, int64_t grain, cograd_range_fn fn,
                                  void* context) noexcept {
  return guarded([&] {
    COGRAD_CHECK_TYPE(fn != nullptr, "parallel_for(): fn is NULL");
    if (begin >= end) return;
    int64_t count = 0;
    COGRAD_CHECK_VALUE(!__builtin_sub_overflow(end, begin, &count),
                       "parallel_for(): the range from begin ", begin, " to end ", end,
                       " has more than 2^63 - 1 items");
    const HeavyScope heavy(count > grain ? kHeavyWork : 0);
    parallel_for(begin, end, std::max<int64_t>(grain, 1), [&](int64_t lo, int64_t hi) {
      const cograd_status s = fn(context, lo, hi);
      if (s != COGRAD_OK) raise(s, "parallel_for");
    });
  });
}
int32_t cograd_num_threads(void) noexcept { return num_threads(); }
cograd_status cograd_set_num_threads(int32_t n) noexcept {
  return guarded([&] {
    COGRAD_CHECK(n > 0, "set_num_threads(): expected a positive number of threads, got ", n);
    set_num_threads(n);
  });
}
int32_t cograd_in_parallel_region(void) noexcept { return in_parallel_region(); }

void* cograd_heavy_begin(void) noexcept { return new (std::nothrow) HeavyScope(kHeavyWork); }
void cograd_heavy_end(void* state) noexcept { delete static_cast<HeavyScope*>(state); }
