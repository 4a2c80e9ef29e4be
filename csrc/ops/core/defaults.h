// SPDX-License-Identifier: BSD-3-Clause
// Default values in parameter text.
#pragma once
#include "ops/core/parameters.h"

namespace cograd {

std::string_view trim(std::string_view s);
// Items between commas that stand in no bracket and no quotes.
std::vector<std::string_view> split_items(std::string_view s);
// Reads a default, which is not None, as a's kind; false if it is none.
bool read_default(ArgInfo& a, std::string_view text);

}  // namespace cograd
