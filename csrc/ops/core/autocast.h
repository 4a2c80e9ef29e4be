// SPDX-License-Identifier: BSD-3-Clause
// Flags of a spec: what becomes of an op's arguments when Python calls it under autocast. Tensors
// of float16, bfloat16 and float32 are cast; others, and out= and in-place forms, are left alone.
#pragma once
#include "ops/core/registry.h"

namespace cograd {

inline constexpr OpFlags kAutocastLow = 1u << 24;   // to autocast's dtype
inline constexpr OpFlags kAutocastWide = 1u << 25;  // to float32
// Windows of three dims are pooled in float32, and values put back to places of two and three.
template <int N>
inline constexpr OpFlags kPoolAutocast = N == 3 ? kAutocastWide : 0;
template <int N>
inline constexpr OpFlags kUnpoolAutocast = N >= 2 ? kAutocastWide : 0;

}  // namespace cograd
