// SPDX-License-Identifier: BSD-3-Clause
// Devices, and the place of a thread: the device that its running op computes on.
#pragma once
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

enum class DeviceType : uint8_t {
  CPU,
  Meta,  // tensors with a shape and a dtype but no data
  Fake,  // the CPU behind memory that only kernels may touch: it proves the seam (fake_device.h)
  CUDA,  // NVIDIA GPUs; libcograd_cuda.so implements them (backend.h)
};
inline constexpr int kDeviceTypes = 4;

struct Device {
  DeviceType type;
  int8_t index;  // -1: the current one
  bool operator==(const Device&) const = default;
};
inline constexpr Device kHost{DeviceType::CPU, -1};
// Returns "cpu", "meta", "fake", "cuda:0".
COGRAD_API std::string to_string(Device d);

struct ThreadPlace {
  // The device on which tensors are created and kernels run. It differs from the host only while an
  // op runs on another device; code that is not part of an op always finds the host here.
  Device now = kHost;
  Device by_default = kHost;  // where a factory called by a user creates if no device is named
};
extern constinit COGRAD_API thread_local ThreadPlace thread_place
    __attribute__((tls_model("initial-exec")));

// Returns a distinct address for `nbytes` of a meta tensor; nothing can be read or written there.
COGRAD_API void* meta_address(int64_t nbytes);

// True if there may be ops that the device has no kernel for; see ops/declare/fallback.h.
inline bool may_lack_kernels(Device d) noexcept {
  return d.type != DeviceType::CPU && d.type != DeviceType::Meta;
}
// Returns the number of this thread's current stream on a device; 0 is the default stream.
COGRAD_API uint8_t stream_index(Device d) noexcept;
inline bool on_host() noexcept { return thread_place.now.type == DeviceType::CPU; }

// Copies bytes of a tensor on device d to the host, for an op that decides by values. Raises on the
// meta device.
COGRAD_API void copy_to_host(Device d, const void* from, void* to, size_t bytes);
// Copies bytes from the host into a tensor on device d.
COGRAD_API void copy_from_host(Device d, const void* from, void* to, size_t bytes);
// Raises on behalf of `who`, which reads elements, if the running op's tensors have none.
COGRAD_API void check_has_data(const char* who);

// Raises because `who` reads elements of a tensor on device d.
[[noreturn]] COGRAD_API void fail_unreadable(Device d, const char* who);

class PlaceGuard {
 public:
  explicit PlaceGuard(Device d) noexcept : previous_(thread_place.now) { thread_place.now = d; }
  PlaceGuard(const PlaceGuard&) = delete;
  PlaceGuard& operator=(const PlaceGuard&) = delete;
  ~PlaceGuard() { thread_place.now = previous_; }

 private:
  Device previous_;
};

}  // namespace cograd
