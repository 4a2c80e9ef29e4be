// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/csrc/utils/pybind.h>.
#pragma once
#include <torch/python.h>
