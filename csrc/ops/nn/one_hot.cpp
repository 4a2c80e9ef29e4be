// SPDX-License-Identifier: BSD-3-Clause
// one_hot: class indices as one-hot rows.
#include <limits>

#include "kernels/index/index.h"
#include "ops/compute/elementwise.h"

namespace cograd {

namespace {

struct OneHot {
  static constexpr OpSpec spec{
      "_one_hot",
      "input, num_classes=-1",
      kInternal | kNondiff | kIndex,
      "Rows of zeros with a one at the class index; num_classes=-1 uses the largest index + 1.",
      "I(3, 4); I(5), 7",
      "np.eye(num_classes if num_classes > 0 else input.max() + 1, "
      "dtype=np.int64)[input]"};
  static constexpr DTypeSet kDTypes = dtype_set({DType::Int64});
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& x, int64_t num_classes) {
    COGRAD_CHECK(x.dtype() == DType::Int64,
                 "one_hot is only applicable to index tensor of type LongTensor, got ",
                 dtype_name(x.dtype()));
    COGRAD_CHECK(x.numel() > 0 || num_classes > 0,
                 "Can not infer total number of classes from empty tensor.");
    COGRAD_CHECK(num_classes > 0 || num_classes == -1, "num_classes should be positive, got ",
                 num_classes);
    const Tensor in = raw_contiguous(x);
    const int64_t top = kernels::largest_index(in.data<int64_t>(), in.numel());
    COGRAD_CHECK(top >= -1, "Class values must be non-negative.");
    COGRAD_CHECK(top < std::numeric_limits<int64_t>::max(), "one_hot(): the class value ", top,
                 " is too large: it would need ", top, " + 1 classes");
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
