// SPDX-License-Identifier: BSD-3-Clause
// A CUDA driver without a GPU, for tests. "Device memory" is host memory that only kernels and
// copies may touch. Work that is given to a stream waits in a queue until something needs it, and
// then runs as late as the rules allow: a missing synchronisation gives a wrong value every time.
//
// The environment chooses FAKE_CUDA_DEVICES (1), FAKE_CUDA_MEMORY, bytes per device (1 GiB), and
// FAKE_CUDA_DRY: programs are not compiled, and kernels do nothing.
// fake_cuda_fail(symbol, n, code) makes the n-th call of a function fail from now on.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "graphs.h"

namespace {

using Result = int;
enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kNotFound = 500,
  kNotReady = 600,
};

std::recursive_mutex mutex;
bool initialized = false;
pid_t owner = 0;  // the process that called cuInit

int64_t setting(const char* name, int64_t otherwise) {
  const char* v = std::getenv(name);
  return v == nullptr ? otherwise : std::atoll(v);
}
int devices() { return static_cast<int>(setting("FAKE_CUDA_DEVICES", 1)); }
// Kernels are counted and do nothing.
bool dry() { return setting("FAKE_CUDA_DRY", 0) != 0; }

// ---- failures on demand
// --------------------------------------------------------------------------

struct Failure {
  int64_t calls_left;
  Result code;
};
std::map<std::string, Failure>& failures() {
  static auto* f = new std::map<std::string, Failure>;
  return *f;
}
std::map<std::string, int64_t>& calls() {
  static auto* c = new std::map<std::string, int64_t>;
  return *c;
}
std::map<std::string, int64_t>& launches() {
  static auto* l = new std::map<std::string, int64_t>;
  return *l;
}
Result failure_of(const char* symbol) {
  ++calls()[symbol];
  const auto it = failures().find(symbol);
  if (it == failures().end()) return kSuccess;
  const Result code = it->second.code;
  int64_t& left = it->second.calls_left;
  const bool repeated = left < 0;  // that many calls in a row fail
  left += repeated ? 1 : -1;
  if (left > 0) return kSuccess;
  if (left == 0) failures().erase(it);
  return code;
}
#define ENTER(symbol)                                            \
  const std::lock_guard<std::recursive_mutex> lock(mutex);       \
  if (!initialized || getpid() != owner) return kNotInitialized; \
  if (const Result failed = failure_of(#symbol); failed != kSuccess) return failed

// ---- memory
// --------------------------------------------------------------------------------------

constexpr size_t kPage = 4096, kLargePage = size_t{2} << 20, kRange = size_t{64} << 30;

constexpr size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

struct Context {
  int device;
  size_t used = 0;
};
struct Allocation {
  size_t size;
  Context* context;
};

class Memory {
 public:
  Memory() {
    void* p = mmap(nullptr, kRange + kLargePage, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    base_ = next_ = reinterpret_cast<char*>(round_up(reinterpret_cast<size_t>(p), kLargePage));
    // Each launch changes the protection of all pages: there are 512 times fewer large ones.
    madvise(base_, kRange, MADV_HUGEPAGE);
  }
  void* take(size_t size, Context* c) {
    const size_t whole = round_up(size, kPage);
    char* at = nullptr;
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second == whole) {
        at = it->first;
        free_.erase(it);
        break;
      }
    if (at == nullptr) {
      if (next_ + whole > base_ + kRange) return nullptr;
      at = next_;
      next_ += whole;
    }
    allocations[at] = {whole, c};
    open(true);
    std::memset(at, 0xff, whole);  // a NaN in every floating dtype
    open(false);
    return at;
  }
  bool give(char* at) {
    const auto it = allocations.find(at);
    if (it == allocations.end()) return false;
    madvise(at, it->second.size, MADV_DONTNEED);
    it->second.context->used -= it->second.size;
    free_.emplace_back(at, it->second.size);
    allocations.erase(it);
    return true;
  }
  // Lets kernels and copies touch the memory, or nobody. Calls nest.
  void open(bool on) {
    depth_ += on ? 1 : -1;
    if (depth_ != (on ? 1 : 0)) return;
    const size_t used = round_up(static_cast<size_t>(next_ - base_), kLargePage);
    mprotect(base_, used, on ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  bool has(const void* p, size_t n) const {
    auto it = allocations.upper_bound(static_cast<char*>(const_cast<void*>(p)));
    if (it == allocations.begin()) return n == 0;
    --it;
    return static_cast<const char*>(p) + n <= it->first + it->second.size;
  }
  std::map<char*, Allocation> allocations;

 private:
  char *base_, *next_;
  int depth_ = 0;
  std::vector<std::pair<char*, size_t>> free_;
};
Memory& memory() {
  static auto* m = new Memory;
  return *m;
}
struct Open {
  Open() { memory().open(true); }
  ~Open() { memory().open(false); }
};

// ---- streams and events
// --------------------------------------------------------------------------

struct Event;
struct Work {
  std::function<void()> run;  // empty for a mark
  Event* wait = nullptr;      // run up to this event first
  uint64_t wait_at = 0;
  Event* mark = nullptr;
  uint64_t mark_at = 0;
  std::function<bool()> ready;  // of work that waits for another process; empty: it never does
};
struct Stream {
  Context* context = nullptr;
  std::deque<Work> queue;
  Capture* capture = nullptr;
  Tails tails;  // of the capture
};
struct Event {
  Stream* stream = nullptr;  // where it was recorded last
  uint64_t recorded = 0, reached = 0;
  double time = 0;
  bool dead = false;
  Capture* capture = nullptr;  // the one that it was recorded in last
  Tails tails;
};

double clock_now = 0;

// Gives work to a stream: it waits in the queue, or becomes a node of the capture.
void give(Stream* s, std::function<void()> run, std::function<bool()> ready = {}) {
  if (s->capture == nullptr) {
    s->queue.push_back({std::move(run), nullptr, 0, nullptr, 0, std::move(ready)});
    return;
  }
  Nodes& nodes = s->capture->nodes;
  nodes.push_back({std::move(run), {s->tails.begin(), s->tails.end()}});
  s->tails = {nodes.size() - 1};
}

// Runs the work of a stream, up to an event. Without `wait` it returns false at work that is not
// ready; else it lets other threads go on meanwhile. The caller holds the lock, once.
bool drain(Stream* s, const Event* until = nullptr, uint64_t at = 0, bool wait = true) {
  while (!s->queue.empty()) {
    if (until != nullptr && until->reached >= at) return true;
    const Work& front = s->queue.front();
    if (front.wait != nullptr && front.wait->reached < front.wait_at &&
        front.wait->stream != nullptr) {
      if (!drain(front.wait->stream, front.wait, front.wait_at, wait)) return false;
      if (wait) continue;  // another thread may have run the front
    }
    if (front.ready && !front.ready()) {
      if (!wait) return false;
      mutex.unlock();
      usleep(200);
      mutex.lock();
      continue;
    }
    Work w = std::move(s->queue.front());
    s->queue.pop_front();
    if (w.run) w.run();
    clock_now += 0.001;
    if (w.mark != nullptr) {
      w.mark->reached = w.mark_at;
      w.mark->time = clock_now;
    }
  }
  return true;
}

std::map<int, Context*>& contexts() {
  static auto* c = new std::map<int, Context*>;
  return *c;
}
std::vector<Stream*>& streams() {
  static auto* s = new std::vector<Stream*>;
  return *s;
}
std::map<Context*, Stream*>& defaults() {
  static auto* d = new std::map<Context*, Stream*>;
  return *d;
}
thread_local Context* current = nullptr;

Stream* stream_of(void* s) {
  constexpr uintptr_t kPerThread = 2;  // of one thread, and so the default stream here
  if (reinterpret_cast<uintptr_t>(s) > kPerThread) return static_cast<Stream*>(s);
  Stream*& d = defaults()[current];
  if (d == nullptr) {
    d = new Stream{current, {}, nullptr, {}};
    streams().push_back(d);
  }
  return d;
}
void drain_all(const Context* c = nullptr) {
  for (size_t i = 0; i < streams().size(); ++i)
    if (c == nullptr || streams()[i]->context == c) drain(streams()[i]);
}
#define ENTER_CONTEXT(symbol) \
  ENTER(symbol);              \
  if (current == nullptr) return kInvalidContext
// A call that may disturb a capture.
#define ENTER_UNSAFE(symbol) \
  ENTER_CONTEXT(symbol);     \
  if (const Result forbidden = unsafe(); forbidden != kSuccess) return forbidden

// ---- modules
// -------------------------------------------------------------------------------------

using Kernel = void (*)(const void*);
using TwinLaunch = void (*)(Kernel, const unsigned*, const unsigned*, unsigned, const void*);
struct Module {
  void* library = nullptr;
  TwinLaunch launch = nullptr;
};
constexpr int kMostShared = 101376;  // that a kernel may ask for
struct Function {
  Kernel kernel = nullptr;
  TwinLaunch launch = nullptr;
  size_t args_size = 0;
  std::string name;
  const unsigned* sizes = nullptr;  // of a plain function: the number of parameters, their sizes
  unsigned most_shared = 49152;     // bytes of dynamic shared memory
};
std::map<std::pair<Module*, std::string>, Function>& functions() {
  static auto* f = new std::map<std::pair<Module*, std::string>, Function>;
  return *f;
}

// Returns the number of bytes of the ELF image at `image`: its section headers come last.
size_t image_size(const char* image) {
  uint64_t at = 0;
  uint16_t size = 0, n = 0;
  std::memcpy(&at, image + 40, 8);
  std::memcpy(&size, image + 58, 2);
  std::memcpy(&n, image + 60, 2);
  return at + static_cast<size_t>(size) * n;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) Result

extern "C" __attribute__((visibility("default"))) void fake_cuda_fail(const char* symbol, int64_t n,
                                                                      int code) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  failures()[symbol] = {n, code};
}
extern "C" __attribute__((visibility("default"))) int64_t fake_cuda_calls(const char* symbol) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  return calls()[symbol];
}
// Launches of kernels whose name begins so.
extern "C" __attribute__((visibility("default"))) int64_t fake_cuda_launches(const char* begin) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  int64_t n = 0;
  for (const auto& [name, count] : launches())
    if (name.compare(0, std::strlen(begin), begin) == 0) n += count;
  return n;
}
// Bytes that the driver has given out.
extern "C" __attribute__((visibility("default"))) int64_t fake_cuda_used() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  int64_t n = 0;
  for (const auto& [at, a] : memory().allocations) n += static_cast<int64_t>(a.size);
  return n;
}

