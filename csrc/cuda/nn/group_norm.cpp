// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/nn/group_norm.h.
#include "kernels/nn/group_norm.h"

#include "cuda/args/groups_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "tensor/slot.h"

namespace cograd::cuda {

using device::GroupArgs;
using device::kGroupThreads;
using kernels::NormGroups;

namespace {

constexpr int kWarps = kGroupThreads / 32;
constexpr int kStateBytes = 24;

std::string defines_of(uint64_t v) {
  return std::string("-DCOGRAD_T=") + stored_type(static_cast<DType>(v & 0xFF)) +
         " -DCOGRAD_VEC=" + std::to_string(v >> 8);
}

// A call's kernels and how they divide the work.
class Call {
 public:
  Call(const char* slot, DType t, const NormGroups& n, std::initializer_list<const void*> arrays)
      : slot_(slot) {
    const int64_t pack = 16 / dtype_size(t);
    bool packs =
        n.length % pack == 0 && n.step % pack == 0 && n.inner % pack == 0 && n.outer % pack == 0;
    for (const void* p : arrays) packs &= reinterpret_cast<uintptr_t>(p) % 16 == 0;
    vec_ = packs ? pack : 1;
    variant_ = static_cast<uint64_t>(t) | static_cast<uint64_t>(vec_) << 8;
    args.groups = n.groups;
    args.segments = n.segments;
    args.length = n.length;
    args.wrap = n.wrap;
    args.outer = n.outer;
    args.inner = n.inner;
    args.step = n.step;
    args.per_group = n.per_group;
    args.per_segment = n.per_segment;
    args.columns =
        n.length == 1 && n.inner == 1 && n.wrap == n.groups && n.per_segment == 0 ? 1 : 0;
    loads_ = n.groups * n.segments * n.length / vec_;
    cut();
  }
  int64_t states() const { return args.groups * args.chunks * kStateBytes; }
  // One block per piece of a group, or of 32 groups that are columns.
  Grid pieces() const {
    if (args.columns == 0) return grid_of(args.groups * args.chunks, kGroupThreads);
    Grid g = grid_of(ceil_div(args.groups, 32) * args.chunks, 32);
    g.threads[1] = kGroupThreads / 32;
    return g;
  }
  Grid elements() const { return grid_of(ceil_div(loads_, kGroupThreads), kGroupThreads); }
  void run(const char* function, const Grid& grid) const {
    launch(slot_, function_of("groups.h", function, variant_, defines_of), grid, args);
  }

  GroupArgs args{};

 private:
  void cut() {
    const int64_t terms = args.columns != 0 ? args.segments : args.segments * args.length / vec_;
    const int64_t blocks = args.columns != 0 ? ceil_div(args.groups, 32) : args.groups;
    const int64_t least = args.columns != 0 ? 64 : 4 * kGroupThreads;
    const int64_t wanted = std::min<int64_t>(
        ceil_div(8 * multiprocessors(), std::max<int64_t>(blocks, 1)), terms / least);
    args.chunk = std::max<int64_t>(1, ceil_div(terms, std::clamp<int64_t>(wanted, 1, 512)));
    args.chunks = std::max<int64_t>(1, ceil_div(terms, args.chunk));
  }

  const char* slot_;
  int64_t vec_ = 1, loads_ = 0;
  uint64_t variant_ = 0;
};

Grid over_groups(int64_t n) { return grid_of(ceil_div(n, kGroupThreads), kGroupThreads); }

}  // namespace

void group_norm_forward(DType t, const NormGroups& n, const void* x, const void* weight,
                        const void* bias, double eps, bool given, void* y, void* mean, void* rstd,
                        void* var) {
  if (n.groups == 0) return;
  Call c("group_norm_forward", t, n, {x, y});
  c.args.x = x;
  c.args.weight = weight;
  c.args.bias = bias;
  c.args.y = y;
  c.args.mean = mean;
  c.args.rstd = rstd;
  c.args.var = var;
  c.args.eps = eps;
  if (!given) {
    const Scratch partial(c.states());
    c.args.partial = partial.data();
    c.run(c.args.columns != 0 ? "column_stats" : "group_stats", c.pieces());
    c.run("group_finish", over_groups(n.groups));
  }
  if (n.segments * n.length != 0) c.run("group_apply", c.elements());
}

void group_norm_backward(DType t, const NormGroups& n, const void* g, const void* x,
                         const void* mean, const void* rstd, const void* weight, bool given,
                         void* gx, double* sums, double* dots) {
  if (n.groups * n.segments == 0) return;
  Call c("group_norm_backward", t, n, {x, g, gx});
  const Scratch partial(c.args.columns != 0 ? c.states() : 0);
  const Scratch totals(2 * n.groups * static_cast<int64_t>(sizeof(double)));
  c.args.x = x;
  c.args.g = g;
  c.args.weight = weight;
  c.args.mean = const_cast<void*>(mean);
  c.args.rstd = const_cast<void*>(rstd);
  c.args.y = gx;
  c.args.sums = sums;
  c.args.dots = dots;
  c.args.given = given ? 1 : 0;
  c.args.partial = partial.data();
  c.args.totals = static_cast<double*>(totals.data());
  c.args.lanes = n.length >= 2048 ? kGroupThreads : 32;
  if (c.args.columns != 0) {
    c.run("column_sums", c.pieces());
    c.run("column_finish", over_groups(n.groups));
  } else {
    c.run("segment_sums",
          grid_of(ceil_div(n.groups * n.segments, kGroupThreads / c.args.lanes), kGroupThreads));
  }
  if (gx == nullptr || n.length == 0) return;
  if (!given) c.run("group_totals", grid_of(ceil_div(n.groups, kWarps), kGroupThreads));
  c.run("group_backward", c.elements());
}

void add_by_weight(const NormGroups& n, const double* terms, double* totals) {
  const bool own = n.per_segment == 1 && n.per_group == n.segments;
  if (n.groups == 0 || n.segments == 0) return;
  if (!own && !(n.per_segment == 0 && n.per_group == 1)) detail::fail_no_kernel("add_by_weight");
  const int64_t weights = std::min(n.wrap, n.groups) * n.per_group;
  const device::WeightArgs a{terms,  totals,      n.groups,      n.segments,
                             n.wrap, n.per_group, n.per_segment, weights};
  launch("add_by_weight",
         function_of("groups.h", "add_by_weight", static_cast<uint64_t>(DType::Float64) | 1 << 8,
                     defines_of),
         grid_of(ceil_div(weights, kWarps), kGroupThreads), a);
}

COGRAD_CUDA_SLOT(group_norm_forward)
COGRAD_CUDA_SLOT(group_norm_backward)
COGRAD_CUDA_SLOT(add_by_weight)

}  // namespace cograd::cuda
