// SPDX-License-Identifier: BSD-3-Clause
// Types that the members of Tensor with torch's names use.
#pragma once
#include <memory>

#include "cograd/types.h"

namespace cograd {
namespace torch_compat {

// Memory formats. cograd has no "channels last", so its enumerator is missing.
enum class MemoryFormat : int8_t { Contiguous, Preserve };

// The result of x.grad_fn(); it only has a name.
struct Node {
  std::string text;
  const std::string& name() const noexcept { return text; }
};

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

constexpr const char* type_name(DType t) noexcept { return scalar_type_name(t); }

// The result of x.type().
class DeprecatedTypeProperties {
 public:
  DeprecatedTypeProperties(DType t, Device d = {}) noexcept  // NOLINT: implicit
      : type_(t), device_(d) {}
  operator DType() const noexcept { return type_; }  // NOLINT
  DType scalarType() const noexcept { return type_; }
  DeviceType device_type() const noexcept { return device_.type(); }
  TensorOptions options() const { return TensorOptions(type_).device(device_); }
  bool is_cuda() const noexcept { return device_.is_cuda(); }
  bool is_sparse() const noexcept { return false; }
  std::string toString() const {
    return std::string(is_cuda() ? "CUDA" : "CPU") + type_name(type_) + "Type";
  }

 private:
  DType type_;
  Device device_;
};

}  // namespace torch_compat
}  // namespace cograd
