// SPDX-License-Identifier: BSD-3-Clause
// Published: a part of an object that is created when first needed, by whichever thread is first.
#pragma once
#include <atomic>
#include <memory>

namespace cograd {

// Reads like a pointer. Its owner deletes the object that it points to, with take().
template <class T>
class Published {
 public:
  Published() noexcept = default;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  operator T*() const noexcept { return p_.load(std::memory_order_acquire); }
  T* operator->() const noexcept { return *this; }
  // Returns the object; creates it by `make` if there is none. A thread that loses the race gets
  // the winner's object.
  template <class Make>
  T& or_make(const Make& make) {
    if (T* seen = *this; seen != nullptr) [[likely]]
      return *seen;
    return publish(make);
  }
  // Returns the pointer and clears it. Only for the thread with the last reference on the owner.
  T* take() noexcept {
    T* p = *this;
    p_.store(nullptr, std::memory_order_relaxed);
    return p;
  }

 private:
  template <class Make>
  [[gnu::noinline, gnu::cold]] T& publish(const Make& make) {
    std::unique_ptr<T> made(make());
    T* seen = nullptr;
    if (p_.compare_exchange_strong(seen, made.get(), std::memory_order_acq_rel))
      seen = made.release();
    return *seen;
  }
  std::atomic<T*> p_{nullptr};
};

}  // namespace cograd
