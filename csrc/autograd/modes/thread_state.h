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
  bool taint = false;     // the forward of a custom Function with differentiable inputs is running
  bool draining = false;  // a graph object is being destroyed on this thread; further ones wait
  bool bypass_transforms = false;  // the next op on this thread bypasses the rules of transforms
  uint32_t vmaps = 0;              // number of running vmaps of this thread
  uint64_t next_sequence = 0;
  int64_t live_nodes = 0;                        // nodes created minus destroyed on this thread
  SavedHookScope* saved_hooks = nullptr;         // innermost scope; null: no hooks are active
  const SavedHookInUse* hooks_in_use = nullptr;  // hooks that are running; they skip themselves
  LevelId max_visible_level = ~LevelId{0};  // tangents at this and at higher dual levels are hidden
  const CopySlices* slices = nullptr;       // the CopySlices whose backward is running
  // Arguments of the next op that count as requiring grad, because a transform's rule records this
  // op to differentiate it.
  const TensorSet* wanted = nullptr;
};
extern constinit COGRAD_API thread_local ThreadState thread_state
    __attribute__((tls_model("initial-exec")));

// Number of open transform levels on all threads. While it is 0, no op needs a transform rule.
// Hidden visibility makes reading it one load; an exported symbol would need two.
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
