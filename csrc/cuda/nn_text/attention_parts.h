// SPDX-License-Identifier: BSD-3-Clause
// The kernels of attention consist of these: rows in shared memory, two products, scores, dropout.
// -DCOGRAD_T is the dtype, -DCOGRAD_SIZE the length of rows in shared memory, -DCOGRAD_MMA says
// whether tensor cores multiply, and -DCOGRAD_WITH what there is besides causal masks.
#pragma once
#include "cuda/args/attention_args.h"
#include "cuda/args/random_args.h"
#include "cuda/text/functions.h"
#if COGRAD_MMA
#include "mma.h"
#endif

namespace cograd::device {

using T = COGRAD_T;
using C = compute_t<T>;
inline constexpr bool kMma = COGRAD_MMA;
inline constexpr int kSize = COGRAD_SIZE;
inline constexpr bool kWithMask = (COGRAD_WITH & kMaskBit) != 0;
inline constexpr bool kWithDropout = (COGRAD_WITH & kDropoutBit) != 0;
using Kept = select_t<kMma, T, C>;  // an element in shared memory
inline constexpr int kStep = kSize + 16 / static_cast<int>(sizeof(Kept));
inline constexpr int kWide = kSize / 8;  // tiles of 8 columns

inline constexpr AttentionTiles tiles_of(bool forward) {
  return attention_tiles(forward, kMma, static_cast<int>(sizeof(Kept)), kSize);
}

// A product of a warp: rows of 8-column tiles, in the layout of mma's results. A thread has rows
// row_of(0) and row_of(2) of 16 and columns column_of(j, 0) and column_of(j, 1) of tile j.
template <int kTall, int kTiles>
struct Product {
  C at[kTall][kTiles][4];
  Product() {
    each([](int, int, int, C& v) { v = C(0); });
  }
  template <class F>
  void each(F&& f) {
    COGRAD_UNROLL
    for (int h = 0; h < kTall; ++h) COGRAD_UNROLL
    for (int j = 0; j < kTiles; ++j) COGRAD_UNROLL
    for (int e = 0; e < 4; ++e) f(h, j, e, at[h][j][e]);
  }
};
inline int row_of(int e) { return lane() / 4 + e / 2 * 8; }
inline int column_of(int j, int e) { return 8 * j + lane() % 4 * 2 + e % 2; }

// Combines the values of the four lanes that have parts of a row.
template <class F>
inline C fold_row(C v, F&& f) {
  v = f(v, shuffle_xor(v, 1));
  return f(v, shuffle_xor(v, 2));
}

// Returns where matrix n of the queries' begins in an operand; that of the keys is shared by
// `group` of them.
inline int64_t offset_of(const AttentionArgs& a, const AttentionOperand& o, int64_t n, int group) {
  int64_t at = 0;
  for (int d = kAttentionDims - 1; d >= 0; --d) {
    const int64_t i = n % a.sizes[d];
    n /= a.sizes[d];
    at += (d == kAttentionDims - 1 ? i / group : i) * o.steps[d];
  }
  return at;
}
inline const T* matrix(const AttentionArgs& a, const AttentionOperand& o, int64_t n,
                       int group = 1) {
  return static_cast<const T*>(o.data) + offset_of(a, o, n, group);
}

// Begins to copy `count` rows from row `first` on to shared memory; what is past the end becomes 0.
// The rows are there after arrived() and a barrier.
template <int kThreads>
inline void fetch(Kept* to, int count, const AttentionOperand& o, const T* from, int64_t first,
                  int64_t rows, int size) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T)), kPacks = kSize / kPack;
  for (int i = static_cast<int>(threadIdx.x); i < count * kPacks; i += kThreads) {
    const int r = i / kPacks, c = i % kPacks * kPack;
    const T* p = from + (first + r) * o.row_step + c;
    const bool here = first + r < rows;
#if COGRAD_MMA
    if (o.packs) {
      const bool zeros = !here || c >= size;
      begin_copy(to + r * kStep + c, zeros ? from : p, zeros);
      continue;
    }
#endif
    Pack<T, kPack> x;
    if (o.packs && here && c < size) {
      x = *reinterpret_cast<const Pack<T, kPack>*>(p);
    } else {
      COGRAD_UNROLL
      for (int e = 0; e < kPack; ++e) x.v[e] = here && c + e < size ? p[e] : T(0.0f);
    }
    constexpr int kPart = 16 / static_cast<int>(sizeof(Kept));
    COGRAD_UNROLL
    for (int part = 0; part < kPack; part += kPart) {
      Pack<Kept, kPart> y;
      COGRAD_UNROLL
      for (int e = 0; e < kPart; ++e) y.v[e] = Kept(x.v[part + e]);
      *reinterpret_cast<Pack<Kept, kPart>*>(to + r * kStep + c + part) = y;
    }
  }
