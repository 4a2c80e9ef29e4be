// SPDX-License-Identifier: BSD-3-Clause
// Checks by their geometry if tensors share elements.
#include "ops/compute/overlap.h"

#include <algorithm>
#include <span>
#include <utility>

namespace cograd {
namespace {

// Returns the first and the one-past-last byte that a strided tensor touches.
std::pair<const char*, const char*> extent(const Tensor& t) {
  const char* lo = t.bytes();
  const char* hi = t.bytes() + t.itemsize();
  for (int i = 0; i < t.dim(); ++i) {
    const int64_t span = (t.size(i) - 1) * t.stride(i) * t.itemsize();
    (span < 0 ? lo : hi) += span;
  }
  return {lo, hi};
}

bool shares_elements(const Tensor& t) {
  for (int i = 0; i < t.dim(); ++i)
    if (t.size(i) > 1 && t.stride(i) == 0) return t.numel() > 0;
  return false;
}

// True if elements of two tensors with equal strides, `d` elements apart, may share an address.
// Exact if the inner dims lie within one step of the outer ones, as in slices; otherwise
// conservative.
bool same_address(const Tensor& out, const Tensor& in, std::span<const int> dims, int64_t d) {
  if (dims.empty()) return d == 0;
  const int k = dims[0];
  const int64_t stride = out.stride(k);
  if (stride == 0 || (out.size(k) == 1 && in.size(k) == 1))
    return same_address(out, in, dims.subspan(1), d);
  const int64_t floor = d >= 0 ? d / stride : -((stride - 1 - d) / stride);
  for (const int64_t i : {floor, floor + 1})
    if (i > -in.size(k) && i < out.size(k) &&
        same_address(out, in, dims.subspan(1), d - i * stride))
      return true;
  return false;
}

bool share_elements(const Tensor& out, const Tensor& in) {
  if (out.dtype() != in.dtype() || !same(out.strides(), in.strides()) || out.dim() > 8) return true;
  const int64_t bytes = in.bytes() - out.bytes();
  if (bytes % out.itemsize() != 0) return true;
  int dims[8];
  for (int i = 0; i < out.dim(); ++i) dims[i] = i;
  std::sort(dims, dims + out.dim(), [&](int a, int b) { return out.stride(a) > out.stride(b); });
  int64_t within = 0;  // the extent of the inner dims
  for (int i = out.dim() - 1; i >= 0; --i) {
    const int k = dims[i];
    if (out.stride(k) <= within && out.size(k) > 1) return true;
    within += out.stride(k) * (std::max(out.size(k), in.size(k)) - 1);
  }
  return same_address(out, in, {dims, static_cast<size_t>(out.dim())}, bytes / out.itemsize());
}

}  // namespace

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && a.dtype() == b.dtype() && same(a.sizes(), b.sizes()) &&
         same(a.strides(), b.strides());
}

bool overlaps_partially(const Tensor& out, const Tensor& in) {
  if (out->storage != in->storage || out.numel() == 0 || in.numel() == 0) return false;
  if (same_elements(out, in)) return false;
  const auto [a0, a1] = extent(out);
  const auto [b0, b1] = extent(in);
  return a0 < b1 && b0 < a1 && share_elements(out, in);
}

void fail_overlap(const char* op) {
  detail::fail(ErrorKind::Runtime, op,
               "(): unsupported operation: some elements of the input tensor and the written-to "
               "tensor refer to a single memory location. Please clone() the tensor before "
               "performing the operation.");
}

void check_distinct(const char* op, const Tensor& t) {
  COGRAD_CHECK(!shares_elements(t), op,
               "(): unsupported operation: more than one element of the written-to tensor refers "
               "to a single memory location. Please clone() the tensor before performing the "
               "operation.");
}

}  // namespace cograd
