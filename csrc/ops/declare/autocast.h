// SPDX-License-Identifier: BSD-3-Clause
// Spec flags: how Python calls under autocast treat an op's arguments. Tensors of float16, bfloat16
// and float32 are cast; other dtypes, out= and in-place forms are left alone.
#pragma once
#include "ops/declare/registry.h"

namespace cograd {

inline constexpr OpFlags kAutocastLow = 1u << 24;   // casts to autocast's dtype
inline constexpr OpFlags kAutocastWide = 1u << 25;  // casts to float32
// 3-d pooling and 2-d and 3-d unpooling run in float32.
template <int N>
inline constexpr OpFlags kPoolAutocast = N == 3 ? kAutocastWide : 0;
template <int N>
inline constexpr OpFlags kUnpoolAutocast = N >= 2 ? kAutocastWide : 0;

}  // namespace cograd
