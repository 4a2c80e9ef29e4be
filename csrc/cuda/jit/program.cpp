// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/program.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "cograd/error.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/launch.h"
#include "cuda/jit/cache.h"
#include "cuda/jit/folders.h"
#include "cuda/jit/nvrtc.h"

namespace cograd::cuda {

namespace {

const std::string& text_folder() {
  static const std::string folder = [] {
    const char* own = std::getenv("COGRAD_CUDA_TEXT");
    return own == nullptr ? library_folder() + "/cuda" : std::string(own);
  }();
  return folder;
}

// Appends a file. A line `#include "name"` is replaced by that file, the first time it is named.
void append(std::string& out, const std::string& name, std::set<std::string>& seen) {
  if (!seen.insert(name).second) return;
  const std::string path = text_folder() + "/" + name;
  const auto file = read_file(path);
  COGRAD_CHECK(file.has_value(), "cuda: cannot read ", path, ", a part of the kernels' text");
  out += "#line 1 \"" + name + "\"\n";
  constexpr std::string_view kInclude = "#include \"";
  int number = 0;
  for (size_t at = 0; at < file->size();) {
    const size_t end = std::min(file->find('\n', at), file->size());
    const std::string line = file->substr(at, end - at);
    ++number;
    at = end + 1;
    if (line.rfind(kInclude, 0) == 0) {
      append(out, line.substr(kInclude.size(), line.rfind('"') - kInclude.size()), seen);
      out += "#line " + std::to_string(number + 1) + " \"" + name + "\"\n";
    } else if (line != "#pragma once") {
      out += line + "\n";
    }
  }
}

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

}  // namespace

std::string program_text(const std::string& file) {
  std::string out;
  std::set<std::string> seen;
  append(out, file, seen);
  return out;
}

std::string compiled(const std::string& program, const std::string& defines,
                     const std::string& text, const std::string& target) {
  const std::string key =
      digest({text, defines, target, nvrtc_path(), std::to_string(nvrtc_version())});
  if (auto code = cached_code(key)) return *code;
  std::string code = nvrtc_compile(program, text, defines, target);
  cache_code(key, code);
  return code;
}

CUfunction function_of(const std::string& program, const std::string& defines,
                       const std::function<std::string()>& text, const std::string& function) {
  Gpu& gpu = here();
  Module& m = module_of(gpu.index, program, defines);
  const std::lock_guard lock(m.mutex);
  if (m.handle == nullptr) {
    const std::string target = nvrtc_target(gpu.properties.major, gpu.properties.minor);
    const std::string code = compiled(program, defines, text(), target);
    check(driver().module_load(&m.handle, code.data()), "cuModuleLoadData", program.c_str());
  }
  CUfunction& f = m.functions[function];
  if (f == nullptr)
    check(driver().module_function(&f, m.handle, function.c_str()), "cuModuleGetFunction",
          function.c_str());
  return f;
}

CUfunction kernel(const char* program, const char* defines, const char* function) {
  return function_of(program, defines, [=] { return program_text(program); }, function);
}

}  // namespace cograd::cuda
