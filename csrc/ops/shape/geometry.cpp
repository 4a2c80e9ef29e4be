// SPDX-License-Identifier: BSD-3-Clause
// Shape arithmetic of the view ops.
#include "ops/shape/geometry.h"

#include "ops/compute/elementwise.h"

namespace cograd {

Dims infer_sizes(IntList asked, int64_t numel) {
  int64_t known = 1;
  std::optional<size_t> unknown;
  bool overflow = false;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] == -1) {
      COGRAD_CHECK(!unknown, "only one dimension can be inferred");
      unknown = i;
      continue;
    }
    COGRAD_CHECK(asked[i] >= 0, "invalid shape dimension ", asked[i], " at index ", i, " of shape ",
                 to_string(asked));
    overflow |= __builtin_mul_overflow(known, asked[i], &known);
  }
  Dims sizes(asked);
  const bool fits = !overflow && (unknown ? known != 0 && numel % known == 0 : known == numel);
  if (!fits) {
    COGRAD_CHECK(!unknown || known != 0 || numel != 0,
                 "cannot reshape tensor of 0 elements into shape ", to_string(asked),
                 " because the unspecified dimension size -1 can be any value and is ambiguous");
    detail::fail(ErrorKind::Runtime, "shape '", to_string(asked), "' is invalid for input of size ",
                 numel);
  }
  if (unknown) sizes[*unknown] = numel / known;
  return sizes;
}

bool view_strides(const Tensor& x, IntList sizes, Dims& strides) {
  if (x.is_contiguous()) {
    strides = contiguous_strides(sizes);
    return true;
  }
  // Walks both shapes from the right: each run of x's dims that is contiguous in memory must equal
  // the product of some of the new dims.
  strides.resize(sizes.size());
  size_t to = sizes.size();
  int64_t run = 1;
  int64_t step = x.dim() == 0 ? 1 : x.stride(-1);
  for (int d = x.dim() - 1; d >= 0; --d) {
    run = checked_mul(run, x.size(d));
    const bool ends = d == 0 || (x.size(d - 1) != 1 && x.stride(d - 1) != run * step);
    if (!ends) continue;
    int64_t filled = 1;
    while (to > 0 && (filled < run || sizes[to - 1] == 1)) {
      --to;
      strides[to] = filled * step;
      filled = checked_mul(filled, sizes[to]);
    }
    if (filled != run) return false;
    if (d > 0) {
      run = 1;
      step = x.stride(d - 1);
    }
  }
  return to == 0;
}

SliceBounds slice_bounds(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end,
                         int64_t step) {
  COGRAD_CHECK_VALUE(step > 0, "step must be greater than zero, got ", step);
  auto clamp = [size](int64_t v) {
    if (v < 0) v += size;
    return std::clamp<int64_t>(v, 0, size);
  };
  const int64_t lo = clamp(start.value_or(0));
  const int64_t hi = std::max(lo, end ? clamp(*end) : size);
  return {lo, (hi - lo) / step + ((hi - lo) % step != 0)};
}

Tensor select_region(const Tensor& t, int dim, int64_t index) {
  Dims sizes(t.sizes());
  Dims strides(t.strides());
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  return alias_strided(t, sizes, strides, t.bytes() + index * t.stride(dim) * t.itemsize());
}

Tensor slice_region(const Tensor& t, int dim, SliceBounds bounds, int64_t step) {
  Dims sizes(t.sizes());
  Dims strides(t.strides());
  const auto d = static_cast<size_t>(dim);
  char* data = t.bytes() + (bounds.length == 0 ? 0 : bounds.start * strides[d] * t.itemsize());
  sizes[d] = bounds.length;
  strides[d] = scaled_stride(strides[d], step);
  return alias_strided(t, sizes, strides, data);
}

Tensor diagonal_region(const Tensor& t, int64_t offset, int dim1, int dim2) {
  const int64_t rows = t.size(dim1);
  const int64_t cols = t.size(dim2);
  const int64_t length = std::max<int64_t>(
      0, offset >= 0 ? std::min(rows, cols - offset) : std::min(rows + offset, cols));
  const int64_t skip = length == 0   ? 0
                       : offset >= 0 ? offset * t.stride(dim2)
                                     : -offset * t.stride(dim1);
  Dims sizes;
  Dims strides;
  for (int d = 0; d < t.dim(); ++d) {
    if (d == dim1 || d == dim2) continue;
    sizes.push_back(t.size(d));
    strides.push_back(t.stride(d));
  }
  sizes.push_back(length);
  strides.push_back(t.stride(dim1) + t.stride(dim2));
  return alias_strided(t, sizes, strides, t.bytes() + skip * t.itemsize());
}

int64_t check_select(const Tensor& t, int dim, int64_t index) {
  const int64_t size = t.size(dim);
  COGRAD_CHECK_INDEX(index >= -size && index < size, "select(): index ", index,
                     " out of range for tensor of size ", to_string(t.sizes()), " at dimension ",
                     dim);
  return index < 0 ? index + size : index;
}

std::pair<int, int> diagonal_dims(int ndim, int64_t dim1, int64_t dim2) {
  const int a = wrap_dim(dim1, ndim);
  const int b = wrap_dim(dim2, ndim);
  COGRAD_CHECK(a != b, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  return {a, b};
}

const Tensor& checked_part(const char* op, const Tensor& region, const Tensor& g) {
  COGRAD_CHECK(same(region.sizes(), g.sizes()), op, "(): expected a gradient of shape ",
               to_string(region.sizes()), ", got ", to_string(g.sizes()));
  return g;
}

void copy_region(const Tensor& out, const Tensor& x, int dim, int64_t at) {
  raw_copy(slice_region(out, dim, {at, x.size(dim)}, 1), x);
}

}  // namespace cograd
