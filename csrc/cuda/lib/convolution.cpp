// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/lib/convolution.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda/driver/capture.h"
#include "cuda/driver/launch.h"
#include "cuda/driver/timing.h"
#include "cuda/lib/cudnn.h"
#include "cuda/lib/plans.h"
#include "cuda/memory/scratch.h"

namespace cograd::cuda {

namespace {

using kernels::ConvShape;

// Algorithms that need more workspace than this are not used.
constexpr size_t kMostWorkspace = size_t{1} << 30;
// cuDNN's kernels may read 16 bytes at once.
constexpr uintptr_t kAlignment = 16;

struct Key {
  ConvPass pass;
  DType dtype;
  bool tf32, deterministic;
  ConvShape shape;
  auto operator<=>(const Key&) const = default;
};

// Returns cuDNN's number of a dtype, or -1.
int type_of(DType t) noexcept {
  switch (t) {
    case DType::Float32:
      return kCudnnFloat;
    case DType::Float64:
      return kCudnnDouble;
    case DType::Float16:
      return kCudnnHalf;
    case DType::BFloat16:
      return kCudnnBFloat16;
    default:
      return -1;
  }
}

// cuDNN counts in 32 bits, takes no empty arrays, and expects every position that the kernel
// reaches; a transposed convolution may have fewer.
bool fits(const ConvShape& s) noexcept {
  constexpr int64_t kMost = INT32_MAX, kMostStep = 1 << 20;
  const int64_t x = s.batch * s.groups * s.in_channels * s.in_size();
  const int64_t y = s.batch * s.groups * s.out_channels * s.out_size();
  const int64_t w = s.groups * s.out_channels * s.depth();
  if (std::min({x, y, w}) == 0 || std::max({x, y, w}) > kMost) return false;
  for (int d = 0; d < 3; ++d) {
    if (std::max({s.stride[d], s.padding[d], s.kernel[d] == 1 ? 1 : s.dilation[d]}) > kMostStep)
      return false;
    const int64_t reach = s.dilation[d] * (s.kernel[d] - 1) + 1;
    if ((s.in[d] + 2 * s.padding[d] - reach) / s.stride[d] + 1 != s.out[d]) return false;
  }
  return true;
}

class Event {
 public:
  Event() { check(driver().event_create(&event_, 0), "cuEventCreate"); }
  ~Event() { driver().event_destroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record() { check(driver().event_record(event_, here().stream()), "cuEventRecord"); }
  float milliseconds_since(const Event& first) {
    check(driver().event_synchronize(event_), "cuEventSynchronize");
    float ms = 0;
    check(driver().event_elapsed(&ms, first.event_, event_), "cuEventElapsedTime");
    return ms;
  }

 private:
  CUevent event_ = nullptr;
};

// The arrays of a call.
struct Arrays {
  const void *a, *b;
  void* c;
};

class Plan {
 public:
  explicit Plan(const Key& k) : key_(k) {}
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    const CudnnApi& api = cudnn_api();
    if (x_ != nullptr) api.tensor_destroy(x_);
    if (y_ != nullptr) api.tensor_destroy(y_);
    if (w_ != nullptr) api.filter_destroy(w_);
    if (convolution_ != nullptr) api.convolution_destroy(convolution_);
  }

  // Describes the convolution and asks for its algorithms, the fastest one first.
  void prepare(CudnnHandle handle) {
    if (!describe()) return;
    std::array<CudnnChoice, 16> choices{};  // a pass has up to 8 algorithms, some by two maths
    int found = 0;
    const auto [a, b, c] = arrays();
    if (!accepted(pass().choose(handle, a, b, convolution_, c, static_cast<int>(choices.size()),
                                &found, choices.data()),
                  "search for algorithms"))
      return;
    for (int i = 0; i < found; ++i) {
      const CudnnChoice& choice = choices[static_cast<size_t>(i)];
      if (choice.status != 0 || (key_.deterministic && choice.deterministic == 0)) continue;
      // The choice may name another kind of product than was asked for. Exact ones stay exact, and
      // then an algorithm may be there twice.
      const int math = math_ == kExactMath ? kExactMath : choice.math;
      const bool known = std::any_of(
          candidates_.begin(), candidates_.end(),
          [&](const Candidate& k) { return k.algorithm == choice.algorithm && k.math == math; });
      if (known || math == kConvertingMath ||
          !described(set_math(math), "cudnnSetConvolutionMathType"))
        continue;
      size_t bytes = 0;
      if (pass().workspace(handle, a, b, convolution_, c, choice.algorithm, &bytes) == 0 &&
          bytes <= kMostWorkspace)
        candidates_.push_back({choice.algorithm, math, bytes});
    }
  }

