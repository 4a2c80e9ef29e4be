// SPDX-License-Identifier: BSD-3-Clause
// Custom Functions written in Python: the ctx object and the graph node are one object.
#pragma once
#include "autograd/custom_function.h"
#include "python/py_nodes.h"

namespace cograd::python {

struct PyFunctionObject;

// Lives inside its PyFunctionObject. All C++ references together hold one Python reference.
class FunctionNode final : public Node {
 public:
  explicit FunctionNode(PyFunctionObject* owner) : owner_(owner) {
    refs_.store(0, std::memory_order_relaxed);
  }
  std::string name() const override;
  void backward(BackwardArgs& args) override;
  void release_saved() noexcept override;
  size_t num_saved() const noexcept override;
  SavedTensor* saved_slot(size_t i) noexcept override;
  void visit(GraphVisitor& v) const override;
  void clear() noexcept override;
  void first_reference() noexcept override;
  void last_reference() noexcept override;
  bool is_python() const noexcept override { return true; }
  PyFunctionObject* owner() const noexcept { return owner_; }

 private:
  PyFunctionObject* owner_;
};

struct PyFunctionObject {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  PyObject* to_save;  // tuple given to save_for_backward, until forward ends
  PyObject* to_save_forward;
  PyObject* dirty;  // tuple given to mark_dirty
  PyObject* non_differentiable;
  PyObject* needs_override;  // needs_input_grad assigned by the user
  bool materialize;
  bool recorded;  // part of a graph
  bool used;      // an instance-style object that has been called
  const BackwardArgs* running;
  SmallVec<int, 4> edge_of_arg;  // edge number of each argument, -1 for non-tensors
  SmallVec<bool, 4> arg_needs;   // per argument: tensor that requires grad
  std::vector<SavedSlot> saved;
  SmallVec<bool, 2> output_is_tensor;  // per returned value
  alignas(FunctionNode) unsigned char node_bytes[sizeof(FunctionNode)];

  FunctionNode* node() noexcept { return reinterpret_cast<FunctionNode*>(node_bytes); }
};

}  // namespace cograd::python
