// SPDX-License-Identifier: BSD-3-Clause
// Fills tensors from a generator's stream, for the random ops.
#pragma once
#include <algorithm>
#include <numeric>

#include "kernels/random/transformed.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "ops/random/generator.h"
#include "tensor/threads.h"

namespace cograd {

// Calls fill(data, n, state) on contiguous memory of out's size and copies the result to `out`.
// Kernels use at most one block of the stream per two elements plus a group of 16.
template <class F>
void random_fill(const Tensor& out, Generator* generator, const F& fill) {
  const int64_t n = out.numel();
  if (n == 0) return;
  Generator& g = generator_or_default(generator);
  const kernels::PhiloxState s = g.take(static_cast<uint64_t>(n) / 2 + 16);
  if (out.is_contiguous()) {
    fill(static_cast<void*>(out.bytes()), n, s);
    return;
  }
  const Tensor dense = empty(out.sizes(), out.dtype());
  fill(static_cast<void*>(dense.bytes()), n, s);
  raw_copy(out, dense);
}

// Returns `out` with its dims permuted to the order in memory, the largest stride first.
inline Tensor in_memory_order(const Tensor& out) {
  std::vector<size_t> order(static_cast<size_t>(out.dim()));
  std::iota(order.begin(), order.end(), size_t{0});
  const IntList strides = out.strides();
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  Dims sizes, steps;
  for (const size_t d : order) {
    sizes.push_back(out.sizes()[d]);
    steps.push_back(strides[d]);
  }
  return alias_strided(out, sizes, steps, out.bytes());
}

// Fills from either kind of stream: philox(data, n, state), or torch(data, n, stream), which writes
// `out` in memory order.
template <class P, class T>
void random_fill(const Tensor& out, Generator* generator, const P& philox, const T& torch) {
  const int64_t n = out.numel();
  if (n == 0) return;
  Generator& g = generator_or_default(generator);
  if (g.stream() == Stream::Philox) [[likely]]
    return random_fill(out, &g, philox);
  const Tensor sorted = in_memory_order(out);
  const bool direct = sorted.is_contiguous();
  const Tensor dense = direct ? sorted : empty(sorted.sizes(), out.dtype());
  {
    HeavyScope heavy(4 * n);  // releases the GIL before the generator is locked
    g.draw(
        static_cast<uint64_t>(n) / 2 + 16,
        [&](kernels::PhiloxState s) { philox(static_cast<void*>(dense.bytes()), n, s); },
        [&](kernels::MtStream& s) { torch(static_cast<void*>(dense.bytes()), n, s); });
  }
  if (!direct) raw_copy(sorted, dense);
}

// Returns true if all elements of x, which is contiguous, are in [low, high]; else `bad` receives
// one that is not.
inline bool all_between(const Tensor& x, double low, double high, double* bad) {
  return kernels::all_between(x.dtype(), x.bytes(), x.numel(), low, high, bad);
}

// Fills the real and imaginary parts of a complex tensor by fill(parts).
template <class F>
void fill_parts(const Tensor& out, const F& fill) {
  Dims sizes(out.sizes());
  sizes.push_back(2);
  const Tensor parts = empty(sizes, real_dtype(out.dtype()));
  fill(parts);
  const GradGuard no_grad(false);
  raw_copy(out, complex_from_parts(parts));
}

inline void fill_uniform(const Tensor& out, Generator* g, double lo, double hi) {
  if (is_complex(out.dtype()))
    return fill_parts(out, [&](const Tensor& parts) { fill_uniform(parts, g, lo, hi); });
  random_fill(
      out, g,
      [&](void* data, int64_t n, kernels::PhiloxState s) {
        kernels::random_uniform(out.dtype(), data, n, s, lo, hi);
      },
      [&](void* data, int64_t n, kernels::MtStream& s) {
        kernels::mt_uniform(out.dtype(), data, n, s, lo, hi);
      });
}
// Fills complex tensors part by part: each part has half of the variance, and the mean is real.
inline void fill_normal(const Tensor& out, Generator* g, double mean, double std) {
  if (is_complex(out.dtype()))
    return fill_parts(out, [&](const Tensor& parts) {
      fill_normal(parts, g, 0, std * 0.70710678118654752);
      if (mean != 0) {
        const GradGuard no_grad(false);
        const Tensor re = select(parts, -1, 0);
        raw_copy(re, add(re, mean));
      }
    });
  random_fill(
      out, g,
      [&](void* data, int64_t n, kernels::PhiloxState s) {
        kernels::random_normal(out.dtype(), data, n, s, mean, std);
      },
      [&](void* data, int64_t n, kernels::MtStream& s) {
        kernels::mt_normal(out.dtype(), data, n, s, mean, std, out.is_contiguous());
      });
}
inline void fill_bernoulli(const Tensor& out, Generator* g, double p) {
  random_fill(
      out, g,
      [&](void* data, int64_t n, kernels::PhiloxState s) {
        kernels::random_bernoulli(out.dtype(), data, n, s, p);
      },
      [&](void* data, int64_t n, kernels::MtStream& s) {
        kernels::mt_bernoulli(out.dtype(), data, n, s, p);
      });
}
// Fills with 1 with the probabilities p, which are contiguous and have out's shape.
inline void fill_bernoulli(const Tensor& out, Generator* g, const Tensor& p) {
  const Tensor dense = out.is_contiguous() ? out : empty(out.sizes(), out.dtype());
  random_fill(
      dense, g,
      [&](void* data, int64_t n, kernels::PhiloxState s) {
        kernels::random_bernoulli_each(out.dtype(), data, n, s, p.dtype(), p.bytes());
      },
      [&](void* data, int64_t n, kernels::MtStream& s) {
        kernels::mt_bernoulli_each(out.dtype(), data, n, s, p.dtype(), p.bytes());
      });
  if (!out.is_contiguous()) raw_copy(out, dense);
}
// Fills with integers in [lo, hi); raises unless the dtype represents both ends.
void fill_integers(const char* op, const Tensor& out, Generator* g, int64_t lo, int64_t hi);
// Draws from all non-negative values of an integer type, or from the integers that a floating type
// represents exactly.
// exactly.
void fill_all_integers(const Tensor& out, Generator* g);

// Returns p as contiguous memory after checking that it holds probabilities.
Tensor bernoulli_chances(const char* op, const Tensor& p);

inline void check_floating(const char* op, DType t) {
  COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(t), op, "(): expected a floating point dtype, got ",
                               dtype_name(t));
}
inline void check_filled(const char* op, DType t) {
  COGRAD_CHECK_NOT_IMPLEMENTED(is_differentiable(t), op,
                               "(): expected a floating point or complex dtype, got ",
                               dtype_name(t));
}
inline void check_std(double std) {
  COGRAD_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
}

}  // namespace cograd
