// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/lib/cufft.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/launch.h"
#include "cuda/driver/timing.h"
#include "cuda/lib/plans.h"
#include "cuda/memory/scratch.h"

namespace cograd::cuda {

namespace {

// The prototypes and numbers are our own, from cuFFT's documentation.
using Handle = int;
enum : int { kFloat = 0, kDouble = 1, kComplexFloat = 4, kComplexDouble = 5 };
enum : int { kForward = -1, kInverse = 1 };
enum : int { kAllocFailed = 2 };

constexpr Status kStatuses[] = {
    {1, "CUFFT_INVALID_PLAN", "the handle is no plan"},
    {kAllocFailed, "CUFFT_ALLOC_FAILED", "there is not enough memory on the GPU"},
    {3, "CUFFT_INVALID_TYPE", "it does not transform this dtype"},
    {4, "CUFFT_INVALID_VALUE", "an argument is invalid"},
    {5, "CUFFT_INTERNAL_ERROR", "the library or the driver failed"},
    {6, "CUFFT_EXEC_FAILED", "the transform could not be started"},
    {7, "CUFFT_SETUP_FAILED", "the library could not start"},
    {8, "CUFFT_INVALID_SIZE", "it does not support this size"},
    {9, "CUFFT_UNALIGNED_DATA", "the data is not aligned"},
    {11, "CUFFT_INVALID_DEVICE", "the plan is of another GPU"},
    {13, "CUFFT_NO_WORKSPACE", "the plan has no work area"},
    {14, "CUFFT_NOT_IMPLEMENTED", "the library does not implement it"},
    {16, "CUFFT_NOT_SUPPORTED", "the library does not support it on this GPU"},
    {17, "CUFFT_MISSING_DEPENDENCY", "a library that cuFFT needs was not found"},
    {18, "CUFFT_NVRTC_FAILURE", "NVRTC failed to compile a kernel"},
    {19, "CUFFT_NVJITLINK_FAILURE", "nvJitLink failed to link a kernel"},
};

struct Loaded {
  Loaded()
      : library({"cuFFT", "COGRAD_CUFFT", "libcufft.so.12", "libcufft.so.11", "cufft",
                 "'cograd[cuda-full]' (CUDA 13) or 'cograd[cuda12-full]'"}) {
    library.get(create, "cufftCreate");
    library.get(destroy, "cufftDestroy");
    library.get(set_auto_allocation, "cufftSetAutoAllocation");
    library.get(set_work_area, "cufftSetWorkArea");
    library.get(set_stream, "cufftSetStream");
    library.get(make_plan, "cufftXtMakePlanMany");
    library.get(execute, "cufftXtExec");
  }
  Library library;
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*set_auto_allocation)(Handle, int) = nullptr;
  int (*set_work_area)(Handle, void*) = nullptr;
  int (*set_stream)(Handle, CUstream) = nullptr;
  int (*make_plan)(Handle, int rank, long long* n, long long* in_embed, long long in_stride,
                   long long in_distance, int in_type, long long* out_embed, long long out_stride,
                   long long out_distance, int out_type, long long batch, size_t* work_bytes,
                   int compute_type) = nullptr;
  int (*execute)(Handle, void* in, void* out, int direction) = nullptr;
};
const Loaded& api() {
  static const Loaded l;
  return l;
}

std::string points_of(const FftShape& s) {
  std::string text;
  for (int d = 0; d < s.rank; ++d)
    text += (d == 0 ? "" : " x ") + std::to_string(s.n[static_cast<size_t>(d)]);
  return text;
}
void check_status(int status, const char* slot, const FftShape& s, const char* what) {
  if (status == 0) [[likely]]
    return;
  detail::fail(
      status == kAllocFailed ? ErrorKind::Memory : ErrorKind::Runtime, slot, "(): cuFFT could not ",
      what, " for ", s.batch, " transforms of ", points_of(s),
      s.wide ? " points in float64: " : " points in float32: ", status_text(status, kStatuses));
}

class Plan {
 public:
  Plan(const char* slot, const FftShape& s) {
    const DuringCapture allowed;  // another thread's; the library allocates
    try {
      renew(slot, s);
      if (make(s) != 0) {  // its tables need memory that the cache may hold
        here().memory.release_cached();
        renew(slot, s);  // a handle makes one plan
        check_status(make(s), slot, s, "make a plan");
      }
    } catch (...) {
      destroy();
      throw;
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { destroy(); }

  void run(const char* slot, const FftShape& s, void* in, void* out, bool forward) const {
    const Scratch work(work_bytes_);
    check_status(api().set_stream(handle_, here().stream()), slot, s, "set the stream");
    check_status(api().set_work_area(handle_, work.data()), slot, s, "set the work area");
    const Timed timed("cufftXtExec");
    check_status(api().execute(handle_, in, out, forward ? kForward : kInverse), slot, s,
                 "start the kernels");
    launched("cufftXtExec");
  }

 private:
  void renew(const char* slot, const FftShape& s) {
    destroy();
    check_status(api().create(&handle_), slot, s, "make a plan");
    made_ = true;
    check_status(api().set_auto_allocation(handle_, 0), slot, s, "make a plan");
  }
  int make(const FftShape& s) {
    // Copies, because the library's parameters are not const.
    std::array<long long, 3> n{}, in{}, out{};
    std::copy_n(s.n.begin(), 3, n.begin());
    std::copy_n(s.in.embed.begin(), 3, in.begin());
    std::copy_n(s.out.embed.begin(), 3, out.begin());
    const int real = s.wide ? kDouble : kFloat, complex = s.wide ? kComplexDouble : kComplexFloat;
    return api().make_plan(handle_, s.rank, n.data(), in.data(), s.in.stride, s.in.distance,
                           s.kind == FftKind::ToHalf ? real : complex, out.data(), s.out.stride,
                           s.out.distance, s.kind == FftKind::FromHalf ? real : complex, s.batch,
                           &work_bytes_, complex);
  }
  // The library frees its tables when the kernels that read them have run.
  void destroy() noexcept {
    if (!std::exchange(made_, false) || forked()) return;
    const DuringCapture allowed;
    api().destroy(handle_);
  }

  Handle handle_ = 0;
  size_t work_bytes_ = 0;
  bool made_ = false;
};

// The plans of a GPU. The lock is held while a plan is set up and started, because a plan has one
// stream and one work area.
class PlansOfGpu {
 public:
  void run(const char* slot, const FftShape& s, void* in, void* out, bool forward) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Plan> plan = plans_.find(s);
    if (plan == nullptr) {
      refuse_captured(here().stream(), slot,
                      "cuFFT prepares a transform of a new shape at its first call");
      plan = std::make_shared<Plan>(slot, s);
      plans_.keep(s, plan);
    }
    plan->run(slot, s, in, out, forward);
    if (capture_of(here().stream()) != 0) captured_.insert(plan);
  }
  template <class F>
  auto locked(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(plans_);
  }

 private:
  std::mutex mutex_;
  PlanCache<FftShape, Plan> plans_;
  std::set<std::shared_ptr<Plan>> captured_;  // a graph's replays read their tables
};

PlansOfGpu& plans_of(int gpu) {
  static auto* const all = new std::array<PlansOfGpu, kMaxGpus>;  // the driver may end before us
  return all->at(static_cast<size_t>(gpu));
}

}  // namespace

const Library& cufft() { return api().library; }

void need_cufft() {
  if (!cufft().found()) throw NoLibrary("cuFFT is missing (" + cufft().why() + ")");
}

void cufft_transform(const char* slot, const FftShape& shape, void* in, void* out, bool forward) {
  plans_of(here().index).run(slot, shape, in, out, forward);
}

PlanNumbers fft_plans(int g) {
  return plans_of(g).locked([](auto& plans) { return plans.numbers(); });
}
void limit_fft_plans(int g, int64_t most) {
  plans_of(g).locked([most](auto& plans) { plans.limit(most); });
}
void clear_fft_plans(int g) {
  plans_of(g).locked([](auto& plans) { plans.clear(); });
}

}  // namespace cograd::cuda
