// SPDX-License-Identifier: BSD-3-Clause
// The result type of T::forward, or an error that says what is wrong with it. Part of
// cograd/function.h.
#pragma once
#include <type_traits>
#include <utility>

namespace cograd {
inline namespace abi1 {
namespace autograd {
namespace ext {

// The form of a forward that is not overloaded; `static_` and `context` are true if unknown.
template <class F>
struct ForwardForm {
  static constexpr bool is_static = !std::is_member_function_pointer_v<F>;
  static constexpr bool takes_context = true;
};
template <class R>
struct ForwardForm<R (*)()> {
  static constexpr bool is_static = true, takes_context = false;
};
template <class R, class First, class... A>
struct ForwardForm<R (*)(First, A...)> {
  static constexpr bool is_static = true;
  static constexpr bool takes_context = std::is_convertible_v<AutogradContext*, First>;
};
template <class T, class = void>
struct FormOf : ForwardForm<void> {};  // forward is overloaded, a template, private or absent
template <class T>
struct FormOf<T, std::void_t<decltype(&T::forward)>>
    : ForwardForm<std::remove_cv_t<decltype(&T::forward)>> {};

template <class Void, class T, class... Args>
struct ResultOf {
  using Form = FormOf<T>;
  static_assert(Form::is_static,
                "forward is not static: write `static Tensor forward(AutogradContext* ctx, ...)`");
  static_assert(!Form::is_static || Form::takes_context,
                "ctx is missing: the first parameter of forward is `AutogradContext* ctx`");
  static_assert(!Form::is_static || !Form::takes_context || sizeof(T) == 0,
                "the arguments of apply do not fit the parameters of forward after ctx");
  using type = void;
};
template <class T, class... Args>
struct ResultOf<
    std::void_t<decltype(T::forward(std::declval<AutogradContext*>(), std::declval<Args>()...))>, T,
    Args...> {
  using type =
      std::decay_t<decltype(T::forward(std::declval<AutogradContext*>(), std::declval<Args>()...))>;
};
template <class T, class... Args>
using ForwardResult = typename ResultOf<void, T, Args...>::type;

}  // namespace ext
}  // namespace autograd
}  // namespace abi1
}  // namespace cograd
