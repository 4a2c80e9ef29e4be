// SPDX-License-Identifier: BSD-3-Clause
// The executor: runs a graph backward from its roots, newest node first, without recursion.
#pragma once
#include <functional>

#include "autograd/graph/variable.h"

namespace cograd {

struct BackwardRequest {
  std::vector<Edge> roots;    // borrowed; node is never null
  std::vector<Tensor> grads;  // one per root, of the root's shape and dtype
  std::vector<Edge> inputs;   // borrowed; the run stops there; empty: it runs to every leaf
  bool accumulate = false;    // with inputs: add to the leaves' .grad instead of returning
  bool keep_graph = false;
  bool create_graph = false;
  // Transformed functions (function_scope.h) whose hooks are called. The hooks of functions that
  // still run, and those that an enclosing backward run calls, are called as well.
  std::vector<uint32_t> functions;
};

// Returns the gradients for `inputs`, in order (undefined where none arrived); empty when
// accumulating. Nested calls (from hooks and Python Functions) move to a new thread every
// kReentrantDepth levels, so that no depth exhausts the stack.
COGRAD_API std::vector<Tensor> run_backward(BackwardRequest request);
inline constexpr int kReentrantDepth = 60;

// Callbacks of the layer above for the executor; each may be null.
struct EngineHooks {
  void (*tick)() = nullptr;      // handles signals and lets other threads run; may throw
  void* (*release)() = nullptr;  // releases the interpreter lock; returns null if it was not held
  void (*restore)(void*) = nullptr;
  int (*attach)() = nullptr;      // called when a thread of the executor begins to act for a caller
  void (*detach)(int) = nullptr;  // called when it ends, with the result of attach
};
COGRAD_API extern EngineHooks engine_hooks;

// Returns the number of threads that may work on one run, the caller included.
COGRAD_API int num_backward_threads() noexcept;
COGRAD_API void set_num_backward_threads(int n);
// Sets whether runs that start on this thread may use several threads; returns the former setting.
COGRAD_API bool set_multithreading(bool on) noexcept;
COGRAD_API bool multithreading() noexcept;

// Releases the interpreter lock while it exists, if this thread holds the lock.
struct Unlocked {
  void* held = engine_hooks.release != nullptr ? engine_hooks.release() : nullptr;
  Unlocked() = default;
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    if (held != nullptr) engine_hooks.restore(held);
  }
};

// A run holds one of these while it works on graphs without the interpreter lock. The constructor
// waits while the cycle collector reads graphs on another thread.
class COGRAD_API UnlockedRun {
 public:
  UnlockedRun() noexcept;
  ~UnlockedRun();
  UnlockedRun(const UnlockedRun&) = delete;
  UnlockedRun& operator=(const UnlockedRun&) = delete;
};
// Called by the cycle collector before it reads graphs. False if an UnlockedRun exists: the
// collector must not read graphs then.
COGRAD_API bool begin_graph_reading() noexcept;
COGRAD_API void end_graph_reading() noexcept;
// True if this thread is reading graphs: a run on it must keep the interpreter lock.
COGRAD_API bool reading_graphs_here() noexcept;

// Returns the node that is running on this thread, or null.
COGRAD_API Node* running_node() noexcept;
// Returns the incoming gradients of the running node.
COGRAD_API std::span<const Tensor> running_gradients() noexcept;
// Returns the id of the backward that is running on this thread, or -1.
COGRAD_API int64_t running_id() noexcept;
// True if the backward that is running on this thread will run `node`; raises if none is running.
COGRAD_API bool will_run(Node* node);
// False if the backward that is running on this thread only computes gradients of chosen inputs.
COGRAD_API bool runs_to_every_leaf() noexcept;
// True if the backward that is running on this thread calls hooks that belong to this transformed
// function (function_scope.h); also true if none is running.
COGRAD_API bool run_serves(uint32_t function) noexcept;
// Queues `f` to run at the end of the backward that is running on this thread; false if none is.
COGRAD_API bool queue_callback(std::function<void()> f);

// Converts a gradient to the shape and dtype in `meta` (sums over broadcast dims, casts).
COGRAD_API void fit_gradient(Tensor& g, const OutputMeta& meta, const Node* from, size_t index);

}  // namespace cograd
