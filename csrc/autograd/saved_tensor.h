// SPDX-License-Identifier: BSD-3-Clause
// SavedTensor: a tensor kept for backward, with the version it had; never part of a cycle.
#pragma once
#include "autograd/variable.h"

namespace cograd {

class COGRAD_API SavedTensor {
 public:
  SavedTensor() noexcept = default;
  SavedTensor(const SavedTensor&) = delete;
  SavedTensor& operator=(const SavedTensor&) = delete;
  SavedTensor(SavedTensor&& o) noexcept
      : tensor_(std::move(o.tensor_)),
        version_(o.version_),
        output_nr_(o.output_nr_),
        is_output_(o.is_output_) {}
  // Keeps an input (or any tensor that is not made by the saving node).
  void save(const Tensor& t) {
    if (t.defined()) {
      if ((t->flags & kInference) != 0) [[unlikely]]
        fail_inference();
      version_ = t->current_version();
    }
    tensor_ = t;
    is_output_ = false;
  }
  // Keeps an output of the saving node: its bytes without its history, re-attached on unpack.
  void save_output(const Tensor& t) {
    tensor_ = Tensor::steal(t->alias());
    version_ = t->current_version();
    is_output_ = true;
  }
  void set_output_nr(uint32_t nr) noexcept { output_nr_ = nr; }
  void refresh_version() noexcept { version_ = tensor_->current_version(); }
  bool is_output() const noexcept { return is_output_; }
  bool defined() const noexcept { return tensor_.defined(); }
  const Tensor& raw() const noexcept { return tensor_; }
  // The tensor again; `owner` is the node that saved it. Undefined if nothing was saved.
  Tensor unpack(Node* owner, bool released) const;
  // As unpack without a reference, for formulas of a running node; same checks, no history.
  void take(Tensor& into) noexcept { into.swap(tensor_); }
  void visit(GraphVisitor& v) const {
    if (tensor_.defined()) v.tensor(tensor_.impl());
  }

 private:
  [[noreturn]] static void fail_inference();
  Tensor tensor_;
  uint32_t version_ = 0;
  uint32_t output_nr_ = 0;
  bool is_output_ = false;
};

[[noreturn]] COGRAD_API void fail_released(const Node* owner);

}  // namespace cograd
