// SPDX-License-Identifier: BSD-3-Clause
// Registration of ops: COGRAD_LIBRARY(myops, m) { m.def("axpby", &axpby, "x, y, a=1.0"); }
// The types of the parameters come from the C++ signature.
#pragma once
#include "cograd/function.h"

namespace cograd {
inline namespace abi1 {
namespace ext {

// --- parameters: the kind of each C++ type and how it is unboxed ---
template <class T, class = void>
struct Argument {
  static_assert(sizeof(T) == 0,
                "this parameter type is not known: use Tensor, optional<Tensor>, TensorList, "
                "int64_t, double, bool, std::string, Scalar, DType, Device, or lists of these");
};
template <int32_t Kind>
struct Of {
  static_assert(Kind >= 0, "lists may hold Tensor, int64_t, double, bool or std::string");
  static constexpr int32_t kind = Kind;
};
// A template, so that only the lists that an extension uses are compiled.
template <class T>
inline constexpr int32_t list_kind = std::is_same_v<T, Tensor>        ? COGRAD_TENSORS
                                     : std::is_same_v<T, int64_t>     ? COGRAD_INTS
                                     : std::is_same_v<T, double>      ? COGRAD_FLOATS
                                     : std::is_same_v<T, bool>        ? COGRAD_BOOLEANS
                                     : std::is_same_v<T, std::string> ? COGRAD_STRINGS
                                                                      : -1;
template <>
struct Argument<Tensor> : Of<COGRAD_TENSOR> {
  static const Tensor& get(const cograd_value& v) {
    return reinterpret_cast<const Tensor&>(v.u.tensor);
  }
};
template <>
struct Argument<bool> : Of<COGRAD_BOOLEAN> {
  static bool get(const cograd_value& v) { return v.u.integer != 0; }
};
template <class T>
struct Argument<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
    : Of<COGRAD_INT> {
  static T get(const cograd_value& v) {
    const T t = static_cast<T>(v.u.integer);
    COGRAD_CHECK_VALUE(
        static_cast<int64_t>(t) == v.u.integer && (std::is_signed_v<T> || v.u.integer >= 0), "got ",
        v.u.integer, ", which does not fit the C++ type of the parameter");
    return t;
  }
};
template <class T>
struct Argument<T, std::enable_if_t<std::is_floating_point_v<T>>> : Of<COGRAD_FLOAT> {
  static T get(const cograd_value& v) { return static_cast<T>(v.u.number); }
};
template <>
struct Argument<Scalar> : Of<COGRAD_NUMBER> {
  static Scalar get(const cograd_value& v) {
    if (v.kind == COGRAD_FLOAT) return Scalar(v.u.number);
    if (v.kind == COGRAD_COMPLEX) {
      double imag = 0;
      __builtin_memcpy(&imag, &v.length, sizeof imag);
      return Complex<double>(v.u.number, imag);
    }
    if (v.kind == COGRAD_BOOLEAN) return Scalar(v.u.integer != 0);
    return Scalar(static_cast<long>(v.u.integer));
  }
};
template <>
struct Argument<std::string> : Of<COGRAD_STRING> {
  static std::string get(const cograd_value& v) {
    return std::string(static_cast<const char*>(v.u.list), v.length);
  }
};
template <>
struct Argument<std::string_view> : Of<COGRAD_STRING> {
  static std::string_view get(const cograd_value& v) {
    return {static_cast<const char*>(v.u.list), v.length};
  }
};
template <>
struct Argument<DType> : Of<COGRAD_DTYPE> {
  static DType get(const cograd_value& v) { return static_cast<DType>(v.u.integer); }
};
template <>
struct Argument<Device> : Of<COGRAD_DEVICE> {
  static Device get(const cograd_value& v) {
    return Device(static_cast<DeviceType>(v.u.integer), static_cast<int8_t>(v.length) - 1);
  }
};
template <class T>
struct Argument<ArrayRef<T>> : Of<list_kind<T>> {
  static_assert(list_kind<T> != COGRAD_STRINGS && list_kind<T> != COGRAD_BOOLEANS,
                "take a std::vector of these");
  static ArrayRef<T> get(const cograd_value& v) {
    return {static_cast<const T*>(v.u.list), v.length};
  }
};
template <>
struct Argument<Ints> : Of<COGRAD_INTS> {
  static Ints get(const cograd_value& v) {
    return IntArrayRef(static_cast<const int64_t*>(v.u.list), v.length);
  }
};
template <class T>
struct Argument<std::vector<T>> : Of<list_kind<T>> {
  static std::vector<T> get(const cograd_value& v) {
    std::vector<T> out;
    out.reserve(v.length);
    if constexpr (std::is_same_v<T, std::string>) {
      const auto* s = static_cast<const cograd_string*>(v.u.list);
      for (size_t i = 0; i < v.length; ++i) out.emplace_back(s[i].data, s[i].length);
    } else if constexpr (std::is_same_v<T, bool>) {
      const auto* p = static_cast<const uint8_t*>(v.u.list);
      out.assign(p, p + v.length);
    } else {
      const auto* p = static_cast<const T*>(v.u.list);
      out.assign(p, p + v.length);
    }
    return out;
  }
};
template <>
struct Argument<variable_list> : Argument<std::vector<Tensor>> {};
template <class T>
struct Argument<std::optional<T>> : Of<Argument<T>::kind | COGRAD_NULLABLE> {
  static std::optional<T> get(const cograd_value& v) {
    if (v.kind == COGRAD_NONE || (v.kind == COGRAD_TENSOR && v.u.tensor == nullptr))
      return std::nullopt;
    return Argument<T>::get(v);
  }
};

// The kind of a parameter; the op writes a parameter of type `Tensor&`.
template <class A>
inline constexpr int32_t kind_of =
    Argument<std::decay_t<A>>::kind | (std::is_same_v<A, Tensor&> ? COGRAD_MUTATED : 0);
struct Writable {
  Tensor tensor;
  operator Tensor&() noexcept { return tensor; }
};
// Converts an unboxed argument to the argument of Function::apply.
template <class A>
A&& given(A&& a) noexcept {
  return std::forward<A>(a);
}
inline Tensor& given(Writable&& w) noexcept { return w.tensor; }
template <class A>
decltype(auto) argument(const cograd_value& v) {
  if constexpr (std::is_same_v<A, Tensor&>)
    return Writable{Argument<Tensor>::get(v)};
  else
    return Argument<std::decay_t<A>>::get(v);
}

// --- results ---
inline void push(cograd_results r, const cograd_value& v) { check(cograd_results_push(r, &v)); }
inline void push(cograd_results r, const Tensor& t) {
  check(cograd_results_push_tensor(r, t.handle()));
}
template <class T>
void push(cograd_results r, const std::vector<T>& l) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<uint8_t> bytes(l.begin(), l.end());
    push(r, boxed_list(COGRAD_BOOLEANS, bytes.data(), bytes.size()));
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::vector<cograd_string> views;
    for (const std::string& s : l) views.push_back({s.data(), s.size()});
    push(r, boxed_list(COGRAD_STRINGS, views.data(), views.size()));
  } else {
    static_assert(list_kind<T> >= 0, "no list of this type can be a result");
    push(r, boxed_list(list_kind<T>, l.data(), l.size()));
  }
}
// Pushes results of types that other headers add (cograd/class.h).
template <class T>
struct Pushed;
template <class T>
auto push(cograd_results r, const T& v) -> decltype(Pushed<T>::push(r, v)) {
  Pushed<T>::push(r, v);
}
inline void push(cograd_results r, const std::string& s) { push(r, boxed(std::string_view(s))); }
inline void push(cograd_results r, std::string_view s) { push(r, boxed(s)); }
inline void push(cograd_results r, const char* s) { push(r, boxed(std::string_view(s))); }
inline void push(cograd_results r, bool v) { push(r, boxed(v)); }
inline void push(cograd_results r, double v) { push(r, boxed(v)); }
inline void push(cograd_results r, float v) { push(r, boxed(static_cast<double>(v))); }
inline void push(cograd_results r, Scalar v) { push(r, boxed(v)); }
template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
void push(cograd_results r, T v) {
  push(r, boxed(static_cast<int64_t>(v)));
}
template <class T>
void push(cograd_results r, const std::optional<T>& v) {
  if (v)
    push(r, *v);
  else
    push(r, cograd_value{});
}
template <class... T>
void push(cograd_results r, const std::tuple<T...>& t) {
  std::apply([&](const auto&... x) { (push(r, x), ...); }, t);
}
template <class A, class B>
void push(cograd_results r, const std::pair<A, B>& p) {
  push(r, p.first);
  push(r, p.second);
}

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

// The kind of a result, for docs; -1 if there is none for its type.
template <class R>
constexpr int32_t kind_of_result() {
  if constexpr (std::is_void_v<R>)
    return COGRAD_NONE;
  else if constexpr (std::is_same_v<R, Tensor>)
    return COGRAD_TENSOR;
  else if constexpr (std::is_same_v<R, std::vector<Tensor>> || std::is_same_v<R, variable_list>)
    return COGRAD_TENSORS;
  else if constexpr (std::is_same_v<R, bool>)
    return COGRAD_BOOLEAN;
  else if constexpr (std::is_integral_v<R>)
    return COGRAD_INT;
  else if constexpr (std::is_floating_point_v<R>)
    return COGRAD_FLOAT;
  else if constexpr (std::is_same_v<R, std::string>)
    return COGRAD_STRING;
  return -1;
}

// A C++ signature; call() unboxes the arguments, calls `f` and pushes its result.
template <class R, class... A>
struct Signature {
  static constexpr size_t count = sizeof...(A);
  static const int32_t* kinds() {
    static constexpr int32_t k[sizeof...(A) + 1] = {kind_of<A>..., 0};
    return k;
  }
  static constexpr uint32_t flags =
      (IsTuple<R>::value ? COGRAD_OP_TUPLE : 0) |
      static_cast<uint32_t>(kind_of_result<R>() + 1) * COGRAD_OP_RESULT_UNIT;
  template <class F>
  static cograd_status call(F&& f, const cograd_value* args, cograd_results results) {
    return guarded([&] { run(f, args, results, std::index_sequence_for<A...>()); });
  }

