// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/random. Uniform numbers, integers, bernoulli numbers and permutations have the
// CPU's bits; the others differ by the rounding of log, sine and cosine.
#include "kernels/random/random.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "cuda/args/random_args.h"
#include "cuda/driver/capture.h"
#include "cuda/driver/late.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/core/floating.h"
#include "kernels/index/sort.h"
#include "kernels/random/transformed.h"
#include "tensor/device.h"

namespace cograd::cuda {

using kernels::PhiloxState;

void topk(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
          int64_t inner, int64_t k, bool largest);

namespace {

Define type_option(DType t) { return {"TYPE", bits_type(t)}; }

device::RandomArgs arguments(void* out, int64_t n, int64_t per_group, PhiloxState s) {
  device::RandomArgs a{};
  a.out = out;
  a.n = n;
  a.groups = blocks_of(n, per_group);
  a.seed = s.seed;
  a.offset = s.offset;
  a.base = reinterpret_cast<const unsigned long long*>(s.base);
  return a;
}
// Returns the number of Philox blocks that the fill uses.
uint64_t fill(const char* name, std::initializer_list<Define> options,
              const device::RandomArgs& a) {
  const int64_t blocks = a.groups * device::kGroupBlocks;
  if (a.n > 0) launch(name, function_of("random.h", name, options), grid_over(blocks), a);
  return static_cast<uint64_t>(blocks);
}
int64_t per_group(DType t) { return t == DType::Float64 ? 32 : 64; }

// Returns the largest value of dtype t below hi, or hi itself if there is none.
double below_limit(DType t, double hi, double lo) {
  if (!(hi > lo)) return hi;
  if (t == DType::Float64) return std::nextafter(hi, lo);
  if (t == DType::Float32) {
    const auto f = static_cast<float>(hi);
    return static_cast<double>(static_cast<double>(f) < hi ? f : std::nextafterf(f, -INFINITY));
  }
  const double step = std::abs(hi) * (t == DType::Float16 ? 0x1p-12 : 0x1p-9) + 0x1p-26;
  for (double v = hi;; v -= step) {
    const auto f = static_cast<float>(v);
    const auto r = static_cast<double>(t == DType::Float16 ? float(Half(f)) : float(BFloat16(f)));
    if (r < hi) return std::max(r, lo);
  }
}

}  // namespace

uint64_t random_uniform(DType t, void* out, int64_t n, PhiloxState s, double lo, double hi) {
  device::RandomArgs a = arguments(out, n, per_group(t), s);
  a.a = lo;
  a.b = hi;
  a.top = below_limit(t, hi, lo);
  return fill("uniform", {type_option(t)}, a);
}
COGRAD_CUDA_SLOT(random_uniform)

uint64_t random_normal(DType t, void* out, int64_t n, PhiloxState s, double mean, double std) {
  device::RandomArgs a = arguments(out, n, per_group(t), s);
  a.a = mean;
  a.b = std;
  return fill("normal", {type_option(t)}, a);
}
COGRAD_CUDA_SLOT(random_normal)

uint64_t random_exponential(DType t, void* out, int64_t n, PhiloxState s, double rate) {
  device::RandomArgs a = arguments(out, n, per_group(t), s);
  a.a = rate;
  return fill("exponential", {type_option(t)}, a);
}
COGRAD_CUDA_SLOT(random_exponential)

uint64_t random_int(DType t, void* out, int64_t n, PhiloxState s, int64_t lo, int64_t hi) {
  device::RandomArgs a = arguments(out, n, 32, s);
  a.low = lo;
  a.range = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
  return fill("integers", {type_option(t)}, a);
}
COGRAD_CUDA_SLOT(random_int)

uint64_t random_bernoulli(DType t, void* out, int64_t n, PhiloxState s, double p) {
  device::RandomArgs a = arguments(out, n, 64, s);
  const auto threshold = static_cast<uint64_t>(std::ceil(std::clamp(p, 0.0, 1.0) * 0x1p32));
  a.last = static_cast<uint32_t>(threshold - 1);
  a.never = threshold == 0 ? 1 : 0;
  return fill("bernoulli", {type_option(t)}, a);
}
COGRAD_CUDA_SLOT(random_bernoulli)

uint64_t random_bernoulli_each(DType t, void* out, int64_t n, PhiloxState s, DType tp,
                               const void* p) {
  device::RandomArgs a = arguments(out, n, 64, s);
  a.p = p;
  return fill("bernoulli_each", {type_option(t), {"PROB", bits_type(tp)}}, a);
}
COGRAD_CUDA_SLOT(random_bernoulli_each)

// Each exchange depends on the ones before it, so the host computes the permutation, and in a
// capture one thread of the GPU, which is slower.
uint64_t random_permutation(int64_t* out, int64_t n, PhiloxState s) {
  const auto used = static_cast<uint64_t>(blocks_of(n, 32) * device::kGroupBlocks);
  if (capture_of(here().stream()) != 0) {
    if (n > 0)
      launch("permutation", function_of("random.h", "permutation", {type_option(DType::Int64)}),
             grid_of(1, 256), arguments(out, n, 32, s));
    return used;
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) {
    const int64_t e = i % 32;
    const auto block = static_cast<uint64_t>(i / 32 * device::kGroupBlocks + e % 16);
    const device::PhiloxWords x = device::philox(s.seed, s.offset + block);
    const int k = e < 16 ? 0 : 2;
    const uint64_t bits = static_cast<uint64_t>(x.w[k + 1]) << 32 | x.w[k];
    __extension__ using U128 = unsigned __int128;
    const U128 scaled = static_cast<U128>(bits) * static_cast<U128>(i + 1);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(scaled >> 64)]);
  }
  if (n > 0) copy_from_host(thread_place.now, order.data(), out, order.size() * sizeof(int64_t));
  return used;
}
COGRAD_CUDA_SLOT(random_permutation)

