// SPDX-License-Identifier: BSD-3-Clause
// Converts arguments and results across the C interface, in both directions.
#pragma once
#include <forward_list>

#include "api/handles.h"
#include "ops/declare/registry.h"

namespace cograd::api {

// Owns the lists that a call needs beside those that the caller passed.
using OwnedLists = std::forward_list<std::vector<int64_t>>;

// Converts `given` to the kind of the parameter `a`; returns false if it does not fit. Lists that
// the conversion creates live in `lists`.
bool fit(const ArgInfo& a, const cograd_value& given, OwnedLists& lists, Value& v);
// Returns `r` as a C value that owns its contents.
cograd_value result_to_c(Result& r);
void result_from_c(const cograd_value& v, Result& r);

}  // namespace cograd::api
