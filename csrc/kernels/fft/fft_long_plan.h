// SPDX-License-Identifier: BSD-3-Clause
// Plans for long lines: complex ones, and real ones of even length as complex ones of half the
// length. Only the per-ISA kernel files include this.
#pragma once
#include "kernels/fft/fft_long.h"

namespace cograd::kernels::COGRAD_ISA {

// Transforms a contiguous line; kIn and kOut are the numbers per point.
template <class T>
class LongComplex {
 public:
  static constexpr int kIn = 2, kOut = 2;
  LongComplex(int64_t n, LongShape s) : n_(n), line_(n, s) {}
  int64_t in_points() const { return n_; }
  int64_t out_points() const { return n_; }
  int64_t bytes() const { return line_.bytes(); }
  void run(const T* in, T* out, T scale, bool forward) const { line_.run(in, out, scale, forward); }

 private:
  int64_t n_;
  LongLine<T> line_;
};

// A real line of n = 2 m points is a complex one of m, z[j] = x[2 j] + i x[2 j + 1]. The even and
// the odd points have the spectra (Z[k] + conj Z[m - k]) / 2 and (Z[k] - conj Z[m - k]) / 2 i.
template <class T>
class HalfLine {
 public:
  HalfLine(int64_t n, LongShape s)
      : half_(n / 2), line_(n / 2, s), factors_(aligned_array<Complex>(n / 4 + 1)) {
    const pocket::sincos_2pibyn<T> all(static_cast<size_t>(n));
    for (int64_t k = 0; k <= n / 4; ++k) factors_[k] = all[static_cast<size_t>(k)];
  }
  int64_t bytes() const { return line_.bytes() + (half_ / 2 + 1) * int64_t{sizeof(Complex)}; }

 protected:
  using Complex = pocket::cmplx<T>;
  static constexpr int64_t kTask = 1 << 14;

  // Calls f(k, m - k, W_n^k) for k from 1 to m / 2.
  template <class F>
  void each_pair(F&& f) const {
    parallel_for(1, half_ / 2 + 1, kTask, [&](int64_t lo, int64_t hi) {
      for (int64_t k = lo; k < hi; ++k) f(k, half_ - k, factors_[k]);
    });
  }

  int64_t half_;
  LongLine<T> line_;

 private:
  AlignedArray<Complex> factors_;
};

template <class T>
class LongToHalf : HalfLine<T> {
 public:
  static constexpr int kIn = 1, kOut = 2;
  using HalfLine<T>::HalfLine;
  using HalfLine<T>::bytes;
  int64_t in_points() const { return 2 * half_; }
  int64_t out_points() const { return half_ + 1; }
  void run(const T* in, T* out, T scale, bool) const {
    line_.run(in, out, scale, true);
    auto* z = reinterpret_cast<Complex*>(out);
    const Complex first = z[0];
    z[0] = Complex(first.r + first.i, T(0));
    z[half_] = Complex(first.r - first.i, T(0));
    this->each_pair([z](int64_t k, int64_t mirror, Complex w) {
      const Complex a = z[k], b = z[mirror];
      const T half = T(0.5);
      const Complex even((a.r + b.r) * half, (a.i - b.i) * half);
      const Complex odd((a.i + b.i) * half, (b.r - a.r) * half);
      const Complex turned(odd.r * w.r + odd.i * w.i, odd.i * w.r - odd.r * w.i);
      z[k] = Complex(even.r + turned.r, even.i + turned.i);
      z[mirror] = Complex(even.r - turned.r, turned.i - even.i);
    });
  }

 private:
  using typename HalfLine<T>::Complex;
  using HalfLine<T>::half_;
  using HalfLine<T>::line_;
};

template <class T>
class LongFromHalf : HalfLine<T> {
 public:
  static constexpr int kIn = 2, kOut = 1;
  using HalfLine<T>::HalfLine;
  using HalfLine<T>::bytes;
  int64_t in_points() const { return half_ + 1; }
  int64_t out_points() const { return 2 * half_; }
  void run(const T* in, T* out, T scale, bool) const {
    const auto* x = reinterpret_cast<const Complex*>(in);
    auto* z = reinterpret_cast<Complex*>(out);
    const T first = x[0].r, last = x[half_].r;
    z[0] = Complex(first + last, first - last);
    this->each_pair([x, z](int64_t k, int64_t mirror, Complex w) {
      const Complex a = x[k], b = x[mirror];
      const Complex even(a.r + b.r, a.i - b.i), odd(a.r - b.r, a.i + b.i);
      const Complex turned(odd.r * w.r - odd.i * w.i, odd.i * w.r + odd.r * w.i);
      z[k] = Complex(even.r - turned.i, even.i + turned.r);
      z[mirror] = Complex(even.r + turned.i, turned.r - even.i);
    });
    line_.run(out, out, scale, false);
  }

