// SPDX-License-Identifier: BSD-3-Clause
// torch's <c10/util/complex.h>.
#pragma once
#include "cograd/torch_compat/impl/complex.h"
