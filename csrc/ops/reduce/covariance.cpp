// SPDX-License-Identifier: BSD-3-Clause
// Covariance and correlation; each row is a variable, each column an observation.
#include <algorithm>

#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"
#include "tensor/warn.h"
#include "transforms/batch.h"

namespace cograd {

namespace {

Tensor last_sum(const Tensor& x, bool keepdim) {
  constexpr int64_t kLast[1] = {-1};
  return sum(x, IntList(kLast), keepdim);
}

// Returns true if f(x) is true for each value of `t`, of all samples if it is batched.
template <class F>
bool all_of(const Tensor& t, F f) {
  const Tensor v = raw_contiguous(raw_cast(physical_tensor(t), DType::Float64));
  const std::vector<double> values = host_values_or<double>(v, 1);
  return std::all_of(values.begin(), values.end(), f);
}

// Checks one kind of weights, of shape (observations,); none may be negative.
void check_weights(const char* arg, const Tensor& w, bool counts, int64_t observations) {
  if (!w.defined()) return;
  COGRAD_CHECK(w.dim() <= 1, "cov(): expected ", arg, " to have one or fewer dimensions but got ",
               arg, " with ", w.dim(), " dimensions");
  const bool fits =
      counts ? is_integral(w.dtype()) && w.dtype() != DType::Bool : is_floating(w.dtype());
  COGRAD_CHECK(fits, "cov(): expected ", arg, " to have ", counts ? "integral" : "floating point",
               " dtype but got ", arg, " with ", scalar_type_name(w.dtype()), " dtype");
  COGRAD_CHECK(w.numel() == observations, "cov(): expected ", arg,
               " to have the same numel as there are observations in the input but got ", w.numel(),
               " != ", observations);
  COGRAD_CHECK(all_of(w, [](double v) { return !(v < 0); }), "cov(): ", arg, " cannot be negative");
}

Tensor covariance(const Tensor& input, int64_t correction, const Tensor& fweights,
                  const Tensor& aweights) {
  COGRAD_CHECK(input.dim() <= 2,
               "cov(): expected input to have two or fewer dimensions but got an input with ",
               input.dim(), " dimensions");
  COGRAD_CHECK(input.dtype() != DType::Bool, "cov(): bool dtype is not supported for input");
  Tensor x = is_integral(input.dtype()) ? cast(input, default_dtype()) : input;
  if (x.dim() < 2) x = reshape(x, Dims{1, x.numel()});
  const int64_t observations = x.size(1);
  check_weights("fweights", fweights, true, observations);
  check_weights("aweights", aweights, false, observations);
  const auto row = [&](const Tensor& w) {
    return reshape(cast(w, real_dtype(x.dtype())), Dims{1, observations});
  };
  const auto freedom = static_cast<double>(observations - correction);
  const auto check_freedom = [](bool positive) {
    if (!positive)
      warn(
          "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number "
          "of observations.");
  };
  if (!fweights.defined() && !aweights.defined()) {
    check_freedom(freedom > 0);
    const Tensor centred = x - last_sum(x, true) / static_cast<double>(observations);
    return matmul_nh(centred, centred) / std::max(freedom, 0.0);
  }
  const Tensor w = !fweights.defined()   ? row(aweights)
                   : !aweights.defined() ? row(fweights)
                                         : row(fweights) * row(aweights);
  const Tensor total = last_sum(w, true);
  COGRAD_CHECK(observations > 0 && all_of(total, [](double v) { return v != 0; }),
               "cov(): weights sum to zero, can't be normalized");
  const Tensor centred = x - last_sum(x * w, true) / total;
  Tensor norm = total;
  if (correction != 0) {
    const auto by = static_cast<double>(correction);
    norm = aweights.defined() ? total - last_sum(w * row(aweights), true) / total * by : total - by;
  }
  check_freedom(all_of(norm, [](double v) { return v > 0; }));
  return matmul_nh(centred, centred * w) / clamp_min(norm, 0);
}

Tensor squeezed(const Tensor& c) { return c.numel() == 1 ? reshape(c, Dims{}) : c; }

struct Cov {
  static constexpr OpSpec spec{
      "cov",
      "input, *, correction=1, fweights=None, aweights=None",
      kFunctional | kContraction | kAutocastLow,
      "Covariance matrix of the rows of input (variables, observations), divided by the number of "
      "observations less correction; weights count observations.",
      "T(3, 5); T(5); T(2, 4), correction=0; T(3, 4), "
      "fweights=I(4, lo=1, hi=4)",
      "np.cov(input, ddof=correction, fweights=fweights, aweights=aweights)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& x, int64_t correction, const Tensor& fweights,
                        const Tensor& aweights) {
    return squeezed(covariance(x, correction, fweights, aweights));
  }
};
COGRAD_OP(Cov)

struct Corrcoef {
  static constexpr OpSpec spec{"corrcoef",
                               "input",
                               kFunctional | kContraction | kAutocastLow,
                               "Correlation matrix of the rows of input (variables, observations).",
                               "T(3, 5); T(2, 4)",
                               "np.corrcoef(input)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& x) {
    COGRAD_CHECK(x.dim() <= 2,
                 "corrcoef(): expected input to have two or fewer dimensions but got an input "
                 "with ",
                 x.dim(), " dimensions");
    const Tensor c = covariance(x, 1, Tensor(), Tensor());
    const Tensor deviation = sqrt(real(diagonal(c)));
    const Tensor r = c / unsqueeze(deviation, 1) / unsqueeze(deviation, 0);
    if (!is_complex(r.dtype())) return squeezed(clamp(r, -1, 1));
    return squeezed(complex_of(clamp(real(r), -1, 1), clamp(imag(r), -1, 1)));
  }
};
COGRAD_OP(Corrcoef)

}  // namespace

}  // namespace cograd
