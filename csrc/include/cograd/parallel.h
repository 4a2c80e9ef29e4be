// SPDX-License-Identifier: BSD-3-Clause
// Parallel loops on cograd's threads.
#pragma once
#include <exception>

#include "cograd/detail/call.h"

namespace cograd {
inline namespace abi1 {

// Calls f(begin, end) on chunks of at least `grain` items on several threads; chunk boundaries do
// not depend on the number of threads. Rethrows the first exception once all calls have ended.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  if (begin >= end) return;
  if (end - begin <= grain || grain <= 0) {
    f(begin, end);
    return;
  }
  struct Context {
    const F& f;
    bool failed = false;
    std::exception_ptr error{};
  } context{f};
  const cograd_status s = cograd_parallel_for(
      begin, end, grain,
      [](void* c, int64_t lo, int64_t hi) -> cograd_status {
        auto& k = *static_cast<Context*>(c);
        try {
          k.f(lo, hi);
          return COGRAD_OK;
        } catch (...) {
          if (!__atomic_exchange_n(&k.failed, true, __ATOMIC_ACQ_REL))
            k.error = std::current_exception();
          return ext::set_error(COGRAD_RUNTIME_ERROR, "parallel_for");
        }
      },
      &context);
  if (context.error) std::rethrow_exception(context.error);
  ext::check(s);
}
inline int get_num_threads() { return cograd_num_threads(); }
inline void set_num_threads(int n) { ext::check(cograd_set_num_threads(n)); }
inline bool in_parallel_region() { return cograd_in_parallel_region() != 0; }

// Put this around long work on this thread: other Python threads can run in its scope.
class HeavyGuard {
 public:
  HeavyGuard() : state_(cograd_heavy_begin()) {}
  ~HeavyGuard() { cograd_heavy_end(state_); }
  HeavyGuard(const HeavyGuard&) = delete;
  HeavyGuard& operator=(const HeavyGuard&) = delete;

 private:
  void* state_;
};

}  // namespace abi1
}  // namespace cograd
