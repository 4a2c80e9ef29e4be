// SPDX-License-Identifier: BSD-3-Clause
// The caching allocator of one GPU. Freed blocks stay with the stream that used them, so the same
// stream can reuse them at once: its kernels run in order.
#pragma once
#include <list>
#include <mutex>
#include <set>
#include <vector>

#include "cuda/driver/api.h"
#include "tensor/backend.h"

namespace cograd::cuda {

class Allocator;

// A part of a segment, which is one allocation of the driver.
struct Block {
  CUdeviceptr at = 0;
  size_t size = 0;
  CUstream stream = nullptr;
  Allocator* owner = nullptr;
  Block *before = nullptr, *after = nullptr;  // its neighbours in the segment
  bool used = false;
  bool small = false;
  std::vector<CUevent> awaited;  // other streams may read or write the block until these
};

class Allocator {
 public:
  explicit Allocator(int gpu) noexcept : gpu_(gpu) {}
  // Returns a block of at least `bytes` for kernels of the stream. The GPU's context is current.
  // Raises OutOfMemoryError after everything cached was given back.
  Block* allocate(size_t bytes, CUstream stream);
  // Takes a block back. Streams of the list may still use it.
  void free(Block* b, const std::vector<CUstream>& others) noexcept;
  int gpu() const noexcept { return gpu_; }
  // Gives segments without a used block back to the driver.
  void release_cached();

  GpuMemory statistics();
  void reset_peaks();

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const noexcept {
      if (a->stream != b->stream) return a->stream < b->stream;
      if (a->size != b->size) return a->size < b->size;
      return a->at < b->at;
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;

  Block* take(size_t size, CUstream stream, bool small);
  Block* new_segment(size_t size, CUstream stream, bool small);
  Block* split(Block* b, size_t size);
  void put_back(Block* b);
  void collect(bool wait);
  void release_segments();
  [[noreturn]] void fail(size_t bytes);

  FreeBlocks& pool(bool small) noexcept { return free_[small ? 0 : 1]; }

  const int gpu_;
  std::mutex mutex_;
  FreeBlocks free_[2];
  std::list<Block*> waiting_;  // freed, but awaited by other streams
  GpuMemory stats_;
};

}  // namespace cograd::cuda
