// SPDX-License-Identifier: BSD-3-Clause
// The fallback stage. It copies the arguments to the host, calls the op there and copies back what
// it returns and writes. The copies are recorded ops, so gradients, vmap and forward mode flow
// through them, and this file knows nothing of these.
#include "ops/declare/fallback.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "autograd/graph/variable.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/overlap.h"
#include "ops/declare/changed_arguments.h"
#include "ops/declare/device_stage.h"
#include "ops/declare/op.h"
#include "ops/declare/ops.h"
#include "ops/declare/stages.h"
#include "tensor/backend.h"
#include "tensor/slot.h"
#include "tensor/warn.h"

namespace cograd {

constinit ForeignFacts foreign_facts{};

namespace {

constinit std::atomic<FallbackPolicy> g_policy{FallbackPolicy::Warn};
constinit std::atomic<bool> g_forced{false};

class Counts {
 public:
  // Returns true at the first call for the op.
  bool add(const std::string& op, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    FallbackCount& c = counts_[op];
    c.bytes += bytes;
    return ++c.calls == 1;
  }
  std::vector<FallbackCount> list() {
    const std::lock_guard lock(mutex_);
    std::vector<FallbackCount> all;
    for (const auto& [op, count] : counts_) all.push_back({op, count.calls, count.bytes});
    return all;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    counts_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, FallbackCount> counts_;
};
Counts& counts() {
  static auto* c = new Counts;  // never freed: a thread may run an op while the process exits
  return *c;
}

std::string name_of(const OpRecord& r) {
  return r.foreign != nullptr ? foreign_facts.name(*r.foreign) : std::string(r.spec.name);
}

// Returns a number that depends on every byte of a tensor whose elements are dense in memory.
uint64_t checksum(const Tensor& t) noexcept {
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;
  const char* p = t.bytes();
  int64_t left = t.numel() * t.itemsize();
  uint64_t sum = 0, word = 0;
  for (; left >= 8; left -= 8, p += 8) {
    std::memcpy(&word, p, 8);
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 32;
  }
  word = 0;
  std::memcpy(&word, p, static_cast<size_t>(left));
  return (sum ^ word) * kPrime;
}

// True if the device of the thread's place has kernels for the op.
bool has_kernels(const OpRecord& r) {
  if (r.foreign != nullptr) return foreign_facts.runs_on(*r.foreign, thread_place.now.type);
  if (!g_forced.load(std::memory_order_relaxed)) return true;
  const uint32_t kind = r.spec.flags & kKindMask;
  return kind == kView || kind == kCast || kind == kCreation || r.traits.mixes_devices ||
         (r.composite && !r.looped) || (r.spec.flags & kAlias) != 0;
}

// A call of an op on copies of its arguments.
class HostCall {
 public:
  HostCall(const StagedCall& call, const std::string& why)
      : call_(call),
        why_(why),
        name_(name_of(call.record)),
        // An extension computes on pointers, so it can write what it does not declare to write.
        suspicious_(call.record.foreign != nullptr && fallback_policy() != FallbackPolicy::Silent),
        device_(thread_place.now),
        args_(call.record, call.args) {
    args_.map([this](const Tensor& t) { return host(t); });
    for (size_t i = 0; i < args_.size(); ++i)
      if (args_[i].kind == COGRAD_DEVICE) args_[i].set_device(kHost);
  }

  void run() {
    const CallForm& form = call_.form;
    if (form.form == Form::Plain) {
      call_host(form, call_.out);
      write_back(nullptr);
      each_tensor(call_.out, [this](Tensor& t) { t = returned(t); });
    } else if (form.form == Form::InPlace) {
      run_inplace();
    } else {
      run_out();
    }
    report();
  }

 private:
  struct Copy {
    Tensor there, here;
    uint32_t version;  // of `here`, before the call
    uint64_t checksum;
  };