 private:
  using typename HalfLine<T>::Complex;
  using HalfLine<T>::half_;
  using HalfLine<T>::line_;
};

// Runs Core over lines. Lines whose points lie apart are first moved together, several at once.
template <class T, template <class> class Core>
class LongPlan final : public FftPlan {
 public:
  explicit LongPlan(std::unique_ptr<const Core<T>> core)
      : FftPlan(kLanes<T>, core->bytes()), core_(std::move(core)) {}

  void run(const FftLines& s, int64_t lo, int64_t hi) const override {
    const bool direct_in = s.in_step == kInSize, direct_out = s.out_step == kOutSize;
    LineCursor cursor(s, lo);
    if (direct_in && direct_out) {
      for (; lo < hi; ++lo, cursor.next())
        core_->run(reinterpret_cast<const T*>(cursor.in()), reinterpret_cast<T*>(cursor.out()),
                   static_cast<T>(s.scale), s.forward);
      return;
    }
    constexpr int64_t L = kLanes<T>;
    const int64_t in_row = core_->in_points() * C::kIn, out_row = core_->out_points() * C::kOut;
    const Scratch<Lanes<T>> rows(std::max(in_row, out_row));
    const Scratch<T> line(std::max(in_row, out_row) * std::min(L, hi - lo));
    while (lo < hi) {
      const int64_t count = std::min(L, hi - lo);
      moved(s, cursor, count, rows.get(), line.get(), std::max(in_row, out_row));
      lo += count;
    }
  }

 private:
  using C = Core<T>;
  static constexpr auto kInSize = C::kIn * int64_t{sizeof(T)};
  static constexpr auto kOutSize = C::kOut * int64_t{sizeof(T)};

  void moved(const FftLines& s, LineCursor& cursor, int64_t count, Lanes<T>* rows, T* lines,
             int64_t room) const {
    LaneSet<const char*> in, from;
    LaneSet<char*> out, to;
    for (int64_t j = 0; j < count; ++j, cursor.next()) {
      in.add(cursor.in());
      out.add(cursor.out());
      from.add(reinterpret_cast<const char*>(lines + j * room));
      to.add(reinterpret_cast<char*>(lines + j * room));
    }
    gather<T, C::kIn>(in, s.in_step, core_->in_points(), rows);
    scatter<T, C::kIn>(rows, core_->in_points(), to, kInSize);
    for (int64_t j = 0; j < count; ++j) {
      T* line = lines + j * room;
      core_->run(line, line, static_cast<T>(s.scale), s.forward);
    }
    gather<T, C::kOut>(from, kOutSize, core_->out_points(), rows);
    scatter<T, C::kOut>(rows, core_->out_points(), out, s.out_step);
  }

  std::unique_ptr<const C> core_;
};

// Returns the plan of a line that is long enough to be divided, or null.
template <class T>
std::unique_ptr<const FftPlan> long_plan(FftKind kind, int64_t n) {
  if (kind != FftKind::Complex && n % 2 != 0) return nullptr;
  const int64_t points = kind == FftKind::Complex ? n : n / 2;
  const LongShape shape = long_shape(points);
  if (shape.rows == 0) return nullptr;
  const auto made = [&]<template <class> class Core>() -> std::unique_ptr<const FftPlan> {
    return std::make_unique<LongPlan<T, Core>>(std::make_unique<const Core<T>>(n, shape));
  };
  switch (kind) {
    case FftKind::Complex:
      return made.template operator()<LongComplex>();
    case FftKind::ToHalf:
      return made.template operator()<LongToHalf>();
    default:
      return made.template operator()<LongFromHalf>();
  }
}

}  // namespace cograd::kernels::COGRAD_ISA
