// SPDX-License-Identifier: BSD-3-Clause
// Arguments and results across the C boundary, both ways.
#pragma once
#include <forward_list>

#include "api/handles.h"
#include "ops/core/registry.h"

namespace cograd::api {

// Lists made for one call.
using Room = std::forward_list<std::vector<int64_t>>;

// Gives a value the form that the parameter's kind has; false if it does not suit.
bool fit(const ArgInfo& a, const cograd_value& given, Room& room, Value& v);
// A result that owns what it holds.
cograd_value result_to_c(Result& r);
void result_from_c(const cograd_value& v, Result& r);

}  // namespace cograd::api
