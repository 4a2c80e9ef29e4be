// SPDX-License-Identifier: BSD-3-Clause
// Optional watchers of the engine: anomaly mode, the log of in-place writes, the profiler.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace cograd {

// Bits of watch_modes. If none is set, the engine pays one load per node and per run.
enum WatchModes : uint32_t {
  kWatchNodes = 1,      // anomaly mode: nodes record where they were created, failures are reported
  kWatchNan = 2,        // results of backward nodes are searched for nan
  kWatchInf = 4,        // results of backward nodes are searched for infinities
  kWatchForward = 8,    // ops called from Python are searched too
  kWatchWrites = 16,    // in-place writes are logged with their place in the program
  kWatchProfile = 32,   // nodes and ops are timed
  kWatchCallback = 64,  // before_write is called
  kWatchCaptures = 128  // a transformed function runs: writes to captured tensors raise
};
inline constexpr uint32_t kWatchValues = kWatchNan | kWatchInf;
// Applies to the whole process, as in torch: threads that start later are watched too.
extern COGRAD_API constinit std::atomic<uint32_t> watch_modes;
inline bool watching(uint32_t modes) noexcept {
  return (watch_modes.load(std::memory_order_relaxed) & modes) != 0;
}
COGRAD_API void set_watch(uint32_t modes, bool on) noexcept;

// Set by the layer above; each may be null.
struct WatchHandlers {
  // Called when a node is created on this thread (its type is not known yet).
  void (*node_made)(Node*) noexcept = nullptr;
  // Called when a node's backward threw: may replace the exception by a more detailed one.
  void (*node_failed)(Node*, std::exception_ptr&) noexcept = nullptr;
  // Returns the caller's place, "file.py:12 in train", or "".
  std::string (*caller)() = nullptr;
  // Returns the place that created a node, "file.py:12 in train", or "" if it was not watched.
  std::string (*created_at)(const Node*) = nullptr;
  void (*before_write)(const Tensor&, const char* op) = nullptr;
  // Says why gradient `output` of a node has an element that is not finite; "" if that is unknown.
  std::string (*explain)(Node*, std::span<const Tensor> grads, size_t output) = nullptr;
};
extern COGRAD_API WatchHandlers watch_handlers;

// Call log_write() or record_write() before `op` writes `t` in place.
COGRAD_API void log_write(const Tensor& t, const char* op);
inline constexpr uint32_t kWatchAllWrites = kWatchWrites | kWatchCallback | kWatchCaptures;
inline void record_write(const Tensor& t, const char* op) {
  if (watching(kWatchAllWrites)) [[unlikely]]
    log_write(t, op);
}
// Returns the first write after version `version`: "add_() at train.py:12 in step", or "" if it is
// not logged.
COGRAD_API std::string writer_of(const Tensor& t, uint32_t version);

// Returns the number, in row-major order, of the first element that is nan (with `nan`) or infinite
// (with `inf`); -1 if there is none.
COGRAD_API int64_t find_nonfinite(const Tensor& t, bool nan, bool inf) noexcept;
// Returns the coordinates of a row-major element number: "[2, 0]".
COGRAD_API std::string coordinates(const Tensor& t, int64_t element);
// Returns the element as text.
COGRAD_API std::string element_text(const Tensor& t, int64_t element);

// One timed piece of work.
struct ProfileEvent {
  enum class Kind : uint8_t { Op, Node, User } kind;
  std::string name;
  uint64_t sequence = 0;  // number of the node; 0 if it is none
  int64_t begin_ns = 0, end_ns = 0;
  // Filled in by add_profile_event:
  uint64_t thread = 0;
  int64_t live_bytes = -1;  // bytes of tensor data, if memory is recorded
  std::string place = {};   // the caller's place, "file.py:12 in train", if recorded
};
COGRAD_API int64_t now_ns() noexcept;
COGRAD_API void add_profile_event(ProfileEvent event);
// Selects what is recorded besides the time. With `memory`, an event at which the memory reaches a
// new maximum has a place even without `places`.
COGRAD_API void set_profile_options(bool memory, bool places) noexcept;
COGRAD_API std::vector<ProfileEvent> take_profile_events();

}  // namespace cograd
