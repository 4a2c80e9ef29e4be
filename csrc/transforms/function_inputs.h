// SPDX-License-Identifier: BSD-3-Clause
// The inputs that a transformed function is differentiated with respect to, and exceptions from the
// rule that it must not write captured tensors.
#pragma once
#include "transforms/function_scope.h"

namespace cograd {

// True if the function with this number runs on this thread, which entered all its vmaps before the
// function began: the function's backward then runs while these vmaps are open.
bool function_within_vmaps(uint32_t number) noexcept;
// True if `t` is, or depends on, an input of the innermost function (set_function_inputs()).
COGRAD_API bool is_of_function(const Tensor& t);

// In its scope the memory of `t` may be written even if the function captured it.
class COGRAD_API MayWrite {
 public:
  explicit MayWrite(const Tensor& t);
  ~MayWrite();
  MayWrite(const MayWrite&) = delete;
  MayWrite& operator=(const MayWrite&) = delete;

 private:
  bool within_;
};

}  // namespace cograd
