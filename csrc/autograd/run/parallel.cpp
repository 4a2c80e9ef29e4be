// SPDX-License-Identifier: BSD-3-Clause
// One run on several threads. A dry run first finds the order in which a single thread would add
// gradients. Each node then adds its gradients in that order, whichever thread delivers them.
#include <algorithm>
#include <condition_variable>
#include <thread>
#include <tuple>

#include "autograd/graph/saved_tensor.h"
#include "autograd/run/run.h"
#include "tensor/thread_start.h"
#include "tensor/threads.h"

namespace cograd {

namespace {

constexpr int kSpins = 4000;  // polls of the queue before a thread sleeps: 40 to 170 us
std::atomic<int> backward_threads{1};
constinit thread_local bool multithreading_on = true;

struct Arrival {
  uint32_t ordinal;
  uint32_t input_nr;
  Tensor gradient;
};
struct Later {
  bool operator()(const Arrival& a, const Arrival& b) const noexcept {
    return a.ordinal > b.ordinal;
  }
};

struct Task {
  Node* node = nullptr;
  uint32_t expected = 0;       // number of gradients to arrive, undefined ones included
  uint32_t first_ordinal = 0;  // index in ordinals_ of this node's first edge
  uint32_t next = 0;           // ordinal to add next; guarded by `lock`
  bool adding = false;         // a thread is adding; guarded by `lock`
  bool heavy = false;
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  std::vector<Arrival> early;  // heap; guarded by `lock`
  void acquire() noexcept {
    while (lock.test_and_set(std::memory_order_acquire)) pause_cpu();
  }
  void release() noexcept { lock.clear(std::memory_order_release); }
};

}  // namespace

class ParallelRun final : public SharedWork {
 public:
  ParallelRun(Run& run, int threads)
      : run_(run), most_helpers_(threads - 1), caller_(thread_state), last_tick_(now_ns()) {
    plan();
  }
  void execute();
  void run_with_helpers();
  void deliver(Node* from, size_t index, const Edge& edge, Tensor g);
  void help() noexcept override;
  bool wants_help() const noexcept override {
    return helpers.load(std::memory_order_relaxed) < most_helpers_ &&
           ready_heavy_.load(std::memory_order_relaxed) > 0;
  }

 private:
  Task& task_of(Node* n) {
    const int32_t number = ~run_.run_state(n).dependencies;
    return tasks_[static_cast<size_t>(number)];
  }
  void list_tasks();
  void plan();
  void make_ready(Task& t);
  Task* take();
  void work(Task* t);
  void caller_loop();
  void tick();
  void fail(std::exception_ptr e) noexcept;

  Run& run_;
  const int most_helpers_;
  std::vector<Task> tasks_;
  std::vector<uint32_t> ordinals_;  // arrival order of every edge at its target, grouped by node
  std::mutex mutex_;                // guards ready_
  std::condition_variable changed_;
  std::vector<Task*> ready_;  // heap, newest first
  std::atomic<int64_t> ready_count_{0}, ready_heavy_{0}, left_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  const ThreadState caller_;  // the caller's modes, which helpers adopt
  struct ReleaseHooks {
    void operator()(SavedHookScope* s) const noexcept { release_hooks(s); }
  };
  const std::unique_ptr<SavedHookScope, ReleaseHooks> hooks_{retain_hooks(caller_.saved_hooks)};
  int64_t last_tick_;
};

namespace {

// Prefers light work, which may make heavy work ready. It does not affect the order of additions.
struct NewestTask {
  bool operator()(const Task* a, const Task* b) const noexcept {
    if (a->heavy != b->heavy) return a->heavy;
    return a->node->sequence < b->node->sequence;
  }
};

}  // namespace

// Lists the nodes of the run. A node's index in tasks_ (stored negative, as ~index) replaces the
// dependency count in its run state.
void ParallelRun::list_tasks() {
  std::vector<std::pair<Node*, uint32_t>> found;
  std::vector<Node*> stack;
  const auto see = [&](Node* n) {
    RunState& b = run_.run_state(n);
    if (b.dependencies < 0) return;
    found.emplace_back(n, static_cast<uint32_t>(b.dependencies));
    b.dependencies = ~static_cast<int32_t>(found.size() - 1);
    stack.push_back(n);
  };
  for (const Edge& root : run_.request_.roots) see(root.node);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (const Edge& e : n->edges())
      if (e.node != nullptr) see(e.node);
  }
  tasks_ = std::vector<Task>(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    Task& t = tasks_[i];
    std::tie(t.node, t.expected) = found[i];
    for (size_t k = 0; k < t.node->num_outputs(); ++k)
      t.heavy |= elements(t.node->output(k)) >= kHeavyNode && !t.node->is_accumulator();
    for (const Edge& e : t.node->edges())
      t.heavy |= e.node != nullptr && elements(e.node->output(e.input_nr)) >= kHeavyNode;
  }
}

