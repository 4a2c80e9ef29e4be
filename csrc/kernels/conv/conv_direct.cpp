// SPDX-License-Identifier: BSD-3-Clause
// Splits direct convolutions over images, groups, chunks of positions and blocks of channels.
#include "kernels/conv/conv_direct.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/conv/conv_direct_loops.h"
#include "kernels/conv/conv_shift.h"
#include "kernels/core/isa.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(ConvDirectLoops, conv_direct_loops)
COGRAD_ISA_VALUE(ConvPointLoops, conv_point_loops)

namespace {

constexpr int64_t kSourceBytes = 640 << 10;  // bytes of a copy, to stay in the level-2 cache
constexpr int64_t kEnough = 512;             // positions from which the ends of tiles are cheap
constexpr int64_t kTasks = 8;                // minimum number of tasks
constexpr int64_t kTasksPerThread = 4;       // so that quick threads can take more of them
constexpr double kLeast = 0.55;  // share of results in computed positions; below, columns win
constexpr double kLeastOfPoints = 0.4;    // the same share if channels are the lanes
constexpr double kUseful = 0.75;          // the same share, below which rows are joined
constexpr int64_t kPartPositions = 512;   // number of positions that pay for separate sums
constexpr int64_t kSumBytes = 8 << 20;    // bytes of sums for parts of the batch
constexpr int64_t kOuterPositions = 128;  // positions of the weight gradient per step

using Buffer = std::unique_ptr<char[]>;
Buffer buffer(int64_t elements, DType t) {
  return Buffer(new char[static_cast<size_t>(elements * dtype_size(t)) + 64]);
}
const char* at(DType t, const void* p, int64_t i) {
  return static_cast<const char*>(p) + i * dtype_size(t);
}
char* at(DType t, void* p, int64_t i) { return static_cast<char*>(p) + i * dtype_size(t); }

bool is_wide(DType t) { return t == DType::Float32 || t == DType::Float64; }

// Returns the number of tasks that work should be cut into. Only cuts that leave every result's sum
// as it is may depend on it.
int64_t wanted_tasks() { return std::max<int64_t>(kTasks, kTasksPerThread * num_threads()); }

// Treats an image as one row if the kernel has one element and moves by one.
ConvShape flattened(const ConvShape& s) {
  ConvShape f = s;
  for (int d = 0; d < 3; ++d)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.padding[d] != 0 || s.in[d] != s.out[d]) return s;
  f.in[2] = f.out[2] = s.in_size();
  f.in[0] = f.in[1] = f.out[0] = f.out[1] = 1;
  for (int64_t& d : f.dilation) d = 1;
  return f;
}

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
                     loops.transpose(t, from, real, depth, block, to);
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
      if (filled != task)
        src.fill(t, at(t, x, (image * s.groups + group) * src.channels * src.in_size()),
                 s.groups * src.channels * src.in_size(), count, plan.dim, start, copy.get());
      filled = task;
      for (size_t i = 0; i < plan.parts.size(); ++i) {
        const ShiftPart& part = plan.parts[i];
        ShiftJob job;
        job.source = copy.get();
        job.offsets = part.offsets.data();
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

bool suits(DType t, const ConvShape& s) {
  return is_wide(t) && s.batch > 0 && s.in_channels > 0 && s.out_size() > 0 && s.in_size() > 0 &&
         s.taps() <= 4096 && s.depth() < (1 << 24);
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

namespace {

// Handles one output channel per input channel: sums over positions in the lanes.
void weight_grad_by_dots(DType t, const ConvShape& s, const void* g, const void* x, void* gw) {
  const ConvDirectLoops loops = conv_direct_loops();
  const ShiftPlan plan = forward_plan(s, 1, s.out_size());
  const ShiftSource& src = plan.source;
  const auto& offsets = plan.parts[0].offsets;
  const int64_t p = s.out[1] * s.out[2], k = s.depth();
  parallel_for(0, s.groups, 1, [&](int64_t lo, int64_t hi) {
    const Buffer copy = buffer(src.size(), t);
    std::vector<double> sums(static_cast<size_t>(s.out_channels * k));
    for (; lo < hi; ++lo) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int64_t n = 0; n < s.batch; ++n) {
        const int64_t group = n * s.groups + lo;
        src.fill(t, at(t, x, group * s.in_channels * s.in_size()), 0, 1, plan.dim, 0, copy.get());
        for (int64_t o = 0; o < s.out_channels; ++o)
          for (int64_t z = 0; z < s.out[0]; ++z)
            loops.dots(t, {at(t, copy.get(), z * src.extent[1] * src.extent[2]), offsets.data(), k,
                           at(t, g, ((group * s.out_channels + o) * s.out[0] + z) * p), s.out[1],
                           s.out[2], src.extent[2], sums.data() + o * k});
      }
      for (int64_t i = 0; i < s.out_channels * k; ++i) {
        char* to = at(t, gw, lo * s.out_channels * k + i);
        if (t == DType::Float32)
          *reinterpret_cast<float*>(to) = static_cast<float>(sums[static_cast<size_t>(i)]);
        else
          *reinterpret_cast<double*>(to) = sums[static_cast<size_t>(i)];
      }
    }
  });
}

// Sums the gradient with respect to the weights of one group, [depth][width], over images.
class OuterSums {
 public:
  OuterSums(DType t, const ConvShape& s, const ShiftPlan& plan, int64_t width)
      : t_(t), s_(s), plan_(plan), width_(width), own_(!plan.source.is_input()) {
    if (own_) x_ = buffer(plan.source.size(), t);
    g_ = buffer(width * s.out_size(), t);
  }
  // Adds products k0 to k1 of one image.
  void add(int64_t image, int64_t group, const void* x, const void* g, int64_t k0, int64_t k1,
           char* sums);

 private:
  void load(int64_t at_group, const void* x, const void* g, int64_t k0, int64_t k1);
  DType t_;
  const ConvShape& s_;
  const ShiftPlan& plan_;
  int64_t width_;
  bool own_;
  Buffer x_, g_;
  const char* source_ = nullptr;
};

// Calls f for some lines of positions, or a part of one, at a time.
template <class F>
void each_piece(const ConvShape& s, F&& f) {
  const int64_t length = s.out[2];
  const int64_t lines = std::max<int64_t>(1, kOuterPositions / length);
  for (int64_t z = 0; z < s.out[0]; ++z)
    for (int64_t y = 0; y < s.out[1]; y += lines)
      for (int64_t x = 0; x < length; x += 2 * kOuterPositions)
        f(z, y, x, std::min(lines, s.out[1] - y), std::min(length - x, 2 * kOuterPositions));
}

void OuterSums::load(int64_t group, const void* x, const void* g, int64_t k0, int64_t k1) {
  const char* from = at(t_, x, group * s_.in_channels * s_.in_size());
  if (own_) {
    // Only the channels that products k0 to k1 read are copied.
    ShiftSource part = plan_.source;
    const int64_t c0 = k0 / s_.taps();
    part.channels = divide_up(k1, s_.taps()) - c0;
    part.fill(t_, at(t_, from, c0 * s_.in_size()), 0, 1, plan_.dim, 0,
              at(t_, x_.get(), c0 * part.channel()));
  }
  source_ = own_ ? x_.get() : from;
  const char* gy = at(t_, g, group * s_.out_channels * s_.out_size());
  conv_direct_loops().transpose(t_, gy, s_.out_channels, s_.out_size(), width_, g_.get());
}

void OuterSums::add(int64_t image, int64_t group, const void* x, const void* g, int64_t k0,
                    int64_t k1, char* sums) {
  load(image * s_.groups + group, x, g, k0, k1);
  const ConvDirectLoops loops = conv_direct_loops();
  const ShiftSource& src = plan_.source;
  const int64_t* offsets = plan_.parts[0].offsets.data();
  each_piece(s_, [&](int64_t z, int64_t line, int64_t i, int64_t lines, int64_t length) {
    const int64_t row = (z * src.extent[1] + line) * src.extent[2] + i;
    const int64_t position = (z * s_.out[1] + line) * s_.out[2] + i;
    loops.outer(t_,
                {at(t_, source_, row), offsets + k0, k1 - k0, at(t_, g_.get(), position * width_),
                 width_, lines, length, src.extent[2], at(t_, sums, k0 * width_)});
  });
}

// Computes gw[o][k] = the sum of all parts' sums[k][o].
template <class T>
void add_parts(const ConvShape& s, int64_t parts, int64_t width, const T* sums, T* gw) {
  constexpr int64_t kBlock = 16;
  const int64_t k = s.depth(), blocks = divide_up(k, kBlock);
  parallel_for(0, s.groups * blocks, 1, [&](int64_t lo, int64_t hi) {
    std::vector<T> total(static_cast<size_t>(kBlock * width));
    for (; lo < hi; ++lo) {
      const int64_t group = lo / blocks, first = lo % blocks * kBlock;
      const int64_t n = std::min(kBlock, k - first);
      for (int64_t p = 0; p < parts; ++p) {
        const T* from = sums + ((p * s.groups + group) * k + first) * width;
        for (int64_t i = 0; i < n * width; ++i)
          total[static_cast<size_t>(i)] =
              p == 0 ? from[i] : total[static_cast<size_t>(i)] + from[i];
      }
      for (int64_t o = 0; o < s.out_channels; ++o)
        for (int64_t i = 0; i < n; ++i)
          gw[(group * s.out_channels + o) * k + first + i] =
              total[static_cast<size_t>(i * width + o)];
    }
  });
}

}  // namespace

