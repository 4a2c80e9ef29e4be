// SPDX-License-Identifier: BSD-3-Clause
// Chooses among the copies of a file that was compiled once per instruction set.
#pragma once

namespace cograd::kernels {

// 0: baseline, 1: x86-64-v3 (AVX2, FMA), 2: x86-64-v4 (AVX-512).
inline int isa_level() noexcept {
#if defined(__x86_64__) && !defined(COGRAD_BASE_ONLY)
  static const int level = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return 2;
    return __builtin_cpu_supports("x86-64-v3") ? 1 : 0;
  }();
  return level;
#else
  return 0;
#endif
}

}  // namespace cograd::kernels

// COGRAD_DECLARE_ISA(R, f, (args)) declares R f(args) in every instruction set's namespace;
// COGRAD_BEST_ISA(f) is the address of the copy to call.
#if defined(__x86_64__) && !defined(COGRAD_BASE_ONLY)
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
#define COGRAD_BEST_ISA(f) (isa_level() == 2 ? v4::f : isa_level() == 1 ? v3::f : base::f)
#else
#define COGRAD_DECLARE_ISA(R, f, args) \
  namespace base {                     \
  R f args;                            \
  }
#define COGRAD_BEST_ISA(f) (base::f)
#endif
