// SPDX-License-Identifier: BSD-3-Clause
// UntypedStorage: the bytes of tensors as a Python object, which copies and pickles share.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include <pybind11/stl.h>

#include "python/exchange/interop.h"
#include "tensor/backend.h"
#include "tensor/fake_device.h"
#include "tensor/shared.h"
#include "tensor/sparse.h"

namespace cograd::python {

namespace {

// Maps each storage to its one object, so that pickle and deepcopy see that two tensors share it.
using Registry = std::unordered_map<const Storage*, PyObject*>;
Registry& registry() {
  static auto* r = new Registry;  // used until the last object dies, after static destructors
  return *r;
}

class UntypedStorage {
 public:
  UntypedStorage(Storage* owned, Device device) noexcept : storage_(owned), device_(device) {}
  UntypedStorage(const UntypedStorage&) = delete;
  UntypedStorage& operator=(const UntypedStorage&) = delete;
  ~UntypedStorage() {
    registry().erase(storage_);
    storage_->release();
  }
  Storage* get() const noexcept { return storage_; }
  Device device() const noexcept { return device_; }
  int64_t nbytes() const noexcept { return storage_->emptied ? 0 : storage_->nbytes; }
  uintptr_t address() const noexcept {
    const bool none = storage_->emptied || device_.type == DeviceType::Meta;
    return none ? 0 : reinterpret_cast<uintptr_t>(storage_->data);
  }
  // Called when the memory has moved; takes over the reference to `s`.
  void replace(Storage* s) {
    registry().erase(storage_);
    storage_->release();
    storage_ = s;
  }
  // Resizes to nothing and back. Tensors point into the memory, so only its contents are discarded.
  void resize(int64_t n) {
    if (n == nbytes()) return;
    COGRAD_CHECK(!is_shared(storage_),
                 "UntypedStorage.resize_(): Trying to resize storage that is not resizable: "
                 "processes share its memory");
    COGRAD_CHECK(!storage_->read_only, "UntypedStorage.resize_(): the storage is read-only");
    COGRAD_CHECK(n == 0 || n == storage_->nbytes, "UntypedStorage.resize_(): a storage of ",
                 storage_->nbytes, " bytes can be resized to 0 and back, got ", n);
    storage_->emptied = n == 0;
    storage_->version.fetch_add(1, std::memory_order_relaxed);
    if (n == 0 && storage_->kind == 0 && device_ == kHost)
      data_discard(storage_->data, static_cast<size_t>(storage_->nbytes));
  }

  int64_t views = 0;  // number of exported buffers in use

 private:
  Storage* storage_;
  Device device_;
};

// Counts exported buffers: while there are any, the memory must not move.
int storage_view(PyObject* self, Py_buffer* view, int flags) noexcept {
  auto& s = py::cast<UntypedStorage&>(py::handle(self));
  if (s.device() != kHost) {
    view->obj = nullptr;
    PyErr_Format(PyExc_BufferError,
                 "UntypedStorage: its bytes are on %s and cannot be read here; use .cpu() for a "
                 "copy on the host",
                 to_string(s.device()).c_str());
    return -1;
  }
  if (PyBuffer_FillInfo(view, self, s.get()->data, s.nbytes(), s.get()->read_only, flags) != 0)
    return -1;
  ++s.views;
  return 0;
}
void end_storage_view(PyObject* self, Py_buffer*) noexcept {
  --py::cast<UntypedStorage&>(py::handle(self)).views;
}

// Returns the Python object of a storage; takes over the reference to `s`.
py::object storage_object(Storage* s, Device device = kHost) {
  const auto it = registry().find(s);
  if (it != registry().end()) {
    s->release();
    return py::reinterpret_borrow<py::object>(it->second);
  }
  py::object o = py::cast(std::make_unique<UntypedStorage>(s, device));
  registry()[s] = o.ptr();
  return o;
}

Storage* new_storage(const void* bytes, int64_t n) {
  const Tensor t = empty_checked("UntypedStorage", {&n, 1}, DType::UInt8);
  if (n > 0) std::memcpy(t.bytes(), bytes, static_cast<size_t>(n));
  t->storage->retain();
  return t->storage;
}

py::object storage_from_bytes(const py::buffer& source) {
  Py_buffer view;
  if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE) != 0) throw_python_error();
  Storage* s = nullptr;
  try {
    s = new_storage(view.buf, view.len);
  } catch (...) {
    PyBuffer_Release(&view);
    throw;
  }
  PyBuffer_Release(&view);
  return storage_object(s);
}

