// SPDX-License-Identifier: BSD-3-Clause
#include "tensor/pool.h"

#include <signal.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "tensor/processors.h"
#include "tensor/relatives.h"
#include "tensor/thread_start.h"

namespace cograd {

constinit thread_local bool t_in_parallel = false;

namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

// Worker i spins 200 us + 600 us / i after the last loop that could use it: long enough for the
// Python code between two loops, shorter the more others spin.
constexpr microseconds kSpin{200}, kSharedSpin{600};
constexpr microseconds kCallerSpin{200};
constexpr microseconds kCrowdedSpin{20};          // of a caller when threads outnumber processors
constexpr std::chrono::milliseconds kRetry{100};  // between attempts to start threads
constexpr int kFanOut = 2;                        // workers that each participant wakes

// Measures how long a thread has spun, reading the clock about once in a microsecond.
class Spin {
 public:
  explicit Spin(microseconds limit) noexcept : limit_(limit) {}
  // Pauses; returns false once the limit has passed.
  bool pause() noexcept {
    pause_cpu();
    if (++pauses_ % kEvery != 0) [[likely]]
      return true;
    const auto now = steady_clock::now();
    if (pauses_ == kEvery) start_ = now;
    return now - start_ < limit_;
  }
  void restart() noexcept { pauses_ = 0; }

 private:
  static constexpr unsigned kEvery = 32;
  const microseconds limit_;
  unsigned pauses_ = 0;
  steady_clock::time_point start_{};
};

int participants_of(uint64_t word) noexcept { return static_cast<int>(word & 0xffff); }

}  // namespace

Pool::Pool() : spinners_(usable_processors()) {}

void Pool::start_workers(int wanted) {
  if (workers_.load(std::memory_order_acquire) >= wanted) return;
  const std::lock_guard lock(mutex_);
  if (steady_clock::now() < retry_at_) return;
  // Workers block all signals, so that the program's own threads receive them.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int index = workers_.load() + 1; index <= wanted; ++index) {
    // If no more threads can start, the running ones and the caller do the work.
    if (!start_thread([this, index] { worker(index); })) {
      retry_at_ = steady_clock::now() + kRetry;
      break;
    }
    workers_.store(index, std::memory_order_release);
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void Pool::worker(int index) {
  for (Seen seen;;) {
    wait_for_news(index, seen);
    join_loop(index, seen);
    seen.calls = calls_.load(std::memory_order_acquire);
    while (join_offer()) {
    }
  }
}

// True if a loop is open that this worker can join, or a helper was called.
bool Pool::has_news(int index, Seen& seen) const noexcept {
  const uint64_t word = word_.load(std::memory_order_seq_cst);
  if (index < participants_of(word)) {
    seen.invited = word >> kEpochShift;
    if ((word & kOpen) != 0 && seen.invited != seen.epoch) return true;
  }
  return calls_.load(std::memory_order_seq_cst) != seen.calls;
}

void Pool::wait_for_news(int index, Seen& seen) noexcept {
  Line& me = lines_[index];
  auto& sleepers = sleepers_[index / 64];
  const uint64_t bit = uint64_t{1} << (index % 64);
  for (;;) {
    Spin spin(kSpin + kSharedSpin / index);
    uint64_t invited = seen.invited;
    do {
      if (has_news(index, seen)) return;
      // The worker came too late for this loop; it is in time for the next.
      if (seen.invited != std::exchange(invited, seen.invited)) spin.restart();
    } while (index < spinners_ && spin.pause());
    const int alarm = me.alarm.load(std::memory_order_relaxed);
    sleepers.fetch_or(bit, std::memory_order_seq_cst);
    const bool news = has_news(index, seen);
    if (!news) me.alarm.wait(alarm, std::memory_order_acquire);
    sleepers.fetch_and(~bit, std::memory_order_relaxed);
    if (news) return;
  }
}

// Wakes up to `count` sleeping workers with indices below `limit`.
void Pool::wake(int limit, int count) noexcept {
  for (int first = 0; first < limit; first += 64) {
    auto& sleepers = sleepers_[first / 64];
    uint64_t bits = sleepers.load(std::memory_order_seq_cst);
    if (limit - first < 64) bits &= (uint64_t{1} << (limit - first)) - 1;
    for (; bits != 0; bits &= bits - 1) {
      const uint64_t bit = bits & (~bits + 1);
      if ((sleepers.fetch_and(~bit, std::memory_order_relaxed) & bit) == 0) continue;
      auto& alarm = lines_[first + std::countr_zero(bit)].alarm;
      alarm.fetch_add(1, std::memory_order_release);
      alarm.notify_one();
      if (--count == 0) return;
    }
  }
}

void Pool::join_loop(int index, Seen& seen) noexcept {
  Line& me = lines_[index];
  if ((word_.load(std::memory_order_relaxed) & kOpen) == 0) return;
  me.inside.store(true, std::memory_order_seq_cst);
  const uint64_t word = word_.load(std::memory_order_seq_cst), epoch = word >> kEpochShift;
  if ((word & kOpen) != 0 && index < participants_of(word) && epoch != seen.epoch) {
    seen.epoch = epoch;
    t_in_parallel = true;
    if (exhausted_.load(std::memory_order_relaxed) != epoch) wake(participants_of(word), kFanOut);
    work(index, epoch);
    t_in_parallel = false;
  }
  me.inside.store(false, std::memory_order_seq_cst);
  if (!caller_sleeps_.load(std::memory_order_seq_cst)) return;
  caller_alarm_.fetch_add(1, std::memory_order_release);
  caller_alarm_.notify_one();
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
  calls_.fetch_add(1, std::memory_order_seq_cst);
  wake(workers_.load(std::memory_order_acquire) + 1, 1);
}

// Returns the next chunk of a participant's share, or -1 if none is left. A share counts as
// untouched while it has the number of an earlier loop, so nobody has to prepare it.
int Pool::claim(int share, uint64_t epoch) noexcept {
  const int count = job_.chunks - job_.done, all = job_.participants;
  const int first = count * share / all, size = count * (share + 1) / all - first;
  std::atomic<uint64_t>& claims = lines_[share].claims;
  uint64_t before = claims.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t none = epoch << kClaimBits;
    const int taken = before >> kClaimBits == epoch ? static_cast<int>(before - none) : 0;
    if (taken >= size) return -1;
    const uint64_t after = none + static_cast<uint64_t>(taken) + 1;
    if (claims.compare_exchange_weak(before, after, std::memory_order_relaxed))
      return job_.done + first + taken;
  }
}

