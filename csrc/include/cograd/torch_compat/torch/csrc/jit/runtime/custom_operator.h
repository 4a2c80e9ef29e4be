// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/csrc/jit/runtime/custom_operator.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <torch/csrc/jit/runtime/custom_operator.h> (TorchScript) is not offered; TORCH_LIBRARY registers ops"
