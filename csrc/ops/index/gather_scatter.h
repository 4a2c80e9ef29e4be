// SPDX-License-Identifier: BSD-3-Clause
// Shared by gather, scatter and scatter_reduce: the loop over an index along one dim, and checks.
#pragma once
#include "kernels/index/index.h"
#include "ops/index/indexing.h"

namespace cograd {

// The loop over index's elements; it treats 0-dim tensors as 1-dim.
class IndexLoop {
 public:
  IndexLoop(const Tensor& self, const Tensor& index, const Tensor* other, int dim) {
    sizes_ = Dims(index.sizes());
    self_ = bytes_of(self);
    index_ = bytes_of(index);
    if (other != nullptr) other_ = bytes_of(*other);
    if (sizes_.empty()) sizes_.push_back(1);
    for (Dims* d : {&self_, &index_, &other_})
      if (d->size() < sizes_.size()) d->resize(sizes_.size(), 0);
    g_ = {sizes_, self_, index_, other_, dim, self.dim() == 0 ? 1 : self.size(dim)};
  }
  IndexLoop(const IndexLoop&) = delete;
  IndexLoop& operator=(const IndexLoop&) = delete;
  const kernels::DimIndexGeometry& get() const noexcept { return g_; }

 private:
  static Dims bytes_of(const Tensor& t) {
    Dims out(t.strides());
    for (int64_t& s : out) s = scaled_stride(s, t.itemsize());
    return out;
  }
  Dims sizes_, self_, index_, other_;
  kernels::DimIndexGeometry g_;
};

struct AlongDim {
  Dims sizes;  // of the tensor that backward restores, the input or src
  int dim = 0;
};

inline int64_t size_or_1(const Tensor& t, int d) { return t.dim() == 0 ? 1 : t.size(d); }
// Checks shapes as torch does; src is null for gather and for scatter of a scalar.
void check_gather_shapes(const char* op, const Tensor& self, int dim, const Tensor& index,
                         const Tensor* src);
// Reduces src at index (int64) into self, which is contiguous and a copy or the target.
void raw_scatter_reduce(kernels::ScatterReduce op, const Tensor& self, int dim, const Tensor& index,
                        const Tensor& src, bool include_self);

// Differentiable; dim must not be negative.
Tensor gather(const Tensor& x, int dim, const Tensor& index);
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& src);
Tensor scatter_value(const Tensor& x, int dim, const Tensor& index, Scalar value);

}  // namespace cograd
