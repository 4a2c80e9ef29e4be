// SPDX-License-Identifier: BSD-3-Clause
// Packing and unpacking of saved tensors, with their hooks and errors.
#include "autograd/graph/saved_tensor.h"

#include <algorithm>

#include "autograd/graph/copy_slices.h"
#include "autograd/modes/in_use.h"
#include "tensor/thread_locals.h"
#include "tensor/threads.h"

namespace cograd {

namespace {

std::string saved_at(const Node* owner) {
  const std::string at =
      watch_handlers.created_at != nullptr ? watch_handlers.created_at(owner) : "";
  return at.empty() ? at : " at " + at;
}

std::string written_by(const Tensor& t, uint32_t version) {
  const std::string writer = writer_of(t, version);
  if (!writer.empty()) return " It was written by " + writer + ".";
  return watching(kWatchWrites)
             ? ""
             : " Run it under autograd.detect_anomaly() to see the op and line that wrote it.";
}

[[noreturn]] void fail_modified(const Tensor& t, bool is_output, uint32_t output_nr, Node* owner,
                                uint32_t expected) {
  std::string made_by;
  // Use the base's grad_fn. The view's own would be created now, and may lead to the saving node.
  TensorImpl* made = t->base != nullptr ? t->base : t.impl();
  const char* what = t->base != nullptr ? ", which is a view of output " : ", which is output ";
  if (is_output) {
    made_by = detail::concat(", which is output ", output_nr, " of ", owner->name(), ",");
  } else if (const Node* fn = grad_fn(made)) {
    made_by = detail::concat(what, made->output_nr, " of ", fn->name(), ",");
  }
  detail::fail(ErrorKind::Runtime,
               "one of the variables needed for gradient computation has been modified by an "
               "inplace operation: [cograd.",
               scalar_type_name(t.dtype()), "Tensor ", to_string(t.sizes()), "]", made_by,
               " is at version ", t->write_count(), "; expected version ", expected,
               " instead. It was saved by ", owner->name(), saved_at(owner), ".",
               written_by(t, expected),
               " Hint: write into a copy (.clone()), or do the in-place operation before the "
               "tensor is used.");
}

// Called if the version of `t` changed since it was saved, by a write or by `t.data = y`. Returns
// the tensor to use, or raises. If the data of `t.data = y` has the geometry of `t`, the version
// does not change and backward uses the new data, as in torch.
Tensor accept_other_version(Tensor t, bool is_output, uint32_t output_nr, Node* owner,
                            uint32_t expected) {
  const uint32_t change = t->current_version() - expected;
  if (t->own_version != nullptr) {
    if (change == kNotContiguous) return autograd_ops.contiguous_clone(t);  // as it was when saved
    if (change == -kNotContiguous) return t;
    // If the saved count of writes exceeds the current one, the geometry was replaced.
    expected -= t->own_version->geometry;
    for (const uint32_t layout : {0U, kNotContiguous, -kNotContiguous})
      if (expected + layout < t->write_count())
        fail_modified(t, is_output, output_nr, owner, expected + layout);
    detail::fail(ErrorKind::Runtime,
                 "one of the variables needed for gradient computation was given data of another "
                 "shape or dtype (`x.data = y`) after ",
                 owner->name(), saved_at(owner), " had saved it: it is a [cograd.",
                 scalar_type_name(t.dtype()), "Tensor ", to_string(t.sizes()), "] now.");
  }
  fail_modified(t, is_output, output_nr, owner, expected);
}

}  // namespace

void fail_released(const Node* owner) {
  detail::fail(ErrorKind::Runtime,
               "Trying to backward through the graph a second time (or directly access saved "
               "tensors after they have already been freed): ",
               owner->name(),
               " has released its saved tensors. Saved intermediate values of the graph are freed "
               "when you call .backward() or autograd.grad(). Specify retain_graph=True if you "
               "need to backward through the graph a second time or if you need to access saved "
               "tensors after calling backward.");
}

namespace {
// Makes `alias` an output of `fn`.
Tensor made_by(Tensor alias, Node* fn, uint32_t output_nr) {
  fn->retain();
  alias->grad_fn = fn;
  alias->output_nr = output_nr;
  return alias;
}

Tensor detached(const Tensor& t) {
  Tensor alias = detach(t);
  if (transforms_open()) transform_hooks.copy_tangents(t, alias);
  return alias;
}
}  // namespace

Tensor with_history(const Tensor& t) {
  Node* fn = grad_fn(t.impl());
  if (fn != nullptr) return made_by(detached(t), fn, t->output_nr);
  return requires_grad(t) ? t : detached(t);
}

Tensor fixed_view(const Tensor& t) {
  Tensor view = with_history(t);
  if (view.is(t)) view = detached(t);
  if (!has_grad_fn(view.impl())) {  // of a leaf, which may be a view of a constant
    t->retain();
    view->base = t.impl();
    view->view_version = view->current_version() - 1;  // its grad_fn is created on demand
  }
  return view;
}

void check_fixed_view(Node* owner, const Tensor& view) {
  TensorImpl* base = view->base;
  if (base == nullptr || base->storage == view->storage) return;
  if (base->write_count() != view->write_count())
    fail_modified(Tensor::borrow(base), false, 0, owner, view->write_count());
}

void SavedTensor::fail_inference() {
  detail::fail(ErrorKind::Runtime,
               "Inference tensors cannot be saved for backward. To work around you can make a "
               "clone to get a normal tensor and use it in autograd.");
}

// --- hooks -------------------------------------------------------------------------------------

namespace {
struct Disabled {
  bool on = false;
  std::string message;
};
constinit thread_local ThreadValue<Disabled> own_disabled;
Disabled& disabled() { return own_disabled.get(); }
const OnEachThread free_disabled(nullptr, []() noexcept { own_disabled.clear(); });
}  // namespace

void push_saved_hook(std::shared_ptr<SavedHook> hook, bool compose) {
  if (disabled().on) detail::fail(ErrorKind::Runtime, disabled().message);
  thread_state.saved_hooks = new SavedHookScope{std::move(hook), thread_state.saved_hooks, compose};
}

SavedHookScope* retain_hooks(SavedHookScope* s) noexcept {
  if (s != nullptr) s->refs.fetch_add(1, std::memory_order_relaxed);
  return s;
}
void release_hooks(SavedHookScope* s) noexcept {
  while (s != nullptr && s->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    SavedHookScope* outer = s->outer;
    delete s;  // may run user code
    s = outer;
  }
}

// A running hook may leave any of the enclosing scopes, including its own.
void pop_saved_hook() noexcept {
  SavedHookScope* top = thread_state.saved_hooks;
  if (top == nullptr) return;
  thread_state.saved_hooks = retain_hooks(top->outer);
  release_hooks(top);
}

// Marks hooks as running: tensors that are saved inside a hook go to the other hooks only.
struct SavedHookInUse {
  SavedHookScope* scope;
  const PlaceGuard host{kHost};
  const SavedHookInUse* before = thread_state.hooks_in_use;
  explicit SavedHookInUse(SavedHookScope* s) noexcept : scope(retain_hooks(s)) {
    thread_state.hooks_in_use = this;
  }
  SavedHookInUse(const SavedHookInUse&) = delete;
  SavedHookInUse& operator=(const SavedHookInUse&) = delete;
  ~SavedHookInUse() {
    thread_state.hooks_in_use = before;
    release_hooks(scope);
  }
};

void disable_saved_hooks(const std::string* message, bool* was, std::string* previous) {
  Disabled& d = disabled();
  if (message != nullptr && thread_state.saved_hooks != nullptr)
    detail::fail(ErrorKind::Runtime, *message);
  *was = d.on;
  *previous = d.message;
  d.on = message != nullptr;
  d.message = message != nullptr ? *message : std::string();
}

PackedSlot::PackedSlot() = default;
PackedSlot::~PackedSlot() {
  if (edge.node != nullptr) edge.node->release();
}

void PackedSlot::release() noexcept {
  if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

namespace {

// Returns `s` or the first enclosing scope whose hooks are not running.
SavedHookScope* idle(SavedHookScope* s) noexcept {
  const auto runs = [](const SavedHookScope* one) {
    const SavedHookInUse* u = thread_state.hooks_in_use;
    while (u != nullptr && u->scope != one) u = u->before;
    return u != nullptr;
  };
  while (s != nullptr && runs(s)) s = s->outer;
  return s;
}

// Packs `value` by the hook of `s`. If the scope composes and the result is a tensor, an enclosing
// hook packs that in turn.
void pack_layers(PackedSlot& slot, Tensor value, SavedHookScope* s) {
  const SavedHookInUse use(s);
  const uint32_t version = value->current_version();
  std::unique_ptr<Packed> made = s->hook->pack(value);
  COGRAD_CHECK(value->current_version() == version,
               "A saved tensor pack hook is modifying its input in place. Tensors provided as "
               "input to pack hook cannot be modified by in-place operations as this can lead to "
               "unexpected side-effects: write into a clone() instead.");
  if (!slot.layers.empty()) slot.layers.back()->drop();
  value = made->tensor();
  slot.layers.push_back(std::move(made));
  SavedHookScope* outer = s->compose && value.defined() ? idle(s->outer) : nullptr;
  if (outer != nullptr) pack_layers(slot, std::move(value), outer);
}

// Returns the tensor to pass to hooks. A tensor without a Python object, which users have never
// seen, is passed as an alias: a hook may keep it and change it.
Tensor shown_to_hooks(const Tensor& t) {
  if (t->pyobj != nullptr || is_batched(t)) return t;
  return with_history(t);
}

}  // namespace

void SavedTensor::pack_with(const Tensor& t, bool output, SavedHookScope* scope) {
  struct Release {
    void operator()(PackedSlot* p) const noexcept { p->release(); }
  };
  const std::unique_ptr<PackedSlot, Release> slot(new PackedSlot);
  slot->is_output = output;
  slot->output_nr = output ? ids_.output_nr : 0;
  slot->dense = is_dense(t.impl());
  slot->dtype = t.dtype();
  slot->device = t->device;
  slot->sizes = Dims(t.sizes());
  slot->strides = Dims(t.strides());
  if (transforms_open() && transformed(t)) slot->tangents = transform_hooks.keep_tangents(t);
  if (!output) slot->edge = gradient_edge(t.impl());
  {
    const GradGuard no_grad(false);
    // Hooks see tangents of all levels, including the level whose rule is saving.
    const LevelId max_visible_level = std::exchange(thread_state.max_visible_level, ~LevelId{0});
    struct Restore {
      LevelId max_visible_level;
      ~Restore() { thread_state.max_visible_level = max_visible_level; }
    } const restore{max_visible_level};
    pack_layers(*slot, output ? t : shown_to_hooks(t), scope);
  }
  slot->refs.fetch_add(1, std::memory_order_relaxed);
  tensor_.reset();
  packed_ = slot.get();
  packed_state_ = true;
  is_output_ = output;
}

// Passes the tensor to the innermost hooks that are not running, if there are any. Wrapped scalars
// are not passed: users never see them.
void SavedTensor::pack_by_hooks() {
  if ((tensor_->flags & kWrappedNumber) != 0) return;
  SavedHookScope* scope = idle(thread_state.saved_hooks);
  if (scope == nullptr) return;
  const Tensor hold = tensor_;
  pack_with(hold, is_output_, scope);
}

void pack_saved(Node& node) {
  if (thread_state.saved_hooks == nullptr) return;
  for (size_t i = 0; i < node.num_saved(); ++i) node.saved_slot(i)->pack();
}

SavedTensor SavedTensor::with_hook(const std::shared_ptr<SavedHook>& hook) const {
  SavedHookScope one{hook, nullptr, false};
  const Tensor original = tensor_;
  // The hook sees only the values; the slot keeps the history of an input.
  Edge edge;
  if (!is_output_) edge = gradient_edge(original.impl());
  const NodeRef hold(edge.node);
  SavedTensor packed;
  const bool output = is_output_;
  packed.ids_ = ids_;
  packed.pack_with(output ? original : detached(original), output, &one);
  packed.packed_->edge = edge;
  if (edge.node != nullptr) edge.node->retain();
  return packed;
}

void SavedTensor::visit_packed(GraphVisitor& v) const {
  for (const auto& layer : packed_->layers) layer->visit(v);
  if (packed_->edge.node != nullptr) v.node(packed_->edge.node);
}

namespace {
// Makes `alias` the output of `owner` that was saved. If `owner` is the node of a write to a view,
// which runs only inside a CopySlices, that output is the view.
Tensor made_by_owner(Tensor alias, Node* owner, uint32_t output_nr) {
  const CopySlices* slices = thread_state.slices;
  if (slices == nullptr || !thread_state.grad_enabled || !slices->runs(owner) || is_batched(alias))
    return made_by(std::move(alias), owner, output_nr);
  alias->grad_fn = slices->view_node().take();
  alias->output_nr = 0;
  return alias;
}

// True if `t` has these strides in all dims of more than one element; other strides do not matter.
bool same_layout(const Tensor& t, IntList strides) {
  if (t.numel() == 0) return true;
  for (size_t i = 0; i < strides.size(); ++i)
    if (t.sizes()[i] > 1 && t.strides()[i] != strides[i]) return false;
  return true;
}

// Returns an alias that keeps memory and geometry even if the user's tensor changes during a
// backward: other threads run during loops of at least `size` elements, and hooks may run before
// any loop. A node that runs user code gets `t` itself.
inline Tensor for_kernels(Tensor&& t, int64_t size, const Node* owner) {
  if (thread_state.grad_enabled || t.numel() < size || transforms_open()) [[likely]]
    return std::move(t);
  return owner->op_text().name == nullptr ? std::move(t) : Tensor::steal(t->alias());
}
}  // namespace

// Returns the result of the unpack hooks in the dtype of the original and, if the original had no
// gaps, in its layout.
Tensor PackedSlot::unpacked_values(Node* owner) {
  Tensor t;
  const UnpacksSaved unpacks(owner);
  {
    const PlaceGuard host(kHost);
    for (size_t i = layers.size(); i-- > 0;) t = layers[i]->unpack(t);
  }
  COGRAD_CHECK(t.defined(), "a saved tensor unpack hook returned no tensor for one of shape ",
               to_string(sizes), " that ", owner->name(), " saved");
  COGRAD_CHECK(same(t.sizes(), sizes), "a saved tensor unpack hook returned a tensor of shape ",
               to_string(t.sizes()), " for one of shape ", to_string(sizes), " that ",
               owner->name(), " saved");
  COGRAD_CHECK(t->device == device, "a saved tensor unpack hook returned a tensor on ",
               to_string(t->device), " for one on ", to_string(device), " that ", owner->name(),
               " saved");
  const GradGuard no_grad(false);
  if (t.dtype() != dtype) t = autograd_ops.cast(t, dtype);
  if (dense && !same_layout(t, strides)) t = autograd_ops.relayout(t, strides);
  return t;
}

Tensor PackedSlot::unpack(Node* owner) {
  Tensor t = unpacked_values(owner);
  Node* fn = is_output ? owner : edge.node;
  const bool lacks = tangents != nullptr && tangents->missing_on(t);
  if (!lacks) {
    if (fn == nullptr && !requires_grad(t)) return for_kernels(std::move(t), 0, owner);
    if (fn != nullptr && fn->is_accumulator()) {
      const Tensor leaf = static_cast<AccumulateGrad*>(fn)->variable();
      if (leaf.is(t)) return for_kernels(std::move(t), 0, owner);
    }
  }
  const Tensor given = std::exchange(t, detach(t));
  transform_hooks.copy_tangents(given, t);
  if (lacks) tangents->set_missing_on(t);
  if (fn == nullptr) return t;
  if (is_output) return made_by_owner(std::move(t), owner, output_nr);
  return made_by(std::move(t), fn, edge.input_nr);
}

Tensor unpack_once(Node* owner, SavedTensor& s, size_t index, BackwardArgs& args) {
  if (!s.packed()) [[likely]]
    return unpack_saved(owner, s);
  if (args.unpacked == nullptr) args.unpacked = std::make_shared<std::vector<Tensor>>();
  std::vector<Tensor>& known = *args.unpacked;
  if (known.size() <= index) known.resize(owner->num_saved());
  if (!known[index].defined()) known[index] = unpack_saved(owner, s);
  return known[index];
}

namespace {

// Unpacks by hooks, and drops a reference to `p`.
[[gnu::noinline]] Tensor unpack_by_hooks(Node* owner, PackedSlot* p) {
  struct Release {
    PackedSlot* p;
    ~Release() { p->release(); }
  } release_at_end{p};
  return p->unpack(owner);
}

// Returns what the node gets for `t`, which it saved at `version`.
[[gnu::noinline]] Tensor restored(Tensor t, bool is_output, uint32_t output_nr, uint32_t version,
                                  Node* owner) {
  if (t->current_version() != version) [[unlikely]]
    t = accept_other_version(std::move(t), is_output, output_nr, owner, version);
  if (!is_output) return for_kernels(std::move(t), kHeavyWork, owner);
  Tensor out = Tensor::steal(t->alias());
  if (transforms_open()) [[unlikely]]
    transform_hooks.copy_tangents(t, out);
  return made_by_owner(std::move(out), owner, output_nr);
}

}  // namespace

// Short, because each product's backward calls it twice: what few saved tensors need is apart.
Tensor unpack_saved(Node* owner, SavedTensor& s) {
  owner->lock();
  const bool released = owner->released;
  if (s.packed_state_ && !released) [[unlikely]] {
    PackedSlot* p = s.packed_;
    p->refs.fetch_add(1, std::memory_order_relaxed);
    owner->unlock();
    return unpack_by_hooks(owner, p);
  }
  Tensor t = s.tensor_;
  const SavedTensor::Ids ids = s.ids_;
  const bool is_output = s.is_output_;
  owner->unlock();
  if (released) [[unlikely]]
    fail_released(owner);
  if (!t.defined()) return t;
  const bool small = thread_state.grad_enabled || t.numel() < kHeavyWork;
  if (!is_output && small && t->current_version() == ids.version) [[likely]]
    return t;
  return restored(std::move(t), is_output, ids.output_nr, ids.version, owner);
}

}  // namespace cograd
