// SPDX-License-Identifier: BSD-3-Clause
// Compiled kernels on disk: a file for each program, with a checksum, written under another name
// and renamed, so that processes need no lock. A file that cannot be used is compiled again.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace cograd::cuda {

// Returns 32 hexadecimal digits that depend on all parts and on where each ends.
std::string digest(std::initializer_list<std::string_view> parts);

// The folder: COGRAD_KERNEL_CACHE if it is set, else cograd/kernels in the user's cache folder. It
// is empty, and nothing is kept, if the variable is empty or there is no home.
std::string cache_folder();

std::optional<std::string> cached_code(const std::string& key);
// Keeps code if the folder can be written, and returns whether it did. Removes the files that were
// used least recently while all of them take more than `limit` bytes.
bool cache_code(const std::string& key, const std::string& code, size_t limit = size_t{256} << 20);

}  // namespace cograd::cuda
