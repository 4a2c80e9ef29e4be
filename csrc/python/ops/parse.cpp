// SPDX-License-Identifier: BSD-3-Clause
#include "python/ops/parse.h"

#include "ops/declare/arguments.h"
#include "ops/declare/out.h"
#include "ops/random/generator.h"
#include "python/ops/call.h"

namespace cograd::python {

bool parse_tensors(PyObject* const* items, size_t n, Parsed& p, Value& v) {
  std::vector<Tensor>& list = p.tensors();
  list.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    if (!is_tensor(items[i])) return false;
    list.push_back(unwrap(items[i]));
  }
  v.set_list(COGRAD_TENSORS, list.data(), n);
  return true;
}

namespace {

bool parse_ints(PyObject* const* items, size_t n, Parsed& p, Value& v) {
  int64_t* out = p.ints(n);
  for (size_t i = 0; i < n; ++i)
    if (!parse_int(items[i], &out[i])) return false;
  v.set_list(COGRAD_INTS, out, n);
  return true;
}

bool parse_int_list(PyObject* o, Parsed& p, Value& v) {
  const HeldItems items(o);
  return parse_ints(items.data(), items.size(), p, v);
}

bool parse_number(PyObject* o, Value& v) {
  Scalar s;
  if (!parse_scalar(o, &s)) {
    if (!is_tensor(o) || unwrap(o).dim() != 0) return false;
    // Converting to a scalar would lose the gradient.
    if (requires_grad(unwrap(o)) || has_tangent_here(unwrap(o))) return false;
    s = item(unwrap(o));
  }
  v.set_scalar(s);
  return true;
}

// Parses lists of floats, bools and strings, which only ops of extensions accept.
bool parse_list(ArgKind kind, PyObject* o, Parsed& p, Value& v) {
  if (!is_list_or_tuple(o)) return false;
  const HeldItems items(o);
  if (kind == ArgKind::Doubles) {
    std::vector<double>& list = p.doubles();
    for (size_t i = 0; i < items.size(); ++i) {
      Scalar s;
      if (!parse_scalar(items[static_cast<Py_ssize_t>(i)], &s) || s.imag() != 0) return false;
      list.push_back(s.to_double());
    }
    v.set_list(COGRAD_FLOATS, list.data(), items.size());
    return true;
  }
  if (kind == ArgKind::Bools) {
    std::vector<uint8_t>& list = p.bools();
    for (size_t i = 0; i < items.size(); ++i) {
      if (!PyBool_Check(items[static_cast<Py_ssize_t>(i)])) return false;
      list.push_back(items[static_cast<Py_ssize_t>(i)] == Py_True);
    }
    v.set_list(COGRAD_BOOLEANS, list.data(), items.size());
    return true;
  }
  std::vector<cograd_string>& list = p.strings();
  p.hold(o);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!PyUnicode_Check(items[static_cast<Py_ssize_t>(i)])) return false;
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(items[static_cast<Py_ssize_t>(i)], &length);
    if (text == nullptr) throw_python_error();
    list.push_back({text, static_cast<size_t>(length)});
  }
  v.set_list(COGRAD_STRINGS, list.data(), items.size());
  return true;
}

// Fills `v` from `o`; returns false if the object does not fit the parameter.
bool parse_arg(const ArgInfo& a, PyObject* o, Parsed& p, Value& v) {
  if (o == Py_None) {
    if (a.kind == ArgKind::Tensor) v.set_tensor(nullptr);
    return a.nullable || (a.has_default && a.default_value.none());
  }
  switch (a.kind) {
    case ArgKind::TensorOrScalar:
      if (!is_tensor(o)) {
        Scalar s;
        if (!parse_scalar(o, &s)) return false;
        v.set_scalar(s);
        return true;
      }
      [[fallthrough]];
    case ArgKind::Tensor:
      if (!is_tensor(o)) return false;
      v.set_tensor(reinterpret_cast<PyTensor*>(o)->impl);
      return true;
    case ArgKind::Tensors:
      if (!is_list_or_tuple(o)) return false;
      return parse_tensors(PySequence_Fast_ITEMS(o),
                           static_cast<size_t>(PySequence_Fast_GET_SIZE(o)), p, v);
    case ArgKind::Scalar:
      return parse_number(o, v);
    case ArgKind::Int:
    case ArgKind::Dim: {
      int64_t i = 0;
      if (!parse_int(o, &i)) return false;
      v.set_integer(i);
      return true;
    }
    case ArgKind::Double:
      if (!parse_number(o, v) || v.scalar().imag() != 0) return false;
      v.set_number(v.scalar().to_double());
      return true;
    case ArgKind::Bool:
      if (!PyBool_Check(o) && !std::string_view(Py_TYPE(o)->tp_name).starts_with("numpy.bool"))
        return false;
      v.set_truth(PyObject_IsTrue(o) == 1);
      return true;
    case ArgKind::Ints:
    case ArgKind::DimList:
    case ArgKind::Shape:
      if (is_list_or_tuple(o)) return parse_int_list(o, p, v);
      return a.kind != ArgKind::Shape && !a.variadic && parse_ints(&o, 1, p, v);
    case ArgKind::DType: {
      DType t{};
      if (!parse_dtype(o, &t)) return false;
      v.set_dtype(t);
      return true;
    }
    case ArgKind::Device: {
      Device d{};
      if (!parse_device(o, &d)) return false;
      v.set_device(d);
      return true;
    }
    case ArgKind::String: {
      if (!PyUnicode_Check(o)) return false;
      Py_ssize_t n = 0;
      const char* text = PyUnicode_AsUTF8AndSize(o, &n);
      if (text == nullptr) throw_python_error();
      v.set_list(COGRAD_STRING, text, static_cast<size_t>(n));
      return true;
    }
    case ArgKind::Doubles:
    case ArgKind::Bools:
    case ArgKind::Strings:
      return parse_list(a.kind, o, p, v);
    case ArgKind::Generator:
      if (!py::isinstance<Generator>(o)) return false;
      v.set_generator(py::cast<Generator*>(py::handle(o)));
      return true;
    case ArgKind::Opaque:
      return false;
  }
  return false;
}

