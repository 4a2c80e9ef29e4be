// SPDX-License-Identifier: BSD-3-Clause
// Computes tiles of positions times channels. The lanes are channels, so positions may lie
// anywhere. Compiled once per instruction set.
#include <algorithm>
#include <vector>

#include "kernels/conv/conv_direct_loops.h"
#include "kernels/product/register_tile.h"

namespace cograd::kernels::COGRAD_ISA {

ConvPointLoops conv_point_loops();

namespace {

// Number of positions in a tile with one vector of channels: twice as many fit.
constexpr int kLongTile = kVectorBytes == 64 ? 24 : 12;

// Provides factors A[r, k] = x[offsets[k] + place[r]].
template <class T, int R>
struct PlacedFactors {
  const T* at[R];
  const int64_t* offsets;
  PlacedFactors(const T* x, const int64_t* depth_offsets, const int64_t* places)
      : offsets(depth_offsets) {
    for (int r = 0; r < R; ++r) at[r] = x + places[r];
  }
  COGRAD_INLINE T factor(int r) const { return at[r][*offsets]; }
  COGRAD_INLINE void advance() { ++offsets; }
};
// Provides the same for adjacent places.
template <class T>
struct RowFactors {
  const T* x;
  const int64_t* offsets;
  COGRAD_INLINE T factor(int r) const { return (x + *offsets)[r]; }
  COGRAD_INLINE void advance() { ++offsets; }
};

// Offsets of the positions in the source and in y.
struct Positions {
  std::vector<int64_t> from, to;
  explicit Positions(const ShiftJob& j) {
    for (int64_t z = 0; z < j.grid[0]; ++z)
      for (int64_t y = 0; y < j.grid[1]; ++y)
        for (int64_t x = 0; x < j.grid[2]; ++x) {
          from.push_back((z * j.extent[1] + y) * j.extent[2] + x);
          to.push_back(z * j.y_stride[0] + y * j.y_stride[1] + x * j.y_stride[2]);
        }
  }
};

template <class T, int V>
class Points {
 public:
  Points(const ShiftJob& j, const Positions& p) : j_(j), p_(p) {}
  // Computes channels [m, m + channels), which are at most V vectors.
  void block(int64_t m, const T* w) {
    const auto total = static_cast<int64_t>(p_.from.size());
    const int64_t channels = std::min<int64_t>(j_.rows - m, V * kLanes<T>);
    for (int64_t i = 0; i < total;) {
      const int64_t left = total - i;
      if (left > kMost * 2 / 3)
        i += tile<kMost>(i, m, channels, w);
      else if (left > kMost / 3)
        i += tile<kMost * 2 / 3>(i, m, channels, w);
      else
        i += tile<(kMost + 2) / 3>(i, m, channels, w);
    }
  }

 private:
  static constexpr int kMost = V == 1 ? kLongTile : kTileRows;

  template <int R>
  int64_t tile(int64_t i, int64_t m, int64_t channels, const T* w) {
    const auto total = static_cast<int64_t>(p_.from.size());
    const int64_t count = std::min<int64_t>(R, total - i);
    const T* x = static_cast<const T*>(j_.source);
    int64_t places[R];
    bool row = true;
    for (int r = 0; r < R; ++r) {
      places[r] = p_.from[static_cast<size_t>(std::min(i + r, total - 1))];
      row = row && places[r] == places[0] + r;
    }
    Vec<T, kLanes<T>> sum[R][V] = {};
    const PanelVectors<T> vectors{w, V * kLanes<T>};
    if (row)
      add_products<T, R, V>(j_.depth, RowFactors<T>{x + places[0], j_.offsets}, vectors, sum);
    else
      add_products<T, R, V>(j_.depth, PlacedFactors<T, R>(x, j_.offsets, places), vectors, sum);
    alignas(64) T out[R][V * kLanes<T>];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v) store<T, kLanes<T>>(out[r] + v * kLanes<T>, sum[r][v]);
    write(i, m, channels, count, &out[0][0]);
    return count;
  }

  void write(int64_t i, int64_t m, int64_t channels, int64_t count, const T* out) const {
    const int64_t* to = p_.to.data() + i;
    for (int64_t c = 0; c < channels; ++c) {
      const T bias = j_.bias == nullptr ? T(0) : static_cast<const T*>(j_.bias)[m + c];
      T* y = static_cast<T*>(j_.y) + (m + c) * j_.y_row;
      for (int64_t r = 0; r < count; ++r) y[to[r]] = out[r * V * kLanes<T> + c] + bias;
    }
  }

  const ShiftJob& j_;
  const Positions& p_;
};

template <class T>
void run(const ShiftJob& j) {
  const Positions positions(j);
  const T* w = static_cast<const T*>(j.weights);
  for (int64_t m = 0; m < j.rows; m += j.block, w += j.block * j.depth) {
    if (j.block == kLanes<T>)
      Points<T, 1>(j, positions).block(m, w);
    else
      Points<T, 2>(j, positions).block(m, w);
  }
}

}  // namespace

ConvPointLoops conv_point_loops() {
  ConvPointLoops f;
  f.block = [](DType t, int64_t rows) -> int64_t {
    const int64_t lanes = kVectorBytes / dtype_size(t);
    return rows <= lanes ? lanes : 2 * lanes;
  };
  f.run = [](DType t, const ShiftJob& j) { t == DType::Float32 ? run<float>(j) : run<double>(j); };
  return f;
}

}  // namespace cograd::kernels::COGRAD_ISA
