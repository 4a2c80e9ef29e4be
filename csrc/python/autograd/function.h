// SPDX-License-Identifier: BSD-3-Clause
// Custom Functions written in Python: the ctx object and the graph node are one object.
#pragma once
#include "python/autograd/nodes.h"
#include "transforms/custom_function.h"

namespace cograd::python {

struct PyFunctionObject;

// Is stored inside its PyFunctionObject. All C++ references together hold one Python reference.
class FunctionNode final : public CustomNode {
 public:
  explicit FunctionNode(PyFunctionObject* owner) : owner_(owner) {
    refs_.store(0, std::memory_order_relaxed);
  }
  std::string name() const override;
  std::string function_name() const override;
  std::string describe_input(size_t i) const override;
  void first_reference() noexcept override;
  void last_reference() noexcept override;
  bool is_python() const noexcept override { return true; }
  bool has_jvp() const override;
  bool has_backward() const override;
  bool accepts_batched() const override;
  std::string jvp_to_write() const override;
  PyFunctionObject* owner() const noexcept { return owner_; }
  // Returns the position among forward's arguments of tensor input `i`.
  size_t argument_of(size_t i) const noexcept;

 protected:
  void call_backward(BackwardArgs& args) override;
  std::vector<Tensor> call_jvp(std::vector<Tensor> tangents) override;

 private:
  void take_gradients(PyObject* result, BackwardArgs& args);
  PyFunctionObject* owner_;
};

struct PyFunctionObject {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  PyObject* to_save;          // tuple passed to save_for_backward, until forward ends
  PyObject* to_save_forward;  // tuple passed to save_for_forward, until apply ends
  PyObject* dirty;            // tuple passed to mark_dirty
  PyObject* non_differentiable;
  PyObject* needs_override;       // needs_input_grad assigned by the user
  bool recorded;                  // the node is part of a graph
  bool in_jvp;                    // saved_tensors returns what save_for_forward saved
  bool used;                      // an instance-style object that was called before
  SmallVec<int, 4> input_of_arg;  // index of each argument among the tensor inputs, -1 if none
  alignas(FunctionNode) unsigned char node_bytes[sizeof(FunctionNode)];

  FunctionNode* node() noexcept { return reinterpret_cast<FunctionNode*>(node_bytes); }
};

}  // namespace cograd::python
