// SPDX-License-Identifier: BSD-3-Clause
// Runs the recursions of CTC over all states of a step at once, in double.
#include "kernels/nn/ctc_loops.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/core/element.h"
#include "kernels/core/vecmath.h"

namespace cograd::kernels::COGRAD_ISA {

CtcLoops ctc_loops();

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr int64_t kPad = 2;  // impossible states on either side of a row

// Computes out[s] = log(exp(a[s]) + exp(b[s]) + exp(c[s] + bar[s])) + plus[s].
void add_three(const double* a, const double* b, const double* c, const double* bar,
               const double* plus, double* __restrict out, int64_t n) {
#pragma omp simd
  for (int64_t s = 0; s < n; ++s) {
    const double x = a[s], y = b[s], z = c[s] + bar[s];
    const double xy = x > y ? x : y, top = xy > z ? xy : z;
    const double m = top == kNever ? 0.0 : top;
    out[s] = m + log(exp(x - m) + exp(y - m) + exp(z - m)) + plus[s];
  }
}

template <class T>
std::unique_ptr<T[]> filled(int64_t n, T value) {
  std::unique_ptr<T[]> out(new T[static_cast<size_t>(n)]);
  std::fill_n(out.get(), n, value);
  return out;
}

// One sample: the target with blanks around each label has 2 n + 1 states.
template <class T>
class Sample {
 public:
  Sample(const Ctc& c, const T* log_probs, int64_t b)
      : c_(c),
        at_(log_probs + b * c.classes),
        length_(c.input_lengths[b]),
        states_(2 * c.target_lengths[b] + 1),
        width_(states_ + 2 * kPad),
        label_(filled(states_, c.blank)),
        bar_(filled(width_, kNever)),
        plus_(filled(states_, 0.0)),
        alpha_(filled(std::max<int64_t>(length_, 1) * width_, kNever)) {
    const int64_t* labels = c.targets + c.offsets[b];
    for (int64_t s = 1; s < states_; s += 2) {
      const int64_t label = load_index(labels + s / 2);
      label_[s] = within(label, c.classes) ? label : c.blank;
      // A label may follow the previous one without a blank only if the two differ.
      if (s > 1 && label_[s] != label_[s - 2]) bar_[kPad + s] = 0;
    }
  }

  double forward() {
    if (length_ == 0) return states_ == 1 ? 0 : kNever;
    read(0);
    for (int64_t s = 0; s < std::min<int64_t>(2, states_); ++s) row(0)[s] = plus_[s];
    for (int64_t t = 1; t < length_; ++t) {
      read(t);
      const double* before = row(t - 1);
      add_three(before, before - 1, before - 2, bar_.get() + kPad, plus_.get(), row(t), states_);
    }
    const double *last = row(length_ - 1) + states_ - 1, a = *last;
    const double b = states_ == 1 ? kNever : last[-1];
    const double m = std::max(a, b);
    return m == kNever ? m : m + log(exp(a - m) + exp(b - m));
  }
  // Computes out[t, class] = g * (probability of the class - share of the alignments that are in
  // the
  // class at t).
  void backward(double g, T* out) {
    const double total = forward();
    if (g == 0) return;
    const int64_t step = c_.batch * c_.classes;
    const auto beta = filled(states_, 0.0), zero = filled(states_, 0.0);
    const auto share = filled(states_, 0.0), next = filled(width_, kNever);
    for (int64_t t = length_ - 1; t >= 0; --t) {
      T* to = out + t * step;
      for (int64_t k = 0; k < c_.classes; ++k)
        to[k] = static_cast<T>(g * exp(static_cast<double>(at_[t * step + k])));
      if (t == length_ - 1) {
        for (int64_t s = 0; s < states_; ++s) beta[s] = s >= states_ - 2 ? 0 : kNever;
      } else {
        const double* n = next.get();
        add_three(n, n + 1, n + 2, bar_.get() + 2 * kPad, zero.get(), beta.get(), states_);
      }
      read(t);
      const double* a = row(t);
      for (int64_t s = 0; s < states_; ++s) {
        share[s] = exp(a[s] + beta[s] - total);
        next[s] = beta[s] + plus_[s];
      }
      for (int64_t s = 0; s < states_; ++s) {
        T& grad = to[label_[s]];
        grad = static_cast<T>(static_cast<double>(grad) - g * share[s]);
      }
    }
  }

 private:
  // Reads the log-probabilities of the states at step t.
  void read(int64_t t) {
    const T* from = at_ + t * c_.batch * c_.classes;
    for (int64_t s = 0; s < states_; ++s) plus_[s] = static_cast<double>(from[label_[s]]);
  }
  double* row(int64_t t) { return alpha_.get() + t * width_ + kPad; }

  const Ctc& c_;
  const T* at_;
  int64_t length_, states_, width_;
  std::unique_ptr<int64_t[]> label_;
  std::unique_ptr<double[]> bar_, plus_, alpha_;
};

double forward(DType t, const Ctc& c, const void* log_probs, int64_t b) {
  if (t == DType::Float64)
    return Sample<double>(c, static_cast<const double*>(log_probs), b).forward();
  return Sample<float>(c, static_cast<const float*>(log_probs), b).forward();
}
void backward(DType t, const Ctc& c, const void* log_probs, int64_t b, double g, void* out) {
  const int64_t first = b * c.classes;
  if (t == DType::Float64)
    Sample<double>(c, static_cast<const double*>(log_probs), b)
        .backward(g, static_cast<double*>(out) + first);
  else
    Sample<float>(c, static_cast<const float*>(log_probs), b)
        .backward(g, static_cast<float*>(out) + first);
}

}  // namespace

CtcLoops ctc_loops() { return {forward, backward}; }

}  // namespace cograd::kernels::COGRAD_ISA
