// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/nest.h"

#include <algorithm>
#include <cstdlib>

namespace cograd::cuda {

namespace {

// True if dim a belongs inside dim b.
bool belongs_inside(const Nest& n, int a, int b) {
  for (int k = 0; k < n.nops; ++k) {
    const int64_t sa = n.strides[a][k], sb = n.strides[b][k];
    if (sa == 0 || sb == 0 || sa == sb) continue;
    return std::abs(sa) < std::abs(sb);
  }
  return false;
}
void swap_dims(Nest& n, int a, int b) {
  std::swap(n.shape[a], n.shape[b]);
  for (int k = 0; k < n.nops; ++k) std::swap(n.strides[a][k], n.strides[b][k]);
}
bool merges(const Nest& n, int inner, int outer) {
  for (int k = 0; k < n.nops; ++k)
    if (n.strides[outer][k] != n.strides[inner][k] * n.shape[inner]) return false;
  return true;
}

}  // namespace

Nest::Nest(int dims, const int64_t* sizes, const kernels::Operand* ops, int count) : nops(count) {
  for (int k = 0; k < nops; ++k) data[k] = ops[k].data;
  for (int d = dims - 1; d >= 0; --d) {
    total *= sizes[d];
    if (sizes[d] == 1) continue;
    shape[ndim] = sizes[d];
    for (int k = 0; k < nops; ++k) strides[ndim][k] = ops[k].strides[d];
    ++ndim;
  }
  if (total == 0 || ndim == 0) return;
  for (int i = 1; i < ndim; ++i)
    for (int j = i; j > 0 && belongs_inside(*this, j, j - 1); --j) swap_dims(*this, j, j - 1);
  int last = 0;
  for (int d = 1; d < ndim; ++d) {
    if (merges(*this, last, d)) {
      shape[last] *= shape[d];
    } else if (++last != d) {
      shape[last] = shape[d];
      std::copy_n(strides[d], nops, strides[last]);
    }
  }
  ndim = last + 1;
}

bool Nest::single(int k) const noexcept {
  for (int d = 0; d < ndim; ++d)
    if (strides[d][k] != 0) return false;
  return true;
}
bool Nest::contiguous(int k, int64_t size) const noexcept {
  return ndim == 0 || (ndim == 1 && strides[0][k] == size);
}

void set_dim(device::StridedArgs::Dim& dim, int64_t size) noexcept {
  dim.size = size;
  dim.multiplier = dim.shift = 0;
  if (size >= int64_t{1} << 31) return;
  const auto divisor = static_cast<uint64_t>(size);
  unsigned shift = 0;
  while ((uint64_t{1} << shift) < divisor) ++shift;
  dim.shift = shift;
  dim.multiplier = static_cast<unsigned>(
      ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
}

}  // namespace cograd::cuda
