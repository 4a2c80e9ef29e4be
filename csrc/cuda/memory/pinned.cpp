// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/memory/pinned.h"

#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/driver/capture.h"
#include "tensor/backend.h"

namespace cograd::cuda {

namespace {

struct Pinned {
  size_t size = 0;
  bool used = true;
  int graphs = 0;                // that read the block
  std::vector<CUevent> awaited;  // copies read the block until these
};

// Blocks have a power of two of bytes, as torch's, so that batches of like size share them.
class PinnedBlocks {
 public:
  void* allocate(size_t bytes) {
    const size_t size = std::bit_ceil(bytes < kLeast ? kLeast : bytes);
    const std::lock_guard lock(mutex_);
    for (auto& [at, b] : blocks_)
      if (!b.used && b.graphs == 0 && b.size == size && done(b)) {
        b.used = true;
        return const_cast<char*>(at);
      }
    void* p = nullptr;
    const DuringCapture allowed;
    constexpr unsigned kPortable = 1;  // pinned for all GPUs
    CUresult r = driver().mem_host_alloc(&p, size, kPortable);
    if (r != kSuccess) {
      release();
      r = driver().mem_host_alloc(&p, size, kPortable);
    }
    check(r, "cuMemHostAlloc");
    blocks_[static_cast<char*>(p)].size = size;
    return p;
  }
  void free(void* p) noexcept {
    const std::lock_guard lock(mutex_);
    blocks_.at(static_cast<char*>(p)).used = false;
  }
  bool has(const void* p) noexcept {
    const std::lock_guard lock(mutex_);
    return find(p) != nullptr;
  }
  void used_by(const void* p, CUstream stream) {
    constexpr unsigned kWithoutTiming = 2;
    CUevent e = nullptr;
    check(driver().event_create(&e, kWithoutTiming), "cuEventCreate");
    const CUresult r = driver().event_record(e, stream);
    if (r != kSuccess) driver().event_destroy(e);
    check(r, "cuEventRecord");
    const std::lock_guard lock(mutex_);
    find(p)->awaited.push_back(e);
  }
  void enter_graph(const void* p) {
    const std::lock_guard lock(mutex_);
    ++find(p)->graphs;
  }
  void leave_graph(const void* p) {
    const std::lock_guard lock(mutex_);
    --find(p)->graphs;
  }
  void release_cached() {
    const std::lock_guard lock(mutex_);
    release();
  }

 private:
  static constexpr size_t kLeast = 512;

  static bool done(Pinned& b) {
    // A capture does not allow to ask for events.
    if (!b.awaited.empty() && capture_open()) return false;
    while (!b.awaited.empty()) {
      if (driver().event_query(b.awaited.back()) == kNotReady) return false;
      driver().event_destroy(b.awaited.back());
      b.awaited.pop_back();
    }
    return true;
  }
  Pinned* find(const void* p) {
    auto it = blocks_.upper_bound(static_cast<const char*>(p));
    if (it == blocks_.begin()) return nullptr;
    --it;
    return static_cast<const char*>(p) < it->first + it->second.size ? &it->second : nullptr;
  }
  void release() {
    if (capture_open()) return;
    for (auto it = blocks_.begin(); it != blocks_.end();) {
      if (it->second.used || it->second.graphs != 0 || !done(it->second)) {
        ++it;
        continue;
      }
      driver().mem_free_host(const_cast<char*>(it->first));
      it = blocks_.erase(it);
    }
  }

  std::mutex mutex_;
  std::map<const char*, Pinned> blocks_;
};
PinnedBlocks& blocks() {
  static auto* b = new PinnedBlocks;  // never freed: tensors may outlive static objects
  return *b;
}

}  // namespace

void* pinned_allocate(size_t bytes) { return blocks().allocate(bytes); }
void pinned_free(void* p) noexcept { blocks().free(p); }
bool is_pinned(const void* p) noexcept { return blocks().has(p); }
void pinned_used_by(const void* p, CUstream stream) { blocks().used_by(p, stream); }
void pinned_enter_graph(const void* p) { blocks().enter_graph(p); }
void pinned_leave_graph(const void* p, bool replayed, CUstream last) {
  if (replayed) blocks().used_by(p, last);
  blocks().leave_graph(p);
}
void pinned_release_cached() { blocks().release_cached(); }

}  // namespace cograd::cuda
