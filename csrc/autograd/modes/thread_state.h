// SPDX-License-Identifier: BSD-3-Clause
// Per-thread modes of autograd and the guards that set and restore them.
#pragma once
#include <atomic>
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

class CallObserver;
class CopySlices;
class ElementReads;
class Node;
struct SavedHookScope;
struct SavedHookInUse;

using LevelId = uint64_t;

struct ThreadState {
  bool grad_enabled = true;
  bool inference = false;
  bool taint = false;  // the forward of a custom Function with differentiable inputs is running
  bool once = false;   // the backward of a function that is differentiable once is running
  bool stop = false;   // the running op's Python caller gets an error; see stopped() in ops/call.h
  bool draining = false;  // a graph object is being destroyed on this thread; further ones wait
  uint32_t vmaps = 0;     // number of running vmaps of this thread
  uint64_t next_sequence = 0;
  int64_t live_nodes = 0;                        // nodes created minus destroyed on this thread
  SavedHookScope* saved_hooks = nullptr;         // innermost scope; null: no hooks are active
  const SavedHookInUse* hooks_in_use = nullptr;  // hooks that are running; they skip themselves
  LevelId max_visible_level = ~LevelId{0};  // tangents at this and at higher dual levels are hidden
  const CopySlices* slices = nullptr;       // the CopySlices whose backward is running
  ElementReads* reads = nullptr;            // notes what the running custom backward reads
  CallObserver* observer = nullptr;         // sees every call of an op; null: no one observes
};
extern constinit COGRAD_API thread_local ThreadState thread_state
    __attribute__((tls_model("initial-exec")));

// Number of open transform levels on all threads, and the bit kDeviceStage as soon as a device
// besides the host is used. While it is 0, ops run without a stage in front of them.
// Hidden visibility makes reading it one load; an exported symbol would need two.
extern constinit std::atomic<uint32_t> open_stages __attribute__((visibility("hidden")));
inline constexpr uint32_t kDeviceStage = uint32_t{1} << 31;
inline bool stages_open() noexcept { return open_stages.load(std::memory_order_relaxed) != 0; }
inline bool transforms_open() noexcept {
  return (open_stages.load(std::memory_order_relaxed) & ~kDeviceStage) != 0;
}
inline bool device_stage_open() noexcept {
  return (open_stages.load(std::memory_order_relaxed) & kDeviceStage) != 0;
}
// Called when a device besides the host may be used: from now on every op looks at devices.
COGRAD_API void open_device_stage() noexcept;

template <bool ThreadState::* Field>
class ModeGuard {
 public:
  explicit ModeGuard(bool value) noexcept : previous_(thread_state.*Field) {
    thread_state.*Field = value;
  }
  ModeGuard(const ModeGuard&) = delete;
  ModeGuard& operator=(const ModeGuard&) = delete;
  ~ModeGuard() { thread_state.*Field = previous_; }

 private:
  bool previous_;
};
using GradGuard = ModeGuard<&ThreadState::grad_enabled>;
using TaintGuard = ModeGuard<&ThreadState::taint>;
using OnceGuard = ModeGuard<&ThreadState::once>;

}  // namespace cograd