#if COGRAD_MMA
  end_copies();
#endif
}
// Waits for the rows of this thread's calls of fetch, but not for those of the last kLeft.
template <int kLeft = 0>
inline void arrived() {
#if COGRAD_MMA
  copies_arrived<kLeft>();
#endif
}

#if COGRAD_MMA

// 16 * kTall rows of a warp as left factors; forward keeps them in registers.
template <int kTall>
struct OwnRows {
  const Kept* rows;
  void load(uint32_t (&a)[4], int h, int k) const {
    const int row = 16 * h + lane() % 16, column = 16 * k + lane() / 16 * 8;
    load_matrices<false>(a, rows + row * kStep + column);
  }
};
template <int kTall>
struct LoadedRows {
  uint32_t a[kTall][kSize / 16][4];
  explicit LoadedRows(const OwnRows<kTall>& own) {
    COGRAD_UNROLL
    for (int h = 0; h < kTall; ++h) COGRAD_UNROLL
    for (int k = 0; k < kSize / 16; ++k) own.load(a[h][k], h, k);
  }
  void load(uint32_t (&r)[4], int h, int k) const {
    COGRAD_UNROLL
    for (int e = 0; e < 4; ++e) r[e] = a[h][k][e];
  }
};

// s += own * others^T.
template <int kTall, int kTiles, class Own>
inline void multiply_rows(Product<kTall, kTiles>& s, const Own& own, const Kept* others) {
  COGRAD_UNROLL
  for (int k = 0; k < kSize / 16; ++k) {
    uint32_t a[kTall][4];
    COGRAD_UNROLL
    for (int h = 0; h < kTall; ++h) own.load(a[h], h, k);
    COGRAD_UNROLL
    for (int j = 0; j < kTiles; j += 2) {
      uint32_t b[4];
      const int row = 8 * j + lane() / 16 * 8 + lane() % 8, column = 16 * k + lane() / 8 % 2 * 8;
      load_matrices<false>(b, others + row * kStep + column);
      COGRAD_UNROLL
      for (int h = 0; h < kTall; ++h) {
        multiply_add<T>(s.at[h][j], a[h], b[0], b[1]);
        multiply_add<T>(s.at[h][j + 1], a[h], b[2], b[3]);
      }
    }
  }
}
// out += p * others. The results of mma are left factors as they lie.
template <int kTall, int kTiles>
inline void multiply_weights(Product<kTall, kWide>& out, Product<kTall, kTiles>& p,
                             const Kept* others, C*) {
  COGRAD_UNROLL
  for (int k = 0; k < kTiles / 2; ++k) {
    uint32_t a[kTall][4];
    COGRAD_UNROLL
    for (int h = 0; h < kTall; ++h) COGRAD_UNROLL
    for (int e = 0; e < 4; ++e) {
      const C* v = p.at[h][2 * k + e / 2] + e % 2 * 2;
      a[h][e] = packed<T>(v[0], v[1]);
    }
    COGRAD_UNROLL
    for (int j = 0; j < kWide; j += 2) {
      uint32_t b[4];
      const int row = 16 * k + lane() % 16, column = 8 * j + lane() / 16 * 8;
      load_matrices<true>(b, others + row * kStep + column);
      COGRAD_UNROLL
      for (int h = 0; h < kTall; ++h) {
        multiply_add<T>(out.at[h][j], a[h], b[0], b[1]);
        multiply_add<T>(out.at[h][j + 1], a[h], b[2], b[3]);
      }
    }
  }
}

#else

template <int kTall>
struct OwnRows {
  const Kept* rows;
};
template <int kTall>
struct LoadedRows : OwnRows<kTall> {
  explicit LoadedRows(const OwnRows<kTall>& own) : OwnRows<kTall>(own) {}
};

