// SPDX-License-Identifier: BSD-3-Clause
// Computes blocks of attention. Forward scores some rows against some keys and carries the softmax
// from block to block (the online normaliser of Milakov and Gimelshein). Backward starts from the
// rows' saved largest scores and sums, like FlashAttention from its log-sums.
#include "kernels/nn/attention_loops.h"

#include <limits>

#include "kernels/core/aligned.h"
#include "kernels/core/transpose.h"
#include "kernels/core/vecmath.h"
#include "kernels/core/vecmath512.h"
#include "kernels/product/packed_gemm.h"

namespace cograd::kernels::COGRAD_ISA {

AttentionLoops attention_loops();

namespace {

constexpr int64_t kRows = kAttentionRows, kKeys = kAttentionKeys;

template <class T>
T* matrix(const Matrices& m, int64_t n) {
  return static_cast<T*>(const_cast<void*>(m.data)) + m.offsets[n];
}

// The keys of one matrix, packed block by block as columns (transposed) or as rows.
template <class T>
class PackedKeys {
 public:
  PackedKeys(const Attention& a, int64_t size, bool columns) : keys_(a.keys), size_(size) {
    room_ = columns ? packed_size<T>(size, kKeys) : packed_size<T>(kKeys, size);
  }
  int64_t blocks() const { return (keys_ + kKeys - 1) / kKeys; }
  int64_t elements() const { return blocks() * room_; }
  int64_t length(int64_t b) const { return std::min(kKeys, keys_ - b * kKeys); }
  void pack_columns(int64_t b, const T* data, int64_t step, T* to) const {
    const T* from = data + b * kKeys * step;
    to += b * room_;
    for (int64_t j = 0; j < length(b); j += kPanel<T>, to += kPanel<T> * size_)
      transpose(from + j * step, step, std::min<int64_t>(kPanel<T>, length(b) - j), size_,
                kPanel<T>, to);
  }
  void pack_rows(int64_t b, const T* data, int64_t step, T* to) const {
    pack(data + b * kKeys * step, step, 1, length(b), size_, to + b * room_);
  }
  const T* block(const T* packed, int64_t b) const { return packed + b * room_; }

 private:
  int64_t keys_, size_, room_;
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
  if (a.mask.dtype == DType::Bool) {
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
// Computes s = exp(scale s - shift) and returns the sum.
template <class T>
T exp_row(T* s, T scale, T shift, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    const T e = exp(scale * s[j] - shift);
    s[j] = e;
    sum += e;
  }
  return sum;
}
#if defined(__AVX512F__)
template <>
float exp_row(float* s, float scale, float shift, int64_t n) {
  const __m512 times = _mm512_set1_ps(scale), less = _mm512_set1_ps(shift);
  __m512 sum = _mm512_setzero_ps();
  for (int64_t j = 0; j < n; j += 16) {
    const auto valid = static_cast<__mmask16>(n - j < 16 ? (1u << (n - j)) - 1 : 0xFFFFu);
    const __m512 v = _mm512_maskz_loadu_ps(valid, s + j);
    const __m512 e = _mm512_maskz_mov_ps(valid, exp512(_mm512_fmsub_ps(v, times, less)));
    _mm512_mask_storeu_ps(s + j, valid, e);
    sum = _mm512_add_ps(sum, e);
  }
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sum);
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  return lanes[0];
}
#endif

// Masks a row of scores so that exp(scale s - shift) is its weight, and returns that scale. Sets
// `keys` to the number of keys behind which all weights are 0.
template <class T>
T prepare_row(const Attention& a, const Block& b, int64_t i, T* s, int64_t& keys) {
  keys = b.keys;
  if (a.mask.data == nullptr && a.scale > 0) {
    if (a.causal) keys = std::clamp<int64_t>(b.first + i + 1 - b.key, 0, b.keys);
    std::fill(s + keys, s + b.keys, T(0));
    return static_cast<T>(a.scale);
  }
  mask_row(a, b, i, s);
  return T(1);
}

template <class T>
class ForwardBlocks {
 public:
  // `packed` holds the keys and values of the matrices from `first_head` on.
  ForwardBlocks(const Attention& a, const T* packed, int64_t first_head, const Matrices& out,
                T* stats)
      : a_(a),
        packed_(packed),
        first_head_(first_head),
        out_(out),
        tops_(stats),
        inverses_(stats + a.count * a.rows),
        keys_(a, a.size, true),
        values_(a, a.value_size, false),
        scores_(aligned_array<T>(kRows * kKeys)) {}
  void run(int64_t lo, int64_t hi) {
    const int64_t blocks = (a_.rows + kRows - 1) / kRows;
    for (; lo < hi; ++lo) rows(lo / blocks, lo % blocks * kRows);
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
    const T* keys =
        packed_ + (n / a_.group - first_head_) * (keys_.elements() + values_.elements());
    for (int64_t key = 0; key < seen; key += kKeys) {
      const int64_t b = key / kKeys;
      const Block block{n, first, count, key, std::min(keys_.length(b), seen - key)};
      gemm_packed<T>(false, count, block.keys, a_.size, q, a_.q.row_step, 1, keys_.block(keys, b),
                     scores_.get(), kKeys);
      for (int64_t i = 0; i < count; ++i) carry(block, i, top[i], sum[i], out + i * out_.row_step);
      // Only block.keys packed rows are used: the rows behind the visible keys don't matter.
      add_values(block, values_.block(keys + keys_.elements(), b), out);
    }
    for (int64_t i = 0; i < count; ++i)
      finish(n * a_.rows + first + i, top[i], sum[i], out + i * out_.row_step);
  }
  void add_values(const Block& block, const T* values, T* out) {
    const int64_t length = values_.length(block.key / kKeys);
    for (int64_t i = 0; i < block.rows; ++i)
      std::fill(scores_.get() + i * kKeys + block.keys, scores_.get() + i * kKeys + length, T(0));
    gemm_packed<T>(true, block.rows, a_.value_size, length, scores_.get(), kKeys, 1, values, out,
                   out_.row_step);
  }
  // Turns a row's scores into weights relative to its largest score so far.
  void carry(const Block& block, int64_t i, T& top, T& sum, T* out) {
    constexpr T kNever = -std::numeric_limits<T>::infinity();
    T* s = scores_.get() + i * kKeys;
    int64_t keys;
    const T scale = prepare_row(a_, block, i, s, keys);
    const T now = std::max(top, scale * largest(s, keys));
    const T shift = now == kNever ? T(0) : now;
    const T part = exp_row(s, scale, shift, keys);
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
    const T inverse = blind ? T(0) : T(1) / sum;
    tops_[row] = blind ? std::numeric_limits<T>::infinity() : top;
    inverses_[row] = inverse;
    for (int64_t j = 0; j < a_.value_size; ++j) out[j] *= inverse;
  }

