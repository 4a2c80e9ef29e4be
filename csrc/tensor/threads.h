// SPDX-License-Identifier: BSD-3-Clause
// The thread pool that runs parallel loops and multi-threaded backward runs, and the hooks around
// heavy work (they release the GIL).
#pragma once
#include <atomic>
#include <cstdint>
#include <type_traits>

#include "cograd/error.h"

namespace cograd {

// Returns the number of threads that a parallel loop may use, the caller included. Default:
// COGRAD_NUM_THREADS if set, else the number of cores that sched_getaffinity reports.
COGRAD_API int num_threads() noexcept;
COGRAD_API void set_num_threads(int n);

// True on a pool worker, and on a caller while it runs its share of a parallel loop.
COGRAD_API bool in_parallel_region() noexcept;

// In its scope, if constructed with true, this thread's loops do not use the pool. They are still
// split into the same chunks, so results do not change.
class COGRAD_API SerialLoops {
 public:
  explicit SerialLoops(bool on) noexcept;
  ~SerialLoops();
  SerialLoops(const SerialLoops&) = delete;
  SerialLoops& operator=(const SerialLoops&) = delete;

 private:
  bool before_;
};

using RangeFn = void (*)(void* context, int64_t lo, int64_t hi);

// Calls fn on consecutive chunks of [begin, end). Chunk boundaries depend only on the range and the
// grain (never on the thread count), so per-chunk partial results are reproducible.
// Rethrows the first exception of any chunk once every chunk in flight has ended.
COGRAD_API void parallel_run(int64_t begin, int64_t end, int64_t grain, RangeFn fn, void* context);

// Returns a / b rounded up, for a >= 0, without overflow: a may be 2^63 - 1 (an expanded tensor).
constexpr int64_t divide_up(int64_t a, int64_t b) noexcept { return a / b + (a % b != 0); }

// Returns the length of parallel_run's chunks: a multiple of grain, for at most 256 chunks.
inline int64_t parallel_chunk(int64_t range, int64_t grain) noexcept {
  if (grain < 1) grain = 1;
  constexpr int64_t kMaxChunks = 256;
  return grain * divide_up(divide_up(range, grain), kMaxChunks);
}

template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& f) {
  if (begin >= end) return;
  if (end - begin <= grain) {
    f(begin, end);
    return;
  }
  using Fn = std::remove_reference_t<F>;
  parallel_run(
      begin, end, grain, [](void* c, int64_t lo, int64_t hi) { (*static_cast<Fn*>(c))(lo, hi); },
      const_cast<std::remove_const_t<Fn>*>(&f));
}

inline void pause_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Work that threads of the pool can join and leave while it runs, such as a backward run.
class SharedWork {
 public:
  // True if one more thread would find something to do.
  virtual bool wants_help() const noexcept = 0;
  // Called on a thread of the pool: works until nothing is left for this thread.
  virtual void help() noexcept = 0;
  std::atomic<int> helpers{0};  // number of threads in help(); only the pool changes it

 protected:
  ~SharedWork() = default;
};

// In its scope threads of the pool may join the work; the pool tries to have at least `threads`
// workers. The destructor waits for the threads that have joined.
class WorkOffer {
 public:
  WorkOffer(SharedWork& work, int threads);
  ~WorkOffer();
  WorkOffer(const WorkOffer&) = delete;
  WorkOffer& operator=(const WorkOffer&) = delete;

 private:
  SharedWork& work_;
  class Pool& pool_;
};
// Wakes a thread of the pool so that it can join the work that is offered.
void call_helper() noexcept;

// The number of element operations from which a loop counts as heavy.
inline constexpr int64_t kHeavyWork = 1 << 16;

// Sets the hooks around heavy work, which run on the calling thread. begin() may return nullptr
// ("nothing to end"); otherwise end() gets the pointer that begin() returned.
using HeavyHook = void* (*)();
COGRAD_API void set_heavy_hooks(HeavyHook begin, void (*end)(void*)) noexcept;

// Calls the hooks around heavy work. Nested scopes and scopes on pool workers do nothing.
class HeavyScope {
 public:
  explicit HeavyScope(int64_t work) {
    if (work >= kHeavyWork) [[unlikely]]
      enter();
  }
  ~HeavyScope() {
    if (entered_) [[unlikely]]
      leave();
  }
  HeavyScope(const HeavyScope&) = delete;
  HeavyScope& operator=(const HeavyScope&) = delete;

 private:
  COGRAD_API void enter();
  COGRAD_API void leave();
  void* state_ = nullptr;
  bool entered_ = false;
};

}  // namespace cograd
