// SPDX-License-Identifier: BSD-3-Clause
// Python's side: pybind11, with casters for tensors, numbers and types.
#pragma once
#include "cograd/python.h"
#include "cograd/torch_compat/impl/base.h"

#include "cograd/torch_compat/impl/library.h"
#include "cograd/torch_compat/impl/python.h"
