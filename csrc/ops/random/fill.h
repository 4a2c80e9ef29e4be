// SPDX-License-Identifier: BSD-3-Clause
// How random ops fill tensors from a generator's stream.
#pragma once
#include "ops/core/ops.h"
#include "ops/core/raw.h"
#include "ops/random/generator.h"
#include "tensor/threads.h"

namespace cograd {

// Calls fill(data, n, state) on contiguous memory of out's size and brings the result into `out`.
// At most one block of the stream per two elements and a group of 16 more are used by any kernel.
template <class F>
void random_fill(const Tensor& out, Generator* generator, const F& fill) {
  const int64_t n = out.numel();
  if (n == 0) return;
  Generator& g = generator != nullptr ? *generator : default_generator();
  const kernels::PhiloxState s = g.take(static_cast<uint64_t>(n) / 2 + 16);
  if (out.is_contiguous()) {
    fill(static_cast<void*>(out.bytes()), n, s);
    return;
  }
  const Tensor dense = empty(out.sizes(), out.dtype());
  fill(static_cast<void*>(dense.bytes()), n, s);
  raw_copy(out, dense);
}

// Calls bad(value) for every element as a double until it returns true; whether it did.
template <class F>
bool any_element(const Tensor& x, const F& bad) {
  bool found = false;
  dispatch_real(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* at = x.data<T>();
    for (int64_t i = 0; i < x.numel() && !found; ++i) found = bad(static_cast<double>(at[i]));
  });
  return found;
}

// Fills the parts of a complex tensor by fill(parts).
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
  random_fill(out, g, [&](void* data, int64_t n, kernels::PhiloxState s) {
    kernels::random_uniform(out.dtype(), data, n, s, lo, hi);
  });
}
// Of complex numbers each part has half of the variance; the mean is real.
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
  random_fill(out, g, [&](void* data, int64_t n, kernels::PhiloxState s) {
    kernels::random_normal(out.dtype(), data, n, s, mean, std);
  });
}
inline void fill_bernoulli(const Tensor& out, Generator* g, double p) {
  random_fill(out, g, [&](void* data, int64_t n, kernels::PhiloxState s) {
    kernels::random_bernoulli(out.dtype(), data, n, s, p);
  });
}
// Integers in [lo, hi), both checked against the dtype.
void fill_integers(const char* op, const Tensor& out, Generator* g, int64_t lo, int64_t hi);

// p as contiguous memory, after checking that it holds probabilities.
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
