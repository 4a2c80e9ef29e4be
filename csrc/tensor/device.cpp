// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/device.h"

#include <atomic>
#include <cstring>

#include "tensor/backend.h"
#include "tensor/slot.h"

namespace cograd {

constinit thread_local ThreadPlace thread_place;

std::string to_string(Device d) {
  constexpr const char* kNames[kDeviceTypes] = {"cpu", "meta", "fake", "cuda"};
  std::string s = kNames[static_cast<int>(d.type)];
  if (d.index >= 0) s += ":" + std::to_string(d.index);
  return s;
}

void* meta_address(int64_t nbytes) {
  // No memory can be mapped from here on, so an access is a fault and never a wrong value.
  constexpr uint64_t kFirst = uint64_t{1} << 62, kRange = uint64_t{1} << 61, kAlign = 64;
  static std::atomic<uint64_t> used{0};
  const uint64_t size = (static_cast<uint64_t>(nbytes) / kAlign + 1) * kAlign;
  const uint64_t at = used.fetch_add(size, std::memory_order_relaxed) % kRange;
  return reinterpret_cast<void*>(kFirst + at);  // NOLINT(performance-no-int-to-ptr)
}

void check_has_data(const char* who) {
  COGRAD_CHECK_NOT_IMPLEMENTED(thread_place.now.type != DeviceType::Meta, who,
                               ": meta tensors have a shape and a dtype, but no values");
}

void copy_to_host(Device d, const void* from, void* to, size_t bytes) {
  if (d.type == DeviceType::Meta) fail_unreadable(d, "an op that decides by values");
  if (bytes == 0) return;
  if (Backend* b = backend_of(d.type)) return b->copy_to_host(d, from, to, bytes);
  std::memcpy(to, d.type == DeviceType::Fake ? kernel_view(from) : from, bytes);
}
void copy_from_host(Device d, const void* from, void* to, size_t bytes) {
  if (d.type == DeviceType::Meta || bytes == 0) return;
  if (Backend* b = backend_of(d.type)) return b->copy_from_host(d, from, to, bytes);
  std::memcpy(d.type == DeviceType::Fake ? kernel_view(to) : to, from, bytes);
}

void fail_unreadable(Device d, const char* who) {
  if (d.type == DeviceType::Meta)
    detail::fail(ErrorKind::NotImplemented, "Cannot copy out of meta tensor; no data! ", who,
                 " cannot be called on meta tensors, which have a shape and a dtype only.");
  detail::fail(ErrorKind::Type, who, ": can't read a tensor on ", to_string(d),
               ". Use Tensor.cpu() to copy the tensor to host memory first.");
}

bool place_has_kernel(const char* name) noexcept {
  Backend* b = backend_of(thread_place.now.type);
  return b == nullptr || b->kernel(name) != nullptr;
}

namespace detail {

void fail_no_kernel(const char* name) {
  throw NoKernel(concat("device '", to_string(thread_place.now), "' has no kernel '", name,
                        "': move the tensors to the CPU"));
}
void* backend_kernel(const char* name) {
  Backend* b = backend_of(thread_place.now.type);
  void* found = b == nullptr ? nullptr : b->kernel(name);
  if (found == nullptr) fail_no_kernel(name);
  return found;
}
void fail_no_data(const char* name) {
  fail(ErrorKind::NotImplemented, "the result depends on the values of a tensor (kernel '", name,
       "'), but meta tensors have a shape and a dtype without values: use tensors on the CPU");
}

}  // namespace detail

}  // namespace cograd
