// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/csrc/autograd/variable.h>: everything that cograd offers without Python.
#pragma once
#include "cograd/torch_compat/impl/module.h"
