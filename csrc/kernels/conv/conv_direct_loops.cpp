// SPDX-License-Identifier: BSD-3-Clause
// Computes tiles of results in registers; compiled once per instruction set.
#include "kernels/conv/conv_direct_loops.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/transpose.h"

namespace cograd::kernels::COGRAD_ISA {

ConvDirectLoops conv_direct_loops();

namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64, kRows = 8, kWidth = 4;
#elif defined(__AVX__)
constexpr int kBytes = 32, kRows = 4, kWidth = 2;
#else
constexpr int kBytes = 16, kRows = 4, kWidth = 2;
#endif
constexpr int kColumns = 3;      // vectors per tile
constexpr int kLongColumns = 8;  // vectors per tile with one row
constexpr int kOuterRows = 6;

template <class A>
struct VecOf {
  typedef A type __attribute__((vector_size(kBytes)));
};
template <class A>
using V = typename VecOf<A>::type;
template <class A>
constexpr int kLanesOf = kBytes / static_cast<int>(sizeof(A));

template <class A>
inline __attribute__((always_inline)) V<A> load(const A* p) {
  V<A> v;
  __builtin_memcpy(&v, p, kBytes);
  return v;
}
template <class A>
inline __attribute__((always_inline)) void store(A* p, V<A> v) {
  __builtin_memcpy(p, &v, kBytes);
}

// Lanes of a tile's vector that are adjacent in y as well: y[to + lane], for the lanes of the mask.
struct Piece {
  int64_t to;
  uint32_t lanes;
};

// Says where a tile's results go: row m, vector n, to y + m * row + piece.to for each of the pieces
// [first[n], first[n + 1]), plus bias[m]; without pieces, to y + m * row + n * lanes.
template <class A>
struct TileTarget {
  A* y;
  int64_t row, rows;
  const A* bias;
  const Piece* pieces;
  const int* first;
};

// Stores to y without a copy between, whose loads would wait for the stores before them. A block of
// one row has too few products: masked stores take longer than they do.
#if defined(__AVX512F__)
template <int M>
constexpr bool kStoresPieces = M > 1;
inline void store_piece(float* y, const Piece& p, V<float> v) {
  _mm512_mask_storeu_ps(y + p.to, static_cast<__mmask16>(p.lanes), reinterpret_cast<__m512>(v));
}
inline void store_piece(double* y, const Piece& p, V<double> v) {
  _mm512_mask_storeu_pd(y + p.to, static_cast<__mmask8>(p.lanes), reinterpret_cast<__m512d>(v));
}
#else
template <int M>
constexpr bool kStoresPieces = false;
template <class A>
void store_piece(A*, const Piece&, V<A>);
#endif

// Computes the sums over k of w[k][m] x[offsets[k] + n] for M rows of N vectors.
template <class A, int M, int N>
void tile(const A* x, const int64_t* offsets, const A* w, int64_t depth, const TileTarget<A>& to) {
  constexpr int L = kLanesOf<A>;
  V<A> sum[M][N];
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) sum[m][n] = V<A>{};
  for (int64_t k = 0; k < depth; ++k) {
    const A* at = x + offsets[k];
    V<A> v[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) v[n] = load(at + n * L);
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const A b = w[m];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sum[m][n] += b * v[n];
    }
    w += M;
  }
  const TileTarget<A> target = to;  // a copy, which stores to y cannot change
#pragma GCC unroll 8
  for (int m = 0; m < M; ++m) {
    A* y = target.y + m * target.row;
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      if constexpr (kStoresPieces<M>) {
        const V<A> v = sum[m][n] + target.bias[m];
        const int end = m < target.rows ? target.first[n + 1] : 0;
        for (int i = target.first[n]; i < end; ++i) store_piece(y, target.pieces[i], v);
      } else {
        store(y + n * L, sum[m][n]);
      }
    }
  }
}

template <class A>
using TileFn = void (*)(const A*, const int64_t*, const A*, int64_t, const TileTarget<A>&);

template <class A, int M>
TileFn<A> tile_of(int n) {
  if constexpr (M == 1) {
    if (n > 4) return tile<A, 1, 8>;
    if (n > 3) return tile<A, 1, 4>;
  }
  return n == 1 ? tile<A, M, 1> : n == 2 ? tile<A, M, 2> : tile<A, M, 3>;
}
template <class A>
TileFn<A> tile_of(int64_t m, int n) {
  if constexpr (kRows == 8)
    if (m == 8) return tile_of<A, 8>(n);
  return m == 1 ? tile_of<A, 1>(n) : m == 2 ? tile_of<A, 2>(n) : tile_of<A, 4>(n);
}
int vectors_of(int64_t m, int64_t n) {
  if (m == 1) return n > 4 ? 8 : static_cast<int>(n);
  return static_cast<int>(n);
}

// Results that are adjacent both in a tile and in y.
struct Run {
  int64_t from, to, count;
};

