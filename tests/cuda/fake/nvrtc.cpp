// SPDX-License-Identifier: BSD-3-Clause
// A library with NVRTC's functions that compiles by g++: its "cubin" is a shared library, which the
// fake driver loads. Build it with -DCOGRAD_TWIN_HEADER="...host.h".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

struct NvrtcProgram_st {
  std::string text, code, log;
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
EXPORT int nvrtcCreateProgram(Program* p, const char* text, const char*, int headers,
                              const char* const*, const char* const*) {
  if (headers != 0) return kInvalidInput;
  *p = new NvrtcProgram_st{text, "", ""};
  return kSuccess;
}
EXPORT int nvrtcDestroyProgram(Program* p) {
  delete *p;
  *p = nullptr;
  return kSuccess;
}
EXPORT int nvrtcCompileProgram(Program p, int count, const char* const* options) {
  char folder[] = "/tmp/cograd-twin-XXXXXX";
  if (mkdtemp(folder) == nullptr) return kCompilation;
  const std::string base = std::string(folder) + "/k";
  std::ofstream(base + ".cpp", std::ios::binary) << p->text;
  const std::string command = compiler() + " -std=c++20 -O1 -shared -fPIC -fvisibility=hidden" +
                              defines_of(count, options) + " -include '" COGRAD_TWIN_HEADER "' " +
                              base + ".cpp -o " + base + ".so 2> " + base + ".log";
  const int status = system(command.c_str());
  p->log = read(base + ".log");
  p->code = read(base + ".so");
  for (const char* end : {".cpp", ".so", ".log"}) unlink((base + end).c_str());
  rmdir(folder);
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
