// SPDX-License-Identifier: BSD-3-Clause
// Creates and destroys Python tensors, and defines the slots of their type.
#include "python/tensor/tensor.h"

#include <cstring>

#include <structmember.h>

#include <new>
#include <stdexcept>

#include "autograd/graph/shared_writes.h"
#include "kernels/core/isa_names.h"
#include "ops/linalg/linalg.h"
#include "python/exchange/interop.h"
#include "python/runtime/class.h"
#include "python/runtime/signals.h"
#include "tensor/interrupt.h"
#include "tensor/processors.h"
#include "tensor/threads.h"
#include "transforms/batch.h"
#include "transforms/written.h"

namespace cograd::python {

PyTypeObject* tensor_type = nullptr;

namespace {

// Freed objects of exactly this type, GC header included, which the next wrap() reuses.
constexpr int kFreeMax = 512;
PyTensor* free_objects[kFreeMax];
int free_count = 0;

PyTensor* self_of(PyObject* o) { return reinterpret_cast<PyTensor*>(o); }

PyTensor* new_object(PyTypeObject* type) {
  PyTensor* p;
  if (type == tensor_type && free_count > 0) {
    p = free_objects[--free_count];
    PyObject_Init(reinterpret_cast<PyObject*>(p), type);
  } else {
    p = PyObject_GC_New(PyTensor, type);
    if (p == nullptr) throw_python_error();
  }
  p->impl = nullptr;
  p->dict = nullptr;
  p->weakrefs = nullptr;
  return p;
}

// A leaf is reachable from its .grad if that has a history, and a tensor from its own history if an
// op saved the tensor before it was written. Only the cycle collector, which sees Python objects,
// can free such cycles, so the object must not disappear.
bool may_hold_cycle(TensorImpl* t) {
  if (t->grad_fn != nullptr && (t->flags & kRewritten) != 0) return true;
  const Tensor grad = grad_of(t);
  return grad.defined() && grad->grad_fn != nullptr;
}

// Called with refcount 0. Keeps the object alive, owned by its tensor, if anything would be lost.
bool try_preserve(PyTensor* p) {
  TensorImpl* t = p->impl;
  if (t == nullptr || (t->flags & kOwnsPyObject) != 0) return false;
  if (t->refs.load(std::memory_order_acquire) == 1) return false;
  const bool state = (p->dict != nullptr && PyDict_GET_SIZE(p->dict) > 0) ||
                     p->weakrefs != nullptr || Py_TYPE(p) != tensor_type || may_hold_cycle(t);
  if (!state) return false;
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(p), 1);
  ensure_tracked(reinterpret_cast<PyObject*>(p));
  t->flags |= kOwnsPyObject;
  t->release();
  return true;
}

// Makes an object for a rewritten tensor that has none; dropping it at once preserves it
// (try_preserve). Making it may start a collection, which must not see the dying object.
void preserve_written(TensorImpl* t) noexcept {
  if (t == nullptr || t->pyobj != nullptr || (t->flags & kRewritten) == 0) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Py_XDECREF(guarded([&] { return wrap(Tensor::borrow(t)); }));
  PyErr_Restore(type, value, traceback);
}

// A write through a view reaches its base, and a write to a batched tensor its physical tensor:
// preserves these.
[[gnu::noinline, gnu::cold]] void preserve_physical(TensorImpl* t) noexcept {
  if (!is_batched(t)) return pass_history_on(t);
  while (is_batched(t)) {
    t = transform_or_null(t)->whole.impl();
    preserve_written(t);
  }
  preserve_written(t->base);
}
void preserve_base(TensorImpl* t) noexcept {
  if ((t->flags & (kBatched | kSharesWrites)) != 0) [[unlikely]]
    return preserve_physical(t);
  preserve_written(t->base);
}

void tensor_dealloc(PyObject* o) {
  PyTensor* p = self_of(o);
  if (try_preserve(p)) return;
  PyTypeObject* type = Py_TYPE(o);
  if (type != tensor_type) {
    if (PyObject_CallFinalizerFromDealloc(o) < 0) return;
    PyObject_GC_UnTrack(o);
    if (p->weakrefs != nullptr) PyObject_ClearWeakRefs(o);
    if (type->tp_clear != nullptr) type->tp_clear(o);  // __slots__ of subclasses
  } else {
    PyObject_GC_UnTrack(o);  // does nothing to an object that is not tracked
    if (p->weakrefs != nullptr) PyObject_ClearWeakRefs(o);
  }
  Py_CLEAR(p->dict);
  if (TensorImpl* t = std::exchange(p->impl, nullptr)) {
    t->pyobj = nullptr;
    preserve_base(t);
    t->release();
  }
  if (type == tensor_type && free_count < kFreeMax)
    free_objects[free_count++] = p;
  else
    type->tp_free(o);
  Py_DECREF(type);
}

int tensor_traverse(PyObject* o, visitproc visit, void* arg) {
  PyTensor* p = self_of(o);
  Py_VISIT(Py_TYPE(o));
  Py_VISIT(p->dict);
  if (p->impl != nullptr && (p->impl->flags & kOwnsPyObject) == 0)
    return visit_impl(p->impl, visit, arg);
  return 0;
}

int tensor_clear(PyObject* o) {
  Py_CLEAR(self_of(o)->dict);
  return 0;
}

void keep_written(TensorImpl* t) noexcept {
  if (!Py_IsInitialized()) return;
  const Gil gil;
  preserve_written(t);
  preserve_base(t);
}

// Called when the tensor is destroyed: destroys the Python object that it owns.
void release_pyobj(TensorImpl* t) noexcept {
  auto* o = static_cast<PyObject*>(std::exchange(t->pyobj, nullptr));
  t->flags &= ~uint32_t{kOwnsPyObject};
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE gil = ensure_gil();
  if ((t->flags & kSharesWrites) != 0) pass_history_on(t);
  self_of(o)->impl = nullptr;
  Py_DECREF(o);
  PyGILState_Release(gil);
}

PyObject* init_subclass(PyObject* cls, PyObject* const*, Py_ssize_t, PyObject*) {
  reinterpret_cast<PyTypeObject*>(cls)->tp_dealloc = tensor_dealloc;
  Py_RETURN_NONE;
}

// Implements Tensor(), Tensor(2, 3), Tensor([..]), Tensor(tensor): the legacy constructor with the
// default dtype.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    if (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0 &&
        !(PyDict_GET_SIZE(kwargs) == 1 && PyDict_GetItemString(kwargs, "device") != nullptr))
      detail::fail(ErrorKind::Type, "Tensor(): only 'device' is accepted as a keyword");
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    Dims sizes;
    bool all_ints = true;
    for (Py_ssize_t i = 0; i < n; ++i) {
      int64_t v;
      if (!parse_int(PyTuple_GET_ITEM(args, i), &v) || is_tensor(PyTuple_GET_ITEM(args, i))) {
        all_ints = false;
        break;
      }
      sizes.push_back(v);
    }
    if (n == 0) sizes.push_back(0);
    if (all_ints) return wrap_as(type, empty_checked("Tensor", sizes, default_dtype()));
    COGRAD_CHECK_TYPE(n == 1, "Tensor(): expected sizes or one sequence or tensor");
    PyObject* x = PyTuple_GET_ITEM(args, 0);
    if (is_tensor(x)) return wrap_as(type, detach(unwrap(x)));
    if (std::string_view(Py_TYPE(x)->tp_name) == "cograd.Size") {
      Dims from_size;
      COGRAD_CHECK_TYPE(PyTuple_Check(x), "Tensor(): data must be a sequence");
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); ++i) {
        int64_t size;
        COGRAD_CHECK_TYPE(parse_int(PyTuple_GET_ITEM(x, i), &size),
                          "Tensor(): a size must be an int");
        from_size.push_back(size);
      }
      return wrap_as(type, empty_checked("Tensor", from_size, default_dtype()));
    }
    COGRAD_CHECK_TYPE(PySequence_Check(x), "Tensor(): data must be a sequence (got ",
                      Py_TYPE(x)->tp_name, ")");
    return wrap_as(type, tensor_from_data("Tensor", x, default_dtype()));
  });
}

