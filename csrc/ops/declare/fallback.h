// SPDX-License-Identifier: BSD-3-Clause
// The fallback: a call of an op for which its device has no kernel runs on the host.
#pragma once
#include <string>
#include <vector>

#include "cograd/error.h"
#include "tensor/device.h"

namespace cograd {

// A call that falls back warns once per op and process, says nothing, or raises.
enum class FallbackPolicy : uint8_t { Warn, Silent, Error };
COGRAD_API void set_fallback(FallbackPolicy policy) noexcept;
COGRAD_API FallbackPolicy fallback_policy() noexcept;

struct FallbackCount {
  std::string op;
  int64_t calls = 0;
  int64_t bytes = 0;  // copied between the device and the host
};
// Returns what fell back since the process started, or since the last clear_fallbacks().
COGRAD_API std::vector<FallbackCount> fallbacks();
COGRAD_API void clear_fallbacks();

struct ForeignOp;
// The fallback asks these functions about an extension's op; api/registration.cpp sets them.
struct ForeignFacts {
  std::string (*name)(const ForeignOp& op);  // with its library: "library::op"
  bool (*runs_on)(const ForeignOp& op, DeviceType t);
};
extern ForeignFacts foreign_facts;

// Makes every op but views, casts, factories and copies fall back: a test of the fallback.
COGRAD_API void force_fallback(bool on) noexcept;

}  // namespace cograd
