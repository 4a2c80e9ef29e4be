// SPDX-License-Identifier: BSD-3-Clause
// Builds the boxed record of an op from its struct. op.h includes this file, which wraps its calls.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

namespace detail {

// True if the op's record has the form: it must return one tensor to have a target.
template <class Op>
constexpr bool has_form(Form form) {
  if (!std::is_same_v<typename Traits<Op>::Out, Tensor>) return form == Form::Plain;
  return form == Form::Plain || (Op::spec.flags & (form == Form::InPlace ? kInplace : kOut)) != 0;
}

[[noreturn]] void fail_numbers_only(const char* op, const Value& first);
// Raises because a call has a form that the op's flags do not declare.
[[noreturn]] void fail_form(const char* op);

// Raises if all operands are Python scalars, unless the op has kNumbers.
template <class Op, size_t... I>
void check_operands([[maybe_unused]] const Value* v, std::index_sequence<I...>) {
  using Args = typename Traits<Op>::Args;
  constexpr int kTensors = (std::is_same_v<std::tuple_element_t<I, Args>, Tensor> + ... + 0);
  constexpr int kOperands =
      (std::is_same_v<std::tuple_element_t<I, Args>, TensorOrScalar> + ... + 0);
  if constexpr (kTensors == 0 && kOperands >= 2 && (Op::spec.flags & kNumbers) == 0) {
    if (v[0].kind != COGRAD_TENSOR && v[1].kind != COGRAD_TENSOR) [[unlikely]]
      fail_numbers_only(Op::spec.name, v[0]);
  }
}

template <class Op, size_t... I>
void boxed_call(const CallForm& form, const Value* v, Result& r, std::index_sequence<I...> index) {
  using Args = typename Traits<Op>::Args;
  check_operands<Op>(v, index);
  if constexpr (std::is_void_v<typename Traits<Op>::Out>)
    enter<Op, Form::Plain>(form, ArgTraits<std::tuple_element_t<I, Args>>::get(v[I])...);
  else
    box(r, enter<Op, Form::Plain>(form, ArgTraits<std::tuple_element_t<I, Args>>::get(v[I])...));
}
// Runs a call in any form that the op has.
template <class Op, size_t... I>
void boxed_run(const OpRecord& r, const CallForm& form, const Value* v, Result& out,
               std::index_sequence<I...> index) {
  using Args = typename Traits<Op>::Args;
  if constexpr (has_form<Op>(Form::InPlace)) {
    if (form.form == Form::InPlace)
      return enter<Op, Form::InPlace>(form, ArgTraits<std::tuple_element_t<I, Args>>::get(v[I])...);
  }
  if constexpr (has_form<Op>(Form::Out)) {
    if (form.form == Form::Out) {
      check_operands<Op>(v, index);
      return enter<Op, Form::Out>(form, ArgTraits<std::tuple_element_t<I, Args>>::get(v[I])...);
    }
  }
  if (form.form != Form::Plain) fail_form(Op::spec.name);
  r.call_plain(v, out, form);
}

template <class Out>
constexpr Result::Kind result_kind() {
  if constexpr (std::is_same_v<Out, Tensor>)
    return Result::Kind::Tensor;
  else if constexpr (std::is_same_v<Out, std::vector<Tensor>>)
    return Result::Kind::List;
  else if constexpr (std::is_same_v<Out, bool>)
    return Result::Kind::Bool;
  else if constexpr (std::is_same_v<Out, int64_t>)
    return Result::Kind::Int;
  else if constexpr (std::is_same_v<Out, double>)
    return Result::Kind::Double;
  else if constexpr (std::is_void_v<Out>)
    return Result::Kind::None;
  else
    return Result::Kind::Tuple;
}

template <class Tuple>
struct ArgShapes;
template <class... A>
struct ArgShapes<std::tuple<A...>> {
  static constexpr std::array<ArgShape, sizeof...(A)> all{
      ArgShape{ArgTraits<A>::kind, ArgTraits<A>::nullable}...};
};

template <class... A>
constexpr bool boxable(std::tuple<A...>*) {
  return ((ArgTraits<A>::kind != ArgKind::Opaque) && ...);
}

template <class Op>
constexpr RecordTraits record_traits() {
  using T = Traits<Op>;
  RecordTraits f{};
  f.traits = traits_of<Op>();
  f.result = result_kind<typename T::Out>();
  f.num_results = 1;
  if constexpr (requires { std::tuple_size<typename T::Out>::value; })
    f.num_results = std::tuple_size_v<typename T::Out>;
  f.differentiable = (T::composite || has_backward<Op>()) && (Op::spec.flags & kNondiff) == 0;
  f.composite = T::composite;
  f.looped = looped<Op>();
  f.has_inplace = has_form<Op>(Form::InPlace);
  f.has_out = has_form<Op>(Form::Out);
  return f;
}

template <class Op>
[[gnu::cold]] OpRecord* make_record() {
  using Args = typename Traits<Op>::Args;
  using Index = std::make_index_sequence<std::tuple_size_v<Args>>;
  static constexpr RecordTraits kDerived = record_traits<Op>();
  return new_record(
      Op::spec, kDerived, ArgShapes<Args>::all,
      [](const Value* v, Result& out, const CallForm& form) {
        boxed_call<Op>(form, v, out, Index{});
      },
      [](const OpRecord& record, const CallForm& form, const Value* v, Result& out) {
        boxed_run<Op>(record, form, v, out, Index{});
      });
}

template <class Op>
[[gnu::cold]] const OpRecord& record_of() {
  static constinit std::atomic<const OpRecord*> record{nullptr};
  return made_once(record, make_record<Op>);
}

}  // namespace detail

template <class Op>
bool add_op() {
  static_assert(detail::boxable(static_cast<typename detail::Traits<Op>::Args*>(nullptr)),
                "an op in the table must not have parameters that only C++ callers can pass");
  return add_record(detail::make_record<Op>());
}

#define COGRAD_OP(Op) \
  [[maybe_unused]] static const bool cograd_registered_##Op = ::cograd::add_op<Op>();

}  // namespace cograd