 private:
  template <class F, size_t... I>
  static void run(F& f, [[maybe_unused]] const cograd_value* args,
                  [[maybe_unused]] cograd_results results, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>)
      f(argument<A>(args[I])...);
    else
      push(results, f(argument<A>(args[I])...));
  }
};
template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> {
  using type = Signature<std::decay_t<R>, A...>;
};
template <class R, class... A>
struct SignatureOf<R (*)(autograd::AutogradContext*, A...)> {
  using type = Signature<std::decay_t<R>, A...>;
};
template <class R, class... A>
struct SignatureOf<R (*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...)> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) const> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) noexcept> : SignatureOf<R (*)(A...)> {};
template <class R, class C, class... A>
struct SignatureOf<R (C::*)(A...) const noexcept> : SignatureOf<R (*)(A...)> {};

template <class F>
struct Trampoline {
  static cograd_status call(cograd_context, void* user, const cograd_value* args, size_t,
                            cograd_results results) {
    return SignatureOf<F>::type::call(*static_cast<F*>(user), args, results);
  }
};
template <class R, class... A>
struct Trampoline<R (*)(A...)> {
  static cograd_status call(cograd_context, void* user, const cograd_value* args, size_t,
                            cograd_results results) {
    return Signature<std::decay_t<R>, A...>::call(reinterpret_cast<R (*)(A...)>(user), args,
                                                  results);
  }
};
template <class R, class... A>
struct Trampoline<R (*)(A...) noexcept> : Trampoline<R (*)(A...)> {};
// Calls of vmap rules, which return a pair of the results and their batch dims.
inline size_t count_tensors(const Tensor&) noexcept { return 1; }
inline size_t count_tensors(const std::vector<Tensor>& l) noexcept { return l.size(); }
inline size_t count_tensors(const variable_list& l) noexcept { return l.size(); }
template <class T>
size_t count_tensors(const T&) noexcept {
  return 0;
}
template <class... T>
size_t count_tensors(const std::tuple<T...>& t) noexcept {
  return std::apply([](const auto&... x) { return (size_t{0} + ... + count_tensors(x)); }, t);
}
template <class S>
struct VmapSignature;
template <class R, class Info, class Dims, class... A>
struct VmapSignature<Signature<R, Info, Dims, A...>> {
  template <class F>
  static cograd_status call(F&& f, const cograd_batch_info& info, const cograd_value* args,
                            const int32_t* dims, cograd_results results) {
    return guarded([&] { run(f, info, args, dims, results, std::index_sequence_for<A...>()); });
  }

