// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/driver/launch.h"

#include <cstdlib>
#include <cstring>
#include <mutex>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/timing.h"

namespace cograd::cuda {

namespace {

thread_local uint64_t g_launches = 0;

bool blocking() {
  static const bool is = [] {
    const char* v = std::getenv("CUDA_LAUNCH_BLOCKING");
    return v != nullptr && std::strcmp(v, "1") == 0;
  }();
  return is;
}

}  // namespace

void launch(const char* name, CUfunction f, const Grid& g, const void* args) {
  void* parameters[1] = {const_cast<void*>(args)};
  launch(name, f, g, parameters);
}

void launch(const char* name, CUfunction f, const Grid& g, void** parameters) {
  const auto start = [&] {
    return driver().launch_kernel(f, g.blocks[0], g.blocks[1], g.blocks[2], g.threads[0],
                                  g.threads[1], g.threads[2], g.shared_bytes, here().stream(),
                                  parameters, nullptr);
  };
  CUresult r = kSuccess;
  if (timing()) [[unlikely]] {
    const Timed timed(name);
    r = start();
  } else {
    r = start();
  }
  if (r != kSuccess) [[unlikely]]
    check(r, "cuLaunchKernel", name);
  launched(name);
}

void allow_shared(const char* name, CUfunction f, unsigned bytes) {
  constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (bytes > static_cast<unsigned>(here().properties.shared_per_block))
    check(driver().function_attribute(f, kMaxDynamicShared, static_cast<int>(bytes)),
          "cuFuncSetAttribute", name);
}

void launched(const char* name) {
  ++g_launches;
  if (!blocking()) return;
  const CUstream stream = here().stream();
  if (capture_of(stream) == 0)
    check(driver().stream_synchronize(stream), "cuStreamSynchronize", name);
}

uint64_t launches() noexcept { return g_launches; }
int multiprocessors() { return here().properties.multiprocessors; }

uint32_t* error_word() {
  static uint32_t* const word = [] {
    constexpr unsigned kPortableMapped = 1 | 2;
    here();
    void* p = nullptr;
    const DuringCapture allowed;
    check(driver().mem_host_alloc(&p, sizeof(uint32_t), kPortableMapped), "cuMemHostAlloc");
    std::memset(p, 0, sizeof(uint32_t));
    return static_cast<uint32_t*>(p);
  }();
  return word;
}

uint32_t take_error() {
  uint32_t* const word = error_word();
  before_wait(here().stream(), "a division of integers");
  check(driver().stream_synchronize(here().stream()), "cuStreamSynchronize");
  return __atomic_exchange_n(word, 0, __ATOMIC_RELAXED);
}

}  // namespace cograd::cuda
