// SPDX-License-Identifier: BSD-3-Clause
// Makes index tensors from nested sequences and buffers.
#include "python/tensor/index_data.h"

#include <cstring>

#include "python/runtime/held.h"

namespace cograd::python {

namespace {

bool is_text(PyObject* o) noexcept {
  return PyUnicode_Check(o) || PyBytes_Check(o) || PyByteArray_Check(o);
}
bool is_list(PyObject* o) noexcept {
  return PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o) ||
         (PySequence_Check(o) && !is_text(o) && !is_tensor(o) && !PyObject_CheckBuffer(o) &&
          !PyDict_Check(o));
}

[[noreturn]] void fail_contents(const char* what) {
  detail::fail(ErrorKind::Index,
               "tensors used as indices must be long, int, byte or bool tensors; an index array "
               "has elements of type ",
               what);
}

struct Buffer {
  Py_buffer view;
  explicit Buffer(PyObject* o) {
    if (PyObject_GetBuffer(o, &view, PyBUF_RECORDS_RO) < 0) throw_python_error();
  }
  ~Buffer() { PyBuffer_Release(&view); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

template <class T>
int64_t read_as(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return static_cast<int64_t>(v);
}

using Reader = int64_t (*)(const char*);

Reader reader_of(const char* format, Py_ssize_t itemsize) {
  const char* f = format == nullptr ? "B" : format;
  if (*f == '@' || *f == '=' || *f == '<' || *f == '|') ++f;
  if (f[0] == '\0' || f[1] != '\0') return nullptr;
  const bool is_signed = std::strchr("bhilqn", f[0]) != nullptr;
  if (!is_signed && std::strchr("?BHILQN", f[0]) == nullptr) return nullptr;
  switch (itemsize) {
    case 1:
      return is_signed ? read_as<int8_t> : read_as<uint8_t>;
    case 2:
      return is_signed ? read_as<int16_t> : read_as<uint16_t>;
    case 4:
      return is_signed ? read_as<int32_t> : read_as<uint32_t>;
    case 8:
      return is_signed ? read_as<int64_t> : read_as<uint64_t>;
    default:
      return nullptr;
  }
}

Tensor from_buffer(PyObject* o) {
  const Buffer b(o);
  const Reader read = reader_of(b.view.format, b.view.itemsize);
  if (read == nullptr) fail_contents(b.view.format == nullptr ? "bytes" : b.view.format);
  const char kind = b.view.format == nullptr ? 'B' : b.view.format[std::strlen(b.view.format) - 1];
  const DType t = kind == '?' ? DType::Bool : kind == 'B' ? DType::UInt8 : DType::Int64;
  const Dims sizes(b.view.shape, b.view.shape + b.view.ndim);
  Tensor out = empty_checked("index", sizes, t);
  Dims at(sizes.size());
  const char* p = static_cast<const char*>(b.view.buf);
  for (int64_t k = 0; k < out.numel(); ++k) {
    const int64_t v = read(p);
    if (t == DType::Int64)
      out.data<int64_t>()[k] = v;
    else
      out.data<uint8_t>()[k] = t == DType::Bool ? v != 0 : static_cast<uint8_t>(v);
    for (size_t d = at.size(); d-- > 0;) {
      p += b.view.strides[d];
      if (++at[d] < sizes[d]) break;
      p -= b.view.strides[d] * sizes[d];
      at[d] = 0;
    }
  }
  return out;
}

// Collects the leaves of nested sequences in C order.
class Nested {
 public:
  explicit Nested(PyObject* o) { add(o, 0); }
  Tensor make() const {
    Tensor out = empty_checked("index", sizes_, all_bool() ? DType::Bool : DType::Int64);
    for (size_t i = 0; i < values_.size(); ++i) {
      if (all_bool())
        out.data<bool>()[i] = values_[i] != 0;
      else
        out.data<int64_t>()[i] = values_[i];
    }
    return out;
  }

 private:
  bool all_bool() const { return bools_ > 0 && bools_ == values_.size(); }

  void add(PyObject* o, size_t depth) {
    if (!is_list(o) && !(PyObject_CheckBuffer(o) && !is_text(o) && PySequence_Check(o)))
      return leaf(o, depth);
    const py::object made = PyList_Check(o) || PyTuple_Check(o) ? py::object() : held_sequence(o);
    const HeldItems items(made ? made.ptr() : o);
    const Py_ssize_t n = items.ssize();
    if (depth == sizes_.size() && !closed_) sizes_.push_back(n);
    const int64_t expected = depth < sizes_.size() ? sizes_[depth] : -1;
    COGRAD_CHECK_VALUE(n == expected, "expected sequence of length ", expected, " at dim ", depth,
                       " (got ", n, ")");
    COGRAD_CHECK_VALUE(depth < static_cast<size_t>(kMaxDims), "index nested too deeply");
    for (Py_ssize_t i = 0; i < n; ++i) add(items[i], depth + 1);
  }
  void leaf(PyObject* o, size_t depth) {
    closed_ = true;  // the depth of the first leaf is the number of dims
    COGRAD_CHECK_VALUE(depth == sizes_.size(), "expected sequence of length ",
                       depth < sizes_.size() ? sizes_[depth] : 0, " at dim ", depth,
                       " (got a number)");
    int64_t v;
    if (is_python_bool(o)) {
      v = PyObject_IsTrue(o);
      ++bools_;
    } else if (!parse_int(o, &v)) {
      fail_contents(Py_TYPE(o)->tp_name);
    }
    values_.push_back(v);
  }

  Dims sizes_;
  bool closed_ = false;
  std::vector<int64_t> values_;
  size_t bools_ = 0;
};

}  // namespace

bool is_python_bool(PyObject* o) noexcept {
  return PyBool_Check(o) || std::strncmp(Py_TYPE(o)->tp_name, "numpy.bool", 10) == 0;
}

bool is_index_data(PyObject* o) noexcept {
  return !is_text(o) && (is_list(o) || PyObject_CheckBuffer(o));
}

Tensor index_data(PyObject* o) { return is_list(o) ? Nested(o).make() : from_buffer(o); }

bool is_item_sequence(PyObject* o) noexcept {
  constexpr Py_ssize_t kShort = 32;
  if (is_tensor(o) || !is_list(o)) return false;
  const Py_ssize_t n = PySequence_Size(o);
  if (n < 0) PyErr_Clear();
  if (n < 0 || n >= kShort) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_GetItem(o, i);
    if (item == nullptr) {
      PyErr_Clear();
      return false;
    }
    const bool found = item == Py_None || item == Py_Ellipsis || PySlice_Check(item) ||
                       is_tensor(item) || (PySequence_Check(item) && !PyUnicode_Check(item));
    Py_DECREF(item);
    if (found) return true;
  }
  return false;
}

}  // namespace cograd::python
