// SPDX-License-Identifier: BSD-3-Clause
// Whole rows by index: select, add, copy, fill, embedding; and flat take and put.
#include <numeric>
#include <type_traits>

#include "kernels/core/floating.h"
#include "kernels/core/isa.h"
#include "kernels/index/index_impl.h"
#include "kernels/index/index_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(IndexLoops, index_loops)

namespace {

constexpr int64_t kFewTiles = 16;  // with fewer tiles than this, tiles are cut in four
constexpr int64_t kTile = 1024;    // elements of a row that a task owns if rows may repeat

char* bytes(const void* p) { return static_cast<char*>(const_cast<void*>(p)); }

// Copies one row; common widths avoid the call of memcpy.
void copy_row(char* to, const char* from, int64_t n) {
  switch (n) {
    case 1:
      *to = *from;
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      std::memcpy(to, from, static_cast<size_t>(n));
  }
}

int64_t wrap(int64_t i, int64_t size) { return i < 0 ? i + size : i; }

// Calls f(k, index[k]) for every index that still is what was checked. All arguments are passed by
// value, so that what f writes cannot change them.
template <IndexSign kSign = IndexSign::NonNegative, class F>
void each_row(const int64_t* index, int64_t m, int64_t n, F f) {
  for (int64_t k = 0; k < m; ++k) {
    int64_t row = load_index(index + k);
    if (!within(row, n)) [[unlikely]] {
      if (kSign == IndexSign::Wrap) row = wrap(row, n);
      if (!within(row, n)) continue;
    }
    f(k, row);
  }
}

// Runs f(outer index, first element, count) over the tiles of outer x inner, for all indices in
// order.
template <class F>
void for_tiles(int64_t outer, int64_t inner, int64_t rows, const F& f) {
  // Whatever the tiles, an element's terms are added in the order of the indices.
  const int64_t tile = outer * (inner / kTile) < kFewTiles ? kTile / 4 : kTile;
  const int64_t tiles = (inner + tile - 1) / tile;
  const int64_t grain = std::max<int64_t>(1, kIndexGrain / (rows * std::min(inner, tile) + 1));
  parallel_for(0, outer * tiles, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t o = lo / tiles, j = (lo - o * tiles) * tile;
      f(o, j, std::min(tile, inner - j));
    }
  });
}

template <class T>
void add_row(T* to, const T* from, int64_t n, double alpha) {
  if constexpr (std::is_same_v<T, bool>) {
    for (int64_t i = 0; i < n; ++i) to[i] = to[i] || (from[i] && alpha != 0);
  } else if constexpr (std::is_integral_v<T>) {
    const auto k = static_cast<uint64_t>(static_cast<int64_t>(alpha));
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<T>(static_cast<uint64_t>(to[i]) + k * static_cast<uint64_t>(from[i]));
    }
  } else if constexpr (std::is_same_v<T, float>) {
    index_loops().add_float(to, from, n, static_cast<float>(alpha));
  } else if constexpr (std::is_same_v<T, double>) {
    index_loops().add_double(to, from, n, alpha);
  }
}

// Adds 16-bit types in float: widens a tile of self, then writes it back once.
template <class T>
void add_rows_half(T* self, int64_t n, int64_t inner, const int64_t* index, int64_t m, const T* src,
                   float alpha, int64_t width) {
  std::vector<float> wide(static_cast<size_t>(n * width));
  std::vector<char> touched(static_cast<size_t>(n), 0);
  for (int64_t k = 0; k < m; ++k) {
    const int64_t row = load_index(index + k);
    if (!within(row, n)) continue;
    float* to = wide.data() + row * width;
    if (!touched[static_cast<size_t>(row)]) {
      touched[static_cast<size_t>(row)] = 1;
      for (int64_t i = 0; i < width; ++i) to[i] = self[row * inner + i];
    }
    const T* from = src + k * inner;
    for (int64_t i = 0; i < width; ++i) to[i] += alpha * static_cast<float>(from[i]);
  }
  for (int64_t r = 0; r < n; ++r) {
    if (!touched[static_cast<size_t>(r)]) continue;
    for (int64_t i = 0; i < width; ++i) {
      self[r * inner + i] = T(wide[static_cast<size_t>(r * width + i)]);
    }
  }
}

}  // namespace

