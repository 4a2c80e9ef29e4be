// SPDX-License-Identifier: BSD-3-Clause
// Lists the saved tensors of nodes: by name, or all of them.
#pragma once
#include <string_view>

#include "autograd/graph/saved_tensor.h"
#include "python/autograd/nodes.h"

namespace cograd::python {

// Returns the value of an attribute such as `_saved_self` or `_raw_saved_result`; null without an
// error set if the node has no such slot.
PyObject* node_saved_attribute(Node* n, std::string_view name);
py::list node_saved_names(Node* n);
py::tuple raw_saved_tensors(Node* n);
// Returns [(name, tensor), ...] for the slots that no pack hook replaced, without histories.
py::list plain_saved_tensors(Node* n);
// Returns the tensor that a slot keeps, or the one a pack hook returned for it; undefined if that
// is no tensor.
Tensor held_tensor(const SavedTensor& s);
// Returns every node of every graph that Python objects reach (python/autograd/gc.cpp).
std::vector<NodeRef> reachable_nodes();

// Returns where a node was created: [(file, line, function), ...], outermost first; null if anomaly
// mode did not record it. The reference is borrowed.
PyObject* made_at_frames(const Node* n);
// Adds "traceback_" and "parent_" to a node's metadata, as torch's anomaly mode does.
void fill_metadata(Node* n, PyObject* dict);

}  // namespace cograd::python
