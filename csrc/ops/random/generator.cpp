// SPDX-License-Identifier: BSD-3-Clause
// The Generator's state.
#include "ops/random/generator.h"

#include <random>

namespace cograd {

void Generator::manual_seed(uint64_t seed) noexcept {
  const std::lock_guard lock(mutex_);
  seed_ = seed;
  offset_ = 0;
}

uint64_t Generator::seed() {
  std::random_device source;
  const uint64_t high = source();
  // 53 bits: exact in a Python float and in every JSON reader.
  const uint64_t fresh = (high << 32 | source()) & ((uint64_t{1} << 53) - 1);
  manual_seed(fresh);
  return fresh;
}

uint64_t Generator::initial_seed() const noexcept {
  const std::lock_guard lock(mutex_);
  return seed_;
}

std::array<uint8_t, Generator::kStateBytes> Generator::state() const noexcept {
  const std::lock_guard lock(mutex_);
  std::array<uint8_t, kStateBytes> bytes;
  for (size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<uint8_t>(seed_ >> (8 * i));
    bytes[8 + i] = static_cast<uint8_t>(offset_ >> (8 * i));
  }
  return bytes;
}

void Generator::set_state(std::span<const uint8_t> bytes) {
  COGRAD_CHECK(bytes.size() == kStateBytes, "RNG state is wrong size: expected ", kStateBytes,
               " bytes, got ", bytes.size());
  uint64_t seed = 0;
  uint64_t offset = 0;
  for (size_t i = 0; i < 8; ++i) {
    seed |= uint64_t{bytes[i]} << (8 * i);
    offset |= uint64_t{bytes[8 + i]} << (8 * i);
  }
  const std::lock_guard lock(mutex_);
  seed_ = seed;
  offset_ = offset;
}

kernels::PhiloxState Generator::take(uint64_t blocks) noexcept {
  const std::lock_guard lock(mutex_);
  const kernels::PhiloxState s{seed_, offset_};
  offset_ += blocks;
  return s;
}

Generator& default_generator() noexcept {
  static Generator generator;
  return generator;
}

}  // namespace cograd
