// SPDX-License-Identifier: BSD-3-Clause
// Derives an op's traits from the type of its forward, and calls ops with boxed arguments.
#pragma once
#include <array>

#include "ops/declare/transform.h"

namespace cograd {

template <class Op>
class Ctx;

namespace detail {

template <class F>
struct ForwardTraits;
template <class R, class C, class... A>
struct ForwardTraits<R (*)(Ctx<C>&, A...)> {
  using Out = R;
  using Args = std::tuple<std::remove_cvref_t<A>...>;
  static constexpr bool composite = false, choice = false;
};
template <class R, class... A>
struct ForwardTraits<R (*)(A...)> {
  using Out = R;
  using Args = std::tuple<std::remove_cvref_t<A>...>;
  static constexpr bool composite = true, choice = false;
};
template <class R, class... A>
struct ForwardTraits<R (*)(CallForm, A...)> {
  using Out = R;
  using Args = std::tuple<std::remove_cvref_t<A>...>;
  static constexpr bool composite = true, choice = true;
};
template <class Op>
using Traits = ForwardTraits<decltype(&Op::forward)>;

template <class Op>
constexpr bool has_backward() {
  return requires(Ctx<Op>& c, std::span<Tensor> gs) { Op::backward(c, gs); } ||
         requires(Ctx<Op>& c, const Tensor& g) { Op::backward(c, g); };
}
// True if the op itself draws random numbers.
template <class Op>
constexpr bool draws() {
  return (Op::spec.flags & kKindMask) == kRandom &&
         traits_of<Op>().batch.rule != BatchRule::Rule::Through;
}
// True for a composition that reads values: vmap runs it sample by sample.
template <class Op>
constexpr bool looped() {
  if constexpr (requires { Op::kBatch; }) return Op::kBatch.rule == BatchRule::Rule::Loop;
  return draws<Op>();
}
// True for an op that creates a tensor on the device that its parameter `device` names.
template <class Op>
constexpr bool asks_for_device() {
  return (Op::spec.flags & kKindMask) != kCast && []<class... A>(std::tuple<A...>*) {
    return (std::is_same_v<A, std::optional<Device>> || ...);
  }(static_cast<typename Traits<Op>::Args*>(nullptr));
}
// True for an op that moves elements between devices: it runs where its first tensor is.
template <class Op>
constexpr bool mixes_devices() {
  return requires { Op::kMixesDevices; };
}
template <class Op>
constexpr bool is_view() {
  return (Op::spec.flags & kKindMask) == kView;
}
template <class Op>
constexpr bool nondiff_output(uint32_t i) {
  if constexpr (requires { Op::kNondiffOutputs; })
    return (Op::kNondiffOutputs >> i) & 1;
  else
    return false;
}

// Returns the record of an op, whether or not it is in the table.
template <class Op>
const OpRecord& record_of();

// Runs an op with an UnsignedRule on uint16, uint32 or uint64.
COGRAD_API void call_ordered(const OpRecord& r, const Value* args, Result& out);

// Returns the record of an op, when it is needed.
using RecordOf = const OpRecord& (*)();

// The gate passes these traits of an op to BoxedArgs::staged.
enum GateTraits : uint8_t {
  kLeaves = 1,  // a composition that leaves transforms to the ops that it consists of
  kDraws = 2,
  kAsksForDevice = 4,
  kMixesDevices = 8,
};
template <class Op>
constexpr GateTraits gate_traits() {
  return static_cast<GateTraits>(
      (Traits<Op>::composite && !looped<Op>() ? kLeaves : 0) | (draws<Op>() ? kDraws : 0) |
      (asks_for_device<Op>() ? kAsksForDevice : 0) | (mixes_devices<Op>() ? kMixesDevices : 0));
}

// The calls that need boxed arguments. The ops with the same parameter types share this code.
template <class Args>
struct BoxedArgs;
template <class... A>
struct BoxedArgs<std::tuple<A...>> {
  static auto values(const A&... args) {
    std::array<Value, sizeof...(A)> v;
    [[maybe_unused]] size_t i = 0;
    (ArgTraits<A>::put(v[i++], args), ...);
    return v;
  }
  // Runs the call through the stages and returns true, if one of these may have to handle it.
  [[gnu::noinline, gnu::cold]] static bool staged(GateTraits traits, RecordOf record,
                                                  const CallForm& form, Result& r,
                                                  const A&... args) {
    if (!to_stages(traits, record, form, args...)) return false;
    const auto v = values(args...);
    run_stages(record(), form, v.data(), r);
    return true;
  }
  [[gnu::noinline, gnu::cold]] static Result in_order(RecordOf record, const A&... args) {
    const auto v = values(args...);
    Result r;
    call_ordered(record(), v.data(), r);
    return r;
  }

 private:
  static bool to_stages(GateTraits traits, RecordOf record, const CallForm& call, const A&... args);
  static bool elsewhere(GateTraits traits, RecordOf record, const A&... args);
};

template <class Op>
using Boxed = BoxedArgs<typename Traits<Op>::Args>;

}  // namespace detail

}  // namespace cograd
