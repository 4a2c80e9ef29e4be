// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/cuda.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <torch/cuda.h> is for CUDA devices; cograd computes on the CPU only, compile the CPU sources alone"
