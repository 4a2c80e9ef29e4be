// SPDX-License-Identifier: BSD-3-Clause
// autograd::Function<T>: an operation with a user-defined forward and backward.
//   struct Cube : cograd::autograd::Function<Cube> {
//     static Tensor forward(AutogradContext* ctx, const Tensor& x) {
//       ctx->save_for_backward({x});
//       return x * x * x;
//     }
//     static variable_list backward(AutogradContext* ctx, variable_list grads) {
//       Tensor x = ctx->get_saved_variables()[0];
//       return {grads[0] * 3 * x * x};
//     }
//   };
//   Tensor y = Cube::apply(x);
// It may also have, both as in Python:
//     // Forward mode: returns the outputs' tangents; `tangents` has the order of gradients.
//     static variable_list jvp(AutogradContext* ctx, variable_list tangents);
//     // Inside a vmap: computes all samples at once; returns the outputs and their batch dim.
//     static std::pair<Tensor, int64_t> vmap(const VmapInfo& info, const InDims& in_dims,
//                                            const Tensor& x);
#pragma once
#include <cstring>
#include <tuple>

#include "cograd/autograd.h"
#include "cograd/ops.h"

namespace cograd {
inline namespace abi1 {

// The classes below are templates, so that only extensions with Functions compile them.

// A value of AutogradContext::saved_data: a number, a string, a tensor, or a list of these.
template <class>
class BasicIValue {
 public:
  BasicIValue() = default;
  BasicIValue(bool v) : kind_(Kind::Bool), i_(v) {}  // NOLINT: implicit by intent, as all below
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  BasicIValue(T v) : kind_(Kind::Int), i_(static_cast<int64_t>(v)) {}                   // NOLINT
  BasicIValue(double v) : kind_(Kind::Double), d_(v) {}                                 // NOLINT
  BasicIValue(float v) : kind_(Kind::Double), d_(v) {}                                  // NOLINT
  BasicIValue(const char* v) : kind_(Kind::String), s_(v) {}                            // NOLINT
  BasicIValue(std::string v) : kind_(Kind::String), s_(std::move(v)) {}                 // NOLINT
  BasicIValue(Tensor v) : kind_(Kind::Tensor), tensors_{std::move(v)} {}                // NOLINT
  BasicIValue(std::vector<Tensor> v) : kind_(Kind::Tensors), tensors_(std::move(v)) {}  // NOLINT
  BasicIValue(std::vector<int64_t> v) : kind_(Kind::Ints), ints_(std::move(v)) {}       // NOLINT
  BasicIValue(IntArrayRef v) : kind_(Kind::Ints), ints_(v.vec()) {}                     // NOLINT
  BasicIValue(std::vector<double> v) : kind_(Kind::Doubles), doubles_(std::move(v)) {}  // NOLINT
  BasicIValue(Scalar v)                                                                 // NOLINT
      : kind_(v.is_float()  ? Kind::Double
              : v.is_bool() ? Kind::Bool
                            : Kind::Int) {
    if (v.is_float())
      d_ = v.to_double();
    else
      i_ = v.to_int();
  }
  template <class T>
  BasicIValue(const std::optional<T>& v) {  // NOLINT
    if (v) *this = BasicIValue(*v);
  }
  bool is_none() const noexcept { return kind_ == Kind::None; }
  bool is_tensor() const noexcept { return kind_ == Kind::Tensor; }
  bool is_int() const noexcept { return kind_ == Kind::Int; }
  bool is_double() const noexcept { return kind_ == Kind::Double; }
  bool is_bool() const noexcept { return kind_ == Kind::Bool; }
  bool is_string() const noexcept { return kind_ == Kind::String; }
  // These raise TypeError, which names the key, if the value has another kind.
  bool to_bool() const { return need(Kind::Bool).i_ != 0; }
  int64_t to_int() const { return need(Kind::Int).i_; }
  double to_double() const { return need(Kind::Double).d_; }
  const std::string& to_string() const { return need(Kind::String).s_; }
  const Tensor& to_tensor() const { return need(Kind::Tensor).tensors_[0]; }
  const variable_list& to_tensors() const { return need(Kind::Tensors).tensors_; }
  const std::vector<int64_t>& to_ints() const { return need(Kind::Ints).ints_; }
  const std::vector<double>& to_doubles() const { return need(Kind::Doubles).doubles_; }
  Scalar to_scalar() const {
    return kind_ == Kind::Double ? Scalar(d_)
           : kind_ == Kind::Bool ? Scalar(to_bool())
                                 : Scalar(static_cast<long>(to_int()));
  }
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, Tensor>)
      return to_tensor();
    else if constexpr (std::is_same_v<T, bool>)
      return to_bool();
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(to_int());
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(to_double());
    else
      return to_string();
  }
#ifdef COGRAD_TORCH_COMPAT
#include "cograd/torch_compat/impl/ivalue_members.inc"
#endif
  // For the context: the tensors in this value, which become saved tensors after forward.
  variable_list& tensors() noexcept { return tensors_; }
  // For the context: a value that was never set; reading it raises `why`.
  static BasicIValue missing(std::string why) {
    BasicIValue v;
    v.s_ = std::move(why);
    v.missing_ = true;
    return v;
  }
  bool is_missing() const noexcept { return missing_; }
  // For saved_data: the key under which this value is kept, for messages.
  void set_key(std::string_view key) {
    if (key_ != key) key_ = key;
  }

