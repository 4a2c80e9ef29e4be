// SPDX-License-Identifier: BSD-3-Clause
// Support for transforms (grad, vjp, jvp, ...) that run a function: its inputs and results, the
// scopes of hooks, and the check that the function does not write a tensor that it captured.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "autograd/graph/variable.h"

namespace cograd {

// Called when a transformed function begins to run on this thread. Until leave_function(), only the
// memory of `may_write` and tensors created from now on may be written in place.
COGRAD_API void enter_function(std::span<const Tensor> may_write);
COGRAD_API void leave_function() noexcept;
// In its scope only those functions on this thread that have these numbers are visible.
class OnlyFunctions {
 public:
  explicit OnlyFunctions(std::span<const uint32_t> numbers);
  ~OnlyFunctions();
  OnlyFunctions(const OnlyFunctions&) = delete;
  OnlyFunctions& operator=(const OnlyFunctions&) = delete;

 private:
  struct Scopes;
  std::unique_ptr<Scopes> all_;
};
// True if a transformed function runs on this thread.
COGRAD_API bool within_function() noexcept;
// Sets the tensors that the innermost function is differentiated with respect to.
COGRAD_API void set_function_inputs(std::span<const Tensor> inputs);
// Returns the number of the innermost function on this thread; 0 if there is none.
COGRAD_API uint32_t innermost_function() noexcept;
// Appends the numbers of the functions that run on this thread, outermost first.
void append_function_ids(std::vector<uint32_t>& to);
// True if the function with this number still runs, on any thread.
bool function_runs(uint32_t number) noexcept;
// Returns the innermost function on this thread with an input that `n` depends on; 0 if there is
// none. A hook on `n` is called in that function's backward only.
COGRAD_API uint32_t scope_of(Node& n);
// True if this thread has entered no vmap since the outermost function began (without a function:
// if it is in no vmap). A graph recorded here is then differentiated while the same vmaps are open.
COGRAD_API bool backward_within_vmaps() noexcept;
// Raises if the innermost function captured `t`, so that `op` must not write it.
COGRAD_API void check_captured(const Tensor& t, const char* op);

// Returns `t`, or a copy if it is an inference tensor, which cannot be saved in a graph.
COGRAD_API Tensor recordable(const Tensor& t);
// Returns the values of `t` with its visible tangents but without history.
COGRAD_API Tensor without_history(const Tensor& t);
// True if a tensor in `from`, or its tangent, depends on a leaf that requires grad, except for the
// leaves in `apart_from`.
COGRAD_API bool leads_to_leaf(std::span<const Tensor> from, std::span<const Tensor> apart_from);
// Returns a result as the transform returns it. It keeps its history, and that of its tangents,
// only if `keep` is set and it leads to a leaf that requires grad.
COGRAD_API Tensor released(const Tensor& t, bool keep);

}  // namespace cograd
