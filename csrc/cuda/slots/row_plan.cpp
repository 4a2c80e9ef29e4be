// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/row_plan.h"

namespace cograd::cuda {

namespace {
constexpr int kMostPer = 32;  // elements in the registers of one thread
}

RowPlan plan_rows(DType t, int64_t rows, int64_t n, int mode,
                  std::initializer_list<const void*> arrays) {
  const int pack = static_cast<int>(16 / dtype_size(t));
  bool packs = n % pack == 0 && n >= 2 * pack;
  for (const void* p : arrays) packs &= reinterpret_cast<uintptr_t>(p) % 16 == 0;
  RowPlan r{};
  r.vec = packs ? pack : 1;
  if (n <= 32 * kMostPer)
    r.group = static_cast<int>(std::min<int64_t>(32, round_up_to_power(ceil_div(n, r.vec))));
  else
    r.group = n <= 256 * kMostPer ? 256 : 1024;
  const int64_t per = round_up_to_power(ceil_div(n, r.group));
  r.per = per > kMostPer ? 0 : static_cast<int>(std::max<int64_t>(per, r.vec));
  const int threads = r.group <= 32 ? 256 : r.group;
  r.grid = grid_of(ceil_div(rows, threads / r.group), threads);
  r.variant = static_cast<uint64_t>(t) | static_cast<uint64_t>(mode) << 8 |
              static_cast<uint64_t>(r.per) << 16 | static_cast<uint64_t>(r.vec) << 24 |
              static_cast<uint64_t>(r.group) << 32;
  return r;
}

std::string row_defines(uint64_t v) {
  return std::string("-DCOGRAD_T=") + stored_type(static_cast<DType>(v & 0xFF)) +
         " -DCOGRAD_MODE=" + std::to_string(v >> 8 & 0xFF) +
         " -DCOGRAD_PER=" + std::to_string(v >> 16 & 0xFF) +
         " -DCOGRAD_VEC=" + std::to_string(v >> 24 & 0xFF) +
         " -DCOGRAD_GROUP=" + std::to_string(v >> 32);
}

}  // namespace cograd::cuda
