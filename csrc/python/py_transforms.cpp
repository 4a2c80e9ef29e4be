// SPDX-License-Identifier: BSD-3-Clause
// Forward mode, as cograd.autograd.forward_ad uses it, and what cograd.func needs. Levels are
// numbered from 0 by their depth.
#include "autograd/function_scope.h"
#include "autograd/levels.h"
#include "ops/transform/forward_mode.h"
#include "python/py_tensor.h"

namespace cograd::python {

namespace {

int current_level() { return static_cast<int>(entered_levels().size()) - 1; }

// A reference of our own: user code may leave levels meanwhile.
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

Tensor make_dual(const Tensor& primal, const Tensor& tangent, int64_t level) {
  const auto at = level_at(level);
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
  const Tensor tangent =
      transformed(dual) && !thread_state.inference ? tangent_of(dual, at->id()) : Tensor();
  if (!tangent.defined()) return py::make_tuple(dual, py::none());
  const LevelsBelow mask(at->id());
  return py::make_tuple(values_of(dual), tangent);
}

// The innermost tangent that is seen here, for printing.
py::object tangent_to_show(const Tensor& t) {
  if (!transforms_open() || !transformed(t)) return py::none();
  const auto level = tangent_level(t);
  if (level == nullptr) return py::none();
  return py::cast(tangent_of(t, level->id()));
}

bool set_forward_mode(bool on) {
  const LevelId before = std::exchange(thread_state.ceiling, on ? ~LevelId{0} : 0);
  return before != 0;
}

std::vector<Tensor> tensors_of(const py::sequence& sequence) {
  std::vector<Tensor> found;
  for (const py::handle h : sequence) {
    if (!is_tensor(h.ptr())) throw py::type_error("expected a sequence of Tensors");
    found.push_back(unwrap(h.ptr()));
  }
  return found;
}

// An input of a function under reverse mode that nothing else leads to.
Tensor new_leaf(const Tensor& value) {
  Tensor leaf = without_history(value);
  set_requires_grad(leaf, true);
  return leaf;
}

}  // namespace

void init_transforms(py::module_& m) {
  m.def("_dual_level", &current_level);
  m.def("_enter_dual_level", &enter);
  m.def("_exit_dual_level", &leave);
  m.def("_make_dual", &make_dual);
  m.def("_unpack_dual", &unpack_dual);
  m.def("_tangent_to_show", &tangent_to_show);
  m.def("_set_forward_mode", &set_forward_mode);
  m.def("_enter_function", [](const py::sequence& may_write) {
    enter_function(tensors_of(may_write));
  });
  m.def("_leave_function", &leave_function);
  m.def("_new_leaf", &new_leaf);
  m.def("_leads_to_leaf", [](const py::sequence& from, const py::sequence& apart_from) {
    return leads_to_leaf(tensors_of(from), tensors_of(apart_from));
  });
  m.def("_released", &released);
  m.def("_is_forward_mode", [] { return thread_state.ceiling != 0; });
}

}  // namespace cograd::python
