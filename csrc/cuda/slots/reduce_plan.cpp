// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/reduce_plan.h"

#include <cstdlib>

#include "cuda/slots/support.h"
#include "tensor/slot.h"

namespace cograd::cuda {

namespace {

using device::kReduceDims;
using device::kReduceThreads;
using device::ReduceDim;
using kernels::ReduceGeometry;

constexpr const char* kLeaves[] = {"Sum",
                                   "Prod",
                                   "Min",
                                   "Max",
                                   "Nonzero",
                                   "SumSquares",
                                   "SumAbs",
                                   "MaxAbs",
                                   "MinAbs",
                                   "PowerSum",
                                   "ArgMax",
                                   "ArgMin",
                                   "LogSumExp",
                                   "Var",
                                   "FirstOutside",
                                   "FirstNonzero",
                                   "FirstNan",
                                   "FirstInf",
                                   "FirstNonfinite",
                                   "FirstBadTarget"};
constexpr int kStateBytes = 24;  // of the largest state

std::string defines_of(uint64_t variant) {
  return std::string("-DCOGRAD_T=") + stored_type(static_cast<DType>(variant & 0xFF)) +
         " -DCOGRAD_LEAF=" + kLeaves[variant >> 8];
}

int64_t product(std::span<const int64_t> sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

// Drops dims of size 1, orders by stride if allowed, and merges neighbours that lie in line.
// Returns the number of dims; more than kReduceDims do not fit.
int simplify(const char* slot, std::span<const int64_t> sizes, std::span<const int64_t> strides,
             bool reorder, ReduceDim* dims) {
  ReduceDim all[64];
  int n = 0;
  int64_t out = product(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    out = sizes[i] == 0 ? 0 : out / sizes[i];
    if (sizes[i] != 1) all[n++] = {sizes[i], strides[i], out, 0, 0};
  }
  if (reorder)
    for (int i = 1; i < n; ++i)
      for (int j = i; j > 0 && std::llabs(all[j].stride) > std::llabs(all[j - 1].stride); --j)
        std::swap(all[j], all[j - 1]);
  int count = 0;
  for (int i = 0; i < n; ++i) {
    ReduceDim* last = count == 0 ? nullptr : &all[count - 1];
    if (last != nullptr && last->stride == all[i].stride * all[i].size &&
        last->out == all[i].out * all[i].size)
      *last = {last->size * all[i].size, all[i].stride, all[i].out, 0, 0};
    else
      all[count++] = all[i];
  }
  if (count > kReduceDims) detail::fail_no_kernel(slot);
  for (int i = 0; i < count; ++i) {
    dims[i] = all[i];
    set_divider(dims[i].size, dims[i].multiplier, dims[i].shift);
  }
  return count;
}

// Cuts the terms of each output so that there are about `blocks` blocks, of at least `least` terms.
void cut(ReduceArgs& a, int64_t blocks, int64_t least, int64_t most, int64_t unit) {
  const int64_t chunks = std::clamp<int64_t>(
      std::min<int64_t>(blocks, a.terms / std::max<int64_t>(least, 1)), 1, most);
  a.chunk = ceil_div(ceil_div(std::max<int64_t>(a.terms, 1), chunks), unit) * unit;
  a.chunks = std::max<int64_t>(1, ceil_div(a.terms, a.chunk));
}

bool aligned(const ReduceArgs& a, int64_t bytes) {
  if (reinterpret_cast<uintptr_t>(a.x) % static_cast<uintptr_t>(bytes) != 0) return false;
  for (int i = 0; i + 1 < a.nkept; ++i)
    if (a.kept[i].stride % bytes != 0) return false;
  for (int i = 0; i < a.nreduced; ++i)
    if (a.reduced[i].stride % bytes != 0) return false;
  return true;
}

// Adjacent outputs whose terms are far apart: a warp reads a row of outputs.
Grid plan_columns(ReduceArgs& a, int64_t itemsize) {
  const int64_t width = itemsize == 8 ? 2 : 4, line = a.kept[a.nkept - 1].size;
  a.packs = line % width == 0 && aligned(a, width * itemsize) ? 1 : 0;
  const int64_t threads = a.packs != 0 ? line / width : line;
  const int64_t bx = std::min<int64_t>(32, round_up_to_power(threads));
  const int64_t by =
      std::clamp<int64_t>(round_up_to_power(ceil_div(a.terms, 4)), 32 / bx, kReduceThreads / bx);
  const int64_t places = a.outputs / line * ceil_div(threads, bx);
  cut(a, ceil_div(int64_t{8} * multiprocessors(), places), by * 16, 512, 1);
  Grid g = grid_of(places * a.chunks, static_cast<int>(bx));
  g.threads[1] = static_cast<unsigned>(by);
  return g;
}
Grid plan_rows(ReduceArgs& a) {
  const int64_t each = a.flat != 0 ? 16 : 4, sms = multiprocessors();
  const int64_t wanted = round_up_to_power(ceil_div(std::max<int64_t>(a.terms, 1), each));
  a.group = static_cast<int>(std::min<int64_t>(32, wanted));
  if (a.terms > 128 * each || (a.terms >= 32 * each && a.outputs < 8 * sms))
    a.group = kReduceThreads;
  a.chunk = std::max<int64_t>(a.terms, 1);
  a.chunks = 1;
  if (a.group == kReduceThreads)
    cut(a, ceil_div(8 * sms, a.outputs), kReduceThreads * each, 1024, 1024);
  return grid_of(ceil_div(a.outputs * a.chunks, kReduceThreads / a.group), kReduceThreads);
}

}  // namespace

void run_reduction(const char* slot, Leaf leaf, DType in, const void* x, const ReduceGeometry& g,
                   bool ordered, ReduceArgs& a) {
  const int64_t itemsize = dtype_size(in);
  a.x = x;
  a.outputs = product(g.kept_sizes);
  a.terms = product(g.reduced_sizes);
  if (a.outputs == 0) return;
  a.nkept = simplify(slot, g.kept_sizes, g.kept_strides, true, a.kept);
  a.nreduced = simplify(slot, g.reduced_sizes, g.reduced_strides, !ordered, a.reduced);
  if (a.nreduced == 0) {
    a.reduced[0] = {a.terms, itemsize, 1, 0, 0};
    a.nreduced = 1;
  }
  a.wide = a.outputs > 0x7FFFFFFF || a.terms > 0x7FFFFFFF ? 1 : 0;
  const int64_t step = a.reduced[a.nreduced - 1].stride;
  a.flat = a.nreduced == 1 && step == itemsize ? 1 : 0;
  const bool columns =
      a.nkept > 0 && a.kept[a.nkept - 1].stride == itemsize && step != itemsize && a.terms > 0;
  const Grid grid = columns ? plan_columns(a, itemsize) : plan_rows(a);
  const Scratch partial(a.chunks == 1 ? 0 : a.outputs * a.chunks * kStateBytes);
  a.partial = partial.data();
  const uint64_t variant = static_cast<uint64_t>(leaf) << 8 | static_cast<uint64_t>(in);
  const auto function = [&](const char* name) {
    return function_of("reduce.h", name, variant, defines_of);
  };
  launch(slot,
         !columns       ? function("reduce_rows")
         : a.packs != 0 ? function("reduce_column_packs")
                        : function("reduce_columns"),
         grid, a);
  if (a.chunks == 1) return;
  launch(slot, function("reduce_pieces"),
         grid_of(ceil_div(a.outputs, kReduceThreads / 32), kReduceThreads), a);
}

int64_t find_first(const char* slot, Leaf leaf, DType in, const void* x, const ReduceGeometry& g,
                   double p, double q) {
  const Scratch word(sizeof(int64_t));
  ReduceArgs a{};
  a.y = word.data();
  a.p = p;
  a.q = q;
  run_reduction(slot, leaf, in, x, g, true, a);
  return read_back<int64_t>(word.data());
}
int64_t find_first(const char* slot, Leaf leaf, DType in, const void* x, int64_t n, double p,
                   double q) {
  const int64_t size[1] = {n}, stride[1] = {dtype_size(in)};
  return find_first(slot, leaf, in, x, ReduceGeometry{{}, {}, size, stride}, p, q);
}

}  // namespace cograd::cuda
