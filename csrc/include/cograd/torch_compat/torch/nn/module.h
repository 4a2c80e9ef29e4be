// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/nn/module.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <torch/nn/module.h> (modules in C++) is not offered; torch::nn::functional has the functions"
