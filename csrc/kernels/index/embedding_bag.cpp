// SPDX-License-Identifier: BSD-3-Clause
// Loops of embedding_bag: forward divides work by bags, backward by ranges of the table's rows.
#include "kernels/index/embedding_bag.h"

#include <algorithm>
#include <vector>

#include "kernels/core/element.h"
#include "kernels/core/floating.h"
#include "kernels/index/index_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

constexpr int64_t kGrain = 1 << 14;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
class Loops {
 public:
  using W = Wide<T>;
  Loops(const Bags& b, const T* table) : b_(b), table_(table) {}

  void forward(T* out, int64_t* sizes, int64_t* at) const {
    const int64_t total = b_.offsets[b_.count] - b_.offsets[0];
    const HeavyScope heavy(total * b_.width);
    const int64_t mean = total / std::max<int64_t>(1, b_.count) + 1;
    parallel_for(0, b_.count, std::max<int64_t>(1, kGrain / (mean * (b_.width + 1))),
                 [&](int64_t lo, int64_t hi) {
                   if (std::is_same_v<T, W>) {
                     for (; lo < hi; ++lo) sizes[lo] = quick_bag(lo, out + lo * b_.width, at);
                     return;
                   }
                   std::vector<W> sum(static_cast<size_t>(b_.width));
                   for (; lo < hi; ++lo) bag(lo, sum, out, sizes, at);
                 });
  }
  void backward(const T* g, const int64_t* sizes, const int64_t* at, bool by_freq, T* out) const {
    const int64_t first = b_.offsets[0], last = b_.offsets[b_.count];
    const HeavyScope heavy((last - first + b_.rows) * b_.width);
    std::vector<int64_t> bags(static_cast<size_t>(last - first)), seen;
    for (int64_t i = 0; i < b_.count; ++i)
      std::fill(bags.begin() + (b_.offsets[i] - first), bags.begin() + (b_.offsets[i + 1] - first),
                i);
    if (by_freq) {
      seen.assign(static_cast<size_t>(b_.rows), 0);
      for (int64_t k = first; k < last; ++k) ++seen[static_cast<size_t>(b_.index[k])];
    }
    // Use only a few ranges of rows, because each range scans all indices.
    const int64_t grain = std::max<int64_t>(b_.rows / 16 + 1, kGrain / (b_.width + 1));
    parallel_for(0, b_.rows, grain, [&](int64_t lo, int64_t hi) {
      std::vector<W> wide(std::is_same_v<T, W> ? 0 : static_cast<size_t>((hi - lo) * b_.width));
      W* sums = sums_of(wide, out, lo);
      std::fill_n(sums, (hi - lo) * b_.width, W(0));
      if (b_.mode == BagMode::Max)
        add_maxima(g, sizes, at, lo, hi, sums);
      else
        for (int64_t k = first; k < last; ++k) {
          const int64_t row = b_.index[k];
          if (row < lo || row >= hi || row == b_.padding) continue;
          const int64_t i = bags[static_cast<size_t>(k - first)];
          W scale = factor(k, sizes[i]);
          if (by_freq) scale /= static_cast<W>(seen[static_cast<size_t>(row)]);
          add(g + i * b_.width, scale, sums + (row - lo) * b_.width);
        }
      if constexpr (!std::is_same_v<T, W>)
        for (int64_t k = 0; k < (hi - lo) * b_.width; ++k) out[lo * b_.width + k] = T(sums[k]);
    });
  }
  void weights_backward(const T* g, T* out) const {
    for (int64_t i = 0; i < b_.count; ++i)
      for (int64_t k = b_.offsets[i]; k < b_.offsets[i + 1]; ++k) {
        W sum = 0;
        const T* row = table_ + b_.index[k] * b_.width;
        for (int64_t j = 0; j < b_.width; ++j)
          sum += static_cast<W>(row[j]) * static_cast<W>(g[i * b_.width + j]);
        out[k] = b_.index[k] == b_.padding ? T(0) : T(sum);
      }
  }

