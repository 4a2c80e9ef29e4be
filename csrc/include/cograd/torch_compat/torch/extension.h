// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/extension.h>: everything, and pybind11 if its headers and Python's are found. Ops
// registered by TORCH_LIBRARY need neither.
#pragma once
#include "cograd/torch_compat/impl/module.h"
#if __has_include(<Python.h>) && __has_include(<pybind11/pybind11.h>)
#include <torch/python.h>
#endif
