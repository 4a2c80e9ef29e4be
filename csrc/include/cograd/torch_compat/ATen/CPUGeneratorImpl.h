// SPDX-License-Identifier: BSD-3-Clause
// torch's <ATen/CPUGeneratorImpl.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <ATen/CPUGeneratorImpl.h> (random generators in C++) is not offered; draw with torch::rand and the like"