  // Returns false if no algorithm can be used.
  bool run(CudnnHandle handle, const Arrays& at) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < candidates_.size();) {
      const Outcome o = attempt(handle, candidates_[i], at, 1);
      if (o == Outcome::Done) return true;
      if (o == Outcome::NoMemory)
        ++i;
      else
        drop(i);
    }
    return false;
  }

  bool measured() const noexcept { return measured_; }
  // Orders the first algorithms, `most` or all if it is 0, by the time that they take.
  void measure(CudnnHandle handle, const Arrays& at, int most) {
    constexpr int kRuns = 3;
    const std::lock_guard lock(mutex_);
    if (measured_) return;
    std::vector<std::pair<float, Candidate>> timed;
    std::vector<Candidate> rest;
    Event begin, end;
    for (size_t i = 0; i < candidates_.size();) {
      const Candidate c = candidates_[i];
      const bool try_it = most <= 0 || timed.size() < static_cast<size_t>(most);
      Outcome o = try_it ? attempt(handle, c, at, 1) : Outcome::NoMemory;  // the first run is slow
      if (o == Outcome::Done) {
        begin.record();
        o = attempt(handle, c, at, kRuns);
        end.record();
      }
      if (o == Outcome::Unsupported) {
        drop(i);
        continue;
      }
      if (o == Outcome::Done)
        timed.emplace_back(end.milliseconds_since(begin), c);
      else
        rest.push_back(c);
      ++i;
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const auto& p, const auto& q) { return p.first < q.first; });
    candidates_.clear();
    for (const auto& [time, c] : timed) candidates_.push_back(c);
    candidates_.insert(candidates_.end(), rest.begin(), rest.end());
    measured_ = true;
  }

 private:
  struct Candidate {
    int algorithm, math;
    size_t workspace;
  };
  enum class Outcome : uint8_t { Done, NoMemory, Unsupported };

  const CudnnPass& pass() const noexcept {
    const CudnnApi& api = cudnn_api();
    return key_.pass == ConvPass::Forward     ? api.forward
           : key_.pass == ConvPass::InputGrad ? api.input_grad
                                              : api.weight_grad;
  }
  std::array<CudnnDescriptor, 3> arrays() const noexcept {
    if (key_.pass == ConvPass::Forward) return {x_, w_, y_};
    if (key_.pass == ConvPass::InputGrad) return {w_, y_, x_};
    return {x_, y_, w_};
  }
  // Returns false for a status that says that cuDNN does not compute this; raises for others, or
  // an error would be kept as a plan without algorithms.
  bool accepted(int status, const char* function) const {
    if (status == 0) return true;
    if (status != kCudnnBadParameter && !cudnn_unsupported(status)) fail(status, function);
    return false;
  }
  // Does the same for a function of a descriptor, which may also refuse a value.
  bool described(int status, const char* function) const {
    return status != kCudnnInvalidValue && accepted(status, function);
  }
  [[noreturn]] void fail(int status, const char* function) const {
    const ConvShape& s = key_.shape;
    std::string text =
        "input (" + std::to_string(s.batch) + ", " + std::to_string(s.groups * s.in_channels);
    for (const int64_t n : s.in) text += ", " + std::to_string(n);
    text += "), weight (" + std::to_string(s.groups * s.out_channels) + ", " +
            std::to_string(s.in_channels);
    for (const int64_t n : s.kernel) text += ", " + std::to_string(n);
    fail_cudnn(status, function, text + ") of " + dtype_name(key_.dtype));
  }
  int set_math(int math) { return cudnn_api().convolution_set_math(convolution_, math); }

  bool describe() {
    const CudnnApi& api = cudnn_api();
    const ConvShape& s = key_.shape;
    const int type = type_of(key_.dtype);
    // At least two dims; the first is left out if nothing moves along it.
    const int skip = s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0 ? 1 : 0;
    const int n = 5 - skip;
    using Sizes = std::array<int, 5>;
    const auto sizes = [&](int64_t first, int64_t second, const int64_t* others) {
      Sizes to{static_cast<int>(first), static_cast<int>(second)};
      for (int d = skip; d < 3; ++d)
        to[static_cast<size_t>(2 + d - skip)] = static_cast<int>(others[d]);
      return to;
    };
    const auto tensor = [&](CudnnDescriptor& d, const Sizes& of) {
      Sizes strides{};
      int step = 1;
      for (auto i = static_cast<size_t>(n); i-- > 0; step *= of[i]) strides[i] = step;
      return described(api.tensor_create(&d), "cudnnCreateTensorDescriptor") &&
             described(api.tensor_set(d, type, n, of.data(), strides.data()),
                       "cudnnSetTensorNdDescriptor");
    };
    constexpr int kRowMajor = 0, kCrossCorrelation = 1;
    const bool wide = key_.dtype == DType::Float64, half = dtype_size(key_.dtype) == 2;
    math_ = half ? kTensorMath : wide || key_.tf32 ? kDefaultMath : kExactMath;
    std::array<int, 3> padding{}, stride{}, dilation{};
    for (int d = skip; d < 3; ++d) {
      const auto i = static_cast<size_t>(d - skip);
      padding[i] = static_cast<int>(s.padding[d]);
      stride[i] = static_cast<int>(s.stride[d]);
      dilation[i] = s.kernel[d] == 1 ? 1 : static_cast<int>(s.dilation[d]);
    }
    return tensor(x_, sizes(s.batch, s.groups * s.in_channels, s.in)) &&
           tensor(y_, sizes(s.batch, s.groups * s.out_channels, s.out)) &&
           described(api.filter_create(&w_), "cudnnCreateFilterDescriptor") &&
           described(
               api.filter_set(w_, type, kRowMajor, n,
                              sizes(s.groups * s.out_channels, s.in_channels, s.kernel).data()),
               "cudnnSetFilterNdDescriptor") &&
           described(api.convolution_create(&convolution_), "cudnnCreateConvolutionDescriptor") &&
           described(api.convolution_set(convolution_, n - 2, padding.data(), stride.data(),
                                         dilation.data(), kCrossCorrelation,
                                         wide ? kCudnnDouble : kCudnnFloat),
                     "cudnnSetConvolutionNdDescriptor") &&
           described(api.convolution_set_groups(convolution_, static_cast<int>(s.groups)),
                     "cudnnSetConvolutionGroupCount") &&
           described(set_math(math_), "cudnnSetConvolutionMathType");
  }

  Outcome attempt(CudnnHandle handle, const Candidate& k, const Arrays& at, int runs) {
    std::optional<Scratch> work;
    if (k.workspace > 0) {
      try {
        work.emplace(k.workspace);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::Memory) throw;
        return Outcome::NoMemory;
      }
    }
    if (!described(set_math(k.math), "cudnnSetConvolutionMathType")) return Outcome::Unsupported;
    const double wide[2] = {1, 0};
    const float narrow[2] = {1, 0};
    const bool is_wide = key_.dtype == DType::Float64;
    const void* const one = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0];
    const void* const zero = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
    const auto [a, b, c] = arrays();
    for (int i = 0; i < runs; ++i) {
      const Timed timed(pass().name);
      const auto start = [&] {
        return pass().run(handle, one, a, at.a, b, at.b, convolution_, k.algorithm,
                          work ? work->data() : nullptr, k.workspace, zero, c, at.c);
      };
      int status = start();
      if (status == kCudnnOutOfMemory && k.workspace == 0) {  // no other algorithm needs less
        here().memory.release_cached();
        status = start();
      }
      if (cudnn_unsupported(status)) return Outcome::Unsupported;
      if (status == kCudnnOutOfMemory && k.workspace > 0) return Outcome::NoMemory;
      if (status != 0) fail(status, pass().name);
      launched(pass().name);
    }
    return Outcome::Done;
  }
  void drop(size_t i) { candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(i)); }

  const Key key_;
  CudnnDescriptor x_ = nullptr, y_ = nullptr, w_ = nullptr, convolution_ = nullptr;
  int math_ = kDefaultMath;
  std::mutex mutex_;  // is held while kernels are started: the kind of products changes
  std::vector<Candidate> candidates_;
  std::atomic<bool> measured_{false};
};

