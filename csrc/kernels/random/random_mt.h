// SPDX-License-Identifier: BSD-3-Clause
// The streams from which torch draws on a CPU: MT19937, one word after the other.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "cograd/dtype.h"

namespace cograd::kernels {

// MT19937 (Matsumoto and Nishimura, 1998), with the second numbers of Box-Muller pairs.
class MtStream {
 public:
  static constexpr size_t kStateBytes = 5056;  // size of a generator's state in torch's layout
  explicit MtStream(uint64_t seed) noexcept { reseed(seed); }

  // Starts a stream from the low 32 bits of a seed; seed() returns all 64.
  void reseed(uint64_t seed) noexcept;
  uint64_t seed() const noexcept { return seed_; }
  std::vector<uint8_t> state() const;
  // Returns false, and changes nothing, for bytes that are no valid state.
  bool set_state(std::span<const uint8_t> bytes) noexcept;

  uint32_t word() noexcept;
  uint64_t pair() noexcept {  // the first word is the high half
    const uint64_t high = word();
    return high << 32 | word();
  }
  void words(uint32_t* out, int64_t n) noexcept;
  double uniform() noexcept {  // 53 bits in [0, 1)
    return static_cast<double>(pair() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  }
  double normal() noexcept;

 private:
  static constexpr uint32_t kWords = 624;
  void refill() noexcept;

  uint64_t seed_ = 0;
  uint32_t left_ = 1;  // 1: the next word needs a refill; else the number of words left plus 1
  uint32_t next_ = 0;
  bool has_normal_ = false;
  double next_normal_ = 0;
  std::array<uint32_t, kWords> state_;
};

// Fill n contiguous elements. float64 uses two words per number, other floating dtypes one.
void mt_uniform(DType t, void* out, int64_t n, MtStream& s, double lo, double hi);
// Uses groups of 16 from 16 numbers on (`grouped`), else pairs in float64.
void mt_normal(DType t, void* out, int64_t n, MtStream& s, double mean, double std, bool grouped);
// Writes value % range + lo, from two words each if `wide`; range 0 means 2^64.
void mt_int(DType t, void* out, int64_t n, MtStream& s, uint64_t range, int64_t lo, bool wide);
void mt_bernoulli(DType t, void* out, int64_t n, MtStream& s, double p);
void mt_bernoulli_each(DType t, void* out, int64_t n, MtStream& s, DType tp, const void* p);
void mt_exponential(DType t, void* out, int64_t n, MtStream& s, double rate);
void mt_permutation(int64_t* out, int64_t n, MtStream& s);
void mt_multinomial(DType t, const void* probs, int64_t rows, int64_t n, int64_t samples,
                    bool replacement, int64_t* out, MtStream& s);

}  // namespace cograd::kernels
