// SPDX-License-Identifier: BSD-3-Clause
// Chooses among the copies of a file that was compiled once per instruction set.
#pragma once
#include "kernels/isa.h"

// COGRAD_DECLARE_ISA(R, f, (args)) declares R f(args) in every instruction set's namespace;
// COGRAD_BEST_ISA(f) is the address of the copy to call.
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
