// SPDX-License-Identifier: BSD-3-Clause
// Names and default values of the parameters of registered ops.
#pragma once
#include "api/registration.h"

namespace cograd::api {

[[noreturn]] void bad_schema(const ForeignOp& op, const char* why, std::string_view what);
std::string_view trim(std::string_view s);
// Items between commas that stand in no bracket and no quotes.
std::vector<std::string_view> split_items(std::string_view s);
// Reads op.params, "x, a=1.0, *, dims=[0, 1]", into the record, whose kinds are known.
void parse_names(ForeignOp& op);

}  // namespace cograd::api