// For the fakes of libraries: see library.h.
extern "C" __attribute__((visibility("default"))) int fake_cuda_failure(const char* symbol) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  return failure_of(symbol);
}
extern "C" __attribute__((visibility("default"))) int fake_cuda_owns(const void* p, size_t n) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  return memory().has(p, n) ? 1 : 0;
}
extern "C" __attribute__((visibility("default"))) int fake_cuda_device() {
  return current == nullptr ? -1 : current->device;
}
extern "C" __attribute__((visibility("default"))) void fake_cuda_enqueue(const char* name,
                                                                         void* stream,
                                                                         void (*run)(void*),
                                                                         void* context) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  ++launches()[name];
  if (dry()) return;
  give(stream_of(stream), [=] {
    const Open open;
    run(context);
  });
}

// Like fake_cuda_enqueue; the work waits until `ready` is true.
extern "C" __attribute__((visibility("default"))) void fake_cuda_enqueue_ready(
    const char* name, void* stream, void (*run)(void*), bool (*ready)(void*), void* context) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  ++launches()[name];
  if (dry()) return;
  give(
      stream_of(stream),
      [=] {
        const Open open;
        run(context);
      },
      [=] { return ready(context); });
}
// Puts a mark into a stream; fake_cuda_reach runs what comes before it as far as that is ready, and
// returns whether the mark is reached.
extern "C" __attribute__((visibility("default"))) void* fake_cuda_mark(void* stream) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  auto* e = new Event;
  e->stream = stream_of(stream);
  e->recorded = 1;
  e->stream->queue.push_back({{}, nullptr, 0, e, 1, {}});
  return e;
}
extern "C" __attribute__((visibility("default"))) int fake_cuda_reach(void* mark) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  const auto* e = static_cast<Event*>(mark);
  drain(e->stream, e, e->recorded, false);
  return e->reached >= e->recorded ? 1 : 0;
}

