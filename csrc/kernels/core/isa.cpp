// SPDX-License-Identifier: BSD-3-Clause
// Chooses the instruction-set level.
#include "kernels/core/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernels/core/isa_names.h"

namespace cograd::kernels {
namespace {

Isa processor() noexcept {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return Isa::v4;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::v3;
#endif
  return Isa::base;
}

// Returns the best level up to `level` that was built.
Isa built(Isa level) noexcept {
  if (level == Isa::v4 && COGRAD_HAS_V4) return level;
  return level != Isa::base && COGRAD_HAS_V3 ? Isa::v3 : Isa::base;
}

Isa detect() noexcept {
  const Isa best = processor();
  const char* asked = std::getenv("COGRAD_ISA");
  const std::string_view name = asked == nullptr ? "" : asked;
  if (name == "base") return Isa::base;
  return built(name == "v3" ? std::min(best, Isa::v3) : best);
}

const char* name_of(Isa level) noexcept {
  return level == Isa::v4 ? "v4" : level == Isa::v3 ? "v3" : "base";
}

}  // namespace

const char* isa_of_processor() noexcept { return name_of(processor()); }

const char* isa_name() noexcept { return name_of(isa()); }

Isa isa() noexcept {
  static const Isa chosen = detect();
  return chosen;
}

}  // namespace cograd::kernels
