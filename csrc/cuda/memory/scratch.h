// SPDX-License-Identifier: BSD-3-Clause
// Memory of the current GPU for the kernels of one call.
#pragma once
#include "cuda/driver/gpu.h"

namespace cograd::cuda {

// May be destroyed as soon as the kernels are launched: the stream runs them in order.
class Scratch {
 public:
  explicit Scratch(size_t bytes)
      : gpu_(here()), block_(gpu_.memory.allocate(bytes, gpu_.stream())) {}
  ~Scratch() { gpu_.memory.free(block_, gpu_.used_streams()); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const noexcept { return get<void>(); }
  template <class T = void>
  T* get() const noexcept {
    return reinterpret_cast<T*>(block_->at);  // NOLINT(performance-no-int-to-ptr)
  }

 private:
  Gpu& gpu_;
  Block* block_;
};

}  // namespace cograd::cuda
