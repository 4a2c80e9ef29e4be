// SPDX-License-Identifier: BSD-3-Clause
// Makes `extern "C" PyObject* PyInit__C()`, which extensions define so that Python can import them,
// visible. Separate from library.h, which may be precompiled for modules of other names.
#pragma once
#include "cograd/torch_compat/impl/library.h"

#ifdef TORCH_EXTENSION_NAME
extern "C"
    __attribute__((visibility("default"))) struct _object* COGRAD_CAT(PyInit_,
                                                                      TORCH_EXTENSION_NAME)();
#endif
