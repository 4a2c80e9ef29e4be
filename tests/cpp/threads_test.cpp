// SPDX-License-Identifier: BSD-3-Clause
// The thread pool: every chunk runs once, whoever comes, wakes, sleeps, forks or throws, and no
// thread burns time that nobody needs. Exits 1 on failure.
#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tensor/relatives.h"
#include "tensor/threads.h"

using namespace cograd;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

int g_failures = 0;

#define EXPECT(condition, ...)           \
  if (!(condition) && ++g_failures < 40) \
  std::printf("FAIL %s\n", cograd::detail::concat(__LINE__, ": ", __VA_ARGS__).c_str())

#if defined(__SANITIZE_THREAD__)
constexpr bool kForks = false;  // its run-time library does not follow threads into a child
#else
constexpr bool kForks = true;
#endif

void pause(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }

// Runs a loop and checks that each index was met once.
void cover(int64_t n, int64_t grain) {
  std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
  parallel_for(0, n, grain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) ++hits[static_cast<size_t>(lo)];
  });
  const bool once = std::all_of(hits.begin(), hits.end(), [](const auto& h) { return h == 1; });
  EXPECT(once, "a loop over ", n, " by ", grain, " missed or repeated an index");
}

void test_sizes_and_pauses() {
  std::mt19937 random(1);
  for (int threads : {1, 2, 3, 7, 16, 64}) {
    set_num_threads(threads);
    for (int round = 0; round < 400; ++round) {
      cover(random() % 2000, 1 + random() % 40);
      if (round % 50 == 0) pause(static_cast<int>(random() % 3));  // workers fall asleep
    }
  }
}

// More spinning threads than processors beside the pool: workers come late or not at all.
void test_under_load() {
  set_num_threads(8);
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    load.emplace_back([&] {
      while (!stop) {
      }
    });
  for (int round = 0; round < 300; ++round) cover(500, 3);
  stop = true;
  for (std::thread& t : load) t.join();
}

void test_exceptions() {
  set_num_threads(8);
  for (int64_t round = 0; round < 300; ++round) {
    bool caught = false;
    try {
      parallel_for(0, 1000, 10, [&](int64_t lo, int64_t) {
        if (lo % 200 == 10 * (round % 20)) throw std::runtime_error("from a chunk");
      });
    } catch (const std::runtime_error&) {
      caught = true;
    }
    EXPECT(caught, "exception lost in round ", round);
    cover(300, 3);
  }
}

// Loops of one thread while another has the pool: they get it as soon as it is free.
void test_second_caller() {
  set_num_threads(4);
  std::atomic<bool> first_runs{false};
  std::thread first([&] {
    parallel_for(0, 8, 1, [&](int64_t, int64_t) {
      first_runs = true;
      pause(10);
    });
  });
  while (!first_runs) std::this_thread::yield();
  std::mutex mutex;
  std::set<std::thread::id> helpers;
  parallel_for(0, 64, 1, [&](int64_t, int64_t) {
    pause(2);
    const std::lock_guard lock(mutex);
    helpers.insert(std::this_thread::get_id());
  });
  first.join();
  EXPECT(helpers.size() > 1, "nobody helped the second caller");
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 6; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        parallel_for(0, 1000, 50, [&](int64_t lo, int64_t hi) {
          parallel_for(lo, hi, 5, [&](int64_t l, int64_t h) { sum += h - l; });
        });
    });
  for (std::thread& t : callers) t.join();
  EXPECT(sum == int64_t{6} * 200 * 1000, "concurrent callers lost work: ", sum.load());
}

void test_work_that_is_offered() {
  struct Work final : SharedWork {
    std::atomic<int> left{500}, done{0};
    bool wants_help() const noexcept override { return helpers < 3 && left > 0; }
    void help() noexcept override {
      while (left.fetch_sub(1) > 0) ++done;
    }
  };
  set_num_threads(4);
  for (int round = 0; round < 100; ++round) {
    Work work;
    {
      const WorkOffer offer(work, 3);
      for (int i = 0; i < 3; ++i) call_helper();
      cover(100, 30);
      work.help();
    }
    EXPECT(work.done == 500, "offered work was done ", work.done.load(), " times");
  }
}

// How often each thread of the process has gone to sleep.
std::map<std::string, long> sleeps() {
  std::map<std::string, long> found;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    std::ifstream file(std::string("/proc/self/task/") + task->d_name + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0)
        found[task->d_name] = std::stol(line.substr(line.find(':') + 1));
  }
  closedir(tasks);
  return found;
}

void test_only_useful_workers_wake() {
  set_num_threads(8);
  parallel_for(0, 8, 1, [](int64_t, int64_t) { pause(5); });
  pause(50);  // all workers sleep
  auto before = sleeps();
  parallel_for(0, 2, 1, [](int64_t, int64_t) { pause(5); });
  pause(50);
  int woken = -1;  // without the caller
  for (const auto& [task, count] : sleeps()) woken += count != before[task];
  EXPECT(woken <= 1, "a loop of two chunks woke ", woken, " workers");
  before = sleeps();
  parallel_for(0, 8, 1, [](int64_t, int64_t) { pause(50); });
  woken = -1;
  for (const auto& [task, count] : sleeps()) woken += count != before[task];
  EXPECT(woken == 7, "a loop of eight chunks woke ", woken, " workers");
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void test_nothing_spins_for_long() {
  for (int threads : {2, 8}) {
    set_num_threads(threads);
    cover(1000, 1);
    const double before = cpu_seconds();
    pause(100);
    const double each = (cpu_seconds() - before) / (threads - 1);
    EXPECT(each < 2e-3, "a worker of ", threads, " threads used ", 1e3 * each, " ms after a loop");
  }
}

void test_forks() {
  set_num_threads(4);
  std::fflush(stdout);
  for (int round = 0; round < 20; ++round) {
    cover(100, 1);
    const pid_t child = fork();
    if (child == 0) {
      g_failures = 0;
      cover(1000, 3);
      _exit(g_failures);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(status == 0, "forked child failed");
  }
}

void test_relatives_share() {
  std::vector<pid_t> children(3);
  for (pid_t& child : children) {
    child = fork();
    if (child != 0) continue;
    int share = 0;
    for (const auto end = steady_clock::now() + milliseconds(700); steady_clock::now() < end;) {
      share = share_of_relatives(12);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    _exit(share);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(WEXITSTATUS(status) == 4, "one of three children took ", WEXITSTATUS(status), " of 12");
  }
  pause(200);
  EXPECT(share_of_relatives(12) == 12, "children that ended still count");
}

}  // namespace

int main() {
  test_sizes_and_pauses();
  test_under_load();
  test_exceptions();
  test_second_caller();
  test_work_that_is_offered();
  test_only_useful_workers_wake();
  test_nothing_spins_for_long();
  if (kForks) {
    test_forks();
    test_relatives_share();
  }
  std::printf(g_failures == 0 ? "ok\n" : "%d failures\n", g_failures);
  return g_failures == 0 ? 0 : 1;
}
