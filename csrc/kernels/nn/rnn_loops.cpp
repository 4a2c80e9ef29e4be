// SPDX-License-Identifier: BSD-3-Clause
// Computes the steps of recurrent layers for some rows; each step is a small product and the gates'
// arithmetic.
#include "kernels/nn/rnn_loops.h"

#include <memory>

#include "kernels/core/vecmath.h"
#include "kernels/product/packed_gemm.h"

namespace cograd::kernels::COGRAD_ISA {

RnnLoops rnn_loops();

namespace {

inline double tanh_of(double v) { return tanh(v); }
// Computes expm1(2 v) / (expm1(2 v) + 2), which is exact to the last bits near zero, too.
inline float tanh_of(float v) {
  const float least = v < -10.0f ? -10.0f : v;
  const float x = least > 10.0f ? 10.0f : least;
  const ExpParts e = exp_parts(x + x);
  const float scale = e.root * e.root;
  const float m = e.expm1_r * scale + (scale - 1.0f);
  return m / (m + 2.0f);
}

// Computes one row of an LSTM step: the activations of the gates, the cell and the output.
template <class T>
void lstm_row(T* __restrict gates, T* __restrict c, T* __restrict cell, T* __restrict out,
              int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const T i = sigmoid(gates[j]), f = sigmoid(gates[n + j]);
    const T g = tanh_of(gates[2 * n + j]), o = sigmoid(gates[3 * n + j]);
    const T now = f * c[j] + i * g;
    gates[j] = i;
    gates[n + j] = f;
    gates[2 * n + j] = g;
    gates[3 * n + j] = o;
    c[j] = cell[j] = now;
    out[j] = o * tanh_of(now);
  }
}
template <class T>
void lstm_row_backward(const T* __restrict gates, const T* __restrict before,
                       const T* __restrict cell, const T* __restrict gh, T* __restrict gc,
                       T* __restrict out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const T i = gates[j], f = gates[n + j], g = gates[2 * n + j], o = gates[3 * n + j];
    const T y = tanh_of(cell[j]), d = gc[j] + gh[j] * o * (T(1) - y * y);
    out[j] = d * g * i * (T(1) - i);
    out[n + j] = d * before[j] * f * (T(1) - f);
    out[2 * n + j] = d * i * (T(1) - g * g);
    out[3 * n + j] = gh[j] * y * o * (T(1) - o);
    gc[j] = d * f;
  }
}

// Computes one row of a single LSTM step whose output another op computes; `o` and `cell` are the
// results.
template <class T>
void cell_row(const T* __restrict gates, const T* __restrict c, T* __restrict o, T* __restrict cell,
              int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const T i = sigmoid(gates[j]), f = sigmoid(gates[n + j]), g = tanh_of(gates[2 * n + j]);
    cell[j] = f * c[j] + i * g;
    o[j] = sigmoid(gates[3 * n + j]);
  }
}
template <class T>
void cell_row_backward(const T* __restrict gates, const T* __restrict c, const T* __restrict go,
                       const T* __restrict d, T* __restrict out, T* __restrict gc, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const T i = sigmoid(gates[j]), f = sigmoid(gates[n + j]), g = tanh_of(gates[2 * n + j]);
    const T o = sigmoid(gates[3 * n + j]);
    out[j] = d[j] * g * i * (T(1) - i);
    out[n + j] = d[j] * c[j] * f * (T(1) - f);
    out[2 * n + j] = d[j] * i * (T(1) - g * g);
    out[3 * n + j] = go[j] * o * (T(1) - o);
    gc[j] = d[j] * f;
  }
}

// Computes one row of a GRU step. q is the state's product for the three gates; `kept` stores its
// last part.
template <class T>
void gru_row(T* __restrict gates, const T* __restrict q, const T* __restrict bias,
             T* __restrict kept, const T* __restrict h, T* __restrict out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const T r = sigmoid(gates[j] + q[j]), z = sigmoid(gates[n + j] + q[n + j]);
    const T s = q[2 * n + j] + bias[j], a = tanh_of(gates[2 * n + j] + r * s);
    gates[j] = r;
    gates[n + j] = z;
    gates[2 * n + j] = a;
    kept[j] = s;
    out[j] = a + z * (h[j] - a);
  }
}
template <class T>
void gru_row_backward(const T* __restrict gates, const T* __restrict kept,
                      const T* __restrict before, T* __restrict gh, T* __restrict out,
                      T* __restrict state_out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const T r = gates[j], z = gates[n + j], a = gates[2 * n + j], d = gh[j];
    const T ga = d * (T(1) - z) * (T(1) - a * a);
    const T gr = ga * kept[j] * r * (T(1) - r), gz = d * (before[j] - a) * z * (T(1) - z);
    out[j] = state_out[j] = gr;
    out[n + j] = state_out[n + j] = gz;
    out[2 * n + j] = ga;
    state_out[2 * n + j] = ga * r;
    gh[j] = d * z;
  }
}

