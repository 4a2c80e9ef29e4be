// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/support.h"

#include <unordered_map>

#include "cuda/driver/gpu.h"
#include "cuda/driver/graph.h"
#include "cuda/driver/timing.h"
#include "tensor/device.h"

namespace cograd::cuda {

namespace {

struct Key {
  const char *program, *function;
  uint64_t variant;
  int gpu;
  bool operator==(const Key&) const = default;
};
struct DefinesKey {
  Key program;
  Define defines[4] = {
      {nullptr, nullptr}, {nullptr, nullptr}, {nullptr, nullptr}, {nullptr, nullptr}};
  bool operator==(const DefinesKey&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& k) const noexcept {
    uint64_t h = reinterpret_cast<uintptr_t>(k.program) * 31 + static_cast<uint64_t>(k.gpu);
    h = h * 0x9E3779B97F4A7C15u + reinterpret_cast<uintptr_t>(k.function);
    return static_cast<size_t>((h ^ h >> 29) * 0x9E3779B97F4A7C15u + k.variant);
  }
  size_t operator()(const DefinesKey& k) const noexcept {
    uint64_t h = (*this)(k.program);
    for (const Define& d : k.defines)
      h = (h ^ reinterpret_cast<uintptr_t>(d.text) ^ static_cast<uint64_t>(d.number)) *
          0x9E3779B97F4A7C15u;
    return static_cast<size_t>(h ^ h >> 32);
  }
};

}  // namespace

const char* bits_type(DType t) {
  switch (t) {
    case DType::UInt16:
      return stored_type(DType::Int16);
    case DType::UInt32:
      return stored_type(DType::Int32);
    case DType::UInt64:
      return stored_type(DType::Int64);
    default:
      return stored_type(t);
  }
}

CUfunction function_of(const char* program, const char* function, uint64_t variant,
                       std::string (*make)(uint64_t)) {
  thread_local std::unordered_map<Key, CUfunction, KeyHash> known;
  CUfunction& f = known[Key{program, function, variant, here().index}];
  if (f == nullptr) f = kernel(program, make(variant).c_str(), function);
  return f;
}
CUfunction function_of(const char* program, const char* function, DType t) {
  return function_of(program, function, static_cast<uint64_t>(t), [](uint64_t v) {
    return std::string("-DCOGRAD_T=") + stored_type(static_cast<DType>(v));
  });
}

CUfunction function_of(const char* program, const char* function,
                       std::initializer_list<Define> defines) {
  thread_local std::unordered_map<DefinesKey, CUfunction, KeyHash> known;
  DefinesKey key{{program, function, 0, here().index}};
  std::copy(defines.begin(), defines.end(), key.defines);
  CUfunction& f = known[key];
  if (f != nullptr) return f;
  std::string options;
  for (const Define& d : defines)
    options += std::string(options.empty() ? "-D" : " -D") + d.name + "=" +
               (d.text == nullptr ? std::to_string(d.number) : d.text);
  return f = kernel(program, options.c_str(), function);
}

void read_back(const void* from, void* to, size_t bytes) {
  copy_to_host(thread_place.now, from, to, bytes);
}
void copy_on_device(void* to, const void* from, int64_t n) {
  if (n <= 0) return;
  const Timed timed("Memcpy DtoD");
  check(driver().copy_on_device(reinterpret_cast<CUdeviceptr>(to),
                                reinterpret_cast<CUdeviceptr>(from), static_cast<size_t>(n),
                                here().stream()),
        "cuMemcpyDtoDAsync");
}
void set_bytes(void* at, int value, int64_t n) {
  if (n <= 0) return;
  const Timed timed("Memset");
  check(driver().set_bytes(reinterpret_cast<CUdeviceptr>(at), static_cast<unsigned char>(value),
                           static_cast<size_t>(n), here().stream()),
        "cuMemsetD8Async");
}

OnDevice::OnDevice(const void* p, size_t bytes) : copy_(bytes), at_(p) {
  if (on_device(p)) return;
  const auto to = reinterpret_cast<CUdeviceptr>(copy_.get());
  if (!capture_constant(here().stream(), p, to, bytes))
    copy_from_host(thread_place.now, p, copy_.get(), bytes);
  at_ = copy_.get();
}

}  // namespace cograd::cuda