struct PlansOfGpu {
  std::mutex mutex;
  PlanCache<Key, Plan> plans;
};
PlansOfGpu& plans_of(int gpu) {
  static auto* const all = new std::array<PlansOfGpu, kMaxGpus>;  // the driver may end before us
  return all->at(static_cast<size_t>(gpu));
}
std::shared_ptr<Plan> plan_of(int gpu, const Key& k, CudnnHandle handle) {
  PlansOfGpu& of = plans_of(gpu);
  const std::lock_guard lock(of.mutex);
  std::shared_ptr<Plan> plan = of.plans.find(k);
  if (plan == nullptr) {
    plan = std::make_shared<Plan>(k);
    plan->prepare(handle);
    of.plans.keep(k, plan);
  }
  return plan;
}

// An array, or a copy of it that is aligned.
class Aligned {
 public:
  Aligned(const void* p, int64_t bytes) : at_(p) {
    const auto from = reinterpret_cast<CUdeviceptr>(p);
    if (from % kAlignment == 0) return;
    copy_.emplace(static_cast<size_t>(bytes));
    check(driver().copy_on_device(reinterpret_cast<CUdeviceptr>(copy_->data()), from,
                                  static_cast<size_t>(bytes), here().stream()),
          "cuMemcpyDtoDAsync");
    at_ = copy_->data();
  }
  const void* get() const noexcept { return at_; }

