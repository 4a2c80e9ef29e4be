// SPDX-License-Identifier: BSD-3-Clause
// The keys of entries, for writes in the order of the index. -DTENSORS= as in index.h.
#include "index_place.h"

namespace cograd::device {

// Integers take their maximum in any order, so the result repeats.
COGRAD_KERNEL(mark_last, IndexArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const IndexPlace p = place_of(a, i);
    if (p.ok) atomicMax(a.winners + p.key, static_cast<unsigned>(i) + 1);
  }
}

// An entry with an index out of bounds gets the key behind all others.
COGRAD_KERNEL(entry_keys, IndexArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const IndexPlace p = place_of(a, i);
    a.keys[i] = static_cast<unsigned>(p.ok ? p.key : a.space);
  }
}

}  // namespace cograd::device
