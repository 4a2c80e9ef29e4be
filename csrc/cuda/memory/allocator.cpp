// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/memory/allocator.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"

namespace cograd::cuda {

namespace {

// Sizes are multiples of kStep. Small blocks share segments of kSmallSegment.
constexpr size_t kStep = 512, kSmall = size_t{1} << 20, kSmallSegment = size_t{2} << 20;
// Blocks up to kMedium share segments of kMediumSegment; larger ones have segments of their own.
constexpr size_t kMedium = size_t{10} << 20, kMediumSegment = size_t{20} << 20;

size_t rounded(size_t bytes, size_t step) noexcept { return (bytes + step - 1) / step * step; }

std::string megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// For tools that look for accesses out of bounds: each tensor is then an allocation of the driver.
bool plain() {
  static const bool is = [] {
    const char* v = std::getenv("COGRAD_CUDA_ALLOC");
    return v != nullptr && std::strcmp(v, "plain") == 0;
  }();
  return is;
}

}  // namespace

Block* Allocator::allocate(size_t bytes, CUstream stream) {
  const std::lock_guard lock(mutex_);
  if (!captures_.empty()) [[unlikely]] {
    const uint64_t capture = capture_of(stream);
    if (const auto it = captures_.find(capture); it != captures_.end())
      return allocate_in(*it->second, bytes, stream, capture);
  }
  return allocate_in(general_, bytes, stream, 0);
}
Block* Allocator::allocate(size_t bytes, CUstream stream, uint64_t pool) {
  const std::lock_guard lock(mutex_);
  return allocate_in(*pools_.at(pool), bytes, stream, 0);
}

Block* Allocator::allocate_in(MemoryPool& from, size_t bytes, CUstream stream, uint64_t capture) {
  const size_t size = rounded(bytes == 0 ? 1 : bytes, kStep);
  const bool small = size <= kSmall;
  if (!waiting_.empty()) collect(false);
  Block* b = take(from, size, stream, small);
  if (b == nullptr) b = new_segment(from, size, stream, small);
  if (b == nullptr && !capture_open()) {  // other streams' blocks may be free by now
    ++stats_.retries;
    collect(true);
    release_segments(general_);
    release_unused_pools();
    b = new_segment(from, size, stream, small);
  }
  if (b == nullptr) {
    ++stats_.failures;
    fail(bytes, from);
  }
  b = split(b, size);
  b->used = true;
  b->capture = capture;
  stats_.blocks.add(1);
  stats_.bytes.add(static_cast<int64_t>(b->size));
  return b;
}

// Returns the smallest free block of the stream that is large enough, or null.
Block* Allocator::take(MemoryPool& of, size_t size, CUstream stream, bool small) {
  Block key;
  key.size = size;
  key.stream = stream;
  FreeBlocks& from = of.free[small ? 0 : 1];
  const auto it = from.lower_bound(&key);
  if (it == from.end() || (*it)->stream != stream) return nullptr;
  Block* b = *it;
  from.erase(it);
  return b;
}

Block* Allocator::new_segment(MemoryPool& of, size_t size, CUstream stream, bool small) {
  const size_t whole = plain()           ? size
                       : small           ? kSmallSegment
                       : size <= kMedium ? kMediumSegment
                                         : rounded(size, kSmallSegment);
  CUdeviceptr at = 0;
  const DuringCapture allowed;
  const CUresult r = driver().mem_alloc(&at, whole);
  if (r == kOutOfMemory) return nullptr;
  check(r, "cuMemAlloc");
  auto* b = new Block;
  b->at = at;
  b->size = whole;
  b->stream = stream;
  b->owner = this;
  b->pool = &of;
  b->small = small;
  ++of.segments;
  stats_.segments.add(1);
  stats_.reserved.add(static_cast<int64_t>(whole));
  add_device_range(at, whole);
  return b;
}

// Makes what is left of a block after `size` bytes a free block, if it is worth it.
Block* Allocator::split(Block* b, size_t size) {
  const size_t left = b->size - size;
  if (left < (b->small ? kStep : kSmall + 1)) return b;
  auto* rest = new Block(*b);
  rest->at = b->at + size;
  rest->size = left;
  rest->before = b;
  if (rest->after != nullptr) rest->after->before = rest;
  b->after = rest;
  b->size = size;
  free_of(rest).insert(rest);
  return b;
}

void Allocator::free(Block* b, const std::vector<CUstream>& others) noexcept {
  const std::lock_guard lock(mutex_);
  b->used = false;
  stats_.blocks.add(-1);
  stats_.bytes.add(-static_cast<int64_t>(b->size));
  const MemoryPool& pool = *b->pool;
  if (!await(b, others)) {
    b->used = true;  // for its neighbours, until it is free
    b->pool->held.push_back(b);
  } else if (b->awaited == 0) {
    put_back(b);
  }
  if (&pool != &general_ && pool.graphs == 0) release_unused_pools();
}

// Marks the other streams, which may use the block. Returns false if one of them is captured and
// may use it in the capture, whose work nothing can wait for.
bool Allocator::await(Block* b, const std::vector<CUstream>& others) noexcept {
  const bool captured = !captures_.empty();
  const bool of_capture = captured && b->capture != 0 && captures_.contains(b->capture);
  bool apart = true;
  for (const CUstream s : others) {
    if (s == b->stream) continue;
    if (const uint64_t in = captured ? capture_of(s) : 0; in != 0) {
      const auto it = captures_.find(in);
      apart &= it == captures_.end() || it->second != b->pool;
      continue;
    }
    if (of_capture) continue;  // only streams of the capture have used the block
    // Idle streams are frequent, and this costs less than an event. Captures may forbid the call.
    if (!capture_open() && driver().stream_query(s) == kSuccess) continue;
    CUevent e = nullptr;
    // A failure means that the context is lost; then nothing will run any more.
    if (driver().event_create(&e, 2) != kSuccess) continue;  // 2: without timing
    if (driver().event_record(e, s) == kSuccess) {
      waiting_[s].push_back({e, b});
      ++b->awaited;
    } else {
      driver().event_destroy(e);
    }
  }
  return apart;
}

void Allocator::enter_pool(uint64_t pool) {
  const std::lock_guard lock(mutex_);
  auto& p = pools_[pool];
  if (p == nullptr) p = std::make_unique<MemoryPool>();
  ++p->graphs;
}
void Allocator::leave_pool(uint64_t pool) {
  const std::lock_guard lock(mutex_);
  --pools_.at(pool)->graphs;
  collect(false);
  release_unused_pools();
}
void Allocator::begin_capture(uint64_t capture, uint64_t pool) {
  const std::lock_guard lock(mutex_);
  captures_[capture] = pools_.at(pool).get();
}
uint64_t Allocator::open_capture_of(const Block* b) {
  const std::lock_guard lock(mutex_);
  return captures_.contains(b->capture) ? b->capture : 0;
}
void Allocator::end_capture(uint64_t capture) {
  const std::lock_guard lock(mutex_);
  const auto it = captures_.find(capture);
  if (it == captures_.end()) return;
  MemoryPool& p = *it->second;
  captures_.erase(it);
  for (Block* b : std::exchange(p.held, {})) {
    b->used = false;
    if (b->awaited == 0) put_back(b);
  }
  release_unused_pools();
}

// Gives back the memory of pools that no graph uses, as far as no tensor is in it.
void Allocator::release_unused_pools() {
  if (capture_open()) return;  // the end of the capture does it
  for (auto it = pools_.begin(); it != pools_.end();) {
    MemoryPool& p = *it->second;
    if (p.graphs == 0) release_segments(p);
    it = p.graphs == 0 && p.segments == 0 ? pools_.erase(it) : std::next(it);
  }
}

// Adds a block to the free ones, merged with its free neighbours.
void Allocator::put_back(Block* b) {
  const auto merge = [this](Block* first, Block* second) {
    first->size += second->size;
    first->after = second->after;
    if (first->after != nullptr) first->after->before = first;
    delete second;
  };
  const auto mergeable = [](const Block* n) { return n != nullptr && !n->used && n->awaited == 0; };
  if (mergeable(b->after)) {
    free_of(b).erase(b->after);
    merge(b, b->after);
  }
  if (mergeable(b->before)) {
    Block* first = b->before;
    free_of(first).erase(first);
    merge(first, b);
    b = first;
  }
  free_of(b).insert(b);
}

// Puts back the blocks that no other stream uses any more. A stream reaches its events in order, so
// one that is not ready answers for those behind it.
void Allocator::collect(bool wait) {
  if (capture_open()) return;
  bool unused = false;  // a pool that no graph uses got a block back
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    auto& queue = it->second;
    for (; !queue.empty(); queue.pop_front()) {
      const auto [event, b] = queue.front();
      if (wait)
        driver().event_synchronize(event);
      else if (driver().event_query(event) == kNotReady)
        break;
      driver().event_destroy(event);
      if (--b->awaited != 0 || b->used) continue;  // used: the end of a capture puts it back
      unused |= b->pool != &general_ && b->pool->graphs == 0;
      put_back(b);
    }
    it = queue.empty() ? waiting_.erase(it) : std::next(it);
  }
  if (unused) release_unused_pools();
}

