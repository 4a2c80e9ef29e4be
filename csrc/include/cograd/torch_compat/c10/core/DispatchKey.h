// SPDX-License-Identifier: BSD-3-Clause
// torch's <c10/core/DispatchKey.h>.
#pragma once
#include "cograd/torch_compat/impl/registry.h"
