// SPDX-License-Identifier: BSD-3-Clause
// Finds the folder of libcograd_cuda.so, and reads files.
#pragma once
#include <optional>
#include <string>

namespace cograd::cuda {

// Folder of this library; the kernels' text is in its folder cuda.
const std::string& library_folder();
// The folder that holds the package cograd, and NVIDIA's wheels if they are in the same
// environment.
std::string site_packages();
bool is_file(const std::string& path);
std::optional<std::string> read_file(const std::string& path);

}  // namespace cograd::cuda
