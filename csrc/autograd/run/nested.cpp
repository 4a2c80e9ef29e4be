// SPDX-License-Identifier: BSD-3-Clause
// Executes a deeply nested backward on a new thread, which has a new stack; its caller waits.
#include <condition_variable>
#include <system_error>
#include <thread>

#include "autograd/run/run.h"
#include "tensor/thread_locals.h"

namespace cograd {

namespace {

// A nested run: the new thread executes it on behalf of the waiting thread.
struct Errand {
  BackwardRequest& request;
  ThreadState state;  // state of the waiting thread
  Device by_default;
  Run* run;
  Node* node;
  std::vector<Tensor> result;
  std::exception_ptr error;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool started = false;
};

// Memory for Python's state of a thread; the interpreter ends the process if there is none.
constexpr size_t kInterpreterState = size_t{16} << 10;

void run_here(Errand& e) noexcept {
  // The modes of the waiting thread apply here, and new nodes continue its sequence numbers.
  ThreadState& mine = thread_state;
  thread_place.by_default = e.by_default;
  mine.grad_enabled = e.state.grad_enabled;
  mine.inference = e.state.inference;
  mine.taint = e.state.taint;
  mine.next_sequence = e.state.next_sequence;
  // This thread owns the hook scopes until the run ends, because a hook may leave some of them.
  mine.saved_hooks = e.state.saved_hooks;
  mine.hooks_in_use = e.state.hooks_in_use;
  mine.max_visible_level = e.state.max_visible_level;
  current_run = e.run;
  current_node = e.node;
  const int token = engine_hooks.attach != nullptr ? engine_hooks.attach() : 0;
  try {
    e.result = run_backward(std::move(e.request));
  } catch (...) {
    e.error = std::current_exception();
  }
  if (engine_hooks.detach != nullptr) engine_hooks.detach(token);
  current_run = nullptr;
  current_node = nullptr;
  e.state.next_sequence = mine.next_sequence;
  e.state.saved_hooks = std::exchange(mine.saved_hooks, nullptr);
  mine.hooks_in_use = nullptr;
}

void act(Errand& e) noexcept {
  if (take_thread_locals() && has_memory(kInterpreterState)) {
    e.started = true;
    run_here(e);
  }
  const std::lock_guard lock(e.mutex);
  e.done = true;
  e.changed.notify_all();
}

// Waits for the run. Signals arrive at the waiting thread: it handles them, and cancels the run if
// a handler throws.
std::exception_ptr wait_for(Errand& e) {
  std::exception_ptr interrupted;
  std::unique_lock lock(e.mutex);
  while (!e.done) {
    e.changed.wait_for(lock, std::chrono::milliseconds(20));
    if (e.done || interrupted || engine_hooks.tick == nullptr) continue;
    lock.unlock();
    try {
      engine_hooks.tick();
    } catch (...) {
      interrupted = std::current_exception();
      e.run->cancelled().store(true, std::memory_order_relaxed);
    }
    lock.lock();
  }
  return interrupted;
}

}  // namespace

std::vector<Tensor> run_on_new_thread(BackwardRequest& request, bool* started) {
  Errand e{
      request, thread_state, thread_place.by_default, current_run, current_node, {}, nullptr, {},
      {},      false};
  std::thread worker;
  try {
    worker = std::thread([&e] { act(e); });
  } catch (const std::system_error&) {
    return {};  // no thread could start: the caller continues on its own stack
  }
  std::exception_ptr interrupted;
  {
    void* lock = engine_hooks.release != nullptr ? engine_hooks.release() : nullptr;
    interrupted = wait_for(e);
    worker.join();
    if (lock != nullptr) engine_hooks.restore(lock);
  }
  *started = e.started;
  if (!e.started) {
    if (interrupted) std::rethrow_exception(interrupted);
    return {};
  }
  thread_state.next_sequence = e.state.next_sequence;
  thread_state.saved_hooks = e.state.saved_hooks;
  if (interrupted) std::rethrow_exception(interrupted);
  if (e.error) std::rethrow_exception(e.error);
  return std::move(e.result);
}

}  // namespace cograd
