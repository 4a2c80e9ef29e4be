// SPDX-License-Identifier: BSD-3-Clause
// A list of one value per running thread, which other threads can visit. It needs no memory.
#pragma once
#include <pthread.h>

#include <mutex>

#include "tensor/thread_locals.h"

namespace cograd {

// T is initialised at compile time. Its start() and end() are called under the list's lock at the
// start and the end of a thread, and end() for all other threads in the child of a fork. There is
// one static object per T.
template <class T>
class ThreadList {
  struct Listed {
    T value;
    Listed *next = nullptr, *previous = nullptr;
    bool in_list = false;
  };

 public:
  ThreadList() noexcept : each_(start, end) {
    pthread_atfork([] { mutex_.lock(); }, [] { mutex_.unlock(); }, in_child);
  }

  // This thread's value, also if the thread is not in the list for want of memory.
  static T& mine() noexcept { return mine_.value; }

  // Locks the list while it is visited.
  class All {
   public:
    struct Iterator {
      Listed* at;
      T& operator*() const noexcept { return at->value; }
      Iterator& operator++() noexcept { return at = at->next, *this; }
      bool operator!=(const Iterator& other) const noexcept { return at != other.at; }
    };
    Iterator begin() const noexcept { return {first_}; }
    Iterator end() const noexcept { return {nullptr}; }

   private:
    std::lock_guard<std::mutex> lock_{mutex_};
  };

 private:
  static void start() noexcept {
    const std::lock_guard lock(mutex_);
    mine_.value.start();
    add(mine_);
  }
  static void end() noexcept {
    const std::lock_guard lock(mutex_);
    if (!mine_.in_list) return;
    mine_.value.end();
    (mine_.previous != nullptr ? mine_.previous->next : first_) = mine_.next;
    if (mine_.next != nullptr) mine_.next->previous = mine_.previous;
    mine_.in_list = false;
  }
  // Only the thread that forked exists in the child; new threads may get the others' memory.
  static void in_child() noexcept {
    for (Listed* t = first_; t != nullptr; t = t->next)
      if (t != &mine_) t->value.end();
    first_ = nullptr;
    if (mine_.in_list) add(mine_);
    mutex_.unlock();
  }
  static void add(Listed& t) noexcept {
    t.next = first_;
    t.previous = nullptr;
    t.in_list = true;
    if (first_ != nullptr) first_->previous = &t;
    first_ = &t;
  }

  static constinit inline std::mutex mutex_;
  static constinit inline Listed* first_ = nullptr;
  static constinit inline thread_local Listed mine_;
  OnEachThread each_;
};

}  // namespace cograd
