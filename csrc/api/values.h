// SPDX-License-Identifier: BSD-3-Clause
// Converts arguments and results across the C boundary, in both directions.
#pragma once
#include <forward_list>

#include "api/handles.h"
#include "ops/declare/registry.h"

namespace cograd::api {

// Owns lists that are created for one call.
using Room = std::forward_list<std::vector<int64_t>>;

// Converts a value to the kind of the parameter; false if it does not fit.
bool fit(const ArgInfo& a, const cograd_value& given, Room& room, Value& v);
// Returns a result that owns its contents.
cograd_value result_to_c(Result& r);
void result_from_c(const cograd_value& v, Result& r);

}  // namespace cograd::api
