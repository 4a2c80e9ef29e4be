// SPDX-License-Identifier: BSD-3-Clause
// Computes convolutions as matrix products over tiles of columns.
#include "kernels/conv/conv.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/conv/conv_columns.h"
#include "kernels/conv/conv_direct.h"
#include "kernels/conv/conv_few.h"
#include "kernels/conv/conv_onednn.h"
#include "kernels/libraries/library.h"
#include "kernels/product/gemm.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kTileBytes = 384 << 10;  // bytes of columns per tile, which stays in the cache
constexpr int64_t kMinTile = 64, kMaxTile = 2048;
constexpr int64_t kSmallImage = 192;  // number of positions below which a tile has several images
constexpr int64_t kTasks = 16;        // number of tasks that work should be cut into

using Buffer = std::unique_ptr<char[]>;
Buffer buffer(int64_t elements, DType t) {
  return Buffer(new char[static_cast<size_t>(elements * dtype_size(t))]);
}

// Ranges of positions: each lies within one image or consists of whole images.
struct Tiles {
  int64_t images = 1;  // per tile
  int64_t length = 0, per_image = 1;
  int64_t count = 0;
  bool whole = false;  // true if tiles consist of whole images

  Tiles(const ConvShape& s, int64_t rows, DType t) {
    const int64_t p = s.out_size();
    const int64_t fits = kTileBytes / std::max<int64_t>(1, rows * dtype_size(t));
    const int64_t wanted = std::clamp(fits, kMinTile, kMaxTile);
    if (p < kSmallImage && s.batch > 1) {
      whole = true;
      images = std::clamp<int64_t>(std::max(wanted, kSmallImage) / p, 1, s.batch);
      length = images * p;
      count = divide_up(s.batch, images);
    } else {
      per_image = divide_up(p, wanted);
      length = divide_up(divide_up(p, per_image), 16) * 16;
      per_image = divide_up(p, length);
      count = s.batch * per_image;
    }
  }
  int64_t first(const ConvShape& s, int64_t i) const {
    const int64_t p = s.out_size();
    return whole ? i * length : i / per_image * p + i % per_image * length;
  }
  int64_t last(const ConvShape& s, int64_t i) const {
    const int64_t p = s.out_size();
    if (whole) return std::min((i + 1) * length, s.batch * p);
    return std::min(first(s, i) + length, (i / per_image + 1) * p);
  }
};

// Holds the rows of y, or of its gradient, for a tile: in the array itself, or gathered from
// several images.
class TileOfOutput {
 public:
  TileOfOutput(DType t, const ConvShape& s, const Tiles& tiles)
      : t_(t), s_(s), whole_(tiles.whole) {
    if (whole_) room_ = buffer(s.out_channels * tiles.length, t);
  }
  void seek(int64_t group, int64_t first, int64_t last) {
    group_ = group;
    image_ = first / s_.out_size();
    count_ = last - first;
    start_ =
        ((image_ * s_.groups + group) * s_.out_channels) * s_.out_size() + first % s_.out_size();
  }
  int64_t ld() const { return whole_ ? count_ : s_.out_size(); }
  // Returns the rows for reading; gathers them if the tile has several images.
  const char* read(const void* y) {
    const char* from = static_cast<const char*>(y);
    if (!whole_) return from + start_ * dtype_size(t_);
    each_row([&](int64_t outside, int64_t inside, size_t bytes) {
      std::memcpy(room_.get() + inside, from + outside, bytes);
    });
    return room_.get();
  }
  char* place(void* y) {
    return whole_ ? room_.get() : static_cast<char*>(y) + start_ * dtype_size(t_);
  }
  void write(void* y) {
    if (!whole_) return;
    each_row([&](int64_t outside, int64_t inside, size_t bytes) {
      std::memcpy(static_cast<char*>(y) + outside, room_.get() + inside, bytes);
    });
  }

 private:
  template <class F>
  void each_row(F&& f) {
    const int64_t item = dtype_size(t_), p = s_.out_size();
    for (int64_t i = 0; i < count_ / p; ++i)
      for (int64_t o = 0; o < s_.out_channels; ++o)
        f((((image_ + i) * s_.groups + group_) * s_.out_channels + o) * p * item,
          (o * count_ + i * p) * item, static_cast<size_t>(p * item));
  }
  DType t_;
  const ConvShape& s_;
  bool whole_;
  Buffer room_;
  int64_t group_ = 0, image_ = 0, count_ = 0, start_ = 0;
};

const char* at(DType t, const void* p, int64_t i) {
  return static_cast<const char*>(p) + i * dtype_size(t);
}
char* at(DType t, void* p, int64_t i) { return static_cast<char*>(p) + i * dtype_size(t); }

// Writes n copies of one element.
void fill(DType t, char* to, const char* value, int64_t n) {
  const auto item = static_cast<size_t>(dtype_size(t));
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + static_cast<size_t>(i) * item, value, item);
}

bool by_onednn() { return chosen_library(Operation::convolution) == Library::onednn; }

int64_t image_stride(const ConvShape& s) { return s.groups * s.in_channels * s.in_size(); }

void forward_tile(DType t, const ConvShape& s, int64_t group, int64_t first, int64_t last,
                  const void* x, const void* w, const void* bias, char* cols, TileOfOutput& tile,
                  void* y) {
  const int64_t k = s.depth(), n = last - first;
  read_columns(t, s, column_runs(s, first, last), at(t, x, group * s.in_channels * s.in_size()),
               image_stride(s), 0, s.in_channels, cols, n);
  tile.seek(group, first, last);
  char* out = tile.place(y);
  if (bias != nullptr)
    for (int64_t o = 0; o < s.out_channels; ++o)
      fill(t, at(t, out, o * tile.ld()), at(t, bias, group * s.out_channels + o), n);
  gemm_here(t, false, false, s.out_channels, n, k, at(t, w, group * s.out_channels * k), k, cols, n,
            bias != nullptr, out, tile.ld());
  tile.write(y);
}

}  // namespace

