// SPDX-License-Identifier: BSD-3-Clause
// A part of an object that is made when first needed, by whichever thread is first.
#pragma once
#include <atomic>
#include <memory>

namespace cograd {

// Read like a pointer. Its owner deletes what it points to, with take().
template <class T>
class Published {
 public:
  Published() noexcept = default;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  operator T*() const noexcept { return p_.load(std::memory_order_acquire); }
  T* operator->() const noexcept { return *this; }
  // The object, made by `make` if there is none. Threads that come second get the first one's.
  template <class Make>
  T& or_make(Make&& make) {
    T* seen = *this;
    if (seen != nullptr) return *seen;
    std::unique_ptr<T> made(make());
    if (p_.compare_exchange_strong(seen, made.get(), std::memory_order_acq_rel))
      seen = made.release();
    return *seen;
  }
  // For the thread that has the last reference on the owner.
  T* take() noexcept {
    T* p = *this;
    p_.store(nullptr, std::memory_order_relaxed);
    return p;
  }

 private:
  std::atomic<T*> p_{nullptr};
};

}  // namespace cograd
