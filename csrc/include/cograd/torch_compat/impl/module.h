// SPDX-License-Identifier: BSD-3-Clause
// Gives default visibility to the function `PyInit_NAME` that extensions define for Python's
// import. This is not in library.h, because that may be precompiled for modules of other names.
#pragma once
#include "cograd/torch_compat/impl/library.h"

#ifdef TORCH_EXTENSION_NAME
extern "C"
    __attribute__((visibility("default"))) struct _object* COGRAD_CAT(PyInit_,
                                                                      TORCH_EXTENSION_NAME)();
#endif