bool direct_weight_grad_suits(DType t, const ConvShape& shape) {
  const ConvShape s = flattened(shape);
  if (!suits(t, s)) return false;
  const ShiftPlan plan = forward_plan(s, 1, s.out_size());
  if (plan.source.size() >= (int64_t{1} << 28)) return false;
  if (s.out_channels <= 2) return s.in_channels <= 4 && s.out[2] >= 8;
  return s.out[2] >= 7 && s.out_channels >= 8;
}

void direct_weight_grad(DType t, const ConvShape& shape, const void* g, const void* x, void* gw) {
  const ConvShape s = flattened(shape);
  if (s.out_channels <= 2) return weight_grad_by_dots(t, s, g, x, gw);
  const ShiftPlan plan = forward_plan(s, 1, s.out_size());
  const int64_t k = s.depth(), lanes = conv_direct_loops().lanes(t);
  const int64_t width = divide_up(s.out_channels, lanes) * lanes;
  // Cut the batch into parts with separate sums, as many as the memory allows. If these are too few
  // for the threads, cut the products, too.
  const int64_t bytes = s.groups * k * width * dtype_size(t);
  const int64_t most = std::min({kTasks, s.batch, 1 + s.batch * s.out_size() / kPartPositions});
  const int64_t parts = std::clamp<int64_t>(kSumBytes / bytes, 1, most);
  const int64_t cuts = std::clamp<int64_t>(divide_up(wanted_tasks(), parts * s.groups), 1,
                                           std::max<int64_t>(1, k / 18));
  const int64_t cut = divide_up(divide_up(k, cuts), 6) * 6;
  const Buffer sums = buffer(parts * s.groups * k * width, t);
  parallel_for(0, parts * s.groups * cuts, 1, [&](int64_t lo, int64_t hi) {
    OuterSums outer(t, s, plan, width);
    for (; lo < hi; ++lo) {
      const int64_t part = lo / cuts / s.groups, group = lo / cuts % s.groups;
      const int64_t k0 = lo % cuts * cut, k1 = std::min(k, k0 + cut);
      if (k0 >= k1) continue;
      char* to = at(t, sums.get(), (part * s.groups + group) * k * width);
      std::memset(at(t, to, k0 * width), 0, static_cast<size_t>((k1 - k0) * width * dtype_size(t)));
      for (int64_t n = s.batch * part / parts; n < s.batch * (part + 1) / parts; ++n)
        outer.add(n, group, x, g, k0, k1, to);
    }
  });
  if (t == DType::Float32)
    add_parts(s, parts, width, reinterpret_cast<const float*>(sums.get()), static_cast<float*>(gw));
  else
    add_parts(s, parts, width, reinterpret_cast<const double*>(sums.get()),
              static_cast<double*>(gw));
}

}  // namespace cograd::kernels