Py_hash_t tensor_hash(PyObject* o) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(o) >> 4);
}

Py_ssize_t tensor_length(PyObject* o) {
  const Tensor& t = unwrap(o);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return static_cast<Py_ssize_t>(t.size(0));
}

PyObject* tensor_repr(PyObject* o) {
  static PyObject* format = nullptr;
  return guarded([&]() -> PyObject* {
    if (format == nullptr)
      format =
          py::object(py::module_::import("cograd._tensor.str").attr("tensor_str")).release().ptr();
    return PyObject_CallOneArg(format, o);
  });
}

int tensor_setattro(PyObject* o, PyObject* name, PyObject* value) {
  const int r = PyObject_GenericSetAttr(o, name, value);
  if (self_of(o)->dict != nullptr) ensure_tracked(o);
  return r;
}

}  // namespace

void* release_gil() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
void restore_gil(void* state) { restore_thread(static_cast<PyThreadState*>(state)); }

namespace {

PyTypeObject* make_tensor_type() {
  static PyMemberDef members[] = {
      {"__dictoffset__", T_PYSSIZET, offsetof(PyTensor, dict), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weakrefs), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
      {Py_tp_new, reinterpret_cast<void*>(tensor_new)},
      {Py_tp_hash, reinterpret_cast<void*>(tensor_hash)},
      {Py_tp_repr, reinterpret_cast<void*>(tensor_repr)},
      {Py_tp_setattro, reinterpret_cast<void*>(tensor_setattro)},
      {Py_tp_richcompare, reinterpret_cast<void*>(tensor_richcompare)},
      {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
      {Py_mp_subscript, reinterpret_cast<void*>(tensor_getitem)},
      {Py_mp_ass_subscript, reinterpret_cast<void*>(tensor_setitem)},
      {Py_tp_members, members},
      {Py_tp_getset, tensor_getset},
      {Py_tp_methods, tensor_methods},
      {Py_tp_doc,
       const_cast<char*>("Tensor(*data, device=None)\n--\n\n"
                         "A strided n-dimensional array that can record how it was computed.")},
      {Py_tp_iter, reinterpret_cast<void*>(tensor_iter)},
      {Py_sq_contains, reinterpret_cast<void*>(tensor_contains)},
      {Py_bf_getbuffer, reinterpret_cast<void*>(tensor_buffer.bf_getbuffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_buffer.bf_releasebuffer)},
      {Py_nb_add, reinterpret_cast<void*>(tensor_number.nb_add)},
      {Py_nb_subtract, reinterpret_cast<void*>(tensor_number.nb_subtract)},
      {Py_nb_multiply, reinterpret_cast<void*>(tensor_number.nb_multiply)},
      {Py_nb_true_divide, reinterpret_cast<void*>(tensor_number.nb_true_divide)},
      {Py_nb_floor_divide, reinterpret_cast<void*>(tensor_number.nb_floor_divide)},
      {Py_nb_remainder, reinterpret_cast<void*>(tensor_number.nb_remainder)},
      {Py_nb_power, reinterpret_cast<void*>(tensor_number.nb_power)},
      {Py_nb_matrix_multiply, reinterpret_cast<void*>(tensor_number.nb_matrix_multiply)},
      {Py_nb_and, reinterpret_cast<void*>(tensor_number.nb_and)},
      {Py_nb_or, reinterpret_cast<void*>(tensor_number.nb_or)},
      {Py_nb_xor, reinterpret_cast<void*>(tensor_number.nb_xor)},
      {Py_nb_lshift, reinterpret_cast<void*>(tensor_number.nb_lshift)},
      {Py_nb_rshift, reinterpret_cast<void*>(tensor_number.nb_rshift)},
      {Py_nb_inplace_add, reinterpret_cast<void*>(tensor_number.nb_inplace_add)},
      {Py_nb_inplace_subtract, reinterpret_cast<void*>(tensor_number.nb_inplace_subtract)},
      {Py_nb_inplace_multiply, reinterpret_cast<void*>(tensor_number.nb_inplace_multiply)},
      {Py_nb_inplace_true_divide, reinterpret_cast<void*>(tensor_number.nb_inplace_true_divide)},
      {Py_nb_inplace_floor_divide, reinterpret_cast<void*>(tensor_number.nb_inplace_floor_divide)},
      {Py_nb_inplace_remainder, reinterpret_cast<void*>(tensor_number.nb_inplace_remainder)},
      {Py_nb_inplace_power, reinterpret_cast<void*>(tensor_number.nb_inplace_power)},
      {Py_nb_inplace_and, reinterpret_cast<void*>(tensor_number.nb_inplace_and)},
      {Py_nb_inplace_or, reinterpret_cast<void*>(tensor_number.nb_inplace_or)},
      {Py_nb_inplace_xor, reinterpret_cast<void*>(tensor_number.nb_inplace_xor)},
      {Py_nb_inplace_lshift, reinterpret_cast<void*>(tensor_number.nb_inplace_lshift)},
      {Py_nb_inplace_rshift, reinterpret_cast<void*>(tensor_number.nb_inplace_rshift)},
      {Py_nb_negative, reinterpret_cast<void*>(tensor_number.nb_negative)},
      {Py_nb_positive, reinterpret_cast<void*>(tensor_number.nb_positive)},
      {Py_nb_absolute, reinterpret_cast<void*>(tensor_number.nb_absolute)},
      {Py_nb_invert, reinterpret_cast<void*>(tensor_number.nb_invert)},
      {Py_nb_bool, reinterpret_cast<void*>(tensor_number.nb_bool)},
      {Py_nb_int, reinterpret_cast<void*>(tensor_number.nb_int)},
      {Py_nb_float, reinterpret_cast<void*>(tensor_number.nb_float)},
      {Py_nb_index, reinterpret_cast<void*>(tensor_number.nb_index)},
      {0, nullptr}};
  static PyType_Spec spec = {"cograd.Tensor", sizeof(PyTensor), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

void ensure_tracked(PyObject* o) noexcept {
  if (!PyObject_GC_IsTracked(o)) PyObject_GC_Track(o);
}

// A write to a view gives its base and all other views of that a history, and finds no objects. So
// the collector tracks these from the first view on.
static void track_view(PyObject* o, const TensorImpl* base) noexcept {
  PyObject_GC_Track(o);
  if (base->pyobj != nullptr) ensure_tracked(static_cast<PyObject*>(base->pyobj));
}

PyObject* wrap(Tensor t) {
  if (!t.defined()) Py_RETURN_NONE;
  TensorImpl* impl = t.impl();
  if (impl->pyobj != nullptr) {
    auto* o = static_cast<PyObject*>(impl->pyobj);
    if ((impl->flags & kOwnsPyObject) == 0) {
      Py_INCREF(o);
      return o;
    }
    // The tensor's reference to the object becomes the caller's; the object owns the tensor again.
    impl->flags &= ~uint32_t{kOwnsPyObject};
    t.release();
    return o;
  }
  PyTensor* p = new_object(tensor_type);
  if (impl->pyobj != nullptr) [[unlikely]] {  // a finalizer in new_object() made one
    Py_DECREF(reinterpret_cast<PyObject*>(p));
    return wrap(std::move(t));
  }
  p->impl = t.release();
  impl->pyobj = p;
  auto* o = reinterpret_cast<PyObject*>(p);
  if (impl->base != nullptr)
    track_view(o, impl->base);
  else if (requires_grad(impl))
    PyObject_GC_Track(o);
  return o;
}

PyObject* wrap_as(PyTypeObject* type, Tensor t) {
  if (type == tensor_type) return wrap(std::move(t));
  auto* p = reinterpret_cast<PyTensor*>(type->tp_alloc(type, 0));
  if (p == nullptr) throw_python_error();
  if (t->pyobj != nullptr) t = Tensor::steal(t->alias());  // a finalizer may just have made it
  t->pyobj = p;
  p->impl = t.release();
  return reinterpret_cast<PyObject*>(p);
}

// torch.linalg.LinAlgError; created with the module.
static PyObject* linalg_error = PyExc_RuntimeError;
static PyObject* memory_error = PyExc_MemoryError;  // also a RuntimeError, as in torch

// Sets an error. Replaces invalid UTF-8 in `text`, so that the error keeps its class.
static void set_error(PyObject* type, const char* text) noexcept {
  PyObject* s = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "replace");
  if (s == nullptr) return;
  PyErr_SetObject(type, s);
  Py_DECREF(s);
}

PyObject* translate_exception() noexcept {
  try {
    throw;
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const LinAlgError& e) {
    set_error(linalg_error, e.what());
  } catch (const Error& e) {
    PyObject* type = PyExc_RuntimeError;
    switch (e.kind()) {
      case ErrorKind::Runtime:
        break;
      case ErrorKind::Value:
        type = PyExc_ValueError;
        break;
      case ErrorKind::Type:
        type = PyExc_TypeError;
        break;
      case ErrorKind::Index:
        type = PyExc_IndexError;
        break;
      case ErrorKind::NotImplemented:
        type = PyExc_NotImplementedError;
        break;
      case ErrorKind::Memory:
        type = memory_error;
        break;
    }
    set_error(type, e.what());
  } catch (const std::bad_alloc&) {
    PyErr_SetString(memory_error, "out of memory");
  } catch (const std::length_error&) {
    PyErr_SetString(memory_error,
                    "out of memory: a list of that many elements cannot be allocated");
  } catch (const std::exception& e) {
    if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_MemoryError) == 0)
      set_error(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_SystemError, "cograd: unknown C++ exception");
  }
  return nullptr;
}

// Forbids calls of the common base of all pybind11 classes, which would abort the process.
static void forbid_base_new(PyTypeObject* base) {
  static PyTypeObject* known = nullptr;
  static newfunc make = nullptr;
  if (known != nullptr || std::string_view(base->tp_name) != "pybind11_object") return;
  known = base;
  make = std::exchange(base->tp_new, [](PyTypeObject* t, PyObject* args, PyObject* kwargs) {
    if (t != known) return make(t, args, kwargs);
    PyErr_SetString(PyExc_TypeError, "cannot create 'pybind11_object' instances");
    return static_cast<PyObject*>(nullptr);
  });
}

void forbid_new(py::handle cls) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  forbid_base_new(type->tp_base);
  type->tp_new = [](PyTypeObject* t, PyObject*, PyObject*) -> PyObject* {
    PyErr_Format(PyExc_TypeError, "cannot create '%s' instances", t->tp_name);
    return nullptr;
  };
  alloc_or_throw(cls);
}

