// SPDX-License-Identifier: BSD-3-Clause
// The Python part: pybind11, with casters for tensors, scalars and types.
#pragma once
#include "cograd/python.h"
#include "cograd/torch_compat/impl/base.h"

#include "cograd/torch_compat/impl/library.h"
#include "cograd/torch_compat/impl/python.h"