  // Returns the one copy of `t` on the host, so that arguments that are one tensor remain one.
  Tensor host(const Tensor& t) {
    if (t->device == kHost) return t;
    for (const Copy& c : copies_)
      if (c.there.is(t)) return c.here;
    Tensor here = to_device(t, kHost);
    bytes_ += t.numel() * t.itemsize();
    const bool check = suspicious_ && !transformed(here);
    copies_.push_back({t, here, here->version(), check ? checksum(here) : 0});
    return here;
  }
  Tensor back(const Tensor& t) {
    bytes_ += t.numel() * t.itemsize();
    return to_device(t, device_);
  }
  void call_host(const CallForm& form, Result& out) {
    const PlaceGuard host(kHost);
    run_stages(call_.record, form, args_.data(), out);
    if (suspicious_) check_unwritten();
  }
  // Raises if the op has written a copy and did not say so: the device's tensor would not change.
  void check_unwritten() const {
    for (const Copy& c : copies_)
      COGRAD_CHECK(
          transformed(c.here) || c.here->version() != c.version || checksum(c.here) == c.checksum,
          name(), "(): it has written into a tensor of shape ", to_string(c.here.sizes()),
          " that it takes as an input, on a copy of which it ran instead of on ",
          to_string(device_),
          ". Declare the parameter as one that is written (Tensor& in "
          "C++, Tensor(a!) in a schema), or bump the tensor's version");
  }

  void run_inplace() {
    const Tensor& self = *call_.form.target;
    const bool tracked = thread_state.grad_enabled && any_requires_grad();
    if (!transformed(self)) check_inplace(self, name(), tracked);
    each_tensor(call_.record, call_.args, [&](size_t i, const Tensor& t) {
      if (i != 0 && overlaps_partially(self, t)) fail_overlap(name());
    });
    copy_(self, back(written_copy()));
  }
  void run_out() {
    const Tensor& out = *call_.form.target;
    detail::check_outs(call_.record.spec, {&out, 1}, {call_.args, args_.size()},
                       any_requires_grad());
    {
      const GradGuard no_grad(false);
      detail::finish_target(call_.record.spec, out, back(written_copy()), false);
    }
    out->bump_version();
  }

  // Runs a call with a target on the target's copy, which it returns.
  Tensor written_copy() {
    const Tensor& target = *call_.form.target;
    Tensor here = host(target);
    CallForm form = call_.form;
    form.target = &here;
    form.values = {args_.data(), args_.size()};
    Result none;
    call_host(form, none);
    write_back(&target);
    return here;
  }

  bool any_requires_grad() const {
    bool any = false;
    each_tensor(call_.record, call_.args,
                [&](size_t, const Tensor& t) { any = any || requires_grad(t); });
    return any;
  }
  bool written(const Copy& c, const Tensor* target) const {
    return c.here->version() != c.version && (target == nullptr || !c.there.is(*target));
  }
  // Writes what the op wrote into its arguments, apart from `target`; checks all before the first.
  void write_back(const Tensor* target) {
    for (const Copy& c : copies_)
      if (written(c, target)) check_written(c);
    for (const Copy& c : copies_)
      if (written(c, target)) copy_(c.there, back(c.here));
  }
  void check_written(const Copy& c) const {
    if (transformed(c.there)) return;
    check_inplace(c.there, name(), thread_state.grad_enabled && requires_grad(c.there));
    check_distinct(name(), c.there);
    for (const Copy& other : copies_)  // on the host it would have seen the write
      COGRAD_CHECK_NOT_IMPLEMENTED(
          other.there.is(c.there) || other.there->storage != c.there->storage, name(),
          "(): it writes an argument that shares memory with another one, so it cannot run on ",
          "copies on the host instead of on ", to_string(device_));
  }
  // Returns what stands on the device for a result of the call on the host.
  Tensor returned(const Tensor& t) {
    if (t->device != kHost) return t;
    for (const Copy& c : copies_) {
      if (c.here.is(t)) return c.there;
      COGRAD_CHECK_NOT_IMPLEMENTED(
          transformed(t) || t.numel() == 0 || t->storage != c.here->storage, name(),
          "(): it returns a view of its argument, which cannot run on ", "the host instead of on ",
          to_string(device_));
    }
    if ((t->flags & kRequiresGrad) == 0) return back(t);
    Tensor leaf;  // made with requires_grad=True
    {
      const GradGuard no_grad(false);
      leaf = back(t);
    }
    set_requires_grad(leaf, true);
    return leaf;
  }

