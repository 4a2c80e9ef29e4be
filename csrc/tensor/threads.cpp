// SPDX-License-Identifier: BSD-3-Clause
// Parallel loops, the number of their threads, and the hooks around heavy work.
#include "tensor/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "tensor/pool.h"
#include "tensor/processors.h"
#include "tensor/relatives.h"

namespace cograd {

namespace {

thread_local bool t_in_heavy = false;
thread_local bool t_serial = false;

// Never freed: workers sleep in it until the process ends. A forked child drops the parent's pool.
std::atomic<Pool*> g_pool{nullptr};
std::atomic<int> g_threads{0};   // 0: not decided yet
std::atomic<bool> g_set{false};  // by set_num_threads
std::atomic<HeavyHook> g_heavy_begin{nullptr};
std::atomic<void (*)(void*)> g_heavy_end{nullptr};

void after_fork_in_child() {
  g_pool.store(nullptr, std::memory_order_relaxed);
  t_in_parallel = false;
}

Pool& pool() {
  Pool* p = g_pool.load(std::memory_order_acquire);
  if (p != nullptr) return *p;
  static const int registered = pthread_atfork(nullptr, nullptr, after_fork_in_child);
  (void)registered;
  auto* fresh = new Pool;
  if (g_pool.compare_exchange_strong(p, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *p;
}

}  // namespace

int num_threads() noexcept {
  int n = g_threads.load(std::memory_order_relaxed);
  if (n != 0) return n;
  const int fresh = processor_limits().threads();
  return g_threads.compare_exchange_strong(n, fresh, std::memory_order_relaxed) ? fresh : n;
}

int64_t parallel_loops() { return static_cast<int64_t>(pool().loops()); }

std::string threads_reason() {
  const int n = num_threads();
  if (g_set.load(std::memory_order_relaxed)) return detail::concat(n, ": set_num_threads(", n, ")");
  return detail::concat(n, ": ", describe(processor_limits()));
}

int threads_for_loops() noexcept {
  const bool set = g_set.load(std::memory_order_relaxed) || processor_limits().set > 0;
  return set ? num_threads() : share_of_relatives(num_threads());
}

void set_num_threads(int n) {
  COGRAD_CHECK(n > 0, "set_num_threads(): expected a positive number of threads, got ", n);
  g_threads.store(std::min(n, kMaxThreads), std::memory_order_relaxed);
  g_set.store(true, std::memory_order_relaxed);
}

bool in_parallel_region() noexcept { return t_in_parallel; }

SerialLoops::SerialLoops(bool on) noexcept : before_(t_serial) { t_serial = before_ || on; }
SerialLoops::~SerialLoops() { t_serial = before_; }

void parallel_run(int64_t begin, int64_t end, int64_t grain, RangeFn fn, void* context) {
  if (begin >= end) return;
  const int64_t range = end - begin;
  const int64_t chunk = parallel_chunk(range, grain);
  const int64_t chunks = divide_up(range, chunk);
  const int participants = static_cast<int>(std::min<int64_t>(num_threads(), chunks));
  if (participants > 1 && !t_in_parallel && !t_serial)
    return pool().run({fn, context, begin, end, chunk, static_cast<int>(chunks), 0, participants});
  for (int64_t lo = begin; lo < end; lo += chunk) fn(context, lo, std::min(lo + chunk, end));
}

WorkOffer::WorkOffer(SharedWork& work, int threads) : work_(work), pool_(pool()) {
  pool_.offer(work, threads);
}
WorkOffer::~WorkOffer() { pool_.withdraw(work_); }
void call_helper() noexcept { pool().call_helper(); }

void set_heavy_hooks(HeavyHook begin, void (*end)(void*)) noexcept {
  g_heavy_begin.store(begin, std::memory_order_relaxed);
  g_heavy_end.store(end, std::memory_order_release);
}

void HeavyScope::enter() {
  if (t_in_heavy || t_in_parallel) return;
  const HeavyHook begin = g_heavy_begin.load(std::memory_order_acquire);
  if (begin == nullptr) return;
  state_ = begin();
  if (state_ == nullptr) return;
  t_in_heavy = entered_ = true;
}

void HeavyScope::leave() {
  t_in_heavy = entered_ = false;
  const auto end = g_heavy_end.load(std::memory_order_acquire);
  if (end != nullptr) end(state_);
}

}  // namespace cograd
