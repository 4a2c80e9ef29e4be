// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/optim.h>, which cograd does not offer.
#pragma once
#error "cograd: <torch/optim.h> (optimisers in C++) is not offered"
