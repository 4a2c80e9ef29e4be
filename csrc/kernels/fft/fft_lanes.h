// SPDX-License-Identifier: BSD-3-Clause
// Moves lines between arrays and the rows of vectors that are transformed. Lane j of a row belongs
// to line j; a complex point takes two rows. Only the per-ISA kernel files include this.
#pragma once
#include "kernels/core/transpose.h"
#include "kernels/fft/fft_plan.h"

namespace cograd::kernels::COGRAD_ISA {

template <class T>
using Lanes = Vec<T, kLanes<T>>;

// The lines of an array that are moved together; strides are in bytes.
template <class P>
struct LaneSet {
  P at[64 / sizeof(float)];  // where each line starts
  int used = 0;
  int64_t apart = 0;  // from one line to the next one, or 0 if that differs

  void add(P p) noexcept {
    at[used++] = p;
    if (used == 2) apart = at[1] - at[0];
    if (used > 2 && at[used - 1] - at[used - 2] != apart) apart = 0;
  }
};

template <class T>
COGRAD_INLINE void split_pairs(const T* from, Lanes<T>& re, Lanes<T>& im) {
  constexpr int L = kLanes<T>;
  const Lanes<T> a = load(from), b = load(from + L);
  Vec<LaneIndex<T>, L> even;
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) even[i] = static_cast<LaneIndex<T>>(2 * i);
  re = __builtin_shuffle(a, b, even);
  im = __builtin_shuffle(a, b, even + 1);
}

template <class T>
COGRAD_INLINE void join_pairs(T* to, Lanes<T> re, Lanes<T> im) {
  constexpr int L = kLanes<T>;
  Vec<LaneIndex<T>, L> low;
#pragma GCC unroll 16
  for (int i = 0; i < L; ++i) low[i] = static_cast<LaneIndex<T>>(i / 2 + (i % 2) * L);
  store<T, L>(to, __builtin_shuffle(re, im, low));
  store<T, L>(to + L, __builtin_shuffle(re, im, low + L / 2));
}

// Reads `points` points of kParts numbers each into rows; lanes without a line become 0.
template <class T, int kParts>
void gather(const LaneSet<const char*>& from, int64_t step, int64_t points, Lanes<T>* rows) {
  constexpr int L = kLanes<T>;
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if (from.used == L && from.apart == kParts * kSize) {
    for (int64_t i = 0; i < points; ++i) {
      const T* p = reinterpret_cast<const T*>(from.at[0] + i * step);
      if constexpr (kParts == 1)
        rows[i] = load(p);
      else
        split_pairs(p, rows[2 * i], rows[2 * i + 1]);
    }
    return;
  }
  if (step == kParts * kSize && from.apart != 0 && from.apart % kSize == 0)
    return transpose(reinterpret_cast<const T*>(from.at[0]), from.apart / kSize, from.used,
                     points * kParts, L, reinterpret_cast<T*>(rows));
  T* to = reinterpret_cast<T*>(rows);
  if (from.used < L) std::memset(to, 0, static_cast<size_t>(points * kParts * L * kSize));
  for (int j = 0; j < from.used; ++j)
    for (int64_t i = 0; i < points; ++i)
      for (int k = 0; k < kParts; ++k)
        to[(i * kParts + k) * L + j] = reinterpret_cast<const T*>(from.at[j] + i * step)[k];
}

// Writes the used lanes of rows to `points` points of kParts numbers each.
template <class T, int kParts>
void scatter(const Lanes<T>* rows, int64_t points, const LaneSet<char*>& to, int64_t step) {
  constexpr int L = kLanes<T>;
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if (to.used == L && to.apart == kParts * kSize) {
    for (int64_t i = 0; i < points; ++i) {
      T* p = reinterpret_cast<T*>(to.at[0] + i * step);
      if constexpr (kParts == 1)
        store<T, L>(p, rows[i]);
      else
        join_pairs(p, rows[2 * i], rows[2 * i + 1]);
    }
    return;
  }
  const T* from = reinterpret_cast<const T*>(rows);
  int64_t first = 0;  // rows before it are written in blocks
  if (step == kParts * kSize && to.used == L && to.apart != 0 && to.apart % kSize == 0) {
    T* p = reinterpret_cast<T*>(to.at[0]);
    for (; first + L <= points * kParts; first += L)
      transpose_block(from + first * L, L, p + first, to.apart / kSize);
  }
  for (int64_t i = first; i < points * kParts; ++i)
    for (int j = 0; j < to.used; ++j)
      reinterpret_cast<T*>(to.at[j] + i / kParts * step)[i % kParts] = from[i * L + j];
}

// Steps through the lines from a number on.
class LineCursor {
 public:
  LineCursor(const FftLines& lines, int64_t number) noexcept
      : lines_(lines), in_(lines.in), out_(lines.out), at_(lines.sizes.size()) {
    for (size_t d = lines.sizes.size(); d-- > 0;) {
      at_[d] = number % lines.sizes[d];
      number /= lines.sizes[d];
      in_ += at_[d] * lines.in_strides[d];
      out_ += at_[d] * lines.out_strides[d];
    }
  }
  const char* in() const noexcept { return in_; }
  char* out() const noexcept { return out_; }
  void next() noexcept {
    for (size_t d = lines_.sizes.size(); d-- > 0;) {
      in_ += lines_.in_strides[d];
      out_ += lines_.out_strides[d];
      if (++at_[d] < lines_.sizes[d]) return;
      in_ -= lines_.sizes[d] * lines_.in_strides[d];
      out_ -= lines_.sizes[d] * lines_.out_strides[d];
      at_[d] = 0;
    }
  }

 private:
  const FftLines& lines_;
  const char* in_;
  char* out_;
  Dims at_;
};

}  // namespace cograd::kernels::COGRAD_ISA
