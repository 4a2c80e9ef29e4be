// SPDX-License-Identifier: BSD-3-Clause
// Parses default values in parameter text.
#pragma once
#include "ops/declare/parameters.h"

namespace cograd {

std::string_view trim(std::string_view s);
// Splits at commas outside of brackets and quotes.
std::vector<std::string_view> split_items(std::string_view s);
// Parses a default other than None according to a's kind; false if the text does not fit the kind.
bool read_default(ArgInfo& a, std::string_view text);

}  // namespace cograd
