// SPDX-License-Identifier: BSD-3-Clause
// Pooling, dropout, LSTM cells and shares of ties: a thread per output. The bound is the memory's
// bandwidth, for pooling that of the cache.
#pragma once
#include "cuda/args/nn_args.h"
#include "cuda/text/functions.h"

namespace cograd::device {

using Element = COGRAD_T;
using Computed = compute_t<Element>;

inline const Element* elements(const void* p) { return static_cast<const Element*>(p); }
inline Element* elements(void* p) { return static_cast<Element*>(p); }

template <class T>
struct PartOf {
  using type = T;
};
template <class T>
struct PartOf<Complex<T>> {
  using type = T;
};
COGRAD_KERNEL(masked_scale, ScaleArgs, kNnThreads) {
  using Part = typename PartOf<Computed>::type;
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const Part factor = static_cast<Part>(a.keep[i] != 0) * static_cast<Part>(a.scale);
    store(elements(a.out), i, load(elements(a.x), i) * factor);
  }
}

#if !defined(COGRAD_COMPLEX)

struct Window {
  int64_t lo, hi, step;
};
inline Window window_of(const PoolDim& d, int64_t i) {
  if (d.stride == 0) return {i * d.in / d.out, ((i + 1) * d.in + d.out - 1) / d.out, 1};
  int64_t lo = d.first + i * d.stride;
  const int64_t end = lo + (d.taps - 1) * d.dilation + 1;
  if (lo < 0) lo += (-lo + d.dilation - 1) / d.dilation * d.dilation;
  return {lo, end < d.in ? end : d.in, d.dilation};
}
// The window of output i of dim d in a plane.
inline Window window_in(const PoolArgs& a, int64_t plane, int d, int64_t i) {
  if (a.table == nullptr) return window_of(a.dims[d], i);
  const int64_t all = a.dims[0].out + a.dims[1].out + a.dims[2].out;
  const long long* starts = a.table + plane * 2 * all;
  for (int k = 0; k < d; ++k) starts += 2 * a.dims[k].out;
  return {starts[i], starts[a.dims[d].out + i], a.dims[d].dilation};
}
COGRAD_KERNEL(max_pool, PoolArgs, kNnThreads) {
  const int64_t lines = a.dims[0].out * a.dims[1].out, size = lines * a.dims[2].out;
  const int64_t in = a.dims[0].in * a.dims[1].in * a.dims[2].in;
  for (int64_t at = grid_index(); at < a.planes * size; at += grid_size()) {
    const int64_t line = at / a.dims[2].out, plane = line / lines, in_plane = line - plane * lines;
    const int64_t row = in_plane / a.dims[1].out;
    const Window z = window_in(a, plane, 0, row);
    const Window v = window_in(a, plane, 1, in_plane - row * a.dims[1].out);
    const Window u = window_in(a, plane, 2, at - line * a.dims[2].out);
    const Element* x = elements(a.x) + plane * in;
    // If a window holds only -inf, its first element is the maximum.
    int64_t place = (z.lo * a.dims[1].in + v.lo) * a.dims[2].in + u.lo;
    Computed best = load(x, place);
    for (int64_t k = z.lo; k < z.hi; k += z.step)
      for (int64_t j = v.lo; j < v.hi; j += v.step)
        for (int64_t i = u.lo; i < u.hi; i += u.step) {
          const int64_t from = (k * a.dims[1].in + j) * a.dims[2].in + i;
          const Computed value = load(x, from);
          if (value > best || value != value) {  // NaN wins
            best = value;
            place = from;
          }
        }
    store(elements(a.y), at, best);
    a.index[at] = place;
  }
}

COGRAD_KERNEL(pool_gather, PlacesArgs, kNnThreads) {
  for (int64_t i = grid_index(); i < a.planes * a.n; i += grid_size()) {
    const int64_t plane = i / a.n, k = a.index[i];
    const bool inside = k >= 0 && k < a.size;
    if (!inside) *static_cast<volatile unsigned*>(a.bad) = 1;
    elements(a.to)[i] = inside ? elements(a.from)[plane * a.size + k] : Element(0);
  }
}