void conv_forward(DType t, const ConvShape& s, const void* x, const void* w, const void* bias,
                  void* y) {
  COGRAD_SLOT(conv_forward, t, s, x, w, bias, y);
  HeavyScope heavy(static_cast<int64_t>(std::min(s.work() / 8, 1e15)));
  if (by_onednn() && onednn_conv_forward(t, s, x, w, bias, y)) return;
  if (few_forward_suits(t, s)) return few_forward(t, s, x, w, bias, y);
  if (direct_forward_suits(t, s)) return direct_forward(t, s, x, w, bias, y);
  const Tiles tiles(s, s.depth(), t);
  parallel_for(0, s.groups * tiles.count, 1, [&](int64_t lo, int64_t hi) {
    const Buffer cols = buffer(s.depth() * tiles.length, t);
    TileOfOutput tile(t, s, tiles);
    for (; lo < hi; ++lo) {
      const int64_t i = lo % tiles.count;
      forward_tile(t, s, lo / tiles.count, tiles.first(s, i), tiles.last(s, i), x, w, bias,
                   cols.get(), tile, y);
    }
  });
}

void conv_input_grad(DType t, const ConvShape& s, const void* g, const void* w, void* gx) {
  COGRAD_SLOT(conv_input_grad, t, s, g, w, gx);
  HeavyScope heavy(static_cast<int64_t>(std::min(s.work() / 8, 1e15)));
  if (by_onednn() && onednn_conv_input_grad(t, s, g, w, gx)) return;
  if (direct_input_grad_suits(t, s)) return direct_input_grad(t, s, g, w, gx);
  std::memset(gx, 0, static_cast<size_t>(s.batch * image_stride(s) * dtype_size(t)));
  if (s.in_channels == 0 || s.batch == 0) return;
  const Tiles tiles(s, s.depth(), t);
  // Tiles of one image add to the same elements, so one task processes all of them.
  const int64_t parts = tiles.whole ? tiles.count : s.batch;
  const int64_t blocks = std::clamp<int64_t>(kTasks / (parts * s.groups), 1, s.in_channels);
  const int64_t block = divide_up(s.in_channels, blocks);
  const int64_t k = s.depth(), taps = s.taps();
  parallel_for(0, parts * s.groups * blocks, 1, [&](int64_t lo, int64_t hi) {
    const Buffer cols = buffer(block * taps * tiles.length, t);
    TileOfOutput tile(t, s, tiles);
    for (; lo < hi; ++lo) {
      const int64_t c0 = lo % blocks * block, c1 = std::min(c0 + block, s.in_channels);
      const int64_t part = lo / blocks / s.groups, group = lo / blocks % s.groups;
      if (c0 >= c1) continue;
      for (int64_t i = part * tiles.per_image; i < (part + 1) * tiles.per_image; ++i) {
        const int64_t first = tiles.first(s, i), last = tiles.last(s, i), n = last - first;
        tile.seek(group, first, last);
        gemm_here(t, true, false, (c1 - c0) * taps, n, s.out_channels,
                  at(t, w, group * s.out_channels * k + c0 * taps), k, tile.read(g), tile.ld(),
                  false, cols.get(), n);
        add_columns(t, s, column_runs(s, first, last), cols.get(), n, c0, c1,
                    at(t, gx, group * s.in_channels * s.in_size()), image_stride(s));
      }
    }
  });
}

void conv_weight_grad(DType t, const ConvShape& s, const void* g, const void* x, void* gw) {
  COGRAD_SLOT(conv_weight_grad, t, s, g, x, gw);
  HeavyScope heavy(static_cast<int64_t>(std::min(s.work() / 8, 1e15)));
  if (by_onednn() && onednn_conv_weight_grad(t, s, g, x, gw)) return;
  if (direct_weight_grad_suits(t, s)) return direct_weight_grad(t, s, g, x, gw);
  const int64_t k = s.depth(), taps = s.taps();
  if (s.batch == 0 || k == 0) {
    std::memset(gw, 0, static_cast<size_t>(s.groups * s.out_channels * k * dtype_size(t)));
    return;
  }
  const int64_t blocks = std::clamp<int64_t>(divide_up(kTasks, s.groups), 1, s.in_channels);
  const int64_t block = divide_up(s.in_channels, blocks);
  const Tiles tiles(s, block * taps, t);
  parallel_for(0, s.groups * blocks, 1, [&](int64_t lo, int64_t hi) {
    const Buffer cols = buffer(block * taps * tiles.length, t);
    TileOfOutput tile(t, s, tiles);
    for (; lo < hi; ++lo) {
      const int64_t group = lo / blocks, c0 = lo % blocks * block;
      const int64_t c1 = std::min(c0 + block, s.in_channels);
      if (c0 >= c1) continue;
      for (int64_t i = 0; i < tiles.count; ++i) {
        const int64_t first = tiles.first(s, i), last = tiles.last(s, i), n = last - first;
        read_columns(t, s, column_runs(s, first, last),
                     at(t, x, group * s.in_channels * s.in_size()), image_stride(s), c0, c1,
                     cols.get(), n);
        tile.seek(group, first, last);
        gemm_here(t, false, true, s.out_channels, (c1 - c0) * taps, n, tile.read(g), tile.ld(),
                  cols.get(), n, i > 0, at(t, gw, group * s.out_channels * k + c0 * taps), k);
      }
    }
  });
}

}  // namespace cograd::kernels
