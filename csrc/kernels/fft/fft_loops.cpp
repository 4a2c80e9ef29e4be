// SPDX-License-Identifier: BSD-3-Clause
// Transforms lines by pocketfft, as many at once as a vector has lanes, or one by one. Both give
// the same bits, because this file is compiled without fused multiply-adds.
#include "kernels/core/aligned.h"
#include "kernels/fft/fft_lanes.h"
#include "kernels/fft/fft_long_plan.h"
#include "kernels/fft/pocketfft.h"

namespace cograd::kernels::COGRAD_ISA {

namespace {

// Longer lines are transformed one by one: together they would not stay in the cache.
constexpr int64_t kMostTogether = 1 << 14;

// Computes with R, which is T or a vector of T. Each transform works on rows [0, 2 * bins) in
// which complex point k is rows 2 k and 2 k + 1.
template <class T>
struct ComplexCore {
  static constexpr int kIn = 2, kOut = 2;  // numbers per point
  explicit ComplexCore(int64_t n) : points(n), plan(static_cast<size_t>(n)) {}
  int64_t in_points() const { return points; }
  int64_t out_points() const { return points; }
  int64_t rows() const { return 2 * points; }
  int64_t in_row() const { return 0; }
  int64_t out_row() const { return 0; }
  template <class R>
  void run(R* rows, T scale, bool forward) const {
    plan.exec(reinterpret_cast<pocket::cmplx<R>*>(rows), scale, forward);
  }
  int64_t points;
  pocket::pocketfft_c<T> plan;
};

// pocketfft has bins as re 0, re 1, im 1, ...: rows from 1 on, if row 0 has the first real part.
template <class T>
struct ToHalfCore {
  static constexpr int kIn = 1, kOut = 2;
  explicit ToHalfCore(int64_t n) : points(n), plan(static_cast<size_t>(n)) {}
  int64_t in_points() const { return points; }
  int64_t out_points() const { return points / 2 + 1; }
  int64_t rows() const { return 2 * (points / 2 + 1); }
  int64_t in_row() const { return 1; }
  int64_t out_row() const { return 0; }
  template <class R>
  void run(R* rows, T scale, bool) const {
    plan.exec(rows + 1, scale, true);
    rows[0] = rows[1];
    rows[1] = R{};
    if (points % 2 == 0) rows[points + 1] = R{};
  }
  int64_t points;
  pocket::pocketfft_r<T> plan;
};

template <class T>
struct FromHalfCore {
  static constexpr int kIn = 2, kOut = 1;
  explicit FromHalfCore(int64_t n) : points(n), plan(static_cast<size_t>(n)) {}
  int64_t in_points() const { return points / 2 + 1; }
  int64_t out_points() const { return points; }
  int64_t rows() const { return 2 * (points / 2 + 1); }
  int64_t in_row() const { return 0; }
  int64_t out_row() const { return 1; }
  template <class R>
  void run(R* rows, T scale, bool) const {
    rows[1] = rows[0];
    plan.exec(rows + 1, scale, false);
  }
  int64_t points;
  pocket::pocketfft_r<T> plan;
};

template <class T, template <class> class Core>
class Plan final : public FftPlan {
 public:
  explicit Plan(int64_t n)
      : FftPlan(kLanes<T>, 4 * n * static_cast<int64_t>(sizeof(T)) + 512), core_(n) {}

  void run(const FftLines& lines, int64_t lo, int64_t hi) const override {
    constexpr int64_t L = kLanes<T>;
    LineCursor cursor(lines, lo);
    const bool single = hi - lo == 1 || core_.rows() > kMostTogether;
    const Scratch<Lanes<T>> rows(single ? 0 : core_.rows());
    AlignedArray<T> row;
    while (lo < hi) {
      const int64_t left = std::min(L, hi - lo);
      if (left * 4 >= L && left > 1 && core_.rows() <= kMostTogether) {
        together(lines, cursor, left, rows.get());
        lo += left;
      } else {
        if (row == nullptr) row = aligned_array<T>(core_.rows());
        alone(lines, cursor, row.get());
        ++lo;
      }
    }
  }

 private:
  using C = Core<T>;

  void together(const FftLines& s, LineCursor& cursor, int64_t count, Lanes<T>* rows) const {
    LaneSet<const char*> in;
    LaneSet<char*> out;
    for (; count > 0; --count, cursor.next()) {
      in.add(cursor.in());
      out.add(cursor.out());
    }
    gather<T, C::kIn>(in, s.in_step, core_.in_points(), rows + core_.in_row());
    core_.run(rows, static_cast<T>(s.scale), s.forward);
    scatter<T, C::kOut>(rows + core_.out_row(), core_.out_points(), out, s.out_step);
  }

  void alone(const FftLines& s, LineCursor& cursor, T* row) const {
    T* from = row + core_.in_row();
    for (int64_t i = 0; i < core_.in_points(); ++i)
      std::memcpy(from + i * C::kIn, cursor.in() + i * s.in_step, C::kIn * sizeof(T));
    core_.run(row, static_cast<T>(s.scale), s.forward);
    const T* to = row + core_.out_row();
    for (int64_t i = 0; i < core_.out_points(); ++i)
      std::memcpy(cursor.out() + i * s.out_step, to + i * C::kOut, C::kOut * sizeof(T));
    cursor.next();
  }

  C core_;
};

template <class T>
std::unique_ptr<const FftPlan> plan_of(FftKind kind, int64_t n) {
  if (auto divided = long_plan<T>(kind, n)) return divided;
  switch (kind) {
    case FftKind::Complex:
      return std::make_unique<Plan<T, ComplexCore>>(n);
    case FftKind::ToHalf:
      return std::make_unique<Plan<T, ToHalfCore>>(n);
    default:
      return std::make_unique<Plan<T, FromHalfCore>>(n);
  }
}

std::unique_ptr<const FftPlan> plan(FftKind kind, DType t, int64_t n) {
  return t == DType::Float64 ? plan_of<double>(kind, n) : plan_of<float>(kind, n);
}

}  // namespace

FftLoops fft_loops() { return {plan}; }

}  // namespace cograd::kernels::COGRAD_ISA