API cuInit(unsigned) {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  if (initialized && getpid() != owner) return kNotInitialized;
  if (const Result failed = failure_of("cuInit"); failed != kSuccess) return failed;
  initialized = true;
  owner = getpid();
  return kSuccess;
}
API cuDriverGetVersion(int* v) {
  *v = static_cast<int>(setting("FAKE_CUDA_VERSION", 13000));
  return kSuccess;
}
API cuDeviceGetCount(int* n) {
  ENTER(cuDeviceGetCount);
  *n = devices();
  return kSuccess;
}
API cuDeviceGet(int* d, int i) {
  ENTER(cuDeviceGet);
  if (i < 0 || i >= devices()) return kInvalidDevice;
  *d = i;
  return kSuccess;
}
API cuDeviceGetName(char* name, int n, int) {
  std::snprintf(name, static_cast<size_t>(n), "Fake GPU");
  return kSuccess;
}
API cuDeviceGetAttribute(int* v, int attribute, int) {
  const auto capability = static_cast<int>(setting("FAKE_CUDA_CAPABILITY", 90));
  const std::map<int, int> known = {{8, 49152},    {10, 32},          {16, 4},
                                    {38, 1 << 22}, {39, 2048},        {75, capability / 10},
                                    {82, 65536},   {97, kMostShared}, {76, capability % 10}};
  const auto it = known.find(attribute);
  if (it == known.end()) return kInvalidValue;
  *v = it->second;
  return kSuccess;
}
API cuDeviceTotalMem_v2(size_t* n, int) {
  *n = static_cast<size_t>(setting("FAKE_CUDA_MEMORY", int64_t{1} << 30));
  return kSuccess;
}
API cuDevicePrimaryCtxRetain(void** c, int d) {
  ENTER(cuDevicePrimaryCtxRetain);
  Context*& it = contexts()[d];
  if (it == nullptr) it = new Context{d};
  *c = it;
  return kSuccess;
}
API cuCtxSetCurrent(void* c) {
  ENTER(cuCtxSetCurrent);
  current = static_cast<Context*>(c);
  return kSuccess;
}
API cuCtxGetCurrent(void** c) {
  ENTER(cuCtxGetCurrent);
  *c = current;
  return kSuccess;
}
API cuCtxSynchronize() {
  ENTER_CONTEXT(cuCtxSynchronize);
  if (const Result forbidden = waits_for_all(); forbidden != kSuccess) return forbidden;
  drain_all(current);
  return kSuccess;
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER_CONTEXT(cuMemGetInfo_v2);
  cuDeviceTotalMem_v2(total, 0);
  *free = *total - current->used;
  return kSuccess;
}
API cuMemAlloc_v2(uint64_t* at, size_t size) {
  ENTER_UNSAFE(cuMemAlloc_v2);
  const size_t whole = round_up(size, kPage);
  size_t total = 0;
  cuDeviceTotalMem_v2(&total, 0);
  if (size == 0 || current->used + whole > total) return size == 0 ? kInvalidValue : kOutOfMemory;
  void* p = memory().take(size, current);
  if (p == nullptr) return kOutOfMemory;
  current->used += whole;
  *at = reinterpret_cast<uint64_t>(p);
  return kSuccess;
}
API cuMemFree_v2(uint64_t at) {
  ENTER_UNSAFE(cuMemFree_v2);
  drain_all();
  return memory().give(reinterpret_cast<char*>(at)) ? kSuccess : kInvalidValue;
}
namespace {
std::map<char*, size_t>& pinned() {
  static auto* p = new std::map<char*, size_t>;
  return *p;
}
bool is_pinned(const void* p) {
  auto it = pinned().upper_bound(static_cast<char*>(const_cast<void*>(p)));
  return it != pinned().begin() && (--it, static_cast<const char*>(p) < it->first + it->second);
}
}  // namespace

