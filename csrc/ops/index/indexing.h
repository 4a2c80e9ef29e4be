// SPDX-License-Identifier: BSD-3-Clause
// Shared by the indexing ops: basic indices as view geometry, index checks, rewriting of targets.
#pragma once
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "ops/reduce/reduce.h"

namespace cograd {

// A basic index (ints, slices, None, ...), resolved against a tensor item by item in one pass.
class COGRAD_API BasicIndex {
 public:
  // The kind of the last item that has an effect; it names the graph node.
  enum class Kind : uint8_t { Alias, Slice, Select, Unsqueeze };

  explicit BasicIndex(const Tensor& x) : x_(x) {
    if (!x.is_contiguous()) [[unlikely]]
      whole_strides_ = contiguous_strides(x.sizes());
  }
  int remaining() const noexcept { return x_.dim() - dim_; }
  // Returns the dim of the view that the next item produces.
  int out_dim() const noexcept { return static_cast<int>(sizes.size()); }
  int64_t next_size() const noexcept { return x_->sizes_[dim_]; }

  void select(int64_t index) {
    need_dims(1);
    const int64_t n = next_size();
    if (index < -n || index >= n) [[unlikely]]
      detail::fail(ErrorKind::Index, "index ", index, " is out of bounds for dimension ", dim_,
                   " with size ", n);
    advance(index < 0 ? index + n : index);
    ++dim_;
    kind = Kind::Select;
  }
  // start and stop are as in a Python slice and are clamped here; step > 0.
  void slice(int64_t start, int64_t stop, int64_t step) {
    need_dims(1);
    const int64_t n = next_size();
    if (start < 0) start = std::max<int64_t>(start + n, 0);
    if (stop < 0) stop += n;
    start = std::min(start, n);
    stop = std::clamp(stop, start, n);
    const int64_t length = stop == start ? 0 : 1 + (stop - start - 1) / step;
    if (length != n) kind = Kind::Slice;
    advance(start);
    push(length, step);
    ++dim_;
  }
  void unsqueeze() {
    sizes.push_back(1);
    const int64_t step = dim_ < x_.dim() ? scaled_stride(x_->strides_[dim_], next_size()) : 1;
    strides.push_back(step);
    if (!x_.is_contiguous()) region_strides_.push_back(1);
    kind = Kind::Unsqueeze;
  }
  // Keeps the next n dims unchanged.
  void keep(int n) {
    need_dims(n);
    for (; n > 0; --n, ++dim_) push(next_size(), 1);
  }
  void finish() { keep(remaining()); }

  const Tensor& tensor() const noexcept { return x_; }
  // The geometry of the same region in a contiguous tensor of the same shape.
  const Dims& region_strides() const noexcept {
    return x_.is_contiguous() ? strides : region_strides_;
  }
  int64_t region_offset() const noexcept { return x_.is_contiguous() ? offset : region_offset_; }

  // Returns the same index for each sample of the physical tensor `whole`, whose dim 0 is the
  // batch. `whole` must outlive the result.
  BasicIndex of_samples(const Tensor& whole) const {
    BasicIndex all(whole);
    all.sizes.push_back(whole.size(0));
    all.strides.push_back(whole.stride(0));
    all.region_strides_.push_back(x_.numel());
    for (size_t i = 0; i < sizes.size(); ++i) {
      all.sizes.push_back(sizes[i]);
      all.strides.push_back(strides[i]);
      all.region_strides_.push_back(region_strides()[i]);
    }
    all.offset = offset;
    all.region_offset_ = region_offset();
    all.kind = kind;
    return all;
  }

  Dims sizes, strides;
  int64_t offset = 0;  // in elements, from x's first element
  Kind kind = Kind::Alias;

 private:
  void need_dims(int n) const {
    if (n > remaining()) [[unlikely]]
      detail::fail(ErrorKind::Index, "too many indices for tensor of dimension ", x_.dim());
  }
  void advance(int64_t steps) {
    offset = checked_add(offset, scaled_stride(x_->strides_[dim_], steps));
    if (!x_.is_contiguous()) region_offset_ += steps * whole_strides_[static_cast<size_t>(dim_)];
  }
  void push(int64_t size, int64_t step) {
    sizes.push_back(size);
    strides.push_back(scaled_stride(x_->strides_[dim_], step));
    if (!x_.is_contiguous())
      region_strides_.push_back(scaled_stride(whole_strides_[static_cast<size_t>(dim_)], step));
  }

  const Tensor& x_;
  int dim_ = 0;
  Dims whole_strides_, region_strides_;
  int64_t region_offset_ = 0;
};

// A strided region of a contiguous tensor of shape base_sizes.
struct Region {
  Dims base_sizes, strides;
  int64_t offset = 0;
};

// Applies a finished basic index to x: one view and one node.
COGRAD_API Tensor index_view(const Tensor& x, const BasicIndex& index);
// Used for slices that run backwards: x with dims flipped, and target = flipped value, broadcast.
COGRAD_API Tensor index_backwards(const Tensor& x, IntList dims);
COGRAD_API void set_backwards(const Tensor& target, IntList dims, const Tensor& value);
// Returns zeros of r.base_sizes with g in the region; differentiable.
Tensor region_grad(const Tensor& g, const Region& r);
// Returns the leading corner of x of the given sizes, and its adjoint (zeros around g). The number
// of dims stays the same.
Tensor corner(const Tensor& x, IntList sizes);
Tensor pad_corner(const Tensor& g, IntList sizes);

// Returns x[indices]: one entry per dim (a mask covers as many dims as it has); undefined entries
// keep their dim.
COGRAD_API Tensor index_get(const Tensor& x, TensorList indices);
COGRAD_API void index_put_(const Tensor& self, TensorList indices, const Tensor& values,
                           bool accumulate = false);
COGRAD_API void masked_fill_(const Tensor& self, const Tensor& mask, const TensorOrScalar& value);

// Returns zeros of `sizes` with g's elements, in order, where mask is true: masked_select's
// adjoint.
Tensor masked_select_grad(const Tensor& g, const Tensor& mask, IntList sizes);
// Returns zeros of `sizes` with g added at `index` along dim: the adjoint of gather, sort and topk.
Tensor gather_grad(const Tensor& g, int dim, const Tensor& index, IntList sizes);

// A result whose form depends on the arguments: one tensor, or a tuple of them.
struct Results {
  std::vector<Tensor> tensors;
  bool tuple = true;
};
inline void box(Result& r, Results v) {
  if (!v.tuple) return box(r, std::move(v.tensors[0]));
  box(r, std::move(v.tensors));
}
template <>
struct Unboxed<Results> {
  static Results get(Result& r) {
    if (r.kind == Result::Kind::Tensor) return {{std::move(r.tensor)}, false};
    return {std::move(r.tensors), true};
  }
};

// Returns an int32 or int64 index as int64; raises RuntimeError for other dtypes.
Tensor index64(const Tensor& index, const char* op);
// Returns index64(index), but accepts any dtype if there are no elements, as gather and scatter do.
Tensor index64_if_any(const Tensor& index, const char* op);
// Returns the tensor that an op which changes part of `self` writes: the in-place target if it is
// suitable, else a copy of self. Replaces inputs among `read` that share its memory by copies.
Tensor rewrite_target(CtxBase& ctx, const Tensor& self, bool contiguous,
                      std::initializer_list<Tensor*> read);
// Returns byte strides that broadcast `t` to `sizes`.
Dims broadcast_bytes(const Tensor& t, IntList sizes);

}  // namespace cograd
