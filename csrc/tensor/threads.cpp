// SPDX-License-Identifier: BSD-3-Clause
// The thread pool: workers that spin briefly, then sleep on a futex. They take chunks of a loop, or
// join work that is offered. A forked child creates a new pool.
#include "tensor/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "tensor/thread_start.h"

namespace cograd {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kSpins = 2000;        // pauses before sleeping: about 20 us
constexpr int kHelperSpins = 4000;  // after a backward run, where heavy nodes are further apart

thread_local bool t_in_parallel = false;
thread_local bool t_in_heavy = false;
thread_local bool t_serial = false;

// The chunks that one participant starts with. Others take chunks from it when theirs are done.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Job {
  RangeFn fn;
  void* context;
  int64_t begin, end, chunk;
  int participants;
};

}  // namespace

class Pool {
 public:
  // Returns false if the pool works for another caller: the loop then runs serially.
  bool try_acquire() noexcept { return !busy_.exchange(true, std::memory_order_acquire); }
  void run(const Job& job);
  void offer(SharedWork& work, int threads);
  void withdraw(SharedWork& work);
  void call_helper() noexcept;

 private:
  static constexpr uint64_t kOpen = uint64_t{1} << 63;

  void start_workers(int wanted);
  void worker(int index);
  int wait_for_news(int seen, int spins) const noexcept;
  void join_loop(int index) noexcept;
  bool join_offer() noexcept;
  void work(int index) noexcept;
  void leave() noexcept;
  void wait_for_workers() noexcept;

  std::atomic<bool> busy_{false};
  std::atomic<int> workers_{0};  // grows under mutex_
  Job job_{};                    // written while the gate is closed
  Share shares_[kMaxThreads];
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // written by whoever sets failed_
  // kOpen plus the number of workers inside. A worker that wakes late finds the gate closed and
  // cannot touch a job that has ended.
  alignas(64) std::atomic<uint64_t> gate_{0};
  alignas(64) std::atomic<int> epoch_{0};
  alignas(64) std::atomic<int> left_{0};

  std::mutex mutex_;                 // guards offers_ and any_offer_
  std::vector<SharedWork*> offers_;  // newest last
  std::atomic<bool> any_offer_{false};
  std::condition_variable helper_left_;
};

void Pool::start_workers(int wanted) {
  if (workers_.load(std::memory_order_acquire) >= wanted) return;
  const std::lock_guard lock(mutex_);
  // Workers block all signals, so that the program's own threads receive them.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int index = workers_.load() + 1; index <= wanted; ++index) {
    // If no more threads can start, the running ones and the caller do the work.
    if (!start_thread([this, index] { worker(index); })) break;
    workers_.store(index, std::memory_order_release);
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Pool::worker(int index) {
  int spins = kSpins;
  for (int seen = 0;;) {
    seen = wait_for_news(seen, spins);
    spins = kSpins;
    join_loop(index);
    while (join_offer()) spins = kHelperSpins;
  }
}

// Waits until the epoch differs from `seen`; returns it.
int Pool::wait_for_news(int seen, int spins) const noexcept {
  int now = epoch_.load(std::memory_order_acquire);
  for (int i = 0; now == seen && i < spins; ++i) {
    pause_cpu();
    now = epoch_.load(std::memory_order_acquire);
  }
  while (now == seen) {
    epoch_.wait(seen, std::memory_order_acquire);
    now = epoch_.load(std::memory_order_acquire);
  }
  return now;
}

void Pool::join_loop(int index) noexcept {
  uint64_t gate = gate_.load(std::memory_order_acquire);
  do {
    if ((gate & kOpen) == 0) return;
  } while (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel));
  t_in_parallel = true;
  if (index < job_.participants) work(index);
  t_in_parallel = false;
  leave();
}

bool Pool::join_offer() noexcept {
  if (!any_offer_.load(std::memory_order_acquire)) return false;
  SharedWork* joined = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (SharedWork* w : offers_)
      if (w->wants_help()) joined = w;
    if (joined == nullptr) return false;
    joined->helpers.fetch_add(1, std::memory_order_relaxed);
  }
  joined->help();
  const std::lock_guard lock(mutex_);
  joined->helpers.fetch_sub(1, std::memory_order_relaxed);
  helper_left_.notify_all();
  return true;
}