 private:
  enum class Kind : uint8_t { None, Bool, Int, Double, String, Tensor, Tensors, Ints, Doubles };
  const BasicIValue& need(Kind k) const {
    if (kind_ != k) fail_kind(k);
    return *this;
  }
  [[noreturn]] void fail_kind(Kind asked) const {
    COGRAD_CHECK_INDEX(!missing_, s_);
    const std::string who = key_.empty() ? "IValue" : "saved_data['" + key_ + "']";
    const std::string reader = reader_name(kind_);
    cograd::detail::fail(
        ErrorKind::Type, who, " holds ", kind_name(kind_), ", but ", reader_name(asked), " needs ",
        kind_name(asked), ": ",
        kind_ == Kind::None ? "test is_none() before" : "read it by " + reader,
        key_.empty() ? "" : ", or store " + std::string(kind_name(asked)) + " in forward");
  }
  static const char* kind_name(Kind k) noexcept {
    constexpr const char* kNames[] = {"None",
                                      "a bool",
                                      "an int",
                                      "a double",
                                      "a string",
                                      "a Tensor",
                                      "a list of Tensors",
                                      "a list of ints",
                                      "a list of doubles"};
    return kNames[static_cast<size_t>(k)];
  }
  static const char* reader_name(Kind k) noexcept {
#ifdef COGRAD_TORCH_COMPAT
    constexpr const char* kNames[] = {"isNone()",         "toBool()",      "toInt()",
                                      "toDouble()",       "toStringRef()", "toTensor()",
                                      "toTensorVector()", "toIntVector()", "toDoubleVector()"};
#else
    constexpr const char* kNames[] = {"is_none()",    "to_bool()",   "to_int()",
                                      "to_double()",  "to_string()", "to_tensor()",
                                      "to_tensors()", "to_ints()",   "to_doubles()"};
#endif
    return kNames[static_cast<size_t>(k)];
  }
  Kind kind_ = Kind::None;
  bool missing_ = false;
  int64_t i_ = 0;
  double d_ = 0;
  std::string s_, key_;
  variable_list tensors_;
  std::vector<int64_t> ints_;
  std::vector<double> doubles_;
};
using IValue = BasicIValue<void>;

namespace autograd {

// A range of positions [first, second) among the tensor arguments.
using IndexRange = std::pair<size_t, size_t>;

// Values, by name, that forward stores for backward besides saved tensors.
template <class>
class BasicSavedData {
 public:
  // Adds None under a new name. Reading a number, text or tensor from it raises.
  IValue& operator[](std::string_view name) {
    if (IValue* v = find_or_null(name)) return *v;
    entries_.emplace_back(std::string(name), IValue::missing(absent(name)));
    return entries_.back().second;
  }
  IValue& at(std::string_view name) {
    IValue* v = find_or_null(name);
    if (v == nullptr || v->is_missing()) cograd::detail::fail(ErrorKind::Index, absent(name));
    return *v;
  }
  size_t count(std::string_view name) { return find_or_null(name) != nullptr; }
  size_t size() const noexcept { return entries_.size(); }
  auto begin() noexcept { return entries_.begin(); }
  auto end() noexcept { return entries_.end(); }

