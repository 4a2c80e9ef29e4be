// SPDX-License-Identifier: BSD-3-Clause
// Transforms a long line as a matrix: its columns, then its rows. Vectors hold neighbouring columns
// and rows, and threads share them. Only the per-ISA kernel files include this.
#pragma once
#include "kernels/core/aligned.h"
#include "kernels/fft/fft_lanes.h"
#include "kernels/fft/pocketfft.h"
#include "tensor/threads.h"

namespace cograd::kernels::COGRAD_ISA {

// The parts of a long line; `rows` times `columns` points. No rows: the line is not divided.
struct LongShape {
  int64_t rows = 0, columns = 0;
};

// Shorter lines are not divided, nor those without a divisor of at least kLeastRows. The choice
// determines the bits, so it depends on the length alone.
inline constexpr int64_t kLong = 1024, kLeastRows = 16;

inline LongShape long_shape(int64_t n) {
  if (n < kLong) return {};
  auto rows = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (rows >= kLeastRows && n % rows != 0) --rows;
  return rows < kLeastRows ? LongShape{} : LongShape{rows, n / rows};
}

// With j = j1 columns + j2 and k = k1 + k2 rows, the sum over j of x[j] W_n^(j k) is one over j1
// for each column, a factor W_n^(j2 k1), and one over j2 for each k1.
template <class T>
class LongLine {
 public:
  LongLine(int64_t n, LongShape s)
      : n_(n),
        rows_(s.rows),
        columns_(s.columns),
        column_plan_(static_cast<size_t>(s.rows)),
        row_plan_(static_cast<size_t>(s.columns)),
        factors_(aligned_array<Pair>(column_groups() * s.rows)) {
    const pocket::sincos_2pibyn<T> all(static_cast<size_t>(n));
    for (int64_t g = 0; g < column_groups(); ++g)
      for (int64_t k = 0; k < rows_; ++k)
        for (int64_t j = 0; j < L; ++j) {
          const auto w = all[static_cast<size_t>((g * L + j) * k % n)];
          factors_[g * rows_ + k].r[j] = w.r;
          factors_[g * rows_ + k].i[j] = w.i;
        }
  }
  int64_t bytes() const {
    return (2 * n_ + 4 * (rows_ + columns_)) * static_cast<int64_t>(sizeof(T));
  }

  // Transforms n complex points; `in` may be `out`.
  void run(const T* in, T* out, T scale, bool forward) const {
    const Scratch<Pair> middle(row_groups() * padded_columns());
    const int64_t task = std::max<int64_t>(1, kTask / (rows_ * L));
    parallel_for(0, column_groups(), task, [&](int64_t lo, int64_t hi) {
      const Scratch<Pair> column(row_groups() * L);
      std::memset(static_cast<void*>(column.get() + rows_), 0,
                  static_cast<size_t>(row_groups() * L - rows_) * sizeof(Pair));
      for (; lo < hi; ++lo) columns(in, lo, column.get(), middle.get(), forward);
    });
    parallel_for(0, row_groups(), std::max<int64_t>(1, kTask / (columns_ * L)),
                 [&](int64_t lo, int64_t hi) {
                   for (; lo < hi; ++lo) rows(middle.get(), lo, out, scale, forward);
                 });
  }

 private:
  static constexpr int64_t L = kLanes<T>;
  static constexpr int64_t kTask = 1 << 13;  // points that are worth a task
  using Pair = pocket::cmplx<Lanes<T>>;

  int64_t column_groups() const { return divide_up(columns_, L); }
  int64_t row_groups() const { return divide_up(rows_, L); }
  int64_t padded_columns() const { return column_groups() * L; }

  // Transforms L neighbouring columns and stores them with lanes that are neighbouring rows.
  void columns(const T* in, int64_t group, Pair* column, Pair* middle, bool forward) const {
    LaneSet<const char*> from;
    for (int64_t j = group * L; j < std::min(columns_, (group + 1) * L); ++j)
      from.add(reinterpret_cast<const char*>(in + 2 * j));
    gather<T, 2>(from, columns_ * 2 * static_cast<int64_t>(sizeof(T)), rows_,
                 reinterpret_cast<Lanes<T>*>(column));
    column_plan_.exec(column, T(1), forward);
    const Pair* w = factors_.get() + group * rows_;
    if (forward)
      for (int64_t k = 0; k < rows_; ++k) column[k] = column[k].template special_mul<true>(w[k]);
    else
      for (int64_t k = 0; k < rows_; ++k) column[k] = column[k].template special_mul<false>(w[k]);
    for (int64_t b = 0; b < row_groups(); ++b) {
      const T* a = reinterpret_cast<const T*>(column + b * L);
      T* to = reinterpret_cast<T*>(middle + b * padded_columns() + group * L);
      transpose_block(a, 2 * L, to, 2 * L);
      transpose_block(a + L, 2 * L, to + L, 2 * L);
    }
  }

  void rows(Pair* middle, int64_t group, T* out, T scale, bool forward) const {
    Pair* row = middle + group * padded_columns();
    row_plan_.exec(row, scale, forward);
    LaneSet<char*> to;
    for (int64_t k = group * L; k < std::min(rows_, (group + 1) * L); ++k)
      to.add(reinterpret_cast<char*>(out + 2 * k));
    scatter<T, 2>(reinterpret_cast<const Lanes<T>*>(row), columns_, to,
                  rows_ * 2 * static_cast<int64_t>(sizeof(T)));
  }

  int64_t n_, rows_, columns_;
  pocket::pocketfft_c<T> column_plan_, row_plan_;
  AlignedArray<Pair> factors_;
};

}  // namespace cograd::kernels::COGRAD_ISA
