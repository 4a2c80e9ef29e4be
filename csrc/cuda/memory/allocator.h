// SPDX-License-Identifier: BSD-3-Clause
// The caching allocator of one GPU. Freed blocks stay with the stream that used them, so the same
// stream can reuse them at once: its kernels run in order.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cuda/driver/api.h"
#include "tensor/backend.h"

namespace cograd::cuda {

class Allocator;
struct MemoryPool;

// A part of a segment, which is one allocation of the driver.
struct Block {
  CUdeviceptr at = 0;
  size_t size = 0;
  CUstream stream = nullptr;
  Allocator* owner = nullptr;
  MemoryPool* pool = nullptr;
  uint64_t capture = 0;                       // the capture that it was allocated in
  Block *before = nullptr, *after = nullptr;  // its neighbours in the segment
  bool used = false;
  bool small = false;
  int awaited = 0;  // events until which other streams may read or write the block
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const noexcept {
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    return a->at < b->at;
  }
};
// The free blocks of segments that belong together. Memory of graphs is in pools of its own: as
// each replay writes it, only captures with the same pool get it.
struct MemoryPool {
  std::set<Block*, BySize> free[2];
  int graphs = 0;  // that use it; nobody gets memory of a pool without one
  int64_t segments = 0;
  std::vector<Block*> held;  // freed in a capture of several streams, and free again at its end
};

class Allocator {
 public:
  explicit Allocator(int gpu) noexcept : gpu_(gpu) {}
  // Returns a block of at least `bytes` for kernels of the stream. The GPU's context is current.
  // Raises OutOfMemoryError after everything cached was given back.
  Block* allocate(size_t bytes, CUstream stream);
  Block* allocate(size_t bytes, CUstream stream, uint64_t pool);  // in a pool of graphs
  // Takes a block back. Streams of the list may still use it.
  void free(Block* b, const std::vector<CUstream>& others) noexcept;
  int gpu() const noexcept { return gpu_; }
  // A graph uses a pool from enter to leave. The memory of a pool without graphs goes back to the
  // driver when no tensor is in it.
  void enter_pool(uint64_t pool);
  void leave_pool(uint64_t pool);
  // Lets the streams of a capture allocate from a pool.
  void begin_capture(uint64_t capture, uint64_t pool);
  void end_capture(uint64_t capture);
  // Returns the open capture that a block was allocated in, or 0.
  uint64_t open_capture_of(const Block* b);
  // Gives segments without a used block back to the driver.
  void release_cached();

  GpuMemory statistics();
  void reset_peaks();

 private:
  using FreeBlocks = std::set<Block*, BySize>;

  Block* allocate_in(MemoryPool& from, size_t bytes, CUstream stream, uint64_t capture);
  Block* take(MemoryPool& from, size_t size, CUstream stream, bool small);
  Block* new_segment(MemoryPool& of, size_t size, CUstream stream, bool small);
  Block* split(Block* b, size_t size);
  void put_back(Block* b);
  void collect(bool wait);
  bool await(Block* b, const std::vector<CUstream>& others) noexcept;
  void release_segments(MemoryPool& of);
  void release_unused_pools();
  [[noreturn]] void fail(size_t bytes, const MemoryPool& from);

  static FreeBlocks& free_of(const Block* b) noexcept { return b->pool->free[b->small ? 0 : 1]; }

  const int gpu_;
  std::mutex mutex_;
  MemoryPool general_;
  std::map<uint64_t, std::unique_ptr<MemoryPool>> pools_;  // of graphs
  std::map<uint64_t, MemoryPool*> captures_;               // the open ones
  // Events after the last use of freed blocks, in the order in which their stream reaches them.
  struct Awaited {
    CUevent event;
    Block* block;
  };
  std::map<CUstream, std::deque<Awaited>> waiting_;  // no queue is empty
  GpuMemory stats_;
};

}  // namespace cograd::cuda