void Allocator::release_segments(MemoryPool& of) {
  for (FreeBlocks& from : of.free)
    for (auto it = from.begin(); it != from.end();) {
      Block* b = *it;
      if (b->before != nullptr || b->after != nullptr) {
        ++it;
        continue;
      }
      it = from.erase(it);
      --of.segments;
      stats_.segments.add(-1);
      stats_.reserved.add(-static_cast<int64_t>(b->size));
      remove_device_range(b->at);
      driver().mem_free(b->at);  // waits for the kernels that use it
      delete b;
    }
}

void Allocator::release_cached() {
  const std::lock_guard lock(mutex_);
  if (capture_open()) return;  // what is free may wait for work that the capture holds up
  collect(true);
  release_segments(general_);
  release_unused_pools();
}

GpuMemory Allocator::statistics() {
  const std::lock_guard lock(mutex_);
  return stats_;
}
void Allocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  for (GpuMemory::Number* n : {&stats_.blocks, &stats_.bytes, &stats_.segments, &stats_.reserved})
    n->peak = n->current;
}

void Allocator::fail(size_t bytes, const MemoryPool& from) {
  size_t free = 0, total = 0;
  driver().mem_info(&free, &total);
  size_t largest = 0;
  for (const FreeBlocks& blocks : from.free)
    for (const Block* b : blocks) largest = std::max(largest, b->size);
  detail::fail(ErrorKind::Memory, "CUDA out of memory. Tried to allocate ",
               megabytes(static_cast<int64_t>(bytes)), ". GPU ", gpu_, " has a total capacity of ",
               megabytes(static_cast<int64_t>(total)), " of which ",
               megabytes(static_cast<int64_t>(free)), " is free. Tensors of this process hold ",
               megabytes(stats_.bytes.current), "; ",
               megabytes(stats_.reserved.current - stats_.bytes.current),
               " more is cached, the largest part of it in one piece is ",
               megabytes(static_cast<int64_t>(largest)),
               ". Use smaller batches, or free tensors and call cuda.empty_cache().");
}

}  // namespace cograd::cuda