template <int kTiles>
inline void multiply_rows(Product<1, kTiles>& s, const OwnRows<1>& own, const Kept* others) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(C));
  using Packed = Pack<C, kPack>;
  for (int k = 0; k < kSize; k += kPack) {
    Packed a[2];
    COGRAD_UNROLL
    for (int i = 0; i < 2; ++i)
      a[i] = *reinterpret_cast<const Packed*>(own.rows + row_of(2 * i) * kStep + k);
    COGRAD_UNROLL
    for (int j = 0; j < kTiles; ++j) COGRAD_UNROLL
    for (int e = 0; e < 2; ++e) {
      const auto b = *reinterpret_cast<const Packed*>(others + column_of(j, e) * kStep + k);
      COGRAD_UNROLL
      for (int i = 0; i < 2; ++i) COGRAD_UNROLL
      for (int c = 0; c < kPack; ++c) s.at[0][j][2 * i + e] += a[i].v[c] * b.v[c];
    }
  }
}
// The lanes exchange weights through the warp's part of shared memory.
template <int kTiles>
inline void multiply_weights(Product<1, kWide>& out, Product<1, kTiles>& p, const Kept* others,
                             C* scratch) {
  constexpr int kScratchStep = 8 * kTiles + 4;
  using Pair = Pack<C, 2>;
  __syncwarp();  // other lanes may still read the weights before
  p.each([&](int, int j, int e, C v) { scratch[row_of(e) * kScratchStep + column_of(j, e)] = v; });
  __syncwarp();
  for (int k = 0; k < 8 * kTiles; ++k) {
    C w[2];
    COGRAD_UNROLL
    for (int i = 0; i < 2; ++i) w[i] = scratch[row_of(2 * i) * kScratchStep + k];
    COGRAD_UNROLL
    for (int j = 0; j < kWide; ++j) {
      const auto b = *reinterpret_cast<const Pair*>(others + k * kStep + column_of(j, 0));
      COGRAD_UNROLL
      for (int e = 0; e < 4; ++e) out.at[0][j][e] += w[e / 2] * b.v[e % 2];
    }
  }
}

#endif

// exp, for the 16-bit dtypes by the instruction for 2^x.
inline C weight_of(C v) {
  if constexpr (sizeof(T) == 2)
    return exp2(v * 1.4426950408889634f);
  else
    return exp(v);
}
inline C never() { return -static_cast<C>(HUGE_VAL); }

// The scores of one matrix of queries: scaled and masked products.
struct Scores {
  const AttentionArgs& a;
  int64_t mask;  // offset of the matrix's mask
  C scale;
  Scores(const AttentionArgs& args, int64_t n)
      : a(args),
        mask(kWithMask ? offset_of(args, args.mask, n, 1) : 0),
        scale(static_cast<C>(args.scale)) {}

  // Turns products of rows and keys, from these numbers on, into scores. Queries are the columns if
  // kColumns.
  template <bool kColumns, int kTall, int kTiles>
  void mask_all(Product<kTall, kTiles>& s, int64_t row, int64_t key) const {
    constexpr int kRowCount = kColumns ? 8 * kTiles : 16 * kTall;
    constexpr int kKeyCount = kColumns ? 16 * kTall : 8 * kTiles;
    s.each([&](int, int, int, C& v) { v *= scale; });
    const int rows = clipped(a.rows - row, kRowCount), keys = clipped(a.keys - key, kKeyCount);
    // Row r sees keys up to r + ahead.
    const int ahead = a.causal ? clipped(row - key, kRowCount + kKeyCount) : kKeyCount;
    if constexpr (kWithMask) add_mask<kColumns>(s, row, key, rows, keys);
    if (rows == kRowCount && keys == kKeyCount && ahead >= kKeyCount - 1) return;
    s.each([&](int h, int j, int e, C& v) {
      const int own = 16 * h + row_of(e), other = column_of(j, e);
      const int r = kColumns ? other : own, k = kColumns ? own : other;
      if (r >= rows || k >= keys || k - r > ahead) v = never();
    });
  }

