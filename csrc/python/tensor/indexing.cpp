// SPDX-License-Identifier: BSD-3-Clause
// Implements x[key] and x[key] = value. One pass over the key makes one view; index tensors then
// apply to it.
#include "ops/index/indexing.h"
#include "ops/compute/overlap.h"
#include "ops/compute/scalars.h"
#include "ops/declare/device_stage.h"
#include "python/exchange/interop.h"
#include "python/ops/call.h"
#include "python/ops/overrides.h"
#include "python/runtime/held.h"
#include "python/tensor/index_data.h"
#include "transforms/batch.h"

namespace cograd::python {

namespace {

void warn(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw_python_error();
}

bool is_whole(PyObject* o) noexcept { return o == Py_None || PyLong_CheckExact(o); }

// True if reading `o` as an item of a key runs no user code.
bool is_settled(PyObject* o) {
  if (is_whole(o) || o == Py_Ellipsis) return true;
  if (PySlice_Check(o)) {
    const auto* s = reinterpret_cast<PySliceObject*>(o);
    return is_whole(s->start) && is_whole(s->stop) && is_whole(s->step);
  }
  if (is_tensor(o)) return unwrap(o).dtype() != DType::UInt8 || unwrap(o).dim() == 0;
  if (PyList_Check(o) || PyTuple_Check(o)) return HeldItems::all_plain(o);
  return PyBool_Check(o) || !(is_python_bool(o) || is_index_data(o) || PyIndex_Check(o));
}

py::object settled_item(PyObject* o) {
  if (is_settled(o)) return py::reinterpret_borrow<py::object>(o);
  if (PySlice_Check(o)) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(o, &start, &stop, &step) < 0) throw_python_error();
    return py::slice(start, stop, step);
  }
  if (is_tensor(o)) {
    warn(
        "indexing with dtype cograd.uint8 is now deprecated, please use a dtype cograd.bool "
        "instead.");
    return py::reinterpret_borrow<py::object>(o);
  }
  if (is_python_bool(o)) return py::bool_(PyObject_IsTrue(o) == 1);
  py::object v =
      py::reinterpret_steal<py::object>(is_index_data(o) ? wrap(index_data(o)) : PyNumber_Index(o));
  if (!v) throw_python_error();
  return v;
}

// Does the same for an item that the conversion of other items may still change (a list).
py::object settled_for_good(PyObject* o) {
  if (!PyList_Check(o) && !PyTuple_Check(o)) return settled_item(o);
  return py::reinterpret_steal<py::object>(wrap(index_data(o)));
}

// Converts every item of the key whose conversion may run code, because that code could change the
// indexed tensor. Returns null if there is nothing to convert.
py::object settle(PyObject* key) {
  if (PyLong_CheckExact(key)) [[likely]]
    return {};
  py::object items;
  if (PyTuple_Check(key)) {
    const Py_ssize_t n = PyTuple_GET_SIZE(key);
    Py_ssize_t i = 0;
    while (i < n && is_settled(PyTuple_GET_ITEM(key, i))) ++i;
    if (i == n) return {};
    items = py::reinterpret_borrow<py::object>(key);
  } else if (is_settled(key)) {
    return {};
  } else if (is_item_sequence(key)) {
    warn(
        "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
        "x[tuple(seq)] instead of x[seq].");
    items = held_sequence(key);
  } else {
    return settled_item(key);
  }
  py::tuple out(PyTuple_GET_SIZE(items.ptr()));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = settled_for_good(PyTuple_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)));
  return out;
}

// A settled key resolved against a tensor: the basic part, and the index tensors with their dims in
// its view.
class Key {
 public:
  Key(const Tensor& x, PyObject* key) : basic_(x), x_(x) {
    if (PyTuple_Check(key)) {
      items(PySequence_Fast_ITEMS(key), PyTuple_GET_SIZE(key));
    } else {
      if (x.dim() == 0 && PyLong_CheckExact(key)) [[unlikely]]
        detail::fail(ErrorKind::Index,
                     "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                     "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
      item(key, nullptr, 0);
      if (PySlice_Check(key) && basic_.kind == BasicIndex::Kind::Alias)
        basic_.kind = BasicIndex::Kind::Slice;
    }
    basic_.finish();
  }

  bool advanced() const noexcept { return !tensors_.empty(); }
  // The dims of the view whose slices have a negative step.
  IntList flips() const noexcept { return {flips_.data(), flips_.size()}; }
  // True if the basic part selects the whole tensor unchanged.
  bool whole() const noexcept {
    return basic_.kind == BasicIndex::Kind::Alias ||
           (basic_.kind == BasicIndex::Kind::Slice && basic_.offset == 0 &&
            same(basic_.sizes, x_.sizes()) && same(basic_.strides, x_.strides()));
  }
  Tensor view() const { return index_view(x_, basic_); }
  // Returns the tensor that the index tensors apply to.
  Tensor indexed() const {
    if (!flips_.empty()) return index_backwards(view(), flips());
    return basic_.kind == BasicIndex::Kind::Alias ? x_ : index_view(x_, basic_);
  }
  // Returns one entry per dim (or per mask) up to the last index tensor.
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> out;
    int dim = 0;
    for (const Placed& p : tensors_) {
      for (; dim < p.dim; ++dim) out.emplace_back();
      out.push_back(p.index);
      dim += is_mask(p.index) ? p.index.dim() : 1;
    }
    return out;
  }
  const BasicIndex& basic() const noexcept { return basic_; }