API cuMemHostAlloc(void** p, size_t size, unsigned) {
  ENTER_UNSAFE(cuMemHostAlloc);
  *p = std::malloc(size == 0 ? 1 : size);
  pinned()[static_cast<char*>(*p)] = size;
  return kSuccess;
}
API cuPointerGetAttribute(void* to, int, uint64_t p) {
  ENTER(cuPointerGetAttribute);
  if (!memory().has(reinterpret_cast<void*>(p), 1)) return kInvalidValue;
  auto it = memory().allocations.upper_bound(reinterpret_cast<char*>(p));
  *static_cast<int*>(to) = (--it)->second.context->device;
  return kSuccess;
}
API cuMemFreeHost(void* p) {
  ENTER_UNSAFE(cuMemFreeHost);
  drain_all();
  pinned().erase(static_cast<char*>(p));
  std::free(p);
  return kSuccess;
}

namespace {
Result copy(void* to, const void* from, size_t n, void* stream, bool device_to, bool device_from) {
  if ((device_to && !memory().has(to, n)) || (device_from && !memory().has(from, n)))
    return kInvalidValue;
  Stream* s = stream_of(stream);
  // A replay reads the host's memory again, which must not have changed or gone.
  if (s->capture != nullptr &&
      ((!device_from && !is_pinned(from)) || (!device_to && !is_pinned(to))))
    return spoil(s->capture, kCaptureUnsupported);
  give(s, [=] {
    const Open open;
    std::memmove(to, from, n);
  });
  return kSuccess;
}
}  // namespace

