// SPDX-License-Identifier: BSD-3-Clause
// What a transform needs around the function that it runs: inputs and results of its own, and the
// promise that nothing the function captured is written.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "autograd/variable.h"

namespace cograd {

// A function begins to run on this thread. Until it ends, writing in place is for the memory of
// `may_write` and for what is made from now on.
COGRAD_API void enter_function(std::span<const Tensor> may_write);
COGRAD_API void leave_function() noexcept;
// In its scope only these of the functions that run on this thread are there, by their numbers.
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
// Whether a function of a transform runs on this thread.
COGRAD_API bool within_function() noexcept;
// The function that runs is differentiated by these tensors.
COGRAD_API void set_function_inputs(std::span<const Tensor> inputs);
// Numbers of the functions that run on this thread, outermost first; 0 is none.
COGRAD_API uint32_t innermost_function() noexcept;
void append_functions(std::vector<uint32_t>& to);
// Whether that function runs now, on any thread.
bool function_runs(uint32_t number) noexcept;
// The innermost function that runs here and is differentiated by something that `n` depends on; 0:
// none. Hooks on `n` are for that function's backward: at nested levels each has hooks of its own.
COGRAD_API uint32_t scope_of(Node& n);
// Whether every vmap of this thread was entered before the first function: what these record is
// differentiated while the vmaps are there.
COGRAD_API bool backward_within_vmaps() noexcept;
// Raises if `t` was captured by the function that runs here.
COGRAD_API void check_captured(const Tensor& t, const char* op);

// `t`, or a copy of an inference tensor, which no graph can keep.
COGRAD_API Tensor recordable(const Tensor& t);
// The values of `t`, no handle, with the tangents that are seen here, without history.
COGRAD_API Tensor without_history(const Tensor& t);
// Whether one of the tensors, or a tangent of one, depends on a leaf that requires grad, other than
// those in `apart_from`.
COGRAD_API bool leads_to_leaf(std::span<const Tensor> from, std::span<const Tensor> apart_from);
// A result as the transform returns it: with its history, and that of its tangents, if it leads to
// a leaf that requires grad and `keep`.
COGRAD_API Tensor released(const Tensor& t, bool keep);

}  // namespace cograd
