// SPDX-License-Identifier: BSD-3-Clause
// NVIDIA's run-time compiler, found when a kernel is first compiled. The prototypes are our own,
// from NVRTC's documentation; no CUDA header is needed.
#pragma once
#include <string>

namespace cograd::cuda {

// Return where the compiler is and its version, such as 13050; raise RuntimeError, with the places
// that were searched, if there is none.
const std::string& nvrtc_path();
int nvrtc_version();

// Returns the architecture to compile for on a GPU of that compute capability: "sm_90", or
// "compute_90" if the GPU is newer than the compiler, whose driver then compiles the rest. Raises
// RuntimeError for a GPU that is too old for the compiler.
std::string nvrtc_target(int major, int minor);

// Compiles a text to a cubin (PTX for a "compute_" target). `defines` are options divided by
// spaces; `name` stands in messages. Raises RuntimeError with the compiler's log.
std::string nvrtc_compile(const std::string& name, const std::string& text,
                          const std::string& defines, const std::string& target);

}  // namespace cograd::cuda
