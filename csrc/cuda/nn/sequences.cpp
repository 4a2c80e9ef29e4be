// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/core/sequences.h.
#include "kernels/core/sequences.h"

#include <cmath>
#include <vector>

#include "cuda/args/moves_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/core/floating.h"
#include "tensor/dims.h"

namespace cograd::cuda {

namespace {

// Unsigned dtypes would need their own rounding from double.
void run_range(const char* slot, DType t, const char* name, const device::RangeArgs& a) {
  if (a.n <= 0) return;
  if (t == DType::UInt16 || t == DType::UInt32 || t == DType::UInt64) detail::fail_no_kernel(slot);
  launch(slot, function_of("sequences.h", name, {{"TYPE", bits_type(t)}}), grid_over(a.n), a);
}
device::RangeArgs range(void* out, int64_t n, double start, double end, double step) {
  return {out, n, 0, 0, start, end, step, 0};
}
device::RangeArgs even_range(void* out, int64_t n, double start, double end) {
  return range(out, n, start, end, kernels::Evenly(start, end, n).step);
}

template <class T>
device::RangeArgs rounded_range(void* out, int64_t n, double a, double b) {
  const T start = kernels::rounded<T>(a), end = kernels::rounded<T>(b);
  const T step = n > 1 ? T(T(end - start) / kernels::rounded<T>(static_cast<double>(n - 1))) : T(0);
  return range(out, n, static_cast<double>(start), static_cast<double>(end),
               static_cast<double>(step));
}

template <class F>
void index_kernel(const char* name, int64_t n, const F& args) {
  if (n > 0) launch(name, function_of("index_sequences.h", name, {}), grid_over(n), args);
}

std::vector<int64_t> counts_on_host(const int64_t* counts, int64_t n) {
  std::vector<int64_t> host(static_cast<size_t>(n));
  if (n > 0) read_back(counts, host.data(), host.size() * sizeof(int64_t));
  return host;
}

}  // namespace

void arange_integers(DType t, void* out, int64_t n, uint64_t start, uint64_t step) {
  if (n <= 0) return;
  const device::RangeArgs a{out, n, start, step, 0, 0, 0, 0};
  launch("arange", function_of("moves.h", "arange_integers", {{"WIDTH", int64_t{dtype_size(t)}}}),
         grid_over(n), a);
}
COGRAD_CUDA_SLOT(arange_integers)

void arange(DType t, void* out, int64_t n, double start, double step) {
  run_range("arange", t, "arange", range(out, n, start, 0, step));
}
COGRAD_CUDA_SLOT(arange)

void linspace(DType t, void* out, int64_t n, double start, double end) {
  if (is_floating(t)) {
    const device::RangeArgs a = kernels::dispatch_floating(t, [&](auto tag) {
      return rounded_range<typename decltype(tag)::type>(out, n, start, end);
    });
    if (std::isfinite(a.step)) return run_range("linspace", t, "linspace", a);
  }
  run_range("linspace", t, "linspace_doubles", even_range(out, n, start, end));
}
COGRAD_CUDA_SLOT(linspace)

void logspace(DType t, void* out, int64_t n, double base, double start, double end) {
  device::RangeArgs a = even_range(out, n, start, end);
  a.base = base;
  run_range("logspace", t, "logspace", a);
}
COGRAD_CUDA_SLOT(logspace)

void triangle_indices(int64_t* row, int64_t* col, int64_t first, int64_t last, int64_t cols,
                      int64_t shift, bool upper) {
  device::TriangleIndexArgs a{reinterpret_cast<long long*>(row),
                              reinterpret_cast<long long*>(col),
                              0,
                              {first, last, cols, shift, upper ? 1 : 0}};
  if (last > first) a.n = a.space.before(last);
  index_kernel("triangle_indices", a.n, a);
}
COGRAD_CUDA_SLOT(triangle_indices)

void pair_indices(int64_t n, int64_t* out) {
  device::TriangleIndexArgs a{reinterpret_cast<long long*>(out), nullptr, 0, {0, n, n, 1, 1}};
  a.n = n * (n - 1) / 2;
  index_kernel("triangle_indices", a.n, a);
}
COGRAD_CUDA_SLOT(pair_indices)

void pad_indices(kernels::PadMode mode, int64_t n, int64_t left, int64_t count, int64_t* out) {
  index_kernel(
      "pad_indices", count,
      device::PadArgs{reinterpret_cast<long long*>(out), n, left, count, static_cast<int>(mode)});
}
COGRAD_CUDA_SLOT(pad_indices)

// The number of counts is that of rows to repeat, so the host adds them.
int64_t total_of(const int64_t* counts, int64_t n, int64_t* bad) {
  int64_t total = 0;
  for (const int64_t count : counts_on_host(counts, n)) {
    *bad = count;
    if (count < 0) return -1;
    total = checked_add(total, count);
  }
  return total;
}
COGRAD_CUDA_SLOT(total_of)

void repeat_numbers(const int64_t* counts, int64_t n, int64_t* out) {
  std::vector<int64_t> ends = counts_on_host(counts, n);
  int64_t total = 0;
  for (int64_t& end : ends) end = total += end;
  if (total == 0) return;
  const OnDevice at(ends.data(), ends.size() * sizeof(int64_t));
  index_kernel("repeat_numbers", total,
               device::RepeatArgs{static_cast<const long long*>(at.get()),
                                  reinterpret_cast<long long*>(out), n, total});
}
COGRAD_CUDA_SLOT(repeat_numbers)

}  // namespace cograd::cuda
