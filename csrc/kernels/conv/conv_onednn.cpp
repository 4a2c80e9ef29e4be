// SPDX-License-Identifier: BSD-3-Clause
// Cuts convolutions into pieces; oneDNN computes each piece on one thread of the pool.
#include "kernels/conv/conv_onednn.h"

#include <algorithm>
#include <vector>

#include "kernels/libraries/onednn_plan.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

using onednn::Buffer;
using onednn::Kind;
using onednn::Piece;
using onednn::Plan;
using onednn::Runner;

constexpr int64_t kTasks = 8;                  // number of tasks that work is cut into
constexpr int64_t kPieceBytes = 2 << 20;       // limit for the images of a piece with several
constexpr int64_t kChannelBlock = 16;          // channels are cut at multiples of this
constexpr int64_t kSumBytes = 8 << 20;         // bytes of sums for parts of the batch
constexpr double kTaskWork = double{1 << 20};  // multiplications per task

bool suits(DType t, const ConvShape& s) {
  return t == DType::Float32 && s.batch > 0 && s.groups > 0 && s.in_channels > 0 &&
         s.out_channels > 0 && s.out_size() > 0 && s.in_size() > 0 && s.taps() > 0;
}

// Describes a range that is cut into equal parts; the last part may be shorter.
struct Cut {
  int64_t size = 0, part = 1;
  Cut(int64_t n, int64_t parts, int64_t multiple = 1)
      : size(n), part(divide_up(divide_up(n, std::max<int64_t>(1, parts)), multiple) * multiple) {}
  int64_t parts() const { return divide_up(size, part); }
  int64_t first(int64_t i) const { return i * part; }
  int64_t count(int64_t i) const { return std::min(part, size - i * part); }
};

// Defines how a convolution is cut: by its images, and by its groups or, if it has one group, by
// the channels of its result. This depends on the shape alone.
struct Pieces {
  const ConvShape& s;
  Kind kind;
  bool bias;
  Cut images, channels;

  Pieces(Kind k, const ConvShape& shape, bool with_bias)
      : s(shape), kind(k), bias(with_bias), images(shape.batch, 1), channels(1, 1) {
    const int64_t x = s.groups * s.in_channels * s.in_size();
    const int64_t y = s.groups * s.out_channels * s.out_size();
    const int64_t w = s.groups * s.out_channels * s.depth();
    const int64_t total = s.groups > 1            ? s.groups
                          : k == Kind::input_grad ? s.in_channels
                                                  : s.out_channels;
    const auto tasks =
        static_cast<int64_t>(std::clamp(s.work() / kTaskWork, 1.0, static_cast<double>(kTasks)));
    // Each part of the batch reads all weights, and each part of the channels reads all images.
    const int64_t read = s.groups > 1 ? 0 : k == Kind::input_grad ? y : x;
    double best = -1;
    for (int64_t parts = 1; parts <= kTasks; parts *= 2) {
      const Cut by_image(s.batch, parts);
      const Cut by_channel(total, divide_up(tasks, by_image.parts()), kChannelBlock);
      const bool enough = by_image.parts() * by_channel.parts() >= tasks;
      if (k == Kind::weight_grad && parts > 1 && by_image.parts() * w * 4 > kSumBytes) break;
      const double cost = static_cast<double>(by_image.parts() * w) +
                          static_cast<double>(by_channel.parts() * read * s.batch) +
                          (enough ? 0.0 : 1e18 / static_cast<double>(by_image.parts()));
      if (best >= 0 && cost >= best) continue;
      best = cost;
      images = by_image;
      channels = by_channel;
    }
    if (k != Kind::weight_grad && (x + y) * 4 * images.part > kPieceBytes)
      images = Cut(s.batch, divide_up(s.batch, std::max<int64_t>(1, kPieceBytes / ((x + y) * 4))));
  }

  Piece piece(int64_t image, int64_t channel) const {
    Piece p;
    p.kind = kind;
    p.bias = bias;
    p.shape = s;
    p.shape.batch = images.count(image);
    int64_t& cut = s.groups > 1               ? p.shape.groups
                   : kind == Kind::input_grad ? p.shape.in_channels
                                              : p.shape.out_channels;
    cut = channels.parts() == 1 ? cut : channels.count(channel);
    p.x_step = s.groups * s.in_channels * s.in_size();
    p.y_step = s.groups * s.out_channels * s.out_size();
    p.w_step = s.depth();
    return p;
  }
  // These return the number of elements before a piece in x, y, weights and bias.
  int64_t at_x(int64_t image, int64_t channel) const {
    const int64_t c = channels.first(channel);
    const int64_t skipped = s.groups > 1 ? c * s.in_channels : kind == Kind::input_grad ? c : 0;
    return (images.first(image) * s.groups * s.in_channels + skipped) * s.in_size();
  }
  int64_t at_y(int64_t image, int64_t channel) const {
    return images.first(image) * s.groups * s.out_channels * s.out_size() +
           at_bias(channel) * s.out_size();
  }
  int64_t at_w(int64_t channel) const {
    const int64_t c = channels.first(channel);
    if (s.groups > 1) return c * s.out_channels * s.depth();
    return c * (kind == Kind::input_grad ? s.taps() : s.depth());
  }
  int64_t at_bias(int64_t channel) const {
    const int64_t c = channels.first(channel);
    return s.groups > 1 ? c * s.out_channels : kind == Kind::input_grad ? 0 : c;
  }
};

