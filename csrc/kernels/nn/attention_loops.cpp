// SPDX-License-Identifier: BSD-3-Clause
// Computes blocks of attention. Forward scores some rows against some keys and carries the softmax
// from block to block (the online normaliser of Milakov and Gimelshein). Backward starts from the
// rows' saved log-sums (as in FlashAttention-2).
#include "kernels/nn/attention_loops.h"

#include <limits>
#include <memory>

#include "kernels/core/vecmath.h"
#include "kernels/product/packed_gemm.h"

namespace cograd::kernels::COGRAD_ISA {

AttentionLoops attention_loops();

namespace {

constexpr int64_t kRows = kAttentionRows, kKeys = kAttentionKeys;

template <class T>
std::unique_ptr<T[]> room(int64_t n) {
  return std::unique_ptr<T[]>(new T[static_cast<size_t>(n)]);
}
template <class T>
T* matrix(const Matrices& m, int64_t n) {
  return static_cast<T*>(const_cast<void*>(m.data)) + m.offsets[n];
}

// Holds the keys of one matrix, packed block by block, both transposed and as rows.
template <class T>
class PackedKeys {
 public:
  PackedKeys(int64_t keys, int64_t size) : size_(size) {
    blocks_ = (keys + kKeys - 1) / kKeys;
    keys_ = keys;
  }
  void pack_columns(const T* data, int64_t step) {
    if (!columns_) columns_ = room<T>(blocks_ * column_room());
    for (int64_t b = 0; b < blocks_; ++b)
      pack(data + b * kKeys * step, 1, step, size_, length(b), columns_.get() + b * column_room());
  }
  void pack_rows(const T* data, int64_t step) {
    if (!rows_) rows_ = room<T>(blocks_ * row_room());
    for (int64_t b = 0; b < blocks_; ++b)
      pack(data + b * kKeys * step, step, 1, length(b), size_, rows_.get() + b * row_room());
  }
  const T* columns(int64_t b) const { return columns_.get() + b * column_room(); }
  const T* rows(int64_t b) const { return rows_.get() + b * row_room(); }
  int64_t length(int64_t b) const { return std::min(kKeys, keys_ - b * kKeys); }

 private:
  int64_t column_room() const { return packed_size<T>(size_, kKeys); }
  int64_t row_room() const { return packed_size<T>(kKeys, size_); }
  int64_t keys_, size_, blocks_;
  std::unique_ptr<T[]> columns_, rows_;
};

// The block of rows [first, first + rows) of matrix n and of keys [key, key + keys).
struct Block {
  int64_t n, first, rows, key, keys;
};

// Returns the number of keys that any row before `end` sees.
int64_t seen_keys(const Attention& a, int64_t end) {
  return a.causal ? std::min(a.keys, end) : a.keys;
}

// Scales a row of scores and masks it.
template <class T>
void mask_row(const Attention& a, const Block& b, int64_t i, T* s) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  const T scale = static_cast<T>(a.scale);
  for (int64_t j = 0; j < b.keys; ++j) s[j] *= scale;
  const int64_t row = b.first + i;
  if (a.causal)
    for (int64_t j = std::max<int64_t>(0, row + 1 - b.key); j < b.keys; ++j) s[j] = kNever;
  if (a.mask.data == nullptr) return;
  const int64_t step = a.mask.col_step;
  const int64_t at = a.mask.offsets[b.n] + row * a.mask.row_step + b.key * step;
  if (a.mask.truth) {
    const bool* m = static_cast<const bool*>(a.mask.data) + at;
    for (int64_t j = 0; j < b.keys; ++j) s[j] = m[j * step] ? s[j] : kNever;
  } else {
    const T* m = static_cast<const T*>(a.mask.data) + at;
    for (int64_t j = 0; j < b.keys; ++j) s[j] += m[j * step];
  }
}

template <class T>
void drop_row(const Attention& a, const Block& b, int64_t i, T* s) {
  float factors[kKeys];
  attention_factors(a, b.n * a.rows + b.first + i, b.key, b.keys, factors);
  for (int64_t j = 0; j < b.keys; ++j) s[j] *= static_cast<T>(factors[j]);
}

template <class T>
T largest(const T* s, int64_t n) {
  T m = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : m)
  for (int64_t j = 0; j < n; ++j) m = m > s[j] ? m : s[j];
  return m;
}
// Computes s = exp(s - shift) and returns the sum.
template <class T>
T exp_row(T* s, T shift, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    const T e = exp(s[j] - shift);
    s[j] = e;
    sum += e;
  }
  return sum;
}

