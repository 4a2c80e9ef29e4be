// SPDX-License-Identifier: BSD-3-Clause
// Declares the functions by which the engine calls transforms (vmap, forward mode, functions that
// run user code), a layer above it. csrc/transforms/hooks.cpp defines the table.
#pragma once
#include <memory>
#include <span>

#include "autograd/graph/node.h"

namespace cograd {

// State of a tensor that takes part in transforms. AutogradMeta owns it.
class COGRAD_API TransformState {
 public:
  TransformState() = default;
  TransformState(const TransformState&) = delete;
  TransformState& operator=(const TransformState&) = delete;
  virtual ~TransformState() = default;
};

// The tangents of a saved tensor, kept apart from it because hooks may return values only.
class COGRAD_API KeptTangents {
 public:
  KeptTangents() = default;
  KeptTangents(const KeptTangents&) = delete;
  KeptTangents& operator=(const KeptTangents&) = delete;
  virtual ~KeptTangents() = default;
  // True if `t` has no tangent at a level that has a kept one.
  virtual bool missing_on(const Tensor& t) const = 0;
  virtual void set_missing_on(const Tensor& t) const = 0;
};

inline bool is_batched(const TensorImpl* t) noexcept { return (t->flags & kBatched) != 0; }
inline bool is_batched(const Tensor& t) noexcept { return t.defined() && is_batched(t.impl()); }
inline bool any_batched(std::span<const Tensor> list) noexcept {
  for (const Tensor& t : list)
    if (is_batched(t)) return true;
  return false;
}
// True if transform rules may apply to `t`: it, or its base, may have a tangent, or it is batched.
inline bool transformed(const TensorImpl* t) noexcept {
  return (t->flags & (kDual | kBatched)) != 0 ||
         (t->base != nullptr && (t->base->flags & kDual) != 0);
}
inline bool transformed(const Tensor& t) noexcept { return t.defined() && transformed(t.impl()); }

// In the following, `handle` is a batched tensor.
struct TransformHooks {
  // Returns the tensor that a handle wraps, without the checks of the next function.
  const Tensor& (*unchecked_whole)(const TensorImpl* handle) noexcept;
  const Tensor& (*wrapped_tensor)(const Tensor& handle);
  // Returns the tensor below all vmap levels, which has the history and the tangents.
  const Tensor& (*physical_tensor)(const Tensor& t) noexcept;
  // Returns a batched tensor that wraps `whole` as `handle` wraps its tensor.
  Tensor (*wrapped_like)(const Tensor& handle, const Tensor& whole);
  // Wraps `physical`, which has the sizes of physical_tensor(handle), at all levels of `handle`.
  Tensor (*batched_like)(const Tensor& handle, const Tensor& physical);
  // Returns `t`, which has the sizes of `handle`, laid out like physical_tensor(handle).
  Tensor (*physical_like)(const Tensor& handle, const Tensor& t);
  // Raises because `who` needs a single value, and a batched tensor has one per sample.
  void (*fail_one_value)(const char* who);
  // Raises because `who` changes a tensor object, and a batched tensor has no memory of its own.
  void (*fail_batched)(const char* who);

  const Tensor& (*sparse_values)(const Tensor& t);

  bool (*level_entered)() noexcept;  // a dual level of this thread
  bool (*has_tangent)(const Tensor& t);
  void (*copy_tangents)(const Tensor& from, const Tensor& to);
  void (*drop_tangents)(TensorImpl* t) noexcept;
  // Returns the tangents of `t` at the levels that this thread has entered; null if it has none.
  std::unique_ptr<KeptTangents> (*keep_tangents)(const Tensor& t);

  // Returns the innermost transformed function with an input that `n` depends on; 0 if there is
  // none.
  uint32_t (*scope_of)(Node& n);
  bool (*function_runs)(uint32_t number) noexcept;  // on any thread
  void (*check_captured)(const Tensor& t, const char* op);
  // Turns a hook on a batched tensor into one on the gradient of its physical tensor.
  std::shared_ptr<Hook> (*hook_on_samples)(const Tensor& t, std::shared_ptr<Hook> hook);
  // Runs a node's backward on gradients of which some are batched.
  void (*backward_of_samples)(Node& n, BackwardArgs& args);
};
extern const TransformHooks transform_hooks __attribute__((visibility("hidden")));

}  // namespace cograd
