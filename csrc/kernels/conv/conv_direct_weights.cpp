// SPDX-License-Identifier: BSD-3-Clause
// Splits the weight gradients of direct convolutions over images, groups and products.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/conv/conv_direct.h"
#include "kernels/conv/conv_direct_parts.h"

namespace cograd::kernels {
namespace {

using namespace direct;

constexpr int64_t kPartPositions = 512;   // number of positions that pay for separate sums
constexpr int64_t kSumBytes = 8 << 20;    // bytes of sums for parts of the batch
constexpr int64_t kSmallSums = 64 << 10;  // bytes of sums up to which images are cut, too,
constexpr int64_t kSmallParts = 64;       // into this many parts
constexpr int64_t kOuterPositions = 128;  // positions of the weight gradient per step

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

// Sums the gradient with respect to the weights of one group, [depth][width], over images or, if
// the plan has several chunks, over chunks of them.
class OuterSums {
 public:
  OuterSums(DType t, const ConvShape& s, const ShiftPlan& plan, int64_t width)
      : t_(t), s_(s), plan_(plan), width_(width), own_(!plan.source.is_input()) {
    if (own_) x_ = buffer(plan.source.size(), t);
    g_ = buffer(width * s.out_size(), t);
  }
  // Adds products k0 to k1 of one chunk; each image has as many chunks.
  void add(int64_t chunk, int64_t group, const void* x, const void* g, int64_t k0, int64_t k1,
           char* sums);

 private:
  void load(int64_t at_group, int64_t start, const void* x, const void* g, int64_t k0, int64_t k1);
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

void OuterSums::load(int64_t group, int64_t start, const void* x, const void* g, int64_t k0,
                     int64_t k1) {
  const char* from = at(t_, x, group * s_.in_channels * s_.in_size());
  if (own_) {
    // Only the channels that products k0 to k1 read are copied.
    ShiftSource part = plan_.source;
    const int64_t c0 = k0 / s_.taps();
    part.channels = divide_up(k1, s_.taps()) - c0;
    part.fill(t_, at(t_, from, c0 * s_.in_size()), 0, 1, plan_.dim, start,
              at(t_, x_.get(), c0 * part.channel()));
  }
  source_ = own_ ? x_.get() : from;
  const int64_t line = s_.out_size() / plan_.positions;
  const int64_t count = std::min(plan_.chunk, plan_.positions - start);
  const char* gy = at(t_, g, group * s_.out_channels * s_.out_size() + start * line);
  conv_direct_loops().transpose(t_, gy, s_.out_size(), s_.out_channels, count * line, width_,
                                g_.get());
}

void OuterSums::add(int64_t chunk, int64_t group, const void* x, const void* g, int64_t k0,
                    int64_t k1, char* sums) {
  const int64_t chunks = divide_up(plan_.positions, plan_.chunk);
  const int64_t image = chunk / chunks, start = chunk % chunks * plan_.chunk;
  load(image * s_.groups + group, start, x, g, k0, k1);
  const ConvDirectLoops loops = conv_direct_loops();
  const ShiftSource& src = plan_.source;
  const int64_t* offsets = plan_.parts[0].offsets.data();
  ConvShape part = s_;
  part.out[plan_.dim] = std::min(plan_.chunk, plan_.positions - start);
  each_piece(part, [&](int64_t z, int64_t line, int64_t i, int64_t lines, int64_t length) {
    const int64_t row = (z * src.extent[1] + line) * src.extent[2] + i;
    const int64_t position = (z * part.out[1] + line) * part.out[2] + i;
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

namespace {

// Returns the plan of the weight gradient. It depends on the shape alone: small sums are cheap, so
// images are cut for many threads; where x is read in place, they are not.
ShiftPlan plan_of_sums(const ConvShape& s, int64_t bytes) {
  ShiftPlan whole = forward_plan(s, 1, s.out_size());
  if (bytes > kSmallSums || whole.source.is_input()) return whole;
  const int64_t most = std::min(whole.positions, s.out_size() / (4 * kPartPositions));
  const int64_t chunks = std::min(divide_up(kSmallParts, s.batch), most);
  return chunks > 1 ? forward_plan(s, 1, divide_up(whole.positions, chunks)) : whole;
}

}  // namespace

void direct_weight_grad(DType t, const ConvShape& shape, const void* g, const void* x, void* gw) {
  const ConvShape s = flattened(shape);
  if (s.out_channels <= 2) return weight_grad_by_dots(t, s, g, x, gw);
  const int64_t k = s.depth(), lanes = conv_direct_loops().lanes(t);
  const int64_t width = divide_up(s.out_channels, lanes) * lanes;
  // Cut the batch into parts with separate sums, as many as the memory allows. If these are too few
  // for the threads, cut the products, too.
  const int64_t bytes = s.groups * k * width * dtype_size(t);
  const ShiftPlan plan = plan_of_sums(s, bytes);
  const int64_t chunks = s.batch * divide_up(plan.positions, plan.chunk);
  const int64_t most =
      plan.chunk < plan.positions
          ? std::min(kSmallParts, chunks)
          : std::min({kTasks, s.batch, 1 + s.batch * s.out_size() / kPartPositions});
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
      for (int64_t n = chunks * part / parts; n < chunks * (part + 1) / parts; ++n)
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
