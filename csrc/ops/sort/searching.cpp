// SPDX-License-Identifier: BSD-3-Clause
// Searching in sorted sequences, counting and membership.
#include <cmath>

#include "kernels/index.h"
#include "kernels/sort.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

Tensor as_tensor(const TensorOrScalar& v) {
  return v.is_tensor() ? v.tensor() : wrapped_number(v.scalar());
}

bool from_right(bool right, std::optional<std::string_view> side) {
  if (!side) return right;
  COGRAD_CHECK(*side == "left" || *side == "right",
               "torch.searchsorted(): side can only be 'left' or 'right' but got ", *side);
  COGRAD_CHECK(*side == "right" || !right,
               "torch.searchsorted(): side and right can't be set to opposites, got side of ",
               *side, " while right was True");
  return *side == "right";
}

// The int64 order in which an unsorted sequence is to be read; entries are checked here.
Tensor sorter_of(const Tensor& sorted, const Tensor& sorter) {
  if (!sorter.defined()) return sorter;
  COGRAD_CHECK(sorter.dtype() == DType::Int64,
               "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype ",
               dtype_name(sorter.dtype()));
  COGRAD_CHECK(same(sorter.sizes(), sorted.sizes()),
               "torch.searchsorted(): boundary and sorter must have the same size, but got "
               "boundary tensor ",
               to_string(sorted.sizes()), " and got sorter tensor ", to_string(sorter.sizes()));
  Tensor out = raw_contiguous(sorter);
  const int64_t n = sorted.size(-1);
  const auto* p = out.data<int64_t>();
  for (int64_t i = 0; i < out.numel(); ++i)
    COGRAD_CHECK_INDEX(p[i] >= 0 && p[i] < n,
                       "torch.searchsorted(): sorter index out of range, got ", p[i],
                       ", expected 0 to ", n - 1);
  return out;
}

Tensor search(const Tensor& sorted, const Tensor& values, bool right, bool out_int32,
              const Tensor& sorter) {
  const DType t = promote_types(sorted.dtype(), values.dtype());
  const Tensor keys = raw_contiguous(raw_cast(sorted, t));
  const Tensor in = raw_contiguous(raw_cast(values, t));
  Tensor out = empty(values.sizes(), out_int32 ? DType::Int32 : DType::Int64);
  if (out.numel() == 0) return out;
  const int64_t n = keys.size(-1);
  const bool shared = keys.dim() == 1;
  const int64_t m = shared ? in.numel() : in.size(-1);
  kernels::searchsorted(t, keys.bytes(), sorter.defined() ? sorter.data<int64_t>() : nullptr, n,
                        shared, in.bytes(), shared ? 1 : in.numel() / m, m, right, out.dtype(),
                        out.bytes());
  return out;
}

struct SearchSorted {
  static constexpr OpSpec spec{
      "searchsorted",
      "sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None",
      kFunction | kOut | kNondiff,
      "Where along the last dim each value would keep sorted_sequence in order: before equal "
      "elements, or after them with right=True or side='right'.",
      "cograd.tensor([1., 2., 2., 5.]), T(3, 4, lo=0, hi=6); cograd.tensor([1, 3, 5]), I(4, hi=7), "
      "right=True; T(2, 5).sort()[0], T(2, 3); cograd.tensor([1., 3.]), 2.0",
      "np.searchsorted(sorted_sequence, input, 'right' if right else 'left') "
      "if sorted_sequence.ndim == 1 else "
      "np.stack([np.searchsorted(a, v) for a, v in zip(sorted_sequence, input)])"};
  static Tensor forward(const Tensor& sorted, const TensorOrScalar& input, bool out_int32,
                        bool right, std::optional<std::string_view> side, const Tensor& sorter) {
    const Tensor values = as_tensor(input);
    right = from_right(right, side);
    COGRAD_CHECK(sorted.dim() > 0,
                 "torch.searchsorted(): boundaries tensor should have positive dimension, but got "
                 "0 dimension");
    bool fits = sorted.dim() == 1;
    if (!fits && sorted.dim() == values.dim())
      fits = same(sorted.sizes().first(static_cast<size_t>(sorted.dim()) - 1),
                  values.sizes().first(static_cast<size_t>(sorted.dim()) - 1));
    COGRAD_CHECK(fits,
                 "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
                 "dimensions of boundaries tensor and input value tensor must match, but we got "
                 "boundaries tensor ",
                 to_string(sorted.sizes()), " and input value tensor ", to_string(values.sizes()));
    return search(sorted, values, right, out_int32, sorter_of(sorted, sorter));
  }
};
COGRAD_OP(SearchSorted)

