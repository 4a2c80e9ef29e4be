// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/user_kernel.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cograd/error.h"
#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/jit/cache.h"
#include "cuda/jit/compile_thread.h"
#include "cuda/jit/nvrtc.h"
#include "cuda/jit/text.h"

namespace cograd::cuda {

namespace {

// The headers that a text may include.
const std::vector<std::pair<std::string, std::string>>& headers() {
  static const auto all = [] {
    const std::string text = program_text("kernel.h");
    const std::string integers = "#include <cograd/kernel.h>\n";
    return std::vector<std::pair<std::string, std::string>>{
        {"cograd/kernel.h", "#pragma once\n" + text},
        {"stdint.h", integers},
        {"cstdint", integers},
        {"stddef.h", "#pragma once\n"},
        {"cstddef", "#pragma once\n"}};
  }();
  return all;
}

// An entry of the cache is the function's name, an end of line, and the code.
std::string compiled(const KernelText& k, const std::string& key, const std::string& target) {
  if (auto kept = cached_code(key); kept && kept->find('\n') != std::string::npos) return *kept;
  const Compiled made =
      nvrtc_compile({k.name + ".cu", k.text, k.options, target, k.expression, headers()});
  std::string entry = made.function + "\n" + made.code;
  cache_code(key, entry);
  return entry;
}

}  // namespace

CUfunction user_function(const KernelText& k) {
  static std::mutex mutex;
  static auto* known = new std::map<std::pair<int, std::string>, CUfunction>;
  Gpu& gpu = here();
  const std::string target = nvrtc_target(gpu.properties.major, gpu.properties.minor);
  std::string options;
  for (const std::string& o : k.options) options.append(o).push_back('\n');
  const std::string key = digest({k.text, k.name, k.expression, options, target, nvrtc_path(),
                                  std::to_string(nvrtc_version()), headers()[0].second});
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known->find({gpu.index, key}); it != known->end()) return it->second;
  }
  // Without the lock, so that several kernels are compiled at once.
  const std::string entry = compiled_once("user\n" + key, [&] { return compiled(k, key, target); });
  const size_t line = entry.find('\n');
  const std::lock_guard lock(mutex);
  if (const auto it = known->find({gpu.index, key}); it != known->end()) return it->second;
  CUfunction f = nullptr;
  CUmodule module = nullptr;
  const DuringCapture allowed;
  check(driver().module_load(&module, entry.data() + line + 1), "cuModuleLoadData", k.name.c_str());
  check(driver().module_function(&f, module, entry.substr(0, line).c_str()), "cuModuleGetFunction",
        k.name.c_str());
  return (*known)[{gpu.index, key}] = f;
}

}  // namespace cograd::cuda
