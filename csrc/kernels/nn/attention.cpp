// SPDX-License-Identifier: BSD-3-Clause
// Divides attention among threads: forward into blocks of rows, backward into matrices of keys and
// parts of rows.
#include "kernels/nn/attention.h"

#include <algorithm>
#include <forward_list>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/core/aligned.h"
#include "kernels/core/isa.h"
#include "kernels/nn/attention_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(AttentionLoops, attention_loops)

namespace {

constexpr int64_t kBlockWork = 1 << 18;  // multiplications per task
constexpr int64_t kPackedBytes = 32 << 20;
constexpr int64_t kPackGrain = 1 << 17;  // bytes of packed keys and values per task
constexpr int64_t kParts = 8;            // minimum number of tasks of a backward pass

int64_t blocks_of(const Attention& a) { return (a.rows + kAttentionRows - 1) / kAttentionRows; }
int64_t work_of(const Attention& a) {
  return std::min(a.rows, kAttentionRows) * a.keys * (a.size + a.value_size);
}

template <class T>
void add_rows(const T* from, int64_t rows, int64_t n, T* to, int64_t step) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) to[i * step + j] += from[i * n + j];
}
template <class T>
T* at(const Matrices& m, int64_t i) {
  return static_cast<T*>(const_cast<void*>(m.data)) + m.offsets[i];
}

// Returns where each matrix begins. Those of keys have `group` times fewer in the last leading dim.
std::vector<int64_t> offsets_of(const Attention& a, const int64_t* steps, int64_t group) {
  std::vector<int64_t> all{0};
  for (int d = 0; d < a.dims; ++d) {
    const int64_t size = d == a.dims - 1 ? a.sizes[d] / group : a.sizes[d];
    std::vector<int64_t> wider;
    for (const int64_t at : all)
      for (int64_t i = 0; i < size; ++i) wider.push_back(at + i * steps[d]);
    all = std::move(wider);
  }
  return all;
}
// Operands with the offsets of their matrices.
class Located {
 public:
  explicit Located(const Attention& a) : attention_(a) {
    attention_.q = queries(a.q);
    attention_.k = keys(a.k);
    attention_.v = keys(a.v);
    if (a.mask.data != nullptr) attention_.mask.offsets = kept(a.mask.steps, 1);
  }
  Located(const Located&) = delete;
  Located& operator=(const Located&) = delete;
  const Attention& attention() const { return attention_; }
  Matrices queries(Matrices m) { return with_offsets(m, 1); }
  Matrices keys(Matrices m) { return with_offsets(m, attention_.group); }

 private:
  Matrices with_offsets(Matrices m, int64_t group) {
    m.offsets = kept(m.steps, group);
    return m;
  }
  const int64_t* kept(const int64_t* steps, int64_t group) {
    return lists_.emplace_front(offsets_of(attention_, steps, group)).data();
  }

  Attention attention_;
  std::forward_list<std::vector<int64_t>> lists_;
};

template <class T>
void clear(const Matrices& m, int64_t count, int64_t rows, int64_t size) {
  parallel_for(0, count * rows, std::max<int64_t>(1, kPackGrain / size),
               [&](int64_t lo, int64_t hi) {
                 for (; lo < hi; ++lo)
                   std::fill_n(at<T>(m, lo / rows) + lo % rows * m.row_step, size, T(0));
               });
}

template <class T>
void backward_parts(DType t, const Attention& a, const Matrices& out, const Matrices& g,
                    const void* stats, const Matrices& gq, const Matrices& gk, const Matrices& gv) {
  const auto loop = attention_loops().backward;
  const int64_t heads = a.count / a.group, blocks = blocks_of(a) * a.group;
  const int64_t parts = std::min(blocks, (kParts + heads - 1) / heads);
  clear<T>(gq, a.count, a.rows, a.size);
  clear<T>(gk, heads, a.keys, a.size);
  clear<T>(gv, heads, a.keys, a.value_size);
  if (parts == 1) {
    parallel_for(0, heads, 1, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo)
        loop(t, a, out, g, stats, gq, lo, 0, blocks, at<T>(gk, lo), gk.row_step, at<T>(gv, lo),
             gv.row_step);
    });
    return;
  }
  // Each part has separate sums, which are added in order.
  const int64_t room = a.keys * (a.size + a.value_size);
  const std::unique_ptr<T[]> sums(new T[static_cast<size_t>(heads * parts * room)]());
  parallel_for(0, heads * parts, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t p = lo % parts;
      T* own = sums.get() + lo * room;
      loop(t, a, out, g, stats, gq, lo / parts, blocks * p / parts, blocks * (p + 1) / parts, own,
           a.size, own + a.keys * a.size, a.value_size);
    }
  });
  parallel_for(0, heads, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo)
      for (int64_t p = 0; p < parts; ++p) {
        const T* own = sums.get() + (lo * parts + p) * room;
        add_rows(own, a.keys, a.size, at<T>(gk, lo), gk.row_step);
        add_rows(own + a.keys * a.size, a.keys, a.value_size, at<T>(gv, lo), gv.row_step);
      }
  });
}

}  // namespace