// Walks the graph as execute_alone() would, and records each edge's position in the order in which
// gradients reach its target.
void ParallelRun::plan() {
  const std::vector<Node*> roots = run_.ready_roots();
  list_tasks();
  std::vector<uint32_t> arrived(tasks_.size(), 0);
  std::vector<Node*> heap;
  const auto push = [&heap](Node* n) {
    heap.push_back(n);
    std::push_heap(heap.begin(), heap.end(), Newest{});
  };
  for (Node* n : roots) push(n);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), Newest{});
    Node* n = heap.back();
    heap.pop_back();
    task_of(n).first_ordinal = static_cast<uint32_t>(ordinals_.size());
    for (const Edge& e : n->edges()) {
      ordinals_.push_back(0);
      if (e.node == nullptr) continue;
      Task& target = task_of(e.node);
      uint32_t& count = arrived[static_cast<size_t>(&target - tasks_.data())];
      ordinals_.back() = count++;
      if (count == target.expected) push(e.node);
    }
  }
  left_.store(static_cast<int64_t>(tasks_.size()), std::memory_order_relaxed);
  for (Node* n : roots) make_ready(task_of(n));
}

void ParallelRun::make_ready(Task& t) {
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back(&t);
    std::push_heap(ready_.begin(), ready_.end(), NewestTask{});
    ready_count_.fetch_add(1, std::memory_order_relaxed);
    if (t.heavy) ready_heavy_.fetch_add(1, std::memory_order_relaxed);
  }
  changed_.notify_one();
}

