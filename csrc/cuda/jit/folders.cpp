// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/folders.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstdio>

namespace cograd::cuda {

namespace {

std::string parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace

const std::string& library_folder() {
  static const std::string folder = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&library_folder), &info);
    return parent(info.dli_fname == nullptr ? "." : info.dli_fname);
  }();
  return folder;
}

std::string site_packages() { return parent(parent(library_folder())); }

bool is_file(const std::string& path) {
  struct stat s{};
  return stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode);
}

std::optional<std::string> read_file(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "rbe");
  if (f == nullptr) return std::nullopt;
  std::string text;
  char part[1 << 14];
  while (const size_t n = std::fread(part, 1, sizeof part, f)) text.append(part, n);
  const bool failed = std::ferror(f) != 0;
  std::fclose(f);
  if (failed) return std::nullopt;
  return text;
}

}  // namespace cograd::cuda
