// SPDX-License-Identifier: BSD-3-Clause
// Counting into bins: bincount, histc, histogram.
#include <cmath>
#include "kernels/index/index.h"
#include "kernels/index/sort.h"
#include "ops/compute/host_values.h"
#include "ops/index/indexing.h"
#include "tensor/warn.h"

namespace cograd {

namespace {

struct Bincount {
  static constexpr OpSpec spec{
      "bincount",
      "input, weights=None, minlength=0",
      kFunctional | kNondiff | kReduction,
      "Counts of each of 0, 1, ..., max(input) (or the sum of their weights); at least "
      "minlength entries.",
      "I(9); I(9), minlength=8; I(9), T(9)",
      "np.bincount(input, weights, minlength)"};
  static constexpr DTypeSet kDTypes = kEveryType;  // of complex weights the real parts count
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& x, const Tensor& weights, int64_t minlength) {
    COGRAD_CHECK_NOT_IMPLEMENTED(!x.is_floating(), "\"bincount_cpu\" not implemented for '",
                                 scalar_type_name(x.dtype()), "'");
    COGRAD_CHECK(x.dim() == 1 && x.dtype() != DType::Bool,
                 "bincount only supports 1-d non-negative integral inputs.");
    COGRAD_CHECK(minlength >= 0, "minlength should be >= 0, got ", minlength);
    const bool weighted = weights.defined();
    COGRAD_CHECK(!weighted || (weights.dim() == 1 && weights.numel() == x.numel()),
                 "weights should be 1-d and have the same length as input");
    const Tensor in = raw_contiguous(is_wide_unsigned(x.dtype()) ? raw_cast(x, DType::Int64) : x);
    const int64_t top = kernels::bincount_size(in.dtype(), in.bytes(), x.numel());
    const int64_t bins[1] = {std::max(top, minlength)};
    const DType sum = !weighted                           ? DType::Int64
                      : weights.dtype() == DType::Float32 ? DType::Float32
                                                          : DType::Float64;
    const bool complex = weighted && is_complex(weights.dtype());
    if (complex) warn("Casting complex values to real discards the imaginary part");
    const Tensor w =
        weighted ? raw_contiguous(raw_cast(complex ? real(weights) : weights, sum)) : Tensor();
    Tensor out = empty(bins, sum);
    kernels::bincount(in.dtype(), in.bytes(), x.numel(), sum, weighted ? w.bytes() : nullptr,
                      bins[0], out.bytes());
    return out;
  }
};
COGRAD_OP(Bincount)

void check_histogram_input(const char* op, const Tensor& x) {
  COGRAD_CHECK_NOT_IMPLEMENTED(x.is_floating(), "\"histogram_cpu\" not implemented for '",
                               scalar_type_name(x.dtype()), "'; ", op, "() needs floating input");
}

using Bounds = kernels::ValueRange;
// Returns the smallest and largest element; NaN if any element is NaN, 0 and 0 without elements.
Bounds data_range(const Tensor& x) {
  if (x.numel() == 0) return {0, 0};
  const Tensor wide = raw_contiguous(raw_cast(x, DType::Float64));
  return kernels::value_range(wide.data<double>(), wide.numel());
}

// Widens a range of width 0 by `margin` on either side.
Bounds checked_range(const char* op, Bounds b, double margin) {
  COGRAD_CHECK(std::isfinite(b.lo) && std::isfinite(b.hi), op, ": range of [", b.lo, ", ", b.hi,
               "] is not finite");
  COGRAD_CHECK(b.lo <= b.hi, op, ": max must be larger than min, got ", b.lo, " and ", b.hi);
  return b.lo == b.hi ? Bounds{b.lo - margin, b.hi + margin} : b;
}

struct Histc {
  static constexpr OpSpec spec{
      "histc",
      "input, bins=100, min=0, max=0",
      kFunctional | kOut | kNondiff | kReduction | kExactOut,
      "Counts of input in equal bins between min and max (both 0: the range of the data), in "
      "input's dtype.",
      "T(30), 7; T(3, 4), 5, -0.5, 0.5",
      "np.histogram(input, bins, (min, max) if min != max else None)[0].astype(input.dtype)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& x, int64_t bins, double min, double max) {
    check_histogram_input("torch.histc", x);
    COGRAD_CHECK(bins > 0, "torch.histc(): bins must be > 0, but got ", bins);
    const Bounds asked = min == max && x.numel() > 0 ? data_range(x) : Bounds{min, max};
    const Bounds b = checked_range("torch.histc", asked, 1);
    const Tensor in = raw_contiguous(x);
    Tensor out = empty({&bins, 1}, x.dtype());
    kernels::histogram_uniform(x.dtype(), in.bytes(), nullptr, x.numel(), b.lo, b.hi, bins,
                               out.bytes());
    return out;
  }
};
COGRAD_OP(Histc)

void check_weight(const Tensor& x, const Tensor& weight) {
  if (!weight.defined()) return;
  COGRAD_CHECK(weight.dtype() == x.dtype() && same(weight.sizes(), x.sizes()),
               "torch.histogram(): weight must have the shape and dtype of input, got ",
               to_string(weight.sizes()), " ", dtype_name(weight.dtype()), ", expected ",
               to_string(x.sizes()), " ", dtype_name(x.dtype()));
}

struct HistogramUniform {
  static constexpr OpSpec spec{"_histogram_uniform", "input, bins, lo=None, hi=None, weight=None",
                               kInternal | kNondiff | kReduction,
                               "Counts in equal bins, and the bins' edges.",
                               "none: reached through histogram()"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static std::tuple<Tensor, Tensor> forward(const Tensor& x, int64_t bins, std::optional<double> lo,
                                            std::optional<double> hi, const Tensor& weight) {
    check_histogram_input("torch.histogram", x);
    COGRAD_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins);
    check_weight(x, weight);
    const Bounds b = bounds_of(x, lo, hi);
    const Tensor in = raw_contiguous(x);
    const Tensor w = weight.defined() ? raw_contiguous(weight) : Tensor();
    Tensor hist = empty({&bins, 1}, x.dtype());
    kernels::histogram_uniform(x.dtype(), in.bytes(), weight.defined() ? w.bytes() : nullptr,
                               x.numel(), b.lo, b.hi, bins, hist.bytes());
    const int64_t n[1] = {bins + 1};
    std::vector<double> values;
    for (int64_t i = 0; i < bins; ++i)
      values.push_back(b.lo + (b.hi - b.lo) * static_cast<double>(i) / static_cast<double>(bins));
    values.push_back(b.hi);
    const Tensor edges = empty(n, DType::Float64);
    write_elements<double>(edges, values);
    return {std::move(hist), raw_cast(edges, x.dtype())};
  }