 private:
  struct Placed {
    int dim;  // a dim of the view
    Tensor index;
  };
  static bool is_mask(const Tensor& t) {
    return t.dtype() == DType::Bool || t.dtype() == DType::UInt8;
  }

  void items(PyObject* const* list, Py_ssize_t n) {
    bool ellipsis = false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (list[i] == Py_Ellipsis) {
        COGRAD_CHECK_INDEX(!ellipsis, "an index can only have a single ellipsis ('...')");
        ellipsis = true;
      }
      item(list[i], list + i + 1, n - i - 1);
    }
  }

  void item(PyObject* o, PyObject* const* rest, Py_ssize_t n) {
    if (PyLong_CheckExact(o)) {
      basic_.select(to_int(o));
    } else if (PySlice_Check(o)) {
      slice(o);
    } else if (o == Py_None) {
      basic_.unsqueeze();
    } else if (o == Py_Ellipsis) {
      int needed = 0;
      for (Py_ssize_t i = 0; i < n; ++i) needed += dims_of(rest[i]);
      COGRAD_CHECK_INDEX(needed <= basic_.remaining(), "too many indices for tensor of dimension ",
                         x_.dim());
      basic_.keep(basic_.remaining() - needed);
    } else if (is_tensor(o)) {
      tensor(unwrap(o));
    } else if (is_python_bool(o)) {
      truth(PyObject_IsTrue(o) == 1);
    } else if (is_index_data(o)) {
      tensor(index_data(o));
    } else {
      detail::fail(ErrorKind::Index,
                   "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
                   "are valid indices (got ",
                   Py_TYPE(o)->tp_name, ")");
    }
  }

  static int64_t to_int(PyObject* o) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    return fitting(overflow == 0, v);
  }
  static int64_t fitting(bool fits, int64_t v) {
    COGRAD_CHECK_VALUE(fits, "Overflow when unpacking long long: an index must fit int64");
    return v;
  }

  void slice(PyObject* o) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(o, &start, &stop, &step) < 0) throw_python_error();
    COGRAD_CHECK_INDEX(x_.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
    if (step < 0 && basic_.remaining() > 0) [[unlikely]]
      return backwards(start, stop, step);
    basic_.slice(start, stop, step);
  }
  // Selects the same elements in memory order; they are reversed later.
  void backwards(Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step) {
    flips_.push_back(basic_.out_dim());
    const Py_ssize_t n = PySlice_AdjustIndices(basic_.next_size(), &start, &stop, step);
    if (n == 0)
      basic_.slice(0, 0, 1);
    else
      basic_.slice(start + (n - 1) * step, start + 1, -step);
  }

  void truth(bool b) {
    basic_.unsqueeze();
    const int64_t n[1] = {b ? 1 : 0};
    const Tensor index = empty(n, DType::Int64);
    if (b) *index.data<int64_t>() = 0;
    tensors_.push_back({basic_.out_dim() - 1, index});
  }

  void tensor(const Tensor& t) {
    COGRAD_CHECK_INDEX(t.dtype() == DType::Int64 || t.dtype() == DType::Int32 || is_mask(t) ||
                           (t.dim() == 0 && is_integral(t.dtype())),
                       "tensors used as indices must be long, int, byte or bool tensors, got ",
                       dtype_name(t.dtype()));
    if (t.dim() == 0 && (!is_batched(t) || is_mask(t))) {
      const Scalar v = python::item(t);
      if (is_mask(t))
        truth(v.to_bool());
      else
        basic_.select(fitting(!v.is_large(), v.to_int()));
      return;
    }
    tensors_.push_back({basic_.out_dim(), t});
    const int takes = is_mask(t) ? t.dim() : 1;
    if (is_mask(t)) check_mask(t);
    basic_.keep(takes);
  }

  void check_mask(const Tensor& mask) const {
    COGRAD_CHECK_INDEX(mask.dim() <= basic_.remaining(),
                       "too many indices for tensor of dimension ", x_.dim());
    const int at = x_.dim() - basic_.remaining();
    for (int j = 0; j < mask.dim(); ++j)
      COGRAD_CHECK_INDEX(mask.size(j) == x_.size(at + j), "The shape of the mask ",
                         to_string(mask.sizes()), " at index ", j,
                         " does not match the shape of the indexed tensor ", to_string(x_.sizes()),
                         " at index ", at + j);
  }

  // Returns the number of the tensor's dims that an item consumes.
  static int dims_of(PyObject* o) {
    if (PyLong_CheckExact(o) || PySlice_Check(o)) return 1;
    if (o == Py_None || o == Py_Ellipsis || is_python_bool(o)) return 0;
    if (is_tensor(o)) return is_mask(unwrap(o)) ? unwrap(o).dim() : 1;
    if (!is_index_data(o)) return 1;
    const Tensor t = index_data(o);
    return is_mask(t) ? t.dim() : 1;
  }

  BasicIndex basic_;
  const Tensor& x_;
  SmallVec<Placed, 2> tensors_;
  Dims flips_;
};

