// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/csrc/Exceptions.h>.
#pragma once
#include <torch/python.h>