// Runs the chunks of this participant's share, then those of others.
void Pool::work(int index, uint64_t epoch) noexcept {
  for (int k = 0; k < job_.participants; ++k) {
    if (exhausted_.load(std::memory_order_relaxed) == epoch) return;
    const int share = index + k < job_.participants ? index + k : index + k - job_.participants;
    for (int c = claim(share, epoch); c >= 0; c = claim(share, epoch)) {
      try {
        job_.run_chunk(c);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
      if (failed_.load(std::memory_order_relaxed)) return;
    }
  }
  exhausted_.store(epoch, std::memory_order_relaxed);
}

// Waits until no worker is inside the loop, which is closed.
void Pool::wait_for_workers() noexcept {
  Spin spin(job_.participants > spinners_ ? kCrowdedSpin : kCallerSpin);
  bool spins = true;
  for (int k = 1; k < job_.participants; ++k) {
    while (lines_[k].inside.load(std::memory_order_seq_cst)) {
      if (spins) {
        spins = spin.pause();
        continue;
      }
      const int alarm = caller_alarm_.load(std::memory_order_acquire);
      caller_sleeps_.store(true, std::memory_order_seq_cst);
      if (lines_[k].inside.load(std::memory_order_seq_cst))
        caller_alarm_.wait(alarm, std::memory_order_acquire);
    }
  }
  if (!spins) caller_sleeps_.store(false, std::memory_order_relaxed);
}

void Pool::run(Job job) {
  if (!try_acquire()) return run_alone(job);
  run_shared(job);
}

// Runs chunk after chunk; leaves the rest to all threads once the other caller is done.
void Pool::run_alone(Job job) {
  struct Count {
    explicit Count(std::atomic<int>& n) : n_(n) { n_.fetch_add(1, std::memory_order_relaxed); }
    ~Count() { n_.fetch_sub(1, std::memory_order_relaxed); }
    std::atomic<int>& n_;
  };
  {
    const Count count(alone_);
    for (; job.done < job.chunks; ++job.done) {
      if (!busy_.load(std::memory_order_relaxed) && try_acquire()) break;
      job.run_chunk(job.done);
    }
  }
  if (job.done < job.chunks) run_shared(job);
}

void Pool::run_shared(const Job& job) {
  const int free = threads_for_loops() - alone_.load(std::memory_order_relaxed);
  const int most = std::min({job.participants, job.chunks - job.done, free});
  start_workers(most - 1);
  job_ = job;
  job_.participants = std::clamp(most, 1, workers_.load(std::memory_order_acquire) + 1);
  const uint64_t epoch = (word_.load(std::memory_order_relaxed) >> kEpochShift) + 1;
  const uint64_t closed = epoch << kEpochShift | static_cast<uint64_t>(job_.participants);
  word_.store(closed | kOpen, std::memory_order_seq_cst);
  wake(job_.participants, kFanOut);
  t_in_parallel = true;
  work(0, epoch);
  t_in_parallel = false;
  word_.store(closed, std::memory_order_seq_cst);
  wait_for_workers();
  std::exception_ptr error;
  if (failed_.load(std::memory_order_acquire)) {
    error = std::exchange(error_, nullptr);
    failed_.store(false, std::memory_order_relaxed);
  }
  busy_.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

}  // namespace cograd