  const Attention& a_;
  const T* packed_;
  int64_t first_head_;
  const Matrices& out_;
  T *tops_, *inverses_;
  PackedKeys<T> keys_, values_;
  AlignedArray<T> scores_;
};

template <class T>
class BackwardBlocks {
 public:
  BackwardBlocks(const Attention& a, const Matrices& out, const Matrices& g, const T* stats,
                 const Matrices& gq, int64_t of_keys)
      : a_(a),
        out_(out),
        g_(g),
        tops_(stats),
        inverses_(stats + a.count * a.rows),
        gq_(gq),
        keys_(a, a.size, true),
        key_rows_(a, a.size, false),
        values_(a, a.value_size, true),
        packed_(aligned_array<T>(keys_.elements() + key_rows_.elements() + values_.elements())),
        weights_(aligned_array<T>(kRows * kKeys)),
        slopes_(aligned_array<T>(kRows * kKeys)),
        q_(aligned_array<T>(packed_size<T>(kRows, a.size))),
        gp_(aligned_array<T>(packed_size<T>(kRows, a.value_size))),
        of_keys_(of_keys) {
    const T* k = matrix<T>(a.k, of_keys);
    for (int64_t b = 0; b < keys_.blocks(); ++b) {
      keys_.pack_columns(b, k, a.k.row_step, packed_.get());
      key_rows_.pack_rows(b, k, a.k.row_step, key_rows());
      values_.pack_columns(b, matrix<T>(a.v, of_keys), a.v.row_step, values());
    }
  }
  void run(int64_t lo, int64_t hi, T* gk, int64_t gk_step, T* gv, int64_t gv_step) {
    const int64_t blocks = (a_.rows + kRows - 1) / kRows;
    for (; lo < hi; ++lo)
      rows(of_keys_ * a_.group + lo / blocks, lo % blocks * kRows, gk, gk_step, gv, gv_step);
  }

