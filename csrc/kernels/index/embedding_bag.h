// SPDX-License-Identifier: BSD-3-Clause
// Computes sums, means and maxima of table rows, bag by bag.
#pragma once
#include <cstdint>

#include "cograd/dtype.h"

namespace cograd::kernels {

enum class BagMode : uint8_t { Sum, Mean, Max };

struct Bags {
  BagMode mode;
  int64_t count, width, rows;  // number of bags, elements per row, rows of the table
  const int64_t* index;        // already checked
  const int64_t* offsets;      // [count + 1]: bag i has the indices from offsets[i] on
  int64_t padding;             // index to skip, or -1
  const void* weights;         // one weight per index, of the table's dtype; may be null

  template <class F>
  void each_pointer(F&& f) {
    f(index);
    f(offsets);
    f(weights);
  }
};
// Supports floating dtypes. sizes [count] receives the number of indices that are not skipped, at
// [count, width] the row of each maximum.
void embedding_bag(DType t, const Bags& b, const void* table, void* out, int64_t* sizes,
                   int64_t* at);
// Writes gtable [rows, width] and, unless null, gweights for each index. With by_freq, divides by
// how often a row is looked up.
void embedding_bag_backward(DType t, const Bags& b, const void* table, const void* g,
                            const int64_t* sizes, const int64_t* at, bool by_freq, void* gtable,
                            void* gweights);

}  // namespace cograd::kernels