 private:
  static void place(const cograd_value& v, int32_t kind, std::vector<bool>& is_tensor) {
    kind &= 0xFF;
    if (kind == COGRAD_TENSORS)
      is_tensor.insert(is_tensor.end(), v.kind == COGRAD_TENSORS ? v.length : 0, true);
    else
      is_tensor.push_back(kind == COGRAD_TENSOR);
  }
  template <class F, size_t... I>
  static void run(F& f, const cograd_batch_info& info, const cograd_value* args,
                  const int32_t* dims, cograd_results results, std::index_sequence<I...>) {
    std::vector<bool> is_tensor;
    (place(args[I], kind_of<A>, is_tensor), ...);
    const VmapInfo told = autograd::ext::vmap_info(info);
    const InDims where = autograd::ext::in_dims(is_tensor, dims);
    auto found = f(told, where, argument<A>(args[I])...);
    const auto& output = std::get<0>(found);
    push(results, output);
    const std::vector<int32_t> out =
        autograd::ext::OutDims<F>::read(std::get<1>(found), count_tensors(output));
    check(cograd_results_set_dims(results, out.data(), out.size()));
  }
};
template <class F>
struct VmapTrampoline {
  static cograd_status call(const cograd_batch_info* info, void* user, const cograd_value* args,
                            size_t, const int32_t* dims, size_t, cograd_results results) {
    using S = VmapSignature<typename SignatureOf<F>::type>;
    if constexpr (std::is_pointer_v<F>)
      return S::call(reinterpret_cast<F>(user), *info, args, dims, results);
    else
      return S::call(*static_cast<F*>(user), *info, args, dims, results);
  }
};
template <class Op>
struct FunctionTrampoline {
  static cograd_status call(cograd_context, void*, const cograd_value* args, size_t,
                            cograd_results results) {
    return SignatureOf<decltype(&Op::forward)>::type::call(
        [](auto&&... a) { return Op::apply(given(std::forward<decltype(a)>(a))...); }, args,
        results);
  }
};

}  // namespace ext

