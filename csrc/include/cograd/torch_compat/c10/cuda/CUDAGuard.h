// SPDX-License-Identifier: BSD-3-Clause
// torch's <c10/cuda/CUDAGuard.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <c10/cuda/CUDAGuard.h> is for CUDA devices; cograd computes on the CPU only, compile the CPU sources alone"
