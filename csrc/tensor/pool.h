// SPDX-License-Identifier: BSD-3-Clause
// The thread pool behind parallel_run and WorkOffer.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "tensor/threads.h"

namespace cograd {

inline constexpr int kMaxThreads = 256;

// A loop over `chunks` chunks of [begin, end), of which the first `done` have run already.
struct Job {
  RangeFn fn;
  void* context;
  int64_t begin, end, chunk;
  int chunks, done, participants;

  void run_chunk(int c) const {
    const int64_t lo = begin + c * chunk;
    fn(context, lo, end - lo < chunk ? end : lo + chunk);
  }
};

// Runs one loop at a time. Its workers watch one word, which says which loop is open and how many
// threads it can use; each announces itself in a line of its own. The caller never waits for a
// worker that has not come.
class Pool {
 public:
  Pool();
  // Runs the loop, on the caller alone while another caller has the pool.
  void run(Job job);
  void offer(SharedWork& work, int threads);
  void withdraw(SharedWork& work);
  void call_helper() noexcept;
  // Counts the loops that were divided among threads.
  uint64_t loops() const noexcept { return word_.load(std::memory_order_relaxed) >> kEpochShift; }

 private:
  static constexpr uint64_t kOpen = 1 << 16;  // of word_: epoch, kOpen, number of participants
  static constexpr int kEpochShift = 17;
  static constexpr int kClaimBits = 10;  // of Line::claims: epoch, number of chunks taken

  // A worker sets `inside` and then reads word_; the caller closes word_ and then reads `inside`.
  // All are sequentially consistent: either the worker finds the loop closed, or the caller waits
  // until the worker has reset `inside`, and then sees what the worker's chunks wrote.
  struct alignas(64) Line {
    std::atomic<uint64_t> claims{0};  // chunks taken of the share of the loop that is this worker's
    std::atomic<bool> inside{false};
    std::atomic<int> alarm{0};  // what the worker sleeps on
  };
  struct Seen {
    uint64_t epoch = 0;  // the last loop that this worker joined
    uint64_t invited = 0;
    uint32_t calls = 0;
  };

  void start_workers(int wanted);
  void worker(int index);
  bool has_news(int index, Seen& seen) const noexcept;
  void wait_for_news(int index, Seen& seen) noexcept;
  void wake(int limit, int count) noexcept;
  void join_loop(int index, Seen& seen) noexcept;
  bool join_offer() noexcept;
  bool try_acquire() noexcept { return !busy_.exchange(true, std::memory_order_acquire); }
  void run_alone(Job job);
  void run_shared(const Job& job);
  int claim(int share, uint64_t epoch) noexcept;
  void work(int index, uint64_t epoch) noexcept;
  void wait_for_workers() noexcept;

  const int spinners_;  // workers from this index on do not spin: there are no processors for them
  std::atomic<bool> busy_{false};
  std::atomic<int> alone_{0};                         // callers whose loops run without workers
  std::atomic<int> workers_{0};                       // grows under mutex_
  std::chrono::steady_clock::time_point retry_at_{};  // guarded by mutex_

  // Read by all participants, written while no worker is inside.
  alignas(64) Job job_{};
  std::exception_ptr error_;  // written by whoever sets failed_
  alignas(64) std::atomic<bool> failed_{false};
  std::atomic<uint64_t> exhausted_{0};  // the last loop of which all chunks are claimed

  alignas(64) std::atomic<uint64_t> word_{0};
  std::atomic<uint32_t> calls_{0};  // counts call_helper()
  // A worker enters itself here and then reads word_ and calls_ once more; whoever writes those
  // reads this afterwards. So a worker that was called does not sleep.
  alignas(64) std::atomic<uint64_t> sleepers_[kMaxThreads / 64]{};
  alignas(64) std::atomic<bool> caller_sleeps_{false};
  std::atomic<int> caller_alarm_{0};
  Line lines_[kMaxThreads];

  alignas(64) std::mutex mutex_;     // guards offers_ and any_offer_
  std::vector<SharedWork*> offers_;  // newest last
  std::atomic<bool> any_offer_{false};
  std::condition_variable helper_left_;
};

// Like num_threads(), but less while forked relatives compute. Only the pool calls it.
int threads_for_loops() noexcept;

// True on a pool worker, and on a caller while it runs its share of a parallel loop.
extern constinit thread_local bool t_in_parallel __attribute__((tls_model("initial-exec")));

}  // namespace cograd