// Describes an op; registers it at the end of the statement that defines it.
class OpDefinition {
 public:
  OpDefinition(const char* library, const char* name) {
    d_.struct_size = sizeof d_;
    d_.library = library;
    d_.name = name;
    d_.schema = "";
    d_.abi_major = COGRAD_ABI_MAJOR;
    d_.abi_minor = COGRAD_ABI_MINOR;
  }
  OpDefinition(OpDefinition&& o) noexcept : d_(o.d_) { o.d_.forward = nullptr; }
  OpDefinition& operator=(OpDefinition&&) = delete;
  ~OpDefinition() {
    if (d_.forward != nullptr) cograd_op_register(&d_);  // reports a failure to the loader
  }
  OpDefinition& args(const char* names_and_defaults) {
    d_.schema = names_and_defaults;
    return *this;
  }
  OpDefinition& doc(const char* text) {
    d_.doc = text;
    return *this;
  }
  // Declares that the result has no derivative (an index, a comparison). Otherwise a backward
  // through an op that computes on elements, without autograd::Function, raises.
  OpDefinition& non_differentiable() {
    d_.flags |= COGRAD_OP_NON_DIFFERENTIABLE;
    return *this;
  }
  // Declares that the op takes tensors that are on GPUs: it consists of ops, or starts kernels
  // (cograd/cuda.h) where x.is_cuda(). Otherwise it gets copies on the CPU.
  OpDefinition& cuda() {
    d_.flags |= COGRAD_OP_CUDA;
    return *this;
  }
  // Sets the vmap rule: `rule(const VmapInfo&, const InDims&, <the op's parameters>)` gets tensors
  // that hold all samples and returns a pair: the result and its batch dim (or one per tensor).
  // Without a rule the op runs sample by sample.
  template <class F>
  OpDefinition& vmap(F rule) {
    d_.batch = ext::VmapTrampoline<F>::call;
    d_.flags |= COGRAD_OP_BATCH_TAKES_SAMPLES;
    if constexpr (std::is_pointer_v<F>)
      d_.batch_user = reinterpret_cast<void*>(rule);
    else
      d_.batch_user = new F(std::move(rule));  // never freed, like the op
    return *this;
  }
  // Declares that the op consists of ops and Functions only: vmap runs it on batched tensors.
  OpDefinition& generate_vmap_rule() {
    d_.flags |= COGRAD_OP_TAKES_SAMPLES;
    return *this;
  }
  cograd_op_desc& description() noexcept { return d_; }

 private:
  cograd_op_desc d_{};
};

template <class T>
class Class;  // cograd/class.h