template <class T>
T* at(void* p, int64_t i) {
  return static_cast<T*>(p) + i;
}
template <class T>
const T* at(const void* p, int64_t i) {
  return static_cast<const T*>(p) + i;
}
template <class T>
void copy_row(T* to, const T* from, int64_t n) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
}

template <class T>
class ForwardRows {
 public:
  ForwardRows(const RnnSteps& s, const RnnForward& f, const RnnWeights& w, int64_t lo, int64_t hi)
      : s_(s), f_(f), w_(w), lo_(lo), hi_(hi) {
    if (s.mode == RnnMode::Gru) {
      product_.reset(new T[static_cast<size_t>((hi - lo) * 3 * s.hidden)]);
      bias_.reset(new T[static_cast<size_t>(s.hidden)]());
      if (s.b_hn != nullptr) copy_row(bias_.get(), at<T>(s.b_hn, 0), s.hidden);
    }
  }
  void run() {
    for (int64_t i = 0; i < s_.steps; ++i) {
      const int64_t t = s_.reverse ? s_.steps - 1 - i : i;
      const int64_t rows = std::min(hi_, s_.sizes[t]) - lo_;
      if (rows > 0) step(s_.offsets[t] + lo_, rows);
    }
  }

 private:
  void step(int64_t base, int64_t rows) {
    const int64_t n = s_.hidden, width = s_.width, all = s_.gates() * n;
    T* gates = at<T>(f_.gates, base * all);
    T* h = at<T>(f_.h, lo_ * width);
    T* out = at<T>(f_.out, base * width);
    const T* w = at<T>(w_.w_hh, 0);
    if (s_.mode == RnnMode::Gru)
      gemm_packed<T>(false, rows, all, width, h, width, 1, w, product_.get(), all);
    else
      gemm_packed<T>(true, rows, all, width, h, width, 1, w, gates, all);
    T* raw = f_.raw != nullptr ? at<T>(f_.raw, base * n) : out;
    for (int64_t r = 0; r < rows; ++r) one(r, base, gates + r * all, h + r * width, raw + r * n);
    if (f_.raw != nullptr)
      gemm_packed<T>(false, rows, width, n, raw, n, 1, at<T>(w_.w_hr, 0), out, width);
    std::memcpy(h, out, static_cast<size_t>(rows * width) * sizeof(T));
  }
  void one(int64_t r, int64_t base, T* gates, const T* h, T* out) {
    const int64_t n = s_.hidden;
    if (s_.mode == RnnMode::Lstm) {
      T* cell = at<T>(f_.cells, (base + r) * n);
      lstm_row(gates, at<T>(f_.c, (lo_ + r) * n), cell, out, n);
    } else if (s_.mode == RnnMode::Gru) {
      T* kept = at<T>(f_.cells, (base + r) * n);
      gru_row(gates, product_.get() + r * 3 * n, bias_.get(), kept, h, out, n);
    } else if (s_.mode == RnnMode::Tanh) {
      for (int64_t j = 0; j < n; ++j) out[j] = tanh_of(gates[j]);
    } else {
      for (int64_t j = 0; j < n; ++j) out[j] = gates[j] < T(0) ? T(0) : gates[j];
    }
  }

  const RnnSteps& s_;
  const RnnForward& f_;
  const RnnWeights& w_;
  int64_t lo_, hi_;
  std::unique_ptr<T[]> product_, bias_;
};

template <class T>
class BackwardRows {
 public:
  BackwardRows(const RnnSteps& s, const RnnBackward& b, const RnnWeights& w, int64_t lo, int64_t hi)
      : s_(s), b_(b), w_(w), lo_(lo), hi_(hi) {
    if (s.w_hr != nullptr) g_raw_.reset(new T[static_cast<size_t>((hi - lo) * s.hidden)]);
  }
  void run() {
    for (int64_t i = s_.steps - 1; i >= 0; --i) {
      const int64_t t = s_.reverse ? s_.steps - 1 - i : i;
      const int64_t rows = std::min(hi_, s_.sizes[t]) - lo_;
      if (rows > 0) step(t, rows);
    }
  }

