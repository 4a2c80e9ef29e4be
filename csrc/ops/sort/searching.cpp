// SPDX-License-Identifier: BSD-3-Clause
// Searching in sorted sequences: searchsorted, bucketize, isin.
#include <cmath>
#include "kernels/index/index.h"
#include "kernels/index/sort.h"
#include "ops/compute/unsigned.h"
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

// Returns the int64 order in which to read an unsorted sequence, after checking its entries.
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
  int64_t bad = 0;
  COGRAD_CHECK_INDEX(kernels::all_within(out.data<int64_t>(), out.numel(), n, &bad),
                     "torch.searchsorted(): sorter index out of range, got ", bad,
                     ", expected 0 to ", n - 1);
  return out;
}

// Bools are compared as bytes, which raw_cast sets to 0 and 1.
DType compared(DType t) { return t == DType::Bool ? DType::UInt8 : t; }

Tensor search(const Tensor& sorted, const Tensor& values, bool right, bool out_int32,
              const Tensor& sorter) {
  const DType common = compared(promote_types(sorted.dtype(), values.dtype()));
  const DType t = signed_twin(common);
  const Tensor keys = raw_contiguous(in_signed_order(raw_cast(sorted, common)));
  const Tensor in = raw_contiguous(in_signed_order(raw_cast(values, common)));
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
      kFunction | kOut | kNondiff | kSorting | kExactOut,
      "The index along the last dim at which each value keeps sorted_sequence in order: before "
      "equal elements, or after them with right=True or side='right'.",
      "cograd.tensor([1., 2., 2., 5.]), T(3, 4, lo=0, hi=6); cograd.tensor([1, 3, 5]), I(4, hi=7), "
      "right=True; T(2, 5).sort()[0], T(2, 3); cograd.tensor([1., 3.]), 2.0",
      "np.searchsorted(sorted_sequence, input, 'right' if right else 'left') "
      "if sorted_sequence.ndim == 1 else "
      "np.stack([np.searchsorted(a, v) for a, v in zip(sorted_sequence, input)])"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
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
      kFunction | kOut | kNondiff | kSorting | kExactOut,
      "The index of the bucket, between ascending boundaries, that each value falls into.",
      "T(3, 4, lo=0, hi=6), cograd.tensor([1., 2., 5.]); I(4, hi=7), cograd.tensor([1, 3, 5]), "
      "right=True; 2.5, cograd.tensor([1., 3.])",
      "np.searchsorted(boundaries, input, 'right' if right else 'left')"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(const TensorOrScalar& input, const Tensor& boundaries, bool out_int32,
                        bool right) {
    COGRAD_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
                 boundaries.dim(), ")");
    return search(boundaries, as_tensor(input), right, out_int32, Tensor());
  }
};
COGRAD_OP(Bucketize)

struct IsIn {
  static constexpr OpSpec spec{
      "isin",
      "elements, test_elements, *, assume_unique=False, invert=False",
      kFunction | kOut | kNondiff | kSorting | kExactOut,
      "True where the element is in test_elements.",
      "I(3, 4), I(3); I(6), I(4), invert=True; T(3), cograd.tensor([0.5]); I(6), 2",
      "np.isin(elements, test_elements, invert=invert)"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(const TensorOrScalar& elements, const TensorOrScalar& test_elements, bool,
                        bool invert) {
    const Tensor x = as_tensor(elements);
    const Tensor tests = as_tensor(test_elements);
    const DType common = compared(result_type(x, tests)), t = signed_twin(common);
    const Tensor in = raw_contiguous(in_signed_order(raw_cast(x, common)));
    const Tensor among = raw_contiguous(in_signed_order(raw_cast(tests, common)));
    Tensor out = empty(x.sizes(), DType::Bool);
    const int64_t m = among.numel();
    if (m == 0) {
      raw_fill(out, Scalar(invert));
      return out;
    }
    const Tensor keys = empty({&m, 1}, t);
    kernels::sort(t, among.bytes(), keys.bytes(), nullptr, 1, m, 1, false);
    const Tensor at = empty(x.sizes(), DType::Int64);
    kernels::searchsorted(t, keys.bytes(), nullptr, m, true, in.bytes(), 1, in.numel(), false,
                          DType::Int64, at.bytes());
    kernels::is_member(t, keys.bytes(), m, in.bytes(), at.data<int64_t>(), out.numel(), invert,
                       out.data<bool>());
    return out;
  }
};
COGRAD_OP(IsIn)

}  // namespace

}  // namespace cograd
