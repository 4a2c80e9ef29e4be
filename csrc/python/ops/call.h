// SPDX-License-Identifier: BSD-3-Clause
// Calls ops from Python: argument parsing and the callable objects made from op records.
#pragma once
#include "api/registration.h"
#include "python/ops/autocast.h"
#include "python/runtime/in_use.h"
#include "python/tensor/tensor.h"

namespace cograd::python {

// Makes a named tuple by tuple.__new__: the class's own __new__ is Python code for user calls.
inline PyObject* named_tuple(py::handle type, const py::tuple& items) {
  PyObject* made = PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(type.ptr()),
                                       py::make_tuple(items).ptr(), nullptr);
  if (made == nullptr) throw_python_error();
  return made;
}

// Returns the type of a rejected argument; for a list of tensors, also its first non-tensor
// element.
std::string described(const ArgInfo& a, PyObject* value);
// Returns the first record with that name and one of `flags`; null if there is none.
const OpRecord* find_op(std::string_view name, uint32_t flags = kFunction | kMethod | kInternal);

inline Value tensor_value(const Tensor& t) noexcept {
  Value v;
  v.set_tensor(t.impl());
  return v;
}
inline Value scalar_value(const Scalar& s) noexcept {
  Value v;
  v.set_scalar(s);
  return v;
}

inline void call_plain(const OpRecord* r, const Value* args, Result& out) {
  if (r->foreign != nullptr) [[unlikely]]
    return api::call_foreign(*r->foreign, args, out);
  const ArgumentsInUse use(r, args);
  r->call(args, out);
}
inline void inplace_plain(const OpRecord* r, const Tensor& self, const Value* args) {
  const ArgumentsInUse use(r, args);
  r->call_inplace(self, args);
}
// Run a record that Python code called; autocast, anomaly mode and the profiler see the call.
void call_watched(const OpRecord* r, const Value* args, Result& out);
void inplace_watched(const OpRecord* r, const Tensor& self, const Value* args);
inline void call_record(const OpRecord* r, const Value* args, Result& out) {
  if (watching(kWatchForward | kWatchProfile | kWatchAutocast)) [[unlikely]]
    return call_watched(r, args, out);
  call_plain(r, args, out);
}
inline void inplace_record(const OpRecord* r, const Tensor& self, const Value* args) {
  if (watching(kWatchForward | kWatchProfile)) [[unlikely]]
    return inplace_watched(r, self, args);
  inplace_plain(r, self, args);
}

// Drops the result of an op during which _stop_after_op was called, and sets the error that this
// was given. The op's end raises it: a C++ exception from a hook inside the op takes longer than
// the op.
[[gnu::cold]] PyObject* stopped(PyObject* made) noexcept;
inline PyObject* or_stopped(PyObject* made) noexcept {
  if (thread_state.stop) [[unlikely]]
    return stopped(made);
  return made;
}

// Calls a record with boxed arguments from C++ code of this layer.
inline Tensor call_op(const OpRecord* r, std::initializer_list<Value> given) {
  Value args[8];
  size_t n = 0;
  for (const Value& v : given) args[n++] = v;
  for (; n < r->args.size(); ++n) args[n] = r->args[n].default_value;
  Result result;
  call_record(r, args, result);
  return std::move(result.tensor);
}

// Returns the callable of a registered op; there is one object per op.
py::object foreign_op_object(const ForeignOp& op);
// Returns an attribute of an op, including the overloads of a registered op `f`; null with an error
// set if there is none.
PyObject* op_attribute(PyObject* op, PyObject* name, const ForeignOp* f);

// Returns the whole op table for tests, stubs and docs: one dict per record.
py::list op_table_list();
// Calls f() and returns the names of the ops that ran.
py::list observed_calls(const py::object& f);
// Returns one dict per parameter.
py::list describe_arguments(const std::vector<ArgInfo>& args);
// Returns the parts of a typed schema; raises ValueError if it cannot be parsed.
py::dict parse_schema(const std::string& text);

PyObject* wrap_result(const OpRecord* r, Result& result);

}  // namespace cograd::python
