// SPDX-License-Identifier: BSD-3-Clause
// The factors by which dropout multiplies the weights of attention.
#include "attention_parts.h"

namespace cograd::device {

COGRAD_KERNEL(attention_keep, AttentionArgs, 256) {
  const Dropout dropout(a, 0);
  for (int64_t at = grid_index(); at < a.jobs; at += grid_size()) {
    const int64_t row = at / dropout.per_row, key = at % dropout.per_row * 4;
    T* out = static_cast<T*>(const_cast<void*>(a.out.data)) + row * a.keys;
    const unsigned kept = dropout.keeps(row, key) | dropout.keeps(row, key + 2) << 2;
    for (int i = 0; i < 4 && key + i < a.keys; ++i)
      out[key + i] = (kept >> i & 1) != 0 ? T(a.factor) : T(0.0f);
  }
}

}  // namespace cograd::device
