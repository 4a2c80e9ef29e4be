// SPDX-License-Identifier: BSD-3-Clause
// What a function that a transform runs is differentiated by, and what it may write nonetheless.
#pragma once
#include "autograd/function_scope.h"

namespace cograd {

// Whether every vmap of this thread was entered before the function of this number: its backward
// runs while they are there.
bool function_within_vmaps(uint32_t number) noexcept;
// Whether `t` is, or depends on, an argument that the innermost function is differentiated by.
COGRAD_API bool is_of_function(const Tensor& t);

// In its scope the memory of `t` may be written, captured or not.
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
