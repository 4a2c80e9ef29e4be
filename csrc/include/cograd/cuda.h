// SPDX-License-Identifier: BSD-3-Clause
// NVIDIA GPUs for extension authors: kernels whose text NVRTC compiles in the process, streams, and
// the current GPU. An op that starts kernels says so: m.def("scale", &scale).cuda().
//
//   static const cograd::cuda::Kernel scale_kernel(R"(
//     __global__ void scale(float* y, const float* x, float a, long long n) {
//       const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
//       if (i < n) y[i] = a * x[i];
//     })");
//   scale_kernel(cograd::cuda::threads(x.numel()), y, x, 2.0, x.numel());
#pragma once
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cograd/c_devices.h"
#include "cograd/tensor.h"

namespace cograd {
inline namespace abi1 {
namespace cuda {

// A number of blocks or of threads in each of three dims.
struct Sizes {
  int64_t x = 1, y = 1, z = 1;
};
// How often a kernel runs: blocks of threads, and a block's dynamic shared memory.
struct Launch {
  Sizes grid{}, block{256, 1, 1};
  int64_t shared_bytes = 0;
  int64_t threads = -1;  // if not negative, the number of threads along x, in place of `grid`
};
// Returns a launch of n threads along x, rounded up to whole blocks. 0 starts nothing.
inline Launch threads(int64_t n, int64_t block = 256) {
  Launch l;
  l.block.x = block;
  l.threads = n;
  return l;
}

// A function of a text in CUDA C++. It reads no text before its first call, so it may be a global
// object. Calls may come from several threads. The text may include cograd/kernel.h, which has
// integers of stated sizes and the types Half, BFloat16 and Complex.
class Kernel {
 public:
  // `name` is the function, such as "ops::scale<float>"; it may be empty if there is one only.
  // `strided` names the parameters whose tensors need not be contiguous.
  explicit Kernel(std::string text, std::string name = "", std::vector<std::string> options = {},
                  std::vector<std::string> strided = {})
      : text_(std::move(text)),
        name_(std::move(name)),
        options_(std::move(options)),
        strided_(std::move(strided)) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() { cograd_cuda_kernel_release(handle_); }

  // Queues the kernel on the current stream of the tensors' GPU. The arguments are the function's:
  // tensors for pointers (nullopt for a null pointer) and numbers. Each is checked; errors name it.
  template <class... A>
  void operator()(const Launch& launch, const A&... args) const {
    const cograd_value values[sizeof...(A) + 1] = {value(args)..., cograd_value{}};
    start(launch, values, sizeof...(A));
  }

 private:
  template <class T>
  static cograd_value value(const T& v) noexcept {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      return ext::boxed(Scalar(v));
    else
      return ext::boxed(v);
  }
  static std::vector<const char*> pointers(const std::vector<std::string>& list) {
    std::vector<const char*> all;
    for (const std::string& s : list) all.push_back(s.c_str());
    return all;
  }
  void create() const {
    const std::vector<const char*> options = pointers(options_), strided = pointers(strided_);
    cograd_cuda_kernel_desc d{};
    d.struct_size = sizeof d;
    d.text = text_.c_str();
    d.name = name_.c_str();
    d.options = options.data();
    d.n_options = options.size();
    d.strided = strided.data();
    d.n_strided = strided.size();
    ext::check(cograd_cuda_kernel_create(&d, &handle_));
  }
  void start(const Launch& l, const cograd_value* args, size_t n) const {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (handle_ == nullptr) create();
    }
    cograd_cuda_launch c{};
    c.struct_size = sizeof c;
    if (l.threads < 0) {
      c.grid[0] = l.grid.x;
      c.grid[1] = l.grid.y;
      c.grid[2] = l.grid.z;
    }
    c.block[0] = l.block.x;
    c.block[1] = l.block.y;
    c.block[2] = l.block.z;
    c.shared_bytes = l.shared_bytes;
    c.threads = l.threads;
    ext::check(cograd_cuda_kernel_launch(handle_, &c, args, n));
  }

  std::string text_, name_;
  std::vector<std::string> options_, strided_;
  mutable std::mutex mutex_;
  mutable cograd_cuda_kernel handle_ = nullptr;
};

inline int32_t device_count() noexcept { return cograd_cuda_count(); }
inline bool is_available() noexcept { return device_count() > 0; }
// The current GPU of this thread.
inline int32_t current_device() {
  int32_t index = 0;
  ext::check(cograd_cuda_device(&index));
  return index;
}
inline void set_device(int32_t index) { ext::check(cograd_cuda_set_device(index)); }
inline void synchronize(int32_t device = -1) { ext::check(cograd_cuda_synchronize(device)); }

// A queue of work of a GPU. handle() is the driver's (CUstream), null for the default stream.
class Stream {
 public:
  Stream(int32_t device, void* handle) noexcept : device_(device), handle_(handle) {}
  // Returns a stream beside the default one; those of a negative priority go first.
  static Stream create(int32_t device = -1, int32_t priority = 0) {
    void* handle = nullptr;
    ext::check(cograd_cuda_new_stream(device, priority, &handle));
    return {device < 0 ? current_device() : device, handle};
  }
  void* handle() const noexcept { return handle_; }
  int32_t device_index() const noexcept { return device_; }
  Device device() const noexcept { return {DeviceType::CUDA, static_cast<int8_t>(device_)}; }
  void synchronize() const { ext::check(cograd_cuda_synchronize_stream(device_, handle_)); }
  // Returns whether all work of the stream is done.
  bool query() const {
    const int32_t done = cograd_cuda_stream_done(device_, handle_);
    if (done < 0) ext::throw_last_error(-done);
    return done != 0;
  }
  bool operator==(const Stream& o) const noexcept {
    return device_ == o.device_ && handle_ == o.handle_;
  }
  bool operator!=(const Stream& o) const noexcept { return !(*this == o); }

 private:
  int32_t device_;
  void* handle_;
};
// The stream that gets this thread's work on a GPU.
inline Stream current_stream(int32_t device = -1) {
  const int32_t index = device < 0 ? current_device() : device;
  void* handle = nullptr;
  ext::check(cograd_cuda_stream(index, &handle));
  return {index, handle};
}
inline void set_stream(const Stream& s) {
  ext::check(cograd_cuda_set_stream(s.device_index(), s.handle()));
}

// Makes a GPU the current one until the end of the block.
class DeviceGuard {
 public:
  explicit DeviceGuard(int32_t index) : before_(current_device()) { set_device(index); }
  explicit DeviceGuard(Device d) : before_(current_device()) { set(d); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() { cograd_cuda_set_device(before_); }
  void set(Device d) const {
    COGRAD_CHECK(d.is_cuda(), "DeviceGuard: expected a GPU, got the device ", d);
    if (d.has_index()) set_device(d.index());
  }
  int32_t before() const noexcept { return before_; }

 private:
  int32_t before_;
};
// Makes a stream, and its GPU, the current one until the end of the block.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& s) : gpu_(s.device_index()), before_(current_stream()) {
    set_stream(s);
  }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;
  ~StreamGuard() { cograd_cuda_set_stream(before_.device_index(), before_.handle()); }

 private:
  DeviceGuard gpu_;
  Stream before_;
};

}  // namespace cuda
}  // namespace abi1
}  // namespace cograd
