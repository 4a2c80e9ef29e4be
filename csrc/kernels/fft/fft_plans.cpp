// SPDX-License-Identifier: BSD-3-Clause
// Keeps the plans of transforms that ran lately.
#include "kernels/fft/fft_plans.h"

#include <pthread.h>

#include <map>
#include <mutex>
#include <tuple>

#include "kernels/fft/fft_memory.h"

namespace cograd::kernels {

namespace {

constexpr size_t kMostPlans = 64;
constexpr int64_t kMostBytes = int64_t{64} << 20;

using Key = std::tuple<FftKind, DType, int64_t>;
struct Kept {
  std::shared_ptr<const FftPlan> plan;
  uint64_t used = 0;  // the number of the call that used it last
};

// Held while the table changes, so that no fork happens meanwhile.
std::mutex plans_mutex;

struct Table {
  std::map<Key, Kept> plans;
  uint64_t calls = 0;
  int64_t bytes = 0;

  void make_room(int64_t wanted) {
    while (!plans.empty() && (plans.size() >= kMostPlans || bytes + wanted > kMostBytes)) {
      auto oldest = plans.begin();
      for (auto it = plans.begin(); it != plans.end(); ++it)
        if (it->second.used < oldest->second.used) oldest = it;
      bytes -= oldest->second.plan->bytes();
      plans.erase(oldest);
    }
  }
};

Table& table() {
  static auto* made = [] {
    pthread_atfork([] { plans_mutex.lock(); }, [] { plans_mutex.unlock(); },
                   [] { plans_mutex.unlock(); });
    return new Table;
  }();
  return *made;
}

}  // namespace

std::shared_ptr<const FftPlan> fft_plan(FftKind kind, DType t, int64_t n) {
  Table& kept = table();
  const Key key{kind, t, n};
  {
    const std::lock_guard lock(plans_mutex);
    if (const auto found = kept.plans.find(key); found != kept.plans.end()) {
      found->second.used = ++kept.calls;
      return found->second.plan;
    }
  }
  std::shared_ptr<const FftPlan> plan;
  {
    const PlanScope scope;
    plan = fft_loops().plan(kind, t, n);
  }
  if (plan->bytes() > kMostBytes) return plan;
  const std::lock_guard lock(plans_mutex);
  kept.make_room(plan->bytes());
  if (kept.plans.emplace(key, Kept{plan, ++kept.calls}).second) kept.bytes += plan->bytes();
  return plan;
}

}  // namespace cograd::kernels