API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n, void* s) {
  ENTER_CONTEXT(cuMemcpyHtoDAsync_v2);
  return copy(reinterpret_cast<void*>(to), from, n, s, true, false);
}
API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* s) {
  ENTER_CONTEXT(cuMemcpyDtoHAsync_v2);
  return copy(to, reinterpret_cast<void*>(from), n, s, false, true);
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void* s) {
  ENTER_CONTEXT(cuMemcpyDtoDAsync_v2);
  return copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n, s, true, true);
}
API cuMemsetD8Async(uint64_t at, unsigned char v, size_t n, void* s) {
  ENTER_CONTEXT(cuMemsetD8Async);
  if (!memory().has(reinterpret_cast<void*>(at), n)) return kInvalidValue;
  give(stream_of(s), [=] {
    const Open open;
    std::memset(reinterpret_cast<void*>(at), v, n);
  });
  return kSuccess;
}
API cuMemsetD32Async(uint64_t at, unsigned v, size_t n, void* s) {
  ENTER_CONTEXT(cuMemsetD32Async);
  if (at % 4 != 0 || !memory().has(reinterpret_cast<void*>(at), 4 * n)) return kInvalidValue;
  give(stream_of(s), [=] {
    const Open open;
    for (size_t i = 0; i < n; ++i) std::memcpy(reinterpret_cast<char*>(at) + 4 * i, &v, 4);
  });
  return kSuccess;
}

