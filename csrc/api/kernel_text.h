// SPDX-License-Identifier: BSD-3-Clause
// Reads the parameters of a kernel from its text in CUDA C++, so that a launch can check arguments.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cograd/dtype.h"
#include "cograd/error.h"

namespace cograd::api {

struct KernelParameter {
  std::string name, type;      // as declared: "x", "const float*"
  bool pointer = false;        // takes a tensor, else a number
  bool written = false;        // the kernel may write through the pointer
  std::optional<DType> dtype;  // of the elements or the number; none: of a type that is no dtype
};

struct KernelSignature {
  std::string name;        // "scale"
  std::string expression;  // names the function in the text: "ops::scale<float>"
  std::vector<KernelParameter> parameters;
};

// Reads the kernel that `expression` names: "scale", "ops::scale", "scale<float, 4>"; if it is
// empty, the only one of the text. `options` are the compiler's: definitions among them name types.
// Raises ValueError if there is no such kernel, or a parameter is neither a pointer nor a number.
KernelSignature read_kernel(std::string_view text, std::string_view expression,
                            const std::vector<std::string>& options);
// Returns the names of the kernels of a text that are no templates.
COGRAD_API std::vector<std::string> kernel_names(std::string_view text);

}  // namespace cograd::api