 private:
  T* key_rows() { return packed_.get() + keys_.elements(); }
  T* values() { return key_rows() + key_rows_.elements(); }
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
      gemm_packed<T>(false, count, block.keys, size, q, a_.q.row_step, 1,
                     keys_.block(packed_.get(), b), weights_.get(), kKeys);
      gemm_packed<T>(false, count, block.keys, wide, g, g_.row_step, 1, values_.block(values(), b),
                     slopes_.get(), kKeys);
      for (int64_t i = 0; i < count; ++i) row(block, i, along[i]);
      gemm_packed<T>(true, block.keys, wide, count, weights_.get(), 1, kKeys, gp_.get(),
                     gv + key * gv_step, gv_step);
      gemm_packed<T>(true, block.keys, size, count, slopes_.get(), 1, kKeys, q_.get(),
                     gk + key * gk_step, gk_step);
      for (int64_t i = 0; i < count; ++i)
        std::fill(slopes_.get() + i * kKeys + block.keys, slopes_.get() + i * kKeys + length, T(0));
      gemm_packed<T>(true, count, size, length, slopes_.get(), kKeys, 1,
                     key_rows_.block(key_rows(), b), gq, gq_.row_step);
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
    int64_t keys;
    const T factor = prepare_row(a_, block, i, w, keys);
    const int64_t at = block.n * a_.rows + block.first + i;
    exp_row(w, factor, tops_[at], keys);
    const T scale = static_cast<T>(a_.scale), inverse = inverses_[at];
    if (a_.dropout > 0) drop_row(a_, block, i, d);
    for (int64_t j = 0; j < block.keys; ++j) {
      w[j] *= inverse;
      d[j] = w[j] * (d[j] - along) * scale;
    }
    if (a_.dropout > 0) drop_row(a_, block, i, w);
  }

  const Attention& a_;
  const Matrices &out_, &g_;
  const T *tops_, *inverses_;
  const Matrices& gq_;
  PackedKeys<T> keys_, key_rows_, values_;
  AlignedArray<T> packed_, weights_, slopes_, q_, gp_;
  int64_t of_keys_;
};

template <class T>
int64_t elements_as(const Attention& a) {
  return PackedKeys<T>(a, a.size, true).elements() +
         PackedKeys<T>(a, a.value_size, false).elements();
}
int64_t elements(DType t, const Attention& a) {
  return t == DType::Float64 ? elements_as<double>(a) : elements_as<float>(a);
}
template <class T>
void pack_as(const Attention& a, int64_t head, int64_t block, T* to) {
  const PackedKeys<T> keys(a, a.size, true), values(a, a.value_size, false);
  keys.pack_columns(block, matrix<T>(a.k, head), a.k.row_step, to);
  values.pack_rows(block, matrix<T>(a.v, head), a.v.row_step, to + keys.elements());
}
void pack_block(DType t, const Attention& a, int64_t head, int64_t block, void* to) {
  if (t == DType::Float64)
    pack_as(a, head, block, static_cast<double*>(to));
  else
    pack_as(a, head, block, static_cast<float*>(to));
}
template <class T>
void forward_as(const Attention& a, const void* packed, int64_t first_head, const Matrices& out,
                void* stats, int64_t lo, int64_t hi) {
  ForwardBlocks<T>(a, static_cast<const T*>(packed), first_head, out, static_cast<T*>(stats))
      .run(lo, hi);
}
void forward(DType t, const Attention& a, const void* packed, int64_t first_head,
             const Matrices& out, void* stats, int64_t lo, int64_t hi) {
  const auto run = t == DType::Float64 ? forward_as<double> : forward_as<float>;
  run(a, packed, first_head, out, stats, lo, hi);
}
template <class T>
void backward_as(const Attention& a, const Matrices& out, const Matrices& g, const void* stats,
                 const Matrices& gq, int64_t of_keys, int64_t lo, int64_t hi, void* gk,
                 int64_t gk_step, void* gv, int64_t gv_step) {
  BackwardBlocks<T>(a, out, g, static_cast<const T*>(stats), gq, of_keys)
      .run(lo, hi, static_cast<T*>(gk), gk_step, static_cast<T*>(gv), gv_step);
}
void backward(DType t, const Attention& a, const Matrices& out, const Matrices& g,
              const void* stats, const Matrices& gq, int64_t of_keys, int64_t lo, int64_t hi,
              void* gk, int64_t gk_step, void* gv, int64_t gv_step) {
  const auto run = t == DType::Float64 ? backward_as<double> : backward_as<float>;
  run(a, out, g, stats, gq, of_keys, lo, hi, gk, gk_step, gv, gv_step);
}

}  // namespace

AttentionLoops attention_loops() { return {elements, pack_block, forward, backward}; }

}  // namespace cograd::kernels::COGRAD_ISA