void attention_factors(const Attention& a, int64_t row, int64_t first, int64_t n, float* out) {
  const double keep = 1 - a.dropout;
  const auto limit = static_cast<uint64_t>(keep * 4294967296.0);
  const auto factor = keep > 0 ? static_cast<float>(1 / keep) : 0.0f;
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(a.random.seed),
                                    static_cast<uint32_t>(a.random.seed >> 32)};
  uint64_t block = a.random.offset + static_cast<uint64_t>(row * a.dropout_blocks() + first / 4);
  for (int64_t i = 0; i < n; i += 4, ++block) {
    const auto bits =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, key);
    for (int64_t j = 0; j < 4 && i + j < n; ++j)
      out[i + j] = bits[static_cast<size_t>(j)] < limit ? factor : 0.0f;
  }
}

std::optional<DType> attention_dtype(DType t, int64_t size, int64_t value_size) {
  COGRAD_SLOT_OR(wide_dtype(t), attention_dtype, t, size, value_size);
  return wide_dtype(t);
}

void attention_forward(DType t, const Attention& given, const Matrices& to, void* stats) {
  COGRAD_SLOT(attention_forward, t, given, to, stats);
  Located located(given);
  const Attention& a = located.attention();
  const Matrices out = located.queries(to);
  const AttentionLoops loops = attention_loops();
  const int64_t heads = a.count / a.group, rows = blocks_of(a) * a.group;
  const HeavyScope heavy(heads * rows * work_of(a));
  const int64_t grain = std::max<int64_t>(1, kBlockWork / work_of(a));
  const int64_t blocks = (a.keys + kAttentionKeys - 1) / kAttentionKeys;
  const int64_t bytes = loops.elements(t, a) * dtype_size(t);
  // All tasks share packed keys and values, of as many heads at a time as the memory allows.
  const int64_t most = std::clamp<int64_t>(kPackedBytes / std::max<int64_t>(1, bytes), 1,
                                           std::max<int64_t>(1, heads));
  const AlignedArray<char> packed = aligned_array<char>(most * bytes);
  for (int64_t head = 0; head < heads; head += most) {
    const int64_t count = std::min(most, heads - head);
    parallel_for(
        0, count * blocks, std::max<int64_t>(1, kPackGrain * blocks / std::max<int64_t>(1, bytes)),
        [&](int64_t lo, int64_t hi) {
          for (; lo < hi; ++lo)
            loops.pack(t, a, head + lo / blocks, lo % blocks, packed.get() + lo / blocks * bytes);
        });
    parallel_for(head * rows, (head + count) * rows, grain, [&](int64_t lo, int64_t hi) {
      loops.forward(t, a, packed.get(), head, out, stats, lo, hi);
    });
  }
}

void attention_backward(DType t, const Attention& given, const Matrices& out, const Matrices& g,
                        const void* stats, const Matrices& gq, const Matrices& gk,
                        const Matrices& gv) {
  COGRAD_SLOT(attention_backward, t, given, out, g, stats, gq, gk, gv);
  Located located(given);
  const Attention& a = located.attention();
  const HeavyScope heavy(2 * a.count * blocks_of(a) * work_of(a));
  const auto run = t == DType::Float64 ? backward_parts<double> : backward_parts<float>;
  run(t, a, located.queries(out), located.queries(g), stats, located.queries(gq), located.keys(gk),
      located.keys(gv));
}

void attention_keep(DType t, const Attention& a, void* out) {
  COGRAD_SLOT(attention_keep, t, a, out);
  const std::unique_ptr<float[]> row(new float[static_cast<size_t>(a.keys)]);
  for (int64_t i = 0; i < a.count * a.rows; ++i) {
    attention_factors(a, i, 0, a.keys, row.get());
    for (int64_t j = 0; j < a.keys; ++j) {
      const int64_t at = i * a.keys + j;
      if (t == DType::Float64)
        static_cast<double*>(out)[at] = static_cast<double>(row[static_cast<size_t>(j)]);
      else
        static_cast<float*>(out)[at] = row[static_cast<size_t>(j)];
    }
  }
}

}  // namespace cograd::kernels
