// SPDX-License-Identifier: BSD-3-Clause
// torch's names of streams and guards of NVIDIA GPUs, over cograd/cuda.h.
#pragma once
#include <optional>

#include "cograd/cuda.h"
#include "cograd/torch_compat/impl/module.h"

using cudaStream_t = struct CUstream_st*;  // as CUDA's own headers declare it

namespace cograd {
inline std::optional<Device> device_of(const Tensor& t) {
  return t.defined() ? std::optional(t.device()) : std::nullopt;
}
}  // namespace cograd

namespace c10 {
using DeviceIndex = int8_t;

namespace cuda {

class CUDAStream : public ::cograd::cuda::Stream {
 public:
  CUDAStream(const Stream& s) noexcept : Stream(s) {}  // NOLINT: implicit
  cudaStream_t stream() const noexcept { return static_cast<cudaStream_t>(handle()); }
  operator cudaStream_t() const noexcept { return stream(); }  // NOLINT
  DeviceIndex device_index() const noexcept { return device().index(); }
  DeviceType device_type() const noexcept { return DeviceType::CUDA; }
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  return ::cograd::cuda::current_stream(device);
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex device = -1) {
  return CUDAStream({device < 0 ? ::cograd::cuda::current_device() : device, nullptr});
}
inline CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex device = -1) {
  return ::cograd::cuda::Stream::create(device, high_priority ? -1 : 0);
}
inline CUDAStream getStreamFromPool(int priority, DeviceIndex device = -1) {
  return ::cograd::cuda::Stream::create(device, priority);
}
inline void setCurrentCUDAStream(CUDAStream s) { ::cograd::cuda::set_stream(s); }

inline DeviceIndex device_count() noexcept {
  return static_cast<DeviceIndex>(::cograd::cuda::device_count());
}
inline DeviceIndex current_device() {
  return static_cast<DeviceIndex>(::cograd::cuda::current_device());
}
inline void set_device(DeviceIndex device) { ::cograd::cuda::set_device(device); }
inline void device_synchronize() { ::cograd::cuda::synchronize(); }

class CUDAGuard {
 public:
  explicit CUDAGuard(DeviceIndex device) : guard_(device), index_(device) {}
  explicit CUDAGuard(Device device) : guard_(device), index_(::c10::cuda::current_device()) {}
  void set_device(Device device) { set_index(device.index()); }
  void set_index(DeviceIndex device) {
    ::c10::cuda::set_device(device);
    index_ = device;
  }
  Device original_device() const noexcept {
    return {DeviceType::CUDA, static_cast<DeviceIndex>(guard_.before())};
  }
  Device current_device() const noexcept { return {DeviceType::CUDA, index_}; }

 private:
  ::cograd::cuda::DeviceGuard guard_;
  DeviceIndex index_;
};

// Guards nothing for a tensor on the CPU, so the same code serves both.
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) set_device(*device);
  }
  explicit OptionalCUDAGuard(DeviceIndex device) { set_index(device); }
  void set_device(Device device) {
    if (device.is_cuda() && device.has_index()) set_index(device.index());
  }
  void set_index(DeviceIndex device) {
    if (guard_)
      guard_->set_index(device);
    else
      guard_.emplace(device);
  }
  std::optional<Device> original_device() const {
    return guard_ ? std::optional(guard_->original_device()) : std::nullopt;
  }
  std::optional<Device> current_device() const {
    return guard_ ? std::optional(guard_->current_device()) : std::nullopt;
  }
  void reset() { guard_.reset(); }

 private:
  std::optional<CUDAGuard> guard_;
};

class CUDAStreamGuard {
 public:
  explicit CUDAStreamGuard(CUDAStream s) : guard_(s), current_(s) {}
  CUDAStream current_stream() const noexcept { return current_; }

 private:
  ::cograd::cuda::StreamGuard guard_;
  CUDAStream current_;
};

}  // namespace cuda
}  // namespace c10

namespace at {
using ::c10::DeviceIndex;
using ::cograd::device_of;
namespace cuda {
using namespace ::c10::cuda;  // NOLINT: torch has these names in both
inline bool is_available() noexcept { return ::cograd::cuda::is_available(); }
}  // namespace cuda
}  // namespace at
namespace torch {
namespace cuda {
inline size_t device_count() noexcept { return static_cast<size_t>(::c10::cuda::device_count()); }
inline bool is_available() noexcept { return ::cograd::cuda::is_available(); }
inline void synchronize(int64_t device = -1) {
  ::cograd::cuda::synchronize(static_cast<int32_t>(device));
}
}  // namespace cuda
}  // namespace torch

// A kernel's launch is checked where it is queued.
#define C10_CUDA_KERNEL_LAUNCH_CHECK() \
  do {                                 \
  } while (false)