// Returns the text of a keyword; an empty one if it cannot be encoded, which no parameter has.
std::string_view keyword_text(PyObject* key) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(key, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {text, static_cast<size_t>(size)};
}

// True if NumPy has the name `key` for parameter `index`, which torch accepts.
bool is_numpy_name(const ArgInfo& a, size_t index, std::string_view key) {
  if (a.name == "dim") return key == "axis";
  if (a.name == "keepdim") return key == "keepdims";
  if (index == 0 && a.name == "input")
    return key == "x" || key == "a" || key == "x1" || key == "self";
  return index == 1 && a.name == "other" && key == "x2";
}

// Returns the index of the parameter that a keyword names; the number of parameters if there is
// none.
size_t parameter_of(const OpRecord& r, std::string_view key) {
  const size_t count = r.args.size();
  for (size_t i = 0; i < count; ++i)
    if (r.args[i].name == key) return i;
  for (size_t i = 0; i < count; ++i)
    if (is_numpy_name(r.args[i], i, key)) return i;
  return count;
}

// True for arguments that torch accepts and that have no effect here.
bool ignorable(std::string_view key, PyObject* value) {
  for (const std::string_view s : {"layout", "pin_memory", "memory_format", "non_blocking"})
    if (key == s) return true;
  return value == Py_None && key == "out";
}

// True for pin_memory=True of a factory, whose result is then pinned.
bool asks_to_pin(const ArgInfo& a, PyObject* value) {
  return value == Py_True && a.kind == ArgKind::Bool && a.name == "pin_memory";
}

// True if `value` can be the out= of the op.
bool can_be_out(const OpRecord& r, PyObject* value) {
  if (is_tensor(value)) return r.has_out || takes_outs(r);
  return takes_outs(r) && is_list_or_tuple(value);
}

bool parse_keyword(const OpRecord& r, PyObject* key, PyObject* value, Parsed& p, uint64_t& seen,
                   std::string* why) {
  const std::string_view text = keyword_text(key);
  if (const size_t i = parameter_of(r, text); i < r.args.size()) {
    if ((seen >> i & 1) != 0) {
      if (why != nullptr) *why = "got multiple values for argument '" + r.args[i].name + "'";
      return false;
    }
    seen |= uint64_t{1} << i;
    if (asks_to_pin(r.args[i], value)) {
      p.pin = true;
      value = Py_False;
    }
    if (parse_arg(r.args[i], value, p, p.values[i])) return true;
    if (why != nullptr)
      *why = "argument '" + r.args[i].name + "' does not take " + described(r.args[i], value);
    return false;
  }
  if (text == "out" && can_be_out(r, value)) {
    p.out = value;
    return true;
  }
  if (ignorable(text, value)) return true;
  if (why != nullptr)
    *why = "got an unexpected keyword argument '" + std::string(text.empty() ? "?" : text) + "'";
  return false;
}

