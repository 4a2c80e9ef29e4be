// SPDX-License-Identifier: BSD-3-Clause
// Slots that return what the elements tell: a position, a range, whether all pass a test.
#include <cmath>
#include <vector>

#include "cuda/args/random_args.h"
#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/late.h"
#include "cuda/slots/reduce_plan.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/index/sort.h"
#include "kernels/libraries/lapack_batch.h"
#include "kernels/random/transformed.h"
#include "kernels/reduce/nonfinite.h"

namespace cograd::cuda {

namespace {

double wide_element(DType t, const void* at) {
  return dispatch_real(t, [at](auto tag) {
    return static_cast<double>(read_back<typename decltype(tag)::type>(at));
  });
}

}  // namespace

int64_t first_nonfinite(DType t, const void* x, std::span<const int64_t> sizes,
                        std::span<const int64_t> strides, bool, bool nan, bool inf) noexcept {
  if (!is_differentiable(t) || !(nan || inf)) return -1;
  // A complex element is two real ones, one after the other.
  const DType part = real_dtype(t);
  std::vector<int64_t> size(sizes.begin(), sizes.end()), step(strides.begin(), strides.end());
  for (int64_t& s : step) s *= dtype_size(t);
  if (is_complex(t)) {
    size.push_back(2);
    step.push_back(dtype_size(part));
  }
  const Leaf leaf = nan && inf ? Leaf::FirstNonfinite : nan ? Leaf::FirstNan : Leaf::FirstInf;
  try {
    const int64_t i = find_first("first_nonfinite", leaf, part, x, {{}, {}, size, step});
    return i < 0 || !is_complex(t) ? i : i / 2;
  } catch (const std::exception&) {  // the device failed, or there are too many dims: nothing seen
    return -1;
  }
}

Complex<double> shown_value(DType t, const void* element) noexcept {
  try {
    if (t == DType::Complex64) return Complex<double>(read_back<Complex<float>>(element));
    if (t == DType::Complex128) return read_back<Complex<double>>(element);
    return Complex<double>(is_differentiable(t) ? wide_element(t, element) : 0.0);
  } catch (const std::exception&) {
    return Complex<double>(0.0);
  }
}

bool all_finite(DType t, const void* x, int64_t n) {
  return find_first("all_finite", Leaf::FirstNonfinite, real_dtype(t), x,
                    is_complex(t) ? 2 * n : n) < 0;
}

int64_t first_nonzero(const int* info, int64_t n) {
  const int64_t i = find_first("first_nonzero", Leaf::FirstNonzero, DType::Int32, info, n);
  return i < 0 ? n : i;
}

// In a capture, the next wait after a replay raises the error.
bool all_between(DType t, const void* x, int64_t n, double low, double high, double* bad) {
  if (capture_of(here().stream()) != 0) {
    const device::CheckDrawArgs a{x, nullptr, n, 0, 0, low, high, late_error(), "a random op"};
    if (n > 0)
      launch("all_between", function_of("draws.h", "report_out_of_range", {{"TYPE", bits_type(t)}}),
             grid_over(n), a);
    return true;
  }
  const int64_t i = find_first("all_between", Leaf::FirstOutside, t, x, n, low, high);
  if (i < 0) return true;
  *bad = wide_element(t, static_cast<const char*>(x) + i * dtype_size(t));
  return false;
}

kernels::ValueRange value_range(const double* x, int64_t n) {
  const int64_t size[1] = {n}, step[1] = {sizeof(double)};
  const Scratch ends(2 * sizeof(double));
  auto* to = static_cast<double*>(ends.data());
  for (const Leaf leaf : {Leaf::Min, Leaf::Max}) {
    ReduceArgs a{};
    a.y = leaf == Leaf::Min ? to : to + 1;
    a.out = static_cast<int>(DType::Float64);
    run_reduction("value_range", leaf, DType::Float64, x, {{}, {}, size, step}, false, a);
  }
  double v[2];
  read_back(to, v, sizeof v);
  return {v[0], v[1]};
}

COGRAD_CUDA_SLOT(first_nonfinite)
COGRAD_CUDA_SLOT(shown_value)
COGRAD_CUDA_SLOT(all_finite)
COGRAD_CUDA_SLOT(first_nonzero)
COGRAD_CUDA_SLOT(all_between)
COGRAD_CUDA_SLOT(value_range)

}  // namespace cograd::cuda
