// SPDX-License-Identifier: BSD-3-Clause
// Runs the op of an optimizer's step: gathers its tensors and options from Python's lists and
// dicts.
#include "python/ops/optim.h"

#include <map>
#include <vector>

#include "autograd/modes/watch.h"
#include "python/exchange/interop.h"
#include "python/ops/call.h"
#include "python/ops/overrides.h"
#include "python/runtime/held.h"

namespace cograd::python {

namespace {

using TensorLists = std::vector<std::vector<Tensor>>;

struct Request {
  std::string name;  // of the event in a profile: "Adam.step"
  const OpRecord& op;
  PyObject* state;    // a dict: parameter -> its dict
  PyObject* columns;  // a tuple: for each list of state its key in these dicts, or None if unused
  PyObject* group;    // the options
  PyObject* keys;     // a tuple: for each option its key in the group, or (key, position)
};

// The op's parameters in their order: params, grads, lists of state, options, and for some ops the
// positions of new parameters.
struct Arguments {
  TensorLists lists;
  std::vector<Value> options;
  std::vector<int64_t> created;
};

const OpRecord& step_op(PyObject* name) {
  static auto* known = new std::map<std::string, const OpRecord*, std::less<>>;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) throw_python_error();
  if (const auto at = known->find(std::string_view(text)); at != known->end()) return *at->second;
  const OpRecord* op = find_op(text, kInternal);
  COGRAD_CHECK(op != nullptr, "_optim_step(): there is no op ", text);
  known->emplace(text, op);
  return *op;
}

Value option_of(const ArgInfo& parameter, PyObject* group, PyObject* key) {
  const bool part = PyTuple_Check(key) != 0;
  PyObject* name = part ? PyTuple_GET_ITEM(key, 0) : key;
  py::object o = py::reinterpret_steal<py::object>(PyObject_GetItem(group, name));
  if (o && part)
    o = py::reinterpret_steal<py::object>(PyObject_GetItem(o.ptr(), PyTuple_GET_ITEM(key, 1)));
  if (!o) throw_python_error();
  if (is_tensor(o.ptr())) o = o.attr("item")();
  Value v;
  if (parameter.kind == ArgKind::Bool) {
    const int truth = PyObject_IsTrue(o.ptr());
    if (truth < 0) throw_python_error();
    v.set_truth(truth == 1);
    return v;
  }
  v.set_number(PyFloat_AsDouble(o.ptr()));
  if (PyErr_Occurred() != nullptr) throw_python_error();
  return v;
}

// Returns a tensor from a parameter's dict, or an undefined one.
Tensor of_dict(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
  if (value == nullptr || !is_tensor(value)) return Tensor();
  return unwrap(value);
}

// Appends a parameter's state to the lists; returns false if a part of it is missing.
bool take_state(const Request& r, PyObject* param, TensorLists& lists) {
  py::object dict;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(r.columns); ++i) {
    PyObject* key = PyTuple_GET_ITEM(r.columns, i);
    if (key == Py_None) continue;
    if (!dict) {
      PyObject* found = PyDict_GetItemWithError(r.state, param);
      if (found == nullptr && PyErr_Occurred() != nullptr) throw_python_error();
      if (found == nullptr || !PyDict_Check(found)) return false;
      dict = py::reinterpret_borrow<py::object>(found);
    }
    Tensor t = of_dict(dict.ptr(), key);
    if (!t.defined()) return false;
    lists[static_cast<size_t>(i) + 2].push_back(std::move(t));
  }
  return true;
}

// True if Python code can observe calls with objects of this type. `known` caches a type that
// cannot be observed.
bool can_override(PyTypeObject* type, PyTypeObject*& known) {
  if (!overrides_possible || type == tensor_type || type == known) return false;
  if (type_overrides(type)) return true;
  known = type;
  return false;
}

// Runs the op as a call from Python; a profile gets an event with the optimizer's name, too.
bool call_step(const Request& r, const Arguments& a) {
  std::vector<Value> values;
  values.reserve(r.op.args.size());
  for (const std::vector<Tensor>& list : a.lists)
    values.emplace_back().set_list(COGRAD_TENSORS, list.data(), list.size());
  values.insert(values.end(), a.options.begin(), a.options.end());
  if (values.size() < r.op.args.size())
    values.emplace_back().set_list(COGRAD_INTS, a.created.data(), a.created.size());
  const int64_t begin = watching(kWatchProfile) ? now_ns() : 0;
  Result result;
  call_record(&r.op, values.data(), result);
  if (begin != 0 && result.truth)
    add_profile_event({ProfileEvent::Kind::Op, r.name, 0, begin, now_ns()});
  return result.truth;
}

