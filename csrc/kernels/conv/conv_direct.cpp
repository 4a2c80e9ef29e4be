// SPDX-License-Identifier: BSD-3-Clause
// Splits direct convolutions over images, groups, chunks of positions and blocks of channels.
#include "kernels/conv/conv_direct.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/conv/conv_direct_parts.h"
#include "kernels/core/isa.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(ConvDirectLoops, conv_direct_loops)
COGRAD_ISA_VALUE(ConvPointLoops, conv_point_loops)

namespace {

constexpr int64_t kSourceBytes = 640 << 10;  // bytes of a copy, to stay in the level-2 cache
constexpr int64_t kEnough = 512;             // positions from which the ends of tiles are cheap
constexpr double kLeast = 0.55;  // share of results in computed positions; below, columns win
constexpr double kLeastOfPoints = 0.4;  // the same share if channels are the lanes
constexpr double kUseful = 0.75;        // the same share, below which rows are joined

using namespace direct;

// The number of images, or the part of one image, that a task copies.
struct Split {
  int64_t images = 1, chunk = 0;
};
Split split_of(DType t, const ConvShape& s, const ShiftPlan& whole) {
  const int64_t plane = whole.source.plane(), bytes = whole.source.size() * dtype_size(t);
  if (whole.dim > 0 && plane < kEnough && s.batch > 1)
    return {divide_up(s.batch, divide_up(s.batch, std::max<int64_t>(1, kEnough / plane))),
            whole.positions};
  const int64_t pieces = divide_up(bytes, kSourceBytes), least = whole.dim == 2 ? 192 : 4;
  Split split{1, whole.positions};
  if (pieces > 1)
    split.chunk = std::min(whole.positions, std::max(least, divide_up(whole.positions, pieces)));
  // Chunks of a line begin at cache lines and have no thin last tile.
  if (whole.dim == 2 && pieces > 1)
    split.chunk = std::min(whole.positions, divide_up(split.chunk, int64_t{48}) * 48);
  // More chunks for many threads, as long as the ends of tiles stay cheap.
  const int64_t wanted = divide_up(wanted_tasks(), s.batch * s.groups);
  if (wanted_tasks() == kTasks || wanted <= pieces) return split;
  const int64_t line = plane / whole.source.extent[whole.dim];
  const int64_t most = whole.positions / std::max(least, divide_up(kEnough / 2, line));
  if (most > 1)
    split.chunk = std::min(split.chunk, divide_up(whole.positions, std::min(wanted, most)));
  return split;
}

// Weights packed per group as blocks of rows, indexed by row m and product (channel of the source,
// tap).
struct Packed {
  Buffer data;
  int64_t block = 1, group = 0;
};
template <class T>
Packed pack_weights(DType t, const ConvShape& s, const ShiftPart& part, bool transposed,
                    int64_t rows_of_block, const T* w) {
  const int64_t rows = transposed ? s.in_channels : s.out_channels, taps = s.taps();
  const int64_t row = transposed ? taps : s.in_channels * taps;  // distance in w
  const int64_t channel = transposed ? s.in_channels * taps : taps;
  std::vector<int64_t> places;
  for (int64_t c = 0; c < (transposed ? s.out_channels : s.in_channels); ++c)
    for (const int64_t tap : part.taps) places.push_back(c * channel + tap);
  const auto depth = static_cast<int64_t>(places.size());
  Packed p;
  p.block = rows_of_block;
  p.group = divide_up(rows, p.block) * p.block * depth;
  p.data = buffer(std::max<int64_t>(1, s.groups * p.group), t);
  if (depth == 0) return p;
  const ConvDirectLoops loops = conv_direct_loops();
  const int64_t blocks = divide_up(rows, p.block), block = p.block, lanes = loops.lanes(t);
  const bool in_order = !transposed && depth == s.depth();  // rows of w are rows of the block
  parallel_for(0, s.groups * blocks, std::max<int64_t>(1, 8192 / (block * depth)),
               [&](int64_t lo, int64_t hi) {
                 for (; lo < hi; ++lo) {
                   const int64_t g = lo / blocks, first = lo % blocks * block;
                   const T* from = w + g * s.out_channels * s.depth() + first * row;
                   T* to = reinterpret_cast<T*>(p.data.get()) + g * p.group + first * depth;
                   const int64_t real = std::min(block, rows - first);
                   if (in_order && block % lanes == 0) {
                     loops.transpose(t, from, depth, real, depth, block, to);
                     continue;
                   }
                   for (int64_t k = 0; k < depth; ++k, to += block) {
                     const T* at_k = from + places[static_cast<size_t>(k)];
                     for (int64_t r = 0; r < real; ++r) to[r] = at_k[r * row];
                     for (int64_t r = real; r < block; ++r) to[r] = T(0);
                   }
                 }
               });
  return p;
}

double useful(const ShiftPlan& plan) {
  double results = 0, computed = 0;
  for (const ShiftPart& p : plan.parts) {
    results += static_cast<double>(p.grid[0] * p.grid[1] * p.grid[2]);
    computed += static_cast<double>(plan.source.plane());
  }
  return results / computed;
}

// True if channels, not positions, are the lanes. This pays if many of the computed positions would
// not be results.
bool by_points(DType t, int64_t rows, double share) {
  return share < kUseful && 2 * rows >= conv_direct_loops().lanes(t);
}

// Copies the rows that each product reads one after the other, without the space between rows of
// the grid.
template <class T>
void join_rows(const T* source, const ShiftJob& job, T* to) {
  for (int64_t k = 0; k < job.depth; ++k)
    for (int64_t z = 0; z < job.grid[0]; ++z)
      for (int64_t y = 0; y < job.grid[1]; ++y, to += job.grid[2])
        std::copy_n(source + job.offsets[k] + (z * job.extent[1] + y) * job.extent[2], job.grid[2],
                    to);
}
class JoinedRows {
 public:
  JoinedRows(DType t, bool wanted, int64_t slack) : t_(t), slack_(slack), wanted_(wanted) {}
  void apply(ShiftJob& job) {
    if (!wanted_) return;
    const int64_t n = job.grid[0] * job.grid[1] * job.grid[2];
    if (job.depth * n > room_) {
      room_ = job.depth * n;
      rows_ = buffer(room_ + slack_, t_);
    }
    if (t_ == DType::Float32)
      join_rows(static_cast<const float*>(job.source), job, reinterpret_cast<float*>(rows_.get()));
    else
      join_rows(static_cast<const double*>(job.source), job,
                reinterpret_cast<double*>(rows_.get()));
    offsets_.resize(static_cast<size_t>(job.depth));
    for (int64_t k = 0; k < job.depth; ++k) offsets_[static_cast<size_t>(k)] = k * n;
    job.source = rows_.get();
    job.offsets = offsets_.data();
    std::copy(job.grid, job.grid + 3, job.extent);
  }

