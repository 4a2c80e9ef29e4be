// SPDX-License-Identifier: BSD-3-Clause
// Programs of the current GPU in memory: their text, from files or generated, compiled once.
#pragma once
#include <functional>
#include <string>

#include "cuda/driver/api.h"

namespace cograd::cuda {

// Returns a function of a program for the current GPU, like kernel() of driver/launch.h. `text` is
// called if the program is not in memory. Several threads may call it; one of them compiles.
CUfunction function_of(const std::string& program, const std::string& defines,
                       const std::function<std::string()>& text, const std::string& function);

// Has a program compiled in the background for the current GPU, which will be asked for soon.
// Returns false if nothing is compiled there now.
bool expect_program(const std::string& program, const std::string& defines,
                    std::function<std::string()> text);

// Compiles a program for an architecture such as "sm_90", or takes it from the disk cache. Sets
// `kept` to whether it is there now.
std::string compiled(const std::string& program, const std::string& defines,
                     const std::string& text, const std::string& target, bool* kept = nullptr);

}  // namespace cograd::cuda
