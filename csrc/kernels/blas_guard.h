// SPDX-License-Identifier: BSD-3-Clause
// OpenBLAS ends the process when it gets no memory for its buffers or threads. So the memory is
// tried for before it is asked to take it, and a lack of it is an exception.
#pragma once
#include <atomic>

namespace cograd::kernels {

namespace blas {
extern std::atomic<int> calls;    // running now
extern std::atomic<int> buffers;  // that OpenBLAS has: one a call, kept for ever
// Makes sure of a buffer for each running call; raises Memory and counts the call out otherwise.
void reserve();
// Whether this thread has OpenBLAS's thread-local variables.
extern constinit thread_local bool thread_is_known __attribute__((tls_model("initial-exec")));
// Takes them; raises Memory if there is no memory for them.
void take_thread_locals();
// Raises Memory if OpenBLAS could not start its threads, `n` of which are to compute. One caller at
// a time.
void check_threads(int n);
}  // namespace blas

// Held while OpenBLAS computes on this thread.
class BlasCall {
 public:
  BlasCall() {
    if (!blas::thread_is_known) [[unlikely]]
      blas::take_thread_locals();
    if (blas::calls.fetch_add(1, std::memory_order_relaxed) >=
        blas::buffers.load(std::memory_order_relaxed)) [[unlikely]]
      blas::reserve();
  }
  ~BlasCall() { blas::calls.fetch_sub(1, std::memory_order_relaxed); }
  BlasCall(const BlasCall&) = delete;
  BlasCall& operator=(const BlasCall&) = delete;
};

}  // namespace cograd::kernels