void copy_within(Device d, const void* from, void* to, size_t bytes) {
  if (bytes == 0 || d.type == DeviceType::Meta) return;
  if (Backend* b = backend_of(d.type)) return b->copy_between(d, from, d, to, bytes);
  std::memcpy(kernel_view(to), kernel_view(from), bytes);
}

py::object copy_of_storage(const UntypedStorage& s) {
  const Device d = s.device();
  if (d != kHost) {
    const PlaceGuard there(d);
    Storage* copy = Storage::make(s.nbytes());
    py::object made = storage_object(copy, d);
    copy_within(d, s.get()->data, copy->data, static_cast<size_t>(s.nbytes()));
    return made;
  }
  return storage_object(new_storage(s.get()->data, s.nbytes()));
}

// Rebuilds a tensor from the parts in a pickle; raises if its geometry exceeds the storage.
Tensor rebuild_tensor(const UntypedStorage& storage, py::handle dtype, int64_t offset,
                      const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                      bool needs_grad) {
  DType t;
  COGRAD_CHECK_TYPE(parse_dtype(dtype.ptr(), &t), "_rebuild_tensor(): expected a dtype");
  COGRAD_CHECK(sizes.size() == strides.size() && sizes.size() <= kMaxDims && offset >= 0,
               "_rebuild_tensor(): malformed tensor in the pickle");
  const int64_t item = dtype_size(t);
  int64_t last = offset;
  bool fits = true;
  const bool empty = std::ranges::find(sizes, 0) != sizes.end();
  for (size_t i = 0; i < sizes.size(); ++i) {
    fits = fits && sizes[i] >= 0 && strides[i] >= 0;
    int64_t reach = 0;
    if (empty) continue;
    fits = fits &&
           !__builtin_mul_overflow(std::max<int64_t>(sizes[i] - 1, 0), strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  const int64_t room = storage.nbytes() / item;
  // Nothing of an empty view is read, and slices at the end of several dims may start behind the
  // storage.
  constexpr int64_t kFar = int64_t{1} << 48;
  COGRAD_CHECK(fits && (empty ? offset <= kFar : last < room),
               "_rebuild_tensor(): a tensor of shape ", to_string(sizes), " does not fit into ",
               storage.nbytes(), " bytes");
  Storage* s = storage.get();
  s->retain();
  Tensor out = tensor_of_storage(s, t, sizes, strides, static_cast<char*>(s->data) + offset * item);
  out->device = storage.device();
  if (needs_grad) set_requires_grad(out, true);
  return out;
}

void check_has_storage(const Tensor& t) {
  constexpr const char* kWho = "untyped_storage() or a copy of the storage";
  check_one_value(t, kWho);
  check_not_sparse(t, kWho);
}
// Returns a number that tensors with the same memory share, also on the meta device.
uintptr_t storage_key(const Tensor& t) {
  check_has_storage(t);
  return reinterpret_cast<uintptr_t>(t->storage->data);
}
py::object untyped_storage(const Tensor& t) {
  check_has_storage(t);
  t->storage->retain();
  return storage_object(t->storage, t->device);
}

// ---- memory shared between processes -----------------------------------------------------------

// Moves the storage of `t` to shared memory, with the base of `t` and with `others` over the same
// memory. Returns false, and does nothing, if anything else points into it.
bool share_tensor(const Tensor& t, const std::vector<Tensor>& others) {
  check_readable(t, "share_memory_()");
  Storage* s = t->storage;
  if (is_shared(s)) return true;
  std::vector<TensorImpl*> users;
  const auto add = [&](TensorImpl* p) {
    if (p != nullptr && p->storage == s && std::ranges::find(users, p) == users.end())
      users.push_back(p);
  };
  const auto add_with_base = [&](const Tensor& x) {
    add(x.impl());
    add(x->base);
  };
  add_with_base(t);
  std::ranges::for_each(others, add_with_base);
  const auto it = registry().find(s);
  PyObject* object = it == registry().end() ? nullptr : it->second;
  auto* bytes = object == nullptr ? nullptr : &py::cast<UntypedStorage&>(py::handle(object));
  const size_t known = users.size() + (bytes != nullptr ? 1 : 0);
  if (s->kind == 3 || s->emptied || s->refs.load(std::memory_order_acquire) != known) return false;
  if (bytes != nullptr && bytes->views > 0) return false;
  move_to_shared(users);
  if (bytes == nullptr) return true;
  t->storage->retain();
  bytes->replace(t->storage);
  registry()[t->storage] = object;
  return true;
}

py::object open_shared(int fd, int64_t nbytes, bool keep, bool fill) {
  return storage_object(shared_open(fd, nbytes, keep, fill));
}

// Returns `nbytes` bytes at `offset` as a storage that keeps the whole storage alive and counts its
// own writes.
py::object storage_part(const UntypedStorage& s, int64_t offset, int64_t nbytes) {
  COGRAD_CHECK(offset >= 0 && nbytes >= 0 && nbytes <= s.nbytes() - offset,
               "_storage_part(): ", nbytes, " bytes at ", offset, " are outside of a storage of ",
               s.nbytes());
  return storage_object(s.get()->part(static_cast<char*>(s.get()->data) + offset, nbytes),
                        s.device());
}

// Returns a tensor of type `cls` over the memory of `t`.
py::object alias_as(const py::type& cls, const Tensor& t, bool needs_grad) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  COGRAD_CHECK_TYPE(PyType_IsSubtype(type, tensor_type), "expected a subclass of Tensor");
  Tensor out = detach(t);
  if (needs_grad) set_requires_grad(out, true);
  py::object o = py::reinterpret_steal<py::object>(wrap_as(type, std::move(out)));
  ensure_tracked(o.ptr());
  return o;
}

}  // namespace

