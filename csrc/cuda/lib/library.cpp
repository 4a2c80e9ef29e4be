// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/lib/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "cuda/driver/api.h"
#include "cuda/jit/folders.h"

namespace cograd::cuda {

namespace {

bool driver_has_cuda13() {
  int version = 0;
  return driver().driver_version(&version) == kSuccess && version >= 13000;
}

}  // namespace

Library::Library(const LibraryNames& n) : title_(n.title) {
  std::string broken;  // why a file that is there cannot be loaded, such as for another library
  const auto open = [&](const std::string& place, int flags) {
    if (handle_ != nullptr || place.empty()) return;
    handle_ = dlopen(place.c_str(), flags | RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr)
      path_ = place;
    else if (broken.empty() && is_file(place))
      broken = dlerror();
  };
  if (const char* own = std::getenv(n.variable)) {
    open(own, 0);
  } else {
    const std::string packages = site_packages() + "/nvidia/";
    const std::string wheel13 = packages + "cu13/lib/" + n.file13;
    const std::string wheel12 = packages + n.folder12 + "/lib/" + n.file12;
    const bool new_driver = driver_has_cuda13();
    std::vector<std::string> names{n.file12}, wheels{wheel12};
    if (new_driver) {
      names.insert(names.begin(), n.file13);
      wheels.insert(wheels.begin(), wheel13);
    }
    for (const std::string& name : names) open(name, RTLD_NOLOAD);
    for (const std::string& wheel : wheels) open(wheel, 0);
    for (const std::string& name : names) open(name, 0);
  }
  if (handle_ != nullptr) return;
  why_ = broken.empty() ? std::string("not found: pip install ") + n.extra
                        : "it could not be loaded: " + broken;
}

void* Library::find(const char* symbol) {
  if (handle_ == nullptr) return nullptr;
  void* const f = dlsym(handle_, symbol);
  if (f != nullptr || !why_.empty()) return f;
  refuse(path_ + " lacks the function " + symbol + " of " + title_);
  return f;
}

std::string status_text(int code, std::span<const Status> known) {
  for (const Status& s : known)
    if (s.code == code)
      return std::string(s.name) + " (" + std::to_string(code) + "): " + s.meaning;
  return "status " + std::to_string(code);
}

}  // namespace cograd::cuda