 private:
  std::string absent(std::string_view name) const {
    std::string names;
    for (const auto& [n, v] : entries_)
      if (!v.is_missing()) names += (names.empty() ? "'" : ", '") + n + "'";
    return cograd::detail::concat("saved_data has no '", std::string(name), "'; it ",
                                  names.empty() ? "is empty" : "has: ", names);
  }
  IValue* find_or_null(std::string_view name) {
    for (auto& [n, v] : entries_) {
      if (n != name) continue;
      v.set_key(n);  // an assignment replaced it by the key of the right side
      return &v;
    }
    return nullptr;
  }
  std::vector<std::pair<std::string, IValue>> entries_;
};

using SavedData = BasicSavedData<void>;

// `ctx` carries what a call of a Function keeps from forward to backward.
template <class Tag>
class BasicContext {
 public:
  BasicContext() = default;
  BasicContext(const BasicContext&) = delete;
  BasicContext& operator=(const BasicContext&) = delete;

  // Saves inputs, outputs or other tensors for backward, which raises if they were written since.
  void save_for_backward(TensorList tensors) {
    ext::check(cograd_context_save(ctx_, ext::handles(tensors), tensors.size()));
    num_saved_ += tensors.size();
  }
  void save_for_backward(std::initializer_list<Tensor> tensors) {
    save_for_backward(TensorList(tensors));
  }
  // Saves tensors for jvp, which otherwise gets those of save_for_backward.
  void save_for_forward(TensorList tensors) {
    ext::check(cograd_context_save_for_forward(ctx_, ext::handles(tensors), tensors.size()));
  }
  void save_for_forward(std::initializer_list<Tensor> tensors) {
    save_for_forward(TensorList(tensors));
  }
  variable_list get_saved_variables() const {
    const char* const name = "get_saved_variables()";
    std::vector<Tensor> out(in_jvp_ ? cograd_context_num_saved_for_forward(ctx_) : 0);
    for (size_t i = 0; i < out.size(); ++i) out[i] = saved_for_forward(i);
    if (!out.empty()) return variable_list::named(std::move(out), name);
    out.resize(recording() ? num_saved_ : 0);
    for (size_t i = 0; i < out.size(); ++i) out[i] = saved(i);
    return variable_list::named(std::move(out), name,
                                "; call ctx->save_for_backward({...}) in forward");
  }
  // Declares inputs that forward writes in place; it must return them.
  void mark_dirty(TensorList tensors) {
    ext::check(cograd_context_mark_dirty(ctx_, ext::handles(tensors), tensors.size()));
  }
  void mark_dirty(std::initializer_list<Tensor> tensors) { mark_dirty(TensorList(tensors)); }
  void mark_non_differentiable(TensorList tensors) {
    ext::check(cograd_context_mark_non_differentiable(ctx_, ext::handles(tensors), tensors.size()));
  }
  void mark_non_differentiable(std::initializer_list<Tensor> tensors) {
    mark_non_differentiable(TensorList(tensors));
  }
  // Sets whether backward gets zeros (the default) or undefined tensors for missing gradients.
  void set_materialize_grads(bool value) { cograd_context_set_materialize_grads(ctx_, value); }
  // True if the gradient of tensor argument i is needed; each tensor of a list counts.
  bool needs_input_grad(size_t i) const {
    const int32_t needed = cograd_context_needs_input_grad(ctx_, i);
    if (needed < 0) ext::throw_last_error(cograd_error_get(nullptr, nullptr, nullptr));
    return needed != 0;
  }
  bool needs_input_grad(std::initializer_list<IndexRange> ranges) const {
    for (const IndexRange& r : ranges)
      for (size_t i = r.first; i < r.second; ++i)
        if (needs_input_grad(i)) return true;
    return false;
  }
  // True if this call is recorded; otherwise nothing needs to be saved.
  bool recording() const { return cograd_context_recording(ctx_) != 0; }
  cograd_context handle() const noexcept { return ctx_; }

  // Changes that backward makes here are dropped: each run sees the values of forward.
  BasicSavedData<Tag> saved_data;

  // The following members are for Function only.
  void attach(cograd_context c) noexcept { ctx_ = c; }
  // Turns tensors in saved_data into saved tensors, which cannot form a reference cycle.
  void stow() {
    if (!recording()) return;
    for (auto& entry : saved_data) {
      variable_list& list = entry.second.tensors();
      ext::check(cograd_context_save(ctx_, ext::handles(list), list.size()));
      for (Tensor& t : list) t.reset();
    }
  }
  // Sets up the context of one run of backward or jvp; several threads may run at the same time.
  void restore(const BasicContext& forward, cograd_context c, bool in_jvp = false) {
    ctx_ = c;
    in_jvp_ = in_jvp;
    num_saved_ = forward.num_saved_;
    saved_data = forward.saved_data;
    size_t i = num_saved_;
    for (auto& entry : saved_data)
      for (Tensor& t : entry.second.tensors()) t = saved(i++);
  }

