// SPDX-License-Identifier: BSD-3-Clause
// Kernels for cograd's op interface: unboxes arguments into the parameter types that torch allows,
// and calls ops with a given C++ signature.
#pragma once
#include "cograd/torch_compat/impl/autograd.h"

namespace cograd {
inline namespace abi1 {
namespace ext {

template <class T>
struct Argument<torch_compat::List<T>> : Of<Argument<std::vector<T>>::kind> {
  static torch_compat::List<T> get(const cograd_value& v) {
    return torch_compat::List<T>(Argument<std::vector<T>>::get(v));
  }
};
template <>
struct Argument<std::vector<std::optional<Tensor>>> : Of<COGRAD_TENSORS> {
  static std::vector<std::optional<Tensor>> get(const cograd_value& v) {
    std::vector<std::optional<Tensor>> out;
    for (const Tensor& t : Argument<TensorList>::get(v))
      out.push_back(t.defined() ? std::optional<Tensor>(t) : std::nullopt);
    return out;
  }
};

}  // namespace ext
}  // namespace abi1

namespace torch_compat {

// Holds one unboxed argument of a call, so that the parameter can refer to it.
template <class A>
struct Slot {
  using T = std::decay_t<A>;
  T value;
  explicit Slot(const cograd_value& v) : value(cograd::ext::Argument<T>::get(v)) {}
  A pass() { return static_cast<A>(value); }
};
template <>
struct Slot<const Tensor&> {
  const Tensor& value;
  explicit Slot(const cograd_value& v) : value(cograd::ext::Argument<Tensor>::get(v)) {}
  const Tensor& pass() { return value; }
};

using Results = cograd_results;
using Call = void (*)(void* f, const cograd_value* args, Results results);

template <class F, class R, class... A, size_t... I>
void run_kernel(F& f, [[maybe_unused]] const cograd_value* args, [[maybe_unused]] Results results,
                std::index_sequence<I...>) {
  std::tuple<Slot<A>...> slots{Slot<A>(args[I])...};
  if constexpr (std::is_void_v<R>)
    f(std::get<I>(slots).pass()...);
  else
    cograd::ext::push(results, f(std::get<I>(slots).pass()...));
}

// The signature of a function pointer, a lambda or a functor.
template <class F>
struct Callable : Callable<decltype(&F::operator())> {};
template <class R, class... A>
struct Callable<R(A...)> {
  static constexpr size_t count = sizeof...(A);
  static constexpr uint32_t flags =
      cograd::ext::IsTuple<std::decay_t<R>>::value ? COGRAD_OP_TUPLE : 0;
  static const int32_t* kinds() {
    static constexpr int32_t k[sizeof...(A) + 1] = {cograd::ext::Argument<std::decay_t<A>>::kind...,
                                                    0};
    return k;
  }
  template <class F>
  static void run(F& f, const cograd_value* args, Results results) {
    run_kernel<F, R, A...>(f, args, results, std::index_sequence_for<A...>());
  }
};
template <class R, class... A>
struct Callable<R (*)(A...)> : Callable<R(A...)> {};
template <class R, class C, class... A>
struct Callable<R (C::*)(A...)> : Callable<R(A...)> {};
template <class R, class C, class... A>
struct Callable<R (C::*)(A...) const> : Callable<R(A...)> {};

template <class F, class = void>
struct IsCallable : std::bool_constant<std::is_function_v<std::remove_pointer_t<F>>> {};
template <class F>
struct IsCallable<F, std::void_t<decltype(&F::operator())>> : std::true_type {};

// A function of any type as a kernel. Never freed, like the op.
struct Kernel {
  Call call = nullptr;
  void* function = nullptr;
  const int32_t* kinds = nullptr;
  size_t count = 0;
  uint32_t flags = 0;
  explicit operator bool() const noexcept { return call != nullptr; }
};
template <class F>
Kernel make_kernel(F f) {
  using Signature = Callable<F>;
  Kernel k;
  k.function = new F(std::move(f));
  k.call = [](void* p, const cograd_value* args, Results results) {
    Signature::run(*static_cast<F*>(p), args, results);
  };
  k.kinds = Signature::kinds();
  k.count = Signature::count;
  k.flags = Signature::flags;
  return k;
}

// --- calling an op by name ---

template <class T>
cograd_value box_argument(const T& v) {
  using cograd::ext::boxed;
  if constexpr (std::is_same_v<T, bool>)
    return boxed(v);
  else if constexpr (std::is_integral_v<T>)
    return boxed(static_cast<int64_t>(v));
  else if constexpr (std::is_floating_point_v<T>)
    return boxed(static_cast<double>(v));
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return boxed(std::string_view(v));
  else if constexpr (std::is_convertible_v<const T&, TensorList> && !std::is_same_v<T, Tensor>)
    return boxed(TensorList(v));
  else if constexpr (std::is_convertible_v<const T&, IntArrayRef>)
    return cograd::ext::boxed_list(COGRAD_INTS, IntArrayRef(v).data(), IntArrayRef(v).size());
  else if constexpr (std::is_convertible_v<const T&, ArrayRef<double>>)
    return cograd::ext::boxed_list(COGRAD_FLOATS, ArrayRef<double>(v).data(),
                                   ArrayRef<double>(v).size());
  else
    return boxed(v);
}
template <class T>
cograd_value box_argument(const std::optional<T>& v) {
  return v ? box_argument(*v) : cograd_value{};
}

// Converts a result to a C++ value. The result keeps its references.
template <class T, class = void>
struct Taken {
  static T get(const cograd_value& v) {
    static_assert(std::is_arithmetic_v<T>, "this result type of an op is not known");
    if (v.kind == COGRAD_FLOAT) return static_cast<T>(v.u.number);
    COGRAD_CHECK_TYPE(v.kind == COGRAD_INT || v.kind == COGRAD_BOOLEAN,
                      "an op gave a result of kind ", v.kind, ", expected a number");
    return static_cast<T>(v.u.integer);
  }
};
template <>
struct Taken<Tensor> {
  static Tensor get(const cograd_value& v) {
    if (v.kind == COGRAD_NONE) return Tensor();
    COGRAD_CHECK_TYPE(v.kind == COGRAD_TENSOR, "an op gave a result of kind ", v.kind,
                      ", expected a Tensor");
    return Tensor::borrow(v.u.tensor);
  }
};
template <>
struct Taken<std::string> {
  static std::string get(const cograd_value& v) {
    return cograd::ext::Argument<std::string>::get(v);
  }
};
template <class T>
struct Taken<std::optional<T>> {
  static std::optional<T> get(const cograd_value& v) {
    return v.kind == COGRAD_NONE ? std::nullopt : std::optional<T>(Taken<T>::get(v));
  }
};
// Returns element i of a list or tuple.
template <class T>
T taken_item(const cograd_value& v, size_t i) {
  if (v.kind == COGRAD_TENSORS) {
    cograd_value one{};
    one.u.tensor = static_cast<const cograd_tensor*>(v.u.list)[i];
    one.kind = one.u.tensor == nullptr ? COGRAD_NONE : COGRAD_TENSOR;
    return Taken<T>::get(one);
  }
  return Taken<T>::get(static_cast<const cograd_value*>(v.u.list)[i]);
}
inline void expect_items(const cograd_value& v) {
  COGRAD_CHECK_TYPE(v.kind == COGRAD_TENSORS || v.kind == COGRAD_ITEMS || v.kind == COGRAD_TUPLE,
                    "an op gave a result of kind ", v.kind, ", expected several results");
}
template <class T>
struct Taken<std::vector<T>> {
  static std::vector<T> get(const cograd_value& v) {
    expect_items(v);
    std::vector<T> out;
    for (size_t i = 0; i < v.length; ++i) out.push_back(taken_item<T>(v, i));
    return out;
  }
};
template <class... T>
struct Taken<std::tuple<T...>> {
  static std::tuple<T...> get(const cograd_value& v) {
    expect_items(v);
    COGRAD_CHECK_TYPE(v.length == sizeof...(T), "an op gave ", v.length, " results, expected ",
                      sizeof...(T));
    size_t i = 0;
    return std::tuple<T...>{taken_item<T>(v, i++)...};
  }
};

template <class Signature>
class TypedOperatorHandle;
template <class R, class... A>
class TypedOperatorHandle<R(A...)> {
 public:
  explicit TypedOperatorHandle(cograd_op op) noexcept : op_(op) {}
  R call(A... args) const {
    const cograd_value values[sizeof...(A) + 1] = {box_argument<std::decay_t<A>>(args)..., {}};
    struct Result {
      cograd_value v{};
      ~Result() { cograd_value_free(&v); }
    } result;
    cograd::ext::check(cograd_op_call(op_, values, sizeof...(A), &result.v));
    if constexpr (std::is_same_v<R, Tensor&>) {
      Tensor* written = nullptr;
      (find_written<A>(args, written), ...);
      return *written;
    } else if constexpr (!std::is_void_v<R>) {
      return Taken<std::decay_t<R>>::get(result.v);
    }
  }
  R operator()(A... args) const { return call(std::forward<A>(args)...); }

