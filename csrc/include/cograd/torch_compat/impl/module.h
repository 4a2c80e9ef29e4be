// SPDX-License-Identifier: BSD-3-Clause
// "extern "C" PyObject* PyInit__C()" as people write it, to have their ops imported, stays visible.
// Apart from library.h, which may have been precompiled for modules of other names.
#pragma once
#include "cograd/torch_compat/impl/library.h"

#ifdef TORCH_EXTENSION_NAME
extern "C"
    __attribute__((visibility("default"))) struct _object* COGRAD_CAT(PyInit_,
                                                                      TORCH_EXTENSION_NAME)();
#endif
