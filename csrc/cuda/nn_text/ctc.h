// SPDX-License-Identifier: BSD-3-Clause
// CTC by the recursions of kernels/nn/ctc_loops.cpp, in double. A block has a sample; its threads
// have the states of a step, which are the labels with blanks around each. -DCOGRAD_T= is the
// dtype.
#include "cuda/args/ctc_args.h"
#include "cuda/text/functions.h"

namespace cograd::device {

using T = COGRAD_T;

inline double log_sum(double x, double y, double z) {
  const double xy = x > y ? x : y, top = xy > z ? xy : z;
  const double m = top == -static_cast<double>(INFINITY) ? 0.0 : top;
  return m + log(exp(x - m) + exp(y - m) + exp(z - m));
}

struct CtcSample {
  const CtcArgs& a;
  int64_t b, length, states;
  double* alpha;

  CtcSample(const CtcArgs& args, int64_t sample)
      : a(args),
        b(sample),
        length(args.input_lengths[sample]),
        states(2 * args.target_lengths[sample] + 1),
        alpha(args.alpha + sample * args.steps * args.width) {}
  static double never() { return -static_cast<double>(INFINITY); }

  int64_t label(int64_t s) const {
    if (s % 2 == 0) return a.blank;
    const int64_t v = a.targets[a.offsets[b] + s / 2];
    return v >= 0 && v < a.classes ? v : a.blank;
  }
  const T* classes(int64_t t) const {
    return static_cast<const T*>(a.log_probs) + (t * a.batch + b) * a.classes;
  }
  double plus(int64_t t, int64_t s) const { return static_cast<double>(classes(t)[label(s)]); }
  // True if state s may follow state s - 2: a label may, if the two differ.
  bool skips(int64_t s) const { return s % 2 == 1 && s > 1 && label(s) != label(s - 2); }

  // All threads return the log-likelihood.
  double forward() const {
    if (length == 0) return states == 1 ? 0.0 : never();
    for (int64_t t = 0; t < length; ++t) {
      double* const row = alpha + t * a.width;
      const double* const before = row - a.width;
      for (int64_t s = threadIdx.x; s < states; s += kCtcThreads) {
        if (t == 0) {
          row[s] = s < 2 ? plus(0, s) : never();
          continue;
        }
        const double y = s > 0 ? before[s - 1] : never(), z = skips(s) ? before[s - 2] : never();
        row[s] = log_sum(before[s], y, z) + plus(t, s);
      }
      __syncthreads();
    }
    const double* const last = alpha + (length - 1) * a.width + states - 1;
    return log_sum(*last, states == 1 ? never() : last[-1], never());
  }

  // For each state, the next one with the same label, or -1; -2 - that for all but the first.
  void find_labels(int* following) const {
    for (int64_t s = threadIdx.x; s < states; s += kCtcThreads) {
      const int64_t here = label(s);
      int64_t after = s + 1, before = 0;
      while (after < states && label(after) != here) ++after;
      while (label(before) != here) ++before;
      const int next = after < states ? static_cast<int>(after) : -1;
      following[s] = before == s ? next : -3 - next;
    }
    __syncthreads();
  }
};

COGRAD_BLOCK_KERNEL(ctc_forward, CtcArgs, kCtcThreads) {
  for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
    const CtcSample sample(a, b);
    const double found = sample.forward();
    if (threadIdx.x == 0) static_cast<T*>(a.losses)[b] = static_cast<T>(-found);
    __syncthreads();
  }
}

COGRAD_BLOCK_KERNEL(ctc_backward, CtcArgs, kCtcThreads) {
  for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
    const CtcSample sample(a, b);
    const double g = static_cast<double>(static_cast<const T*>(a.g)[b]);
    if (g == 0) continue;  // for all threads of the block
    const int64_t states = sample.states, length = sample.length;
    double *const next = a.next + 2 * b * a.width, *const share = a.share + b * a.width;
    int* const following = a.following + b * a.width;
    const double total = sample.forward();
    sample.find_labels(following);
    for (int64_t t = length - 1; t >= 0; --t) {
      T* const to = static_cast<T*>(a.out) + (t * a.batch + b) * a.classes;
      const T* const from = sample.classes(t);
      for (int64_t k = threadIdx.x; k < a.classes; k += kCtcThreads)
        to[k] = static_cast<T>(g * exp(static_cast<double>(from[k])));
      const double* const n = next + (t + 1) % 2 * a.width;
      double* const kept = next + t % 2 * a.width;
      for (int64_t s = threadIdx.x; s < states; s += kCtcThreads) {
        double beta;
        if (t == length - 1) {
          beta = s >= states - 2 ? 0.0 : CtcSample::never();
        } else {
          const double y = s + 1 < states ? n[s + 1] : CtcSample::never();
          const bool skips = s + 2 < states && sample.skips(s + 2);
          beta = log_sum(n[s], y, skips ? n[s + 2] : CtcSample::never());
        }
        share[s] = exp(sample.alpha[t * a.width + s] + beta - total);
        kept[s] = beta + sample.plus(t, s);
      }
      __syncthreads();
      // The thread of a label's first state subtracts all shares of the label, in their order.
      for (int64_t s = threadIdx.x; s < states; s += kCtcThreads) {
        if (following[s] < -1) continue;
        T& grad = to[sample.label(s)];
        for (int64_t k = s; k >= 0;) {
          grad = static_cast<T>(static_cast<double>(grad) - g * share[k]);
          const int after = following[k];
          k = after < -1 ? -3 - after : after;
        }
      }
      __syncthreads();
    }
  }
}

COGRAD_KERNEL(ctc_outside, CtcLabelArgs, 256) {
  for (int64_t k = grid_index(); k < a.n; k += grid_size()) {
    const bool used = a.width == 0 || k % a.width < a.lengths[k / a.width];
    if (used && (a.labels[k] < 0 || a.labels[k] >= a.classes))
      atomicMin(a.found, static_cast<unsigned long long>(k));
  }
}

}  // namespace cograd::device
