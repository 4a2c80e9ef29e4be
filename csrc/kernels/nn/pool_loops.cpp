// SPDX-License-Identifier: BSD-3-Clause
// Computes the maxima of the windows of one plane; compiled once per instruction set.
#include "kernels/nn/pool_loops.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>

namespace cograd::kernels::COGRAD_ISA {

PoolLoops pool_loops();

namespace {

template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

// True if v replaces the best element so far: NaN wins and stays.
template <class T>
inline bool better(T v, T best) {
  if constexpr (std::is_floating_point_v<T>) return v > best || v != v;
  return v > best;
}

// Positions are 32 bits wide, because twice as many fit in a register.
template <class T>
struct Row {
  T* __restrict best;
  int32_t* __restrict place;
};

// Folds row `from` of the input, which begins at `offset` in the plane, into the windows of an
// output row.
template <class T>
void even_row(const PoolWindows& w, const T* __restrict from, int32_t offset, Row<T> r) {
  const int64_t n = w.out[2], step = w.stride;
  for (int64_t k = 0; k < w.taps; ++k) {
    const int64_t shift = w.first + k * w.dilation[2];
    const int64_t lo = shift >= 0 ? 0 : (-shift + step - 1) / step;
    const int64_t room = w.in[2] - shift;
    const int64_t hi = room <= 0 ? 0 : std::min(n, (room + step - 1) / step);
    const auto base = static_cast<int32_t>(offset + shift), by = static_cast<int32_t>(step);
    T* __restrict best = r.best;
    int32_t* __restrict place = r.place;
    const auto one = [&](int64_t i, int64_t stride) {
      const T v = from[shift + i * stride];
      const bool take = better(v, best[i]);
      best[i] = take ? v : best[i];
      place[i] = take ? base + static_cast<int32_t>(i) * by : place[i];
    };
    if (step == 1)
      for (int64_t i = lo; i < hi; ++i) one(i, 1);
    else if (step == 2)
      for (int64_t i = lo; i < hi; ++i) one(i, 2);
    else
      for (int64_t i = lo; i < hi; ++i) one(i, step);
  }
}

template <class T>
void uneven_row(const PoolWindows& w, const T* from, int32_t offset, Row<T> r) {
  for (int64_t i = 0; i < w.out[2]; ++i) {
    const auto at = static_cast<size_t>(i);
    T best = r.best[i];
    int32_t place = r.place[i];
    for (int64_t j = w.start[2][at]; j < w.end[2][at]; j += w.dilation[2]) {
      const T v = from[j];
      const bool take = better(v, best);
      best = take ? v : best;
      place = take ? offset + static_cast<int32_t>(j) : place;
    }
    r.best[i] = best;
    r.place[i] = place;
  }
}

template <class T, class S>
void plane(const PoolWindows& w, const S* x, S* y, int64_t* index) {
  const int64_t n = w.out[2];
  const std::unique_ptr<T[]> best(new T[static_cast<size_t>(n)]);
  const std::unique_ptr<int32_t[]> place(new int32_t[static_cast<size_t>(n)]);
  std::unique_ptr<T[]> copy;
  const T* values;
  if constexpr (std::is_same_v<T, S>) {
    values = x;
  } else {
    copy.reset(new T[static_cast<size_t>(w.in_size())]);
    for (int64_t i = 0; i < w.in_size(); ++i) copy[static_cast<size_t>(i)] = static_cast<T>(x[i]);
    values = copy.get();
  }
  for (int64_t line = 0; line < w.out[0] * w.out[1]; ++line, y += n, index += n) {
    const auto oz = static_cast<size_t>(line / w.out[1]), oy = static_cast<size_t>(line % w.out[1]);
    // If a window holds only -inf, its first element is the maximum.
    const int64_t corner = (w.start[0][oz] * w.in[1] + w.start[1][oy]) * w.in[2];
    for (int64_t i = 0; i < n; ++i) {
      best[static_cast<size_t>(i)] = lowest<T>();
      place[static_cast<size_t>(i)] =
          static_cast<int32_t>(corner + w.start[2][static_cast<size_t>(i)]);
    }
    for (int64_t z = w.start[0][oz]; z < w.end[0][oz]; z += w.dilation[0]) {
      for (int64_t v = w.start[1][oy]; v < w.end[1][oy]; v += w.dilation[1]) {
        const int64_t offset = (z * w.in[1] + v) * w.in[2];
        const Row<T> row{best.get(), place.get()};
        if (w.even)
          even_row(w, values + offset, static_cast<int32_t>(offset), row);
        else
          uneven_row(w, values + offset, static_cast<int32_t>(offset), row);
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<S>(best[static_cast<size_t>(i)]);
      index[i] = place[static_cast<size_t>(i)];
    }
  }
}

template <class S>
void plane_of(const PoolWindows& w, const void* x, void* y, int64_t* index) {
  using T = std::conditional_t<std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>, float, S>;
  plane<T>(w, static_cast<const S*>(x), static_cast<S*>(y), index);
}

}  // namespace

PoolLoops pool_loops() {
  return {[](DType t, const PoolWindows& w, const void* x, void* y, int64_t* index) {
    switch (t) {
      case DType::Float16:
        return plane_of<Half>(w, x, y, index);
      case DType::BFloat16:
        return plane_of<BFloat16>(w, x, y, index);
      case DType::Float32:
        return plane_of<float>(w, x, y, index);
      case DType::Float64:
        return plane_of<double>(w, x, y, index);
      case DType::UInt8:
        return plane_of<uint8_t>(w, x, y, index);
      case DType::Int8:
        return plane_of<int8_t>(w, x, y, index);
      case DType::Int16:
        return plane_of<int16_t>(w, x, y, index);
      case DType::Int32:
        return plane_of<int32_t>(w, x, y, index);
      default:
        return plane_of<int64_t>(w, x, y, index);
    }
  }};
}

}  // namespace cograd::kernels::COGRAD_ISA
