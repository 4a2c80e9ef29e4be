// SPDX-License-Identifier: BSD-3-Clause
// The first stage in front of an op: it runs where its tensors are. An op without tensors runs at
// its parameter `device`, or else at the thread's place.
#pragma once
#include <optional>

#include "ops/declare/changed_arguments.h"

namespace cograd {

// Returns the device on which a call must run; raises if its tensors are on several. Host tensors
// without dims, and indices, may accompany tensors on a device.
COGRAD_API Device device_of_call(const OpRecord& r, const Value* args, TensorList targets);

// A call as it runs on its device.
class DeviceStage {
 public:
  DeviceStage(const OpRecord& r, const Value* args, TensorList targets);
  // False if the call can go on as it is.
  bool needed() const noexcept { return device_ != thread_place.now || moved_; }
  Device device() const noexcept { return device_; }
  // The arguments; host tensors among them have been copied to the device, recorded.
  const Value* args() const noexcept { return args_.data(); }

 private:
  Device device_;
  ChangedArguments args_;
  bool moved_ = false;
};

// Returns x on device d, recorded; x itself if it is there.
COGRAD_API Tensor to_device(const Tensor& x, Device d);

}  // namespace cograd
