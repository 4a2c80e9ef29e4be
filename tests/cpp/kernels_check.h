// SPDX-License-Identifier: BSD-3-Clause
// Counting checks and plain-loop helpers for the kernel tests.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "cograd/error.h"

inline int g_failures = 0;
inline int g_checks = 0;

inline void check(bool ok, const std::string& what) {
  ++g_checks;
  if (ok) return;
  if (++g_failures < 40) std::printf("FAIL %s\n", what.c_str());
}
inline void check_close(double got, double want, double tolerance, const std::string& what) {
  const bool same = (std::isnan(got) && std::isnan(want)) || got == want ||
                    std::abs(got - want) <= tolerance * (1 + std::abs(want));
  check(same, what + ": got " + std::to_string(got) + ", want " + std::to_string(want));
}

// Runs f, which must throw an Error of this kind with this message.
template <class F>
void check_throws(cograd::ErrorKind kind, const std::string& message, const F& f) {
  try {
    f();
  } catch (const cograd::Error& e) {
    check(e.kind() == kind && e.message() == message, "message: " + e.message());
    return;
  }
  check(false, "nothing thrown: " + message);
}

template <class T>
std::vector<T> random_values(int64_t n, uint32_t seed, double scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(static_cast<float>(normal(engine)));
  return v;
}

inline std::vector<int64_t> random_indices(int64_t n, int64_t size, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int64_t> uniform(0, size - 1);
  std::vector<int64_t> v(static_cast<size_t>(n));
  for (int64_t& x : v) x = uniform(engine);
  return v;
}

inline int report(const char* name) {
  std::printf("%s: %d checks, %d failures\n", name, g_checks, g_failures);
  return g_failures == 0 ? 0 : 1;
}
