// SPDX-License-Identifier: BSD-3-Clause
// Gives pocketfft its memory.
#include "kernels/fft/fft_memory.h"

#include <cstdlib>

namespace cograd::kernels {

namespace {

constinit thread_local bool making_plan = false;

// Precedes each block: the size if the block is from the cache, else 0.
struct alignas(std::max_align_t) Header {
  std::size_t cached;
};
constexpr std::size_t kLarge = std::size_t{1} << 16;

}  // namespace

void* fft_malloc(std::size_t n) {
  if (n > SIZE_MAX - sizeof(Header)) return nullptr;
  const std::size_t whole = n + sizeof(Header);
  const bool cached = n >= kLarge && !making_plan;
  auto* block = static_cast<Header*>(cached ? data_alloc(whole) : std::malloc(whole));
  if (block == nullptr) return nullptr;
  block->cached = cached ? whole : 0;
  return block + 1;
}

void fft_free(void* p) noexcept {
  if (p == nullptr) return;
  Header* block = static_cast<Header*>(p) - 1;
  if (block->cached != 0)
    data_free(block, block->cached);
  else
    std::free(block);
}

PlanScope::PlanScope() noexcept { making_plan = true; }
PlanScope::~PlanScope() { making_plan = false; }

}  // namespace cograd::kernels