bool parse_positional(const OpRecord& r, PyObject* const* args, size_t n, Parsed& p, uint64_t& seen,
                      std::string* why) {
  size_t i = 0;
  for (size_t used = 0; used < n; ++i) {
    if (i == r.args.size() || r.args[i].keyword_only) {
      if (why != nullptr)
        *why = "takes " + std::to_string(i) + " positional arguments but " + std::to_string(n) +
               " were given";
      return false;
    }
    const ArgInfo& a = r.args[i];
    seen |= uint64_t{1} << i;
    if (a.variadic && !is_list_or_tuple(args[used]) && args[used] != Py_None) {
      const bool ints = a.kind != ArgKind::Tensors;
      size_t stop = n;  // end of the positionals that belong to the list
      if (ints) {
        int64_t ignored;
        for (stop = used; stop < n && parse_int(args[stop], &ignored);) ++stop;
      }
      const bool ok = ints ? stop > used && parse_ints(args + used, stop - used, p, p.values[i])
                           : parse_tensors(args + used, stop - used, p, p.values[i]);
      if (ok) {
        used = stop;
        continue;
      }
    } else if (parse_arg(a, args[used], p, p.values[i])) {
      ++used;
      continue;
    }
    if (why != nullptr)
      *why = "argument '" + a.name + "' (position " + std::to_string(i + 1) + ") does not take " +
             described(a, args[used]);
    return false;
  }
  return true;
}

// Parses a float, int or bool of exactly that type. Returns false for any other argument.
inline bool parse_exact(ArgKind kind, PyObject* o, Value& v) {
  switch (kind) {
    case ArgKind::TensorOrScalar:
    case ArgKind::Scalar:
    case ArgKind::Double:
      if (PyFloat_CheckExact(o)) {
        v.set_number(PyFloat_AS_DOUBLE(o));
        return true;
      }
      if (kind == ArgKind::Double) return false;
      [[fallthrough]];
    case ArgKind::Int:
    case ArgKind::Dim: {
      int64_t i = 0;
      if (!PyLong_CheckExact(o) || !parse_int(o, &i)) return false;
      v.set_integer(i);
      return true;
    }
    case ArgKind::Bool:
      if (o != Py_True && o != Py_False) return false;
      v.set_truth(o == Py_True);
      return true;
    default:
      return false;
  }
}

// Parses in one pass a call whose arguments are all given by position. Returns false for calls with
// a variadic list, and for arguments that do not fit.
bool parse_plain(const OpRecord& r, PyObject* const* args, size_t n, Parsed& p) {
  const size_t count = r.args.size();
  if (n > count) return false;
  const ArgInfo* const infos = r.args.data();
  for (size_t i = 0; i < n; ++i) {
    const ArgInfo& a = infos[i];
    if (a.keyword_only) return false;
    Value& v = *new (p.values + i) Value;
    if ((a.kind == ArgKind::Tensor || a.kind == ArgKind::TensorOrScalar) &&
        Py_TYPE(args[i]) == tensor_type)
      v.set_tensor(reinterpret_cast<PyTensor*>(args[i])->impl);
    else if (a.variadic || (!parse_exact(a.kind, args[i], v) && !parse_arg(a, args[i], p, v)))
      return false;
  }
  for (size_t i = n; i < count; ++i)
    if (!fill_missing(infos[i], *new (p.values + i) Value)) return false;
  return true;
}

bool parse_any(const OpRecord& r, PyObject* const* args, size_t n, PyObject* kwnames, Parsed& p,
               std::string* why) {
  uint64_t seen = 0;
  p.begin(r.args.size());
  if (!parse_positional(r, args, n, p, seen, why)) return false;
  if (kwnames != nullptr)
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k)
      if (!parse_keyword(r, PyTuple_GET_ITEM(kwnames, k), args[n + static_cast<size_t>(k)], p, seen,
                         why))
        return false;
  for (size_t i = 0; i < r.args.size(); ++i) {
    if ((seen >> i & 1) != 0 || fill_missing(r.args[i], p.values[i])) continue;
    if (why != nullptr) *why = "missing required argument '" + r.args[i].name + "'";
    return false;
  }
  return true;
}

// Sets the device of a call that creates a tensor without a tensor to go by.
[[gnu::cold]] void fill_default_device(const OpRecord& r, Value* values) {
  if ((r.spec.flags & kKindMask) == kCast) return;
  for (size_t i = 0; i < r.args.size(); ++i)
    if (values[i].has_tensor()) return;
  for (size_t i = 0; i < r.args.size(); ++i)
    if (r.args[i].kind == ArgKind::Device && values[i].none())
      values[i].set_device(thread_place.by_default);
}

}  // namespace

bool parse(const OpRecord& r, PyObject* const* args, size_t n, PyObject* kwnames, Parsed& p,
           std::string* why) {
  const bool plain = kwnames == nullptr && parse_plain(r, args, n, p);
  if (!plain && !parse_any(r, args, n, kwnames, p, why)) return false;
  if (thread_place.by_default != kHost) [[unlikely]]
    fill_default_device(r, p.values);
  return true;
}

}  // namespace cograd::python
