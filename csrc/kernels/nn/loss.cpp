// SPDX-License-Identifier: BSD-3-Clause
// Negative log likelihood and cross entropy; sums are computed in double, in a fixed order.
#include "kernels/nn/loss.h"
#include "kernels/core/floating.h"

#include <algorithm>
#include <vector>

#include "cograd/error.h"
#include "kernels/core/element.h"
#include "kernels/nn/softmax.h"
#include "kernels/nn/softmax_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kGrain = 1 << 13;  // positions, or elements, per task

void check_targets(const NllGeometry& g, const int64_t* target) {
  for (int64_t i = 0; i < g.batch * g.spatial; ++i) {
    const int64_t v = target[i];
    COGRAD_CHECK_INDEX(v == g.ignore_index || (v >= 0 && v < g.classes), "Target ", v,
                       " is out of bounds for ", g.classes, " classes");
  }
}

// Returns target i, or ignore_index if it is no longer what check_targets has seen.
int64_t target_at(const NllGeometry& g, const int64_t* target, int64_t i) {
  const int64_t t = load_index(target + i);
  return within(t, g.classes) ? t : g.ignore_index;
}

template <class T>
double wide(T v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return static_cast<double>(static_cast<float>(v));
}
template <class T>
T narrow(double v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return static_cast<T>(static_cast<float>(v));
}

// Weights of the target distribution: q[c] = (1 - s) w[t] [c == t] + s / C * w[c].
struct Smoothing {
  double hit = 1;     // factor of w[t]
  double spread = 0;  // factor of every w[c]
  double weight_sum = 0;

  template <class T>
  Smoothing(const NllGeometry& g, const T* weight) {
    if (g.label_smoothing == 0) return;
    hit = 1 - g.label_smoothing;
    spread = g.label_smoothing / static_cast<double>(g.classes);
    for (int64_t c = 0; c < g.classes; ++c) weight_sum += weight == nullptr ? 1 : wide(weight[c]);
  }
};

template <class T>
double weight_of(const T* weight, int64_t c) {
  return weight == nullptr ? 1.0 : wide(weight[c]);
}

template <class T>
void forward(const NllGeometry& g, const T* logp, const int64_t* target, const T* weight, T* out,
             T* total_weight) {
  const Smoothing q(g, weight);
  const int64_t positions = g.batch * g.spatial;
  const int64_t grain =
      std::max<int64_t>(1, q.spread == 0 ? kGrain : kGrain / std::max<int64_t>(1, g.classes));
  const int64_t chunk = parallel_chunk(positions, grain);
  const int64_t chunks = positions == 0 ? 0 : (positions + chunk - 1) / chunk;
  std::vector<double> sums(static_cast<size_t>(2 * chunks), 0.0);
  parallel_for(0, chunks, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      double loss_sum = 0, weights = 0;
      for (int64_t i = lo * chunk; i < std::min(positions, (lo + 1) * chunk); ++i) {
        const int64_t t = target_at(g, target, i);
        double loss = 0;
        if (t != g.ignore_index) {
          const T* p = logp + i / g.spatial * g.classes * g.spatial + i % g.spatial;
          const double w = weight_of(weight, t);
          loss = -q.hit * w * wide(p[t * g.spatial]);
          for (int64_t c = 0; q.spread != 0 && c < g.classes; ++c) {
            loss -= q.spread * weight_of(weight, c) * wide(p[c * g.spatial]);
          }
          weights += w;
        }
        loss_sum += loss;
        if (g.reduction == Reduction::None) out[i] = narrow<T>(loss);
      }
      sums[static_cast<size_t>(2 * lo)] = loss_sum;
      sums[static_cast<size_t>(2 * lo + 1)] = weights;
    }
  });
  double loss = 0, weights = 0;
  for (size_t c = 0; c < sums.size(); c += 2) {
    loss += sums[c];
    weights += sums[c + 1];
  }
  *total_weight = narrow<T>(weights);
  if (g.reduction == Reduction::Mean) *out = narrow<T>(loss / weights);
  if (g.reduction == Reduction::Sum) *out = narrow<T>(loss);
}

// Returns the factor of the gradient of the loss at a position.
template <class T>
double scale_at(const NllGeometry& g, const T* gout, const T* total_weight, int64_t i) {
  switch (g.reduction) {
    case Reduction::None:
      return wide(gout[i]);
    case Reduction::Sum:
      return wide(*gout);
    case Reduction::Mean:
      break;
  }
  return wide(*gout) / wide(*total_weight);
}

