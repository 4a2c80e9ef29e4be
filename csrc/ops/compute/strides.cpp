// SPDX-License-Identifier: BSD-3-Clause
// Computes the strides of elementwise results and of memory formats.
#include "ops/compute/strides.h"

#include <algorithm>

#include "ops/declare/ops.h"

namespace cograd {

namespace {

// Returns channels-last strides; the order of dims, innermost first, is C, W, H (, D), N.
Dims channels_last_strides(IntList sizes) {
  const size_t n = sizes.size();
  Dims strides(n);
  int64_t step = 1;
  auto put = [&](size_t dim) {
    strides[dim] = step;
    step = scaled_stride(step, std::max<int64_t>(sizes[dim], 1));
  };
  put(1);
  for (size_t d = n; d-- > 2;) put(d);
  put(0);
  return strides;
}

// True if x has these strides; a dim of size 1 may have any stride.
bool matches(const Tensor& x, IntList strides) {
  for (int i = 0; i < x.dim(); ++i)
    if (x.size(i) != 1 && x.stride(i) != strides[static_cast<size_t>(i)]) return false;
  return true;
}

bool is_channels_last(const Tensor& x, int ndim) {
  return x.dim() == ndim && matches(x, channels_last_strides(x.sizes()));
}

// True if no two elements share an address and there are no gaps between them.
bool is_dense(const Tensor& x) {
  SmallVec<int, 6> order;
  for (int i = 0; i < x.dim(); ++i)
    if (x.size(i) != 1) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return x.stride(a) < x.stride(b); });
  int64_t step = 1;
  for (int d : order) {
    if (x.stride(d) != step) return false;
    step = scaled_stride(step, x.size(d));
  }
  return true;
}

// True if all inputs have the result's shape and one layout, which the result can take over.
bool common_layout(IntList shape, std::span<const Tensor* const> inputs, Dims& strides) {
  bool contiguous = true, last = shape.size() == 4, dense = true;
  for (const Tensor* t : inputs) {
    if (!same(t->sizes(), shape)) return false;
    contiguous &= t->is_contiguous();
    if (last) last = is_channels_last(*t, 4);
    if (dense) dense = is_dense(*t) && same(t->strides(), inputs[0]->strides());
  }
  if (contiguous) return true;
  if (last)
    strides = channels_last_strides(shape);
  else if (dense)
    strides = Dims(inputs[0]->strides());
  return last || dense;
}

int64_t stride_in(const Tensor& t, IntList shape, size_t dim) {
  const size_t lead = shape.size() - static_cast<size_t>(t.dim());
  if (dim < lead || (t.sizes()[dim - lead] == 1 && shape[dim] != 1)) return 0;
  return scaled_stride(t.strides()[dim - lead], t.itemsize());
}

// Returns > 0 if dim a must lie outside of dim b, by the first input that distinguishes them.
int compare(IntList shape, std::span<const Tensor* const> inputs, size_t a, size_t b) {
  for (const Tensor* t : inputs) {
    const int64_t x = stride_in(*t, shape, a), y = stride_in(*t, shape, b);
    if (x == 0 || y == 0) continue;
    if (x != y) return x > y ? 1 : -1;
    if (shape[a] > shape[b]) return 1;
  }
  return 0;
}

}  // namespace

Dims result_strides(IntList shape, std::span<const Tensor* const> inputs) {
  bool contiguous = true;
  for (const Tensor* t : inputs) contiguous &= t->is_contiguous();
  Dims strides;
  if (contiguous || common_layout(shape, inputs, strides)) return strides;
  const size_t n = shape.size();
  SmallVec<size_t, 6> order;  // innermost first
  for (size_t i = n; i-- > 0;) order.push_back(i);
  // Insertion sort keeps the order of dims that no input distinguishes.
  for (size_t i = 1; i < n; ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      const int c = compare(shape, inputs, order[j], order[moving]);
      if (c > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      } else if (c < 0) {
        break;
      }
    }
  }
  bool in_order = true;
  for (size_t i = 0; i < n; ++i) in_order &= order[i] == n - 1 - i;
  if (in_order) return strides;
  strides = Dims(n);
  int64_t step = 1;
  for (size_t d : order) {
    strides[d] = step;
    step = scaled_stride(step, shape[d]);
  }
  return strides;
}

