// SPDX-License-Identifier: BSD-3-Clause
// The extension module cograd._C.
#include "python/py_tensor.h"

PYBIND11_MODULE(_C, m) {
  using namespace cograd::python;
  m.doc() = "The compiled core of cograd.";
  init_types(m);
  init_tensor(m);
  init_random(m);
  init_ops(m);
  init_indexing(m);
  init_nodes(m);
  init_function(m);
  init_gc(m);
  init_interop(m);
}
