// SPDX-License-Identifier: BSD-3-Clause
// The C interface to custom functions: calls, and the backward of their nodes.
#include "api/function.h"

#include <cstring>

#include "api/registration.h"
#include "api/results.h"
#include "api/values.h"

namespace cograd::api {

namespace {

template <class V>
SmallVec<TensorImpl*, 4> impls_of(const V& list) {
  SmallVec<TensorImpl*, 4> out;
  for (const Tensor& t : list) out.push_back(t.impl());
  return out;
}
std::span<TensorImpl* const> span_of(const SmallVec<TensorImpl*, 4>& v) noexcept {
  return {v.data(), v.size()};
}

}  // namespace

UserNode::UserNode(const cograd_function& function, void* state) : state_(state) {
  std::memcpy(&function_, &function, std::min(function.struct_size, sizeof function_));
  destroy_ = function_.destroy;
}

UserNode::~UserNode() {
  open_.reset();
  if (destroy_ != nullptr && state_ != nullptr) destroy_(state_);
}

std::string plain_name(const cograd_function& function) {
  std::string name = function.name;
  constexpr std::string_view kEnd = "Backward";
  if (name.size() > kEnd.size() && name.ends_with(kEnd)) name.resize(name.size() - kEnd.size());
  return name;
}

std::string UserNode::function_name() const {
  return call_data_ != nullptr ? "op '" + call_data_->qualified + "'" : name();
}

std::string UserNode::jvp_to_write() const {
  const std::string in_c =
      "    cograd_status jvp(cograd_context ctx, void* state, const cograd_tensor* tangents,\n"
      "                      size_t n_inputs, cograd_tensor* out, size_t n_outputs)";
  if (call_data_ != nullptr) return in_c + "\nas the entry `jvp` of its cograd_op_desc";
  return "    static variable_list jvp(AutogradContext* ctx, variable_list tangents);\n"
         "to the Function, in C the entry `jvp` of its cograd_function:\n" +
         in_c;
}

NodeRef UserNode::begin(const cograd_function& function, void* state, const cograd_tensor* inputs,
                        size_t n) {
  NodeRef node(new UserNode(function, state));  // owns `state` from here on
  if (thread_state.vmaps > 0) [[unlikely]] {
    const cograd_function& f = static_cast<UserNode*>(node.get())->function_;
    const TensorList list = list_of(inputs, n, "function_begin", "inputs");
    const std::span<const Tensor> tensors(list.begin(), list.end());
    const bool takes_samples = (f.flags & COGRAD_FUNCTION_TAKES_SAMPLES) != 0;
    const bool runs_again = f.batch != nullptr ||
                            (f.call != nullptr && (!takes_samples || any_tangent_samples(tensors)));
    if (runs_again && any_batched(list)) return {};
  }
  COGRAD_CHECK_TYPE(static_cast<UserNode*>(node.get())->function_.name != nullptr,
                    "function_begin(): the function's name is NULL");
  Open& open =
      static_cast<UserNode*>(node.get())->open_.emplace(*static_cast<UserNode*>(node.get()));
  for (const Tensor& t : list_of(inputs, n, "function_begin", "inputs")) {
    open.inputs.push_back(t);
    open.call.add_input(t.impl());
  }
  open.call.connect();
  open.call.enter();
  return node;
}

UserNode::Open& UserNode::in_forward(const char* what) {
  COGRAD_CHECK(in_forward(), name(), ": ", what, " can only be called in forward");
  return *open_;
}

void UserNode::save(TensorList tensors) {
  Open& open = in_forward("save_for_backward");
  if (!open.call.recording()) return;
  for (const Tensor& t : tensors) open.saved.push_back(t);
}

void UserNode::save_for_forward(TensorList tensors) {
  Open& open = in_forward("save_for_forward");
  if (!open.call.recording()) return;
  for (const Tensor& t : tensors) open.saved_for_forward.push_back(t);
}

Tensor UserNode::saved_for_forward(size_t i) const {
  COGRAD_CHECK_INDEX(i < count_saved_for_forward(), name(), ": tensor ", i,
                     " saved for forward mode was asked for, expected less than ",
                     count_saved_for_forward());
  return rewrapped_here(open_->saved_for_forward[i]);
}

void UserNode::mark_dirty(TensorList tensors) {
  Open& open = in_forward("mark_dirty");
  for (const Tensor& t : tensors) {
    COGRAD_CHECK_TYPE(t.defined(), name(), ": mark_dirty got no tensor (None)");
    // Forward may have written it through the data pointer, which does not bump the version.
    if (open.call.untouched(t.impl())) t->bump_version();
    open.dirty.push_back(t);
  }
}

void UserNode::mark_non_differentiable(TensorList tensors) {
  Open& open = in_forward("mark_non_differentiable");
  for (const Tensor& t : tensors) open.non_differentiable.push_back(t);
}

bool UserNode::needs_input_grad(size_t i) const {
  COGRAD_CHECK_INDEX(i < num_inputs(), name(), ": needs_input_grad(", i, "), expected less than ",
                     num_inputs());
  return needs_input(i) && (!open_ || open_->call.recording());
}

void UserNode::set_state(void* state, void (*destroy)(void*)) noexcept {
  if (destroy_ != nullptr && state_ != nullptr && state_ != state) destroy_(state_);
  state_ = state;
  destroy_ = destroy;
}

void UserNode::finish(std::span<Tensor> outputs) {
  Open& open = in_forward("end");
  struct Close {
    std::optional<Open>& open;
    ~Close() { open.reset(); }
  } const close{open_};
  open.call.leave();
  const auto dirty = impls_of(open.dirty), fixed = impls_of(open.non_differentiable),
             saved = impls_of(open.saved);
  const Declared declared{span_of(dirty), span_of(fixed), span_of(saved)};
  open.call.finish(outputs, declared);
  open.joined = true;
  open.call.set_tangents(outputs, declared);
}

Tensor UserNode::saved_or_kept(size_t i) {
  COGRAD_CHECK_INDEX(i < count_saved(), name(), ": saved tensor ", i,
                     " was asked for, expected less than ", count_saved());
  return in_forward() ? open_->saved[i] : saved(i);
}

std::vector<Tensor> UserNode::call_jvp(std::vector<Tensor> tangents) {
  std::vector<cograd_tensor> found(num_returned());
  const cograd_status s = function_.jvp(handle(this), state_, handles_of(tangents), tangents.size(),
                                        found.data(), found.size());
  std::vector<Tensor> out;
  for (cograd_tensor t : found) out.push_back(Tensor::steal(impl(t)));
  if (s != COGRAD_OK) raise(s, function_name());
  return out;
}

void UserNode::call_backward(BackwardArgs& args) {
  COGRAD_CHECK(function_.backward != nullptr, name(), ": ", function_name(),
               " has no backward, only a jvp: a gradient through it is not known");
  SmallVec<cograd_tensor, 4> grads, found;
  for (const Tensor& g : args.grads) grads.push_back(handle(g));
  for (size_t i = 0; i < args.out.size(); ++i) found.push_back(nullptr);
  const bool closed = (function_.flags & COGRAD_FUNCTION_ONCE_DIFFERENTIABLE) != 0;
  const bool once = closed && thread_state.grad_enabled;
  cograd_status s = COGRAD_OK;
  {
    const OnceGuard reading(closed);
    const GradGuard mode(thread_state.grad_enabled && !once);
    s = function_.backward(handle(this), state_, grads.data(), grads.size(), found.data(),
                           found.size());
  }
  SmallVec<Tensor, 4> results;
  for (cograd_tensor t : found) results.push_back(Tensor::steal(impl(t)));
  if (s != COGRAD_OK) raise(s, name());
  for (size_t i = 0; i < results.size(); ++i) {
    Tensor g = std::move(results[i]);
    if (once && g.defined() && is_differentiable(g.dtype())) g = once_differentiable(g);
    set_gradient(args, i, std::move(g), i);
  }
}

void UserNode::release_saved() noexcept {
  CustomNode::release_saved();
  if (function_.release != nullptr) function_.release(state_);
}

namespace {

// A call of a C or C++ function on batched tensors.
class FunctionSamples final : public SampledCall {
 public:
  FunctionSamples(const cograd_function& function, void* user)
      : function_(function), user_(user), name_(plain_name(function)) {}
  std::string name() const override { return name_; }
  bool has_rule() const override { return function_.batch != nullptr; }
  bool rule_takes_samples() const override {
    return (function_.flags & COGRAD_FUNCTION_BATCH_TAKES_SAMPLES) != 0;
  }
  std::string rule_to_write() const override {
    return "    static std::pair<Tensor, int64_t> vmap(const VmapInfo& info, const InDims& "
           "in_dims,\n"
           "                                           ...);  // forward's arguments; output, dim\n"
           "to the Function, in C the entry `batch` of its cograd_function.";
  }
  std::vector<Tensor> call_rule(const VmapLevel& level, std::span<const Tensor> inputs,
                                std::span<const SampleDim> dims,
                                std::vector<SampleDim>& out_dims) override {
    const cograd_batch_info info = batch_info(level);
    const std::vector<int32_t> in_dims = dims_to_c(dims);
    cograd_results_s results;
    const cograd_status s =
        function_.batch(&info, user_, handles_of(inputs), in_dims.data(), inputs.size(), &results);
    std::vector<Tensor> out = taken(s, results);
    out_dims = sample_dims(results, out.size(), name_);
    return out;
  }
  std::vector<Tensor> call(std::span<const Tensor> inputs) override {
    COGRAD_CHECK_TYPE(function_.call != nullptr, "function_apply(): ", name_,
                      " has no entry `call`");
    cograd_results_s results;
    return taken(function_.call(user_, handles_of(inputs), inputs.size(), &results), results);
  }