void Pool::offer(SharedWork& work, int threads) {
  {
    const std::lock_guard lock(mutex_);
    offers_.push_back(&work);
    any_offer_.store(true, std::memory_order_release);
  }
  start_workers(threads);
}

void Pool::withdraw(SharedWork& work) {
  std::unique_lock lock(mutex_);
  std::erase(offers_, &work);
  any_offer_.store(!offers_.empty(), std::memory_order_release);
  helper_left_.wait(lock, [&] { return work.helpers.load(std::memory_order_relaxed) == 0; });
}

void Pool::call_helper() noexcept {
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_one();
}

void Pool::leave() noexcept {
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  left_.fetch_add(1, std::memory_order_release);
  left_.notify_all();
}

void Pool::work(int index) noexcept {
  for (int k = 0; k < job_.participants; ++k) {
    Share& share = shares_[(index + k) % job_.participants];
    for (;;) {
      if (failed_.load(std::memory_order_relaxed)) return;
      if (share.next.load(std::memory_order_relaxed) >= share.end) break;
      const int64_t c = share.next.fetch_add(1, std::memory_order_relaxed);
      if (c >= share.end) break;
      const int64_t lo = job_.begin + c * job_.chunk;
      try {
        job_.fn(job_.context, lo, std::min(lo + job_.chunk, job_.end));
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
    }
  }
}

void Pool::wait_for_workers() noexcept {
  for (int spins = 0;; ++spins) {
    const int left = left_.load(std::memory_order_acquire);
    if (gate_.load(std::memory_order_acquire) == 0) return;
    if (spins < kSpins)
      pause_cpu();
    else
      left_.wait(left, std::memory_order_acquire);
  }
}

void Pool::run(const Job& job) {
  start_workers(job.participants - 1);
  job_ = job;
  job_.participants = std::min(job.participants, workers_.load(std::memory_order_acquire) + 1);
  const int64_t range = job.end - job.begin;
  const int64_t chunks = divide_up(range, job.chunk);
  for (int k = 0; k < job_.participants; ++k) {
    shares_[k].next.store(chunks * k / job_.participants, std::memory_order_relaxed);
    shares_[k].end = chunks * (k + 1) / job_.participants;
  }
  gate_.store(kOpen, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  t_in_parallel = true;
  work(0);
  t_in_parallel = false;
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  wait_for_workers();
  std::exception_ptr error;
  if (failed_.load(std::memory_order_acquire)) {
    error = std::move(error_);
    error_ = nullptr;
    failed_.store(false, std::memory_order_relaxed);
  }
  busy_.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

namespace {

// Never freed: workers sleep in it until the process ends. A forked child drops the parent's pool.
std::atomic<Pool*> g_pool{nullptr};
std::atomic<int> g_threads{0};  // 0: not decided yet
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

int default_threads() noexcept {
  if (const char* text = std::getenv("COGRAD_NUM_THREADS")) {
    const long n = std::strtol(text, nullptr, 10);
    if (n > 0) return static_cast<int>(std::min<long>(n, kMaxThreads));
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

}  // namespace

int num_threads() noexcept {
  int n = g_threads.load(std::memory_order_relaxed);
  if (n != 0) return n;
  const int fresh = default_threads();
  return g_threads.compare_exchange_strong(n, fresh, std::memory_order_relaxed) ? fresh : n;
}

void set_num_threads(int n) {
  COGRAD_CHECK(n > 0, "set_num_threads(): expected a positive number of threads, got ", n);
  g_threads.store(std::min(n, kMaxThreads), std::memory_order_relaxed);
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
  if (participants > 1 && !t_in_parallel && !t_serial) {
    Pool& p = pool();
    if (p.try_acquire()) return p.run({fn, context, begin, end, chunk, participants});
  }
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
