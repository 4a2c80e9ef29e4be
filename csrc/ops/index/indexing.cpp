// SPDX-License-Identifier: BSD-3-Clause
// Shared by the indexing ops: index checks, and targets of which a part is rewritten.
#include "ops/index/indexing.h"

namespace cograd {

Tensor index64(const Tensor& index, const char* op) {
  COGRAD_CHECK(index.dtype() == DType::Int64 || index.dtype() == DType::Int32, op,
               "(): Expected dtype int32/int64 for index, got ", dtype_name(index.dtype()));
  return raw_cast(index, DType::Int64);
}

Tensor index64_if_any(const Tensor& index, const char* op) {
  return index.numel() == 0 ? empty(index.sizes(), DType::Int64) : index64(index, op);
}

Tensor rewrite_target(CtxBase& ctx, const Tensor& self, bool contiguous,
                      std::initializer_list<Tensor*> read) {
  Tensor out = ctx.out(self.sizes(), self.dtype());
  if (contiguous && !out.is_contiguous()) out = empty(self.sizes(), self.dtype());
  for (Tensor* t : read) {
    if (t == nullptr || !t->defined() || (*t)->storage != out->storage) continue;
    Tensor copy = empty(t->sizes(), t->dtype());
    raw_copy(copy, *t);
    *t = std::move(copy);
  }
  if (!out.is(self)) raw_copy(out, self);
  return out;
}

Dims broadcast_bytes(const Tensor& t, IntList sizes) {
  Dims out = broadcast_strides(t, sizes);
  for (int64_t& s : out) s = scaled_stride(s, t.itemsize());
  return out;
}

}  // namespace cograd