 private:
  Tensor saved(size_t i) const {
    cograd_tensor t = nullptr;
    ext::check(cograd_context_saved(ctx_, i, &t));
    return Tensor::steal(t);
  }
  Tensor saved_for_forward(size_t i) const {
    cograd_tensor t = nullptr;
    ext::check(cograd_context_saved_for_forward(ctx_, i, &t));
    return Tensor::steal(t);
  }
  cograd_context ctx_ = nullptr;
  size_t num_saved_ = 0;
  bool in_jvp_ = false;
};
using AutogradContext = BasicContext<void>;

namespace ext {

// The state of one call of a Function, owned by the node.
template <class Tag>
struct FunctionState {
  BasicContext<Tag> ctx;
  std::vector<bool> is_tensor;           // for each gradient that backward returns
  std::string (*arguments)() = nullptr;  // "argument 1 (Tensor), argument 2 (double)"
};

// Returns a type's name roughly as users write it: "Tensor", "std::vector<Tensor>".
template <class A>
std::string argument_type() {
  std::string s = __PRETTY_FUNCTION__;  // "... [with A = T; ...]" or "... [A = T]"
  s = s.substr(s.find("A = ") + 4);
  s = s.substr(0, s.find(';') != std::string::npos ? s.find(';') : s.rfind(']'));
  for (const char* scope : {"cograd::", "abi1::"})
    for (size_t at = s.find(scope); at != std::string::npos; at = s.find(scope))
      s.erase(at, std::strlen(scope));
  return s;
}
template <class... A>
std::string argument_types() {
  std::string s;
  size_t i = 0;
  const auto add = [&](const std::string& type) {
    s += (i == 0 ? "argument " : ", argument ") + std::to_string(i + 1) + " (" + type + ")";
    ++i;
  };
  (add(argument_type<A>()), ...);
  return s;
}

template <class>
struct Inputs {
  std::vector<cograd_tensor> tensors;
  std::vector<bool> is_tensor;
  void add(cograd_tensor t) {
    tensors.push_back(t);
    is_tensor.push_back(true);
  }
  void collect(const Tensor& t) { add(t.handle()); }
  void collect(const std::optional<Tensor>& t) { add(t ? t->handle() : nullptr); }
  void collect(std::nullopt_t) { add(nullptr); }
  void collect(const std::optional<std::vector<Tensor>>& l) {
    if (l) collect(*l);
  }
  void collect(const std::optional<TensorList>& l) {
    if (l) collect(*l);
  }
  void collect(const std::vector<std::optional<Tensor>>& l) {
    for (const std::optional<Tensor>& t : l) collect(t);
  }
  void collect(TensorList l) {
    for (const Tensor& t : l) add(t.handle());
  }
  void collect(const std::vector<Tensor>& l) { collect(TensorList(l)); }
  void collect(const variable_list& l) { collect(TensorList(l)); }
  template <class T, std::enable_if_t<!std::is_convertible_v<const T&, const Tensor&>, int> = 0>
  void collect(const T&) {
    is_tensor.push_back(false);
  }
};

// Calls f on each tensor of a result, in order.
template <class F>
void each_output(Tensor& t, F&& f) {
  f(t);
}
template <class F>
void each_output(std::vector<Tensor>& l, F&& f) {
  for (Tensor& t : l) f(t);
}
template <class F, class... T>
void each_output(std::tuple<T...>& t, F&& f) {
  std::apply([&](auto&... x) { (each_output(x, f), ...); }, t);
}

template <class Out>
void end_call(cograd_context ctx, Out& out) {
  std::vector<cograd_tensor> handles;
  each_output(out, [&](Tensor& t) { handles.push_back(t.release()); });
  const cograd_status s = cograd_function_end(ctx, handles.data(), handles.size());
  size_t i = 0;
  each_output(out, [&](Tensor& t) { t = Tensor::steal(handles[i++]); });
  check(s);
}

template <class Tag>
void hand_out(const FunctionState<Tag>& st, const char* name, variable_list& grads,
              cograd_tensor* out, size_t n) {
  size_t at = 0;
  const size_t expected = st.is_tensor.size();
  const auto check_count = [&](bool right, const std::string& why) {
    COGRAD_CHECK(right, "function ", name, " returned an incorrect number of gradients (expected ",
                 expected, ", got ", grads.size(), "): one is needed for ", st.arguments(),
                 " of forward, for each element where that is a list", why);
  };
  for (size_t i = 0; i < grads.size(); ++i) {
    if (i >= expected) {
      if (grads[i].defined())
        check_count(false,
                    "; the gradient at position " + std::to_string(i) + " belongs to no argument");
      continue;
    }
    if (!st.is_tensor[i]) {
      COGRAD_CHECK(!grads[i].defined(), "function ", name, " returned a gradient at position ", i,
                   ", but that argument is not a tensor: ", st.arguments());
      continue;
    }
    if (at < n) out[at++] = grads[i].release();
  }
  check_count(grads.size() >= expected, "");
}

template <class T, class = void>
struct HasBackward : std::false_type {};
template <class T>
struct HasBackward<T, std::void_t<decltype(T::backward(std::declval<AutogradContext*>(),
                                                       std::declval<variable_list>()))>>
    : std::true_type {};

// True if the Function has `static constexpr bool once_differentiable = true`: its backward
// computes on the elements, not with ops, and a second derivative through it raises.
template <class T, class = void>
struct OnceDifferentiable : std::false_type {};
template <class T>
struct OnceDifferentiable<T, std::void_t<decltype(T::once_differentiable)>>
    : std::bool_constant<T::once_differentiable> {};
template <class T>
const char* type_name() {
  // Takes the last part of the name from "... [with T = ns::MyOp; ...]" or "[T = ns::MyOp]".
  static const std::string name = [](std::string s) {
    s = s.substr(s.find("T = ") + 4);
    s = s.substr(0, s.find_first_of(";]"));
    const size_t colon = s.rfind("::");
    return (colon == std::string::npos ? s : s.substr(colon + 2)) + "Backward";
  }(__PRETTY_FUNCTION__);
  return name.c_str();
}

}  // namespace ext
}  // namespace autograd
}  // namespace abi1
}  // namespace cograd