template <class T>
class ForwardBlocks {
 public:
  ForwardBlocks(const Attention& a, const Matrices& out, T* lse)
      : a_(a),
        out_(out),
        lse_(lse),
        keys_(a.keys, a.size),
        values_(a.keys, a.value_size),
        scores_(room<T>(kRows * kKeys)) {}
  void run(int64_t lo, int64_t hi) {
    const int64_t blocks = (a_.rows + kRows - 1) / kRows;
    for (; lo < hi; ++lo) {
      const int64_t n = lo / blocks, owner = n / a_.group;
      if (owner != packed_) {
        packed_ = owner;
        keys_.pack_columns(matrix<T>(a_.k, owner), a_.k.row_step);
        values_.pack_rows(matrix<T>(a_.v, owner), a_.v.row_step);
      }
      rows(n, lo % blocks * kRows);
    }
  }

 private:
  void rows(int64_t n, int64_t first) {
    const int64_t count = std::min(kRows, a_.rows - first), width = a_.value_size;
    const T* q = matrix<T>(a_.q, n) + first * a_.q.row_step;
    T* out = matrix<T>(out_, n) + first * out_.row_step;
    T top[kRows], sum[kRows];
    for (int64_t i = 0; i < count; ++i) {
      top[i] = -std::numeric_limits<T>::infinity();
      sum[i] = 0;
      std::fill_n(out + i * out_.row_step, width, T(0));
    }
    const int64_t seen = seen_keys(a_, first + count);
    for (int64_t key = 0; key < seen; key += kKeys) {
      const int64_t b = key / kKeys;
      const Block block{n, first, count, key, std::min(keys_.length(b), seen - key)};
      gemm_packed<T, false>(count, block.keys, a_.size, q, a_.q.row_step, 1, keys_.columns(b),
                            scores_.get(), kKeys);
      for (int64_t i = 0; i < count; ++i) carry(block, i, top[i], sum[i], out + i * out_.row_step);
      // Only block.keys packed rows are used: the rows behind the visible keys don't matter.
      add_values(block, b, out);
    }
    for (int64_t i = 0; i < count; ++i)
      finish(n * a_.rows + first + i, top[i], sum[i], out + i * out_.row_step);
  }
  void add_values(const Block& block, int64_t b, T* out) {
    const int64_t length = values_.length(b);
    for (int64_t i = 0; i < block.rows; ++i)
      std::fill(scores_.get() + i * kKeys + block.keys, scores_.get() + i * kKeys + length, T(0));
    gemm_packed<T, true>(block.rows, a_.value_size, length, scores_.get(), kKeys, 1,
                         values_.rows(b), out, out_.row_step);
  }
  // Turns a row's scores into weights relative to its largest score so far.
  void carry(const Block& block, int64_t i, T& top, T& sum, T* out) {
    constexpr T kNever = -std::numeric_limits<T>::infinity();
    T* s = scores_.get() + i * kKeys;
    mask_row(a_, block, i, s);
    const T now = std::max(top, largest(s, block.keys));
    const T shift = now == kNever ? T(0) : now;
    const T part = exp_row(s, shift, block.keys);
    if (now != top) {
      const T fade = top == kNever ? T(0) : exp(top - now);
      sum *= fade;
      for (int64_t j = 0; j < a_.value_size; ++j) out[j] *= fade;
      top = now;
    }
    sum += part;
    if (a_.dropout > 0) drop_row(a_, block, i, s);
  }
  void finish(int64_t row, T top, T sum, T* out) {
    const bool blind = sum == T(0);
    lse_[row] = blind ? std::numeric_limits<T>::infinity() : top + log(sum);
    const T scale = blind ? T(0) : T(1) / sum;
    for (int64_t j = 0; j < a_.value_size; ++j) out[j] *= scale;
  }

  const Attention& a_;
  const Matrices& out_;
  T* lse_;
  int64_t packed_ = -1;
  PackedKeys<T> keys_, values_;
  std::unique_ptr<T[]> scores_;
};

template <class T>
class BackwardBlocks {
 public:
  BackwardBlocks(const Attention& a, const Matrices& out, const Matrices& g, const T* lse,
                 const Matrices& gq, int64_t of_keys)
      : a_(a),
        out_(out),
        g_(g),
        lse_(lse),
        gq_(gq),
        keys_(a.keys, a.size),
        values_(a.keys, a.value_size),
        weights_(room<T>(kRows * kKeys)),
        slopes_(room<T>(kRows * kKeys)),
        q_(room<T>(packed_size<T>(kRows, a.size))),
        gp_(room<T>(packed_size<T>(kRows, a.value_size))),
        of_keys_(of_keys) {
    const T* k = matrix<T>(a.k, of_keys);
    keys_.pack_columns(k, a.k.row_step);
    keys_.pack_rows(k, a.k.row_step);
    values_.pack_columns(matrix<T>(a.v, of_keys), a.v.row_step);
  }
  void run(int64_t lo, int64_t hi, T* gk, int64_t gk_step, T* gv, int64_t gv_step) {
    const int64_t blocks = (a_.rows + kRows - 1) / kRows;
    for (; lo < hi; ++lo)
      rows(of_keys_ * a_.group + lo / blocks, lo % blocks * kRows, gk, gk_step, gv, gv_step);
  }