 private:
  static W* sums_of(std::vector<W>& wide, [[maybe_unused]] T* out, [[maybe_unused]] int64_t lo,
                    int64_t width) {
    if constexpr (std::is_same_v<T, W>)
      return out + lo * width;
    else
      return wide.data();
  }
  W* sums_of(std::vector<W>& wide, T* out, int64_t lo) const {
    return sums_of(wide, out, lo, b_.width);
  }
  W factor(int64_t k, int64_t size) const {
    if (b_.weights != nullptr) return static_cast<W>(static_cast<const T*>(b_.weights)[k]);
    return b_.mode == BagMode::Mean ? W(1) / static_cast<W>(std::max<int64_t>(size, 1)) : W(1);
  }
  void add(const T* from, W scale, W* to) const {
    for (int64_t j = 0; j < b_.width; ++j) to[j] += scale * static_cast<W>(from[j]);
  }
  W scale_of(int64_t size) const {
    return b_.mode == BagMode::Mean && size > 0 ? W(1) / static_cast<W>(size) : W(1);
  }
  // Computes the result of bag i and returns its size.
  int64_t quick_bag(int64_t i, [[maybe_unused]] T* to, [[maybe_unused]] int64_t* at) const {
    const int64_t first = b_.offsets[i], last = b_.offsets[i + 1];
    int64_t size = last - first;
    if (b_.padding >= 0)
      for (int64_t k = first; k < last; ++k) size -= b_.index[k] == b_.padding;
    const T* weights = b_.weights != nullptr ? static_cast<const T*>(b_.weights) + first : nullptr;
    [[maybe_unused]] const BagRows<T> rows{
        table_,     b_.width, b_.index + first, last - first, b_.offsets[b_.count] - first,
        b_.padding, weights};
    const IndexLoops& loops = index_loops();
    const auto fold = [&](auto sums, auto maxima) {
      if (b_.mode == BagMode::Max)
        maxima(rows, to, at + i * b_.width);
      else
        sums(rows, scale_of(size), to);
    };
    if constexpr (std::is_same_v<T, float>)
      fold(loops.sum_rows_float, loops.largest_rows_float);
    else if constexpr (std::is_same_v<T, double>)
      fold(loops.sum_rows_double, loops.largest_rows_double);
    return size;
  }
  void bag(int64_t i, std::vector<W>& sum, T* out, int64_t* sizes, int64_t* at) const {
    std::fill(sum.begin(), sum.end(), W(0));
    int64_t size = 0;
    for (int64_t k = b_.offsets[i]; k < b_.offsets[i + 1]; ++k) {
      const int64_t row = b_.index[k];
      if (row == b_.padding) continue;
      const T* from = table_ + row * b_.width;
      if (b_.mode == BagMode::Max)
        largest(from, row, size == 0, sum.data(), at + i * b_.width);
      else
        add(from, b_.weights != nullptr ? factor(k, 1) : W(1), sum.data());
      ++size;
    }
    sizes[i] = size;
    const W scale = scale_of(size);
    for (int64_t j = 0; j < b_.width; ++j)
      out[i * b_.width + j] = T(sum[static_cast<size_t>(j)] * scale);
  }
  void largest(const T* from, int64_t row, bool first, W* top, int64_t* at) const {
    for (int64_t j = 0; j < b_.width; ++j) {
      const W v = static_cast<W>(from[j]);
      if (!first && !(v > top[j])) continue;
      top[j] = v;
      at[j] = row;
    }
  }
  void add_maxima(const T* g, const int64_t* sizes, const int64_t* at, int64_t lo, int64_t hi,
                  W* sums) const {
    for (int64_t i = 0; i < b_.count; ++i) {
      if (sizes[i] == 0) continue;
      for (int64_t j = 0; j < b_.width; ++j) {
        const int64_t row = load_index(at + i * b_.width + j);
        if (row >= lo && row < hi)
          sums[(row - lo) * b_.width + j] += static_cast<W>(g[i * b_.width + j]);
      }
    }
  }

  const Bags& b_;
  const T* table_;
};

}  // namespace

void embedding_bag(DType t, const Bags& b, const void* table, void* out, int64_t* sizes,
                   int64_t* at) {
  COGRAD_SLOT(embedding_bag, t, b, table, out, sizes, at);
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Loops<T>(b, static_cast<const T*>(table)).forward(static_cast<T*>(out), sizes, at);
  });
}

void embedding_bag_backward(DType t, const Bags& b, const void* table, const void* g,
                            const int64_t* sizes, const int64_t* at, bool by_freq, void* gtable,
                            void* gweights) {
  COGRAD_SLOT(embedding_bag_backward, t, b, table, g, sizes, at, by_freq, gtable, gweights);
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Loops<T> loops(b, static_cast<const T*>(table));
    const T* grad = static_cast<const T*>(g);
    if (gtable != nullptr) loops.backward(grad, sizes, at, by_freq, static_cast<T*>(gtable));
    if (gweights != nullptr) loops.weights_backward(grad, static_cast<T*>(gweights));
  });
}

}  // namespace cograd::kernels