 private:
  void step(int64_t t, int64_t rows) {
    const int64_t n = s_.hidden, width = s_.width, all = s_.gates() * n;
    const int64_t base = s_.offsets[t] + lo_;
    T* gh = at<T>(b_.gh, lo_ * width);
    T* out = at<T>(b_.g_gates, base * all);
    if (b_.g_out != nullptr) {
      const T* g = at<T>(b_.g_out, base * width);
      for (int64_t i = 0; i < rows * width; ++i) gh[i] += g[i];
    }
    T* raw = gh;
    if (s_.w_hr != nullptr) {
      raw = g_raw_.get();
      gemm_packed<T>(false, rows, n, width, gh, width, 1, at<T>(w_.w_hr, 0), raw, n);
      std::memcpy(at<T>(b_.g_raw, base * width), gh, static_cast<size_t>(rows * width) * sizeof(T));
    }
    for (int64_t r = 0; r < rows; ++r) one(t, base, r, raw + r * n, out + r * all);
    const T* w = at<T>(w_.w_hh, 0);
    if (s_.mode == RnnMode::Gru) {
      const T* state_out = at<T>(b_.g_state_gates, base * all);
      gemm_packed<T>(true, rows, width, all, state_out, all, 1, w, gh, width);
    } else {
      gemm_packed<T>(false, rows, width, all, out, all, 1, w, gh, width);
    }
  }
  void one(int64_t t, int64_t base, int64_t r, T* gh, T* out) {
    const int64_t n = s_.hidden, row = base + r, from = before(t, r);
    const T* state = from < 0 ? at<T>(b_.h0, (lo_ + r) * s_.width) : at<T>(b_.out, from * s_.width);
    copy_row(at<T>(b_.h_before, row * s_.width), state, s_.width);
    const T* gates = at<T>(b_.gates, row * s_.gates() * n);
    if (s_.mode == RnnMode::Lstm) {
      const T* cell = from < 0 ? at<T>(b_.c0, (lo_ + r) * n) : at<T>(b_.cells, from * n);
      lstm_row_backward(gates, cell, at<T>(b_.cells, row * n), gh, at<T>(b_.gc, (lo_ + r) * n), out,
                        n);
    } else if (s_.mode == RnnMode::Gru) {
      gru_row_backward(gates, at<T>(b_.cells, row * n), state, gh, out,
                       at<T>(b_.g_state_gates, row * 3 * n), n);
    } else {
      const T* y = at<T>(b_.out, row * n);
      const bool squash = s_.mode == RnnMode::Tanh;
      for (int64_t j = 0; j < n; ++j)
        out[j] = squash ? gh[j] * (T(1) - y[j] * y[j]) : (y[j] > T(0) ? gh[j] : T(0));
    }
  }
  // Returns the row of the previous step for row `r` of this piece; -1 if there is none.
  int64_t before(int64_t t, int64_t r) const {
    const int64_t p = s_.reverse ? t + 1 : t - 1;
    if (p < 0 || p >= s_.steps || lo_ + r >= s_.sizes[p]) return -1;
    return s_.offsets[p] + lo_ + r;
  }

  const RnnSteps& s_;
  const RnnBackward& b_;
  const RnnWeights& w_;
  int64_t lo_, hi_;
  std::unique_ptr<T[]> g_raw_;
};

int64_t size_of(DType t, int64_t k, int64_t n) {
  return t == DType::Float64 ? packed_size<double>(k, n) : packed_size<float>(k, n);
}
void pack_any(DType t, const void* b, int64_t row_step, int64_t col_step, int64_t k, int64_t n,
              void* out) {
  if (t == DType::Float64)
    pack(at<double>(b, 0), row_step, col_step, k, n, at<double>(out, 0));
  else
    pack(at<float>(b, 0), row_step, col_step, k, n, at<float>(out, 0));
}
void forward(DType t, const RnnSteps& s, const RnnForward& f, const RnnWeights& w, int64_t lo,
             int64_t hi) {
  if (t == DType::Float64)
    ForwardRows<double>(s, f, w, lo, hi).run();
  else
    ForwardRows<float>(s, f, w, lo, hi).run();
}
void backward(DType t, const RnnSteps& s, const RnnBackward& b, const RnnWeights& w, int64_t lo,
              int64_t hi) {
  if (t == DType::Float64)
    BackwardRows<double>(s, b, w, lo, hi).run();
  else
    BackwardRows<float>(s, b, w, lo, hi).run();
}

template <class T>
void cell_rows(const LstmCell& s, int64_t lo, int64_t hi) {
  const int64_t n = s.hidden;
  for (int64_t r = lo; r < hi; ++r)
    cell_row(at<T>(s.gates, r * 4 * n), at<T>(s.c, r * n), at<T>(s.o, r * n), at<T>(s.cell, r * n),
             n);
}
template <class T>
void cell_rows_backward(const LstmCellBackward& s, int64_t lo, int64_t hi) {
  const int64_t n = s.hidden;
  for (int64_t r = lo; r < hi; ++r)
    cell_row_backward(at<T>(s.gates, r * 4 * n), at<T>(s.c, r * n), at<T>(s.g_o, r * n),
                      at<T>(s.g_cell, r * n), at<T>(s.g_gates, r * 4 * n), at<T>(s.g_c, r * n), n);
}
void cell_forward(DType t, const LstmCell& s, int64_t lo, int64_t hi) {
  t == DType::Float64 ? cell_rows<double>(s, lo, hi) : cell_rows<float>(s, lo, hi);
}
void cell_backward(DType t, const LstmCellBackward& s, int64_t lo, int64_t hi) {
  t == DType::Float64 ? cell_rows_backward<double>(s, lo, hi)
                      : cell_rows_backward<float>(s, lo, hi);
}

}  // namespace

RnnLoops rnn_loops() { return {size_of, pack_any, forward, backward, cell_forward, cell_backward}; }

}  // namespace cograd::kernels::COGRAD_ISA
