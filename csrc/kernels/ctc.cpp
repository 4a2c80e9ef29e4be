// SPDX-License-Identifier: BSD-3-Clause
// The recursions of CTC, a sample a task.
#include "kernels/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/threads.h"

namespace cograd::kernels {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double m = std::max(a, b);
  return m == kNever ? m : m + std::log1p(std::exp(std::min(a, b) - m));
}

// A sample: the target with blanks around each label has 2 n + 1 states.
template <class T>
class Sample {
 public:
  Sample(const Ctc& c, const T* log_probs, int64_t b)
      : c_(c),
        at_(log_probs + b * c.classes),
        labels_(c.targets + c.offsets[b]),
        length_(c.input_lengths[b]),
        states_(2 * c.target_lengths[b] + 1),
        alpha_(static_cast<size_t>(std::max<int64_t>(length_, 1) * states_), kNever) {}

  // The log-likelihood.
  double forward() {
    if (length_ == 0) return states_ == 1 ? 0 : kNever;
    for (int64_t t = 0; t < length_; ++t)
      for (int64_t s = 0; s < states_; ++s) {
        double sum = t == 0 ? (s < 2 ? 0 : kNever) : alpha(t - 1, s);
        if (t > 0 && s > 0) sum = log_add(sum, alpha(t - 1, s - 1));
        if (t > 0 && skips(s)) sum = log_add(sum, alpha(t - 1, s - 2));
        alpha(t, s) = sum + probability(t, s);
      }
    const double last = alpha(length_ - 1, states_ - 1);
    return states_ == 1 ? last : log_add(last, alpha(length_ - 1, states_ - 2));
  }
  // out[t, class] = g * (its probability - the share of the alignments that are in it at t).
  void backward(double g, T* out) {
    const double total = forward();
    if (g == 0) return;
    for (int64_t t = 0; t < length_; ++t)
      for (int64_t k = 0; k < c_.classes; ++k) {
        const int64_t i = t * c_.batch * c_.classes + k;
        out[i] = static_cast<T>(g * std::exp(static_cast<double>(at_[i])));
      }
    std::vector<double> beta(static_cast<size_t>(states_)), next(beta.size());
    for (int64_t t = length_ - 1; t >= 0; --t) {
      for (int64_t s = 0; s < states_; ++s) {
        const auto i = static_cast<size_t>(s);
        double sum = kNever;
        if (t == length_ - 1) {
          sum = s >= states_ - 2 ? 0 : kNever;
        } else {
          sum = after(next, t, s);
          if (s + 1 < states_) sum = log_add(sum, after(next, t, s + 1));
          if (s + 2 < states_ && skips(s + 2)) sum = log_add(sum, after(next, t, s + 2));
        }
        beta[i] = sum;
        T& to = out[t * c_.batch * c_.classes + label(s)];
        to = static_cast<T>(static_cast<double>(to) - g * std::exp(alpha(t, s) + sum - total));
      }
      std::swap(beta, next);
    }
  }

 private:
  int64_t label(int64_t s) const { return s % 2 == 0 ? c_.blank : labels_[s / 2]; }
  // Whether state s may follow s - 2: a label that differs from the one before.
  bool skips(int64_t s) const { return s >= 2 && s % 2 == 1 && labels_[s / 2] != labels_[s / 2 - 1]; }
  double probability(int64_t t, int64_t s) const {
    return static_cast<double>(at_[t * c_.batch * c_.classes + label(s)]);
  }
  double after(const std::vector<double>& next, int64_t t, int64_t s) const {
    return next[static_cast<size_t>(s)] + probability(t + 1, s);
  }
  double& alpha(int64_t t, int64_t s) { return alpha_[static_cast<size_t>(t * states_ + s)]; }

  const Ctc& c_;
  const T* at_;
  const int64_t* labels_;
  int64_t length_, states_;
  std::vector<double> alpha_;
};

template <class F>
void each_sample(const Ctc& c, F&& f) {
  const HeavyScope heavy(c.steps * c.batch * 64);
  parallel_for(0, c.batch, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) f(lo);
  });
}

template <class T>
void backward_as(const Ctc& c, const T* log_probs, const T* g, T* out) {
  std::fill_n(out, c.steps * c.batch * c.classes, T(0));
  each_sample(c, [&](int64_t b) {
    Sample<T>(c, log_probs, b).backward(static_cast<double>(g[b]), out + b * c.classes);
  });
}
template <class T>
void forward_as(const Ctc& c, const T* log_probs, T* losses) {
  each_sample(c, [&](int64_t b) {
    losses[b] = static_cast<T>(-Sample<T>(c, log_probs, b).forward());
  });
}

}  // namespace

void ctc_forward(DType t, const Ctc& c, const void* log_probs, void* losses) {
  if (t == DType::Float64)
    forward_as(c, static_cast<const double*>(log_probs), static_cast<double*>(losses));
  else
    forward_as(c, static_cast<const float*>(log_probs), static_cast<float*>(losses));
}
void ctc_backward(DType t, const Ctc& c, const void* log_probs, const void* g, void* out) {
  if (t == DType::Float64)
    backward_as(c, static_cast<const double*>(log_probs), static_cast<const double*>(g),
                static_cast<double*>(out));
  else
    backward_as(c, static_cast<const float*>(log_probs), static_cast<const float*>(g),
                static_cast<float*>(out));
}

}  // namespace cograd::kernels