 private:
  static int clipped(int64_t n, int most) {
    return static_cast<int>(n > most ? most : n < -most ? -most : n);
  }
  template <bool kColumns, int kTall, int kTiles>
  void add_mask(Product<kTall, kTiles>& s, int64_t row, int64_t key, int rows, int keys) const {
    const int64_t first = mask + row * a.mask.row_step + key * a.mask_col;
    const int64_t own_step = kColumns ? a.mask_col : a.mask.row_step;
    const int64_t other_step = kColumns ? a.mask.row_step : a.mask_col;
    const int own_end = kColumns ? keys : rows, other_end = kColumns ? rows : keys;
    if (a.mask_kind == kTruthMask) {
      static_assert(kTall * kTiles <= 16);
      uint64_t seen = 0;
      for (int i = 0; i < 4 * kTall * kTiles; ++i) {
        const int own = 16 * (i / (4 * kTiles)) + row_of(i % 4),
                  other = column_of(i / 4 % kTiles, i);
        if (own < own_end && other < other_end &&
            load(static_cast<const bool*>(a.mask.data),
                 first + own * own_step + other * other_step))
          seen |= uint64_t{1} << i;
      }
      s.each([&](int h, int j, int e, C& v) {
        if ((seen >> (4 * (h * kTiles + j) + e) & 1) == 0) v = never();
      });
      return;
    }
    s.each([&](int h, int j, int e, C& v) {
      const int own = 16 * h + row_of(e), other = column_of(j, e);
      if (own >= own_end || other >= other_end) return;
      const int64_t at = first + own * own_step + other * other_step;
      if (is_same<T, C> || a.mask_kind == kComputedMask)
        v += load(static_cast<const C*>(a.mask.data), at);
      else
        v += load(static_cast<const T*>(a.mask.data), at);
    });
  }
};

// Which weights of a matrix dropout keeps: a word of the stream for each, in the CPU's order.
struct Dropout {
  uint64_t seed, block, limit;
  int64_t per_row;
  Dropout(const AttentionArgs& a, int64_t n) : limit(a.limit), per_row((a.keys + 3) / 4) {
    seed = a.base == nullptr ? a.seed : a.base[0];
    block = a.base == nullptr ? a.offset : a.base[1] + a.offset;
    block += static_cast<uint64_t>((a.first + n) * a.rows * per_row);
  }
  PhiloxWords words(int64_t row, int64_t key) const {
    return philox(seed, block + static_cast<uint64_t>(row * per_row + key / 4));
  }
  // Returns bits: 1 for a kept key, 2 for the kept next one, which follows an even one.
  unsigned keeps(int64_t row, int64_t key) const {
    const PhiloxWords x = words(row, key);
    const bool late = key % 4 >= 2;
    const unsigned one = late ? x.w[2] : x.w[0], two = late ? x.w[3] : x.w[1];
    return (one < limit ? 1u : 0u) | (two < limit ? 2u : 0u);
  }
  // Returns a bit for each element of a warp's product of rows and keys from these numbers on, in
  // the order of Product::each. The loop is not unrolled, as its text would be long.
  template <bool kColumns, int kTall, int kTiles>
  uint64_t bits(int64_t row, int64_t key) const {
    static_assert(kTall * kTiles <= 16);
    uint64_t all = 0;
    for (int i = 0; i < 4 * kTall * kTiles; i += kColumns ? 1 : 2) {
      const int own = 16 * (i / (4 * kTiles)) + row_of(i % 4), other = column_of(i / 4 % kTiles, i);
      const int64_t k = key + (kColumns ? own : other), r = row + (kColumns ? other : own);
      const unsigned two = keeps(r, k - k % 2);
      all |= static_cast<uint64_t>(kColumns ? two >> (k % 2) & 1 : two) << i;
    }
    return all;
  }
};

// Writes a warp's rows, from row `first` on, times a factor for each.
template <int kTall, class F>
inline void write_rows(const AttentionOperand& o, int64_t offset, Product<kTall, kWide>& p,
                       int64_t first, int64_t rows, int size, F&& factor) {
  T* to = static_cast<T*>(const_cast<void*>(o.data)) + offset;
  COGRAD_UNROLL
  for (int h = 0; h < kTall; ++h) COGRAD_UNROLL
  for (int i = 0; i < 2; ++i) {
    const int64_t row = first + 16 * h + row_of(2 * i);
    const C times = factor(h, i);
    if (row >= rows) continue;
    T* at = to + row * o.row_step;
    COGRAD_UNROLL
    for (int j = 0; j < kWide; ++j) {
      const int c = column_of(j, 0);
      Pack<T, 2> y{{T(p.at[h][j][2 * i] * times), T(p.at[h][j][2 * i + 1] * times)}};
      if (o.packs && c < size) {
        *reinterpret_cast<Pack<T, 2>*>(at + c) = y;
      } else {
        if (c < size) at[c] = y.v[0];
        if (c + 1 < size) at[c + 1] = y.v[1];
      }
    }
  }
}

}  // namespace cograd::device
