// SPDX-License-Identifier: BSD-3-Clause
// Finds the backends of devices.
#include "tensor/backend.h"

#include <dirent.h>
#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

namespace cograd {

namespace {

constinit std::atomic<Backend*> g_backends[kDeviceTypes] = {};

// Returns the directory of this library, with a slash at the end.
std::string own_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&load_cuda), &info) == 0 || info.dli_fname == nullptr)
    return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

int count_entries(const char* directory, const char* prefix) noexcept {
  DIR* d = opendir(directory);
  if (d == nullptr) return 0;
  int n = 0;
  for (const dirent* e; (e = readdir(d)) != nullptr;)
    if (e->d_name[0] != '.') {
      const std::string_view name = e->d_name;
      const size_t size = std::strlen(prefix);
      n += name.starts_with(prefix) &&
           (size == 0 || name.find_first_not_of("0123456789", size) == std::string_view::npos);
    }
  closedir(d);
  return n;
}

// Counts the entries of CUDA_VISIBLE_DEVICES up to the first that names no GPU, as the driver does.
int visible(int present, std::string_view list) noexcept {
  int n = 0;
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), one.size() + 1));
    const bool number = !one.empty() && one.find_first_not_of("0123456789") == one.npos;
    int index = present;
    if (number) std::from_chars(one.data(), one.data() + one.size(), index);
    if (number ? index >= present : !one.starts_with("GPU-")) break;
    ++n;
  }
  return std::min(n, present);
}

constinit std::atomic<WaitPolicy> g_wait_policy{WaitPolicy::Allow};
constinit thread_local const char* g_running_op = nullptr;

}  // namespace

constinit std::atomic<int> open_captures{0};
constinit CudnnSwitches cudnn_switches;

void set_wait_policy(WaitPolicy p) noexcept { g_wait_policy = p; }
WaitPolicy wait_policy() noexcept { return g_wait_policy.load(std::memory_order_relaxed); }
bool waits_need_names() noexcept { return capture_open() || wait_policy() != WaitPolicy::Allow; }
const char* running_op() noexcept { return g_running_op; }
void set_running_op(const char* name) noexcept { g_running_op = name; }
bool capturing() noexcept {
  if (!capture_open()) return false;
  Backend* const b = backend_of(DeviceType::CUDA);
  if (b == nullptr) return false;
  const Device d = thread_place.now;
  return static_cast<CudaRuntime*>(b)->captures(
      d.type == DeviceType::CUDA ? d : Device{DeviceType::CUDA, -1});
}

Backend* backend_of(DeviceType t) noexcept {
  return g_backends[static_cast<int>(t)].load(std::memory_order_acquire);
}
void set_backend(DeviceType t, Backend* b) noexcept {
  g_backends[static_cast<int>(t)].store(b, std::memory_order_release);
}

uint8_t stream_index(Device d) noexcept {
  Backend* b = backend_of(d.type);
  return b == nullptr ? 0 : b->stream_index(d);
}

CudaRuntime* load_cuda(std::string* why) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (Backend* b = backend_of(DeviceType::CUDA)) return static_cast<CudaRuntime*>(b);
  const std::string path = own_directory() + "libcograd_cuda.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *why = dlerror();
    return nullptr;
  }
  using Start = CudaRuntime* (*)(std::string*);
  const auto start = reinterpret_cast<Start>(dlsym(library, "cograd_cuda_start"));
  CudaRuntime* runtime = start == nullptr ? nullptr : start(why);
  if (start == nullptr) *why = path + " is not of this build of cograd";
  if (runtime != nullptr) set_backend(DeviceType::CUDA, runtime);
  return runtime;
}

int count_gpus() noexcept {
  if (Backend* b = backend_of(DeviceType::CUDA)) return b->count();
  if (std::getenv("COGRAD_CUDA_DRIVER") != nullptr) {
    std::string why;
    CudaRuntime* r = load_cuda(&why);
    return r == nullptr ? 0 : r->count();
  }
  int present = count_entries("/proc/driver/nvidia/gpus", "");
  if (present == 0) present = count_entries("/dev", "nvidia");
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  return list == nullptr ? present : visible(present, list);
}

}  // namespace cograd
