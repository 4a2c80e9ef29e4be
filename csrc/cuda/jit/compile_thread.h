// SPDX-License-Identifier: BSD-3-Clause
// Programs are compiled once each, though several threads may want one: a thread in the background
// compiles those that will be needed, and who needs one that is being compiled waits for it.
#pragma once
#include <functional>
#include <string>

namespace cograd::cuda {

using Compile = std::function<std::string()>;
// Like Compile; sets `kept` if the code is in the disk cache, where a second call finds it.
using CompileAhead = std::function<std::string(bool& kept)>;

// Returns the code of the program that `key` names, made by `compile` on this thread unless another
// one is at it or has finished. Raises what `compile` raises; nothing is kept of a failure.
std::string compiled_once(const std::string& key, const Compile& compile);

// True if programs may be compiled in the background: COGRAD_COMPILE_THREAD is not 0, and waits for
// a GPU are not errors.
bool compiles_ahead() noexcept;
// Hands a program to the background, unless it is known. `compile` calls nothing of the driver. An
// error is not reported: who needs the program compiles it again.
void compile_ahead(const std::string& key, CompileAhead compile) noexcept;
// Sets how many threads may compile in the background; 1 at first. Threads above it end once they
// have compiled what they are at.
void set_compile_threads(int most) noexcept;
// Waits until the background has nothing to do, at most so long. Returns whether that is so.
bool wait_for_compile_threads(double seconds);

}  // namespace cograd::cuda
