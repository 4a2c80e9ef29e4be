// SPDX-License-Identifier: BSD-3-Clause
// torch's <c10/core/AutogradState.h>.
#pragma once
#include "cograd/torch_compat/impl/autograd.h"
