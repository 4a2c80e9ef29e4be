// SPDX-License-Identifier: BSD-3-Clause
// Derives an op's traits from the type of its forward, and calls ops with boxed arguments.
#pragma once
#include <array>

#include "ops/declare/transform.h"

namespace cograd {

class CallForm;
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
  [[gnu::noinline, gnu::cold]] static typename Traits<Op>::Out call(const A&... args) {
    const auto v = values(args...);
    Result r;
    call_transformed(record_of<Op>(), v.data(), r);
    if constexpr (!std::is_void_v<typename Traits<Op>::Out>)
      return Unboxed<typename Traits<Op>::Out>::get(r);
  }
  [[gnu::noinline, gnu::cold]] static typename Traits<Op>::Out in_order(const A&... args) {
    const auto v = values(args...);
    Result r;
    call_ordered(record_of<Op>(), v.data(), r);
    return Unboxed<typename Traits<Op>::Out>::get(r);
  }
  [[gnu::noinline, gnu::cold]] static void call_inplace(const Tensor& self, const A&... args) {
    const auto v = values(args...);
    call_transformed_inplace(record_of<Op>(), self, v.data());
  }
};

template <class Op>
struct Boxed : BoxedArgs<Op, typename Traits<Op>::Args> {};

}  // namespace detail

}  // namespace cograd
