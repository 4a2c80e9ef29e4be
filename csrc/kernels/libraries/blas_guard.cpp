// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/libraries/blas_guard.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <span>

#include "cograd/error.h"

extern "C" void scipy_sgetrf_(const int* m, const int* n, float* a, const int* lda, int* ipiv,
                              int* info);

// The argument of __tls_get_addr: names a thread-local variable of library `module`. The call
// allocates that library's variables for this thread.
struct TlsIndex {
  unsigned long module, offset;
};
extern "C" void* __tls_get_addr(TlsIndex*);

namespace cograd::kernels::blas {

constinit std::atomic<int> calls{0};
constinit std::atomic<int> buffers{0};
constinit thread_local bool thread_is_known = false;

namespace {

#if defined(__x86_64__)
constexpr size_t kBuffer = size_t{34} << 20;
#else
constexpr size_t kBuffer = size_t{130} << 20;
#endif
constexpr size_t kSlack = size_t{1} << 20;  // other memory that OpenBLAS and pthread_create need

std::mutex mutex;

bool available(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, bytes);
  return true;
}

// OpenBLAS's module number in the loader, and the size of its thread-local variables in bytes.
struct Variables {
  unsigned long module = 0;  // 0 if it has none
  size_t bytes = 0;
};

int look_for_openblas(dl_phdr_info* library, size_t, void* found) {
  const auto here = reinterpret_cast<uintptr_t>(&scipy_sgetrf_);
  const std::span parts(library->dlpi_phdr, library->dlpi_phnum);
  const bool own = std::any_of(parts.begin(), parts.end(), [&](const auto& part) {
    const uintptr_t start = library->dlpi_addr + part.p_vaddr;
    return part.p_type == PT_LOAD && here >= start && here - start < part.p_memsz;
  });
  if (!own) return 0;
  for (const auto& part : parts)
    if (part.p_type == PT_TLS)
      *static_cast<Variables*>(found) = {library->dlpi_tls_modid, part.p_memsz};
  return 1;
}

Variables openblas_variables() {
  Variables found;
  dl_iterate_phdr(look_for_openblas, &found);
  return found;
}

}  // namespace

void take_thread_locals() {
  static const Variables openblas = openblas_variables();
  if (openblas.module != 0) {
    const std::lock_guard lock(mutex);  // several threads often start at the same time
    const size_t bytes = openblas.bytes + kSlack;
    COGRAD_CHECK_KIND(Memory, available(bytes), "out of memory: OpenBLAS needs ", bytes,
                      " bytes for its variables on each thread that computes");
    TlsIndex first{openblas.module, 0};
    (void)__tls_get_addr(&first);
  }
  thread_is_known = true;
}

void reserve() {
  try {
    const std::lock_guard lock(mutex);
    const int wanted = calls.load(std::memory_order_relaxed);
    const int have = buffers.load(std::memory_order_relaxed);
    if (wanted <= have) return;
    const size_t bytes = static_cast<size_t>(wanted - have) * kBuffer + kSlack;
    COGRAD_CHECK_KIND(Memory, available(bytes), "out of memory: OpenBLAS needs ", bytes,
                      " bytes for a buffer of each thread that computes");
    // Call a factorisation, which always takes a buffer; a product may work without one.
    float a[4] = {1, 0, 0, 1};
    int pivots[2];
    const int two = 2;
    int info = 0;
    scipy_sgetrf_(&two, &two, a, &two, pivots, &info);
    buffers.store(wanted, std::memory_order_relaxed);
  } catch (...) {
    calls.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
}

}  // namespace cograd::kernels::blas
