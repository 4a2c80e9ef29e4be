// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/driver/gpu.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <shared_mutex>

#include "cuda/driver/capture.h"
#include "cuda/driver/graph.h"
#include "cuda/driver/launch.h"
#include "tensor/device.h"

namespace cograd::cuda {

namespace {

struct ThreadGpus {
  int current = 0;
  CUcontext context = nullptr;  // the one that this thread made current last
  std::array<CUstream, kMaxGpus> streams{};
  std::array<uint8_t, kMaxGpus> indices{};  // of the streams in Gpu::used_
};
thread_local ThreadGpus mine;

std::atomic<bool> g_started{false}, g_forked{false};
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { g_forked = g_forked || g_started; });

// Attributes of a device, from the driver's reference.
enum : int {
  kSharedPerBlock = 8,
  kWarpSize = 10,
  kMultiprocessors = 16,
  kL2Cache = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kMajor = 75,
  kMinor = 76,
  kRegistersPerMultiprocessor = 82,
  kSharedPerBlockOptin = 97,
};

GpuProperties properties_of(CUdevice d) {
  GpuProperties p;
  char name[256] = "";
  check(driver().device_name(name, sizeof name, d), "cuDeviceGetName");
  p.name = name;
  size_t total = 0;
  check(driver().device_total_mem(&total, d), "cuDeviceTotalMem");
  p.total_memory = static_cast<int64_t>(total);
  const auto get = [d](int& to, int attribute) {
    check(driver().device_attribute(&to, attribute, d), "cuDeviceGetAttribute");
  };
  get(p.major, kMajor);
  get(p.minor, kMinor);
  get(p.multiprocessors, kMultiprocessors);
  get(p.warp_size, kWarpSize);
  get(p.max_threads_per_multiprocessor, kMaxThreadsPerMultiprocessor);
  get(p.shared_per_block, kSharedPerBlock);
  get(p.shared_per_block_optin, kSharedPerBlockOptin);
  get(p.registers_per_multiprocessor, kRegistersPerMultiprocessor);
  get(p.l2_cache, kL2Cache);
  return p;
}

CUdevice handle_of(int index) {
  CUdevice d = 0;
  check(driver().device_get(&d, index), "cuDeviceGet");
  return d;
}

// Memory of GPUs by its first address. Lookups are frequent, changes are rare.
class Ranges {
 public:
  void add(CUdeviceptr at, size_t size) {
    const std::unique_lock lock(mutex_);
    ranges_[at] = size;
  }
  void remove(CUdeviceptr at) {
    const std::unique_lock lock(mutex_);
    ranges_.erase(at);
  }
  bool has(CUdeviceptr p) {
    const std::shared_lock lock(mutex_);
    auto it = ranges_.upper_bound(p);
    if (it == ranges_.begin()) return false;
    --it;
    return p < it->first + it->second;
  }

 private:
  std::shared_mutex mutex_;
  std::map<CUdeviceptr, size_t> ranges_;
};
Ranges& ranges() {
  static auto* r = new Ranges;  // never freed: tensors may outlive static objects
  return *r;
}

}  // namespace

Gpu::Gpu(int i) : index(i), memory(i) {
  const CUdevice d = handle_of(i);
  properties = properties_of(d);
  check(driver().primary_retain(&context, d), "cuDevicePrimaryCtxRetain");
  g_started = true;
}

void Gpu::activate() {
  if (dropped_captures.load(std::memory_order_relaxed) != 0) [[unlikely]]
    end_dropped_captures();
  // Another library may have changed the current context, but with one GPU all use the same.
  if (mine.context == context && gpu_count() == 1) return;
  CUcontext current = nullptr;
  check(driver().ctx_get_current(&current), "cuCtxGetCurrent");
  if (current != context) check(driver().ctx_set_current(context), "cuCtxSetCurrent");
  mine.context = context;
}

CUstream Gpu::stream() const noexcept { return mine.streams[static_cast<size_t>(index)]; }