 private:
  template <class P, class V>
  static void find_written([[maybe_unused]] V& v, [[maybe_unused]] Tensor*& out) {
    if constexpr (std::is_same_v<P, Tensor&>) out = &v;
  }
  cograd_op op_;
};

class OperatorHandle {
 public:
  explicit OperatorHandle(cograd_op op) noexcept : op_(op) {}
  template <class Signature>
  TypedOperatorHandle<std::remove_pointer_t<Signature>> typed() const {
    return TypedOperatorHandle<std::remove_pointer_t<Signature>>(op_);
  }

 private:
  cograd_op op_;
};

// Joins "ns::name" and "overload" into one name: an overload is a separate op.
inline std::string joined_name(const std::string& name, const std::string& overload) {
  return overload.empty() || overload == "default" ? name : name + "__" + overload;
}

class Dispatcher {
 public:
  static Dispatcher& singleton() {
    static Dispatcher one;
    return one;
  }
  std::optional<OperatorHandle> findSchema(const char* name, const char* overload) const {
    const std::string full = joined_name(name, overload);
    cograd_op op = nullptr;
    if (cograd_op_find(full.data(), full.size(), &op) != COGRAD_OK) return std::nullopt;
    return OperatorHandle(op);
  }
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const {
    const std::optional<OperatorHandle> found = findSchema(name, overload);
    if (!found)
      throw Error(ErrorKind::Runtime, std::string("Could not find schema for ") + name +
                                          (*overload != '\0' ? "." : "") + overload +
                                          ": no loaded library defines this op");
    return *found;
  }
};

}  // namespace torch_compat
}  // namespace cograd

namespace c10 {
using ::cograd::torch_compat::Dispatcher;
using ::cograd::torch_compat::OperatorHandle;
using ::cograd::torch_compat::TypedOperatorHandle;
}  // namespace c10