Task* ParallelRun::take() {
  if (ready_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  if (ready_.empty()) return nullptr;
  std::pop_heap(ready_.begin(), ready_.end(), NewestTask{});
  Task* t = ready_.back();
  ready_.pop_back();
  ready_count_.fetch_sub(1, std::memory_order_relaxed);
  if (t->heavy) ready_heavy_.fetch_sub(1, std::memory_order_relaxed);
  return t;
}

void ParallelRun::deliver(Node* from, size_t index, const Edge& edge, Tensor g) {
  Task& t = task_of(edge.node);
  uint32_t ordinal = ordinals_[task_of(from).first_ordinal + index];
  uint32_t input_nr = edge.input_nr;
  t.acquire();
  if (t.adding || ordinal != t.next) {
    t.early.push_back({ordinal, input_nr, std::move(g)});
    std::push_heap(t.early.begin(), t.early.end(), Later{});
    t.release();
    return;
  }
  t.adding = true;
  t.release();
  RunState& b = run_.run_state(edge.node);
  for (;;) {
    if (g.defined()) run_.add(b.slot(input_nr, edge.node->num_outputs()), std::move(g));
    g = Tensor();
    t.acquire();
    const bool last = ++t.next == t.expected;
    const bool more = !t.early.empty() && t.early.front().ordinal == t.next;
    if (more) {
      std::pop_heap(t.early.begin(), t.early.end(), Later{});
      input_nr = t.early.back().input_nr;
      g = std::move(t.early.back().gradient);
      t.early.pop_back();
    } else {
      t.adding = false;
    }
    t.release();
    if (last) make_ready(t);
    if (!more) return;
  }
}

void deliver(ParallelRun& parallel, Node* from, size_t index, const Edge& edge, Tensor g) {
  parallel.deliver(from, index, edge, std::move(g));
}

// While several threads work, each runs its kernels serially: the cores are busy.
void ParallelRun::work(Task* t) {
  const SerialLoops serial(helpers.load(std::memory_order_relaxed) > 0);
  run_.step(t->node, this);
  if (ready_heavy_.load(std::memory_order_relaxed) > 1 && wants_help()) call_helper();
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
}

void ParallelRun::fail(std::exception_ptr e) noexcept {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(e);
  failed_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void ParallelRun::help() noexcept {
  const GradGuard grad(false);
  ThreadState& mine = thread_state;
  mine.inference = caller_.inference;
  mine.saved_hooks = retain_hooks(caller_.saved_hooks);
  mine.hooks_in_use = caller_.hooks_in_use;
  current_run = &run_;
  try {
    for (int idle = 0; idle < kSpins; ++idle) {
      if (failed_.load(std::memory_order_acquire)) break;
      if (left_.load(std::memory_order_acquire) == 0) break;
      if (Task* t = take()) {
        work(t);
        idle = 0;
      } else {
        pause_cpu();
      }
    }
  } catch (...) {
    fail(std::current_exception());
  }
  current_run = nullptr;
  mine.inference = false;
  release_hooks(std::exchange(mine.saved_hooks, nullptr));
  mine.hooks_in_use = nullptr;
}

// Checks for signals at most every 5 ms, as this takes the interpreter lock.
void ParallelRun::tick() {
  const int64_t now = now_ns();
  if (now - last_tick_ < 5'000'000) return;
  last_tick_ = now;
  if (engine_hooks.tick != nullptr) engine_hooks.tick();
  fail_if_cancelled(run_);
}

void ParallelRun::caller_loop() {
  uint64_t count = 0;
  while (left_.load(std::memory_order_acquire) != 0 && !failed_.load(std::memory_order_acquire)) {
    Task* t = take();
    for (int i = 0; t == nullptr && i < kSpins && left_.load(std::memory_order_relaxed) != 0; ++i) {
      pause_cpu();
      t = take();
    }
    if (t == nullptr) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(20), [this] {
        return !ready_.empty() || left_.load(std::memory_order_relaxed) == 0 ||
               failed_.load(std::memory_order_relaxed);
      });
    } else {
      work(t);
    }
    if (t == nullptr || t->heavy || ++count % 64 == 0) tick();
  }
}

namespace {
std::atomic<int> unlocked_runs{0};
std::atomic<bool> graph_reading{false};
thread_local bool reading_here = false;
}  // namespace

UnlockedRun::UnlockedRun() noexcept {
  for (;;) {  // each side announces itself before it checks for the other
    unlocked_runs.fetch_add(1);
    if (!graph_reading.load()) return;
    unlocked_runs.fetch_sub(1);
    std::this_thread::yield();
  }
}
UnlockedRun::~UnlockedRun() { unlocked_runs.fetch_sub(1); }
bool begin_graph_reading() noexcept {
  graph_reading.store(true);
  reading_here = unlocked_runs.load() == 0;
  if (!reading_here) graph_reading.store(false);
  return reading_here;
}
void end_graph_reading() noexcept {
  reading_here = false;
  graph_reading.store(false);
}
bool reading_graphs_here() noexcept { return reading_here; }

void ParallelRun::execute() {
  std::unique_ptr<UnlockedRun> open;  // outlives `lock`: the interpreter lock is taken back first
  {
    const Unlocked lock;
    open = std::make_unique<UnlockedRun>();
    run_with_helpers();
  }
  open.reset();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ParallelRun::run_with_helpers() {
  const WorkOffer offer(*this, most_helpers_);
  if (ready_heavy_.load(std::memory_order_relaxed) > 1) call_helper();
  try {
    caller_loop();
  } catch (...) {
    fail(std::current_exception());
  }
}

void execute_shared(Run& run, int threads) { ParallelRun(run, threads).execute(); }

int num_backward_threads() noexcept { return backward_threads.load(std::memory_order_relaxed); }
void set_num_backward_threads(int n) {
  COGRAD_CHECK(n > 0, "set_num_backward_threads(): expected a positive number of threads, got ", n);
  backward_threads.store(std::min(n, 64), std::memory_order_relaxed);
}
bool set_multithreading(bool on) noexcept { return std::exchange(multithreading_on, on); }
bool multithreading() noexcept { return multithreading_on; }

}  // namespace cograd