void Gpu::set_stream(CUstream s) {
  const auto i = static_cast<size_t>(index);
  size_t at = 0;
  if (s != nullptr) {
    const std::lock_guard lock(mutex_);
    at = static_cast<size_t>(std::find(used_.begin(), used_.end(), s) - used_.begin());
    COGRAD_CHECK(at <= UINT8_MAX, "cuda.set_stream(): at most ", UINT8_MAX,
                 " streams of a GPU can have been current");
    if (at == used_.size()) used_.push_back(s);
    several_ = true;
  }
  mine.streams[i] = s;
  mine.indices[i] = static_cast<uint8_t>(at);
}
uint8_t Gpu::stream_index() const noexcept { return mine.indices[static_cast<size_t>(index)]; }

void Gpu::switch_stream(uint8_t to) {
  constexpr unsigned kWithoutTiming = 2;
  activate();
  CUstream next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    next = used_.at(to);
  }
  if (next == stream()) return;
  // A capture keeps to its streams: it has no order with what another one did before it.
  const uint64_t from = capture_of(stream()), into = capture_of(next);
  if (from != 0 && into == 0) return;
  // The driver would spoil the capture.
  COGRAD_CHECK(from == into,
               "backward(): it runs on a stream that is not part of the capture of the CUDA graph "
               "to which the forward belongs, so no replay would compute these gradients. Call it "
               "on a stream of the capture, or after the capture");
  CUevent e = nullptr;
  check(driver().event_create(&e, kWithoutTiming), "cuEventCreate");
  CUresult r = driver().event_record(e, stream());
  if (r == kSuccess) r = driver().stream_wait_event(next, e, 0);
  driver().event_destroy(e);  // the driver keeps it until the wait is over
  check(r, "cuStreamWaitEvent");
  set_stream(next);
}

CUstream Gpu::pool_stream(int priority) {
  constexpr unsigned kNonBlocking = 1;  // does not wait for the default stream
  activate();
  const std::lock_guard lock(mutex_);
  const size_t which = priority < 0 ? 1 : 0;
  auto& pool = pools_[which];
  if (pool.size() < kPoolSize) {
    CUstream s = nullptr;
    check(driver().stream_create(&s, kNonBlocking, priority < 0 ? -1 : 0),
          "cuStreamCreateWithPriority");
    pool.push_back(s);
    return s;
  }
  return pool[next_[which]++ % kPoolSize];
}

std::vector<CUstream> Gpu::used_streams() {
  if (!several_) return {};
  const std::lock_guard lock(mutex_);
  return used_;
}

int gpu_count() {
  static const int count = [] {
    int n = 0;
    if (driver().device_count(&n) != kSuccess) n = 0;
    return std::min(n, kMaxGpus);
  }();
  return count;
}

Gpu& gpu(int index) {
  static std::array<std::unique_ptr<Gpu>, kMaxGpus> all;
  static std::array<std::once_flag, kMaxGpus> once;
  COGRAD_CHECK(!forked(),
               "Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
               "multiprocessing, you must use the 'spawn' start method");
  COGRAD_CHECK(index >= 0 && index < gpu_count(),
               "CUDA error: invalid device ordinal: cuda:", index, " was asked for, but there are ",
               gpu_count(), " GPUs");
  const auto i = static_cast<size_t>(index);
  std::call_once(once[i], [&] { all[i].reset(new Gpu(index)); });
  return *all[i];
}

int current_gpu() noexcept { return mine.current; }
void set_current_gpu(int index) {
  gpu(index).activate();
  mine.current = index;
}

Gpu& here() {
  const Device d = thread_place.now;
  Gpu& g = gpu(d.type == DeviceType::CUDA && d.index >= 0 ? d.index : mine.current);
  g.activate();
  return g;
}

bool forked() noexcept { return g_forked.load(std::memory_order_relaxed); }

void add_device_range(CUdeviceptr at, size_t size) { ranges().add(at, size); }
void remove_device_range(CUdeviceptr at) { ranges().remove(at); }
bool on_device(const void* p) noexcept { return ranges().has(reinterpret_cast<CUdeviceptr>(p)); }

}  // namespace cograd::cuda
