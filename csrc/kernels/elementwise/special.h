// SPDX-License-Identifier: BSD-3-Clause
// Special functions that no vector library has. Only the per-ISA kernel files include this.
#pragma once
#include "kernels/core/vecmath.h"
#include "kernels/elementwise/special_functions.h"

namespace cograd::kernels {
namespace {

// Uses lgamma_r, because lgamma would write the global signgam.
inline float lgamma(float v) {
  int sign_of_gamma;
  return ::lgammaf_r(v, &sign_of_gamma);
}
inline double lgamma(double v) {
  int sign_of_gamma;
  return ::lgamma_r(v, &sign_of_gamma);
}

}  // namespace
}  // namespace cograd::kernels

#include "kernels/elementwise/special_scalars.h"
