// SPDX-License-Identifier: BSD-3-Clause
// The text of programs: files below cuda/text, put together before the compiler sees them.
#pragma once
#include <string>

namespace cograd::cuda {

// Returns the text with each line `#include "a/b/name"` replaced by the file `name`, the first time
// that it is named. Lines `#include <name>` are dropped. The files are read once in a process, from
// the folder cuda beside this library, or from the folders that COGRAD_CUDA_TEXT lists.
std::string with_includes(const std::string& text);
std::string program_text(const std::string& file);

}  // namespace cograd::cuda