 private:
  std::vector<Tensor> taken(cograd_status s, cograd_results_s& results) const {
    if (s != COGRAD_OK) raise(s, name_);
    std::vector<Tensor> out;
    for (Tensor* slot : tensor_slots(results.items)) out.push_back(std::move(*slot));
    return out;
  }
  cograd_function function_;
  void* user_;
  std::string name_;
};

}  // namespace

}  // namespace cograd::api

using namespace cograd;
using namespace cograd::api;

cograd_status cograd_function_begin(const cograd_function* function, void* state,
                                    const cograd_tensor* inputs, size_t n,
                                    cograd_context* out) noexcept {
  return guarded([&] {
    const cograd_function& f = given(function, "function_begin", "function");
    NodeRef node = UserNode::begin(f, state, inputs, n);
    auto* call = static_cast<UserNode*>(node.get());
    if (call == nullptr) {
      given(out, "function_begin", "out") = nullptr;
      return;
    }
    if (out == nullptr) call->abort();
    cograd_context& place = given(out, "function_begin", "out");
    place = api::handle(call);
    node.take();
  });
}

cograd_status cograd_function_end(cograd_context ctx, cograd_tensor* outputs, size_t n) noexcept {
  return guarded([&] {
    given(ctx, "function_end", "ctx");
    const NodeRef node(node_of(ctx));
    given_list(outputs, n, "function_end", "outputs");
    SmallVec<Tensor, 2> list;
    for (size_t i = 0; i < n; ++i)
      list.push_back(Tensor::steal(impl(std::exchange(outputs[i], nullptr))));
    node_of(ctx)->finish({list.data(), list.size()});
    for (size_t i = 0; i < n; ++i) outputs[i] = owned_handle(std::move(list[i]));
  });
}

