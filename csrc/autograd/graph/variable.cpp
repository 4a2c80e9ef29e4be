// SPDX-License-Identifier: BSD-3-Clause
// History of tensors: leaves, results, views and in-place writes.
#include "autograd/graph/variable.h"

#include <mutex>
#include <numeric>

#include "autograd/graph/copy_slices.h"
#include "autograd/graph/saved_tensor.h"
#include "autograd/graph/shared_writes.h"
#include "autograd/modes/in_use.h"
#include "tensor/sparse.h"

namespace cograd {

AutogradOps autograd_ops;

namespace {

constexpr const char* kAmbiguous =
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be "
    "tracked).";

// Raises torch's error if the view `t` may not be written. `indirect` is true if its base, or
// another view of the base, has been written.
void check_view_kind(const TensorImpl* t, bool indirect) {
  const uint32_t kind = t->flags & kViewKinds;
  if (kind == 0) return;
  const bool multi = (kind & kViewMultiOutput) != 0;
  const bool custom = (kind & kViewCustomFunction) != 0;
  const bool untracked = t->grad_fn == nullptr || !(multi || custom);
  if ((kind & kViewInference) != 0)
    detail::fail(ErrorKind::Runtime, "A view was created in inference mode and ",
                 indirect ? "its base or another view of its base has been" : "is being",
                 " modified inplace in normal mode. Given that this use case is ambiguous and "
                 "error-prone, it is forbidden. You can clarify your code by moving both the view "
                 "and the inplace either both inside the inference_mode block (if you don't want "
                 "the inplace to be tracked) or both outside (if you want the inplace to be "
                 "tracked).");
  std::string head = "A view was created in no_grad mode";
  if (t->grad_fn != nullptr)
    head = detail::concat("Output ", t->output_nr, " of ", t->grad_fn->name(), " is a view",
                          untracked ? " of a view which was created in no_grad mode" : "");
  detail::fail(
      ErrorKind::Runtime, head,
      indirect ? " and its base or another view of its base has been modified inplace"
               : " and is being modified inplace",
      untracked ? " with grad mode enabled." : ".",
      multi ? " This view is the output of a function that returns multiple views. Such functions "
              "do not allow the output views to be modified inplace. You should replace the "
              "inplace operation by an out-of-place one."
      : custom
          ? " This view was created inside a custom Function (or because an input was returned "
            "as-is) and the autograd logic to handle view+inplace would override the custom "
            "backward associated with the custom Function, leading to incorrect gradients. This "
            "behavior is forbidden. You can fix this by cloning the output of the custom Function."
          : kAmbiguous);
}

void note_inplace(const Tensor& t, const char* op) {
  if (!watching(kWatchAllWrites)) return;
  const std::string name = op;
  log_write(t, (name.ends_with('_') ? name : name + "_").c_str());
}

void stop_retaining(Node& n, const TensorImpl* t) noexcept {
  NodeExtra* extra = n.extra_or_null();
  if (extra == nullptr) return;
  const std::lock_guard lock(n);
  std::erase_if(extra->retained, [t](auto& r) { return r.tensor == t; });
}
void start_retaining(Node& n, uint32_t nr, TensorImpl* t) {
  NodeExtra& extra = n.extra();
  const uint32_t scope = transform_hooks.scope_of(n);
  const std::lock_guard lock(n);
  extra.retained.push_back({nr, scope, t});
}

// Removes what refers to `t` without owning it.
[[gnu::noinline, gnu::cold]] void leave_lists(TensorImpl* t) noexcept {
  if ((t->flags & kSharesWrites) != 0) leave_shared_writes(t);
  if ((t->flags & kRetainsGrad) != 0 && t->grad_fn != nullptr) stop_retaining(*t->grad_fn, t);
}

void release_autograd(TensorImpl* t) noexcept {
  if ((t->flags & (kSharesWrites | kRetainsGrad)) != 0) [[unlikely]]
    leave_lists(t);
  if (t->grad_fn != nullptr) std::exchange(t->grad_fn, nullptr)->release();
  if (t->meta != nullptr) {
    AutogradMeta* m = t->meta.take();
    delete m->accumulator.take();
    delete m;
  }
  if (t->base != nullptr) std::exchange(t->base, nullptr)->release();
}

const bool installed = [] {
  tensor_hooks.release_autograd = release_autograd;
  return true;
}();

// Does what replace_history() does, without a call in each recorded write.
[[gnu::always_inline]] inline NodeRef replace_here(TensorImpl* t, Node* owned, uint32_t nr) {
  NodeRef old(t->grad_fn);
  __atomic_store_n(&t->grad_fn, owned, __ATOMIC_RELAXED);
  t->output_nr = nr;
  if (old && (t->flags & kRetainsGrad) != 0) {
    stop_retaining(*old.get(), t);
    if (owned != nullptr) start_retaining(*owned, nr, t);
  }
  return old;
}

// A global spin lock, held for the few instructions in which a view gets its new grad_fn.
class Installing {
 public:
  Installing() noexcept {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Installing() { flag_.clear(std::memory_order_release); }
  Installing(const Installing&) = delete;
  Installing& operator=(const Installing&) = delete;

 private:
  static inline std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

}  // namespace

NodeRef replace_history(TensorImpl* t, Node* owned, uint32_t nr) {
  return replace_here(t, owned, nr);
}

Tensor region_of_base(const Tensor& base, const TensorImpl* t, int64_t bytes) {
  const int64_t offset = bytes / dtype_size(is_complex(t->dtype) ? base.dtype() : t->dtype);
  if (is_complex(base.dtype()) == is_complex(t->dtype))
    return autograd_ops.as_strided(base, t->sizes(), t->strides(), offset);
  if (is_complex(base.dtype()))
    return autograd_ops.as_strided(autograd_ops.parts_of_complex(base), t->sizes(), t->strides(),
                                   offset);
  const PartsGeometry parts(t->sizes(), t->strides());
  return autograd_ops.complex_from_parts(
      autograd_ops.as_strided(base, parts.sizes, parts.strides, offset));
}

namespace {
// True if the view `t` is its base, element by element, as a fixed_view() is: even if elements of
// the base share memory, or if the base has got other data.
bool is_all_of_base(const TensorImpl* t) {
  const TensorImpl* base = t->base;
  if (has_grad_fn(t) || t->dtype != base->dtype || !same(t->sizes(), base->sizes())) return false;
  return t->storage != base->storage ||
         (t->data == base->data && same(t->strides(), base->strides()));
}

// Returns a tensor whose grad_fn connects a view with its base.
Tensor connected_with_base(const TensorImpl* t) {
  const Tensor base = Tensor::borrow(t->base);
  if (!is_all_of_base(t))
    return region_of_base(base, t, t->data - static_cast<char*>(t->storage->data));
  Dims dims(static_cast<size_t>(base.dim()));
  std::iota(dims.begin(), dims.end(), 0);
  return autograd_ops.permute(base, dims);
}
}  // namespace

bool requires_grad_slow(const TensorImpl* t) noexcept {
  return requires_grad(is_batched(t) ? transform_hooks.unchecked_whole(t).impl() : t->base);
}

Node* renewed_grad_fn(TensorImpl* t) {
  if (is_batched(t)) return grad_fn(transform_hooks.physical_tensor(Tensor::borrow(t)).impl());
  if (t->base == nullptr) return shared_history(t);
  if (!has_grad_fn(t) && !requires_grad(t->base)) return nullptr;
  const std::atomic_ref known(t->view_version);
  const uint32_t version = t->current_version();
  if (known.load(std::memory_order_acquire) == version) return t->grad_fn;
  check_view_kind(t, true);
  GradGuard grad(true);
  Tensor fresh = connected_with_base(t);
  NodeRef old;  // released after the lock
  const Installing lock;
  if (known.load(std::memory_order_relaxed) == version) return t->grad_fn;
  old = replace_here(t, std::exchange(fresh->grad_fn, nullptr), 0);
  known.store(version, std::memory_order_release);
  return t->grad_fn;
}

AutogradMeta::AutogradMeta() = default;
AutogradMeta::~AutogradMeta() = default;

AutogradMeta& meta_of(TensorImpl* t) {
  return t->meta.or_make([] { return new AutogradMeta; });
}

namespace {
// Separate functions, so that calls without batched tensors need no stack frame for them.
[[gnu::noinline, gnu::cold]] Edge gradient_edge_of_handle(TensorImpl* t) {
  if (is_sparse(t)) {
    COGRAD_CHECK_NOT_IMPLEMENTED(
        !requires_grad(transform_hooks.sparse_values(Tensor::borrow(t))),
        "a Function does not pass gradients to a sparse tensor that requires grad: pass its "
        "values() and build the sparse tensor inside, or detach() it");
    return {};
  }
  return gradient_edge(transform_hooks.physical_tensor(Tensor::borrow(t)).impl());
}
[[gnu::noinline, gnu::cold]] Tensor detach_handle(const Tensor& t) {
  return transform_hooks.wrapped_like(t, detach(transform_hooks.wrapped_tensor(t)));
}
}  // namespace

AccumulateGrad* accumulator_of(TensorImpl* t) {
  return &meta_of(t).accumulator.or_make([t] { return new AccumulateGrad(t); });
}

Edge gradient_edge(TensorImpl* t) {
  if ((t->flags & (kBatched | kSparse)) != 0) [[unlikely]]
    return gradient_edge_of_handle(t);
  if (Node* fn = grad_fn(t)) {
    fn->retain();
    return {fn, t->output_nr};
  }
  if ((t->flags & kRequiresGrad) == 0) return {};
  Node* n = accumulator_of(t);
  n->retain();
  return {n, 0};
}

void check_inplace(const Tensor& t, const char* op, bool tracked) {
  if (is_batched(t)) [[unlikely]]
    transform_hooks.fail_one_value(op);
  check_not_sparse(t, op);
  TensorImpl* p = t.impl();
  COGRAD_CHECK(!p->storage->read_only, op,
               "(): the tensor shares memory with a read-only buffer and cannot be written; "
               "clone() it first");
  COGRAD_CHECK((p->flags & kInference) == 0 || thread_state.inference, op,
               "(): Inplace update to inference tensor outside InferenceMode is not allowed. You "
               "can make a clone to get a normal tensor before doing inplace update.");
  if (!tracked) return note_inplace(t, op);
  if (p->base != nullptr) check_view_kind(p, false);
  if (!requires_grad(p)) return note_inplace(t, op);
  if (grad_fn(p) == nullptr)
    detail::fail(ErrorKind::Runtime,
                 "a leaf Variable that requires grad is being used in an in-place operation: ", op,
                 "() writes it. Use no_grad(), or write into a clone().");
  if (p->base != nullptr && grad_fn(p->base) == nullptr && (p->base->flags & kRequiresGrad) != 0)
    detail::fail(ErrorKind::Runtime,
                 "a view of a leaf Variable that requires grad is being used in an in-place "
                 "operation: ",
                 op, "() writes it. Use no_grad(), or write into a clone().");
  note_inplace(t, op);
}

namespace {
bool saves_output(Node& n) {
  for (size_t i = 0; i < n.num_saved(); ++i)
    if (n.saved_slot(i)->is_output()) return true;
  return false;
}
}  // namespace

void rebase_history(const Tensor& t, Node* node, uint32_t nr, size_t edge) {
  TensorImpl* p = t.impl();
  if (!is_differentiable(p->dtype)) return;  // a copy into another dtype: no gradient can flow
  p->flags |= kRewritten;
  if (p->base == nullptr) {
    node->set_output(nr, t);
    node->retain();
    replace_here(p, node, nr);
    p->flags &= ~uint32_t{kRequiresGrad};
    if ((p->flags & kSharesWrites) != 0) note_shared_write(p, p, *node);
    return;
  }
  COGRAD_CHECK(node->num_outputs() == 1, "in-place write to a view by ", node->name(),
               ", which has several outputs: write into the base or a clone() instead");
  TensorImpl* base = p->base;
  node->set_output(0, t);
  auto* slices = new CopySlices(Tensor::borrow(base), t, NodeRef::borrow(node), edge);
  slices->set_output(0, Tensor::borrow(base));
  replace_here(base, slices, 0);
  base->flags = (base->flags & ~uint32_t{kRequiresGrad}) | kRewritten;
  if ((base->flags & kSharesWrites) != 0) note_shared_write(base, p, *node);
  p->view_version = p->current_version() - 1;  // outdated, so that the next line renews the grad_fn
  Node* view_node = grad_fn(p);                // created now, from the base's new history
  if (saves_output(*node)) slices->follow(view_node);
}

void set_requires_grad(const Tensor& t, bool value) {
  TensorImpl* p = t.impl();
  if (is_batched(p)) return set_requires_grad(transform_hooks.wrapped_tensor(t), value);
  if (value == requires_grad(p)) return;
  COGRAD_CHECK(!value || is_differentiable(p->dtype),
               "only Tensors of floating point and complex dtype can require gradients, got ",
               dtype_name(p->dtype));
  COGRAD_CHECK(grad_fn(p) == nullptr, "you can only change requires_grad flags of leaf variables.",
               value ? ""
                     : " If you want to use a computed variable in a subgraph that doesn't "
                       "require differentiation use var_no_grad = var.detach().");
  COGRAD_CHECK(!value || (p->flags & kInference) == 0 || thread_state.inference,
               "Setting requires_grad=True on inference tensor outside InferenceMode is not "
               "allowed.");
  p->flags = value ? p->flags | kRequiresGrad : p->flags & ~uint32_t{kRequiresGrad};
}

void retain_grad(const Tensor& t) {
  if (is_batched(t)) return retain_grad(transform_hooks.wrapped_tensor(t));
  COGRAD_CHECK(requires_grad(t), "can't retain_grad on Tensor that has requires_grad=False");
  TensorImpl* p = t.impl();
  Node* fn = grad_fn(p);
  if (fn == nullptr || (p->flags & kRetainsGrad) != 0) return;
  start_retaining(*fn, p->output_nr, p);
  p->flags |= kRetainsGrad;
}

Tensor detach(const Tensor& t) {
  if (is_batched(t)) [[unlikely]]
    return detach_handle(t);
  return Tensor::steal(t->alias());
}

Tensor variable_data(const Tensor& t) {
  if (is_batched(t))
    return transform_hooks.wrapped_like(t, variable_data(transform_hooks.wrapped_tensor(t)));
  TensorImpl* p = t->alias();
  if (p->own_version != nullptr) p->release_own_version();
  p->own_version = new VersionCounter;
  return Tensor::steal(p);
}

namespace {
// Hashes dtype, sizes and contiguity into one number, for the version that saved tensors compare.
uint32_t geometry_number(const TensorImpl* t) noexcept {
  uint64_t n = static_cast<uint64_t>(t->dtype) + 1;
  for (const int64_t size : t->sizes()) {
    n = (n ^ static_cast<uint64_t>(size)) * 0x9E3779B97F4A7C15;
    n ^= n >> 29;
  }
  n *= 0xBF58476D1CE4E5B9;
  const uint32_t layout = (t->flags & kContiguous) != 0 ? 0 : kNotContiguous;
  return static_cast<uint32_t>(n >> 32) + layout;
}
}  // namespace

// Raises if `t.data = s` would give `t` another geometry than its tangent: rules compute the
// geometry once for both.
static void check_tangent_stays(const Tensor& t, const TensorImpl* s) {
  if (!transforms_open() || !transform_hooks.has_tangent(t)) return;
  const bool by_base = t->base != nullptr && (t->base->flags & kDual) != 0;
  COGRAD_CHECK(!by_base && same(t.sizes(), s->sizes()) && t.dtype() == s->dtype &&
                   same(t.strides(), s->strides()),
               "forward AD: x.data = y: x, of shape ", to_string(t.sizes()), " and dtype ",
               dtype_name(t.dtype()),
               ", has a tangent or is a view of a tensor that has one; y must have its shape, "
               "strides and dtype, got ",
               to_string(s->sizes()), " and ", dtype_name(s->dtype),
               ". Give the new values a tangent of their own by make_dual().");
}

// Raises unless `t` is a tensor of its own, whose object `who` may change.
static void check_own_values(const Tensor& t, const char* who) {
  if (is_batched(t)) transform_hooks.fail_batched(who);
  check_not_sparse(t, who);
}

// A leaf may move between the CPU and GPUs. What else refers to the former device, such as a base
// or a grad_fn, would no longer fit.
static bool may_move(const TensorImpl* t, Device to) {
  const auto real = [](Device d) { return d.type != DeviceType::Meta; };
  return real(t->device) && real(to) && t->base == nullptr && t->grad_fn == nullptr;
}

void set_data(const Tensor& tensor, const Tensor& source) {
  const bool fits = tensor->device == source->device || may_move(tensor.impl(), source->device);
  COGRAD_CHECK(fits, "Attempted to call `variable.set_data(tensor)`, ", "but `variable` is on ",
               to_string(tensor->device), " and `tensor` is on ", to_string(source->device),
               ": make a new tensor or Parameter instead");
  TensorImpl* t = tensor.impl();
  const TensorImpl* s = source.impl();
  if (t == s) return;
  for (const Tensor* each : {&tensor, &source}) check_own_values(*each, "x.data = y");
  check_not_in_use(t, "x.data = y", false);
  check_tangent_stays(tensor, s);
  // From here on `t` has its own counter, which continues from the former value.
  auto* version = new VersionCounter;
  version->value.store(t->write_count(), std::memory_order_relaxed);
  version->geometry = (t->own_version != nullptr ? t->own_version->geometry : 0) +
                      geometry_number(s) - geometry_number(t);
  const bool fresh_view = t->base != nullptr && t->view_version == t->current_version();
  const Dims sizes(s->sizes());
  const Dims strides(s->strides());
  s->storage->retain();
  t->storage->release();
  t->storage = s->storage;
  t->data = s->data;
  t->dtype = s->dtype;
  t->device = s->device;
  t->set_ndim(s->ndim);
  std::copy(sizes.begin(), sizes.end(), t->sizes_);
  std::copy(strides.begin(), strides.end(), t->strides_);
  t->refresh_geometry();
  if (t->own_version != nullptr) t->release_own_version();
  t->own_version = version;
  if (fresh_view) t->view_version = t->current_version();
  if (t->meta != nullptr && t->meta->accumulator != nullptr)
    t->meta->accumulator->set_output(0, tensor);
}

void detach_(const Tensor& t) {
  check_own_values(t, "detach_()");
  TensorImpl* p = t.impl();
  COGRAD_CHECK(p->base == nullptr,
               "Can't detach views in-place. Use detach() instead. If you are using "
               "DistributedDataParallel-like code that keeps gradients as views, detach the base.");
  if ((p->flags & kSharesWrites) != 0) note_detach(p);
  replace_history(p, nullptr, 0);
  p->flags &= ~uint32_t{kRequiresGrad | kRetainsGrad};
  transform_hooks.drop_tangents(p);
}

NodeRef add_tensor_hook(const Tensor& t, std::shared_ptr<Hook> hook, uint64_t* id) {
  COGRAD_CHECK(requires_grad(t),
               "cannot register a hook on a tensor that doesn't require gradient");
  if (is_batched(t)) [[unlikely]]
    hook = transform_hooks.hook_on_samples(t, std::move(hook));
  Edge e = gradient_edge(t.impl());
  if (e.node == nullptr) {  // `t` is a view made without recording: no gradient will arrive
    e.node = accumulator_of(t.impl());
    e.node->retain();
  }
  NodeRef node(e.node);
  *id = add_hook(*node.get(), &NodeExtra::tensor_hooks, std::move(hook), e.input_nr);
  return node;
}

bool is_dense(const TensorImpl* t) {
  if ((t->flags & kContiguous) != 0) return true;
  Dims seen;
  int64_t step = 1;
  for (int found = 0; found < t->ndim;) {
    bool advanced = false;
    for (int i = 0; i < t->ndim; ++i) {
      const bool used = std::find(seen.begin(), seen.end(), i) != seen.end();
      if (used || (t->sizes_[i] != 1 && t->strides_[i] != step)) continue;
      step = checked_mul(step, t->sizes_[i]);
      seen.push_back(i);
      ++found;
      advanced = true;
    }
    if (!advanced) return false;
  }
  return true;
}

}  // namespace cograd
