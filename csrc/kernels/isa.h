// SPDX-License-Identifier: BSD-3-Clause
// The instruction-set levels that kernel files are compiled for, and the choice at load.
#pragma once
#include "cograd/dtype.h"
#include "kernels/loops.h"

namespace cograd::kernels {

using DTypeLoops = LoopFn[kNumDTypes];
using LoopTable = const DTypeLoops*;

enum class Isa : uint8_t { base, v3, v4 };
// The best level this processor has; COGRAD_ISA=base or v3 in the environment lowers it.
Isa isa() noexcept;

}  // namespace cograd::kernels

// A file in namespace cograd::kernels::COGRAD_ISA is compiled once per level, with COGRAD_ISA set
// to base, v3 or v4. Other files say COGRAD_DECLARE_ISA(R, f, (args)), which declares R f(args) in
// the namespace of every level; COGRAD_BEST_ISA(f) is the copy to call.
#if defined(__x86_64__)
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
#define COGRAD_BEST_ISA(f) (isa() == Isa::v4 ? v4::f : isa() == Isa::v3 ? v3::f : base::f)
#else
#define COGRAD_DECLARE_ISA(R, f, args) \
  namespace base {                     \
  R f args;                            \
  }
#define COGRAD_BEST_ISA(f) (base::f)
#endif

// Defines f() here as what the best f() returned when first called: a table, a set of loops.
#define COGRAD_ISA_VALUE(R, f)                    \
  COGRAD_DECLARE_ISA(R, f, ())                    \
  const R& f() {                                  \
    static const R chosen = COGRAD_BEST_ISA(f)(); \
    return chosen;                                \
  }