struct Bucketize {
  static constexpr OpSpec spec{
      "bucketize",
      "input, boundaries, *, out_int32=False, right=False",
      kFunction | kOut | kNondiff,
      "The index of the bucket, between ascending boundaries, that each value falls into.",
      "T(3, 4, lo=0, hi=6), cograd.tensor([1., 2., 5.]); I(4, hi=7), cograd.tensor([1, 3, 5]), "
      "right=True; 2.5, cograd.tensor([1., 3.])",
      "np.searchsorted(boundaries, input, 'right' if right else 'left')"};
  static Tensor forward(const TensorOrScalar& input, const Tensor& boundaries, bool out_int32,
                        bool right) {
    COGRAD_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
                 boundaries.dim(), ")");
    return search(boundaries, as_tensor(input), right, out_int32, Tensor());
  }
};
COGRAD_OP(Bucketize)

struct Bincount {
  static constexpr OpSpec spec{
      "bincount",
      "input, weights=None, minlength=0",
      kFunctional | kNondiff,
      "How often each of 0, 1, ..., max(input) occurs (or the sum of their weights); at least "
      "minlength entries.",
      "I(9); I(9), minlength=8; I(9), T(9)",
      "np.bincount(input, weights, minlength)"};
  static Tensor forward(const Tensor& x, const Tensor& weights, int64_t minlength) {
    COGRAD_CHECK_NOT_IMPLEMENTED(!x.is_floating(), "\"bincount_cpu\" not implemented for '",
                                 scalar_type_name(x.dtype()), "'");
    COGRAD_CHECK(x.dim() == 1 && x.dtype() != DType::Bool,
                 "bincount only supports 1-d non-negative integral inputs.");
    COGRAD_CHECK(minlength >= 0, "minlength should be >= 0, got ", minlength);
    const bool weighted = weights.defined();
    COGRAD_CHECK(!weighted || (weights.dim() == 1 && weights.numel() == x.numel()),
                 "weights should be 1-d and have the same length as input");
    const Tensor in = raw_contiguous(x);
    const int64_t top = kernels::bincount_size(x.dtype(), in.bytes(), x.numel());
    const int64_t bins[1] = {std::max(top, minlength)};
    const DType sum = !weighted                           ? DType::Int64
                      : weights.dtype() == DType::Float32 ? DType::Float32
                                                          : DType::Float64;
    const Tensor w = weighted ? raw_contiguous(raw_cast(weights, sum)) : Tensor();
    Tensor out = empty(bins, sum);
    kernels::bincount(x.dtype(), in.bytes(), x.numel(), sum, weighted ? w.bytes() : nullptr,
                      bins[0], out.bytes());
    return out;
  }
};
COGRAD_OP(Bincount)

void check_histogram_input(const char* op, const Tensor& x) {
  COGRAD_CHECK_NOT_IMPLEMENTED(x.is_floating(), "\"histogram_cpu\" not implemented for '",
                               scalar_type_name(x.dtype()), "'; ", op, "() needs floating input");
}

struct Bounds {
  double lo, hi;
};
// min == max asks for the range of the data; a range of width 0 is widened by 1 on either side.
Bounds histogram_range(const char* op, const Tensor& x, double lo, double hi) {
  if (lo == hi && x.numel() > 0) {
    const Tensor wide = raw_contiguous(raw_cast(x, DType::Float64));
    const auto* p = wide.data<double>();
    lo = hi = p[0];
    for (int64_t i = 1; i < wide.numel(); ++i) {
      if (std::isnan(p[i])) lo = hi = p[i];
      lo = std::min(lo, p[i]);
      hi = std::max(hi, p[i]);
    }
  }
  COGRAD_CHECK(std::isfinite(lo) && std::isfinite(hi), op, ": range of [", lo, ", ", hi,
               "] is not finite");
  COGRAD_CHECK(lo <= hi, op, ": max must be larger than min, got ", lo, " and ", hi);
  return lo == hi ? Bounds{lo - 1, hi + 1} : Bounds{lo, hi};
}

