// SPDX-License-Identifier: BSD-3-Clause
// The C interface to devices, streams and kernels of users.
#include "api/devices.h"

#include <algorithm>
#include <cstring>

#include "api/cuda_kernel.h"
#include "api/handles.h"
#include "cograd/c_devices.h"
#include "tensor/backend.h"
#include "tensor/sparse.h"
#include "transforms/batch.h"

// A kernel by its handle.
struct cograd_cuda_kernel_s {
  cograd::api::CudaKernel kernel;
};

namespace cograd::api {

namespace {

// The size of the struct that the caller has, up to that of this library.
template <class T>
T read_struct(const T* given_by_user, const char* who, const char* what) {
  const T& from = given(given_by_user, who, what);
  T copy{};
  std::memcpy(&copy, &from, std::min(from.struct_size, sizeof copy));
  return copy;
}

std::vector<std::string> strings(const char* const* list, size_t n, const char* what) {
  std::vector<std::string> all;
  for (const char* s : given_list(list, n, "cuda_kernel_create", what))
    all.emplace_back(&given(s, "cuda_kernel_create", what));
  return all;
}

int index_of(CudaRuntime& r, int32_t device) {
  COGRAD_CHECK_VALUE(device >= -1 && device <= INT8_MAX, "device index ", device,
                     " is no index of a GPU");
  return device < 0 ? r.current() : device;
}

uint64_t handle_of(void* stream) noexcept { return reinterpret_cast<uintptr_t>(stream); }
void* pointer_of(uint64_t stream) noexcept {
  return reinterpret_cast<void*>(stream);  // NOLINT(performance-no-int-to-ptr)
}

// Calls f(runtime, index of the GPU).
template <class F>
cograd_status on_gpu(const char* who, int32_t device, F&& f) noexcept {
  return guarded([&] {
    CudaRuntime& r = cuda_runtime(who);
    f(r, index_of(r, device));
  });
}
// Stores what f(runtime, index) returns in *out, which it checks first.
template <class T, class F>
cograd_status ask_gpu(const char* who, int32_t device, T* out, const char* what, F&& f) noexcept {
  return guarded([&] {
    T& place = given(out, who, what);
    CudaRuntime& r = cuda_runtime(who);
    place = f(r, index_of(r, device));
  });
}

}  // namespace

Device device_from_c(int32_t type, int64_t index, const char* who) {
  if (type == COGRAD_CPU) return kHost;
  COGRAD_CHECK_VALUE(type == COGRAD_CUDA, who, "(): device type ", type, " is unknown, expected ",
                     int32_t{COGRAD_CPU}, " or ", int32_t{COGRAD_CUDA});
  CudaRuntime& r = cuda_runtime(who);
  COGRAD_CHECK_VALUE(index >= -1 && index <= INT8_MAX, who, "(): device index ", index,
                     " is no index of a GPU");
  const int gpu = index < 0 ? r.current() : static_cast<int>(index);
  COGRAD_CHECK(gpu < r.count(), "CUDA error: invalid device ordinal: cuda:", gpu,
               " was asked for, but there are ", r.count(), " GPUs");
  return {DeviceType::CUDA, static_cast<int8_t>(gpu)};
}

int32_t device_type_to_c(DeviceType t) noexcept {
  return t == DeviceType::CPU    ? COGRAD_CPU
         : t == DeviceType::CUDA ? COGRAD_CUDA
                                 : kOtherDevice + static_cast<int32_t>(t);
}

}  // namespace cograd::api

using namespace cograd;
using namespace cograd::api;

cograd_status cograd_tensor_device(cograd_tensor t, int32_t* type, int32_t* index) noexcept {
  return guarded([&] {
    int32_t &to_type = given(type, "tensor_device", "type"),
            &to_index = given(index, "tensor_device", "index");
    const Device d = view_of(t, "tensor_device")->device;
    to_type = device_type_to_c(d.type);
    to_index = d.index;
  });
}

