// SPDX-License-Identifier: BSD-3-Clause
// Placeholder until the random ops land.
#pragma once
namespace cograd {
class Generator {};
}  // namespace cograd
