// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/custom_class.h>, which cograd does not offer.
#pragma once
#error "cograd: <torch/custom_class.h> (classes in ops) is not offered"
