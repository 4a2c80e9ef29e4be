// SPDX-License-Identifier: BSD-3-Clause
// Gives pocketfft its memory. A transform of many lines allocates the same large block again and
// again, which the C library may return to the system each time.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tensor/alloc.h"

namespace cograd::kernels {

// Large blocks come from the cache of tensors' memory, except those of a plan, which may live long.
void* fft_malloc(std::size_t n);
void fft_free(void* p) noexcept;

// In its scope, this thread makes a plan.
class PlanScope {
 public:
  PlanScope() noexcept;
  ~PlanScope();
  PlanScope(const PlanScope&) = delete;
  PlanScope& operator=(const PlanScope&) = delete;
};

// An array of n elements that are not initialised, for the duration of a transform.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t n)
      : bytes_(static_cast<std::size_t>(n) * sizeof(T)), p_(static_cast<T*>(data_alloc(bytes_))) {}
  ~Scratch() { data_free(p_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const noexcept { return p_; }

 private:
  std::size_t bytes_;
  T* p_;
};

}  // namespace cograd::kernels
