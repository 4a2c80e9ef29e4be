// SPDX-License-Identifier: BSD-3-Clause
// The keyword arguments of every creation op (dtype, layout, device, ...) and their checks.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

// The end of a creation op's parameter string, and the matching C++ parameters.
#define COGRAD_FACTORY_ARGS \
  "dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False"
#define COGRAD_FACTORY_PARAMS                                                                \
  std::optional<DType> dtype, std::optional<std::string_view> layout, std::optional<Device>, \
      std::optional<bool> pin_memory, bool requires_grad
#define COGRAD_LIKE_ARGS COGRAD_FACTORY_ARGS ", memory_format=None"
#define COGRAD_LIKE_PARAMS COGRAD_FACTORY_PARAMS, std::optional<std::string_view> memory_format

// Raises unless the layout is strided, the tensor not pinned, and its dtype differentiable if it
// requires grad.
void check_factory(const char* op, DType dtype, std::optional<std::string_view> layout,
                   std::optional<bool> pin_memory, bool requires_grad);
// Returns the dtype to create: `asked` if given, else out='s, else `otherwise`.
DType factory_dtype(const CtxBase& ctx, std::optional<DType> asked, DType otherwise);
// Returns the tensor that a factory fills: out= if it fits, else a new one of checked size.
Tensor factory_out(CtxBase& ctx, const char* op, IntList sizes, DType t);
inline Tensor finish_factory(Tensor t, bool requires_grad) {
  if (requires_grad) set_requires_grad(t, true);
  return t;
}
// Returns an empty tensor like `x` of dtype t: in x's order of dims unless memory_format is given.
Tensor empty_like_format(const char* op, const Tensor& x, DType t,
                         std::optional<std::string_view> memory_format);

}  // namespace cograd