// Holds the plans of a grid of pieces: the last piece in each direction may be smaller.
struct Plans {
  std::shared_ptr<const Plan> of[2][2];
  explicit Plans(const Pieces& p) {
    const int64_t last_image = p.images.parts() - 1, last_channel = p.channels.parts() - 1;
    for (int i = 0; i < 2; ++i)
      for (int c = 0; c < 2; ++c)
        of[i][c] = onednn::plan_of(p.piece(i * last_image, c * last_channel));
    images = last_image;
    channels = last_channel;
  }
  bool exist() const {
    return of[0][0] != nullptr && of[0][1] != nullptr && of[1][0] != nullptr && of[1][1] != nullptr;
  }
  const Plan& at(int64_t image, int64_t channel) const {
    return *of[image == images][channel == channels];
  }
  int64_t images, channels;
};

// Computes y or the gradient with respect to x; lays out the weights of each part of the channels
// once.
bool by_weights(const Pieces& p, const float* input, const float* w, const float* bias,
                float* result) {
  const Plans plans(p);
  if (!plans.exist()) return false;
  const int64_t channels = p.channels.parts();
  std::vector<Buffer> buffers(static_cast<size_t>(channels));
  std::vector<const void*> weights(static_cast<size_t>(channels));
  parallel_for(0, channels, 1, [&](int64_t lo, int64_t hi) {
    Runner runner;
    for (; lo < hi; ++lo)
      weights[static_cast<size_t>(lo)] =
          runner.convert(plans.at(0, lo).second, w + p.at_w(lo), buffers[static_cast<size_t>(lo)]);
  });
  const bool forward = p.kind == Kind::forward;
  parallel_for(0, p.images.parts() * channels, 1, [&](int64_t lo, int64_t hi) {
    Runner runner;
    for (; lo < hi; ++lo) {
      const int64_t i = lo / channels, c = lo % channels;
      const int64_t x = p.at_x(i, c), y = p.at_y(i, c);
      const Plan& plan = plans.at(i, c);
      const void* b = weights[static_cast<size_t>(c)];
      Buffer own;
      // A smaller piece may need the weights in another layout.
      if (onednn::api().layout_equal(plan.second.wanted, plans.at(0, c).second.wanted) == 0)
        b = runner.convert(plan.second, w + p.at_w(c), own);
      runner.run(plan, input + (forward ? x : y), b,
                 bias == nullptr ? nullptr : bias + p.at_bias(c), result + (forward ? y : x));
    }
  });
  return true;
}

}  // namespace

bool onednn_conv_forward(DType t, const ConvShape& s, const void* x, const void* w,
                         const void* bias, void* y) {
  if (!suits(t, s)) return false;
  return by_weights(Pieces(Kind::forward, s, bias != nullptr), static_cast<const float*>(x),
                    static_cast<const float*>(w), static_cast<const float*>(bias),
                    static_cast<float*>(y));
}

bool onednn_conv_input_grad(DType t, const ConvShape& s, const void* g, const void* w, void* gx) {
  if (!suits(t, s)) return false;
  return by_weights(Pieces(Kind::input_grad, s, false), static_cast<const float*>(g),
                    static_cast<const float*>(w), nullptr, static_cast<float*>(gx));
}

bool onednn_conv_weight_grad(DType t, const ConvShape& s, const void* g, const void* x, void* gw) {
  if (!suits(t, s)) return false;
  const Pieces p(Kind::weight_grad, s, false);
  const Plans plans(p);
  if (!plans.exist()) return false;
  const int64_t channels = p.channels.parts(), parts = p.images.parts();
  const int64_t size = s.groups * s.out_channels * s.depth();
  // The first part of the batch writes gw; each other part writes its own sum, which is added last.
  std::vector<float> sums(static_cast<size_t>((parts - 1) * size));
  float* to = static_cast<float*>(gw);
  parallel_for(0, parts * channels, 1, [&](int64_t lo, int64_t hi) {
    Runner runner;
    Buffer buffer;
    for (; lo < hi; ++lo) {
      const int64_t i = lo / channels, c = lo % channels;
      const Plan& plan = plans.at(i, c);
      const void* b =
          runner.convert(plan.second, static_cast<const float*>(g) + p.at_y(i, c), buffer);
      float* place = i == 0 ? to : sums.data() + (i - 1) * size;
      runner.run(plan, static_cast<const float*>(x) + p.at_x(i, c), b, nullptr, place + p.at_w(c));
    }
  });
  parallel_for(0, size, 1 << 14, [&](int64_t lo, int64_t hi) {
    for (int64_t part = 0; part < parts - 1; ++part) {
      const float* from = sums.data() + part * size;
      for (int64_t i = lo; i < hi; ++i) to[i] += from[i];
    }
  });
  return true;
}

}  // namespace cograd::kernels