#include "cograd/detail/forward.h"
#include "cograd/detail/samples.h"

namespace cograd {
inline namespace abi1 {
namespace autograd {
namespace ext {

template <class T>
constexpr uint32_t flags_of() {
  return (OnceDifferentiable<T>::value ? COGRAD_FUNCTION_ONCE_DIFFERENTIABLE : 0) |
         (TakesSamples<T>::value ? COGRAD_FUNCTION_TAKES_SAMPLES : 0) |
         COGRAD_FUNCTION_BATCH_TAKES_SAMPLES;  // data_ptr of such a tensor raises
}

// Returns a list with an entry for every argument from the tangents of the tensor arguments.
inline variable_list spread(const std::vector<bool>& is_tensor, const cograd_tensor* tangents) {
  std::vector<Tensor> out(is_tensor.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (is_tensor[i]) out[i] = Tensor::borrow(*tangents++);
  return variable_list::named(std::move(out), "the tangents, one for each argument of forward");
}

template <class Result>
void hand_out_tangents(const char* node, Result found, cograd_tensor* out, size_t n) {
  size_t at = 0, count = 0;
  each_output(found, [&](Tensor&) { ++count; });
  COGRAD_CHECK(count == n, node, ": jvp returned ", count, " tangents, expected ", n,
               ": one for each output of forward, undefined where it has none");
  each_output(found, [&](Tensor& t) { out[at++] = t.release(); });
}

}  // namespace ext

// The base of a Function: struct T : Function<T>, with static functions forward and backward.
template <class T>
struct Function {
  // Runs T::forward; records a node if an argument requires grad.
  template <class X = T, class... Args>
  static ext::ForwardResult<X, Args...> apply(Args&&... args) {
    static_assert(ext::HasBackward<T>::value,
                  "this Function has no `static variable_list backward(AutogradContext* ctx, "
                  "variable_list grads)`, which returns one gradient per argument of forward");
    static_assert(ext::HasJvp<T>::value || !ext::NamesJvp<T>::value,
                  "jvp must be `static variable_list jvp(AutogradContext* ctx, variable_list "
                  "tangents)`, which returns one tangent per output of forward");
    using Call = ext::SampledCall<T, ext::ForwardResult<X, Args...>,
                                  std::remove_cv_t<std::remove_reference_t<Args>>...>;
    static_assert(Call::has_vmap || !ext::NamesVmap<T>::value,
                  "vmap must be `static std::pair<Output, int64_t> vmap(const VmapInfo& info, "
                  "const InDims& in_dims, <the arguments of forward>)`");
    static_assert(!Call::has_vmap || !ext::TakesSamples<T>::value,
                  "this Function has both a vmap and generate_vmap_rule: remove one");
    ext::Inputs<void> in;
    (in.collect(args), ...);
    auto* state = new FunctionState_;
    state->is_tensor = std::move(in.is_tensor);
    state->arguments = ext::argument_types<std::decay_t<Args>...>;
    static const cograd_function description{sizeof(cograd_function),
                                             ext::type_name<T>(),
                                             cograd_run_backward_,
                                             nullptr,
                                             cograd_destroy_,
                                             ext::flags_of<T>(),
                                             ext::HasJvp<T>::value ? cograd_run_jvp_ : nullptr,
                                             cograd_batch_<Call>(),
                                             cograd_call_<Call>()};
    cograd_context ctx = nullptr;
    ext::check(
        cograd_function_begin(&description, state, in.tensors.data(), in.tensors.size(), &ctx));
    if (ctx == nullptr) {  // inputs are batched by a vmap
      if constexpr (Call::repeats || Call::has_vmap) {
        ext::Inputs<void> again;
        (again.collect(args), ...);
        Call call{{args...}, again.is_tensor, {}};
        cograd_value found;
        ext::check(cograd_function_apply(&description, &call, again.tensors.data(),
                                         again.tensors.size(), &found));
        ext::take_outputs(found, *call.out);
        return std::move(*call.out);
      }
    }
    struct Abort {
      cograd_context ctx;
      ~Abort() {
        if (ctx != nullptr) cograd_function_abort(ctx);
      }
    } guard{ctx};
    state->ctx.attach(ctx);
    auto out = X::forward(&state->ctx, std::forward<Args>(args)...);
    state->ctx.stow();
    guard.ctx = nullptr;
    ext::end_call(ctx, out);
    return out;
  }

 private:
  // The names below are unusual so that they do not hide names of the user's struct or namespace.
  using FunctionState_ = ext::FunctionState<void>;
  template <class Call>
  static constexpr auto cograd_batch_() -> decltype(cograd_function::batch) {
    if constexpr (Call::has_vmap)
      return Call::batch;
    else
      return nullptr;
  }
  template <class Call>
  static constexpr auto cograd_call_() -> decltype(cograd_function::call) {
    if constexpr (Call::repeats)
      return Call::call;
    else
      return nullptr;
  }
  static cograd_status cograd_run_jvp_(cograd_context ctx, void* state,
                                       const cograd_tensor* tangents, size_t, cograd_tensor* out,
                                       size_t n_outputs) {
    return ext::guarded([&] {
      const auto& st = *static_cast<const FunctionState_*>(state);
      AutogradContext run;
      run.restore(st.ctx, ctx, true);
      if constexpr (ext::HasJvp<T>::value)
        ext::hand_out_tangents(ext::type_name<T>(),
                               T::jvp(&run, ext::spread(st.is_tensor, tangents)), out, n_outputs);
    });
  }
  static void cograd_destroy_(void* state) { delete static_cast<FunctionState_*>(state); }
  static cograd_status cograd_run_backward_(cograd_context ctx, void* state,
                                            const cograd_tensor* grads, size_t n_grads,
                                            cograd_tensor* out, size_t n_inputs) {
    return ext::guarded([&] {
      const auto& st = *static_cast<const FunctionState_*>(state);
      std::vector<Tensor> list;
      list.reserve(n_grads);
      for (size_t i = 0; i < n_grads; ++i) list.push_back(Tensor::borrow(grads[i]));
      variable_list in =
          variable_list::named(std::move(list), "the gradients, one for each output of forward");
      AutogradContext run;
      run.restore(st.ctx, ctx);
      variable_list found;
      if constexpr (!ext::HasBackward<T>::value)
        (void)run;  // a static_assert in apply refuses this case
      else if constexpr (std::is_same_v<decltype(T::backward(&run, std::move(in))), Tensor>)
        found.push_back(T::backward(&run, std::move(in)));
      else
        found = T::backward(&run, std::move(in));
      ext::hand_out(st, ext::type_name<T>(), found, out, n_inputs);
    });
  }
};

}  // namespace autograd
}  // namespace abi1
}  // namespace cograd
