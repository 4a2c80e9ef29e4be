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

// Boxes the op's arguments.
template <class Op, class Args>
struct BoxedArgs;
template <class Op, class... A>
struct BoxedArgs<Op, std::tuple<A...>> {
  static auto values(const A&... args) {
    std::array<Value, sizeof...(A)> v;
    [[maybe_unused]] size_t i = 0;
    (ArgTraits<A>::put(v[i++], args), ...);
    return v;
  }
  // Hands the call to the stages.
  [[gnu::noinline, gnu::cold]] static void staged(const CallForm& form, Result& r,
                                                  const A&... args) {
    const auto v = values(args...);
    run_stages(record_of<Op>(), form, v.data(), r);
  }
  [[gnu::noinline, gnu::cold]] static bool elsewhere(const A&... args) {
    const auto v = values(args...);
    return device_of_call(record_of<Op>(), v.data(), {}) != thread_place.now;
  }
  [[gnu::noinline, gnu::cold]] static typename Traits<Op>::Out in_order(const A&... args) {
    const auto v = values(args...);
    Result r;
    call_ordered(record_of<Op>(), v.data(), r);
    return Unboxed<typename Traits<Op>::Out>::get(r);
  }
};

template <class Op>
struct Boxed : BoxedArgs<Op, typename Traits<Op>::Args> {};

}  // namespace detail

}  // namespace cograd
