// SPDX-License-Identifier: BSD-3-Clause
// Moves elements by index. -DWIDTH= is the number of bytes of an element, -DTENSORS= the number of
// index tensors. Kernels are bound by memory: each thread moves one element of up to 16 bytes.
#include "index_place.h"

namespace cograd::device {

using U = bytes_t<WIDTH>;

COGRAD_KERNEL(pick, IndexArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const IndexPlace p = place_of(a, i);
    U v{};
    if (p.ok) v = *reinterpret_cast<const U*>(static_cast<const char*>(a.self) + p.self);
    *reinterpret_cast<U*>(static_cast<char*>(a.other) + p.other) = v;
  }
}

// The last of several entries with one target is written, as on the CPU.
COGRAD_KERNEL(put, IndexArgs, 256) {
  for (int64_t i = grid_index(); i < a.n; i += grid_size()) {
    const IndexPlace p = place_of(a, i);
    if (!p.ok) continue;
    if (a.winners != nullptr && a.winners[p.key] != static_cast<unsigned>(p.entry) + 1) continue;
    *reinterpret_cast<U*>(static_cast<char*>(a.self) + p.self) =
        *reinterpret_cast<const U*>(static_cast<const char*>(a.other) + p.other);
  }
}

}  // namespace cograd::device
