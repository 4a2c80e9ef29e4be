// SPDX-License-Identifier: BSD-3-Clause
// What watches the engine when asked to: anomaly mode, the log of in-place writes, the profiler.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace cograd {

// Bits of watch_modes. All clear: the engine pays one load per node and per run.
enum WatchModes : uint32_t {
  kWatchNodes = 1,      // anomaly mode: nodes keep the place that made them, failures are reported
  kWatchNan = 2,        // results of backward nodes are searched for nan
  kWatchInf = 4,        // ... and for infinities
  kWatchForward = 8,    // ops called from Python are searched too
  kWatchWrites = 16,    // in-place writes are logged with their place
  kWatchProfile = 32,   // nodes and ops are timed
  kWatchCallback = 64,  // before_write is called
  kWatchCaptures = 128  // a function is under a transform: what it captured may not be written
};
// Process-wide, as in torch: threads started later are watched too.
extern COGRAD_API constinit std::atomic<uint32_t> watch_modes;
inline bool watching(uint32_t modes) noexcept {
  return (watch_modes.load(std::memory_order_relaxed) & modes) != 0;
}
COGRAD_API void set_watch(uint32_t modes, bool on) noexcept;

// Set by the layer above; each may be null.
struct WatchHandlers {
  // A node was made on this thread (its type is not known yet).
  void (*node_made)(Node*) noexcept = nullptr;
  // A node's backward threw: may replace the exception by one that says more.
  void (*node_failed)(Node*, std::exception_ptr&) noexcept = nullptr;
  // "file.py:12 in train" of the caller, or "".
  std::string (*caller)() = nullptr;
  // "file.py:12 in train" of the place that made a node, or "" if it was not watched.
  std::string (*made_at)(const Node*) = nullptr;
  void (*before_write)(const Tensor&, const char* op) = nullptr;
};
extern COGRAD_API WatchHandlers watch_handlers;

// To be called before `op` writes `t` in place.
COGRAD_API void log_write(const Tensor& t, const char* op);
inline constexpr uint32_t kWatchAllWrites = kWatchWrites | kWatchCallback | kWatchCaptures;
inline void note_write(const Tensor& t, const char* op) {
  if (watching(kWatchAllWrites)) [[unlikely]]
    log_write(t, op);
}
// "add_() at train.py:12 in step" of the first write after version `version`; "" if not logged.
COGRAD_API std::string writer_of(const Tensor& t, uint32_t version);

// First element that is nan (or, if asked, infinite), in row-major order; -1 if there is none.
COGRAD_API int64_t find_nonfinite(const Tensor& t, bool nan, bool inf) noexcept;
// "[2, 0]", the coordinates of a row-major element number.
COGRAD_API std::string coordinates(const Tensor& t, int64_t element);
// The element as text.
COGRAD_API std::string element_text(const Tensor& t, int64_t element);

// One timed piece of work.
struct ProfileEvent {
  enum class Kind : uint8_t { Op, Node, User } kind;
  std::string name;
  uint64_t sequence = 0;  // of a node
  int64_t begin_ns = 0, end_ns = 0;
  // Filled in by add_profile_event:
  uint64_t thread = 0;
  int64_t live_bytes = -1;  // of tensors, if the memory is noted
  std::string place = {};   // "file.py:12 in train" of the caller, if noted
};
COGRAD_API int64_t now_ns() noexcept;
COGRAD_API void add_profile_event(ProfileEvent event);
// What is noted beside the time. With the memory alone a new maximum of it has a place, too.
COGRAD_API void note_in_profile(bool memory, bool places) noexcept;
COGRAD_API std::vector<ProfileEvent> take_profile_events();

}  // namespace cograd
