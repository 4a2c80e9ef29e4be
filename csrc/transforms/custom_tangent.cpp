// SPDX-License-Identifier: BSD-3-Clause
// Forward mode of custom functions: tangents come from the user's jvp, or else from backward.
#include <algorithm>

#include "transforms/custom_function.h"
#include "transforms/double_vjp.h"

namespace cograd {

std::vector<Tensor> CustomNode::call_jvp(std::vector<Tensor>) { return {}; }

// Finds the visible dual levels at which an input has a tangent, outermost first.
void CustomCall::find_levels() {
  LevelId below = thread_state.max_visible_level;
  for (;;) {
    const LevelsBelow mask(below);
    std::shared_ptr<TangentLevel> highest;
    for (TensorImpl* t : inputs_) {
      if (t == nullptr || !transformed(t)) continue;
      std::shared_ptr<TangentLevel> level = tangent_level(Tensor::borrow(t));
      if (level != nullptr && (highest == nullptr || level->id() > highest->id()))
        highest = std::move(level);
    }
    if (highest == nullptr) break;
    below = highest->id();
    levels_.insert(levels_.begin(), std::move(highest));
  }
  if (levels_.empty()) return;
  node_.called_at_ = levels_.front()->id();
  node_.inputs_ = std::make_unique<std::vector<OutputMeta>>(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] == nullptr) continue;
    OutputMeta& m = (*node_.inputs_)[i];
    m.dtype = inputs_[i]->dtype;
    m.device = inputs_[i]->device;
    m.differentiable = is_differentiable(m.dtype);
    m.sizes = Dims(inputs_[i]->sizes());
  }
  recording_ = true;
}

// Makes backward compute gradients for inputs with a tangent, even if they do not require grad.
void CustomCall::want_tangents() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    TensorImpl* t = inputs_[i];
    if (t == nullptr || !transformed(t) || !is_differentiable(t->dtype)) continue;
    Edge& e = node_.edges()[i];
    if (e.node == nullptr) e = wanted_edge();
    node_.needs_[i] = true;
  }
}

std::vector<Tensor> CustomCall::tangents_at(const TangentLevel& level,
                                            std::span<const Tensor> given,
                                            std::span<const Tensor> outputs) {
  const LevelsBelow mask(level.id());
  bool recorded = joins_;
  for (const Tensor& t : given) recorded |= grad_before_ && t.defined() && requires_grad(t);
  if (!node_.has_jvp()) {
    const bool none =
        std::none_of(outputs.begin(), outputs.end(), [](const Tensor& t) { return t.defined(); });
    if (none) return std::vector<Tensor>(outputs.size());
    if (!node_.has_backward())
      detail::fail(ErrorKind::NotImplemented,
                   "You must implement the jvp function for custom autograd.Function to use it "
                   "with forward mode AD. (",
                   node_.function_name(),
                   " has neither a jvp nor a backward to derive it from.) Add\n",
                   node_.jvp_to_write());
    return tangents_of_node(node_, given, outputs, recorded);
  }
  std::vector<Tensor> found = node_.tangents(given);
  COGRAD_CHECK(found.size() == outputs.size(), node_.function_name(), ".jvp returned ",
               found.size(), " tangents, expected ", outputs.size(), ": one for each output");
  for (size_t i = 0; i < found.size(); ++i) {
    const bool complex_of_real = found[i].defined() && outputs[i].defined() &&
                                 is_complex(found[i].dtype()) && is_real(outputs[i].dtype());
    COGRAD_CHECK(!complex_of_real, node_.function_name(),
                 ".jvp returned a complex tangent at "
                 "position ",
                 i + 1, " for an output of dtype ", dtype_name(outputs[i].dtype()),
                 ": its imaginary part would be lost");
    COGRAD_CHECK(!found[i].defined() || outputs[i].defined(), node_.function_name(),
                 ".jvp returned a gradient at position ", i + 1,
                 ", but the corresponding forward output is not a differentiable Tensor. You "
                 "should return None at that position instead.");
  }
  return found;
}

void CustomCall::give_tangents_at_levels(std::span<Tensor> given_outputs,
                                         const Declared& declared) {
  std::vector<Tensor> outputs;
  for (const Tensor& t : given_outputs) outputs.push_back(physical_tensor(t));
  const auto fixed = [&](const Tensor& t) {
    for (TensorImpl* p : declared.non_differentiable)
      if (t.is(physical_tensor(Tensor::borrow(p)))) return true;
    return false;
  };
  std::vector<Tensor> differentiable(outputs);
  for (Tensor& t : differentiable)
    if (t.defined() && (!is_differentiable(t.dtype()) || fixed(t))) t.reset();
  // Writing a dirty input replaces its tangent: read all tangents before any is written.
  std::vector<std::vector<Tensor>> given(levels_.size());
  for (size_t k = 0; k < levels_.size(); ++k)
    for (TensorImpl* t : inputs_) {
      const bool dual = t != nullptr && transformed(t) && is_differentiable(t->dtype);
      given[k].push_back(dual ? tangent_of(Tensor::borrow(t), levels_[k]->id()) : Tensor());
    }
  for (size_t k = 0; k < levels_.size(); ++k) {
    const std::vector<Tensor> found = tangents_at(*levels_[k], given[k], differentiable);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& out = differentiable[i];
      if (!out.defined()) continue;
      if (is_input(out.impl())) {  // dirty
        write_tangent(out, levels_[k], found[i]);
      } else if (found[i].defined()) {
        const bool own = out->base != nullptr || found[i]->storage->unique();
        set_tangent(out, levels_[k], own ? found[i] : autograd_ops.clone(found[i]));
      } else if (out->base != nullptr) {  // a zero tangent instead of that of the base
        const PlaceGuard here(out->device);
        set_tangent(out, levels_[k], autograd_ops.zeros(out.sizes(), out.dtype()));
      }
      for (const SavedSlot& s : node_.saved_)
        if (s.kind == SavedSlot::Kind::Output && !s.tensor.packed() && s.tensor.raw().defined() &&
            s.tensor.raw()->data == out->data)
          copy_tangents(out, s.tensor.raw());
    }
  }
  drop_wanted_edges(node_);
  if (!joins_) node_.release_saved();
}

}  // namespace cograd
