// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/torch.h> as extensions are compiled with it: all of <torch/extension.h>.
#pragma once
#include <torch/extension.h>