// A namespace of ops in a COGRAD_LIBRARY block.
class Library {
 public:
  explicit Library(const char* name) : name_(name) {}
  const char* name() const noexcept { return name_; }
  // Defines an op by a function or a lambda. args has the parameters' names and defaults, "x,
  // alpha=1.0, *, dim=None", or a schema with types, "(Tensor(a!) x, float alpha=1.0) -> ()", which
  // must match f.
  template <class F>
  OpDefinition def(const char* name, F f, const char* args = "", const char* doc = nullptr) {
    using S = typename ext::SignatureOf<F>::type;
    OpDefinition op(name_, name);
    cograd_op_desc& d = describe<S>(op, args, doc);
    d.forward = ext::Trampoline<F>::call;
    if constexpr (std::is_pointer_v<F>)
      d.user = reinterpret_cast<void*>(f);
    else
      d.user = new F(std::move(f));  // never freed, like the op
    return op;
  }
  // Defines an op by a struct that derives from autograd::Function.
  template <class Op>
  OpDefinition def(const char* name, const char* args = "", const char* doc = nullptr) {
    using S = typename ext::SignatureOf<decltype(&Op::forward)>::type;
    OpDefinition op(name_, name);
    cograd_op_desc& d = describe<S>(op, args, doc);
    d.forward = ext::FunctionTrampoline<Op>::call;
    d.flags |= COGRAD_OP_DIFFERENTIABLE | COGRAD_OP_TAKES_SAMPLES;  // Op::apply handles both
    if constexpr (autograd::ext::NamesJvp<Op>::value) d.flags |= COGRAD_OP_HAS_JVP;
    if constexpr (autograd::ext::NamesVmap<Op>::value || autograd::ext::TakesSamples<Op>::value)
      d.flags |= COGRAD_OP_HAS_BATCH;
    return op;
  }
  // Defines a C++ class for Python; needs cograd/class.h.
  template <class T>
  Class<T> class_(const char* name, const char* doc = nullptr);

 private:
  template <class S>
  static cograd_op_desc& describe(OpDefinition& op, const char* args, const char* doc) {
    cograd_op_desc& d = op.description();
    d.schema = args;
    d.doc = doc;
    d.kinds = S::kinds();
    d.n_params = S::count;
    d.flags = S::flags;
    return d;
  }
  const char* name_;
};

// Calls any op by name: Op("myops::axpby").call<Tensor>(x, y, 2.0).
class Op {
 public:
  explicit Op(const char* name) : ref_(name) {}
  template <class R, class... A>
  R call(const A&... args) {
    return ext::call<R>(ref_, args...);
  }

 private:
  ext::OpRef ref_;
};

namespace ext {
// Errors of this shared object's COGRAD_LIBRARY blocks; cograd/python.h raises them at import.
COGRAD_API inline std::string& refusals() {
  static auto* text = new std::string;
  return *text;
}

// Initialisers cannot throw. Reports a block's exception to the loader by registering an op whose
// schema is invalid and has the message as its text.
inline void refuse_library(const char* name, std::string why) {
  for (char& c : why)
    if (c == '(' || c == ')') c = '\'';
  const std::string text = "the block raised: " + why;
  cograd_op_desc d{};
  d.struct_size = sizeof d;
  d.library = name;
  d.name = "COGRAD_LIBRARY";
  d.schema = text.c_str();
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;
  d.forward = [](cograd_context, void*, const cograd_value*, size_t, cograd_results) {
    return static_cast<cograd_status>(COGRAD_RUNTIME_ERROR);
  };
  cograd_op_register(&d);
}

inline bool run_library(const char* name, void (*init)(Library&)) {
  uint64_t before = 0, after = 0;
  cograd_error_get(nullptr, nullptr, &before);
  try {
    Library m(name);
    init(m);
  } catch (const std::exception& e) {
    refuse_library(name, e.what());
  } catch (...) {
    refuse_library(name, "something that is no std::exception");
  }
  // A refused op leaves an error that begins with its name. Other errors were handled by the block.
  const char* text = "";
  cograd_error_get(&text, nullptr, &after);
  const std::string begin = std::string("op '") + name + "::";
  if (after != before && std::string_view(text).substr(0, begin.size()) == begin)
    refusals() += (refusals().empty() ? "" : "; ") + std::string(text);
  return true;
}
}  // namespace ext

}  // namespace abi1
}  // namespace cograd

#define COGRAD_CAT_(a, b) a##b
#define COGRAD_CAT(a, b) COGRAD_CAT_(a, b)
#define COGRAD_LIBRARY_IMPL_(ns, m, id)                                          \
  static void COGRAD_CAT(cograd_library_##ns##_, id)(::cograd::Library&);        \
  [[maybe_unused]] static const bool COGRAD_CAT(cograd_registered_##ns##_, id) = \
      ::cograd::ext::run_library(#ns, &COGRAD_CAT(cograd_library_##ns##_, id));  \
  static void COGRAD_CAT(cograd_library_##ns##_, id)([[maybe_unused]] ::cograd::Library & m)
// Registers ops under cograd.ops.<ns> when the library is loaded.
#define COGRAD_LIBRARY(ns, m) COGRAD_LIBRARY_IMPL_(ns, m, library)
// Registers further ops of a namespace; there may be several blocks in one or several files.
#define COGRAD_LIBRARY_FRAGMENT(ns, m) COGRAD_LIBRARY_IMPL_(ns, m, __COUNTER__)