  const char* name() const noexcept { return name_.c_str(); }
  void report() const {
    if (counts().add(name_, bytes_) && fallback_policy() == FallbackPolicy::Warn)
      warn(detail::concat(name(), "(): there is no kernel for ", to_string(device_),
                          ", so it ran on the CPU; ", bytes_,
                          " bytes were copied to the CPU and back. ", why_,
                          why_.empty() ? "" : ". ", "This is said once per op"));
  }

  const StagedCall& call_;
  const std::string& why_;  // a sentence, or ""
  std::string name_;
  bool suspicious_;
  Device device_;
  std::vector<Copy> copies_;
  int64_t bytes_ = 0;
  ChangedArguments args_;  // made from the copies
};

}  // namespace

void set_fallback(FallbackPolicy policy) noexcept { g_policy = policy; }
FallbackPolicy fallback_policy() noexcept { return g_policy; }
std::vector<FallbackCount> fallbacks() { return counts().list(); }
void clear_fallbacks() { counts().clear(); }
void force_fallback(bool on) noexcept { g_forced = on; }

namespace {

void fall_back(const StagedCall& call, const std::string& why = {}) {
  COGRAD_CHECK(
      !capturing(), name_of(call.record), "(): there is no kernel for ",
      to_string(thread_place.now),
      ", so it runs on the CPU, which a CUDA graph cannot capture. Call it before or after "
      "the capture");
  COGRAD_CHECK_NOT_IMPLEMENTED(fallback_policy() != FallbackPolicy::Error, name_of(call.record),
                               "(): there is no kernel for ", to_string(thread_place.now),
                               ", and set_fallback('error') forbids to run it on the CPU",
                               why.empty() ? "" : ". ", why);
  HostCall(call, why).run();
}

// The versions of all tensor arguments, added up: it changes if one is written.
uint64_t versions_of(const StagedCall& call) {
  uint64_t sum = 0;
  each_tensor(call.record, call.args, [&](size_t, const Tensor& t) { sum += t->version(); });
  return sum;
}

// The op whose call this thread tries on the device. Its batching rule and its tangents call it
// again, and need the device's results: only the outer call may fall back.
thread_local const OpRecord* tried = nullptr;

void try_on_device(const StagedCall& call) {
  const OpRecord* const before = std::exchange(tried, &call.record);
  struct Restore {
    const OpRecord* before;
    ~Restore() { tried = before; }
  } const restore{before};
  run_behind(fallback_stage, call);
}

void run_or_fall_back(Backend& backend, const StagedCall& call) {
  const uint64_t launches = backend.launches(), versions = versions_of(call);
  std::string why;
  try {
    return try_on_device(call);
  } catch (const NoKernel& e) {
    // A plain call drops what it has computed so far. A target may have been written in part.
    const bool may_have_written = call.form.form != Form::Plain && backend.launches() != launches;
    if (may_have_written || versions_of(call) != versions)
      detail::fail(ErrorKind::NotImplemented, call.record.spec.name,
                   "(): it had started on the device when a kernel was missing, so it cannot be ",
                   "repeated on the CPU. Call the form without a target. ", e.message());
    if (dynamic_cast<const NoLibrary*>(&e) != nullptr) why = e.message();
  }
  call.out = Result();
  fall_back(call, why);
}

}  // namespace

bool fallback_stage(const StagedCall& call) {
  if (!may_lack_kernels(thread_place.now)) return false;
  if (!has_kernels(call.record)) {
    fall_back(call);
    return true;
  }
  Backend* const backend = backend_of(thread_place.now.type);
  if (backend == nullptr || tried == &call.record) return false;
  run_or_fall_back(*backend, call);
  return true;
}

}  // namespace cograd
