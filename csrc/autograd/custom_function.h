// SPDX-License-Identifier: BSD-3-Clause
// What all custom functions share, whatever language they are written in: how the tensors that
// forward returned join the graph, and what was saved.
#pragma once
#include "autograd/error_node.h"
#include "autograd/saved_tensor.h"

namespace cograd {

// A call whose forward has ended. Pointers are borrowed from the caller.
struct COGRAD_API CustomCall {
  Node* node = nullptr;
  std::span<TensorImpl* const> inputs;  // its tensor arguments
  std::span<TensorImpl* const> dirty;
  std::span<TensorImpl* const> non_differentiable;
  bool recording = false;
  std::string (*describe)(const void* context, size_t input) = nullptr;  // for messages
  const void* context = nullptr;
  const char* name = "";

  bool is_input(const Tensor& t) const noexcept;
  bool is_dirty(const Tensor& t) const noexcept;
};

// Raises if a dirty input is not among the outputs, or is a leaf that requires grad.
COGRAD_API void check_dirty_returned(const CustomCall& call, std::span<TensorImpl* const> outputs);
// Raises if forward wrote an input that needs a gradient without declaring it. `versions` are those
// the inputs had before.
COGRAD_API void check_unmarked_writes(const CustomCall& call, std::span<const uint32_t> versions);
// What the caller is given for output `nr`. `views`: how many of the outputs are views.
COGRAD_API Tensor join_output(const CustomCall& call, Tensor t, uint32_t nr, size_t views);

struct COGRAD_API SavedSlot {
  enum class Kind : uint8_t { None, Input, Output, Constant, Intermediate } kind = Kind::None;
  SavedTensor tensor;

  // Keeps `t`; `before` and `after` are the outputs as forward returned and as join_output gave.
  void keep(const CustomCall& call, const Tensor& t, std::span<TensorImpl* const> before,
            std::span<TensorImpl* const> after);
  // The tensor again; `index` is the slot's, for messages.
  Tensor unpack(Node* owner, size_t index);
};
// An intermediate of forward while a graph is made: its part of a second derivative would be
// missing, so a gradient that flows into it raises.
COGRAD_API Tensor poisoned_intermediate(Node* owner, const Tensor& t, const std::string& what);

}  // namespace cograd