 private:
  DType t_;
  int64_t slack_, room_ = 0;
  bool wanted_;
  Buffer rows_;
  std::vector<int64_t> offsets_;
};

// Gives tasks their sources: copies or, where a copy would have the same elements and no tile reads
// past the end of x, x itself.
class Sources {
 public:
  Sources(DType t, const ShiftPlan& plan, int64_t total, int64_t slack)
      : t_(t), plan_(plan), last_(total - slack), in_place_(reads_input(plan)) {
    const ShiftSource& src = plan.source;
    if (!in_place_) return;
    for (const ShiftPart& part : plan.parts) {
      offsets_.push_back(part.offsets);
      for (int64_t& at : offsets_.back()) at += at / src.channel() * (src.in_size() - src.plane());
    }
  }
  // True if the task whose elements begin at `first` can read x.
  bool in_place(int64_t first, int64_t start) const {
    const ShiftSource& src = plan_.source;
    return in_place_ &&
           first + before(start) + (src.channels - 1) * src.in_size() + src.plane() <= last_;
  }
  void set(ShiftJob& job, size_t part, const void* x, int64_t first, int64_t start) const {
    job.source = at(t_, x, first + before(start));
    job.offsets = offsets_[part].data();
  }

 private:
  static bool reads_input(const ShiftPlan& plan) {
    const ShiftSource& src = plan.source;
    bool same = src.images == 1 && src.slots() == 1;
    for (int d = 0; d < 3; ++d) {
      const int64_t rest = d == plan.dim ? plan.positions - plan.chunk : 0;
      same = same && src.step[d] == 1 && src.shift[d] == 0 && src.extent[d] + rest == src.in[d];
    }
    return same;
  }
  int64_t before(int64_t start) const {
    return start * (plan_.source.in_size() / plan_.source.in[plan_.dim]);
  }
  DType t_;
  const ShiftPlan& plan_;
  int64_t last_;
  bool in_place_;
  std::vector<std::vector<int64_t>> offsets_;
};

// Computes all results of a plan: y (batch, groups, rows, y_size) from x (batch, groups, channels,
// in).
void run_plan(DType t, const ConvShape& s, const ShiftPlan& plan, bool transposed, const void* x,
              const void* w, const void* bias, void* y) {
  const ConvDirectLoops loops = conv_direct_loops();
  const int64_t rows = transposed ? s.in_channels : s.out_channels;
  const int64_t y_size = transposed ? s.in_size() : s.out_size();
  const ShiftSource& src = plan.source;
  const double share = useful(plan);
  const bool points = by_points(t, rows, share), joined = !points && share < kUseful;
  const int64_t block = points ? conv_point_loops().block(t, rows) : loops.block(t, rows);
  std::vector<Packed> packed;
  for (const ShiftPart& part : plan.parts)
    packed.push_back(
        t == DType::Float32
            ? pack_weights(t, s, part, transposed, block, static_cast<const float*>(w))
            : pack_weights(t, s, part, transposed, block, static_cast<const double*>(w)));
  const int64_t blocks = divide_up(rows, block);
  const int64_t chunks = divide_up(plan.positions, plan.chunk);
  const int64_t parts = divide_up(s.batch, src.images) * s.groups * chunks;
  // Each cut of a part joins its rows again.
  const int64_t tasks = joined ? wanted_tasks() / 2 : wanted_tasks();
  const int64_t cuts =
      std::clamp<int64_t>(divide_up(tasks, std::max<int64_t>(1, parts)), 1, blocks);
  const int64_t cut_rows = divide_up(blocks, cuts) * block;
  const int64_t source_size = src.channels * src.in_size();
  const Sources sources(t, plan, s.batch * s.groups * source_size, loops.slack(t));
  parallel_for(0, parts * cuts, 1, [&](int64_t lo, int64_t hi) {
    const Buffer copy = buffer(src.size() + loops.slack(t), t);
    JoinedRows rows_of_products(t, joined, loops.slack(t));
    int64_t filled = -1;
    for (; lo < hi; ++lo) {
      const int64_t task = lo / cuts, m0 = lo % cuts * cut_rows;
      const int64_t m1 = std::min(rows, m0 + cut_rows);
      const int64_t chunk = task % chunks, group = task / chunks % s.groups;
      const int64_t image = task / chunks / s.groups * src.images;
      const int64_t count = std::min(src.images, s.batch - image), start = chunk * plan.chunk;
      if (m0 >= m1) continue;
      const int64_t from = (image * s.groups + group) * source_size;
      const bool in_place = sources.in_place(from, start);
      if (filled != task && !in_place)
        src.fill(t, at(t, x, from), s.groups * source_size, count, plan.dim, start, copy.get());
      filled = task;
      for (size_t i = 0; i < plan.parts.size(); ++i) {
        const ShiftPart& part = plan.parts[i];
        ShiftJob job;
        job.source = copy.get();
        job.offsets = part.offsets.data();
        if (in_place) sources.set(job, i, x, from, start);
        job.depth = static_cast<int64_t>(part.offsets.size());
        job.weights = at(t, packed[i].data.get(), group * packed[i].group + m0 * job.depth);
        job.rows = m1 - m0;
        job.block = block;
        if (bias != nullptr) job.bias = at(t, bias, group * rows + m0);
        job.y_row = y_size;
        std::copy(part.grid, part.grid + 3, job.grid);
        std::copy(src.extent, src.extent + 3, job.extent);
        std::copy(part.y_stride, part.y_stride + 3, job.y_stride);
        job.grid[plan.dim] = std::min(plan.chunk, part.grid[plan.dim] - start);
        if (job.grid[plan.dim] <= 0) continue;
        int64_t first = ((image * s.groups + group) * rows + m0) * y_size + part.y_first;
        first += start * part.y_stride[plan.dim];
        if (plan.dim > 0) {
          job.grid[0] = count;
          job.y_stride[0] = s.groups * rows * y_size;
        }
        job.y = at(t, y, first);
        if (points) {
          conv_point_loops().run(t, job);
          continue;
        }
        rows_of_products.apply(job);
        loops.shift(t, job);
      }
    }
  });
}

// False if padding and dilation make copies that are mostly zeros, or make joined rows too long.
bool compact(DType t, const ShiftPlan& plan, int64_t rows) {
  const double share = useful(plan);
  if (plan.source.size() >= (int64_t{1} << 31)) return false;
  if (by_points(t, rows, share)) return share >= kLeastOfPoints;
  if (share < kLeast) return false;
  const double read =
      static_cast<double>(plan.source.plane()) * static_cast<double>(plan.parts[0].offsets.size());
  return share >= kUseful || read < double{1 << 24};
}

}  // namespace

bool direct_forward_suits(DType t, const ConvShape& shape) {
  const ConvShape s = flattened(shape);
  return suits(t, s) && compact(t, forward_plan(s, 1, s.out_size()), s.out_channels);
}
void direct_forward(DType t, const ConvShape& shape, const void* x, const void* w, const void* bias,
                    void* y) {
  const ConvShape s = flattened(shape);
  const Split split = split_of(t, s, forward_plan(s, 1, s.out_size()));
  run_plan(t, s, forward_plan(s, split.images, split.chunk), false, x, w, bias, y);
}

bool direct_input_grad_suits(DType t, const ConvShape& shape) {
  const ConvShape s = flattened(shape);
  return suits(t, s) && s.stride[0] * s.stride[1] * s.stride[2] <= 64 &&
         compact(t, input_grad_plan(s, 1, s.in_size()), s.in_channels);
}
void direct_input_grad(DType t, const ConvShape& shape, const void* g, const void* w, void* gx) {
  const ConvShape s = flattened(shape);
  const Split split = split_of(t, s, input_grad_plan(s, 1, s.in_size()));
  run_plan(t, s, input_grad_plan(s, split.images, split.chunk), true, g, w, nullptr, gx);
}

}  // namespace cograd::kernels
