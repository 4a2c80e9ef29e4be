// SPDX-License-Identifier: BSD-3-Clause
// torch's <ATen/cuda/CUDAEvent.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <ATen/cuda/CUDAEvent.h> is for CUDA devices; cograd computes on the CPU only, compile the CPU sources alone"