Tensor empty_with_strides(IntList sizes, IntList strides, DType t) {
  const Tensor flat = empty(sizes, t);
  return alias_strided(flat, sizes, strides, flat.bytes());
}

Tensor empty_preserving(const Tensor& x, DType t) {
  if (x.is_contiguous()) return empty(x.sizes(), t);
  const Tensor* const inputs[1] = {&x};
  const Dims strides = result_strides(x.sizes(), inputs);
  return strides.empty() ? empty(x.sizes(), t) : empty_with_strides(x.sizes(), strides, t);
}

Tensor CtxBase::out(IntList sizes, DType dtype, std::span<const Tensor* const> inputs) {
  if (target_ != nullptr && (inplace_ || same(target_->sizes(), sizes)))
    return out_target(sizes, dtype);
  const Dims strides = result_strides(sizes, inputs);
  return strides.empty() ? empty(sizes, dtype) : empty_with_strides(sizes, strides, dtype);
}

MemoryFormat memory_format(const char* op, std::optional<std::string_view> name,
                           MemoryFormat otherwise) {
  if (!name) return otherwise;
  const std::string_view bare = name->substr(name->rfind('.') + 1);
  if (bare == "preserve_format") return MemoryFormat::Preserve;
  if (bare == "contiguous_format") return MemoryFormat::Contiguous;
  if (bare == "channels_last") return MemoryFormat::ChannelsLast;
  COGRAD_CHECK(bare == "channels_last_3d", op, "(): memory_format ", *name,
               " is not supported, expected preserve_format, contiguous_format, channels_last or "
               "channels_last_3d");
  return MemoryFormat::ChannelsLast3d;
}

MemoryFormat suggested_format(const Tensor& x) {
  if (x.dim() != 4 && x.dim() != 5) return MemoryFormat::Contiguous;
  if (x.stride(1) == 0) return MemoryFormat::Contiguous;
  int64_t least = 0;
  for (int k = 0; k < x.dim(); ++k) {  // C, W, H (, D), N
    const int d = k == 0 ? 1 : k == x.dim() - 1 ? 0 : x.dim() - k;
    if (x.size(d) == 0 || x.stride(d) < least) return MemoryFormat::Contiguous;
    // Shapes N111 and 1CHW with C = 1 are ambiguous.
    if (d == 0 && least == x.stride(1)) return MemoryFormat::Contiguous;
    least = scaled_stride(x.stride(d), x.size(d));
  }
  return x.dim() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

Dims format_strides(IntList sizes, MemoryFormat format) {
  if (format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d) {
    const size_t rank = format == MemoryFormat::ChannelsLast ? 4 : 5;
    COGRAD_CHECK(sizes.size() == rank, "required rank ", rank, " tensor to use channels_last",
                 rank == 5 ? "_3d" : "", " format");
    return channels_last_strides(sizes);
  }
  Dims strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = scaled_stride(step, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

bool has_format(const Tensor& x, MemoryFormat format) {
  COGRAD_CHECK(format != MemoryFormat::Preserve,
               "preserve memory format is unsupported by the contiguous operator");
  if (format == MemoryFormat::Contiguous) return x.is_contiguous();
  return is_channels_last(x, format == MemoryFormat::ChannelsLast ? 4 : 5);
}

Tensor empty_in_format(const Tensor& x, DType t, MemoryFormat format) {
  if (format == MemoryFormat::Preserve) return empty_preserving(x, t);
  if (format == MemoryFormat::Contiguous) return empty(x.sizes(), t);
  return empty_with_strides(x.sizes(), format_strides(x.sizes(), format), t);
}

}  // namespace cograd
