// SPDX-License-Identifier: BSD-3-Clause
// The executor: runs a graph backward from its roots, newest node first, without recursion.
#pragma once
#include <functional>

#include "autograd/variable.h"

namespace cograd {

struct BackwardRequest {
  std::vector<Edge> roots;    // borrowed; node is never null
  std::vector<Tensor> grads;  // one per root, of the root's shape and dtype
  std::vector<Edge> inputs;   // borrowed; where to stop; empty: run to every leaf
  bool accumulate = false;    // with inputs: add to the leaves' .grad instead of returning
  bool keep_graph = false;
  bool create_graph = false;
  // The transformed functions (function_scope.h) whose hooks are called, besides those that still
  // run and those of the run around this one.
  std::vector<uint32_t> functions;
};

// Gradients for `inputs`, in order (undefined where none arrived); empty when accumulating.
// Nested calls (from hooks and Python Functions) move to a thread of their own every
// kReentrantDepth levels, so that no depth exhausts the stack.
COGRAD_API std::vector<Tensor> run_backward(BackwardRequest request);
inline constexpr int kReentrantDepth = 60;

// What the layer above does for the executor; each may be null.
struct EngineHooks {
  void (*tick)() = nullptr;      // serves signals and other threads; may throw
  void* (*release)() = nullptr;  // lets go of the interpreter lock; null: it was not held
  void (*restore)(void*) = nullptr;
  int (*attach)() = nullptr;  // a thread of the executor's own begins to act for a caller
  void (*detach)(int) = nullptr;
};
COGRAD_API extern EngineHooks engine_hooks;

// Threads that may work on one run (the caller included); 1: the caller alone.
COGRAD_API int num_backward_threads() noexcept;
COGRAD_API void set_num_backward_threads(int n);
// Whether runs started on this thread may use more than one; returns the former setting.
COGRAD_API bool set_multithreading(bool on) noexcept;
COGRAD_API bool multithreading() noexcept;

// Lets go of the interpreter lock, if this thread has it, until its end.
struct Unlocked {
  void* held = engine_hooks.release != nullptr ? engine_hooks.release() : nullptr;
  Unlocked() = default;
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    if (held != nullptr) engine_hooks.restore(held);
  }
};

// Held by a run that works on graphs without the interpreter lock, from after it let go of it until
// it has it again. Waits while a collector of another thread reads graphs.
class COGRAD_API UnlockedRun {
 public:
  UnlockedRun() noexcept;
  ~UnlockedRun();
  UnlockedRun(const UnlockedRun&) = delete;
  UnlockedRun& operator=(const UnlockedRun&) = delete;
};
// For the collector: false if such a run is open, and it must not look.
COGRAD_API bool begin_graph_reading() noexcept;
COGRAD_API void end_graph_reading() noexcept;
// Whether this thread is the one that reads: it must not let go of the lock for a run.
COGRAD_API bool reading_graphs_here() noexcept;

// The node that is running on this thread, or null.
COGRAD_API Node* running_node() noexcept;
// The gradients that it got.
COGRAD_API std::span<const Tensor> running_gradients() noexcept;
// The id of the backward that is running on this thread, or -1; whether it will run `node`.
COGRAD_API int64_t running_id() noexcept;
COGRAD_API bool will_run(Node* node);
// Whether no backward that was asked for chosen inputs is running on this thread.
COGRAD_API bool runs_to_every_leaf() noexcept;
// Whether the backward that is running on this thread calls the hooks of that function
// (function_scope.h).
COGRAD_API bool run_serves(uint32_t function) noexcept;
// Runs `f` when the backward that is running on this thread ends; false if none is.
COGRAD_API bool queue_callback(std::function<void()> f);

// Brings a gradient to the shape and dtype `meta` asks for (sum over broadcast dims, cast).
COGRAD_API void fit_gradient(Tensor& g, const OutputMeta& meta, const Node* from, size_t index);

}  // namespace cograd