struct Histc {
  static constexpr OpSpec spec{
      "histc",
      "input, bins=100, min=0, max=0",
      kFunctional | kOut | kNondiff,
      "Counts of input in equal bins between min and max (both 0: the range of the data), in "
      "input's dtype.",
      "T(30), 7; T(3, 4), 5, -0.5, 0.5",
      "np.histogram(input, bins, (min, max) if min != max else None)[0].astype(input.dtype)"};
  static Tensor forward(const Tensor& x, int64_t bins, double min, double max) {
    check_histogram_input("torch.histc", x);
    COGRAD_CHECK(bins > 0, "torch.histc(): bins must be > 0, but got ", bins);
    const Bounds b = histogram_range("torch.histc", x, min, max);
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
  static constexpr OpSpec spec{"_histogram_uniform", "input, bins, lo, hi, weight=None",
                               kInternal | kNondiff, "Counts in equal bins, and the bins' edges.",
                               "none: reached through histogram()"};
  static std::tuple<Tensor, Tensor> forward(const Tensor& x, int64_t bins, double lo, double hi,
                                            const Tensor& weight) {
    check_histogram_input("torch.histogram", x);
    COGRAD_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins);
    check_weight(x, weight);
    const Bounds b = histogram_range("torch.histogram", x, lo, hi);
    const Tensor in = raw_contiguous(x);
    const Tensor w = weight.defined() ? raw_contiguous(weight) : Tensor();
    Tensor hist = empty({&bins, 1}, x.dtype());
    kernels::histogram_uniform(x.dtype(), in.bytes(), weight.defined() ? w.bytes() : nullptr,
                               x.numel(), b.lo, b.hi, bins, hist.bytes());
    const int64_t n[1] = {bins + 1};
    const Tensor edges = empty(n, DType::Float64);
    for (int64_t i = 0; i <= bins; ++i)
      edges.data<double>()[i] =
          i == bins ? b.hi
                    : b.lo + (b.hi - b.lo) * static_cast<double>(i) / static_cast<double>(bins);
    return {std::move(hist), raw_cast(edges, x.dtype())};
  }
};
COGRAD_OP(HistogramUniform)

struct HistogramEdges {
  static constexpr OpSpec spec{"_histogram_edges", "input, edges, weight=None",
                               kInternal | kNondiff, "Counts between ascending edges.",
                               "none: reached through histogram()"};
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

struct IsIn {
  static constexpr OpSpec spec{
      "isin",
      "elements, test_elements, *, assume_unique=False, invert=False",
      kFunction | kOut | kNondiff,
      "Whether each element is among test_elements.",
      "I(3, 4), I(3); I(6), I(4), invert=True; T(3), cograd.tensor([0.5]); I(6), 2",
      "np.isin(elements, test_elements, invert=invert)"};
  static Tensor forward(const TensorOrScalar& elements, const TensorOrScalar& test_elements, bool,
                        bool invert) {
    const Tensor x = as_tensor(elements);
    const Tensor tests = as_tensor(test_elements);
    const DType t = result_type(x, tests);
    const Tensor in = raw_contiguous(raw_cast(x, t));
    const Tensor among = raw_contiguous(raw_cast(tests, t));
    Tensor out = empty(x.sizes(), DType::Bool);
    bool* found = out.data<bool>();
    const int64_t m = among.numel();
    if (m == 0) {
      std::fill_n(found, out.numel(), invert);
      return out;
    }
    const Tensor keys = empty({&m, 1}, t);
    kernels::sort(t, among.bytes(), keys.bytes(), nullptr, 1, m, 1, false);
    const Tensor at = empty(x.sizes(), DType::Int64);
    kernels::searchsorted(t, keys.bytes(), nullptr, m, true, in.bytes(), 1, in.numel(), false,
                          DType::Int64, at.bytes());
    dispatch_all(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < out.numel(); ++i) {
        const int64_t k = at.data<int64_t>()[i];
        found[i] = (k < m && keys.data<T>()[k] == in.data<T>()[i]) != invert;
      }
    });
    return out;
  }
};
COGRAD_OP(IsIn)

struct OneHot {
  static constexpr OpSpec spec{
      "_one_hot",
      "input, num_classes=-1",
      kInternal | kNondiff,
      "Rows of zeros with a one where input says; num_classes -1 takes the largest + 1.",
      "I(3, 4); I(5), 7",
      "np.eye(num_classes if num_classes > 0 else input.max() + 1, "
      "dtype=np.int64)[input]"};
  static Tensor forward(const Tensor& x, int64_t num_classes) {
    COGRAD_CHECK(x.dtype() == DType::Int64,
                 "one_hot is only applicable to index tensor of type LongTensor, got ",
                 dtype_name(x.dtype()));
    COGRAD_CHECK(x.numel() > 0 || num_classes > 0,
                 "Can not infer total number of classes from empty tensor.");
    COGRAD_CHECK(num_classes > 0 || num_classes == -1, "num_classes should be positive, got ",
                 num_classes);
    const Tensor in = raw_contiguous(x);
    int64_t top = -1;
    for (int64_t i = 0; i < in.numel(); ++i) {
      COGRAD_CHECK(in.data<int64_t>()[i] >= 0, "Class values must be non-negative.");
      top = std::max(top, in.data<int64_t>()[i]);
    }
    if (num_classes == -1) num_classes = top + 1;
    COGRAD_CHECK(top < num_classes, "Class values must be smaller than num_classes.");
    Dims sizes(x.sizes());
    sizes.push_back(num_classes);
    Tensor out = empty(sizes, DType::Int64);
    kernels::one_hot(in.data<int64_t>(), in.numel(), num_classes, out.data<int64_t>());
    return out;
  }
};
COGRAD_OP(OneHot)

}  // namespace

}  // namespace cograd
