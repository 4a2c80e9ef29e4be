// SPDX-License-Identifier: BSD-3-Clause
// Chooses the instruction-set level.
#include "kernels/isa.h"

#include <cstdlib>
#include <string_view>

namespace cograd::kernels {
namespace {

Isa detect() noexcept {
  Isa best = Isa::base;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v3")) best = Isa::v3;
  if (__builtin_cpu_supports("x86-64-v4")) best = Isa::v4;
#endif
  const char* asked = std::getenv("COGRAD_ISA");
  if (asked == nullptr) return best;
  const std::string_view name = asked;
  if (name == "base") return Isa::base;
  if (name == "v3" && best == Isa::v4) return Isa::v3;
  return best;
}

}  // namespace

Isa isa() noexcept {
  static const Isa chosen = detect();
  return chosen;
}

}  // namespace cograd::kernels
