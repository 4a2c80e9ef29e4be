// SPDX-License-Identifier: BSD-3-Clause
// Index tensors from what Python code writes as an index: lists, ranges, NumPy arrays.
#pragma once
#include "python/py_tensor.h"

namespace cograd::python {

// A Python or NumPy bool.
bool is_python_bool(PyObject* o) noexcept;
// Whether `o` is a sequence or a buffer that index_data reads (tensors are not).
bool is_index_data(PyObject* o) noexcept;
// An int64, bool or uint8 tensor; raises IndexError for other contents, ValueError if ragged.
Tensor index_data(PyObject* o);
// Whether a sequence is meant as a tuple of index items: it is short and holds slices, None,
// Ellipsis, tensors or sequences.
bool is_item_sequence(PyObject* o) noexcept;

}  // namespace cograd::python
