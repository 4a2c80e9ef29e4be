// SPDX-License-Identifier: BSD-3-Clause
// torch's <c10/util/accumulate.h>: everything below autograd.
#pragma once
#include "cograd/torch_compat/impl/dispatch_macros.h"
