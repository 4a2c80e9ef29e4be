// SPDX-License-Identifier: BSD-3-Clause
// Forward mode, vmap, and functions for cograd.func. Forward-mode levels are numbered from 0 by
// their depth.
#include <optional>

#include "autograd/run/engine.h"
#include "ops/transform/batching.h"
#include "ops/transform/forward_mode.h"
#include "python/runtime/class.h"
#include "python/runtime/held.h"
#include "transforms/batch.h"
#include "transforms/open_transforms.h"

namespace cograd::python {

namespace {

int current_level() { return static_cast<int>(entered_levels().size()) - 1; }

// Returns an owning reference: user code may leave levels meanwhile.
std::shared_ptr<TangentLevel> level_at(int64_t level) {
  COGRAD_CHECK(level >= 0 && level <= current_level(), "forward AD: there is no level ", level,
               "; the innermost one is ", current_level());
  return entered_levels()[static_cast<size_t>(level)];
}

int enter() {
  enter_level();
  return current_level();
}

void leave(int64_t level) { leave_level(*level_at(level)); }

void leave_innermost(const py::object&) {
  COGRAD_CHECK(current_level() >= 0, "Trying to exit a forward AD level, but none is open.");
  leave(current_level());
}

void check_tangent_size(const Tensor& primal, const Tensor& tangent) {
  COGRAD_CHECK(same(primal.sizes(), tangent.sizes()),
               "Trying to set a forward gradient that has a different size than that of the "
               "original Tensor, this is not supported. Tensor is of size ",
               to_string(primal.sizes()), " while the given forward gradient is of size ",
               to_string(tangent.sizes()), ".");
}

void check_differentiable(const char* name, const Tensor& t) {
  COGRAD_CHECK_VALUE(is_differentiable(t.dtype()), "Expected ", name,
                     " to be floating point or complex, but got: cograd.", dtype_name(t.dtype()));
}

Tensor make_dual(const Tensor& primal, const Tensor& tangent, int64_t level) {
  check_differentiable("primal", primal);
  check_differentiable("tangent", tangent);
  const auto at = level_at(level);
  COGRAD_CHECK(is_complex(primal.dtype()) || is_real(tangent.dtype()),
               "forward AD: the tangent of a real tensor (", dtype_name(primal.dtype()),
               ") is real, got one of dtype ", dtype_name(tangent.dtype()),
               ", whose imaginary part would be lost");
  if (is_batched(primal) || is_batched(tangent)) {
    check_tangent_size(primal, tangent);
    // In a single vmap the primal may be shared by all samples of its tangent; in nested vmaps it
    // gets the same samples as the tangent.
    const bool nested = is_batched(primal) || thread_state.vmaps > 1;
    const Tensor own = nested ? batched_like_levels_of(tangent, primal) : primal;
    if (is_batched(own))
      return batched_like(own, make_dual(physical_tensor(own), physical_like(own, tangent), level));
  }
  COGRAD_CHECK(!transformed(primal) || !tangent_of(primal, at->id()).defined(),
               "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
               "same level ",
               level, " is not supported.");
  Tensor dual = alias(primal);
  if (!thread_state.inference) set_tangent(dual, at, tangent);
  return dual;
}

py::object unpack_dual(const Tensor& dual, int64_t level) {
  const auto at = level_at(level);
  const Tensor& memory = physical_tensor(dual);
  const bool look = transformed(memory) && !thread_state.inference;
  const Tensor tangent = look ? tangent_of(memory, at->id()) : Tensor();
  if (!tangent.defined()) return py::make_tuple(dual, py::none());
  const LevelsBelow mask(at->id());
  return py::make_tuple(batched_like(dual, values_of(memory)), batched_like(dual, tangent));
}

// Returns the innermost visible tangent, for printing; None if there is none.
py::object tangent_to_show(const Tensor& t) {
  if (!transformed(t) || is_batched(t)) return py::none();
  const auto level = tangent_level(t);
  if (level == nullptr) return py::none();
  return py::cast(tangent_of(t, level->id()));
}

// Returns the previous state for restore_forward_mode. Inside a rule it stays below the rule's
// level.
LevelId set_forward_mode(bool on) {
  const LevelId before = thread_state.max_visible_level;
  if (!on)
    thread_state.max_visible_level = 0;
  else if (before == 0)
    thread_state.max_visible_level = ~LevelId{0};
  return before;
}
void restore_forward_mode(LevelId before) { thread_state.max_visible_level = before; }

void enter_forward_mode(const py::object& manager) {
  const bool on = py::cast<bool>(manager.attr("mode"));
  manager.attr("before") = thread_state.max_visible_level;
  set_forward_mode(on);
}
void exit_forward_mode(const py::object& manager) {
  restore_forward_mode(py::cast<LevelId>(manager.attr("before")));
}

// --- vmap --------------------------------------------------------------------------------------

uint64_t begin_vmap(int64_t size, const std::string& randomness) {
  COGRAD_CHECK(randomness == "error" || randomness == "different" || randomness == "same",
               "Only allowed values for randomness are 'error', 'different', or 'same'. Got ",
               randomness);
  return enter_vmap(size, randomness == "error"       ? Randomness::Error
                          : randomness == "different" ? Randomness::Different
                                                      : Randomness::Same);
}

Tensor add_batch_dim(const Tensor& t, int64_t dim, uint64_t level) {
  const int d = wrap_dim(dim, t.dim());
  COGRAD_CHECK_VALUE(t.dim() > 0, "vmap: a 0-dim tensor has no dim to map over");
  COGRAD_CHECK(
      batch_level(t) < level,
      "vmap: a result is a batched tensor of this vmap already: pass every batched tensor that a "
      "Function's forward uses as an argument");
  const int64_t samples = vmap_level(level, "vmap").size;
  COGRAD_CHECK_VALUE(t.size(d) == samples, "vmap: dim ", d, " of a tensor of shape ",
                     to_string(t.sizes()), " has ", t.size(d), " samples, expected ", samples);
  // Use an alias if nothing leads back to `t`: if a sample requires grad, the caller's tensor must
  // not.
  const bool plain = !is_batched(t) && !requires_grad(t) && !transformed(t);
  return make_batched(plain ? detach(t) : t, d, level);
}

// Returns `t` with its samples in `dim`; repeats a tensor that is not batched at this level.
Tensor move_batch_dim(const Tensor& t, int64_t dim, uint64_t level, int64_t size) {
  const int d = wrap_dim(dim, t.dim() + 1);
  COGRAD_CHECK(batch_level(t) <= level,
               "vmap: a result is a batched tensor of an inner vmap that has ended");
  const Tensor all = batch_level(t) == level ? batch_dim_first(t) : expand_samples(t, level, size);
  if (d == 0) return all;
  Dims order;
  for (int i = 1; i < all.dim(); ++i) order.push_back(i);
  order.insert(static_cast<size_t>(d), 0);
  return autograd_ops.permute(all, order);
}

// Returns (level, dim, physical tensor) for a batched tensor, None for others.
py::object describe_batched(const Tensor& t) {
  if (!is_batched(t)) return py::none();
  return py::make_tuple(batch_level(t), batch_dim(t), wrapped_tensor(t));
}

std::vector<Tensor> tensors_of(const py::object& list) {
  const auto items = py::reinterpret_borrow<py::tuple>(held_sequence(list.ptr()));
  std::vector<Tensor> found;
  for (const py::handle h : items) {
    if (!is_tensor(h.ptr())) throw py::type_error("expected a sequence of Tensors");
    found.push_back(unwrap(h.ptr()));
  }
  return found;
}

// Makes a leaf input for a function under reverse mode that has no other history; inside vmaps each
// sample has its own.
Tensor new_leaf(const Tensor& value) {
  const Tensor own = batched_over_all(recordable(value));
  const Tensor leaf = without_history(physical_tensor(own));
  set_requires_grad(leaf, true);
  return batched_like(own, leaf);
}

// Transforms enter these scopes, which are context managers in C++: an interrupt finds each of them
// either entered or not.
class VmapScope {
 public:
  VmapScope(int64_t size, std::string randomness)
      : size_(size), randomness_(std::move(randomness)) {}
  ~VmapScope() { exit(); }
  VmapScope(const VmapScope&) = delete;
  VmapScope& operator=(const VmapScope&) = delete;
  uint64_t enter() {
    COGRAD_CHECK(level_ == 0, "a vmap scope can be entered only once");
    return level_ = begin_vmap(size_, randomness_);
  }
  void exit() {
    if (const LevelId level = std::exchange(level_, 0); level != 0) leave_vmap(level);
  }

