// SPDX-License-Identifier: BSD-3-Clause
// Divides pooling among threads by planes; pool_loops.cpp computes the maxima.
#include "kernels/nn/pool.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/core/isa.h"
#include "kernels/index/index_impl.h"
#include "kernels/nn/pool_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(PoolLoops, pool_loops)

namespace {

constexpr int64_t kGrain = 1 << 14;  // elements per task

template <class F>
void each_plane(int64_t planes, int64_t work, F&& f) {
  HeavyScope heavy(planes * work);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work));
  parallel_for(0, planes, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) f(lo);
  });
}

}  // namespace

void max_pool(DType t, const PoolWindows& w, int64_t planes, const void* x, void* y,
              int64_t* index) {
  COGRAD_SLOT(max_pool, t, w, planes, x, y, index);
  const PoolLoops loops = pool_loops();
  const int64_t in = w.in_size(), out = w.out_size(), item = dtype_size(t);
  each_plane(planes, std::max(in, out), [&](int64_t p) {
    loops.plane(t, w, static_cast<const char*>(x) + p * in * item,
                static_cast<char*>(y) + p * out * item, index + p * out);
  });
}

void max_pool_each(DType t, const PoolWindows* w, int64_t planes, const void* x, void* y,
                   int64_t* index) {
  COGRAD_SLOT(max_pool_each, t, w, planes, x, y, index);
  if (planes == 0) return;
  const PoolLoops loops = pool_loops();
  const int64_t in = w->in_size(), out = w->out_size(), item = dtype_size(t);
  each_plane(planes, std::max(in, out), [&](int64_t p) {
    loops.plane(t, w[p], static_cast<const char*>(x) + p * in * item,
                static_cast<char*>(y) + p * out * item, index + p * out);
  });
}

bool pool_scatter(DType t, int64_t planes, int64_t n, int64_t size, const void* g,
                  const int64_t* index, bool add, void* y) {
  COGRAD_SLOT_OR(true, pool_scatter, t, planes, n, size, g, index, add, y);
  std::atomic<bool> fits = true;
  dispatch_real(t, [&]<class T>(TypeTag<T>) {
    each_plane(planes, std::max(n, size), [&](int64_t p) {
      T* to = static_cast<T*>(y) + p * size;
      const T* from = static_cast<const T*>(g) + p * n;
      const int64_t* at = index + p * n;
      std::memset(static_cast<void*>(to), 0, static_cast<size_t>(size) * sizeof(T));
      bool inside = true;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = load_index(at + i);
        if (!within(k, size)) {
          inside = false;
          continue;
        }
        to[k] = add ? add_to(to[k], from[i]) : from[i];
      }
      if (!inside) fits = false;
    });
  });
  return fits;
}

bool pool_gather(DType t, int64_t planes, int64_t n, int64_t size, const void* x,
                 const int64_t* index, void* y) {
  COGRAD_SLOT_OR(true, pool_gather, t, planes, n, size, x, index, y);
  std::atomic<bool> fits = true;
  dispatch_real(t, [&]<class T>(TypeTag<T>) {
    each_plane(planes, n, [&](int64_t p) {
      const T* from = static_cast<const T*>(x) + p * size;
      T* to = static_cast<T*>(y) + p * n;
      const int64_t* at = index + p * n;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = load_index(at + i);
        const bool inside = within(k, size);
        if (!inside) fits = false;
        to[i] = inside ? from[k] : T();
      }
    });
  });
  return fits;
}

}  // namespace cograd::kernels
