// SPDX-License-Identifier: BSD-3-Clause
// Steps of optimizers, by the rules of the host (csrc/kernels/optim/optim_rules.h): up to 64
// parameters a launch, each a tensor of elements that lie one after another.
#pragma once
#include "cuda/args/optim_args.h"
#include "loops.h"

namespace cograd::kernels {
inline float root(float v) { return ::sqrtf(v); }
inline double root(double v) { return ::sqrt(v); }
inline float magnitude(float v) { return ::fabsf(v); }
inline double magnitude(double v) { return ::fabs(v); }
}  // namespace cograd::kernels

#include "kernels/optim/optim_rules.h"

namespace cograd::device {

// Computes one element; all operands but the gradient are stored again.
template <class Rule, unsigned F, class C>
inline void optim_step(C (&x)[kOptimOperands], const C* s) {
  kernels::Element<C> e{x[0], s[kernels::optim_scalar::kSign] * x[1], x[2], x[3], x[4]};
  if constexpr ((F & kernels::kOptimDecay) != 0) e.g += s[kernels::optim_scalar::kDecay] * e.p;
  Rule::template step<F, C>(e, s);
  x[0] = e.p;
  x[2] = e.a;
  x[3] = e.b;
  x[4] = e.c;
}

// A block computes kOptimPart elements of one parameter. Blocks are numbered parameter by
// parameter.
template <class Rule, unsigned F, class S>
inline void run_optim(const OptimArgs& a) {
  using C = compute_t<S>;
  constexpr int kOps = Rule::operands(F), N = sizeof(S) == 8 ? 2 : sizeof(S) == 4 ? 4 : 8;
  int low = 0, high = a.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (a.first_block[middle] <= blockIdx.x ? low : high) = middle;
  }
  const auto& t = a.tensors[low];
  C s[kernels::kOptimScalars];
  const double* from = t.scalars == nullptr ? a.scalars : t.scalars;
  COGRAD_UNROLL
  for (int i = 0; i < kernels::kOptimScalars; ++i) s[i] = static_cast<C>(from[i]);
  const int64_t begin = static_cast<int64_t>(blockIdx.x - a.first_block[low]) * kOptimPart;
  const int64_t end = begin + kOptimPart < t.n ? begin + kOptimPart : t.n;
  for (int64_t at = begin + threadIdx.x * N; at < end; at += static_cast<int64_t>(blockDim.x) * N) {
    const bool whole = a.aligned != 0 && at + N <= end;
    Pack<S, N> in[kOps];
    COGRAD_UNROLL
    for (int k = 0; k < kOps; ++k) {
      const S* p = static_cast<const S*>(t.data[k]) + at;
      if (whole) {
        in[k] = *reinterpret_cast<const Pack<S, N>*>(p);
      } else {
        COGRAD_UNROLL
        for (int i = 0; i < N; ++i)
          if (at + i < end) in[k].v[i] = p[i];
      }
    }
    COGRAD_UNROLL
    for (int i = 0; i < N; ++i) {
      if (at + i >= end) break;
      C x[kOptimOperands] = {};
      COGRAD_UNROLL
      for (int k = 0; k < kOps; ++k) x[k] = widen(in[k].v[i]);
      optim_step<Rule, F>(x, s);
      COGRAD_UNROLL
      for (int k = 0; k < kOps; ++k)
        if (k != 1) in[k].v[i] = S(x[k]);
    }
    COGRAD_UNROLL
    for (int k = 0; k < kOps; ++k) {
      if (k == 1) continue;
      S* p = static_cast<S*>(t.data[k]) + at;
      if (whole) {
        *reinterpret_cast<Pack<S, N>*>(p) = in[k];
      } else {
        COGRAD_UNROLL
        for (int i = 0; i < N; ++i)
          if (at + i < end) p[i] = in[k].v[i];
      }
    }
  }
}

#if defined(COUNTS)
// Counts steps on the device: a thread has a parameter (kernels/optim/optim.h, OptimCount).
COGRAD_KERNEL(optim_counts, OptimCountArgs, 64) {
  for (int64_t i = grid_index(); i < a.count; i += grid_size()) {
    const auto& counter = a.counters[i];
    double step;
    if (counter.single != 0)
      step = static_cast<double>(*static_cast<float*>(counter.at) += 1.0f);
    else
      step = *static_cast<double*>(counter.at) += 1.0;
    double* out = a.out + 10 * i;
    for (int k = 0; k < 10; ++k) out[k] = a.scalars[k];
    if (a.beta1 != 0) out[a.rate] /= 1.0 - pow(a.beta1, step);
    if (a.beta2 != 0) out[a.root] /= sqrt(1.0 - pow(a.beta2, step));
  }
}
#endif

}  // namespace cograd::device