// Raises unless the op has the parameters that `columns` and `keys` are for.
void check_parameters(const Request& r, size_t lists, size_t options) {
  const std::vector<ArgInfo>& args = r.op.args;
  size_t wanted = 0;
  while (wanted < args.size() && args[wanted].kind == ArgKind::Tensors) ++wanted;
  const size_t rest = args.size() - wanted - (args.back().kind == ArgKind::Ints ? 1 : 0);
  COGRAD_CHECK(lists == wanted && options == rest && r.op.result == Result::Kind::Bool,
               "_optim_step(): ", r.op.spec.name, " has ", wanted, " lists and ", rest,
               " options, got ", lists, " and ", options);
}

// Returns True if the step was done, False if the Python formula must do it, None if the parameters
// are on several devices, or the list of parameters whose state must be created first.
py::object step(const Request& r, PyObject* params, const py::list& created) {
  Arguments a;
  a.lists.resize(static_cast<size_t>(PyTuple_GET_SIZE(r.columns)) + 2);
  const auto options = static_cast<size_t>(PyTuple_GET_SIZE(r.keys));
  check_parameters(r, a.lists.size(), options);
  for (size_t i = 0; i < options; ++i)
    a.options.push_back(option_of(r.op.args[a.lists.size() + i], r.group,
                                  PyTuple_GET_ITEM(r.keys, static_cast<Py_ssize_t>(i))));
  if (overrides_possible && modes_active()) return py::bool_(false);
  const HeldItems held(params);
  PyTypeObject* plain_type = nullptr;
  for (size_t i = 0; i < a.lists.size(); ++i)
    if (i < 2 || PyTuple_GET_ITEM(r.columns, static_cast<Py_ssize_t>(i) - 2) != Py_None)
      a.lists[i].reserve(held.size());
  py::list missing;
  const size_t num_created = created.size();
  for (Py_ssize_t i = 0; i < held.ssize(); ++i) {
    PyObject* o = held[i];
    if (!is_tensor(o) || can_override(Py_TYPE(o), plain_type)) return py::bool_(false);
    const Tensor& param = unwrap(o);
    if (is_batched(param)) return py::bool_(false);
    Tensor grad = grad_of(param.impl());
    if (!grad.defined()) continue;
    if (!a.lists[0].empty() && param->device != a.lists[0][0]->device) return py::none();
    if (a.created.size() < num_created && created[a.created.size()].ptr() == o)
      a.created.push_back(static_cast<int64_t>(a.lists[0].size()));
    a.lists[0].push_back(param);
    a.lists[1].push_back(std::move(grad));
    if (!take_state(r, o, a.lists)) missing.append(py::handle(o));
  }
  if (!missing.empty()) return missing;
  return py::bool_(call_step(r, a));
}

PyObject* optim_step_call(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    COGRAD_CHECK_TYPE(n == 8 && PyUnicode_Check(args[0]) && PyUnicode_Check(args[1]) &&
                          PyList_Check(args[2]) && PyDict_Check(args[3]) &&
                          PyTuple_Check(args[4]) && PyDict_Check(args[5]) &&
                          PyTuple_Check(args[6]) && PyList_Check(args[7]),
                      "_optim_step(): expected (str, str, list, dict, tuple, dict, tuple, list)");
    const Request r{
        py::cast<std::string>(args[0]), step_op(args[1]), args[3], args[4], args[5], args[6]};
    return step(r, args[2], py::reinterpret_borrow<py::list>(args[7])).release().ptr();
  });
}

PyMethodDef functions[] = {
    {"_optim_step", COGRAD_FASTCALL(optim_step_call), METH_FASTCALL,
     "_optim_step(name, op, params, state, columns, group, keys, created)\n--\n\nRuns the op of an "
     "optimizer's step over all parameters that have a gradient."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_optim(py::module_& m) { add_functions(m, functions); }

}  // namespace cograd::python
