// SPDX-License-Identifier: BSD-3-Clause
// Generator: a seed and a position in its stream of Philox blocks, shared by random ops.
#pragma once
#include <array>
#include <mutex>
#include <span>

#include "cograd/error.h"
#include "kernels/random.h"

namespace cograd {

class COGRAD_API Generator {
 public:
  static constexpr uint64_t kDefaultSeed = 67280421310721;
  static constexpr size_t kStateBytes = 16;
  explicit Generator(uint64_t seed = kDefaultSeed) noexcept : seed_(seed) {}
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Starts the stream of `seed` from its beginning.
  void manual_seed(uint64_t seed) noexcept;
  // Seeds from the system's entropy and returns the seed.
  uint64_t seed();
  uint64_t initial_seed() const noexcept;
  // Seed and offset, little-endian.
  std::array<uint8_t, kStateBytes> state() const noexcept;
  void set_state(std::span<const uint8_t> bytes);
  // Takes `blocks` of 128 bits from the stream: where they begin. The lock is not held while they
  // are used, so a fill that gives up the GIL cannot block the holder of it.
  kernels::PhiloxState take(uint64_t blocks) noexcept;

 private:
  mutable std::mutex mutex_;
  uint64_t seed_;
  uint64_t offset_ = 0;
};

// The generator of ops that are given none.
COGRAD_API Generator& default_generator() noexcept;

}  // namespace cograd