template <class A>
class Shift {
 public:
  explicit Shift(const ShiftJob& j) : j_(j) {}
  void run() {
    constexpr int64_t L = kLanesOf<A>;
    const int64_t* e = j_.extent;
    const int64_t* g = j_.grid;
    const int64_t total = ((g[0] - 1) * e[1] + g[1] - 1) * e[2] + g[2];
    const int64_t most = (j_.block == 1 ? kLongColumns : kColumns) * L;
    for (int64_t p = 0; p < total;) {
      const int64_t left = (std::min(most, total - p) + L - 1) / L;
      const int vectors = vectors_of(j_.block, left);
      const int64_t width = vectors * L;
      runs_ = find_runs(p, std::min(width, total - p));
      blocks(p, vectors, width);
      p += width;
    }
  }

 private:
  // Finds the positions of [p, p + n) that belong to the grid, not to the space between its rows.
  int find_runs(int64_t p, int64_t n) {
    const int64_t *e = j_.extent, *g = j_.grid;
    int count = 0;
    for (int64_t i = p; i < p + n;) {
      const int64_t x = i % e[2], line = i / e[2], y = line % e[1], z = line / e[1];
      const int64_t row_end = i + e[2] - x;
      if (y < g[1] && x < g[2] && z < g[0]) {
        const int64_t end = std::min({row_end - e[2] + g[2], p + n});
        run_[count++] = {i - p, z * j_.y_stride[0] + y * j_.y_stride[1] + x * j_.y_stride[2],
                         end - i};
      }
      i = row_end;
    }
    return count;
  }
  // Cuts the runs at the ends of vectors.
  void cut_runs(int vectors) {
    constexpr int64_t L = kLanesOf<A>;
    int count = 0, i = 0;
    for (int n = 0; n < vectors; ++n) {
      first_[n] = count;
      for (; i < runs_ && run_[i].from < (n + 1) * L; ++i) {
        const int64_t lo = std::max(run_[i].from, n * L), end = run_[i].from + run_[i].count;
        const int64_t hi = std::min(end, (n + 1) * L);
        const uint32_t lanes = ((uint32_t{1} << (hi - lo)) - 1) << (lo - n * L);
        piece_[count++] = {run_[i].to + n * L - run_[i].from, lanes};
        if (end > hi) break;
      }
    }
    first_[vectors] = count;
  }
  void whole_pieces(int vectors) {
    for (int n = 0; n < vectors; ++n) piece_[n] = {n * kLanesOf<A>, ~uint32_t{0}};
    for (int n = 0; n <= vectors; ++n) first_[n] = n;
  }
  void blocks(int64_t p, int vectors, int64_t width) {
    const TileFn<A> f = tile_of<A>(j_.block, vectors);
    const A* w = static_cast<const A*>(j_.weights);
    const A* source = static_cast<const A*>(j_.source) + p;
    const bool direct = kStoresPieces<kRows> && j_.y_stride[2] == 1 && j_.block > 1;
    if (direct)
      cut_runs(vectors);
    else if (kStoresPieces<kRows> && j_.block > 1)
      whole_pieces(vectors);
    for (int64_t m = 0; m < j_.rows; m += j_.block, w += j_.block * j_.depth) {
      const int64_t rows = std::min(j_.block, j_.rows - m);
      A bias[kRows] = {};
      if (direct && j_.bias != nullptr) std::copy_n(static_cast<const A*>(j_.bias) + m, rows, bias);
      A* y = direct ? static_cast<A*>(j_.y) + m * j_.y_row : buffer_;
      f(source, j_.offsets, w, j_.depth,
        {y, direct ? j_.y_row : width, direct ? rows : j_.block, bias, piece_, first_});
      for (int64_t r = 0; r < rows && !direct; ++r) write_row(m + r, buffer_ + r * width);
    }
  }
  void write_row(int64_t m, const A* from) {
    A* to = static_cast<A*>(j_.y) + m * j_.y_row;
    const A b = j_.bias == nullptr ? A(0) : static_cast<const A*>(j_.bias)[m];
    const int64_t step = j_.y_stride[2];
    for (int i = 0; i < runs_; ++i) {
      const A* __restrict src = from + run_[i].from;
      A* __restrict dst = to + run_[i].to;
      const int64_t n = run_[i].count;
      if (step == 1)
        for (int64_t k = 0; k < n; ++k) dst[k] = src[k] + b;
      else
        for (int64_t k = 0; k < n; ++k) dst[k * step] = src[k] + b;
    }
  }
  const ShiftJob& j_;
  int runs_ = 0;
  alignas(64) A buffer_[kRows * kLongColumns * kLanesOf<A>];
  Run run_[kLongColumns * kLanesOf<A> + 1];
  Piece piece_[kLongColumns * kLanesOf<A> + 1];
  int first_[kLongColumns + 1];
};

