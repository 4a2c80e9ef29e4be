// SPDX-License-Identifier: BSD-3-Clause
// Adds torch's second names of ops.
#include "ops/declare/registry.h"

namespace cograd {

namespace {

const bool added = [] {
  constexpr const char* kNames[][2] = {
      {"absolute", "abs"},     {"negative", "neg"},    {"multiply", "mul"},  {"subtract", "sub"},
      {"divide", "div"},       {"true_divide", "div"}, {"fix", "trunc"},     {"clip", "clamp"},
      {"arccos", "acos"},      {"arcsin", "asin"},     {"arctan", "atan"},   {"arctan2", "atan2"},
      {"arccosh", "acosh"},    {"arcsinh", "asinh"},   {"arctanh", "atanh"}, {"greater", "gt"},
      {"greater_equal", "ge"}, {"less", "lt"},         {"less_equal", "le"}, {"not_equal", "ne"},
      {"ger", "outer"},
  };
  for (const auto& pair : kNames) add_alias(pair[0], pair[1]);
  return true;
}();

}  // namespace

}  // namespace cograd
