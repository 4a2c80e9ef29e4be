// SPDX-License-Identifier: BSD-3-Clause
// Chooses how many threads share a row and what they keep of it (text/rows.h).
#pragma once
#include <initializer_list>
#include <string>

#include "cuda/slots/support.h"

namespace cograd::cuda {

struct RowPlan {
  int group, per, vec;
  Grid grid;
  uint64_t variant;  // of the plan, the dtype and `mode`
};
// `arrays` are those that are read or written in packs; null pointers do not count.
RowPlan plan_rows(DType t, int64_t rows, int64_t n, int mode,
                  std::initializer_list<const void*> arrays);
// -DCOGRAD_T, _GROUP, _PER, _VEC and _MODE of a plan's variant.
std::string row_defines(uint64_t variant);

}  // namespace cograd::cuda
