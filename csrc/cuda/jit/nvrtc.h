// SPDX-License-Identifier: BSD-3-Clause
// NVIDIA's run-time compiler, found when a kernel is first compiled. The prototypes are our own,
// from NVRTC's documentation; no CUDA header is needed.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tensor/backend.h"

namespace cograd::cuda {

// Return where the compiler is and its version, such as 13050; raise RuntimeError, with the places
// that were searched, if there is none.
const std::string& nvrtc_path();
int nvrtc_version();

// Returns the architecture to compile for on a GPU of that compute capability: "sm_90", or
// "compute_90" if the GPU is newer than the compiler, whose driver then compiles the rest. Raises
// RuntimeError for a GPU that is too old for the compiler.
std::string nvrtc_target(int major, int minor);

// A text to compile to a cubin (to PTX for a "compute_" target).
struct Compilation {
  std::string name, text;  // `name` stands in messages
  std::vector<std::string> options;
  std::string target;
  std::string expression = {};  // names a function whose name in the code is wanted
  // The text may include these headers: names and texts.
  std::vector<std::pair<std::string, std::string>> headers = {};
};
struct Compiled {
  std::string code;
  std::string function;  // of the expression
};
// Raises RuntimeError with the compiler's log.
Compiled nvrtc_compile(const Compilation& c);
// Returns what was compiled so far.
Compilations nvrtc_compilations();

}  // namespace cograd::cuda