void check_index(const int64_t* index, int64_t n, int64_t size, int64_t dim, IndexSign sign,
                 ErrorKind kind) {
  const int64_t low = sign == IndexSign::Wrap ? -size : 0;
  const auto* p = reinterpret_cast<const char*>(index);
  if (index_loops().in_range(p, sizeof(int64_t), n, low, size)) return;
  for (int64_t i = 0; i < n; ++i) {
    if (index[i] < low || index[i] >= size) raise_bounds(kind, index[i], dim, size);
  }
}

bool all_within(const int64_t* index, int64_t n, int64_t size, int64_t* bad) {
  COGRAD_SLOT_OR(true, all_within, index, n, size, bad);
  const auto* p = reinterpret_cast<const char*>(index);
  if (index_loops().in_range(p, sizeof(int64_t), n, 0, size)) return true;
  for (int64_t i = 0; i < n; ++i) {
    *bad = load_index(index + i);
    if (!within(*bad, size)) return false;
  }
  return true;
}

int64_t largest_index(const int64_t* index, int64_t n) {
  COGRAD_SLOT_READS(largest_index, index, n);
  int64_t top = -1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = load_index(index + i);
    if (at < 0) return INT64_MIN;
    top = std::max(top, at);
  }
  return top;
}

namespace {

// Computes out[o, k] = src[o, index[k]]. Nobody else can see `out` yet, so indices are checked
// where they are used. fail(i) raises for an index out of range.
template <class F>
void select_rows(const char* src, int64_t outer, int64_t n, int64_t row_bytes, const int64_t* index,
                 int64_t m, char* out, const F& fail) {
  const IndexLoops& loops = index_loops();
  const int64_t work = outer * m * (row_bytes + static_cast<int64_t>(sizeof(int64_t)));
  HeavyScope heavy(work / 4);
  const int64_t grain = std::max<int64_t>(1, kIndexGrain * 4 / (row_bytes + 8));
  parallel_for(0, outer * m, grain, [&](int64_t lo, int64_t hi) {
    while (lo < hi) {
      const int64_t o = lo / m, k = lo - o * m, count = std::min(hi - lo, m - k);
      int64_t bad = 0;
      const int64_t copied = loops.copy_rows(out + lo * row_bytes, src + o * n * row_bytes,
                                             index + k, count, n, row_bytes, &bad);
      if (copied < count) fail(bad);
      lo += count;
    }
  });
}

}  // namespace

void index_select(const void* src, int64_t outer, int64_t n, int64_t inner_bytes,
                  const int64_t* index, int64_t m, void* out, int64_t dim) {
  COGRAD_SLOT(index_select, src, outer, n, inner_bytes, index, m, out, dim);
  if (outer == 0) return check_index(index, m, n, dim, IndexSign::NonNegative);
  select_rows(bytes(src), outer, n, inner_bytes, index, m, bytes(out),
              [&](int64_t i) { raise_bounds(ErrorKind::Index, i, dim, n); });
}

void index_add(DType t, void* self, int64_t outer, int64_t n, int64_t inner, const int64_t* index,
               int64_t m, const void* src, double alpha, int64_t dim) {
  COGRAD_SLOT(index_add, t, self, outer, n, inner, index, m, src, alpha, dim);
  if (is_complex(t))  // alpha is real, so the parts can be added separately
    return index_add(real_dtype(t), self, outer, n, 2 * inner, index, m, src, alpha, dim);
  check_index(index, m, n, dim, IndexSign::NonNegative, ErrorKind::Runtime);
  HeavyScope heavy(outer * m * inner);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_tiles(outer, inner, m, [&](int64_t o, int64_t j, int64_t width) {
      T* to = static_cast<T*>(self) + o * n * inner + j;
      const T* from = static_cast<const T*>(src) + o * m * inner + j;
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
        add_rows_half(to, n, inner, index, m, from, static_cast<float>(alpha), width);
      } else {
        each_row(index, m, n, [=](int64_t k, int64_t row) {
          add_row(to + row * inner, from + k * inner, width, alpha);
        });
      }
    });
  });
}

