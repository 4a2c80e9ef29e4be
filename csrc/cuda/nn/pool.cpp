// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/nn/pool.h.
#include "kernels/nn/pool.h"

#include "cuda/args/nn_args.h"
#include "cuda/driver/gpu.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "tensor/slot.h"

namespace cograd::cuda {

using device::kNnThreads;
using device::PoolDim;
using kernels::PoolWindows;

namespace {

// True if the windows are those of `d` (text/nn.h).
bool fits(const PoolDim& d, const std::vector<int64_t>& start, const std::vector<int64_t>& end) {
  for (int64_t i = 0; i < d.out; ++i) {
    int64_t lo, hi;
    if (d.stride == 0) {
      lo = i * d.in / d.out;
      hi = ceil_div((i + 1) * d.in, d.out);
    } else {
      lo = d.first + i * d.stride;
      hi = std::min<int64_t>(lo + (d.taps - 1) * d.dilation + 1, d.in);
      if (lo < 0) lo += ceil_div(-lo, d.dilation) * d.dilation;
    }
    const int64_t s = start[static_cast<size_t>(i)], e = end[static_cast<size_t>(i)];
    // The positions between the last element and the end do not matter.
    if (s != lo || ceil_div(e - s, d.dilation) != ceil_div(hi - lo, d.dilation)) return false;
  }
  return true;
}

// Finds a formula for the windows of a dim; raises NoKernel for random ones.
PoolDim formula_of(const PoolWindows& w, int k) {
  const std::vector<int64_t>&start = w.start[k], &end = w.end[k];
  PoolDim d{w.in[k], w.out[k], 0, 0, w.dilation[k], 1};
  if (d.out == 0 || (d.dilation == 1 && fits(d, start, end))) return d;
  // The last window that begins inside tells the stride, the longest one the taps.
  const auto last = static_cast<size_t>(d.out - 1);
  for (size_t i = 0; i <= last; ++i)
    d.taps = std::max<long long>(d.taps, ceil_div(end[i] - start[i], d.dilation));
  const int64_t longest = d.taps;
  for (const int64_t clipped : {int64_t{0}, int64_t{1}, int64_t{2}}) {
    if (d.out == 1) {
      d.first = start[0];
      d.stride = 1;
    } else {
      d.stride = start[last] - start[last - 1];
      d.first = start[last] - static_cast<int64_t>(last) * d.stride;
    }
    d.taps = longest + clipped;
    if (d.stride > 0 && fits(d, start, end)) return d;
  }
  detail::fail_no_kernel("max_pool");
}

void zero(void* at, size_t bytes) { set_bytes(at, 0, static_cast<int64_t>(bytes)); }
device::PlacesArgs args_of(int64_t planes, int64_t n, int64_t size, const void* from,
                           const int64_t* index, void* to, const Scratch& bad) {
  device::PlacesArgs a{};
  a.from = from;
  a.index = reinterpret_cast<const long long*>(index);
  a.to = to;
  a.bad = static_cast<unsigned*>(bad.data());
  a.planes = planes;
  a.n = n;
  a.size = size;
  return a;
}

}  // namespace

void max_pool(DType t, const PoolWindows& w, int64_t planes, const void* x, void* y,
              int64_t* index) {
  device::PoolArgs a{};
  a.x = x;
  a.y = y;
  a.index = reinterpret_cast<long long*>(index);
  a.planes = planes;
  for (int k = 0; k < 3; ++k) a.dims[k] = formula_of(w, k);
  const int64_t n = planes * w.out_size();
  if (n == 0) return;
  launch("max_pool", function_of("nn.h", "max_pool", t),
         grid_of(ceil_div(n, kNnThreads), kNnThreads), a);
}

void max_pool_each(DType t, const PoolWindows* w, int64_t planes, const void* x, void* y,
                   int64_t* index) {
  if (planes == 0 || w->out_size() == 0) return;
  std::vector<int64_t> table;
  for (int64_t p = 0; p < planes; ++p)
    for (int k = 0; k < 3; ++k)
      for (const auto* ends : {&w[p].start[k], &w[p].end[k]})
        table.insert(table.end(), ends->begin(), ends->end());
  const OnDevice windows(table.data(), table.size() * sizeof(int64_t));
  device::PoolArgs a{};
  a.x = x;
  a.y = y;
  a.index = reinterpret_cast<long long*>(index);
  a.planes = planes;
  a.table = static_cast<const long long*>(windows.get());
  for (int k = 0; k < 3; ++k) a.dims[k] = {w->in[k], w->out[k], 0, 0, w->dilation[k], 1};
  launch("max_pool", function_of("nn.h", "max_pool", t),
         grid_of(ceil_div(planes * w->out_size(), kNnThreads), kNnThreads), a);
}

bool pool_scatter(DType t, int64_t planes, int64_t n, int64_t size, const void* g,
                  const int64_t* index, bool add, void* y) {
  if (planes * size == 0) return n == 0 || planes == 0;
  const Scratch word(sizeof(unsigned)), head(planes * size * 8), next(planes * n * 8);
  zero(word.data(), sizeof(unsigned));
  zero(head.data(), static_cast<size_t>(planes * size) * 8);
  device::PlacesArgs a = args_of(planes, n, size, g, index, y, word);
  a.head = static_cast<unsigned long long*>(head.data());
  a.next = static_cast<unsigned long long*>(next.data());
  a.add = add ? 1 : 0;
  if (n != 0)
    launch("pool_scatter", function_of("nn.h", "pool_link", t),
           grid_of(ceil_div(planes * n, kNnThreads), kNnThreads), a);
  launch("pool_scatter", function_of("nn.h", "pool_scatter", t),
         grid_of(ceil_div(planes * size, kNnThreads), kNnThreads), a);
  return read_back<unsigned>(word.data()) == 0;
}

bool pool_gather(DType t, int64_t planes, int64_t n, int64_t size, const void* x,
                 const int64_t* index, void* y) {
  if (planes * n == 0) return true;
  const Scratch word(sizeof(unsigned));
  zero(word.data(), sizeof(unsigned));
  launch("pool_gather", function_of("nn.h", "pool_gather", t),
         grid_of(ceil_div(planes * n, kNnThreads), kNnThreads),
         args_of(planes, n, size, x, index, y, word));
  return read_back<unsigned>(word.data()) == 0;
}

COGRAD_CUDA_SLOT(max_pool)
COGRAD_CUDA_SLOT(max_pool_each)
COGRAD_CUDA_SLOT(pool_scatter)
COGRAD_CUDA_SLOT(pool_gather)

}  // namespace cograd::cuda