void init_pickle(py::module_& m) {
  py::class_<UntypedStorage> storage(m, "UntypedStorage", py::buffer_protocol(),
                                     "The bytes that tensors and their views share.");
  forbid_new(storage);
  storage.def("nbytes", &UntypedStorage::nbytes, "Number of bytes.")
      .def("size", &UntypedStorage::nbytes, "Number of bytes.")
      .def("__len__", &UntypedStorage::nbytes)
      .def("data_ptr", &UntypedStorage::address, "Address of the first byte.")
      .def("element_size", [](const UntypedStorage&) { return 1; })
      .def(
          "is_shared", [](const UntypedStorage& s) { return is_shared(s.get()); },
          "True if other processes can map the memory.")
      .def(
          "resize_",
          [](py::object self, int64_t nbytes) {
            self.cast<UntypedStorage&>().resize(nbytes);
            return self;
          },
          py::arg("nbytes"), "Frees the bytes (0), or allocates as many as before.")
      .def("clone", &copy_of_storage, "Returns a copy of the bytes.")
      .def("__copy__", &copy_of_storage)
      .def("__deepcopy__",
           [](const UntypedStorage& s, const py::object&) { return copy_of_storage(s); })
      .def("__repr__", [](const UntypedStorage& s) {
        const std::string where = s.device() == kHost ? "" : ", device=" + to_string(s.device());
        return "UntypedStorage(nbytes=" + std::to_string(s.nbytes()) + where + ")";
      });
  storage.def_property_readonly(
      "device",
      [](const UntypedStorage& s) {
        return py::reinterpret_steal<py::object>(device_object(s.device()));
      },
      "The device of the bytes.");
  PyBufferProcs* buffers = &reinterpret_cast<PyHeapTypeObject*>(storage.ptr())->as_buffer;
  buffers->bf_getbuffer = storage_view;
  buffers->bf_releasebuffer = end_storage_view;
  m.def("_storage_from_bytes", &storage_from_bytes, py::arg("source"));
  m.def("_rebuild_tensor", &rebuild_tensor, py::arg("storage"), py::arg("dtype"), py::arg("offset"),
        py::arg("size"), py::arg("stride"), py::arg("requires_grad"));
  m.def("_is_shared", [](const Tensor& t) { return is_shared(t->storage); }, py::arg("tensor"));
  m.def("_share_tensor", &share_tensor, py::arg("tensor"), py::arg("others"));
  m.def(
      "_same_storage", [](const Tensor& a, const Tensor& b) { return a->storage == b->storage; },
      py::arg("a"), py::arg("b"));
  m.def(
      "_new_shared", [](int64_t nbytes) { return storage_object(shared_make(nbytes)); },
      py::arg("nbytes"));
  m.def("_open_shared", &open_shared, py::arg("fd"), py::arg("nbytes"), py::arg("keep"),
        py::arg("fill"));
  m.def(
      "_shared_fd", [](const UntypedStorage& s) { return shared_fd(s.get()); }, py::arg("storage"));
  m.def("_storage_part", &storage_part, py::arg("storage"), py::arg("offset"), py::arg("nbytes"));
  m.def("_storage_key", &storage_key, py::arg("tensor"));
  m.def("_untyped_storage", &untyped_storage, py::arg("tensor"));
  m.def("_alias_as", &alias_as, py::arg("cls"), py::arg("tensor"), py::arg("requires_grad"));
}

}  // namespace cograd::python
