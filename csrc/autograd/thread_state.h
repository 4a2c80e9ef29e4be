// SPDX-License-Identifier: BSD-3-Clause
// Per-thread modes of autograd and the guards that set and restore them.
#pragma once
#include <atomic>
#include <cstdint>

#include "cograd/error.h"

namespace cograd {

class CopySlices;
class Node;
struct SavedHookScope;
struct SavedHookInUse;
class TensorSet;

using LevelId = uint64_t;

struct ThreadState {
  bool grad_enabled = true;
  bool inference = false;
  bool taint = false;      // inside the forward of a custom Function with differentiable inputs
  bool draining = false;   // something of a graph is being destroyed on this thread; more waits
  bool looked_at = false;  // the next op's arguments: rules of transforms do not concern them here
  uint32_t vmaps = 0;      // under way on this thread
  uint64_t next_sequence = 0;
  int64_t live_nodes = 0;                        // made minus destroyed on this thread
  SavedHookScope* saved_hooks = nullptr;         // innermost; null: tensors are saved as they are
  const SavedHookInUse* hooks_in_use = nullptr;  // those that run now, which skip themselves
  LevelId ceiling = ~LevelId{0};       // tangents of this level and of higher ones are not seen
  const CopySlices* slices = nullptr;  // runs at present: the node of a write to a view is in it
  // Of the op that is being recorded for its derivative: these count as requiring a gradient.
  const TensorSet* wanted = nullptr;
};
extern constinit COGRAD_API thread_local ThreadState thread_state
    __attribute__((tls_model("initial-exec")));

// Levels of transforms that are open, of all threads. While it is 0 no rule concerns any op.
// Hidden: one load, where a symbol of the library's interface would take two.
extern constinit std::atomic<uint32_t> open_levels __attribute__((visibility("hidden")));
inline bool transforms_open() noexcept { return open_levels.load(std::memory_order_relaxed) != 0; }

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

}  // namespace cograd