// Links the elements of each place. The links come in any order; pool_scatter sorts them.
COGRAD_KERNEL(pool_link, PlacesArgs, kNnThreads) {
  for (int64_t i = grid_index(); i < a.planes * a.n; i += grid_size()) {
    const int64_t plane = i / a.n, k = a.index[i];
    if (k < 0 || k >= a.size)
      *static_cast<volatile unsigned*>(a.bad) = 1;
    else
      a.next[i] = atomicExch(a.head + plane * a.size + k, static_cast<unsigned long long>(i) + 1);
  }
}
// Adds the elements of each place in their order; without `add` it takes the last one. A place has
// as many elements as windows overlap there, so looking for the next one by comparison is cheap.
COGRAD_KERNEL(pool_scatter, PlacesArgs, kNnThreads) {
  for (int64_t k = grid_index(); k < a.planes * a.size; k += grid_size()) {
    Element sum = Element(0);
    for (unsigned long long done = 0;;) {
      unsigned long long next = 0;  // the first one after `done`; without `add` the last one
      for (unsigned long long i = a.head[k]; i != 0; i = a.next[i - 1])
        if (i > done && (next == 0 || (a.add ? i < next : i > next))) next = i;
      if (next == 0) break;
      const Computed v = load(elements(a.from), static_cast<int64_t>(next) - 1);
      sum = a.add ? Element(static_cast<Computed>(widen(sum) + v)) : Element(v);
      done = next;
    }
    elements(a.to)[k] = sum;
  }
}

#if defined(COGRAD_CELLS)
COGRAD_KERNEL(lstm_cell, CellArgs, kNnThreads) {
  for (int64_t at = grid_index(); at < a.rows * a.hidden; at += grid_size()) {
    const int64_t row = at / a.hidden, n = a.hidden;
    const Element* gates = elements(a.gates) + at + 3 * row * n;
    const Computed i = sigmoid(load(gates)), f = sigmoid(load(gates, n));
    const Computed g = tanh(load(gates, 2 * n));
    store(elements(a.cell), at, f * load(elements(a.c), at) + i * g);
    store(elements(a.o), at, sigmoid(load(gates, 3 * n)));
  }
}
COGRAD_KERNEL(lstm_cell_backward, CellArgs, kNnThreads) {
  for (int64_t at = grid_index(); at < a.rows * a.hidden; at += grid_size()) {
    const int64_t row = at / a.hidden, n = a.hidden, first = at + 3 * row * n;
    const Element* gates = elements(a.gates) + first;
    const Computed i = sigmoid(load(gates)), f = sigmoid(load(gates, n));
    const Computed g = tanh(load(gates, 2 * n)), o = sigmoid(load(gates, 3 * n));
    const Computed d = load(elements(a.g_cell), at), go = load(elements(a.g_o), at);
    Element* out = elements(a.o) + first;
    store(out, 0, d * g * i * (1 - i));
    store(out, n, d * load(elements(a.c), at) * f * (1 - f));
    store(out, 2 * n, d * i * (1 - g * g));
    store(out, 3 * n, go * o * (1 - o));
    store(elements(a.cell), at, d * f);
  }
}

#endif

// The gradient of each element that equals the extreme of its line.
COGRAD_KERNEL(tie_shares, TiesArgs, kNnThreads) {
  for (int64_t i = grid_index(); i < a.outer * a.n * a.inner; i += grid_size()) {
    const int64_t line = i / (a.n * a.inner) * a.inner + i % a.inner;
    const Computed x = load(elements(a.x), i), y = load(elements(a.y), line);
    const bool tie = x == y || (x != x && y != y);
    Computed v = tie ? load(elements(a.g), line) * (1 / static_cast<Computed>(a.counts[line])) : 0;
    if (!a.nan_ties && y != y) v = y;
    store(elements(a.out), i, v);
  }
}
// A block of 256 counts the ties of a line, or 32 by 8 threads those of 32 adjacent ones.
COGRAD_BLOCK_KERNEL(tie_counts, TiesArgs, kNnThreads) {
  COGRAD_SHARED int64_t shared[kNnThreads];
  const int64_t lines = a.outer * a.inner, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int me = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x; first < lines;
       first += step) {
    const int64_t line = first + threadIdx.x;
    int64_t count = 0;
    if (line < lines) {
      const int64_t o = line / a.inner;
      const Element* x = elements(a.x) + o * a.n * a.inner + (line - o * a.inner);
      const Computed y = load(elements(a.y), line);
      for (int64_t i = threadIdx.y; i < a.n; i += blockDim.y) {
        const Computed v = load(x, i * a.inner);
        count += v == y || (v != v && y != y);
      }
    }
    shared[me] = count;
    for (unsigned d = blockDim.y / 2; d > 0; d /= 2) {
      __syncthreads();
      if (threadIdx.y < d) shared[me] += shared[me + d * blockDim.x];
    }
    if (threadIdx.y == 0 && line < lines) a.counts[line] = shared[me];
    __syncthreads();
  }
}

#endif

}  // namespace cograd::device