// Removes the leading dims of size 1, which never matter to an assignment.
Tensor strip_ones(const Tensor& value) {
  size_t drop = 0;
  while (drop < value.sizes().size() && value.sizes()[drop] == 1) ++drop;
  return drop == 0 ? value : reshape(value, value.sizes().subspan(drop));
}

void check_assigned(bool fits, PyObject* value, const Tensor& target) {
  if (fits) return;
  refuse_torch("__setitem__", &value, 1);
  detail::fail(ErrorKind::Type, "can't assign a ", Py_TYPE(value)->tp_name, " to a cograd.",
               dtype_name(target.dtype()), " tensor");
}

// True for the assignment at the end of `x[i] += v`, which stores x[i] into itself.
bool is_same_view(const Tensor& value, const Tensor& target) {
  const TensorImpl* base = target->base != nullptr ? target->base : target.impl();
  return value->base == base && value.bytes() == target.bytes() &&
         value.dtype() == target.dtype() && same(value.sizes(), target.sizes()) &&
         same(value.strides(), target.strides());
}

void set_basic(const Tensor& target, PyObject* value) {
  if (is_tensor(value)) {
    const Tensor& v = unwrap(value);
    check_inplace(physical_tensor(target), "copy_",
                  thread_state.grad_enabled && (requires_grad(target) || requires_grad(v)));
    if (is_same_view(v, target)) return;
    copy_(target, strip_ones(v));
    return;
  }
  Scalar s;
  check_assigned(parse_scalar(value, &s), value, target);
  check_distinct("__setitem__", physical_tensor(target));
  if (representable(s, target.dtype(), OutOfRange::Raises)) [[likely]]
    fill_(target, s);
  else
    copy_(target, assigned_number(s, target.dtype()));
}

// Fast path for one mask and a single value: fills without computing positions.
bool set_by_mask(const Tensor& target, const std::vector<Tensor>& indices, const Tensor& value) {
  if (indices.size() != 1 || indices[0].dtype() != DType::Bool || value.numel() != 1) return false;
  Tensor mask = indices[0];
  if (mask.dim() > target.dim()) return false;
  if (mask->device == kHost) mask = to_device(mask, target->device);  // as other indices may be
  Dims sizes(mask.sizes());
  Dims strides(mask.strides());
  sizes.resize(static_cast<size_t>(target.dim()), 1);
  strides.resize(static_cast<size_t>(target.dim()), 1);
  if (mask.dim() < target.dim()) mask = alias_strided(mask, sizes, strides, mask.bytes());
  masked_fill_(target, mask, value.dim() == 0 ? value : reshape(value, {}));
  return true;
}

void set_advanced(const Tensor& target, const std::vector<Tensor>& indices, PyObject* value) {
  Tensor v;
  Scalar s;
  if (is_tensor(value)) {
    v = unwrap(value);
  } else {
    check_assigned(parse_scalar(value, &s), value, target);
    v = assigned_number(s, target.dtype());
  }
  if (set_by_mask(target, indices, v)) return;
  index_put_(target, indices, strip_ones(v));
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    if (overrides_possible) [[unlikely]] {
      PyObject* const given[] = {self, key};
      PyObject* other = nullptr;
      if (overridden_method("__getitem__", given, 2, &other)) return other;
    }
    const Tensor& x = unwrap(self);
    const py::object made = settle(key);
    const TensorInUse use(x, "__getitem__");
    const Key k(x, made ? made.ptr() : key);
    if (!k.advanced()) [[likely]]
      return wrap(k.flips().empty() ? k.view() : k.indexed());
    return wrap(index_get(k.indexed(), k.tensors()));
  });
}

int tensor_setitem(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_int([&] {
    COGRAD_CHECK_TYPE(value != nullptr, "Tensor does not support deleting items");
    if (overrides_possible) [[unlikely]] {
      PyObject* const given[] = {self, key, value};
      PyObject* other = nullptr;
      if (overridden_method("__setitem__", given, 3, &other)) {
        Py_XDECREF(other);
        return other == nullptr ? -1 : 0;
      }
    }
    const Tensor& x = unwrap(self);
    const py::object made = settle(key);
    const TensorInUse use(x, "__setitem__");
    const Key k(x, made ? made.ptr() : key);
    if (k.advanced()) {
      const Tensor view = k.flips().empty() ? Tensor() : k.view();  // reading value runs code
      const Tensor target = k.indexed();
      set_advanced(target, k.tensors(), value);
      if (view.defined()) set_backwards(view, k.flips(), target);
    } else if (!k.flips().empty() && is_tensor(value)) {
      set_backwards(k.view(), k.flips(), strip_ones(unwrap(value)));
    } else {
      set_basic(k.whole() ? x : k.view(), value);
    }
    if (requires_grad(x)) ensure_tracked(self);
    return 0;
  });
}

void init_indexing(py::module_&) {}

}  // namespace cograd::python
