// SPDX-License-Identifier: BSD-3-Clause
// Threads when memory is short: the C library ends the process if there is no memory when a thread
// reads some library's thread-local variable for the first time, or registers the destructor of
// one. So each thread takes such variables at its start, with memory that is kept for that moment,
// and cograd's own have no destructors.
#pragma once
#include <cstddef>
#include <new>

#include "cograd/error.h"

namespace cograd {

// True once this thread has its variables.
extern constinit thread_local bool thread_can_throw __attribute__((tls_model("initial-exec")));
COGRAD_API bool take_thread_locals_slow() noexcept;
// Takes this thread's variables. If it returns false (no memory), nothing may be thrown.
inline bool take_thread_locals() noexcept { return thread_can_throw || take_thread_locals_slow(); }

// Makes each thread call `start` at its start and `end` at its end; one of them may be null.
// `start` allocates nothing. Only static objects have this type.
class COGRAD_API OnEachThread {
 public:
  OnEachThread(void (*start)() noexcept, void (*end)() noexcept) noexcept;
  static void start_all() noexcept;
  static void end_all() noexcept;

 private:
  void (*start_)() noexcept;
  void (*end_)() noexcept;
  OnEachThread* next_;
};

// The value of a thread_local variable that has no destructor, so the C library registers none. An
// OnEachThread calls clear() at the thread's end.
template <class T>
class ThreadValue {
 public:
  T& get() {
    if (!made_) {
      new (static_cast<void*>(bytes_)) T();
      made_ = true;
    }
    return *std::launder(reinterpret_cast<T*>(bytes_));
  }
  void clear() noexcept {
    if (!made_) return;
    get().~T();
    made_ = false;
  }

 private:
  alignas(T) unsigned char bytes_[sizeof(T)] = {};
  bool made_ = false;
};

// True if malloc can currently provide `bytes`.
bool has_memory(size_t bytes) noexcept;

// Gives up memory that is kept for the starts of threads, if malloc cannot provide `bytes`
// otherwise, and takes back what it can when it goes.
class SpareMemory {
 public:
  explicit SpareMemory(size_t bytes) noexcept;
  ~SpareMemory();
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;
  // True if malloc could provide the bytes.
  bool found() const noexcept { return found_; }

 private:
  bool found_;
};

}  // namespace cograd
