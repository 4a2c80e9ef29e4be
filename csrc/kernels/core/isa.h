// SPDX-License-Identifier: BSD-3-Clause
// The instruction-set levels for which kernel files are compiled, and the choice at load time.
#pragma once
#include "cograd/dtype.h"
#include "kernels/core/loops.h"

namespace cograd::kernels {

using DTypeLoops = LoopFn[kNumDTypes];
using LoopTable = const DTypeLoops*;

enum class Isa : uint8_t { base, v3, v4 };
// Returns the best level that this processor and this build have; COGRAD_ISA=base or v3 in the
// environment lowers it.
Isa isa() noexcept;

}  // namespace cograd::kernels

// A file in namespace cograd::kernels::COGRAD_ISA is compiled once per level, with COGRAD_ISA set
// to base, v3 or v4. In other files COGRAD_DECLARE_ISA(R, f, (args)) declares R f(args) in the
// namespace of every level, and COGRAD_BEST_ISA(f) is the copy to call.
#define COGRAD_DECLARE_ISA(R, f, args) \
  namespace base {                     \
  R f args;                            \
  }                                    \
  namespace v3 {                       \
  R f args;                            \
  }                                    \
  namespace v4 {                       \
  R f args;                            \
  }
// CMake's COGRAD_ISA_LEVELS excludes levels from a build.
#if defined(__x86_64__) && !defined(COGRAD_WITHOUT_V3)
#define COGRAD_HAS_V3 1
#define COGRAD_V3_OR(f, other) (isa() == Isa::v3 ? v3::f : other)
#else
#define COGRAD_HAS_V3 0
#define COGRAD_V3_OR(f, other) other
#endif
#if defined(__x86_64__) && !defined(COGRAD_WITHOUT_V4)
#define COGRAD_HAS_V4 1
#define COGRAD_V4_OR(f, other) (isa() == Isa::v4 ? v4::f : other)
#else
#define COGRAD_HAS_V4 0
#define COGRAD_V4_OR(f, other) other
#endif
#define COGRAD_BEST_ISA(f) COGRAD_V4_OR(f, COGRAD_V3_OR(f, base::f))

// Defines f(), which returns what the best f() returned at the first call: a table, a set of loops.
#define COGRAD_ISA_VALUE(R, f)                    \
  COGRAD_DECLARE_ISA(R, f, ())                    \
  const R& f() {                                  \
    static const R chosen = COGRAD_BEST_ISA(f)(); \
    return chosen;                                \
  }
