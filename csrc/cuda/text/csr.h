// SPDX-License-Identifier: BSD-3-Clause
// Products with a sparse matrix in compressed rows of dtype -DTYPE=, and its transpose. -DINDEX= is
// the type of the pattern. Terms are added in an order that the sizes alone determine. An index
// that is out of range is reported, and its entry left out.
#include "cuda/args/csr_args.h"
#include "late.h"

namespace cograd::device {

using I = INDEX;

// The entries of a pattern.
template <class Args>
struct Entries {
  const Args& a;

  int64_t start(int64_t i) const { return static_cast<const I*>(a.start)[i]; }
  int64_t col(int64_t e) const { return static_cast<const I*>(a.col)[e]; }
  // Sets the first entry of row i and the one behind its last; reports wrong ones.
  void row(int64_t i, int64_t& first, int64_t& last) const {
    first = start(i);
    last = start(i + 1);
    const bool good = first >= 0 && first <= last && last <= a.entries && (i > 0 || first == 0) &&
                      (i + 1 < a.rows || last == a.entries);
    if (good) return;
    report(a.late, kIndexError, a.op, last, a.entries + 1);
    first = last = 0;
  }
  // Sets the column and the place of entry e; false if one is out of range.
  bool read(int64_t e, int64_t& c, int64_t& p) const {
    c = col(e);
    p = a.place != nullptr ? static_cast<int64_t>(static_cast<const I*>(a.place)[e]) : e;
    if (c < 0 || c >= a.cols) {
      report(a.late, kIndexError, a.op, c, a.cols);
      return false;
    }
    if (p < 0 || p >= a.entries) {
      report(a.late, kIndexError, a.op, p, a.entries);
      return false;
    }
    return true;
  }
};

#if defined(TYPE)
using T = TYPE;

inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return fma(a, b, c); }
inline int64_t warp_index() { return grid_index() / 32; }
inline int64_t warps() { return grid_size() / 32; }

// A warp has a row and `lanes` columns: 32 / lanes entries at a time, whose sums it adds last.
COGRAD_BLOCK_KERNEL(csr_product, CsrArgs, 256) {
  const Entries<CsrArgs> entries{a};
  const T *const values = static_cast<const T*>(a.left), *const x = static_cast<const T*>(a.x);
  T* const out = static_cast<T*>(a.out);
  const int64_t tiles = (a.k + a.lanes - 1) / a.lanes;
  const int column = lane() % a.lanes, first_entry = lane() / a.lanes, step = 32 / a.lanes;
  for (int64_t w = warp_index(); w < a.rows * tiles; w += warps()) {
    const int64_t i = w / tiles, j = w % tiles * a.lanes + column;
    int64_t first, last, c, p;
    entries.row(i, first, last);
    T sum = 0;
    for (int64_t e = first + first_entry; e < last; e += step)
      if (entries.read(e, c, p) && j < a.k) sum = fused(values[p], x[c * a.k + j], sum);
    for (int m = 16; m >= a.lanes; m /= 2) sum += shuffle_xor(sum, m);
    if (first_entry == 0 && j < a.k) out[i * a.k + j] = sum;
  }
}

// A warp has a row: 32 / lanes entries at a time, whose products `lanes` lanes add.
COGRAD_BLOCK_KERNEL(csr_sampled, CsrArgs, 256) {
  const Entries<CsrArgs> entries{a};
  const T *const y = static_cast<const T*>(a.left), *const x = static_cast<const T*>(a.x);
  T* const out = static_cast<T*>(a.out);
  const int part = lane() % a.lanes, which = lane() / a.lanes, step = 32 / a.lanes;
  for (int64_t i = warp_index(); i < a.rows; i += warps()) {
    int64_t first, last;
    entries.row(i, first, last);
    for (int64_t base = first; base < last; base += step) {
      const int64_t e = base + which;
      int64_t c = 0, p = 0;
      const bool good = e < last && entries.read(e, c, p);
      const bool writes = e < last && p >= 0 && p < a.entries;  // 0 where the column is wrong
      T sum = 0;
      for (int64_t j = part; good && j < a.k; j += a.lanes)
        sum = fused(y[i * a.k + j], x[c * a.k + j], sum);
      for (int m = a.lanes / 2; m > 0; m /= 2) sum += shuffle_xor(sum, m);
      if (writes && part == 0) out[p] = sum;
    }
  }
}
#endif

COGRAD_KERNEL(csr_check_rows, CsrTransposeArgs, 256) {
  const Entries<CsrTransposeArgs> entries{a};
  int64_t first, last;
  for (int64_t i = grid_index(); i < a.rows; i += grid_size()) entries.row(i, first, last);
  if (a.rows == 0 && a.entries != 0 && grid_index() == 0)
    report(a.late, kIndexError, a.op, a.entries, 1);
}

// A thread has a column, among the entries sorted by column. Row c of the transpose starts at the
// first position whose column is not smaller.
COGRAD_KERNEL(csr_starts, CsrTransposeArgs, 256) {
  const Entries<CsrTransposeArgs> entries{a};
  for (int64_t c = grid_index(); c <= a.cols; c += grid_size()) {
    // Entries whose column is out of range belong to the first row or to the last.
    int64_t low = c < a.cols ? 0 : a.entries, high = c > 0 ? a.entries : 0;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (entries.col(a.order[middle]) < c)
        low = middle + 1;
      else
        high = middle;
    }
    static_cast<I*>(a.starts)[c] = static_cast<I>(low);
  }
}

// A thread has a position among the entries sorted by column.
COGRAD_KERNEL(csr_turn, CsrTransposeArgs, 256) {
  const Entries<CsrTransposeArgs> entries{a};
  for (int64_t at = grid_index(); at < a.entries; at += grid_size()) {
    const int64_t e = a.order[at];
    int64_t c, p;
    if (!entries.read(e, c, p)) p = 0;
    int64_t low = 0, high = a.rows - 1;  // the last row that starts at e or before
    while (low < high) {
      const int64_t middle = (low + high + 1) / 2;
      if (entries.start(middle) <= e)
        low = middle;
      else
        high = middle - 1;
    }
    static_cast<I*>(a.turned)[at] = static_cast<I>(low);
    static_cast<I*>(a.places)[at] = static_cast<I>(p);
  }
}

}  // namespace cograd::device
