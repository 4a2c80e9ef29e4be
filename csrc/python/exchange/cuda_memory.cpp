// SPDX-License-Identifier: BSD-3-Clause
// Memory of GPUs that other libraries own, the order of work with them, and pinned memory.
#include <cstring>

#include <pybind11/stl.h>

#include "api/cuda_kernel.h"
#include "autograd/modes/thread_state.h"
#include "ops/compute/strides.h"
#include "ops/declare/device_stage.h"
#include "ops/declare/ops.h"
#include "python/exchange/interop.h"
#include "tensor/backend.h"

namespace cograd::python {

namespace {

bool is_pinned(const Tensor& t) {
  Backend* const b = backend_of(DeviceType::CUDA);
  return t->device == kHost && b != nullptr && t.numel() > 0 &&
         static_cast<CudaRuntime*>(b)->is_pinned(t.bytes());
}

}  // namespace

Tensor pinned_copy(const Tensor& t, const char* op) {
  std::string why;
  CudaRuntime* const r = load_cuda(&why);
  COGRAD_CHECK(r != nullptr, op, "(): pin_memory needs an accelerator, and there is none: ", why);
  COGRAD_CHECK(t->device == kHost, "cannot pin a tensor on ", to_string(t->device), ": ", op,
               "() needs a dense CPU tensor");
  check_readable(t, op);
  const bool dense = storage_extent(t.sizes(), t.strides()) == t.numel();
  const Tensor from = dense ? detach(t) : fresh_copy(autograd_ops.contiguous_clone(detach(t)));
  const auto bytes = from.numel() * from.itemsize();
  Storage* s = r->make_pinned(bytes);
  Tensor out =
      tensor_of_storage(s, t.dtype(), from.sizes(), from.strides(), static_cast<char*>(s->data));
  if (bytes > 0) std::memcpy(out.bytes(), from.bytes(), static_cast<size_t>(bytes));
  return out;
}

void wait_for_stream(Device d, int64_t consumer, bool consumer_waits) {
  CudaRuntime& r = api::cuda_runtime("wait_for_stream()");
  const uint64_t other = consumer == 1 ? 0 : static_cast<uint64_t>(consumer);
  const uint64_t mine = r.current_stream(d.index);
  if (other == mine) return;
  const uint64_t first = consumer_waits ? mine : other, then = consumer_waits ? other : mine;
  const uint64_t event = r.new_event(d.index, false);
  try {
    r.record_event(d.index, event, first);
    r.wait_event(d.index, then, event);
  } catch (...) {
    r.free_event(event);
    throw;
  }
  r.free_event(event);  // the driver keeps it until the wait is over
}
int64_t stream_number(Device d) {
  const uint64_t s = api::cuda_runtime("current_stream()").current_stream(d.index);
  return s == 0 ? 1 : static_cast<int64_t>(s);
}

namespace {

DType dtype_of_typestr(const std::string& text) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    const char kind = t == DType::Bool ? 'b'
                      : is_floating(t) ? 'f'
                      : is_complex(t)  ? 'c'
                      : is_signed(t)   ? 'i'
                                       : 'u';
    if (t != DType::BFloat16 &&
        text == detail::concat(dtype_size(t) == 1 ? '|' : '<', kind, dtype_size(t)))
      return t;
  }
  detail::fail(ErrorKind::Type, "__cuda_array_interface__: the typestr '", text,
               "' is of no dtype that cograd has");
}

}  // namespace

Tensor tensor_from_cuda_array(const char* op, const py::object& owner, const py::dict& d) {
  CudaRuntime& r = api::cuda_runtime(detail::concat(op, "()"));
  open_device_stage();
  COGRAD_CHECK_NOT_IMPLEMENTED(!d.contains("mask") || d["mask"].is_none(), op,
                               "(): __cuda_array_interface__ with a mask is not supported");
  const DType t = dtype_of_typestr(py::cast<std::string>(d["typestr"]));
  const auto shape = py::cast<std::vector<int64_t>>(d["shape"]);
  const auto data = py::cast<py::tuple>(d["data"]);
  auto* const at =
      reinterpret_cast<char*>(py::cast<uintptr_t>(data[0]));  // NOLINT(performance-no-int-to-ptr)
  const Dims sizes(shape.begin(), shape.end());
  COGRAD_CHECK_VALUE(sizes.size() <= kMaxDims, op, "(): too many dimensions");
  Dims strides = contiguous_strides(sizes);
  if (d.contains("strides") && !d["strides"].is_none()) {
    const auto bytes = py::cast<std::vector<int64_t>>(d["strides"]);
    COGRAD_CHECK_VALUE(bytes.size() == sizes.size(), op, "(): __cuda_array_interface__ has ",
                       bytes.size(), " strides for ", sizes.size(), " sizes");
    for (size_t i = 0; i < bytes.size(); ++i) {
      COGRAD_CHECK_VALUE(bytes[i] >= 0 && bytes[i] % dtype_size(t) == 0, op,
                         "(): strides must be multiples of the element size, not negative");
      strides[i] = bytes[i] / dtype_size(t);
    }
  }
  const Device device{DeviceType::CUDA,
                      static_cast<int8_t>(at == nullptr ? r.current() : r.device_of(at))};
  if (d.contains("stream") && !d["stream"].is_none()) {
    const auto stream = py::cast<int64_t>(d["stream"]);
    COGRAD_CHECK_VALUE(stream != 0, op, "(): stream 0 of __cuda_array_interface__ is ambiguous");
    wait_for_stream(device, stream, false);
  }
  PyObject* keep = owner.ptr();
  Py_INCREF(keep);
  const bool read_only = py::cast<bool>(data[1]);
  Tensor out = tensor_over(at, t, sizes, strides, drop_python_owner, keep, read_only);
  out->device = device;
  out->storage->kind = 4;
  return out;
}

void init_cuda_memory(py::module_& m) {
  m.def("_is_pinned", &is_pinned, py::arg("tensor"));
  m.def(
      "_pinned_copy", [](const Tensor& t) { return pinned_copy(t, "pin_memory"); },
      py::arg("tensor"));
  m.def(
      "_cuda_stream_number",
      [](int device) { return stream_number({DeviceType::CUDA, static_cast<int8_t>(device)}); },
      py::arg("device"));
}

}  // namespace cograd::python
