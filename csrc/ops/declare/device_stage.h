// SPDX-License-Identifier: BSD-3-Clause
// The first stage in front of an op: it runs where its tensors are. An op without tensors runs at
// its parameter `device`, or else at the thread's place.
#pragma once
#include <optional>

#include "ops/declare/registry.h"

namespace cograd {

// Returns the device on which a call must run; raises if its tensors are on several. Host tensors
// without dims, and indices, may accompany tensors on a device.
COGRAD_API Device device_of_call(const OpRecord& r, const Value* args, TensorList targets);

// A call as it runs on its device.
class DeviceStage {
 public:
  DeviceStage(const OpRecord& r, const Value* args, TensorList targets);
  // False if the call can go on as it is.
  bool needed() const noexcept { return device_ != thread_place.now || !moved_.empty(); }
  Device device() const noexcept { return device_; }
  // The arguments; host tensors among them have been copied to the device, recorded.
  const Value* args() const noexcept { return moved_.empty() ? args_ : values_.data(); }

 private:
  const Value* args_;
  Device device_;
  std::vector<Tensor> moved_, list_;
  std::vector<Value> values_;
};

// Returns x on device d, recorded; x itself if it is there.
COGRAD_API Tensor to_device(const Tensor& x, Device d);

}  // namespace cograd