void index_copy(void* self, int64_t outer, int64_t n, int64_t inner_bytes, const int64_t* index,
                int64_t m, const void* src, int64_t dim) {
  COGRAD_SLOT(index_copy, self, outer, n, inner_bytes, index, m, src, dim);
  check_index(index, m, n, dim, IndexSign::NonNegative);
  HeavyScope heavy(outer * m * inner_bytes / 4);
  for_tiles(outer, inner_bytes, m, [&](int64_t o, int64_t j, int64_t width) {
    char* to = bytes(self) + o * n * inner_bytes + j;
    const char* from = bytes(src) + o * m * inner_bytes + j;
    each_row(index, m, n, [=](int64_t k, int64_t row) {
      copy_row(to + row * inner_bytes, from + k * inner_bytes, width);
    });
  });
}

void index_fill(int64_t itemsize, void* self, int64_t outer, int64_t n, int64_t inner,
                const int64_t* index, int64_t m, const void* value, int64_t dim) {
  COGRAD_SLOT(index_fill, itemsize, self, outer, n, inner, index, m, value, dim);
  check_index(index, m, n, dim, IndexSign::Wrap);
  HeavyScope heavy(outer * m * inner);
  by_width(itemsize, [&](auto tag) {
    using U = typename decltype(tag)::type;
    const U v = read<U>(bytes(value));
    for_tiles(outer, inner, m, [&](int64_t o, int64_t j, int64_t width) {
      U* to = static_cast<U*>(self) + o * n * inner + j;
      each_row<IndexSign::Wrap>(
          index, m, n, [=](int64_t, int64_t row) { std::fill_n(to + row * inner, width, v); });
    });
  });
}

namespace {

[[noreturn]] void raise_flat(int64_t index, int64_t numel) {
  detail::fail(ErrorKind::Index, "out of range: tried to access index ", index, " on a tensor of ",
               numel, " elements.");
}

void check_flat(const int64_t* index, int64_t m, int64_t numel) {
  if (index_loops().in_range(bytes(index), sizeof(int64_t), m, -numel, numel)) return;
  for (int64_t i = 0; i < m; ++i) {
    const int64_t given = load_index(index + i);
    if (!within(wrap(given, numel), numel)) raise_flat(given, numel);
  }
}

template <class U>
void take_range(const U* self, int64_t numel, const int64_t* index, U* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t given = load_index(index + i), at = wrap(given, numel);
    if (!within(at, numel)) [[unlikely]]
      raise_flat(given, numel);
    out[i] = self[at];
  }
}

template <class T, class F>
void put_each(T* self, int64_t numel, const int64_t* index, int64_t m, const T* src, F f) {
  each_row<IndexSign::Wrap>(index, m, numel,
                            [=](int64_t k, int64_t at) { self[at] = f(self[at], src[k]); });
}

}  // namespace

// Nobody else can see `out` yet, so no separate pass checks the indices first.
void take(int64_t itemsize, const void* self, int64_t self_numel, const int64_t* index, int64_t m,
          void* out) {
  COGRAD_SLOT(take, itemsize, self, self_numel, index, m, out);
  HeavyScope heavy(m);
  by_width(itemsize, [&](auto tag) {
    using U = typename decltype(tag)::type;
    parallel_for(0, m, kIndexGrain, [&](int64_t lo, int64_t hi) {
      take_range(static_cast<const U*>(self), self_numel, index + lo, static_cast<U*>(out) + lo,
                 hi - lo);
    });
  });
}

void put(DType t, void* self, int64_t self_numel, const int64_t* index, int64_t m, const void* src,
         bool accumulate) {
  COGRAD_SLOT(put, t, self, self_numel, index, m, src, accumulate);
  check_flat(index, m, self_numel);
  HeavyScope heavy(m);
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* p = static_cast<T*>(self);
    const T* q = static_cast<const T*>(src);
    if (accumulate)
      put_each(p, self_numel, index, m, q, [](T a, T b) { return add_to(a, b); });
    else
      put_each(p, self_numel, index, m, q, [](T, T b) { return b; });
  });
}

