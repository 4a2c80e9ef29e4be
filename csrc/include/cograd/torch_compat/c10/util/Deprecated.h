// SPDX-License-Identifier: BSD-3-Clause
// torch's <c10/util/Deprecated.h>: checks, errors, warnings and marks of declarations.
#pragma once
#include "cograd/torch_compat/impl/errors.h"