void* cograd_tensor_device_data(cograd_tensor t) noexcept {
  void* data = nullptr;
  guarded([&] {
    const Tensor& x = view_of(t, "device_data");
    check_not_sparse(x, "device_data()");
    check_one_value(x, "device_data()");
    data = x->data;
  });
  return data;
}

int32_t cograd_cuda_count(void) noexcept {
  std::string why;
  int32_t n = 0;
  guarded([&] {
    CudaRuntime* r = count_gpus() == 0 ? nullptr : load_cuda(&why);
    n = r == nullptr ? 0 : r->count();
  });
  return n;
}

cograd_status cograd_cuda_device(int32_t* index) noexcept {
  return ask_gpu("cuda_device", -1, index, "index", [](CudaRuntime&, int gpu) { return gpu; });
}
cograd_status cograd_cuda_set_device(int32_t index) noexcept {
  return on_gpu("cuda_set_device", index, [](CudaRuntime& r, int gpu) { r.set_current(gpu); });
}
cograd_status cograd_cuda_stream(int32_t device, void** stream) noexcept {
  return ask_gpu("cuda_stream", device, stream, "stream",
                 [](CudaRuntime& r, int gpu) { return pointer_of(r.current_stream(gpu)); });
}
cograd_status cograd_cuda_set_stream(int32_t device, void* stream) noexcept {
  return on_gpu("cuda_set_stream", device,
                [&](CudaRuntime& r, int gpu) { r.set_stream(gpu, handle_of(stream)); });
}
cograd_status cograd_cuda_new_stream(int32_t device, int32_t priority, void** stream) noexcept {
  return ask_gpu("cuda_new_stream", device, stream, "stream",
                 [&](CudaRuntime& r, int gpu) { return pointer_of(r.new_stream(gpu, priority)); });
}
int32_t cograd_cuda_stream_done(int32_t device, void* stream) noexcept {
  bool done = false;
  const cograd_status s = on_gpu("cuda_stream_done", device, [&](CudaRuntime& r, int gpu) {
    done = r.stream_done(gpu, handle_of(stream));
  });
  return s == COGRAD_OK ? static_cast<int32_t>(done) : -s;
}
cograd_status cograd_cuda_synchronize_stream(int32_t device, void* stream) noexcept {
  return on_gpu("cuda_synchronize_stream", device,
                [&](CudaRuntime& r, int gpu) { r.synchronize_stream(gpu, handle_of(stream)); });
}
cograd_status cograd_cuda_synchronize(int32_t device) noexcept {
  return on_gpu("cuda_synchronize", device, [](CudaRuntime& r, int gpu) { r.synchronize(gpu); });
}

cograd_status cograd_cuda_kernel_create(const cograd_cuda_kernel_desc* desc,
                                        cograd_cuda_kernel* out) noexcept {
  return guarded([&] {
    const auto d = read_struct(desc, "cuda_kernel_create", "desc");
    cograd_cuda_kernel& place = given(out, "cuda_kernel_create", "out");
    given(d.text, "cuda_kernel_create", "text");
    place = new cograd_cuda_kernel_s{{d.text, d.name == nullptr ? "" : d.name,
                                      strings(d.options, d.n_options, "options"),
                                      strings(d.strided, d.n_strided, "strided")}};
  });
}

void cograd_cuda_kernel_release(cograd_cuda_kernel kernel) noexcept { delete kernel; }

cograd_status cograd_cuda_kernel_launch(cograd_cuda_kernel kernel, const cograd_cuda_launch* launch,
                                        const cograd_value* args, size_t n) noexcept {
  return guarded([&] {
    CudaKernel& k = given(kernel, "cuda_kernel_launch", "kernel").kernel;
    const auto l = read_struct(launch, "cuda_kernel_launch", "launch");
    const auto given_args = given_list(args, n, "cuda_kernel_launch", "args");
    LaunchSizes sizes;
    std::copy_n(l.grid, 3, sizes.grid.begin());
    std::copy_n(l.block, 3, sizes.block.begin());
    sizes.shared_bytes = l.shared_bytes;
    if (sizes.grid == std::array<int64_t, 3>{}) sizes.threads = l.threads;
    k.launch(sizes, given_args);
  });
}
