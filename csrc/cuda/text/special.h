// SPDX-License-Identifier: BSD-3-Clause
// Special functions for kernels' text: the host's own sources (csrc/kernels/elementwise).
#pragma once
#include "functions.h"
#include "kernels/elementwise/special_bessel.cpp"
#include "kernels/elementwise/special_gamma.cpp"
#include "kernels/elementwise/special_normal.cpp"
#include "kernels/elementwise/special_polynomials.cpp"
#include "kernels/elementwise/special_scalars.h"

namespace cograd::device {
using namespace kernels;
}  // namespace cograd::device
