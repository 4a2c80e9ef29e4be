// SPDX-License-Identifier: BSD-3-Clause
// Names of the instruction-set levels, for reports: "base", "v3" or "v4" (kernels/core/isa.h).
#pragma once
#include "cograd/error.h"

namespace cograd::kernels {

COGRAD_API const char* isa_of_processor() noexcept;  // best level of the processor
COGRAD_API const char* isa_name() noexcept;          // level in use

}  // namespace cograd::kernels
