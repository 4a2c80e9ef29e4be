// SPDX-License-Identifier: BSD-3-Clause
// A library with NVRTC's functions that compiles by g++: its "cubin" is a shared library, which the
// fake driver loads. Build it with -DCOGRAD_TWIN_FOLDER="...", where host.h and plain.h are.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

struct NvrtcProgram_st {
  std::string text, name, code, log;
  std::vector<std::pair<std::string, std::string>> headers;
  std::vector<std::string> expressions;  // functions of a user's text, which plain.h prepares
};
using Program = NvrtcProgram_st*;

namespace {

enum { kSuccess = 0, kInvalidInput = 3, kCompilation = 6 };

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

// Returns the options of g++ that mean the same: only definitions matter.
std::string defines_of(int count, const char* const* options) {
  std::string all;
  for (int i = 0; i < count; ++i)
    if (strncmp(options[i], "-D", 2) == 0) all += std::string(" '") + options[i] + "'";
  return all;
}

std::string compiler() {
  const char* own = getenv("CXX");
  return own == nullptr || *own == '\0' ? "g++" : own;
}

// Returns a text whose `extern __shared__ T name[];` is what host.h has for it.
std::string dynamic_shared(const std::string& text) {
  static const std::regex form(
      "extern\\s+__shared__\\s+([\\w:<> ]+?)\\s+(\\w+)\\s*\\[\\s*\\]\\s*;");
  return std::regex_replace(text, form, "COGRAD_DYNAMIC_SHARED($1, $2);");
}

int copied(const std::string& from, char* to) {
  memcpy(to, from.data(), from.size());
  return kSuccess;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return kSuccess;
}
EXPORT const char* nvrtcGetErrorString(int code) {
  return code == kSuccess ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}
EXPORT int nvrtcCreateProgram(Program* p, const char* text, const char* name, int headers,
                              const char* const* texts, const char* const* names) {
  *p = new NvrtcProgram_st{text, name, "", "", {}, {}};
  for (int i = 0; i < headers; ++i) (*p)->headers.emplace_back(names[i], texts[i]);
  return kSuccess;
}
EXPORT int nvrtcAddNameExpression(Program p, const char* expression) {
  p->expressions.emplace_back(expression);
  return kSuccess;
}
EXPORT int nvrtcGetLoweredName(Program p, const char* expression, const char** name) {
  static thread_local std::string last;
  for (size_t i = 0; i < p->expressions.size(); ++i)
    if (p->expressions[i] == expression) {
      last = "cograd_twin_named_" + std::to_string(i);
      *name = last.c_str();
      return kSuccess;
    }
  return kInvalidInput;
}
EXPORT int nvrtcDestroyProgram(Program* p) {
  delete *p;
  *p = nullptr;
  return kSuccess;
}
EXPORT int nvrtcCompileProgram(Program p, int count, const char* const* options) {
  if (getenv("FAKE_CUDA_DRY") != nullptr) {
    p->code = "dry";
    return kSuccess;
  }
  namespace fs = std::filesystem;
  char folder[] = "/tmp/cograd-twin-XXXXXX";
  if (mkdtemp(folder) == nullptr) return kCompilation;
  const std::string base = std::string(folder) + "/k";
  std::string text = p->text, includes = " -include '" COGRAD_TWIN_FOLDER "/host.h'";
  if (!p->expressions.empty()) {
    text = "#line 1 \"" + p->name + "\"\n" + dynamic_shared(text) + "\n";
    for (size_t i = 0; i < p->expressions.size(); ++i)
      text += "COGRAD_TWIN_NAMED(" + std::to_string(i) + ", " + p->expressions[i] + ")\n";
    includes += " -include '" COGRAD_TWIN_FOLDER "/plain.h' -I'" + std::string(folder) + "'";
  }
  for (const auto& [name, header] : p->headers) {
    if (name.find('/') == std::string::npos) continue;  // the system has it
    fs::create_directories(fs::path(folder + ("/" + name)).parent_path());
    std::ofstream(folder + ("/" + name), std::ios::binary) << header;
  }
  std::ofstream(base + ".cpp", std::ios::binary) << text;
  const std::string command = compiler() + " -std=c++20 -O1 -shared -fPIC -fvisibility=hidden" +
                              defines_of(count, options) + includes + " " + base + ".cpp -o " +
                              base + ".so 2> " + base + ".log";
  const int status = system(command.c_str());
  p->log = read(base + ".log");
  p->code = read(base + ".so");
  fs::remove_all(folder);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && !p->code.empty() ? kSuccess
                                                                           : kCompilation;
}
EXPORT int nvrtcGetCUBINSize(Program p, size_t* size) {
  *size = p->code.size();
  return kSuccess;
}
EXPORT int nvrtcGetCUBIN(Program p, char* code) { return copied(p->code, code); }
EXPORT int nvrtcGetProgramLogSize(Program p, size_t* size) {
  *size = p->log.size() + 1;
  return kSuccess;
}
EXPORT int nvrtcGetProgramLog(Program p, char* log) {
  log[p->log.size()] = '\0';
  return copied(p->log, log);
}
