// SPDX-License-Identifier: BSD-3-Clause
// torch's <torch/csrc/stable/library.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <torch/csrc/stable/library.h> (torch's stable ABI) is not offered; cograd's own ABI is stable: use torch/extension.h or cograd/extension.h"
