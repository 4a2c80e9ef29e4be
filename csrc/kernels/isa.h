// SPDX-License-Identifier: BSD-3-Clause
// The instruction-set levels that kernel files are compiled for, and the choice at load.
#pragma once
#include "cograd/dtype.h"
#include "kernels/loops.h"

namespace cograd::kernels {

using DTypeLoops = LoopFn[kNumDTypes];

enum class Isa : uint8_t { base, v3, v4 };
// The best level this processor has; COGRAD_ISA=base or v3 in the environment lowers it.
Isa isa() noexcept;

}  // namespace cograd::kernels

// A kernel file is compiled once per level with COGRAD_ISA set to base, v3 or v4, and defines each
// of its tables as COGRAD_ISA_TABLE(name). Other files say COGRAD_TABLE(name), then call name().
#define COGRAD_PASTE_(a, b) a##_##b
#define COGRAD_PASTE(a, b) COGRAD_PASTE_(a, b)
#define COGRAD_ISA_TABLE(name) const DTypeLoops* COGRAD_PASTE(name, COGRAD_ISA)()

#if defined(__x86_64__)
#define COGRAD_TABLE(name)                                                     \
  const DTypeLoops* name##_base();                                             \
  const DTypeLoops* name##_v3();                                               \
  const DTypeLoops* name##_v4();                                               \
  static const DTypeLoops* name() noexcept {                                   \
    static const DTypeLoops* const table = isa() == Isa::v4   ? name##_v4()    \
                                           : isa() == Isa::v3 ? name##_v3()    \
                                                              : name##_base(); \
    return table;                                                              \
  }
#else
#define COGRAD_TABLE(name)         \
  const DTypeLoops* name##_base(); \
  static const DTypeLoops* name() noexcept { return name##_base(); }
#endif