 private:
  int64_t size_;
  std::string randomness_;
  LevelId level_ = 0;
};

class ForwardLevel {
 public:
  ForwardLevel() = default;
  ForwardLevel(const ForwardLevel&) = delete;
  ForwardLevel& operator=(const ForwardLevel&) = delete;
  int enter() {
    COGRAD_CHECK(level_ == nullptr, "a forward-mode level can be entered only once");
    before_ = set_forward_mode(true);
    level_ = enter_level();
    return current_level();
  }
  void exit() {
    if (level_ == nullptr) return;
    restore_forward_mode(before_);
    leave_level(*std::exchange(level_, nullptr));
  }

 private:
  LevelId before_ = 0;
  std::shared_ptr<TangentLevel> level_;
};

// The scope in which a transform's function runs. With `reverse`, ops are recorded whatever the
// modes outside.
class FunctionScope {
 public:
  FunctionScope(const py::object& may_write, bool reverse)
      : may_write_(tensors_of(may_write)), reverse_(reverse) {}
  FunctionScope(const FunctionScope&) = delete;
  FunctionScope& operator=(const FunctionScope&) = delete;
  void enter() {
    COGRAD_CHECK(!std::exchange(entered_, true), "a function's scope can be entered only once");
    enter_function(may_write_);
    number = innermost_function();
    tracking = thread_state.grad_enabled;
    inference_ = std::exchange(thread_state.inference, false);
    thread_state.grad_enabled |= reverse_;
  }
  void exit() {
    if (!std::exchange(entered_, false)) return;
    leave_function();
    thread_state.grad_enabled = tracking;
    thread_state.inference = inference_;
  }
  bool tracking = false;  // true if code outside records, too
  uint32_t number = 0;    // number of the function

