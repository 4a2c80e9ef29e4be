// SPDX-License-Identifier: BSD-3-Clause
// The index space of one call, from the geometry of the CPU's kernels.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "cuda/args/index_args.h"
#include "cuda/slots/support.h"

namespace cograd::cuda {

using device::IndexArgs;
using device::kIndexTensors;

// One index tensor; strides are in bytes, one per dim of the space.
struct PlanTensor {
  const void* data;
  std::vector<int64_t> strides;
  int64_t size, stride;  // of the indexed dim of self
};

// The elements in C order, and how they are split into entries and slices.
class IndexPlan {
 public:
  struct Axis {
    int64_t size, self, other;
    std::array<int64_t, kIndexTensors> index;
    bool entry;
  };

  // Throws NoKernel for `slot` if the space has too many dims.
  IndexPlan(const char* slot, std::span<const int64_t> sizes, std::span<const int64_t> self,
            std::span<const int64_t> other, std::span<const PlanTensor> tensors, bool wrap,
            unsigned code);

  int64_t numel() const noexcept { return numel_; }

  // Copy elements of self to other, or the other way round; then the last of several entries with
  // one target wins.
  void pick(int64_t itemsize, const void* self, void* other) const;
  void put(int64_t itemsize, void* self, const void* other) const;

  struct Fold {
    int op = device::kSumOp;
    bool include_self = true, round_each = false, by_count = false;
    int64_t skip = -1;
    double alpha = 1;
  };
  void fold(DType t, void* self, const void* other, const Fold& f) const;
  void check_fold() const { check_space(); }

 private:
  IndexArgs arguments(const std::vector<Axis>& axes, void* self, void* other) const;
  void check_space() const;
  bool one_value() const noexcept;
  IndexArgs widened(int64_t& itemsize, void* self, void* other) const;
  Define tensors() const noexcept;

  const char* slot_;
  std::vector<Axis> axes_;
  std::vector<PlanTensor> tensors_;
  int64_t numel_ = 1, entries_ = 1, space_ = 1;
  bool wrap_;
  unsigned code_;
};

}  // namespace cograd::cuda
