// SPDX-License-Identifier: BSD-3-Clause
// From a position of an index space to addresses, and the keys of entries.
#pragma once
#include "cuda/args/index_args.h"
#include "late.h"
#include "prelude.h"

namespace cograd::device {

struct IndexPlace {
  int64_t self, other, key, entry;
  bool ok;  // false if an index is out of bounds
};

template <class Number>
inline void add_dims(const IndexDim* dims, int ndim, Number i, IndexPlace& p, int64_t* index) {
  for (int d = ndim - 1; d >= 0; --d) {
    const IndexDim& dim = dims[d];
    Number r = i;
    if (d > 0) {
      const Number size = static_cast<Number>(dim.size);
      r = i % size;
      i /= size;
    }
    p.self += static_cast<int64_t>(r) * dim.self;
    p.other += static_cast<int64_t>(r) * dim.other;
    p.key += static_cast<int64_t>(r) * dim.key;
    p.entry += static_cast<int64_t>(r) * dim.entry;
    COGRAD_UNROLL
    for (int k = 0; k < TENSORS; ++k) index[k] += static_cast<int64_t>(r) * dim.index[k];
  }
}
// 64-bit division is slow.
inline void add_position(const IndexDim* dims, int ndim, int64_t n, int64_t i, IndexPlace& p,
                         int64_t* index) {
  if (n <= 0xFFFFFFFFll)
    add_dims(dims, ndim, static_cast<uint32_t>(i), p, index);
  else
    add_dims(dims, ndim, static_cast<uint64_t>(i), p, index);
}

inline IndexPlace place_of(const IndexArgs& a, int64_t i) {
  IndexPlace p{0, 0, 0, 0, true};
  int64_t index[TENSORS] = {};
  add_position(a.dims, a.ndim, a.n, i, p, index);
  COGRAD_UNROLL
  for (int k = 0; k < TENSORS; ++k) {
    const IndexTensor& t = a.tensors[k];
    int64_t v = *reinterpret_cast<const int64_t*>(static_cast<const char*>(t.data) + index[k]);
    if (a.wrap && v < 0) v += t.size;
    if (static_cast<uint64_t>(v) >= static_cast<uint64_t>(t.size)) {
      report(a.late, a.code, a.op, v, t.size);
      p.ok = false;
      v = 0;
    }
    p.self += v * t.stride;
    p.key += v * t.key;
  }
  return p;
}

}  // namespace cograd::device
