// SPDX-License-Identifier: BSD-3-Clause
// The GPUs of this process: their contexts, streams and memory. A context starts when its GPU is
// first used.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver/api.h"
#include "cuda/memory/allocator.h"
#include "tensor/backend.h"

namespace cograd::cuda {

inline constexpr int kMaxGpus = 64;

class Gpu {
 public:
  explicit Gpu(int index);
  // Makes the GPU's context this thread's current one.
  void activate();
  CUstream stream() const noexcept;  // this thread's current stream on the GPU
  void set_stream(CUstream s);
  // Number of the current stream among those that have been current; 0 is the default stream.
  uint8_t stream_index() const noexcept;
  // Makes a stream the current one, which waits for the former one.
  void switch_stream(uint8_t index);
  // Returns one of the pool's streams; lower priorities go first.
  CUstream pool_stream(int priority);
  // Returns the streams that have been current on some thread.
  std::vector<CUstream> used_streams();

  const int index;
  CUcontext context = nullptr;
  GpuProperties properties;
  Allocator memory;

 private:
  static constexpr size_t kPoolSize = 32;  // as in torch
  std::mutex mutex_;
  std::array<std::vector<CUstream>, 2> pools_;
  std::array<size_t, 2> next_{};
  std::vector<CUstream> used_{nullptr};
  std::atomic<bool> several_{false};
};

int gpu_count();
// Returns a GPU, with its context; raises RuntimeError for an index that does not exist, and in a
// process that was forked after the driver had started.
Gpu& gpu(int index);
// Index of the current GPU of this thread.
int current_gpu() noexcept;
void set_current_gpu(int index);
// Returns the GPU of the thread's place, whose context is made current.
Gpu& here();
// True in a process that was forked after the driver had started: nothing can be called.
bool forked() noexcept;

// The addresses of all GPUs' memory: add_ and remove_ are called with the segments.
void add_device_range(CUdeviceptr at, size_t size);
void remove_device_range(CUdeviceptr at);

}  // namespace cograd::cuda
