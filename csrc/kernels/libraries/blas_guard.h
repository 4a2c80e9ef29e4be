// SPDX-License-Identifier: BSD-3-Clause
// OpenBLAS aborts the process if it cannot allocate a buffer. So these functions first
// check that the memory is available, and raise an exception if it is not.
#pragma once
#include <atomic>

namespace cograd::kernels {

namespace blas {
extern std::atomic<int> calls;    // calls running now
extern std::atomic<int> buffers;  // known to be allocated: one per call, never freed
// Ensures that there is memory for a buffer of each running call; otherwise subtracts this call and
// raises Memory.
void reserve();
// True if OpenBLAS's thread-local variables are allocated on this thread.
extern constinit thread_local bool thread_is_known __attribute__((tls_model("initial-exec")));
// Allocates them; raises Memory if there is no memory for them.
void take_thread_locals();
// Raises Memory if there is none for what OpenBLAS's kernels of small real matrices allocate: they
// write to what malloc returns without a look at it.
void check_scratch();
}  // namespace blas

// Must exist while OpenBLAS computes on this thread.
class BlasCall {
 public:
  // `real`: a product of real matrices may run. Only its kernels of small matrices need scratch; to
  // look for that takes a seventh of a complex 4 x 4 product.
  explicit BlasCall(bool real) {
    if (!blas::thread_is_known) [[unlikely]]
      blas::take_thread_locals();
    if (real) blas::check_scratch();
    if (blas::calls.fetch_add(1, std::memory_order_relaxed) >=
        blas::buffers.load(std::memory_order_relaxed)) [[unlikely]]
      blas::reserve();
  }
  ~BlasCall() { blas::calls.fetch_sub(1, std::memory_order_relaxed); }
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;
};

}  // namespace cograd::kernels
