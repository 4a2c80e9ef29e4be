// SPDX-License-Identifier: BSD-3-Clause
// Loads the CUDA driver.
#include "cuda/driver/api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "cograd/error.h"
#include "tensor/device.h"

namespace cograd::cuda {

namespace {

struct Loaded {
  DriverApi api;
  std::string failure, path;
};

Loaded load() {
  Loaded l;
  const char* own = std::getenv("COGRAD_CUDA_DRIVER");
  l.path = own != nullptr ? own : "libcuda.so.1";
  void* library = dlopen(l.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    l.failure = std::string("no NVIDIA driver was found (") + dlerror() + ")";
    return l;
  }
#define COGRAD_CUDA_FIND(name, symbol, parameters)                             \
  l.api.name = reinterpret_cast<decltype(l.api.name)>(dlsym(library, symbol)); \
  if (l.api.name == nullptr && l.failure.empty())                              \
    l.failure = l.path + " has no function " + symbol + ": the NVIDIA driver is too old";
  COGRAD_CUDA_DRIVER(COGRAD_CUDA_FIND)
#undef COGRAD_CUDA_FIND
  if (!l.failure.empty()) return l;
  if (const CUresult r = l.api.init(0); r != kSuccess) {
    const char* text = nullptr;
    l.api.error_string(r, &text);
    l.failure = std::string("the NVIDIA driver could not start: ") +
                (text == nullptr ? "error " + std::to_string(r) : std::string(text));
  }
  return l;
}

const Loaded& loaded() {
  static const Loaded l = load();
  return l;
}

}  // namespace

const DriverApi& driver() { return loaded().api; }
const std::string& why_no_driver() { return loaded().failure; }
const std::string& driver_path() { return loaded().path; }

void check(CUresult result, const char* function, const char* what) {
  if (result == kSuccess) [[likely]]
    return;
  const char *name = nullptr, *text = nullptr;
  driver().error_name(result, &name);
  driver().error_string(result, &text);
  const std::string of = what == nullptr ? "" : std::string(" of ") + what;
  const bool capture = result >= kFirstCaptureError && result <= kLastCaptureError;
  detail::fail(
      result == kOutOfMemory ? ErrorKind::Memory : ErrorKind::Runtime,
      "CUDA error: ", text == nullptr ? "unknown error" : text, " (", name == nullptr ? "" : name,
      " from ", function, of,
      capture ? "). A CUDA graph cannot capture this call, or an earlier one spoilt the capture: "
                "waits, reads of values, and streams that do not join the captured one "
                "again belong before or after it."
              : "). A kernel that ran before may have caused it: set "
                "CUDA_LAUNCH_BLOCKING=1 to see the call.");
}

}  // namespace cograd::cuda