 private:
  std::optional<Scratch> copy_;
  const void* at_;
};

}  // namespace

bool cudnn_convolution(ConvPass pass, DType t, const ConvShape& s, const void* a, const void* b,
                       void* c) {
  const CudnnSwitches& on = cudnn_switches;
  if (!on.enabled || type_of(t) < 0 || !fits(s) || reinterpret_cast<uintptr_t>(c) % kAlignment != 0)
    return false;
  if (!cudnn().found()) return false;
  Gpu& gpu = here();
  CudnnHandle const handle = cudnn_handle();
  if (handle == nullptr) return false;
  const Key key{pass, t, t == DType::Float32 && on.tf32,
                on.deterministic || on.deterministic_algorithms, s};
  const DuringCapture allowed;  // the library loads kernels at their first use
  const std::shared_ptr<Plan> plan = plan_of(gpu.index, key, handle);
  const int64_t item = dtype_size(t);
  const int64_t x = s.batch * s.groups * s.in_channels * s.in_size() * item;
  const int64_t y = s.batch * s.groups * s.out_channels * s.out_size() * item;
  const int64_t w = s.groups * s.out_channels * s.depth() * item;
  const Aligned first(a, pass == ConvPass::InputGrad ? w : x);
  const Aligned second(b, pass == ConvPass::Forward ? w : y);
  const Arrays at{first.get(), second.get(), c};
  // Measuring waits for the GPU, which would spoil a capture.
  if (on.benchmark && !plan->measured() && !capture_open()) {
    before_wait(gpu.stream(), "convolution()");  // before the lock, as it may call Python
    plan->measure(handle, at, on.benchmark_limit);
  }
  return plan->run(handle, at);
}

PlanNumbers convolution_plans(int gpu) {
  PlansOfGpu& of = plans_of(gpu);
  const std::lock_guard lock(of.mutex);
  return of.plans.numbers();
}
void limit_convolution_plans(int gpu, int64_t most) {
  PlansOfGpu& of = plans_of(gpu);
  const std::lock_guard lock(of.mutex);
  of.plans.limit(most);
}
void clear_convolution_plans(int gpu) {
  PlansOfGpu& of = plans_of(gpu);
  const std::lock_guard lock(of.mutex);
  of.plans.clear();
}

}  // namespace cograd::cuda
