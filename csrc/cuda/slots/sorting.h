// SPDX-License-Identifier: BSD-3-Clause
// A stable radix sort of keys, for the slots that sort or group.
#pragma once
#include "cuda/slots/support.h"

namespace cograd::cuda {

// Sorts `rows` rows of n < 2^32 keys each, of 4 bytes or (wide) 8. The caller writes keys() before
// run().
class Sorter {
 public:
  Sorter(int64_t n, int64_t rows, bool wide);
  void* keys() const noexcept { return keys_.get(); }
  int64_t size() const noexcept { return n_; }

  struct Result {
    const void* keys;
    const unsigned* order;  // positions within the row
  };
  // Sorts by the lowest `bits` bits of the keys, and keeps the order of equal ones. The results
  // live as long as this object.
  Result run(int bits) const;

 private:
  const int64_t n_, rows_;
  const bool wide_;
  const Scratch keys_, other_keys_, order_, other_order_;
};

// Returns the order of the n elements of x, as `sort` puts them.
const unsigned* order_of(const char* slot, DType t, const void* x, const Sorter& sorter);

}  // namespace cograd::cuda
