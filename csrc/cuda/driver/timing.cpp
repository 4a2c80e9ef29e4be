// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/driver/timing.h"

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"

namespace cograd::cuda {

constinit std::atomic<bool> timing_launches{false};

struct Timed::Open {
  DeviceTime time;
  CUstream stream = nullptr;
  CUevent first = nullptr, last = nullptr;
  uint64_t run = 0;
};

namespace {

// An open measurement costs two events of the driver. Those of finished work are read, and used
// again, once this many wait.
constexpr size_t kMostOpen = 1024;

int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct TimeLog {
  using Open = Timed::Open;
  // A moment that both clocks know: an event, and when the host had waited for it.
  struct Base {
    CUevent event = nullptr;
    CUstream stream = nullptr;
    int64_t host_ns = 0;
    uint64_t run = 0;
  };
  std::mutex mutex;
  uint64_t run = 0;
  std::deque<std::unique_ptr<Open>> open;
  std::vector<DeviceTime> done;
  std::array<std::vector<CUevent>, kMaxGpus> spare;
  std::array<Base, kMaxGpus> bases;

  CUevent event(int gpu) {
    auto& list = spare[static_cast<size_t>(gpu)];
    CUevent e = nullptr;
    if (list.empty()) {
      check(driver().event_create(&e, 0), "cuEventCreate", "the profiler");
      return e;
    }
    e = list.back();
    list.pop_back();
    return e;
  }
  void give_back(int gpu, CUevent e) noexcept {
    try {
      if (e != nullptr) spare[static_cast<size_t>(gpu)].push_back(e);
    } catch (const std::bad_alloc&) {
      driver().event_destroy(e);
    }
  }
  void give_back(Open& o) noexcept {
    give_back(o.time.device, std::exchange(o.first, nullptr));
    give_back(o.time.device, std::exchange(o.last, nullptr));
  }

  // A stream of its own is idle, so that the base needs to wait for no kernel.
  Base& base(int gpu) {
    constexpr unsigned kNonBlocking = 1;
    Base& b = bases[static_cast<size_t>(gpu)];
    if (b.run == run) return b;
    if (b.event == nullptr) b.event = event(gpu);
    if (b.stream == nullptr)
      check(driver().stream_create(&b.stream, kNonBlocking, 0), "cuStreamCreateWithPriority");
    const DuringCapture allowed;
    check(driver().event_record(b.event, b.stream), "cuEventRecord", "the profiler");
    check(driver().event_synchronize(b.event), "cuEventSynchronize", "the profiler");
    b.host_ns = now_ns();
    b.run = run;
    return b;
  }

  // Reads the events of ended work. The context of its GPU is current.
  void read(Open& o) {
    float start = 0, length = 0;
    const Base& b = bases[static_cast<size_t>(o.time.device)];
    if (o.run == run && driver().event_elapsed(&start, b.event, o.first) == kSuccess &&
        driver().event_elapsed(&length, o.first, o.last) == kSuccess) {
      o.time.begin_ns = b.host_ns + static_cast<int64_t>(static_cast<double>(start) * 1e6);
      o.time.end_ns = o.time.begin_ns + static_cast<int64_t>(static_cast<double>(length) * 1e6);
      done.push_back(std::move(o.time));
    }
    give_back(o);
  }
  // Reads the oldest while they have ended, and at most as many as were added since.
  void read_ended() {
    const DuringCapture allowed;
    for (int i = 0; i < 8 && !open.empty(); ++i) {
      Open& o = *open.front();
      gpu(o.time.device).activate();
      if (driver().event_query(o.last) != kSuccess) return;
      read(o);
      open.pop_front();
    }
  }
};

namespace {
TimeLog& log() {
  static auto* l = new TimeLog;  // never freed: threads may still launch at exit
  return *l;
}
}  // namespace

void Timed::begin(const char* name, Gpu* on) {
  Gpu& g = on == nullptr ? here() : *on;
  if (capture_of(g.stream()) != 0) return;
  auto o = std::make_unique<Open>();
  o->time.name = name;
  o->time.device = g.index;
  o->time.thread = std::hash<std::thread::id>{}(std::this_thread::get_id());
  o->stream = g.stream();
  o->time.stream = reinterpret_cast<uint64_t>(o->stream);
  TimeLog& l = log();
  {
    const std::lock_guard lock(l.mutex);
    l.base(g.index);
    o->run = l.run;
    o->first = l.event(g.index);
    try {
      o->last = l.event(g.index);
    } catch (...) {
      l.give_back(*o);
      throw;
    }
  }
  o->time.launched_ns = now_ns();
  const CUresult r = driver().event_record(o->first, o->stream);
  if (r != kSuccess) {
    const std::lock_guard lock(l.mutex);
    l.give_back(*o);
  }
  check(r, "cuEventRecord", name);
  open_ = o.release();
}

void Timed::end() noexcept {
  std::unique_ptr<Open> o(std::exchange(open_, nullptr));
  TimeLog& l = log();
  // The work has begun, so a failure here must not look like one of the op: it has no time.
  const CUresult r = driver().event_record(o->last, o->stream);
  const std::lock_guard lock(l.mutex);
  if (r != kSuccess) return l.give_back(*o);
  try {
    Gpu& now = gpu(o->time.device);
    l.open.push_back(std::move(o));
    if (l.open.size() > kMostOpen) l.read_ended();
    now.activate();
  } catch (const std::exception&) {
    if (o != nullptr) l.give_back(*o);
  }
}

void time_launches(bool on) {
  TimeLog& l = log();
  const std::lock_guard lock(l.mutex);
  if (on) {
    ++l.run;
    l.done.clear();
  }
  timing_launches.store(on, std::memory_order_relaxed);
}

std::vector<DeviceTime> take_device_times() {
  TimeLog& l = log();
  std::deque<std::unique_ptr<TimeLog::Open>> rest;
  {
    const std::lock_guard lock(l.mutex);
    rest.swap(l.open);
  }
  if (forked()) return {};  // the events are the parent's
  const DuringCapture allowed;
  std::vector<bool> ended;
  for (const auto& o : rest) {  // without the lock: other threads may launch
    gpu(o->time.device).activate();
    ended.push_back(driver().event_synchronize(o->last) == kSuccess);
  }
  const std::lock_guard lock(l.mutex);
  for (size_t i = 0; i < rest.size(); ++i) {
    gpu(rest[i]->time.device).activate();
    if (ended[i])
      l.read(*rest[i]);
    else
      l.give_back(*rest[i]);
  }
  return std::exchange(l.done, {});
}

}  // namespace cograd::cuda