void embedding(const void* weight, int64_t rows, int64_t row_bytes, const int64_t* index,
               int64_t count, void* out) {
  COGRAD_SLOT(embedding, weight, rows, row_bytes, index, count, out);
  select_rows(bytes(weight), 1, rows, row_bytes, index, count, bytes(out), [&](int64_t i) {
    detail::fail(ErrorKind::Index, "index out of range in self: embedding() got ", i, " for ", rows,
                 " rows");
  });
}

namespace {

// Returns a copy of the indices, which other threads cannot write: they are read more than once.
std::vector<int64_t> checked_copy(const int64_t* index, int64_t count, int64_t rows) {
  std::vector<int64_t> at(index, index + count);
  check_index(at.data(), count, rows, 0, IndexSign::NonNegative);
  return at;
}

// Each task owns a range of rows and reads all indices, so sums are in index order.
template <class T, class A>
void embedding_rows(const T* grad, const std::vector<int64_t>& index, int64_t n, int64_t rows,
                    int64_t padding_idx, bool by_freq, A* out) {
  // `order` lists the occurrences of each row, ascending.
  std::vector<int64_t> start(static_cast<size_t>(rows) + 1, 0);
  for (const int64_t row : index) ++start[static_cast<size_t>(row) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  std::vector<int64_t> order(index.size());
  std::vector<int64_t> next(start.begin(), start.end() - 1);
  for (size_t i = 0; i < index.size(); ++i) {
    order[static_cast<size_t>(next[static_cast<size_t>(index[i])]++)] = static_cast<int64_t>(i);
  }
  const int64_t grain = std::max<int64_t>(1, kIndexGrain / std::max<int64_t>(n, 1));
  parallel_for(0, rows, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      if (lo == padding_idx) continue;
      const auto r = static_cast<size_t>(lo);
      A* to = out + lo * n;
      const A scale = by_freq ? A(1) / static_cast<A>(start[r + 1] - start[r]) : A(1);
      for (int64_t k = start[r]; k < start[r + 1]; ++k) {
        const T* from = grad + order[static_cast<size_t>(k)] * n;
        for (int64_t j = 0; j < n; ++j) to[j] += scale * static_cast<A>(from[j]);
      }
    }
  });
}

}  // namespace

void embedding_backward(DType t, const void* grad, const int64_t* index, int64_t count, int64_t n,
                        int64_t rows, int64_t padding_idx, bool scale_by_freq, void* gweight) {
  COGRAD_SLOT(embedding_backward, t, grad, index, count, n, rows, padding_idx, scale_by_freq,
              gweight);
  if (is_complex(t))
    return embedding_backward(real_dtype(t), grad, index, count, 2 * n, rows, padding_idx,
                              scale_by_freq, gweight);
  const std::vector<int64_t> at = checked_copy(index, count, rows);
  HeavyScope heavy(count * n + rows * n);
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = static_cast<T*>(gweight);
    if constexpr (std::is_floating_point_v<T>) {
      std::fill_n(out, rows * n, T(0));
      embedding_rows<T, T>(static_cast<const T*>(grad), at, n, rows, padding_idx, scale_by_freq,
                           out);
    } else {
      std::vector<float> wide(static_cast<size_t>(rows * n), 0.0f);
      embedding_rows<T, float>(static_cast<const T*>(grad), at, n, rows, padding_idx, scale_by_freq,
                               wide.data());
      for (int64_t i = 0; i < rows * n; ++i) out[i] = T(wide[static_cast<size_t>(i)]);
    }
  };
  dispatch_floating(t, run);
}

void one_hot(const int64_t* index, int64_t count, int64_t classes, int64_t* out) {
  COGRAD_SLOT(one_hot, index, count, classes, out);
  for (int64_t i = 0; i < count; ++i) {
    COGRAD_CHECK(index[i] >= 0, "one_hot(): class values must be non-negative, got ", index[i]);
    COGRAD_CHECK(index[i] < classes,
                 "one_hot(): class values must be smaller than num_classes, got ", index[i],
                 " with num_classes ", classes);
  }
  std::fill_n(out, count * classes, int64_t{0});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = load_index(index + i);
    if (within(at, classes)) out[i * classes + at] = 1;
  }
}

}  // namespace cograd::kernels
