// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/memory/allocator.h"

#include <cstdlib>
#include <cstring>

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
  const size_t size = rounded(bytes == 0 ? 1 : bytes, kStep);
  const bool small = size <= kSmall;
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) collect(false);
  Block* b = take(size, stream, small);
  if (b == nullptr) b = new_segment(size, stream, small);
  if (b == nullptr) {  // other streams' blocks may be free by now
    ++stats_.retries;
    collect(true);
    release_segments();
    b = new_segment(size, stream, small);
  }
  if (b == nullptr) {
    ++stats_.failures;
    fail(bytes);
  }
  b = split(b, size);
  b->used = true;
  stats_.blocks.add(1);
  stats_.bytes.add(static_cast<int64_t>(b->size));
  return b;
}

// Returns the smallest free block of the stream that is large enough, or null.
Block* Allocator::take(size_t size, CUstream stream, bool small) {
  Block key;
  key.size = size;
  key.stream = stream;
  FreeBlocks& from = pool(small);
  const auto it = from.lower_bound(&key);
  if (it == from.end() || (*it)->stream != stream) return nullptr;
  Block* b = *it;
  from.erase(it);
  return b;
}

Block* Allocator::new_segment(size_t size, CUstream stream, bool small) {
  const size_t whole = plain()           ? size
                       : small           ? kSmallSegment
                       : size <= kMedium ? kMediumSegment
                                         : rounded(size, kSmallSegment);
  CUdeviceptr at = 0;
  const CUresult r = driver().mem_alloc(&at, whole);
  if (r == kOutOfMemory) return nullptr;
  check(r, "cuMemAlloc");
  auto* b = new Block;
  b->at = at;
  b->size = whole;
  b->stream = stream;
  b->owner = this;
  b->small = small;
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
  pool(b->small).insert(rest);
  return b;
}

void Allocator::free(Block* b, const std::vector<CUstream>& others) noexcept {
  const std::lock_guard lock(mutex_);
  b->used = false;
  stats_.blocks.add(-1);
  stats_.bytes.add(-static_cast<int64_t>(b->size));
  for (const CUstream s : others) {
    if (s == b->stream) continue;
    CUevent e = nullptr;
    // A failure means that the context is lost; then nothing will run any more.
    if (driver().event_create(&e, 2) != kSuccess) continue;  // 2: without timing
    if (driver().event_record(e, s) == kSuccess)
      b->awaited.push_back(e);
    else
      driver().event_destroy(e);
  }
  if (b->awaited.empty())
    put_back(b);
  else
    waiting_.push_back(b);
}

// Adds a block to the free ones, merged with its free neighbours.
void Allocator::put_back(Block* b) {
  const auto merge = [this](Block* first, Block* second) {
    first->size += second->size;
    first->after = second->after;
    if (first->after != nullptr) first->after->before = first;
    delete second;
  };
  const auto mergeable = [](const Block* n) {
    return n != nullptr && !n->used && n->awaited.empty();
  };
  if (mergeable(b->after)) {
    pool(b->small).erase(b->after);
    merge(b, b->after);
  }
  if (mergeable(b->before)) {
    Block* first = b->before;
    pool(first->small).erase(first);
    merge(first, b);
    b = first;
  }
  pool(b->small).insert(b);
}

// Puts back the blocks that no other stream uses any more.
void Allocator::collect(bool wait) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Block* b = *it;
    while (!b->awaited.empty()) {
      const CUevent e = b->awaited.back();
      if (wait)
        driver().event_synchronize(e);
      else if (driver().event_query(e) == kNotReady)
        break;
      driver().event_destroy(e);
      b->awaited.pop_back();
    }
    if (!b->awaited.empty()) {
      ++it;
      continue;
    }
    it = waiting_.erase(it);
    put_back(b);
  }
}

void Allocator::release_segments() {
  for (FreeBlocks& from : free_)
    for (auto it = from.begin(); it != from.end();) {
      Block* b = *it;
      if (b->before != nullptr || b->after != nullptr) {
        ++it;
        continue;
      }
      it = from.erase(it);
      stats_.segments.add(-1);
      stats_.reserved.add(-static_cast<int64_t>(b->size));
      remove_device_range(b->at);
      driver().mem_free(b->at);  // waits for the kernels that use it
      delete b;
    }
}

void Allocator::release_cached() {
  const std::lock_guard lock(mutex_);
  collect(true);
  release_segments();
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

void Allocator::fail(size_t bytes) {
  size_t free = 0, total = 0;
  driver().mem_info(&free, &total);
  size_t largest = 0;
  for (const FreeBlocks& from : free_)
    for (const Block* b : from) largest = std::max(largest, b->size);
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
