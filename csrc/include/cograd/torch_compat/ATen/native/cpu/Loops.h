// SPDX-License-Identifier: BSD-3-Clause
// torch's <ATen/native/cpu/Loops.h>, which cograd does not offer.
#pragma once
#error \
    "cograd: <ATen/native/cpu/Loops.h> (TensorIterator, Vectorized and the like) is an internal of torch; write a loop over data_ptr and parallel_for"
