// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/driver/graph.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cograd/error.h"
#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/timing.h"
#include "cuda/memory/pinned.h"
#include "tensor/thread_locals.h"

namespace cograd::cuda {

namespace {

class Graph;

// The open captures by number. A capture is used by the threads whose streams take part in it.
class OpenCaptures {
 public:
  void add(uint64_t id, Graph* g) {
    const std::lock_guard lock(mutex_);
    all_[id] = g;
  }
  void remove(uint64_t id) {
    const std::lock_guard lock(mutex_);
    all_.erase(id);
  }
  // Returns those that only the thread may end.
  std::vector<Graph*> of_thread(uint64_t thread);
  Graph* find(CUstream s) {
    const uint64_t id = capture_of(s);
    if (id == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto it = all_.find(id);
    return it == all_.end() ? nullptr : it->second;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, Graph*> all_;
};
OpenCaptures& captures() {
  static auto* c = new OpenCaptures;  // never freed: graphs may outlive static objects
  return *c;
}

// Numbers the threads of the process; std::thread::id gives those of ended threads again.
uint64_t this_thread() noexcept {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = ++last;
  return number;
}

// A thread that ends ends the captures that it has begun, while others may use their graphs. Held
// by what ends a capture and by what asks whether it has ended; the order is: this one, then
// others.
std::unique_lock<std::recursive_mutex> lock_ends() {
  static auto* m = new std::recursive_mutex;  // never freed, as the captures
  if (forked()) return {};                    // another thread of the parent may have held it
  return std::unique_lock(*m);
}

class Graph final : public GpuGraph {
 public:
  Graph() = default;
  ~Graph() override {
    if (forked()) return;
    try {
      reset();
    } catch (const std::exception&) {  // the context is lost: there is nothing to free
    }
  }

  void begin(uint64_t pool, CaptureMode mode, const std::vector<const void*>& generators) override {
    COGRAD_CHECK(!capturing_, "CUDAGraph.capture_begin(): this graph is being captured already");
    COGRAD_CHECK(
        graph_ == nullptr && exec_ == nullptr,
        "CUDAGraph.capture_begin(): this graph has been captured. Call its reset() before, "
        "or capture another CUDAGraph");
    Gpu& g = gpu(current_gpu());
    g.activate();
    CUstream const s = g.stream();
    COGRAD_CHECK(
        s != nullptr,
        "CUDAGraph.capture_begin(): the default stream cannot be captured. Capture another "
        "one: with cuda.stream(cuda.Stream()), or by cuda.graph(...)");
    COGRAD_CHECK(capture_of(s) == 0,
                 "CUDAGraph.capture_begin(): another graph captures the current "
                 "stream; end that capture first");
    // A block freed in the capture cannot wait for earlier work of captured streams.
    if (!capture_open())
      check(driver().ctx_synchronize(), "cuCtxSynchronize");
    else
      check(driver().stream_synchronize(s), "cuStreamSynchronize");
    gpu_ = &g;
    stream_ = s;
    pool_ = pool == 0 ? new_graph_pool() : pool;
    g.memory.enter_pool(pool_);
    in_pool_ = true;
    try {
      for (const void* key : generators) {
        randoms_.push_back({key, {}, g.memory.allocate(2 * sizeof(uint64_t), s, pool_), {}});
        Random& r = randoms_.back();
        r.numbers.state = reinterpret_cast<const uint64_t*>(r.block->at);  // NOLINT
      }
      ++open_captures;
      const CUresult r = driver().capture_begin(s, static_cast<int>(mode));
      if (r != kSuccess) --open_captures;
      check(r, "cuStreamBeginCapture");
    } catch (...) {
      reset();
      throw;
    }
    capturing_ = true;
    thread_ = mode == CaptureMode::Relaxed ? 0 : this_thread();
    id_ = capture_of(s);
    g.memory.begin_capture(id_, pool_);
    captures().add(id_, this);
  }

  void end(bool keep) override {
    const auto lock = lock_ends();
    COGRAD_CHECK(capturing_, "CUDAGraph.capture_end(): no capture has begun");
    COGRAD_CHECK(may_end(),
                 "CUDAGraph.capture_end(): another thread has called capture_begin(), and the "
                 "driver lets no other end its capture. Call it on that thread, or begin with "
                 "capture_error_mode='relaxed'");
    gpu_->activate();
    COGRAD_CHECK(gpu_->stream() == stream_,
                 "CUDAGraph.capture_end(): the current stream is not the one whose capture began");
    const CUresult r = finish();
    if (r != kSuccess || graph_ == nullptr) {
      reset();
      check(r, "cuStreamEndCapture");
      detail::fail(ErrorKind::Runtime, "CUDAGraph.capture_end(): the capture became invalid");
    }
    if (keep) return;
    instantiate();
    drop_graph();
  }
  void abort() noexcept override {
    if (forked()) return;
    const auto lock = lock_ends();
    if (!capturing_) return;
    try {
      if (!may_end()) return leave_to_thread();
      gpu_->activate();
      finish();
      reset();
    } catch (const std::exception&) {  // the context is lost
    }
  }

  void instantiate() override {
    check_captured("instantiate");
    COGRAD_CHECK(graph_ != nullptr,
                 "CUDAGraph.instantiate(): needs CUDAGraph(keep_graph=True), as the graph is gone "
                 "once it is compiled");
    gpu_->activate();
    if (exec_ != nullptr) driver().graph_exec_destroy(exec_);
    exec_ = nullptr;
    check(driver().graph_instantiate(&exec_, graph_, 0), "cuGraphInstantiateWithFlags");
  }

  std::vector<uint64_t> draws() override {
    check_captured("replay");
    gpu_->activate();
    refuse_captured(gpu_->stream(), "CUDAGraph.replay()", "it starts another graph");
    std::vector<uint64_t> all;
    for (const Random& r : randoms_) all.push_back(r.numbers.most);
    return all;
  }

  void replay(const std::vector<Position>& positions) override {
    check_captured("replay");
    if (exec_ == nullptr) instantiate();
    Gpu& g = *gpu_;
    g.activate();
    CUstream const s = g.stream();
    if (!replayed_)
      for (CUstream const other : g.used_streams()) follow(other, s);
    else
      follow(last_, s);
    for (size_t i = 0; i < randoms_.size() && i < positions.size(); ++i)
      randoms_[i].set(positions[i], s);
    {
      const Timed timed("CUDA graph", &g);
      check(driver().graph_launch(exec_, s), "cuGraphLaunch");
    }
    last_ = s;
    replayed_ = true;
  }

  void reset() override {
    const auto lock = lock_ends();
    if (capturing_) return abort();
    if (gpu_ == nullptr) return;
    gpu_->activate();
    if (exec_ != nullptr) driver().graph_exec_destroy(exec_);
    exec_ = nullptr;
    drop_graph();
    for (const void* p : pinned_) pinned_leave_graph(p, replayed_, last_);
    pinned_.clear();
    const std::vector<CUstream> users(replayed_ ? 1 : 0, last_);
    for (const Random& r : randoms_) gpu_->memory.free(r.block, users);
    randoms_.clear();
    if (in_pool_) gpu_->memory.leave_pool(pool_);
    in_pool_ = replayed_ = false;
  }

  uint64_t pool() override {
    COGRAD_CHECK(in_pool_, "CUDAGraph.pool(): the graph has no pool before it is captured");
    return pool_;
  }
  void print(const std::string& path) override {
    constexpr unsigned kVerbose = 1;
    COGRAD_CHECK(graph_ != nullptr,
                 "CUDAGraph.debug_dump(): needs enable_debug_mode() before the capture");
    check(driver().graph_print(graph_, path.c_str(), kVerbose), "cuGraphDebugDotPrint");
  }
  uint64_t handle(bool compiled) override {
    check_captured(compiled ? "raw_cuda_graph_exec" : "raw_cuda_graph");
    if (compiled) {
      if (exec_ == nullptr) instantiate();
      return reinterpret_cast<uint64_t>(exec_);
    }
    COGRAD_CHECK(graph_ != nullptr, "CUDAGraph.raw_cuda_graph(): needs CUDAGraph(keep_graph=True)");
    return reinterpret_cast<uint64_t>(graph_);
  }

  CapturedRandom* random_of(const void* generator) {
    for (Random& r : randoms_)
      if (r.key == generator) return &r.numbers;
    detail::fail(ErrorKind::Runtime,
                 "the capture of a CUDA graph draws from a generator that it does not know: call "
                 "CUDAGraph.register_generator_state(generator) before the capture");
  }
  void keep(const void* p) {
    pinned_enter_graph(p);
    pinned_.push_back(p);
  }
  uint64_t thread() const noexcept { return thread_; }

 private:
  Graph(Graph&&) = default;  // leaves what reset() must not free twice
  Graph& operator=(Graph&&) = default;
  struct Random {
    const void* key;
    CapturedRandom numbers;
    Block* block;
    Position now;  // what the device has
    bool known = false;

    // Sets words of the device by kernels of the driver, which need no memory of the host.
    void set(const Position& p, CUstream s) {
      const uint64_t was[2] = {now.seed, now.offset}, is[2] = {p.seed, p.offset};
      for (size_t i = 0; i < 4; ++i) {
        const auto word = [i](const uint64_t* v) {
          return static_cast<unsigned>(v[i / 2] >> (32 * (i % 2)));
        };
        if (known && word(was) == word(is)) continue;
        check(driver().set_words(block->at + 4 * i, word(is), 1, s), "cuMemsetD32Async");
      }
      now = p;
      known = true;
    }
  };

  void check_captured(const char* method) const {
    gpu(gpu_ == nullptr ? current_gpu() : gpu_->index);  // raises in a forked process
    const auto lock = lock_ends();
    COGRAD_CHECK(!capturing_ && (graph_ != nullptr || exec_ != nullptr), "CUDAGraph.", method,
                 "(): the graph has not been captured",
                 capturing_ ? " yet: its capture has not ended" : "");
  }
  // The driver lets only the thread that began a capture end it, unless its mode is relaxed.
  bool may_end() const noexcept { return thread_ == 0 || thread_ == this_thread(); }
  // Becomes empty. The capture's own thread ends it before that thread uses the GPU again.
  void leave_to_thread();
  // Ends the capture in the driver, and here whatever the driver says.
  CUresult finish() {
    const CUresult r = driver().capture_end(stream_, &graph_);
    captures().remove(id_);
    --open_captures;
    capturing_ = false;
    gpu_->memory.end_capture(id_);
    return r;
  }
  void drop_graph() {
    if (graph_ != nullptr) driver().graph_destroy(graph_);
    graph_ = nullptr;
  }
  // Replays share the graph's memory, so one follows the other also if their streams differ. The
  // first follows what all streams have got: code in the capture may have used others.
  static void follow(CUstream first, CUstream s) {
    constexpr unsigned kWithoutTiming = 2;
    // A capture that has begun since on the last stream has waited for the replay.
    if (first == s || capture_of(first) != 0) return;
    CUevent e = nullptr;
    check(driver().event_create(&e, kWithoutTiming), "cuEventCreate");
    CUresult r = driver().event_record(e, first);
    if (r == kSuccess) r = driver().stream_wait_event(s, e, 0);
    driver().event_destroy(e);
    check(r, "cuStreamWaitEvent");
  }

  Gpu* gpu_ = nullptr;
  CUstream stream_ = nullptr, last_ = nullptr;  // the captured one; that of the last replay
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  uint64_t pool_ = 0, id_ = 0;
  uint64_t thread_ = 0;  // that began the capture; 0 if any may end it
  bool capturing_ = false, in_pool_ = false, replayed_ = false;
  std::vector<Random> randoms_;
  std::vector<const void*> pinned_;
};

std::vector<Graph*> OpenCaptures::of_thread(uint64_t thread) {
  std::vector<Graph*> found;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, g] : all_)
    if (g->thread() == thread) found.push_back(g);
  return found;
}

// The captures that other threads have dropped.
std::mutex dropped_mutex;
std::vector<std::unique_ptr<Graph>>& dropped() {
  static auto* all = new std::vector<std::unique_ptr<Graph>>;
  return *all;
}

void Graph::leave_to_thread() {
  std::unique_ptr<Graph> rest(new Graph(std::move(*this)));
  *this = Graph();
  captures().add(rest->id_, rest.get());
  const std::lock_guard lock(dropped_mutex);
  dropped().push_back(std::move(rest));
  ++dropped_captures;
}

}  // namespace

std::atomic<int> dropped_captures{0};

void end_dropped_captures() {
  std::vector<std::unique_ptr<Graph>> mine;
  {
    const std::lock_guard lock(dropped_mutex);
    auto& all = dropped();
    for (auto it = all.begin(); it != all.end();) {
      if ((*it)->thread() != this_thread()) {
        ++it;
        continue;
      }
      mine.push_back(std::move(*it));
      it = all.erase(it);
      --dropped_captures;
    }
  }
  for (const auto& g : mine) g->abort();
}

namespace {

// No other thread could end the captures of this one, and an open one keeps every thread from
// waiting for the GPU.
void end_captures_of_thread() noexcept {
  if (!capture_open() || forked()) return;
  try {
    const auto lock = lock_ends();
    end_dropped_captures();
    for (Graph* g : captures().of_thread(this_thread())) g->abort();
  } catch (const std::exception&) {  // the context is lost
  }
}
const OnEachThread each_thread(nullptr, end_captures_of_thread);

}  // namespace

std::unique_ptr<GpuGraph> make_graph() { return std::make_unique<Graph>(); }

uint64_t new_graph_pool() noexcept {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

CapturedRandom* captured_random(CUstream s, const void* generator) {
  Graph* const g = captures().find(s);
  return g == nullptr ? nullptr : g->random_of(generator);
}

bool keep_for_graph(CUstream s, const void* p) {
  Graph* const g = captures().find(s);
  if (g == nullptr) return false;
  g->keep(p);
  return true;
}

bool capture_constant(CUstream s, const void* from, CUdeviceptr to, size_t bytes) {
  Graph* const g = captures().find(s);
  if (g == nullptr) return false;
  void* const kept = pinned_allocate(bytes);
  std::memcpy(kept, from, bytes);
  try {
    g->keep(kept);
  } catch (...) {
    pinned_free(kept);
    throw;
  }
  pinned_free(kept);  // the graph holds it from here on
  check(driver().copy_to_device(to, kept, bytes, s), "cuMemcpyHtoDAsync");
  return true;
}

}  // namespace cograd::cuda