// Computes sums[r][c] += sum over positions of source[offsets[r] + i] * g[i][c] for R rows of C
// vectors.
template <class A, int R, int C>
void outer_tile(const A* x, const int64_t* offsets, const A* g, int64_t width, int64_t lines,
                int64_t length, int64_t line_stride, A* sums) {
  constexpr int L = kLanesOf<A>;
  V<A> sum[R][C];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c] = load(sums + r * width + c * L);
  const A* at[R];
  for (int r = 0; r < R; ++r) at[r] = x + offsets[r];
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t i = 0; i < length; ++i, g += width) {
      V<A> v[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) v[c] = load(g + c * L);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const A b = at[r][i];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[r][c] += b * v[c];
      }
    }
    for (int r = 0; r < R; ++r) at[r] += line_stride;
  }
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) store(sums + r * width + c * L, sum[r][c]);
}

template <class A, int C>
void outer_columns(const OuterJob& j, int64_t column) {
  const A* x = static_cast<const A*>(j.source);
  const A* g = static_cast<const A*>(j.g) + column;
  A* sums = static_cast<A*>(j.sums) + column;
  int64_t k = 0;
  for (; k + kOuterRows <= j.depth; k += kOuterRows)
    outer_tile<A, kOuterRows, C>(x, j.offsets + k, g, j.width, j.lines, j.length, j.line_stride,
                                 sums + k * j.width);
  for (; k < j.depth; ++k)
    outer_tile<A, 1, C>(x, j.offsets + k, g, j.width, j.lines, j.length, j.line_stride,
                        sums + k * j.width);
}

template <class A>
void outer(const OuterJob& j) {
  constexpr int64_t L = kLanesOf<A>;
  int64_t c = 0;
  for (; c + kWidth * L <= j.width; c += kWidth * L) outer_columns<A, kWidth>(j, c);
  if constexpr (kWidth > 2)
    for (; c + 2 * L <= j.width; c += 2 * L) outer_columns<A, 2>(j, c);
  for (; c < j.width; c += L) outer_columns<A, 1>(j, c);
}

// Processes R taps at once; leaves out lanes behind a row's end.
template <class A, int R>
void dot_rows(const A* x, const int64_t* offsets, const A* g, int64_t lines, int64_t length,
              int64_t line_stride, double* sums) {
  constexpr int64_t L = kLanesOf<A>;
  const int64_t whole = length / L * L;
  V<A> sum[R];
  double rest[R] = {};
  for (int r = 0; r < R; ++r) sum[r] = V<A>{};
  for (int64_t line = 0; line < lines; ++line, g += length, x += line_stride) {
    for (int64_t i = 0; i < whole; i += L) {
      const V<A> v = load(g + i);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum[r] += v * load(x + offsets[r] + i);
    }
    if (whole == length) continue;
    alignas(64) A last[L] = {};
    std::memcpy(last, g + whole, static_cast<size_t>(length - whole) * sizeof(A));
    const V<A> v = load(static_cast<const A*>(last));
    for (int r = 0; r < R; ++r) {
      alignas(64) A seen[L] = {};
      std::memcpy(seen, x + offsets[r] + whole, static_cast<size_t>(length - whole) * sizeof(A));
      sum[r] += v * load(static_cast<const A*>(seen));
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int64_t i = 0; i < L; ++i) rest[r] += static_cast<double>(sum[r][i]);
    sums[r] += rest[r];
  }
}

template <class A>
void dots(const DotJob& j) {
  const A *x = static_cast<const A*>(j.source), *g = static_cast<const A*>(j.g);
  int64_t k = 0;
  for (; k + 9 <= j.depth; k += 9)
    dot_rows<A, 9>(x, j.offsets + k, g, j.lines, j.length, j.line_stride, j.sums + k);
  for (; k + 3 <= j.depth; k += 3)
    dot_rows<A, 3>(x, j.offsets + k, g, j.lines, j.length, j.line_stride, j.sums + k);
  for (; k < j.depth; ++k)
    dot_rows<A, 1>(x, j.offsets + k, g, j.lines, j.length, j.line_stride, j.sums + k);
}

}  // namespace

ConvDirectLoops conv_direct_loops() {
  ConvDirectLoops f;
  f.block = [](DType, int64_t rows) -> int64_t { return rows <= 2 ? rows : rows <= 4 ? 4 : kRows; };
  f.lanes = [](DType t) -> int64_t { return kBytes / dtype_size(t); };
  f.slack = [](DType t) -> int64_t { return kLongColumns * kBytes / dtype_size(t); };
  f.shift = [](DType t, const ShiftJob& j) {
    t == DType::Float32 ? Shift<float>(j).run() : Shift<double>(j).run();
  };
  f.outer = [](DType t, const OuterJob& j) {
    t == DType::Float32 ? outer<float>(j) : outer<double>(j);
  };
  f.dots = [](DType t, const DotJob& j) { t == DType::Float32 ? dots<float>(j) : dots<double>(j); };
  f.transpose = [](DType t, const void* g, int64_t row, int64_t channels, int64_t positions,
                   int64_t width, void* to) {
    if (t == DType::Float32)
      transpose(static_cast<const float*>(g), row, channels, positions, width,
                static_cast<float*>(to));
    else
      transpose(static_cast<const double*>(g), row, channels, positions, width,
                static_cast<double*>(to));
  };
  return f;
}

}  // namespace cograd::kernels::COGRAD_ISA
