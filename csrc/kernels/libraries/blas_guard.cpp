// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/libraries/blas_guard.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <span>

#include "cograd/error.h"
#include "tensor/thread_locals.h"

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
constexpr size_t kVariablesSlack = size_t{64} << 10;

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

// Returns the size of the address space in use; 0 if the system does not tell.
size_t mapped_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long pages = 0;
  const bool read = std::fscanf(file, "%lu", &pages) == 1;
  std::fclose(file);
  return read ? pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// Makes OpenBLAS allocate one buffer more than the `have` that it is known to have. Returns false
// if it may have used one of these, which no other call held at that moment.
bool take_buffer(int have) {
  const size_t before = mapped_bytes();
  // A factorisation always takes a buffer; a product may work without one.
  float a[4] = {1, 0, 0, 1};
  int pivots[2];
  const int two = 2;
  int info = 0;
  scipy_sgetrf_(&two, &two, a, &two, pivots, &info);
  return have == 0 || before == 0 || mapped_bytes() >= before + kBuffer / 2;
}

// The number of calls in a row that found memory for another buffer but did not see it allocated.
// After so many there is taken to be one: else threads with small matrices would wait here.
constexpr int kTrusted = 64;
int unproven = 0;

}  // namespace

void take_thread_locals() {
  static const Variables openblas = openblas_variables();
  if (openblas.module != 0) {
    const std::lock_guard lock(mutex);  // several threads often start at the same time
    const size_t bytes = openblas.bytes + kVariablesSlack;
    const SpareMemory memory(bytes);
    COGRAD_CHECK_KIND(Memory, memory.found(), "out of memory: OpenBLAS needs ", bytes,
                      " bytes for its variables on each thread that computes");
    TlsIndex first{openblas.module, 0};
    (void)__tls_get_addr(&first);
  }
  thread_is_known = true;
}

void check_scratch() {
  constexpr size_t kScratch = size_t{64} << 10;  // these kernels serve up to 100 x 100 elements
  COGRAD_CHECK_KIND(Memory, has_memory(kScratch), "out of memory: OpenBLAS needs ", kScratch,
                    " bytes for small matrices");
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
    if (!take_buffer(have) && ++unproven < kTrusted) return;
    buffers.store(have + 1, std::memory_order_relaxed);
    unproven = 0;
  } catch (...) {
    calls.fetch_sub(1, std::memory_order_relaxed);
    throw;
  }
}

}  // namespace cograd::kernels::blas
