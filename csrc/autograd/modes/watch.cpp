// SPDX-License-Identifier: BSD-3-Clause
// The write log, the search for non-finite values and the profiler's events.
#include "autograd/modes/watch.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "autograd/graph/transform_hooks.h"
#include "autograd/modes/thread_waits.h"
#include "kernels/reduce/nonfinite.h"
#include "tensor/memory_stats.h"

namespace cograd {

constinit std::atomic<uint32_t> watch_modes{0};
WatchHandlers watch_handlers;

namespace {

struct Write {
  uint32_t version;  // before the write
  std::string what;
};

// The last writes of each storage that was written while watched. A first write (version 0) begins
// a new history, as addresses are reused. Old entries are dropped at the caps.
struct WriteLog {
  static constexpr size_t kStorages = 4096;
  static constexpr size_t kWrites = 16;
  std::mutex mutex;
  std::unordered_map<const void*, std::vector<Write>> of;
};
WriteLog& write_log() {
  static auto* log = new WriteLog;  // leaked: threads may still write at exit
  return *log;
}

struct ProfileLog {
  std::mutex mutex;
  std::vector<ProfileEvent> events;
  std::vector<ThreadWait> waits;
  int64_t began_ns = 0, most = 0;
};
std::atomic<bool> profile_memory{false}, profile_places{false};

ProfileLog& profile_log() {
  static auto* log = new ProfileLog;
  return *log;
}

// Reading a thread's clock is a system call of 0.2 us, so an event reads it only if this much time
// has passed since the last reading.
constexpr int64_t kReadAfterNs = 20'000;
struct ThreadClock {
  int64_t wall_ns = 0, ran_ns = 0;
};
thread_local ThreadClock last_reading;

ThreadClock read_thread_clock(int64_t wall_ns) noexcept {
  timespec ran{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
  return {wall_ns, int64_t{ran.tv_sec} * 1'000'000'000 + ran.tv_nsec};
}

const void* version_key(const Tensor& t) {
  return t->own_version != nullptr ? static_cast<const void*>(t->own_version) : t->storage;
}

int64_t element_offset(const Tensor& t, int64_t element) {
  int64_t offset = 0;
  for (int d = t.dim() - 1; d >= 0; --d) {
    const int64_t n = t.size(d) > 0 ? t.size(d) : 1;
    offset += element % n * t.stride(d);
    element /= n;
  }
  return offset;
}

}  // namespace

void set_watch(uint32_t modes, bool on) noexcept {
  if (on) {
    const uint32_t before = watch_modes.fetch_or(modes, std::memory_order_relaxed);
    if ((modes & ~before & kWatchWrites) == 0) return;
    WriteLog& log = write_log();  // cleared, as its addresses may be other storages'
    const std::lock_guard lock(log.mutex);
    log.of.clear();
  } else {
    watch_modes.fetch_and(~modes, std::memory_order_relaxed);
  }
}

void log_write(const Tensor& t, const char* op) {
  if (watching(kWatchCaptures)) transform_hooks.check_captured(t, op);
  if (watching(kWatchCallback) && watch_handlers.before_write != nullptr)
    watch_handlers.before_write(t, op);
  if (!watching(kWatchWrites)) return;
  const std::string place = watch_handlers.caller != nullptr ? watch_handlers.caller() : "";
  std::string what = std::string(op) + "()";
  if (!place.empty()) what += " at " + place;
  WriteLog& log = write_log();
  const std::lock_guard lock(log.mutex);
  if (log.of.size() >= WriteLog::kStorages) log.of.clear();
  std::vector<Write>& writes = log.of[version_key(t)];
  const uint32_t version = t->write_count();
  if (version == 0 && !writes.empty() && writes.back().version > 0) writes.clear();
  std::erase_if(writes, [version](const Write& w) { return w.version > version; });
  if (!writes.empty() && writes.back().version == version) {
    // The former entry for this version is from a composite op around this one, which is kept if
    // both have the same place, or from an op that failed.
    if (!place.empty() && writes.back().what.ends_with(" at " + place)) return;
    writes.pop_back();
  }
  if (writes.size() >= WriteLog::kWrites) writes.erase(writes.begin());
  writes.push_back({version, std::move(what)});
}

std::string writer_of(const Tensor& t, uint32_t version) {
  if (!watching(kWatchWrites)) return {};
  WriteLog& log = write_log();
  const std::lock_guard lock(log.mutex);
  const auto it = log.of.find(version_key(t));
  if (it == log.of.end()) return {};
  for (const Write& w : it->second)
    if (w.version >= version) return w.what;
  return {};
}

int64_t find_nonfinite(const Tensor& t, bool nan, bool inf) noexcept {
  const PlaceGuard here(t->device);
  return kernels::first_nonfinite(t.dtype(), t.bytes(), t.sizes(), t.strides(), t.is_contiguous(),
                                  nan, inf);
}

std::string coordinates(const Tensor& t, int64_t element) {
  Dims at(t.sizes());
  for (int d = t.dim() - 1; d >= 0; --d) {
    at[static_cast<size_t>(d)] = element % t.size(d);
    element /= t.size(d);
  }
  return to_string(at);
}

std::string element_text(const Tensor& t, int64_t element) {
  const PlaceGuard here(t->device);
  const int64_t at = element_offset(t, element) * t.itemsize();
  const Complex<double> v = kernels::shown_value(t.dtype(), t.bytes() + at);
  // The sign of a nan says nothing.
  const auto part = [](double x) { return x == x ? detail::concat(x) : std::string("nan"); };
  if (!is_complex(t.dtype())) return part(v.re);
  return detail::concat("(", part(v.re), " + ", part(v.im), "j)");
}

int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void start_thread_waits() noexcept {
  last_reading = read_thread_clock(now_ns());
  ProfileLog& log = profile_log();
  const std::lock_guard lock(log.mutex);
  log.began_ns = last_reading.wall_ns;
}

void add_profile_event(ProfileEvent event) {
  event.thread = std::hash<std::thread::id>{}(std::this_thread::get_id());
  ProfileLog& log = profile_log();
  if (event.end_ns - last_reading.wall_ns >= kReadAfterNs) {
    const ThreadClock before = std::exchange(last_reading, read_thread_clock(event.end_ns));
    const int64_t passed = last_reading.wall_ns - before.wall_ns;
    const int64_t waited = passed - (last_reading.ran_ns - before.ran_ns);
    const std::lock_guard lock(log.mutex);
    // The first reading of a thread measures nothing, nor does one since an earlier profile.
    if (before.wall_ns >= log.began_ns && waited >= kReadAfterNs / 2)
      log.waits.push_back({event.thread, before.wall_ns, last_reading.wall_ns, waited});
  }
  bool place = profile_places.load(std::memory_order_relaxed);
  if (profile_memory.load(std::memory_order_relaxed)) {
    event.live_bytes = live_bytes();
    const std::lock_guard lock(log.mutex);
    place |= event.live_bytes > log.most;
    log.most = std::max(log.most, event.live_bytes);
  }
  // Called without the lock, as it may have to wait for the interpreter lock.
  if (place && watch_handlers.caller != nullptr) event.place = watch_handlers.caller();
  const std::lock_guard lock(log.mutex);
  log.events.push_back(std::move(event));
}

void set_profile_options(bool memory, bool places) noexcept {
  profile_memory.store(memory, std::memory_order_relaxed);
  profile_places.store(places, std::memory_order_relaxed);
  ProfileLog& log = profile_log();
  const std::lock_guard lock(log.mutex);
  log.most = 0;
}

std::vector<ProfileEvent> take_profile_events() {
  ProfileLog& log = profile_log();
  const std::lock_guard lock(log.mutex);
  return std::exchange(log.events, {});
}

std::vector<ThreadWait> take_thread_waits() {
  ProfileLog& log = profile_log();
  const std::lock_guard lock(log.mutex);
  return std::exchange(log.waits, {});
}

}  // namespace cograd