// Writes or adds -scale * q[c] for every class of position i.
template <class T>
void subtract_target(const NllGeometry& g, const Smoothing& q, const T* weight, int64_t t,
                     double scale, bool add, T* p) {
  for (int64_t c = 0; (q.spread != 0 || !add) && c < g.classes; ++c) {
    const double v = q.spread == 0 ? 0 : -scale * q.spread * weight_of(weight, c);
    p[c * g.spatial] = narrow<T>(add ? wide(p[c * g.spatial]) + v : v);
  }
  T& hit = p[t * g.spatial];
  hit = narrow<T>(wide(hit) - scale * q.hit * weight_of(weight, t));
}

template <class T>
void backward(const NllGeometry& g, const T* gout, const int64_t* target, const T* weight,
              const T* total_weight, T* out) {
  const Smoothing q(g, weight);
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, g.classes));
  parallel_for(0, g.batch * g.spatial, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      T* p = out + lo / g.spatial * g.classes * g.spatial + lo % g.spatial;
      const int64_t t = target_at(g, target, lo);
      if (t == g.ignore_index) {
        for (int64_t c = 0; c < g.classes; ++c) p[c * g.spatial] = narrow<T>(0);
        continue;
      }
      subtract_target(g, q, weight, t, scale_at(g, gout, total_weight, lo), false, p);
    }
  });
}

// Computes softmax * scale * sum(q) - scale * q, row by row (or [C, spatial] by [C, spatial]).
template <class T>
void backward_logits(DType dtype, const NllGeometry& g, const T* gout, const T* logp,
                     const int64_t* target, const T* weight, const T* total_weight, T* out) {
  const Smoothing q(g, weight);
  const SoftmaxLoops loops = softmax_loops();
  const int64_t sample = g.classes * g.spatial;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, sample));
  parallel_for(0, g.batch, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      T* p = out + lo * sample;
      if (g.spatial > 1) loops.scaled_exp(dtype, logp + lo * sample, 1.0, p, sample);
      for (int64_t s = 0; s < g.spatial; ++s) {
        const int64_t i = lo * g.spatial + s, t = target_at(g, target, i);
        if (t == g.ignore_index) {
          for (int64_t c = 0; c < g.classes; ++c) p[c * g.spatial + s] = narrow<T>(0);
          continue;
        }
        const double scale = scale_at(g, gout, total_weight, i);
        const double all = scale * (q.hit * weight_of(weight, t) + q.spread * q.weight_sum);
        if (g.spatial == 1) {
          loops.scaled_exp(dtype, logp + lo * sample, all, p, sample);
        } else {
          for (int64_t c = 0; c < g.classes; ++c) {
            T& v = p[c * g.spatial + s];
            v = narrow<T>(wide(v) * all);
          }
        }
        subtract_target(g, q, weight, t, scale, true, p + s);
      }
    }
  });
}

}  // namespace

void nll_loss_forward(DType t, const NllGeometry& g, const void* logp, const int64_t* target,
                      const void* weight, void* out, void* total_weight) {
  COGRAD_SLOT(nll_loss_forward, t, g, logp, target, weight, out, total_weight);
  check_targets(g, target);
  HeavyScope heavy(g.batch * g.spatial);
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward(g, static_cast<const T*>(logp), target, static_cast<const T*>(weight),
            static_cast<T*>(out), static_cast<T*>(total_weight));
  });
}

void nll_loss_backward(DType t, const NllGeometry& g, const void* gout, const int64_t* target,
                       const void* weight, const void* total_weight, void* glogp) {
  COGRAD_SLOT(nll_loss_backward, t, g, gout, target, weight, total_weight, glogp);
  check_targets(g, target);
  HeavyScope heavy(g.batch * g.spatial * g.classes);
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward(g, static_cast<const T*>(gout), target, static_cast<const T*>(weight),
             static_cast<const T*>(total_weight), static_cast<T*>(glogp));
  });
}

void cross_entropy_forward(DType t, const NllGeometry& g, const void* logits, const int64_t* target,
                           const void* weight, void* logp, void* out, void* total_weight) {
  COGRAD_SLOT(cross_entropy_forward, t, g, logits, target, weight, logp, out, total_weight);
  check_targets(g, target);
  HeavyScope heavy(g.batch * g.spatial * g.classes);
  log_softmax(t, logits, logp, g.batch, g.classes, g.spatial);
  nll_loss_forward(t, g, logp, target, weight, out, total_weight);
}

void cross_entropy_backward(DType t, const NllGeometry& g, const void* gout, const void* logp,
                            const int64_t* target, const void* weight, const void* total_weight,
                            void* glogits) {
  COGRAD_SLOT(cross_entropy_backward, t, g, gout, logp, target, weight, total_weight, glogits);
  check_targets(g, target);
  HeavyScope heavy(g.batch * g.spatial * g.classes);
  dispatch_floating(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward_logits(t, g, static_cast<const T*>(gout), static_cast<const T*>(logp), target,
                    static_cast<const T*>(weight), static_cast<const T*>(total_weight),
                    static_cast<T*>(glogits));
  });
}

}  // namespace cograd::kernels
