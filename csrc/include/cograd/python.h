// SPDX-License-Identifier: BSD-3-Clause
// For extensions that are pybind11 modules: PYBIND11_MODULE(COGRAD_EXTENSION_NAME, m). Tensor,
// Scalar, DType, Device and lists of tensors or numbers can be arguments and results, and errors
// keep their Python exception classes. An op without pybind11 only needs extension.h.
#pragma once
// pybind11's standard headers are included first, so that they keep the user's optimisation level.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <forward_list>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <stack>
#include <string>
#include <thread>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <valarray>
#include <variant>
#include <vector>

#include "cograd/extension.h"

// GCC spends most of a module's build on pybind11's templates. At -O1 the build takes a quarter
// less time, and a call of 600 ns costs 2 % more. Other code keeps its optimisation level.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC push_options
#pragma GCC optimize("O1")
#define COGRAD_GLUE_OPTIONS_PUSHED
#endif
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace cograd {
inline namespace abi1 {
namespace ext {

// Returns the functions that cograd's Python module provides; imports the module if needed.
inline const cograd_python_bridge& bridge() {
  const cograd_python_bridge* b = cograd_python();
  if (b == nullptr) {
    pybind11::module_::import("cograd");
    b = cograd_python();
  }
  if (b == nullptr) throw pybind11::import_error("cograd is not importable");
  return *b;
}

inline void translate(std::exception_ptr p) {
  try {
    if (p) std::rethrow_exception(p);
  } catch (const Error& e) {
    cograd_error_set(static_cast<cograd_status>(e.kind()) + 1, e.message().data(),
                     e.message().size(), e.token());
    bridge().raise();
  }
}
// True if the entry point of a module may run; otherwise sets ImportError.
COGRAD_API inline bool may_import() {
  const char* version = Py_GetVersion();
  char* end = nullptr;
  const long python_major = std::strtol(version, &end, 10);
  if (python_major != PY_MAJOR_VERSION || std::strtol(end + 1, nullptr, 10) != PY_MINOR_VERSION) {
    PyErr_Format(PyExc_ImportError, "this module was compiled for Python %d.%d, but this is %s",
                 PY_MAJOR_VERSION, PY_MINOR_VERSION, version);
    return false;
  }
  int32_t major = 0, minor = 0;
  cograd_abi_version(&major, &minor);
  if (major != COGRAD_ABI_MAJOR || minor < COGRAD_ABI_MINOR) {
    PyErr_Format(PyExc_ImportError,
                 "this module was built for cograd's ABI %d.%d, but this cograd (%s) has ABI "
                 "%d.%d; rebuild it with this cograd, or install the cograd it was built with",
                 COGRAD_ABI_MAJOR, COGRAD_ABI_MINOR, cograd_version(), static_cast<int>(major),
                 static_cast<int>(minor));
    return false;
  }
  if (refusals().empty()) return true;
  PyErr_SetString(PyExc_ImportError, refusals().c_str());
  return false;
}

// Registers the translator when the module is loaded; an import holds the interpreter lock then.
inline const bool translated = (pybind11::register_local_exception_translator(translate), true);

}  // namespace ext
}  // namespace abi1
}  // namespace cograd

// PYBIND11_MODULE runs this first in its entry point, the only place that can refuse an import.
#undef PYBIND11_CHECK_PYTHON_VERSION
#define PYBIND11_CHECK_PYTHON_VERSION \
  if (!::cograd::ext::may_import()) return nullptr;