API cuStreamCreateWithPriority(void** s, unsigned, int) {
  ENTER_CONTEXT(cuStreamCreateWithPriority);
  auto* made = new Stream{current, {}, nullptr, {}};
  streams().push_back(made);
  *s = made;
  return kSuccess;
}
API cuStreamDestroy_v2(void* s) {
  ENTER(cuStreamDestroy_v2);
  drain(static_cast<Stream*>(s));
  return kSuccess;
}
API cuStreamSynchronize(void* s) {
  ENTER_CONTEXT(cuStreamSynchronize);
  if (Capture* c = stream_of(s)->capture) return spoil(c, kCaptureUnsupported);
  drain(stream_of(s));
  return kSuccess;
}
API cuStreamQuery(void* s) {
  ENTER_CONTEXT(cuStreamQuery);
  Stream* stream = stream_of(s);
  if (stream->capture != nullptr) return spoil(stream->capture, kCaptureUnsupported);
  if (stream->queue.empty()) return kSuccess;
  drain(stream, nullptr, 0, false);  // the next question finds it done
  return kNotReady;
}
namespace {
// A stream waits for an event, and one of both is captured: the stream joins the event's capture.
Result capture_wait(Stream* s, const Event& e, bool is_default) {
  if (e.capture == nullptr)
    return e.recorded == 0 ? kSuccess : spoil(s->capture, kCaptureIsolation);
  if (!e.capture->open) return spoil(s->capture, kCapturedEvent);
  if (is_default) return spoil(e.capture, kCaptureImplicit);
  if (s->capture != nullptr && s->capture != e.capture) {
    spoil(s->capture, 0);
    return spoil(e.capture, kCaptureMerge);
  }
  if (s->capture == nullptr) s->tails.clear();
  s->capture = e.capture;
  e.capture->streams.insert(s);
  s->tails.insert(e.tails.begin(), e.tails.end());
  return kSuccess;
}
}  // namespace

API cuStreamWaitEvent(void* s, void* e, unsigned) {
  ENTER_CONTEXT(cuStreamWaitEvent);
  auto* event = static_cast<Event*>(e);
  Stream* stream = stream_of(s);
  if (event->capture != nullptr || stream->capture != nullptr)
    return capture_wait(stream, *event, s == nullptr);
  stream->queue.push_back({{}, event, event->recorded, nullptr, 0});
  return kSuccess;
}
API cuEventCreate(void** e, unsigned) {
  ENTER_CONTEXT(cuEventCreate);
  *e = new Event;
  return kSuccess;
}
API cuEventDestroy_v2(void* e) {
  ENTER(cuEventDestroy_v2);
  static_cast<Event*>(e)->dead = true;  // queues may still refer to it
  return kSuccess;
}
API cuEventRecord(void* e, void* s) {
  ENTER_CONTEXT(cuEventRecord);
  auto* event = static_cast<Event*>(e);
  event->stream = stream_of(s);
  event->capture = event->stream->capture;
  event->tails = event->stream->tails;
  if (event->capture != nullptr) return kSuccess;
  ++event->recorded;
  event->stream->queue.push_back({{}, nullptr, 0, event, event->recorded});
  return kSuccess;
}
API cuEventQuery(void* e) {
  ENTER_UNSAFE(cuEventQuery);
  auto* event = static_cast<Event*>(e);
  if (event->capture != nullptr) return spoil(event->capture, kCapturedEvent);
  if (event->reached >= event->recorded) return kSuccess;
  drain(event->stream, event, event->recorded, false);
  return kNotReady;
}
API cuEventSynchronize(void* e) {
  ENTER_UNSAFE(cuEventSynchronize);
  auto* event = static_cast<Event*>(e);
  if (event->capture != nullptr) return spoil(event->capture, kCapturedEvent);
  if (event->stream != nullptr) drain(event->stream, event, event->recorded);
  return kSuccess;
}
API cuEventElapsedTime(float* ms, void* a, void* b) {
  ENTER(cuEventElapsedTime);
  auto *first = static_cast<Event*>(a), *last = static_cast<Event*>(b);
  if (first->reached < first->recorded || last->reached < last->recorded) return kNotReady;
  *ms = static_cast<float>(last->time - first->time);
  return kSuccess;
}

