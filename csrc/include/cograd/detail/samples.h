// SPDX-License-Identifier: BSD-3-Clause
// Calls of a Function inside a vmap: calls with its tensor arguments replaced, and its vmap rule.
// Part of cograd/function.h.
#pragma once

namespace cograd {
inline namespace abi1 {

// Arguments of a vmap rule: the number of samples, and the behaviour of random operations ("error",
// "different" or "same").
struct VmapInfo {
  int64_t batch_size;
  std::string_view randomness;
};
// The batch dim of each argument; none if it is not a tensor, or the same for all samples. Each
// tensor of a list has an entry.
using InDims = std::vector<std::optional<int64_t>>;

namespace autograd {
namespace ext {

// Copies arguments and replaces their tensors, in order.
template <class>
struct Substitute {
  const cograd_tensor* next;
  Tensor take() { return Tensor::borrow(*next++); }
  Tensor operator()(const Tensor&) { return take(); }
  std::optional<Tensor> operator()(const std::optional<Tensor>&) {
    Tensor t = take();
    return t.defined() ? std::optional<Tensor>(std::move(t)) : std::nullopt;
  }
  std::nullopt_t operator()(std::nullopt_t) {
    ++next;
    return std::nullopt;
  }
  std::vector<Tensor> operator()(TensorList l) {
    std::vector<Tensor> out;
    for (size_t i = 0; i < l.size(); ++i) out.push_back(take());
    return out;
  }
  std::vector<Tensor> operator()(const std::vector<Tensor>& l) { return (*this)(TensorList(l)); }
  variable_list operator()(const variable_list& l) { return (*this)(TensorList(l)); }
  std::optional<std::vector<Tensor>> operator()(const std::optional<std::vector<Tensor>>& l) {
    if (!l) return std::nullopt;
    return (*this)(TensorList(*l));
  }
  std::optional<std::vector<Tensor>> operator()(const std::optional<TensorList>& l) {
    if (!l) return std::nullopt;
    return (*this)(*l);
  }
  std::vector<std::optional<Tensor>> operator()(const std::vector<std::optional<Tensor>>& l) {
    std::vector<std::optional<Tensor>> out;
    for (const std::optional<Tensor>& t : l) out.push_back((*this)(t));
    return out;
  }
  template <class T, std::enable_if_t<!std::is_convertible_v<const T&, const Tensor&>, int> = 0>
  std::decay_t<const T&> operator()(const T& v) {
    return v;
  }
};
template <class Tag, class A>
using Substituted = decltype(std::declval<Substitute<Tag>&>()(std::declval<const A&>()));

// Names...: T has a member of that name. Has...: it can be called with the documented arguments.
template <class T, class = void>
struct NamesJvp : std::false_type {};
template <class T>
struct NamesJvp<T, std::void_t<decltype(&T::jvp)>> : std::true_type {};
template <class T, class = void>
struct HasJvp : std::false_type {};
template <class T>
struct HasJvp<T, std::void_t<decltype(T::jvp(std::declval<AutogradContext*>(),
                                             std::declval<variable_list>()))>> : std::true_type {};
template <class T, class = void>
struct NamesVmap : std::false_type {};
template <class T>
struct NamesVmap<T, std::void_t<decltype(&T::vmap)>> : std::true_type {};
template <class Void, class T, class... A>
struct HasVmap : std::false_type {};
template <class T, class... A>
struct HasVmap<std::void_t<decltype(T::vmap(std::declval<const VmapInfo&>(),
                                            std::declval<const InDims&>(), std::declval<A>()...))>,
               T, A...> : std::true_type {};
template <class Void, class T, class... A>
struct Repeats : std::false_type {};
template <class T, class... A>
struct Repeats<
    std::void_t<decltype(T::forward(std::declval<AutogradContext*>(), std::declval<A>()...))>, T,
    A...> : std::true_type {};

// True if the Function has `static constexpr bool generate_vmap_rule = true`: it consists of ops
// only, and inside a vmap its forward, backward and jvp run on batched tensors.
template <class T, class = void>
struct TakesSamples : std::false_type {};
template <class T>
struct TakesSamples<T, std::void_t<decltype(T::generate_vmap_rule)>>
    : std::bool_constant<T::generate_vmap_rule> {};

// Reads the batch dims that a vmap rule returned for its `n` outputs; -1: the same for all samples.
template <class>
struct OutDims {
  static std::vector<int32_t> read(int64_t dim, size_t n) {
    return std::vector<int32_t>(n, static_cast<int32_t>(dim));
  }
  static std::vector<int32_t> read(std::nullopt_t, size_t n) { return read(-1, n); }
  static std::vector<int32_t> read(const std::optional<int64_t>& dim, size_t n) {
    return read(dim ? *dim : -1, n);
  }
  static std::vector<int32_t> read(const InDims& dims, size_t) {
    std::vector<int32_t> out;
    for (const std::optional<int64_t>& d : dims) out.push_back(d ? static_cast<int32_t>(*d) : -1);
    return out;
  }
  static std::vector<int32_t> read(const std::vector<int64_t>& dims, size_t) {
    return std::vector<int32_t>(dims.begin(), dims.end());
  }
};

inline VmapInfo vmap_info(const cograd_batch_info& info) noexcept {
  constexpr const char* kNames[] = {"error", "different", "same"};
  return {info.batch_size, kNames[info.randomness]};
}
// Returns the batch dims of all arguments, given those of the tensors; a list has one per tensor.
inline InDims in_dims(const std::vector<bool>& is_tensor, const int32_t* dims) {
  InDims out;
  for (const bool tensor : is_tensor) {
    const int32_t d = tensor ? *dims++ : -1;
    out.push_back(d < 0 ? std::optional<int64_t>() : std::optional<int64_t>(d));
  }
  return out;
}

// A call of T::apply that can be repeated on other tensors.
template <class T, class Out, class... Args>
struct SampledCall {
  std::tuple<const Args&...> args;
  const std::vector<bool>& is_tensor;
  std::optional<Out> out;  // result for the first sample, or of the rule

  static constexpr bool repeats = Repeats<void, T, Substituted<T, Args>&...>::value;
  static constexpr bool has_vmap = HasVmap<void, T, Substituted<T, Args>&...>::value;

  // Calls f with the arguments, whose tensors are replaced by `inputs`.
  template <class F>
  decltype(auto) with(const cograd_tensor* inputs, F&& f) const {
    auto given = std::apply(
        [&](const auto&... a) {
          Substitute<T> other{inputs};
          return std::tuple<Substituted<T, Args>...>{other(a)...};
        },
        args);
    return std::apply(f, given);
  }
  void give(Out found, cograd_results results) {
    if (!out) out.emplace(found);
    each_output(found, [&](Tensor& t) {
      cograd::ext::check(cograd_results_push_tensor(results, t.handle()));
    });
  }
  static cograd_status call(void* user, const cograd_tensor* inputs, size_t, cograd_results r) {
    return cograd::ext::guarded([&] {
      auto& self = *static_cast<SampledCall*>(user);
      self.give(self.with(inputs, [](auto&... a) -> Out { return T::apply(a...); }), r);
    });
  }
  static cograd_status batch(const cograd_batch_info* info, void* user, const cograd_tensor* inputs,
                             const int32_t* dims, size_t, cograd_results r) {
    return cograd::ext::guarded([&] {
      auto& self = *static_cast<SampledCall*>(user);
      const VmapInfo told = vmap_info(*info);
      const InDims where = in_dims(self.is_tensor, dims);
      auto found = self.with(inputs, [&](auto&... a) { return T::vmap(told, where, a...); });
      static_assert(std::is_convertible_v<decltype(std::get<0>(found)), Out> &&
                        std::tuple_size_v<decltype(found)> == 2,
                    "vmap returns a pair: what forward returns, and the dim of the samples in it "
                    "(or a list of dims, one for each tensor)");
      Out result = std::move(std::get<0>(found));
      size_t n = 0;
      each_output(result, [&](Tensor&) { ++n; });
      const std::vector<int32_t> batch_dims = OutDims<T>::read(std::get<1>(found), n);
      self.give(std::move(result), r);
      cograd::ext::check(cograd_results_set_dims(r, batch_dims.data(), batch_dims.size()));
    });
  }
};

// Moves the outputs of cograd_function_apply into the structure that forward returned.
template <class Out>
void take_outputs(cograd_value& v, Out& out) {
  const auto* list = static_cast<const cograd_tensor*>(v.u.list);
  size_t i = 0;
  each_output(out, [&](Tensor& t) {
    if (i < v.length) t = Tensor::borrow(list[i++]);
  });
  cograd_value_free(&v);
}

}  // namespace ext
}  // namespace autograd
}  // namespace abi1
}  // namespace cograd
