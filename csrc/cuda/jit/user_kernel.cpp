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
Compiled compiled(const KernelText& k, const std::string& key, const std::string& target) {
  if (auto kept = cached_code(key)) {
    const size_t line = kept->find('\n');
    if (line != std::string::npos) return {kept->substr(line + 1), kept->substr(0, line)};
  }
  Compiled made =
      nvrtc_compile({k.name + ".cu", k.text, k.options, target, k.expression, headers()});
  cache_code(key, made.function + "\n" + made.code);
  return made;
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
  const std::lock_guard lock(mutex);
  CUfunction& f = (*known)[{gpu.index, key}];
  if (f != nullptr) return f;
  const Compiled made = compiled(k, key, target);
  CUmodule module = nullptr;
  const DuringCapture allowed;
  check(driver().module_load(&module, made.code.data()), "cuModuleLoadData", k.name.c_str());
  check(driver().module_function(&f, module, made.function.c_str()), "cuModuleGetFunction",
        k.name.c_str());
  return f;
}

}  // namespace cograd::cuda
