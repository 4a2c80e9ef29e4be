// SPDX-License-Identifier: BSD-3-Clause
// Declares the inner loops of ties.cpp, with one copy per instruction set.
#pragma once
#include <cstdint>

namespace cograd::kernels {

// Loops over `rows` rows of `width` elements that begin `ld` elements apart.
template <class T>
struct TieLoopsOf {
  // Sets counts[j] to the number of x[:, j] that equal y[j]; rows <= 2^30.
  void (*count)(const T* x, int64_t rows, int64_t ld, int64_t width, const T* y, int32_t* counts);
  // Sets out[:, j] to share[j] where x equals y[j], else to 0.
  void (*fill)(const T* x, int64_t rows, int64_t ld, int64_t width, const T* y, const T* share,
               T* out);
};
struct TieLoops {
  TieLoopsOf<float> of_float;
  TieLoopsOf<double> of_double;
};

}  // namespace cograd::kernels