void init_tensor(py::module_& m) {
  tensor_type = make_tensor_type();
  if (tensor_type == nullptr) throw_python_error();
  static PyMethodDef subclass = {
      "__init_subclass__",
      reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(init_subclass)),
      METH_FASTCALL | METH_KEYWORDS | METH_CLASS, nullptr};
  py::object method =
      py::reinterpret_steal<py::object>(PyDescr_NewClassMethod(tensor_type, &subclass));
  py::handle type(reinterpret_cast<PyObject*>(tensor_type));
  type.attr("__init_subclass__") = method;
  type.attr("__module__") = "cograd";
  m.attr("Tensor") = type;
  linalg_error = PyErr_NewExceptionWithDoc(
      "cograd.linalg.LinAlgError", "Raised if a linear algebra computation fails for a matrix.",
      PyExc_RuntimeError, nullptr);
  if (linalg_error == nullptr) throw_python_error();
  m.attr("_LinAlgError") = py::handle(linalg_error);
  const py::tuple bases =
      py::make_tuple(py::handle(PyExc_MemoryError), py::handle(PyExc_RuntimeError));
  memory_error = PyErr_NewExceptionWithDoc(
      "cograd.OutOfMemoryError", "Raised if memory for a tensor or a list cannot be allocated.",
      bases.ptr(), nullptr);
  if (memory_error == nullptr) throw_python_error();
  m.attr("OutOfMemoryError") = py::handle(memory_error);
  tensor_hooks.release_pyobj = release_pyobj;
  keep_for_collector = keep_written;
  set_heavy_hooks(release_gil, restore_gil);
  interrupt_hook = [] {
    if (PyGILState_Check() != 0) serve_signals();
  };
  m.def("get_num_threads", &num_threads, "Returns the number of threads for loops and BLAS.");
  m.def("set_num_threads", &set_num_threads, py::arg("n"),
        "Sets the number of threads for loops and BLAS.");
  m.def("_parallel_loops", &parallel_loops);
  m.def("_threads_reason", &threads_reason);
  m.def("_threads_for", [](const std::string& root, const py::list& processors) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (const py::handle cpu : processors) CPU_SET(cpu.cast<size_t>() % CPU_SETSIZE, &mask);
    const ProcessorLimits limits = processor_limits(root.c_str(), mask);
    return py::make_tuple(limits.threads(), describe(limits));
  });
  m.def("_isa", [] { return py::make_tuple(kernels::isa_of_processor(), kernels::isa_name()); });
  m.def("_cached_bytes", &cached_bytes);
  m.def("_release_cached_memory", &release_cached_memory);
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error&) {
      translate_exception();
    }
  });
}

}  // namespace cograd::python
