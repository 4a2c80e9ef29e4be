// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/jit/compile_thread.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/jit/nvrtc.h"
#include "tensor/backend.h"

namespace cograd::cuda {

namespace {

struct Job {
  enum class State { Queued, Running, Done, Failed } state = State::Queued;
  CompileAhead compile;
  std::string code;
};

// More programs than this do not wait for the background: what needs them compiles them.
constexpr size_t kMostQueued = 256;

class Background {
 public:
  std::string get(const std::string& key, const Compile& compile) {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto it = jobs_.find(key);
      if (it == jobs_.end() || it->second->state == Job::State::Queued) break;
      const std::shared_ptr<Job> job = it->second;
      changed_.wait(lock, [&] { return job->state != Job::State::Running; });
      if (job->state != Job::State::Done) continue;  // it failed: compile here, and raise
      forget(key, job);
      return job->code;
    }
    const auto job = std::make_shared<Job>();
    job->state = Job::State::Running;
    jobs_[key] = job;  // one that was queued is not begun any more
    lock.unlock();
    try {
      job->code = compile();
    } catch (...) {
      lock.lock();
      finish(key, job, Job::State::Failed);
      throw;
    }
    lock.lock();
    finish(key, job, Job::State::Done);
    return job->code;
  }

  void add(const std::string& key, CompileAhead compile) {
    const std::lock_guard lock(mutex_);
    if (stopped_ || queue_.size() >= kMostQueued || jobs_.contains(key)) return;
    const auto job = std::make_shared<Job>();
    job->compile = std::move(compile);
    jobs_[key] = job;
    queue_.emplace_back(key, job);
    try {
      start();
    } catch (...) {
      if (threads_.empty()) clear();  // nobody would ever empty it
    }
    work_.notify_one();
  }

  void set_most(int most) {
    const std::lock_guard lock(mutex_);
    most_ = static_cast<size_t>(most < 1 ? 1 : most);
    work_.notify_all();
  }

  bool wait(double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                             [&] { return queue_.empty() && busy_ == 0; });
  }

  // Ends the threads after what they compile now; those who add programs start none.
  void stop() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      threads.swap(threads_);
      join_ended();
    }
    work_.notify_all();
    for (std::thread& t : threads) t.join();
  }
  void drop_queue() {
    const std::lock_guard lock(mutex_);
    clear();
  }
  // Between the two, no thread but the one that forks changes anything.
  void before_fork() {
    stop();
    mutex_.lock();
  }
  void after_fork() {
    stopped_ = false;
    try {
      if (!queue_.empty()) start();
    } catch (const std::exception&) {  // no thread: who needs the programs compiles them
      clear();
    }
    mutex_.unlock();
  }

 private:
  // The lock is held in what follows.
  void forget(const std::string& key, const std::shared_ptr<Job>& job) {
    const auto it = jobs_.find(key);
    if (it != jobs_.end() && it->second == job) jobs_.erase(it);
  }
  void clear() {
    for (const auto& [key, job] : queue_) forget(key, job);
    queue_.clear();
  }
  void finish(const std::string& key, const std::shared_ptr<Job>& job, Job::State state) {
    job->state = state;
    forget(key, job);
    changed_.notify_all();
  }
  // Waits for the threads of ended_, which need the lock no more.
  void join_ended() {
    for (std::thread& t : ended_) t.join();
    ended_.clear();
  }
  // Moves this thread to the ended ones if there are too many. Returns whether that is so.
  bool end_this_one() {
    if (threads_.size() <= most_) return false;
    const auto mine = std::find_if(threads_.begin(), threads_.end(), [](const std::thread& t) {
      return t.get_id() == std::this_thread::get_id();
    });
    if (mine == threads_.end()) return false;
    ended_.push_back(std::move(*mine));
    threads_.erase(mine);
    return true;
  }
  void start() {
    join_ended();
    if (threads_.size() >= most_ || busy_ + queue_.size() <= threads_.size()) return;
    // Signals are for the program's threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      threads_.emplace_back([this] { run(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_.wait(lock, [&] { return stopped_ || !queue_.empty() || threads_.size() > most_; });
      if (stopped_ || end_this_one()) return;
      if (queue_.empty()) continue;
      const auto [key, job] = std::move(queue_.front());
      queue_.pop_front();
      const auto it = jobs_.find(key);
      if (it != jobs_.end() && it->second == job) {
        compile(lock, key, job);
      } else {
        changed_.notify_all();  // the queue may be empty now
      }
    }
  }
  void compile(std::unique_lock<std::mutex>& lock, const std::string& key,
               const std::shared_ptr<Job>& job) {
    job->state = Job::State::Running;
    ++busy_;
    lock.unlock();
    Job::State end = Job::State::Done;
    bool kept = false;
    try {
      job->code = job->compile(kept);
    } catch (...) {
      end = Job::State::Failed;
    }
    job->compile = nullptr;
    lock.lock();
    --busy_;
    job->state = end;
    // Else the one who needs it takes it.
    if (end == Job::State::Failed || kept) forget(key, job);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable work_, changed_;
  std::unordered_map<std::string, std::shared_ptr<Job>> jobs_;
  std::deque<std::pair<std::string, std::shared_ptr<Job>>> queue_;
  std::vector<std::thread> threads_, ended_;  // ended_: to be joined
  size_t most_ = 1, busy_ = 0;
  bool stopped_ = false;
};

Background* made() {
  static auto* b = new Background;  // never freed: threads may still compile at exit
  return b;
}
Background* g_after_fork = nullptr;  // in a child: the parent's one is locked for ever
Background& background() { return g_after_fork != nullptr ? *g_after_fork : *made(); }

void watch_process() {
  static const bool once = [] {
    nvrtc_version();  // loads the compiler, whose own end must come after that of the threads
    std::atexit([] {
      background().stop();
      background().drop_queue();
    });
    pthread_atfork([] { background().before_fork(); }, [] { background().after_fork(); },
                   [] { g_after_fork = new Background; });
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

std::string compiled_once(const std::string& key, const Compile& compile) {
  return background().get(key, compile);
}

bool compiles_ahead() noexcept {
  static const bool wanted = [] {
    const char* v = std::getenv("COGRAD_COMPILE_THREAD");
    return v == nullptr || std::strcmp(v, "0") != 0;
  }();
  return wanted && wait_policy() != WaitPolicy::Error;
}

void compile_ahead(const std::string& key, CompileAhead compile) noexcept {
  try {
    watch_process();
    background().add(key, std::move(compile));
  } catch (const std::exception&) {  // no compiler, no thread or no memory: it is needed later
  }
}

void set_compile_threads(int most) noexcept { background().set_most(most); }
bool wait_for_compile_threads(double seconds) { return background().wait(seconds); }

}  // namespace cograd::cuda
