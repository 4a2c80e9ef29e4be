// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/program.h"

#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <vector>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/launch.h"
#include "cuda/jit/cache.h"
#include "cuda/jit/compile_thread.h"
#include "cuda/jit/nvrtc.h"
#include "cuda/jit/text.h"

namespace cograd::cuda {

namespace {

struct Module {
  std::mutex mutex;
  CUmodule handle = nullptr;
  std::unordered_map<std::string, CUfunction> functions;
};

// The module of a program on a GPU. A module stays until the process ends.
Module& module_of(int gpu, const std::string& program, const std::string& defines) {
  static std::mutex mutex;
  static auto* modules = new std::map<std::pair<int, std::string>, std::unique_ptr<Module>>;
  const std::lock_guard lock(mutex);
  auto& m = (*modules)[{gpu, program + '\n' + defines}];
  if (m == nullptr) m = std::make_unique<Module>();
  return *m;
}

// What `program` and `defines` name is the same text everywhere in a process.
std::string key_of(const std::string& program, const std::string& defines,
                   const std::string& target) {
  return program + '\n' + defines + '\n' + target;
}
std::string target_of(const Gpu& gpu) {
  return nvrtc_target(gpu.properties.major, gpu.properties.minor);
}

}  // namespace

std::string compiled(const std::string& program, const std::string& defines,
                     const std::string& text, const std::string& target, bool* kept) {
  const std::string key =
      digest({text, defines, target, nvrtc_path(), std::to_string(nvrtc_version())});
  if (auto code = cached_code(key)) {
    if (kept != nullptr) *kept = true;
    return *code;
  }
  // Rows compare unsigned integers with 0, which warning 186 is about.
  std::vector<std::string> options{"-diag-suppress=186"};
  std::istringstream words(defines);
  for (std::string word; words >> word;) options.push_back(word);
  std::string code = nvrtc_compile({program, text, options, target}).code;
  const bool stored = cache_code(key, code);
  if (kept != nullptr) *kept = stored;
  return code;
}

CUfunction function_of(const std::string& program, const std::string& defines,
                       const std::function<std::string()>& text, const std::string& function) {
  Gpu& gpu = here();
  Module& m = module_of(gpu.index, program, defines);
  const std::lock_guard lock(m.mutex);
  const DuringCapture allowed;
  if (m.handle == nullptr) {
    const std::string target = target_of(gpu);
    const std::string code = compiled_once(key_of(program, defines, target), [&] {
      return compiled(program, defines, text(), target);
    });
    check(driver().module_load(&m.handle, code.data()), "cuModuleLoadData", program.c_str());
  }
  CUfunction& f = m.functions[function];
  if (f == nullptr)
    check(driver().module_function(&f, m.handle, function.c_str()), "cuModuleGetFunction",
          function.c_str());
  return f;
}

bool expect_program(const std::string& program, const std::string& defines,
                    std::function<std::string()> text) {
  if (!compiles_ahead()) return false;
  Gpu& gpu = here();
  {
    Module& m = module_of(gpu.index, program, defines);
    const std::unique_lock lock(m.mutex, std::try_to_lock);
    if (!lock.owns_lock() || m.handle != nullptr) return true;  // it is being compiled, or loaded
  }
  std::string target = target_of(gpu);
  compile_ahead(key_of(program, defines, target), [=, text = std::move(text)](bool& kept) {
    return compiled(program, defines, text(), target, &kept);
  });
  return true;
}

CUfunction kernel(const char* program, const char* defines, const char* function) {
  return function_of(program, defines, [=] { return program_text(program); }, function);
}

}  // namespace cograd::cuda