void cograd_function_abort(cograd_context ctx) noexcept {
  const NodeRef node(node_of(ctx));
  if (ctx != nullptr) node_of(ctx)->abort();
}

cograd_status cograd_function_apply(const cograd_function* function, void* user,
                                    const cograd_tensor* inputs, size_t n,
                                    cograd_value* result) noexcept {
  return guarded([&] {
    const cograd_function& from = given(function, "function_apply", "function");
    cograd_function f{};
    std::memcpy(&f, &from, std::min(from.struct_size, sizeof f));
    COGRAD_CHECK_TYPE(f.name != nullptr, "function_apply(): the function's name is NULL");
    cograd_value& place = given(result, "function_apply", "result");
    const TensorList list = list_of(inputs, n, "function_apply", "inputs");
    const std::span<const Tensor> given_inputs(list.begin(), list.end());
    FunctionSamples call(f, user);
    Result out;
    out.kind = Result::Kind::List;
    out.tensors = any_batched(list) ? call_samples(call, given_inputs) : call.call(given_inputs);
    place = result_to_c(out);
  });
}

int32_t cograd_context_recording(cograd_context ctx) noexcept {
  return ctx != nullptr && node_of(ctx)->recording();
}
cograd_status cograd_context_save(cograd_context ctx, const cograd_tensor* tensors,
                                  size_t n) noexcept {
  return guarded([&] {
    given(ctx, "save", "ctx");
    node_of(ctx)->save(list_of(tensors, n, "save", "tensors"));
  });
}
size_t cograd_context_num_saved(cograd_context ctx) noexcept {
  return ctx == nullptr ? 0 : node_of(ctx)->count_saved();
}
cograd_status cograd_context_saved(cograd_context ctx, size_t i, cograd_tensor* out) noexcept {
  return guarded([&] {
    given(ctx, "saved", "ctx");
    given(out, "saved", "out");
    put(out, "saved", node_of(ctx)->saved_or_kept(i));
  });
}
cograd_status cograd_context_save_for_forward(cograd_context ctx, const cograd_tensor* tensors,
                                              size_t n) noexcept {
  return guarded([&] {
    given(ctx, "save_for_forward", "ctx");
    node_of(ctx)->save_for_forward(list_of(tensors, n, "save_for_forward", "tensors"));
  });
}
size_t cograd_context_num_saved_for_forward(cograd_context ctx) noexcept {
  return ctx == nullptr ? 0 : node_of(ctx)->count_saved_for_forward();
}
cograd_status cograd_context_saved_for_forward(cograd_context ctx, size_t i,
                                               cograd_tensor* out) noexcept {
  return guarded([&] {
    given(ctx, "saved_for_forward", "ctx");
    given(out, "saved_for_forward", "out");
    put(out, "saved_for_forward", node_of(ctx)->saved_for_forward(i));
  });
}
cograd_status cograd_context_mark_dirty(cograd_context ctx, const cograd_tensor* tensors,
                                        size_t n) noexcept {
  return guarded([&] {
    given(ctx, "mark_dirty", "ctx");
    node_of(ctx)->mark_dirty(list_of(tensors, n, "mark_dirty", "tensors"));
  });
}
cograd_status cograd_context_mark_non_differentiable(cograd_context ctx,
                                                     const cograd_tensor* tensors,
                                                     size_t n) noexcept {
  return guarded([&] {
    given(ctx, "mark_non_differentiable", "ctx");
    node_of(ctx)->mark_non_differentiable(
        list_of(tensors, n, "mark_non_differentiable", "tensors"));
  });
}
void cograd_context_set_materialize_grads(cograd_context ctx, int32_t value) noexcept {
  if (ctx != nullptr) node_of(ctx)->set_materialize_grads(value != 0);
}
int32_t cograd_context_needs_input_grad(cograd_context ctx, size_t i) noexcept {
  int32_t needed = 0;
  const cograd_status s = guarded([&] {
    given(ctx, "needs_input_grad", "ctx");
    needed = node_of(ctx)->needs_input_grad(i);
  });
  return s == COGRAD_OK ? needed : -1;
}
void cograd_context_set_state(cograd_context ctx, void* state, void (*destroy)(void*)) noexcept {
  if (ctx != nullptr) node_of(ctx)->set_state(state, destroy);
}
void* cograd_context_state(cograd_context ctx) noexcept {
  return ctx == nullptr ? nullptr : node_of(ctx)->state();
}
