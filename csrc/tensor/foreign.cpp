// SPDX-License-Identifier: BSD-3-Clause
// Construction of tensors over given storages.
#include "tensor/foreign.h"

namespace cograd {

Tensor tensor_of_storage(Storage* storage, DType t, IntList sizes, IntList strides, char* data) {
  TensorImpl* p = TensorImpl::make(t, static_cast<int>(sizes.size()));
  p->storage = storage;
  p->data = data;
  std::copy(sizes.begin(), sizes.end(), p->sizes_);
  std::copy(strides.begin(), strides.end(), p->strides_);
  p->refresh_geometry();
  return Tensor::steal(p);
}

int64_t span_of(IntList sizes, IntList strides, int64_t itemsize) noexcept {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return (last + 1) * itemsize;
}

}  // namespace cograd
