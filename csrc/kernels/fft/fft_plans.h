// SPDX-License-Identifier: BSD-3-Clause
// Keeps the plans of transforms that ran lately.
#pragma once
#include <memory>

#include "kernels/fft/fft_plan.h"

namespace cograd::kernels {

// Returns the plan of a transform of n points. At most 64 plans of 64 MiB together are kept; those
// that were not used for the longest time are dropped first.
std::shared_ptr<const FftPlan> fft_plan(FftKind kind, DType t, int64_t n);

}  // namespace cograd::kernels