 private:
  std::vector<Tensor> may_write_;
  bool reverse_;
  bool inference_ = false, entered_ = false;
};

// Restores the transforms that were open in a checkpoint's forward while it is recomputed.
class TransformsAs {
 public:
  explicit TransformsAs(OpenTransforms then) : then_(std::move(then)) {}
  void enter() {
    COGRAD_CHECK(!only_.has_value(), "saved transforms can be entered only once");
    only_.emplace(then_);
  }
  void exit() { only_.reset(); }

 private:
  OpenTransforms then_;
  std::optional<OnlyTransforms> only_;
};

}  // namespace

void init_transforms(py::module_& m) {
  py::class_<VmapScope> vmap_scope(m, "_VmapScope");
  forbid_new(vmap_scope);
  vmap_scope.def("__enter__", [](VmapScope& s) { return s.enter(); })
      .def("__exit__", [](VmapScope& s, const py::args&) { s.exit(); });
  m.def("_vmap_scope", [](int64_t size, const py::str& randomness) {
    return std::make_unique<VmapScope>(size, utf8_text(randomness.ptr(), "vmap(): randomness"));
  });
  py::class_<ForwardLevel> forward_level(m, "_ForwardLevel");
  forbid_new(forward_level);
  forward_level.def("__enter__", [](ForwardLevel& s) { return s.enter(); })
      .def("__exit__", [](ForwardLevel& s, const py::args&) { s.exit(); });
  m.def("_forward_level", [] { return std::make_unique<ForwardLevel>(); });
  py::class_<FunctionScope> function_scope(m, "_FunctionScope");
  forbid_new(function_scope);
  function_scope
      .def("__enter__",
           [](const py::object& self) {
             self.cast<FunctionScope&>().enter();
             return self;
           })
      .def("__exit__", [](FunctionScope& s, const py::args&) { s.exit(); })
      .def_readonly("tracking", &FunctionScope::tracking)
      .def_readonly("number", &FunctionScope::number);
  m.def("_function_scope", [](const py::object& may_write, bool reverse) {
    return std::make_unique<FunctionScope>(may_write, reverse);
  });
  const py::class_<OpenTransforms> open_transforms(m, "_OpenTransforms");
  forbid_new(open_transforms);
  m.def("_open_transforms", &OpenTransforms::now);
  py::class_<TransformsAs> transforms_as(m, "_TransformsAs");
  forbid_new(transforms_as);
  transforms_as.def("__enter__", &TransformsAs::enter)
      .def("__exit__", [](TransformsAs& t, const py::args&) { t.exit(); });
  m.def("_transforms_as",
        [](const OpenTransforms& then) { return std::make_unique<TransformsAs>(then); });
  m.def("_within_function", &within_function);
  m.def("_set_function_inputs",
        [](const py::object& inputs) { set_function_inputs(tensors_of(inputs)); });
  m.def("_function_of", [](const py::object& tensors) -> uint32_t {
    for (const Tensor& t : tensors_of(tensors))
      if (Node* n = grad_fn(physical_tensor(t).impl())) return scope_of(*n);
    return 0;
  });
  m.def("_run_serves", &run_serves);
  m.def("_recordable", &recordable);
  m.def("_dual_level", &current_level);
  m.def("_enter_dual_level", &enter);
  m.def("_exit_dual_level", &leave);
  m.attr("_enter_dual_block") = enter_method([](const py::object&) { return enter(); });
  m.attr("_exit_dual_block") = exit_method(&leave_innermost);
  m.def("_make_dual", &make_dual);
  m.def("_unpack_dual", &unpack_dual);
  m.def("_tangent_to_show", &tangent_to_show);
  m.attr("_enter_forward_mode") = enter_method(&enter_forward_mode);
  m.attr("_exit_forward_mode") = exit_method(&exit_forward_mode);
  m.def("_add_samples", &add_batch_dim);
  m.def("_take_samples", &move_batch_dim);
  m.def("_describe_samples", &describe_batched);
  m.def("_tell_of_loops", &tell_of_loops);
  m.def("_vmap_depth", [] { return vmap_levels().size(); });
  m.def("_backward_within_vmaps", &backward_within_vmaps);
  m.def("_new_leaf", &new_leaf);
  m.def("_leads_to_leaf", [](const py::object& from, const py::object& apart_from) {
    return leads_to_leaf(tensors_of(from), tensors_of(apart_from));
  });
  m.def("_released", &released);
  m.def("_own_samples", &batched_over_all);
  m.def("_batched_like",
        [](const Tensor& handle, const Tensor& whole) { return batched_like(handle, whole); });
  m.def("_is_forward_mode", [] { return thread_state.max_visible_level != 0; });
}

}  // namespace cograd::python