 private:
  // Ends that are not given are those of the data, or 0 and 1 without data.
  static Bounds bounds_of(const Tensor& x, std::optional<double> lo, std::optional<double> hi) {
    if (!lo && x.numel() == 0) return {0, 1};
    const Bounds b = lo && hi ? Bounds{*lo, *hi} : data_range(x);
    return checked_range("torch.histogram", b, 0.5);
  }
};
COGRAD_OP(HistogramUniform)

struct HistogramEdges {
  static constexpr OpSpec spec{"_histogram_edges", "input, edges, weight=None",
                               kInternal | kNondiff | kReduction, "Counts between ascending edges.",
                               "none: reached through histogram()"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& x, const Tensor& edges, const Tensor& weight) {
    check_histogram_input("torch.histogram", x);
    check_weight(x, weight);
    COGRAD_CHECK(edges.dim() == 1 && edges.numel() > 1,
                 "torch.histogram(): bins tensor should have one dimension and at least two edges, "
                 "got shape ",
                 to_string(edges.sizes()));
    COGRAD_CHECK(edges.dtype() == x.dtype(), "torch.histogram(): bins must have input's dtype ",
                 dtype_name(x.dtype()), ", got ", dtype_name(edges.dtype()));
    const Tensor in = raw_contiguous(x);
    const Tensor e = raw_contiguous(edges);
    const Tensor w = weight.defined() ? raw_contiguous(weight) : Tensor();
    const int64_t bins[1] = {edges.numel() - 1};
    Tensor hist = empty(bins, x.dtype());
    kernels::histogram_edges(x.dtype(), in.bytes(), weight.defined() ? w.bytes() : nullptr,
                             x.numel(), e.bytes(), bins[0], hist.bytes());
    return hist;
  }
};
COGRAD_OP(HistogramEdges)

}  // namespace

}  // namespace cograd
