// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/nvrtc.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "cograd/error.h"
#include "cuda/jit/folders.h"

namespace cograd::cuda {

namespace {

using Program = struct NvrtcProgram_st*;

struct Api {
  int (*version)(int*, int*);
  int (*create)(Program*, const char* text, const char* name, int headers, const char* const* texts,
                const char* const* names);
  int (*destroy)(Program*);
  int (*compile)(Program, int count, const char* const* options);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  const char* (*error)(int);
  int (*add_expression)(Program, const char*);
  int (*lowered_name)(Program, const char*, const char**);
  // Older versions, and the tests' compiler, lack these.
  int (*ptx_size)(Program, size_t*);
  int (*ptx)(Program, char*);
  int (*arch_count)(int*);
  int (*archs)(int*);
};

struct Loaded {
  Api api{};
  std::string path, failure;
  int version = 0;
  std::vector<int> archs;  // 90 for sm_90; empty if the compiler does not tell
};

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

// Returns the path by which the loader knows the library that has `function`.
std::string path_of(void* function, const char* otherwise) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

void* open(const std::string& path, int flags, std::string& failure) {
  void* library = dlopen(path.c_str(), flags | RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && (flags & RTLD_NOLOAD) == 0) {
    const char* why = dlerror();
    failure += "\n  " + (why == nullptr ? path : std::string(why));
  }
  return library;
}

// Looks for the library where the environment says, in the process, in the folders of NVIDIA's
// wheels beside cograd, and where the loader looks.
void* find(std::string& failure) {
  if (const char* own = std::getenv("COGRAD_NVRTC"); own != nullptr && *own != '\0')
    return open(own, 0, failure);
  for (const char* name : kNames)
    if (void* library = open(name, RTLD_NOLOAD, failure)) return library;
  const std::string packages = site_packages();
  for (const char* name : kNames) {
    for (const char* folder : {"/nvidia/cu13/lib/", "/nvidia/cuda_nvrtc/lib/"}) {
      const std::string path = packages + folder + name;
      if (is_file(path))
        if (void* library = open(path, 0, failure)) return library;
    }
  }
  for (const char* name : kNames)
    if (void* library = open(name, 0, failure)) return library;
  return nullptr;
}

template <class F>
bool look_up(void* library, const char* name, F& f) {
  f = reinterpret_cast<F>(dlsym(library, name));
  return f != nullptr;
}

Loaded load() {
  Loaded l;
  std::string tried;
  void* library = find(tried);
  if (library == nullptr) {
    l.failure =
        "cuda: NVRTC, which compiles cograd's kernels, was not found; install it by `pip install "
        "'cograd[cuda]'`, or set COGRAD_NVRTC to the path of libnvrtc.so. Tried:" +
        tried;
    return l;
  }
  Api& a = l.api;
  const bool complete = look_up(library, "nvrtcVersion", a.version) &&
                        look_up(library, "nvrtcCreateProgram", a.create) &&
                        look_up(library, "nvrtcDestroyProgram", a.destroy) &&
                        look_up(library, "nvrtcCompileProgram", a.compile) &&
                        look_up(library, "nvrtcGetProgramLogSize", a.log_size) &&
                        look_up(library, "nvrtcGetProgramLog", a.log) &&
                        look_up(library, "nvrtcGetCUBINSize", a.cubin_size) &&
                        look_up(library, "nvrtcGetCUBIN", a.cubin) &&
                        look_up(library, "nvrtcGetErrorString", a.error) &&
                        look_up(library, "nvrtcAddNameExpression", a.add_expression) &&
                        look_up(library, "nvrtcGetLoweredName", a.lowered_name);
  if (!complete) {
    l.failure = "cuda: the NVRTC that was loaded lacks functions; cograd needs 12.0 or newer";
    return l;
  }
  l.path = path_of(reinterpret_cast<void*>(a.version), kNames[0]);
  look_up(library, "nvrtcGetPTXSize", a.ptx_size);
  look_up(library, "nvrtcGetPTX", a.ptx);
  int major = 0, minor = 0, count = 0;
  a.version(&major, &minor);
  l.version = 1000 * major + 10 * minor;
  if (l.version < 12000)
    l.failure =
        "cuda: " + l.path + " is NVRTC " + std::to_string(major) + ".x; cograd needs 12.0 or newer";
  if (look_up(library, "nvrtcGetNumSupportedArchs", a.arch_count) &&
      look_up(library, "nvrtcGetSupportedArchs", a.archs) && a.arch_count(&count) == 0 &&
      count > 0) {
    l.archs.resize(static_cast<size_t>(count));
    a.archs(l.archs.data());
  }
  return l;
}

const Loaded& loaded() {
  static const Loaded l = load();
  COGRAD_CHECK(l.failure.empty(), l.failure);
  return l;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

struct ProgramGuard {
  const Api& api;
  Program program = nullptr;
  ~ProgramGuard() {
    if (program != nullptr) api.destroy(&program);
  }
};

struct Counts {
  std::mutex mutex;
  Compilations all;
};
Counts& counts() {
  static auto* c = new Counts;
  return *c;
}
// Counts a compilation and its time, also if it fails.
class Counted {
 public:
  explicit Counted(const std::string& name) {
    const std::lock_guard lock(counts().mutex);
    counts().all.last = name;
  }
  ~Counted() {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
    const std::lock_guard lock(counts().mutex);
    ++counts().all.count;
    counts().all.seconds += spent.count();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::string log_of(const Api& a, Program p) {
  size_t size = 0;
  if (a.log_size(p, &size) != 0 || size < 2) return "";
  std::string text(size, '\0');
  a.log(p, text.data());
  text.resize(size - 1);
  return text;
}

}  // namespace

const std::string& nvrtc_path() { return loaded().path; }
int nvrtc_version() { return loaded().version; }

std::string nvrtc_target(int major, int minor) {
  const Loaded& l = loaded();
  const int arch = 10 * major + minor;
  if (l.archs.empty()) return "sm_" + std::to_string(arch);
  // A cubin runs on GPUs of the same major version and the same or a higher minor one.
  int same_major = 0, newest = 0;
  for (int a : l.archs) {
    if (a / 10 == major && a <= arch && a > same_major) same_major = a;
    if (a > newest) newest = a;
  }
  if (same_major != 0) return "sm_" + std::to_string(same_major);
  COGRAD_CHECK(arch > newest, "cuda: the GPU has compute capability ", major, ".", minor,
               ", which NVRTC ", version_text(l.version), " (", l.path,
               ") no longer compiles for; for this GPU, pip install 'cograd[cuda12]'");
  return "compute_" + std::to_string(newest);
}

Compilations nvrtc_compilations() {
  const std::lock_guard lock(counts().mutex);
  return counts().all;
}

Compiled nvrtc_compile(const Compilation& c) {
  const Loaded& l = loaded();
  const Counted counted(c.name);
  const Api& a = l.api;
  const bool ptx = c.target.rfind("compute_", 0) == 0 && a.ptx != nullptr && a.ptx_size != nullptr;
  // Functions and variables without a word about their place are the device's.
  std::vector<std::string> options{"-std=c++20", "-default-device", "-arch=" + c.target};
  options.insert(options.end(), c.options.begin(), c.options.end());
  std::vector<const char*> pointers, texts, names;
  for (const std::string& o : options) pointers.push_back(o.c_str());
  std::string given;
  for (const std::string& o : c.options) given += (given.empty() ? "" : " ") + o;
  for (const auto& [name, text] : c.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }

  ProgramGuard p{a};
  int result = a.create(&p.program, c.text.c_str(), c.name.c_str(), static_cast<int>(names.size()),
                        texts.data(), names.data());
  if (result == 0 && !c.expression.empty())
    result = a.add_expression(p.program, c.expression.c_str());
  if (result == 0)
    result = a.compile(p.program, static_cast<int>(pointers.size()), pointers.data());
  COGRAD_CHECK(result == 0, "cuda: NVRTC ", version_text(l.version), " could not compile ", c.name,
               given.empty() ? "" : " (" + given + ")", " for ", c.target, ": ", a.error(result),
               "\n", p.program == nullptr ? std::string() : log_of(a, p.program));
  Compiled made;
  const char* function = nullptr;
  if (!c.expression.empty()) {
    result = a.lowered_name(p.program, c.expression.c_str(), &function);
    COGRAD_CHECK(result == 0 && function != nullptr, "cuda: NVRTC has no function '", c.expression,
                 "' in ", c.name, ": ", a.error(result));
    made.function = function;
  }
  size_t size = 0;
  result = (ptx ? a.ptx_size : a.cubin_size)(p.program, &size);
  made.code.resize(size);
  if (result == 0) result = (ptx ? a.ptx : a.cubin)(p.program, made.code.data());
  COGRAD_CHECK(result == 0 && size > 0, "cuda: NVRTC returned no code for ", c.name, ": ",
               a.error(result));
  return made;
}

}  // namespace cograd::cuda
