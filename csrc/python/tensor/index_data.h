// SPDX-License-Identifier: BSD-3-Clause
// Makes index tensors from the objects Python code uses as an index: lists, ranges, NumPy arrays.
#pragma once
#include "python/tensor/tensor.h"

namespace cograd::python {

// True for a Python or NumPy bool.
bool is_python_bool(PyObject* o) noexcept;
// True if `o` is a sequence or a buffer that index_data reads (tensors are not).
bool is_index_data(PyObject* o) noexcept;
// Returns an int64, bool or uint8 tensor; raises IndexError for other contents, ValueError if
// ragged.
Tensor index_data(PyObject* o);
// True if a sequence is used like a tuple of index items: it is short and contains slices, None,
// Ellipsis, tensors or sequences.
bool is_item_sequence(PyObject* o) noexcept;

}  // namespace cograd::python
