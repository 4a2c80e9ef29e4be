// SPDX-License-Identifier: BSD-3-Clause
// Runs optimizer steps: gathers parameters, gradients and state from Python's lists and dicts.
#include "python/ops/optim.h"

#include <vector>

#include "autograd/modes/watch.h"
#include "ops/optim/step.h"
#include "python/exchange/interop.h"
#include "python/ops/overrides.h"
#include "python/runtime/held.h"

namespace cograd::python {

namespace {

struct Request {
  std::string op;
  OptimRule rule;
  PyObject* state;
  PyObject* names;  // a tuple of str: the counters, then the tensors of the parameter's size
  std::vector<double> options;
};

// Returns a tensor from a parameter's dict, or an undefined one.
Tensor of_dict(PyObject* dict, PyObject* name) {
  PyObject* value = PyDict_GetItemWithError(dict, name);
  if (value == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
  if (value == nullptr || !is_tensor(value)) return Tensor();
  return unwrap(value);
}

// Reads the state into `item`; returns false if a part of it is missing.
bool take_state(const Request& r, PyObject* param, OptimItem& item, int counters, int states) {
  if (counters + states == 0) return true;
  PyObject* dict = PyDict_GetItemWithError(r.state, param);
  if (dict == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
  if (dict == nullptr || !PyDict_Check(dict)) return false;
  const py::object held = py::reinterpret_borrow<py::object>(dict);
  for (int i = 0; i < counters + states; ++i) {
    Tensor t = of_dict(dict, PyTuple_GET_ITEM(r.names, i));
    if (!t.defined()) return false;
    (i < counters ? item.counters[i] : item.state[i - counters]) = std::move(t);
  }
  return true;
}

// Runs optim_step and records its time if a profile is being made.
bool run_step(const Request& r, std::vector<OptimItem>& items) {
  const int64_t begin = watching(kWatchProfile) ? now_ns() : 0;
  const bool done = optim_step(r.op.c_str(), r.rule, items, r.options);
  if (begin != 0 && done) add_profile_event({ProfileEvent::Kind::Op, r.op, 0, begin, now_ns()});
  return done;
}

// True if Python code can observe calls with objects of this type. `known` caches a type that
// cannot be observed.
bool can_override(PyTypeObject* type, PyTypeObject*& known) {
  if (!overrides_possible || type == tensor_type || type == known) return false;
  if (type_overrides(type)) return true;
  known = type;
  return false;
}

// Returns True if the step was done, False if the Python formula must do it, or the list of
// parameters whose state must be created first.
py::object step(const Request& r, PyObject* params, const py::list& fresh) {
  const int counters = optim_counters(r.rule), states = optim_states(r.rule, r.options);
  COGRAD_CHECK(PyTuple_GET_SIZE(r.names) == counters + states, r.op, "(): expected ",
               counters + states, " names of state, got ", PyTuple_GET_SIZE(r.names));
  if (overrides_possible && modes_active()) return py::bool_(false);
  const HeldItems held(params);
  PyTypeObject* plain_type = nullptr;
  std::vector<OptimItem> items;
  items.reserve(held.size());
  py::list missing;
  size_t next_fresh = 0;
  for (Py_ssize_t i = 0; i < held.ssize(); ++i) {
    PyObject* o = held[i];
    if (!is_tensor(o) || can_override(Py_TYPE(o), plain_type)) return py::bool_(false);
    const Tensor& param = unwrap(o);
    if (is_batched(param)) return py::bool_(false);
    Tensor grad = grad_of(param.impl());
    if (!grad.defined()) continue;
    OptimItem& item = items.emplace_back();
    item.param = param;
    item.grad = std::move(grad);
    if (!take_state(r, o, item, counters, states)) missing.append(py::handle(o));
    if (next_fresh < fresh.size() && fresh[next_fresh].ptr() == o) {
      item.fresh = true;
      ++next_fresh;
    }
  }
  if (!missing.empty()) return missing;
  return py::bool_(run_step(r, items));
}

PyObject* optim_step_call(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    COGRAD_CHECK_TYPE(n == 7 && PyUnicode_Check(args[0]) && PyLong_Check(args[1]) &&
                          PyList_Check(args[2]) && PyDict_Check(args[3]) &&
                          PyTuple_Check(args[4]) && PyTuple_Check(args[5]) && PyList_Check(args[6]),
                      "_optim_step(): expected (str, int, list, dict, tuple, tuple, list)");
    const long rule = PyLong_AsLong(args[1]);
    COGRAD_CHECK(rule >= 0 && rule < static_cast<long>(OptimRule::kCount),
                 "_optim_step(): there is no rule ", rule);
    Request r{py::cast<std::string>(args[0]), static_cast<OptimRule>(rule), args[3], args[4], {}};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[5]); ++i) {
      r.options.push_back(PyFloat_AsDouble(PyTuple_GET_ITEM(args[5], i)));
      if (PyErr_Occurred() != nullptr) throw_python_error();
    }
    return step(r, args[2], py::reinterpret_borrow<py::list>(args[6])).release().ptr();
  });
}

PyMethodDef functions[] = {
    {"_optim_step", COGRAD_FASTCALL(optim_step_call), METH_FASTCALL,
     "_optim_step(op, rule, params, state, names, options, fresh)\n--\n\nRuns an optimizer step "
     "over all parameters that have a gradient."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_optim(py::module_& m) { add_functions(m, functions); }

}  // namespace cograd::python
