// SPDX-License-Identifier: BSD-3-Clause
// Makes sparse tensors.
#include "transforms/sparse.h"

#include <array>

namespace cograd {

SparseOps sparse_ops;

namespace {

// Writes a value that no one takes for a result: NaN has all bits of its exponent set, and so do
// both parts of a complex one; an integer is the least one, and a bool true.
void fill_warning(const Tensor& t) {
  const auto item = static_cast<size_t>(t.itemsize());
  std::array<unsigned char, 16> bytes{};
  if (is_differentiable(t.dtype()))
    bytes.fill(0xFF);
  else
    bytes[item - 1] = t.dtype() == DType::Bool ? 1 : 0x80;
  copy_from_host(t->device, bytes.data(), t.bytes(), item);
}

}  // namespace

Tensor make_sparse(IntList sizes, const Tensor& values) {
  check_not_sparse(values, "the values of a sparse tensor");
  storage_bytes(sizes, 1);  // raises if the number of elements overflows
  const PlaceGuard here(values->device);
  const Tensor element = empty({}, values.dtype());
  fill_warning(element);
  const Dims strides(sizes.size(), 0);
  Tensor out = alias_strided(element, sizes, strides, element.bytes());
  TransformMeta& m = transform_of(out.impl());
  m.whole = values;
  m.batch_level = ~LevelId{0};  // no vmap's: the tensor counts as an open level while it lives
  open_stages.fetch_add(1, std::memory_order_relaxed);
  out->flags = (out->flags & ~uint32_t{kContiguous}) | kSparse | kDual;
  return out;
}

const Tensor& sparse_values(const Tensor& t) {
  COGRAD_CHECK(is_sparse(t), "expected a sparse tensor");
  return transform_or_null(t.impl())->whole;
}

void set_sparse_values(const Tensor& t, const Tensor& values) {
  COGRAD_CHECK(is_sparse(t), "expected a sparse tensor");
  check_not_sparse(values, "the values of a sparse tensor");
  COGRAD_CHECK(values.dtype() == t.dtype(), "the values of a sparse tensor of dtype ",
               dtype_name(t.dtype()), " cannot be of dtype ", dtype_name(values.dtype()));
  transform_or_null(t.impl())->whole = values;
}

}  // namespace cograd
