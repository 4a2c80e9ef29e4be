// SPDX-License-Identifier: BSD-3-Clause
// torch's <ATen/cpu/vec/vec.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <ATen/cpu/vec/vec.h> (TensorIterator, Vectorized and the like) is an internal of torch; write a loop over data_ptr and parallel_for"