API cuModuleLoadData(void** m, const void* image) {
  ENTER_UNSAFE(cuModuleLoadData);
  if (dry()) {
    *m = new Module;
    return kSuccess;
  }
  const int file = memfd_create("fake_cuda_module", MFD_CLOEXEC);
  const size_t n = image_size(static_cast<const char*>(image));
  if (file < 0 || write(file, image, n) != static_cast<ssize_t>(n)) return kInvalidValue;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  auto* module = new Module;
  module->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module->library == nullptr) {
    std::fprintf(stderr, "fake CUDA driver: %s\n", dlerror());
    return kInvalidValue;
  }
  module->launch = reinterpret_cast<TwinLaunch>(dlsym(module->library, "cograd_twin_launch"));
  *m = module;
  return module->launch == nullptr ? kInvalidValue : kSuccess;
}
API cuModuleUnload(void*) { return kSuccess; }
API cuModuleGetFunction(void** f, void* m, const char* name) {
  ENTER(cuModuleGetFunction);
  auto* module = static_cast<Module*>(m);
  Function& found = functions()[{module, name}];
  found.name = name;
  *f = &found;
  if (dry()) return kSuccess;
  found.kernel = reinterpret_cast<Kernel>(dlsym(module->library, name));
  found.launch = module->launch;
  const auto* size = static_cast<const unsigned*>(
      dlsym(module->library, (std::string(name) + "_args_size").c_str()));
  const auto sizes = reinterpret_cast<const unsigned* (*)()>(
      dlsym(module->library, (std::string(name) + "_sizes").c_str()));
  if (found.kernel == nullptr || (size == nullptr && sizes == nullptr)) return kNotFound;
  if (size != nullptr) found.args_size = *size;
  if (sizes != nullptr) found.sizes = sizes();
  return kSuccess;
}
API cuFuncSetAttribute(void* f, int attribute, int value) {
  ENTER(cuFuncSetAttribute);
  constexpr int kMaxDynamicShared = 8;
  if (attribute != kMaxDynamicShared || value < 0 || value > kMostShared) return kInvalidValue;
  static_cast<Function*>(f)->most_shared = static_cast<unsigned>(value);
  return kSuccess;
}
API cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* s, void** parameters, void**) {
  ENTER_CONTEXT(cuLaunchKernel);
  const auto* function = static_cast<Function*>(f);
  if (gx == 0 || gy == 0 || gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024 || gy > 65535 ||
      gz > 65535 || shared > function->most_shared)
    return kInvalidValue;
  ++launches()[function->name];
  if (dry()) return kSuccess;
  std::vector<char> args;
  const auto add = [&args](const void* p, size_t n) {
    const auto* from = static_cast<const char*>(p);
    args.insert(args.end(), from, from + n);
  };
  if (function->sizes == nullptr) add(parameters[0], function->args_size);
  for (unsigned i = 0; function->sizes != nullptr && i < function->sizes[0]; ++i) {
    add(parameters[i], function->sizes[i + 1]);
    args.resize((args.size() + 15) / 16 * 16);
  }
  give(stream_of(s), [=] {
    const Open open;
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    function->launch(function->kernel, grid, block, shared, args.data());
  });
  return kSuccess;
}

API cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER(cuThreadExchangeStreamCaptureMode);
  if (*mode < kGlobal || *mode > kRelaxed) return kInvalidValue;
  std::swap(*mode, capture_mode);
  return kSuccess;
}
API cuStreamBeginCapture_v2(void* s, int mode) {
  ENTER_CONTEXT(cuStreamBeginCapture_v2);
  if (s == nullptr) return kCaptureUnsupported;
  auto* stream = static_cast<Stream*>(s);
  if (stream->capture != nullptr) return spoil(stream->capture, kIllegalState);
  auto* c = new Capture;
  captures().push_back(c);
  c->id = captures().size();
  c->origin = stream;
  c->mode = mode;
  c->thread = std::this_thread::get_id();
  c->streams = {stream};
  stream->capture = c;
  stream->tails.clear();
  return kSuccess;
}
API cuStreamEndCapture(void* s, void** graph) {
  ENTER_CONTEXT(cuStreamEndCapture);
  *graph = nullptr;
  auto* stream = static_cast<Stream*>(s);
  Capture* c = s == nullptr ? nullptr : stream->capture;
  if (c == nullptr) return kIllegalState;
  if (c->origin != stream) return spoil(c, kCaptureUnmatched);
  if (c->mode != kRelaxed && c->thread != std::this_thread::get_id()) return kCaptureWrongThread;
  const bool whole = joined(c->nodes, stream->tails);
  c->open = false;
  for (Stream* part : c->streams) part->capture = nullptr;
  if (c->invalid) return kCaptureInvalidated;
  if (!whole) return kCaptureUnjoined;
  ++live_graphs;
  *graph = new Graph{std::make_shared<Nodes>(std::move(c->nodes))};
  return kSuccess;
}
API cuStreamGetCaptureInfo_v2(void* s, int* status, uint64_t* id, void**, const void**, size_t*) {
  ENTER_CONTEXT(cuStreamGetCaptureInfo_v2);
  const Capture* c = stream_of(s)->capture;
  *status = c == nullptr ? 0 : c->invalid ? 2 : 1;
  if (c != nullptr) *id = c->id;
  return kSuccess;
}
API cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  ENTER_CONTEXT(cuGraphInstantiateWithFlags);
  ++live_graphs;
  *exec = new Graph(*static_cast<Graph*>(graph));
  return kSuccess;
}
API cuGraphLaunch(void* exec, void* s) {
  ENTER_CONTEXT(cuGraphLaunch);
  Stream* stream = stream_of(s);
  if (stream->capture != nullptr) return spoil(stream->capture, kCaptureUnsupported);
  give(stream, [nodes = static_cast<Graph*>(exec)->nodes] { run_nodes(*nodes); });
  return kSuccess;
}
API cuGraphExecDestroy(void* exec) {
  ENTER(cuGraphExecDestroy);
  --live_graphs;
  delete static_cast<Graph*>(exec);  // launches hold the nodes
  return kSuccess;
}
API cuGraphDestroy(void* graph) {
  ENTER(cuGraphDestroy);
  --live_graphs;
  delete static_cast<Graph*>(graph);
  return kSuccess;
}
API cuGraphDebugDotPrint(void* graph, const char* path, unsigned) {
  ENTER(cuGraphDebugDotPrint);
  std::FILE* f = std::fopen(path, "w");
  if (f == nullptr) return kInvalidValue;
  std::fprintf(f, "digraph {  // %zu nodes\n}\n", static_cast<Graph*>(graph)->nodes->size());
  std::fclose(f);
  return kSuccess;
}
// Graphs of either kind that have not been destroyed.
extern "C" __attribute__((visibility("default"))) int64_t fake_cuda_graphs() {
  const std::lock_guard<std::recursive_mutex> lock(mutex);
  return live_graphs;
}

API cuGetErrorName(Result r, const char** name) {
  *name = r == kOutOfMemory          ? "CUDA_ERROR_OUT_OF_MEMORY"
          : r == kCaptureUnsupported ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
          : r == kCaptureInvalidated ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
          : r == kCaptureUnjoined    ? "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
                                     : "CUDA_ERROR_FAKE";
  return kSuccess;
}
API cuGetErrorString(Result r, const char** text) {
  *text = r == kOutOfMemory     ? "out of memory"
          : r == kInvalidValue  ? "invalid argument"
          : r == kInvalidDevice ? "invalid device ordinal"
          : r == 700            ? "an illegal memory access was encountered"
          : r >= 900 && r < 909 ? "operation not permitted when stream is capturing"
                                : "a failure of the fake driver";
  return kSuccess;
}
