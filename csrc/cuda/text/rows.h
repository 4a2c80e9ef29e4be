// SPDX-License-Identifier: BSD-3-Clause
// Rows that a group of threads keeps in registers: -DCOGRAD_T is the dtype's type, -DCOGRAD_GROUP
// the threads per row (up to 32, or a block of 256 or 1024), -DCOGRAD_PER the elements per thread,
// 0 if a row is too long, -DCOGRAD_VEC the elements of one load, which divides the row's length.
#pragma once
#include "functions.h"

namespace cograd::device {

using Element = COGRAD_T;
using Computed = compute_t<Element>;
inline constexpr int kPer = COGRAD_PER, kGroup = COGRAD_GROUP, kVec = COGRAD_VEC;
inline constexpr int kBlock = kGroup <= 32 ? 256 : kGroup, kRowsPerBlock = kBlock / kGroup;
inline constexpr bool kLong = kPer == 0;
inline constexpr int kWarps = kGroup <= 32 ? 1 : kGroup / 32;  // of a group

inline Computed infinity() { return static_cast<Computed>(HUGE_VAL); }

inline int member() { return static_cast<int>(threadIdx.x) % kGroup; }

// Combines the values of a group; all its threads get the result. f is commutative.
template <class V, class F>
inline V reduce_group(V v, F&& f) {
  COGRAD_UNROLL
  for (int d = (kGroup < 32 ? kGroup : 32) / 2; d > 0; d /= 2) v = f(v, shuffle_xor(v, d));
  if constexpr (kWarps > 1) {
    COGRAD_SHARED uint64_t room[32 * ((sizeof(V) + 7) / 8)];
    V* shared = reinterpret_cast<V*>(room);
    __syncthreads();  // the round before may still read
    if (lane() == 0) shared[warp()] = v;
    __syncthreads();
    v = shared[lane() % kWarps];
    COGRAD_UNROLL
    for (int d = kWarps / 2; d > 0; d /= 2) v = f(v, shuffle_xor(v, d));
  }
  return v;
}
inline Computed sum_of_group(Computed v) {
  return reduce_group(v, [](Computed p, Computed q) { return p + q; });
}

// Calls f(place in the registers, first element) for each load of this thread.
template <class F>
inline void each_load(int64_t n, F&& f) {
  if constexpr (kLong) {
    for (int64_t i = member() * kVec; i < n; i += kGroup * kVec) f(0, i);
  } else {
    COGRAD_UNROLL
    for (int k = 0; k < kPer / kVec; ++k) {
      const int64_t i = (k * kGroup + member()) * kVec;
      if (i < n) f(k * kVec, i);
    }
  }
}

// The elements of a row, or of a load of a long one.
struct Row {
  Computed v[kLong ? kVec : kPer];

  void load_at(const Element* p, int place, int64_t i) {
    const auto x = *reinterpret_cast<const Pack<Element, kVec>*>(p + i);
    COGRAD_UNROLL
    for (int j = 0; j < kVec; ++j) v[place + j] = load(&x.v[j]);
  }
  // Reads a row that is not long; `otherwise` fills what lies past its end.
  void read(const Element* p, int64_t n, Computed otherwise) {
    COGRAD_UNROLL
    for (int k = 0; k < (kLong ? kVec : kPer); ++k) v[k] = otherwise;
    if constexpr (!kLong) each_load(n, [&](int place, int64_t i) { load_at(p, place, i); });
  }
};

// Calls f(rows...) for the values at each place: of rows in registers, or of long rows, which are
// read again.
template <class F>
inline void each_value(int64_t n, const Element* p, Row& x, F&& f) {
  each_load(n, [&](int place, int64_t i) {
    if constexpr (kLong) x.load_at(p, 0, i);
    COGRAD_UNROLL
    for (int j = 0; j < kVec; ++j) f(x.v[place + j]);
  });
}
template <class F>
inline void each_pair(int64_t n, const Element* p, Row& x, const Element* q, Row& y, F&& f) {
  each_load(n, [&](int place, int64_t i) {
    if constexpr (kLong) {
      x.load_at(p, 0, i);
      y.load_at(q, 0, i);
    }
    COGRAD_UNROLL
    for (int j = 0; j < kVec; ++j) f(x.v[place + j], y.v[place + j], i + j);
  });
}
// Writes out[i] = f(place in the registers, i); fetch(i) reads what that needs of a long row.
template <class G, class F>
inline void write_row(Element* out, int64_t n, G&& fetch, F&& f) {
  each_load(n, [&](int place, int64_t i) {
    if constexpr (kLong) fetch(i);
    Pack<Element, kVec> y;
    COGRAD_UNROLL
    for (int j = 0; j < kVec; ++j) y.v[j] = Element(f(place + j, i + j));
    *reinterpret_cast<Pack<Element, kVec>*>(out + i) = y;
  });
}

// Calls f(row, its length) for each row of this group; rows past the end have length 0.
template <class F>
inline void each_row(int64_t rows, int64_t n, F&& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kRowsPerBlock;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock; first < rows;
       first += step) {
    const int64_t row = first + threadIdx.x / kGroup;
    f(row < rows ? row : 0, row < rows ? n : 0);
  }
}

}  // namespace cograd::device