uint64_t random_multinomial(DType t, const void* probs, int64_t rows, int64_t n, int64_t samples,
                            bool replacement, int64_t* out, PhiloxState s) {
  const int64_t draws = rows * (replacement ? samples : n);
  const Scratch u(static_cast<size_t>(std::max<int64_t>(1, draws)) * sizeof(double));
  const uint64_t used = cuda::random_uniform(DType::Float64, u.get(), draws, s, 0.0, 1.0);
  if (rows * samples == 0 || n == 0) return used;
  device::MultinomialArgs a{
      probs, u.get<double>(), nullptr, reinterpret_cast<long long*>(out), rows, n, samples};
  if (replacement) {
    launch("multinomial", function_of("draws.h", "multinomial", {type_option(t)}),
           grid_of_blocks(rows, 256), a);
    return used;
  }
  const Scratch arrivals(static_cast<size_t>(rows * n) * sizeof(double));
  a.arrivals = arrivals.get<double>();
  launch("multinomial", function_of("draws.h", "arrivals", {type_option(t)}), grid_over(rows * n),
         a);
  topk(DType::Float64, a.arrivals, nullptr, out, rows, n, 1, samples, false);
  return used;
}
COGRAD_CUDA_SLOT(random_multinomial)

void transform_draws(DType t, const kernels::DrawRule& rule, const double* u, int64_t n,
                     void* out) {
  if (n <= 0) return;
  if (t == DType::UInt16 || t == DType::UInt32 || t == DType::UInt64)
    detail::fail_no_kernel("transform_draws");
  const device::DrawArgs a{u, out, n, static_cast<int>(rule.kind), rule.a, rule.b};
  launch("transform_draws", function_of("draws.h", "transform_draws", {type_option(t)}),
         grid_over(n), a);
}
COGRAD_CUDA_SLOT(transform_draws)

namespace {

// Runs a check; returns the first bad element or row, or -1.
int64_t first_bad(const char* name, DType t, int64_t blocks, device::CheckDrawArgs a) {
  const Scratch found(8);
  a.found = found.get<unsigned long long>();
  set_bytes(a.found, 0xFF, 8);
  launch(name, function_of("draws.h", name, {type_option(t)}), grid_of_blocks(blocks, 256), a);
  int64_t first = 0;
  read_back(a.found, &first, sizeof first);
  return first;
}

}  // namespace

int64_t scarce_row(DType t, const void* w, int64_t rows, int64_t n, int64_t needed,
                   int64_t* positive) {
  if (rows == 0 || needed <= 0) return rows;
  device::CheckDrawArgs a{w, nullptr, n, rows, needed, 0, 0, nullptr, nullptr};
  if (capture_of(here().stream()) != 0) {
    a.late = late_error();
    launch("scarce_rows", function_of("draws.h", "scarce_rows", {type_option(t)}),
           grid_of_blocks(rows, 256), a);
    return rows;
  }
  const int64_t row = n == 0 ? 0 : first_bad("scarce_rows", t, rows, a);
  if (row < 0) return rows;
  *positive = 0;
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto host = std::make_unique<T[]>(static_cast<size_t>(n));
    if (n > 0)
      read_back(static_cast<const T*>(w) + row * n, host.get(), static_cast<size_t>(n) * sizeof(T));
    for (int64_t i = 0; i < n; ++i) *positive += static_cast<double>(host[i]) > 0;
  });
  return row;
}
COGRAD_CUDA_SLOT(scarce_row)

}  // namespace cograd::cuda
