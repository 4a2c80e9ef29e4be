// SPDX-License-Identifier: BSD-3-Clause
// Saved tensors of nodes, by name and as a whole.
#pragma once
#include <string_view>

#include "autograd/saved_tensor.h"
#include "python/py_nodes.h"

namespace cograd::python {

// `_saved_self`, `_raw_saved_result` and the like; null (no error set) if there is no such slot.
PyObject* node_saved_attribute(Node* n, std::string_view name);
py::list node_saved_names(Node* n);
py::tuple raw_saved_tensors(Node* n);
// What a slot keeps: the tensor, or what a pack hook gave in its place; undefined if no tensor.
Tensor held_tensor(const SavedTensor& s);
// Every node of every graph that Python objects reach (py_gc.cpp).
std::vector<NodeRef> reachable_nodes();

// Where a node was made: [(file, line, function), ...], outermost first; null if not watched.
PyObject* made_at_frames(const Node* n);  // borrowed
// Puts "traceback_" and "parent_" into a node's metadata, as torch's anomaly mode does.
void fill_metadata(Node* n, PyObject* dict);

}  // namespace cograd::python
