// SPDX-License-Identifier: BSD-3-Clause
// Construction of tensors over existing storages.
#include "tensor/foreign.h"

namespace cograd {

Tensor tensor_of_storage(Storage* storage, DType t, IntList sizes, IntList strides, char* data) {
  TensorImpl* p = nullptr;
  try {
    p = TensorImpl::make(t, static_cast<int>(sizes.size()));
  } catch (...) {
    storage->release();
    throw;
  }
  p->storage = storage;
  p->data = data;
  std::copy(sizes.begin(), sizes.end(), p->sizes_);
  std::copy(strides.begin(), strides.end(), p->strides_);
  Tensor out = Tensor::steal(p);
  p->refresh_geometry();
  return out;
}

int64_t span_of(IntList sizes, IntList strides, int64_t itemsize) {
  return checked_mul(storage_extent(sizes, strides), itemsize);
}

}  // namespace cograd