namespace pybind11::detail {

template <>
struct type_caster<cograd::Tensor> {
  PYBIND11_TYPE_CASTER(cograd::Tensor, const_name("cograd.Tensor"));
  bool load(handle src, bool) {
    if (src.is_none()) return true;
    cograd_tensor t = nullptr;
    if (cograd::ext::bridge().unwrap_tensor(src.ptr(), &t) == 0) return false;
    value = cograd::Tensor::borrow(t);
    return true;
  }
  static handle cast(const cograd::Tensor& t, return_value_policy, handle) {
    if (!t.defined()) return none().release();
    auto* o = static_cast<PyObject*>(cograd::ext::bridge().wrap_tensor(t.handle()));
    if (o == nullptr) throw error_already_set();
    return o;
  }
};

template <>
struct type_caster<cograd::variable_list> : list_caster<cograd::variable_list, cograd::Tensor> {};

template <>
struct type_caster<cograd::TensorList> {
  PYBIND11_TYPE_CASTER(cograd::TensorList, const_name("list[cograd.Tensor]"));
  bool load(handle src, bool convert) {
    if (!list_.load(src, convert)) return false;
    tensors_ = cast_op<std::vector<cograd::Tensor>>(std::move(list_));
    value = cograd::TensorList(tensors_);
    return true;
  }
  static handle cast(cograd::TensorList l, return_value_policy p, handle parent) {
    return make_caster<std::vector<cograd::Tensor>>::cast(l.vec(), p, parent);
  }

 private:
  make_caster<std::vector<cograd::Tensor>> list_;
  std::vector<cograd::Tensor> tensors_;
};

template <>
struct type_caster<cograd::IntArrayRef> {
  PYBIND11_TYPE_CASTER(cograd::IntArrayRef, const_name("list[int]"));
  bool load(handle src, bool convert) {
    make_caster<std::vector<int64_t>> list;
    if (!list.load(src, convert)) return false;
    ints_ = cast_op<std::vector<int64_t>>(std::move(list));
    value = cograd::IntArrayRef(ints_);
    return true;
  }
  static handle cast(cograd::IntArrayRef l, return_value_policy p, handle parent) {
    return make_caster<std::vector<int64_t>>::cast(l.vec(), p, parent);
  }

 private:
  std::vector<int64_t> ints_;
};

template <>
struct type_caster<cograd::Scalar> {
  PYBIND11_TYPE_CASTER(cograd::Scalar, const_name("float"));
  bool load(handle src, bool) {
    cograd_value v;
    if (cograd::ext::bridge().unwrap_number(src.ptr(), &v) == 0) return false;
    value = cograd::ext::Argument<cograd::Scalar>::get(v);
    return true;
  }
  static handle cast(const cograd::Scalar& s, return_value_policy, handle) {
    if (s.is_float()) return PyFloat_FromDouble(s.to_double());
    if (s.is_complex()) return PyComplex_FromDoubles(s.to_double(), s.imag());
    return s.is_bool() ? PyBool_FromLong(s.to_bool()) : PyLong_FromLongLong(s.to_int());
  }
};

template <>
struct type_caster<cograd::DType> {
  PYBIND11_TYPE_CASTER(cograd::DType, const_name("cograd.dtype"));
  bool load(handle src, bool) {
    int32_t code = 0;
    if (cograd::ext::bridge().unwrap_dtype(src.ptr(), &code) == 0) return false;
    value = static_cast<cograd::DType>(code);
    return true;
  }
  static handle cast(cograd::DType t, return_value_policy, handle) {
    return static_cast<PyObject*>(cograd::ext::bridge().wrap_dtype(static_cast<int32_t>(t)));
  }
};

template <>
struct type_caster<cograd::Device> {
  PYBIND11_TYPE_CASTER(cograd::Device, const_name("cograd.device"));
  bool load(handle src, bool) {
    int32_t type = 0, index = -1;
    if (cograd::ext::bridge().unwrap_device(src.ptr(), &type, &index) == 0) return false;
    value = cograd::Device(static_cast<cograd::DeviceType>(type), static_cast<int8_t>(index));
    return true;
  }
  static handle cast(const cograd::Device& d, return_value_policy, handle) {
    return static_cast<PyObject*>(
        cograd::ext::bridge().wrap_device(static_cast<int32_t>(d.type()), d.index()));
  }
};

}  // namespace pybind11::detail

#ifdef COGRAD_GLUE_OPTIONS_PUSHED
#pragma GCC pop_options
#undef COGRAD_GLUE_OPTIONS_PUSHED
#endif