 private:
  void rows(int64_t n, int64_t first, T* gk, int64_t gk_step, T* gv, int64_t gv_step) {
    const int64_t count = std::min(kRows, a_.rows - first), size = a_.size, wide = a_.value_size;
    const T* q = matrix<T>(a_.q, n) + first * a_.q.row_step;
    const T* g = matrix<T>(g_, n) + first * g_.row_step;
    T* gq = matrix<T>(gq_, n) + first * gq_.row_step;
    pack(q, a_.q.row_step, 1, count, size, q_.get());
    pack(g, g_.row_step, 1, count, wide, gp_.get());
    T along[kRows];  // component of the gradient along the output
    const T* out = matrix<T>(out_, n) + first * out_.row_step;
    for (int64_t i = 0; i < count; ++i)
      along[i] = product(g + i * g_.row_step, out + i * out_.row_step, wide);
    const int64_t seen = seen_keys(a_, first + count);
    for (int64_t key = 0; key < seen; key += kKeys) {
      const int64_t b = key / kKeys, length = keys_.length(b);
      const Block block{n, first, count, key, std::min(length, seen - key)};
      gemm_packed<T, false>(count, block.keys, size, q, a_.q.row_step, 1, keys_.columns(b),
                            weights_.get(), kKeys);
      gemm_packed<T, false>(count, block.keys, wide, g, g_.row_step, 1, values_.columns(b),
                            slopes_.get(), kKeys);
      for (int64_t i = 0; i < count; ++i) row(block, i, along[i]);
      gemm_packed<T, true>(block.keys, wide, count, weights_.get(), 1, kKeys, gp_.get(),
                           gv + key * gv_step, gv_step);
      gemm_packed<T, true>(block.keys, size, count, slopes_.get(), 1, kKeys, q_.get(),
                           gk + key * gk_step, gk_step);
      for (int64_t i = 0; i < count; ++i)
        std::fill(slopes_.get() + i * kKeys + block.keys, slopes_.get() + i * kKeys + length, T(0));
      gemm_packed<T, true>(count, size, length, slopes_.get(), kKeys, 1, keys_.rows(b), gq,
                           gq_.row_step);
    }
  }
  static T product(const T* x, const T* y, int64_t n) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; ++j) sum += x[j] * y[j];
    return sum;
  }
  // Turns scores into (dropped) weights, and the weights' gradients into those of the scores.
  void row(const Block& block, int64_t i, T along) {
    T* w = weights_.get() + i * kKeys;
    T* d = slopes_.get() + i * kKeys;
    mask_row(a_, block, i, w);
    exp_row(w, lse_[block.n * a_.rows + block.first + i], block.keys);
    const T scale = static_cast<T>(a_.scale);
    if (a_.dropout > 0) drop_row(a_, block, i, d);
    for (int64_t j = 0; j < block.keys; ++j) d[j] = w[j] * (d[j] - along) * scale;
    if (a_.dropout > 0) drop_row(a_, block, i, w);
  }

  const Attention& a_;
  const Matrices &out_, &g_;
  const T* lse_;
  const Matrices& gq_;
  PackedKeys<T> keys_, values_;
  std::unique_ptr<T[]> weights_, slopes_, q_, gp_;
  int64_t of_keys_;
};

void forward(DType t, const Attention& a, const Matrices& out, void* lse, int64_t lo, int64_t hi) {
  if (t == DType::Float64)
    ForwardBlocks<double>(a, out, static_cast<double*>(lse)).run(lo, hi);
  else
    ForwardBlocks<float>(a, out, static_cast<float*>(lse)).run(lo, hi);
}
template <class T>
void backward_as(const Attention& a, const Matrices& out, const Matrices& g, const void* lse,
                 const Matrices& gq, int64_t of_keys, int64_t lo, int64_t hi, void* gk,
                 int64_t gk_step, void* gv, int64_t gv_step) {
  BackwardBlocks<T>(a, out, g, static_cast<const T*>(lse), gq, of_keys)
      .run(lo, hi, static_cast<T*>(gk), gk_step, static_cast<T*>(gv), gv_step);
}
void backward(DType t, const Attention& a, const Matrices& out, const Matrices& g, const void* lse,
              const Matrices& gq, int64_t of_keys, int64_t lo, int64_t hi, void* gk,
              int64_t gk_step, void* gv, int64_t gv_step) {
  const auto run = t == DType::Float64 ? backward_as<double> : backward_as<float>;
  run(a, out, g, lse, gq, of_keys, lo, hi, gk, gk_step, gv, gv_step);
}

}  // namespace

AttentionLoops attention_loops() { return {forward, backward}; }

}  // namespace cograd::kernels::COGRAD_ISA
