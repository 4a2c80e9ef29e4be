// SPDX-License-Identifier: BSD-3-Clause
// torch's <ATen/core/TensorBase.h>: everything that cograd offers without Python.
#pragma once
#include "cograd/torch_compat/impl/module.h"
