// SPDX-License-Identifier: BSD-3-Clause
// Counts the nodes of all threads. Each thread counts its own without a lock; the counts of threads
// that have ended, or that a fork left behind, are kept as one number.
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <new>

#include "autograd/graph/node.h"
#include "tensor/thread_locals.h"

namespace cograd {

namespace {

int64_t count_of(int64_t* counter) noexcept {
  return std::atomic_ref(*counter).load(std::memory_order_relaxed);
}

// A thread in the list, which needs no memory.
struct Listed {
  int64_t* counter = nullptr;
  Listed *next = nullptr, *previous = nullptr;
};

class Threads {
 public:
  void add(Listed& t) noexcept {
    const std::lock_guard lock(mutex_);
    t.next = first_;
    t.previous = nullptr;
    if (first_ != nullptr) first_->previous = &t;
    first_ = &t;
  }
  void remove(Listed& t) noexcept {
    const std::lock_guard lock(mutex_);
    ended_ += count_of(t.counter);
    (t.previous != nullptr ? t.previous->next : first_) = t.next;
    if (t.next != nullptr) t.next->previous = t.previous;
  }
  int64_t total() noexcept {
    const std::lock_guard lock(mutex_);
    return ended_ + listed();
  }
  void before_fork() noexcept { mutex_.lock(); }
  void in_parent() noexcept { mutex_.unlock(); }
  // Only the thread that forked exists in the child; new threads may get the others' memory.
  void in_child(Listed& mine) noexcept {
    new (&mutex_) std::mutex;
    ended_ += listed();
    first_ = nullptr;
    if (mine.counter == nullptr) return;
    ended_ -= count_of(mine.counter);
    add(mine);
  }

 private:
  int64_t listed() const noexcept {
    int64_t sum = 0;
    for (const Listed* t = first_; t != nullptr; t = t->next) sum += count_of(t->counter);
    return sum;
  }

  std::mutex mutex_;
  Listed* first_ = nullptr;
  int64_t ended_ = 0;
};

constinit thread_local Listed mine;

Threads& threads() {
  static Threads* all = [] {
    alignas(Threads) static char memory[sizeof(Threads)];
    auto* made = new (memory) Threads;  // never destroyed: threads may outlive statics
    pthread_atfork([] { threads().before_fork(); }, [] { threads().in_parent(); },
                   [] { threads().in_child(mine); });
    return made;
  }();
  return *all;
}

const OnEachThread list_thread(
    []() noexcept {
      mine.counter = &thread_state.live_nodes;
      threads().add(mine);
    },
    []() noexcept { threads().remove(mine); });

}  // namespace

int64_t live_nodes() noexcept { return threads().total(); }

}  // namespace cograd
