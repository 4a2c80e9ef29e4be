// SPDX-License-Identifier: BSD-3-Clause
// Converts the results of ops to Python objects.
#include <map>
#include <string>

#include "python/ops/call.h"

namespace cograd::python {

namespace {
py::object wrapped(PyObject* made) {
  if (made == nullptr) throw_python_error();
  return py::reinterpret_steal<py::object>(made);
}
}  // namespace

PyObject* wrap_result(const OpRecord* r, Result& result) {
  switch (result.kind) {
    case Result::Kind::None:
      Py_RETURN_NONE;
    case Result::Kind::Tensor:
      return wrap(std::move(result.tensor));
    case Result::Kind::Int:
      return PyLong_FromLongLong(result.integer);
    case Result::Kind::Double:
      return PyFloat_FromDouble(result.number);
    case Result::Kind::Bool:
      return PyBool_FromLong(result.truth);
    case Result::Kind::Text: {
      const std::string& text = result.more->text;
      return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
    }
    case Result::Kind::Items: {
      auto& parts = result.more->items;
      py::list list(parts.size());
      for (size_t i = 0; i < parts.size(); ++i) list[i] = wrapped(wrap_result(r, parts[i]));
      return result.more->tuple ? py::tuple(list).release().ptr() : list.release().ptr();
    }
    case Result::Kind::List:
      if (r->foreign != nullptr) {
        py::list list(result.tensors.size());
        for (size_t i = 0; i < result.tensors.size(); ++i)
          list[i] = wrapped(wrap(std::move(result.tensors[i])));
        return list.release().ptr();
      }
      break;
    case Result::Kind::Tuple:
      break;
  }
  py::tuple items(result.tensors.size());
  for (size_t i = 0; i < result.tensors.size(); ++i)
    items[i] = wrapped(wrap(std::move(result.tensors[i])));
  if (r->spec.returns[0] == '\0') return items.release().ptr();
  static std::map<const OpRecord*, py::object> types;
  py::object& type = types[r];
  if (!type) {
    py::object made = py::module_::import("cograd._base.return_types")
                          .attr("make")(r->spec.name, r->spec.returns);
    if (!type) type = std::move(made);  // unless code that ran meanwhile made it
  }
  return named_tuple(type, items);
}

std::string described(const ArgInfo& a, PyObject* value) {
  std::string text = Py_TYPE(value)->tp_name;
  if (a.kind != ArgKind::Tensors || (!PyList_Check(value) && !PyTuple_Check(value))) return text;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    PyObject* element = PySequence_Fast_GET_ITEM(value, i);
    if (is_tensor(element)) continue;
    return text + " (expected Tensor as element " + std::to_string(i) + ", but got " +
           Py_TYPE(element)->tp_name + ")";
  }
  return text;
}

const OpRecord* find_op(std::string_view name, uint32_t flags) {
  for (const OpRecord* r : op_table())
    if (name == r->spec.name && (r->spec.flags & flags) != 0) return r;
  return nullptr;
}

}  // namespace cograd::python
