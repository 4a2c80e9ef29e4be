// SPDX-License-Identifier: BSD-3-Clause
// torch's <THC/THC.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <THC/THC.h> is for CUDA devices; cograd computes on the CPU only, compile the CPU sources alone"
