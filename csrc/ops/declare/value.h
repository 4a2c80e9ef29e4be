// SPDX-License-Identifier: BSD-3-Clause
// Defines Value and Result, the boxed arguments and results that let callers run any op by name.
#pragma once
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "cograd/c_api.h"
#include "tensor/tensor.h"

namespace cograd {

class Generator;

// An argument that may be a tensor or a scalar, such as an operand of arithmetic. It holds a
// reference to the tensor, so the tensor must outlive the call.
class TensorOrScalar {
 public:
  TensorOrScalar(const Tensor& t) noexcept : tensor_(&t) {}  // NOLINT: implicit by intent
  TensorOrScalar(Scalar s) noexcept : scalar_(s) {}          // NOLINT
  TensorOrScalar(double v) noexcept : scalar_(v) {}          // NOLINT
  TensorOrScalar(int v) noexcept : scalar_(v) {}             // NOLINT
  TensorOrScalar(int64_t v) noexcept : scalar_(v) {}         // NOLINT
  bool is_tensor() const noexcept { return tensor_ != nullptr; }
  const Tensor& tensor() const noexcept { return *tensor_; }
  const Tensor* tensor_or_null() const noexcept { return tensor_; }
  Scalar scalar() const noexcept { return scalar_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar scalar_;
};

enum class ArgKind : uint8_t {
  Tensor,
  TensorOrScalar,
  Tensors,  // a sequence of tensors
  Scalar,
  Int,
  Double,
  Bool,
  Ints,  // an int or a sequence of ints
  DType,
  Device,
  String,
  Generator,
  Doubles,  // lists: only registered ops have these kinds
  Bools,
  Strings,
  Dim,  // one dim of the input; negative values count from the end
  DimList,
  Shape,   // sizes or strides: unlike for dims, a single int is not accepted
  Opaque,  // types that only C++ callers can pass, to ops outside the table
};
inline constexpr int kNumArgKinds = static_cast<int>(ArgKind::Opaque) + 1;
// Returns the kind's name as the exported table spells it, e.g. "Tensor".
COGRAD_API const char* kind_name(ArgKind k) noexcept;

// A dim as the caller passed it, possibly negative; wrap_dim() converts it to a dim of a tensor.
struct Dim {
  int64_t value = 0;
  constexpr Dim() noexcept = default;
  constexpr Dim(int64_t v) noexcept : value(v) {}                // NOLINT: implicit by intent
  constexpr operator int64_t() const noexcept { return value; }  // NOLINT
};
struct DimList : IntList {
  constexpr DimList() noexcept = default;
  constexpr DimList(IntList v) noexcept : IntList(v) {}  // NOLINT: implicit by intent
};
struct Shape : IntList {
  constexpr Shape() noexcept = default;
  constexpr Shape(IntList v) noexcept : IntList(v) {}  // NOLINT: implicit by intent
};

// Kinds that never cross the C interface.
inline constexpr int32_t kGeneratorValue = 64, kOpaqueValue = 65;

// A boxed argument with exactly the layout of cograd_value in the C interface. A scalar has kind
// BOOLEAN, INT, FLOAT or COMPLEX; lists are borrowed; None for a Tensor parameter is a TENSOR with
// a null pointer.
struct Value {
  int32_t kind = COGRAD_NONE;
  uint32_t owned = 0;
  union {
    TensorImpl* tensor = nullptr;  // borrowed
    int64_t integer;
    double number;
    const void* list;
  } u;
  size_t length = 0;

  static Value from_c(const cograd_value& v) noexcept { return std::bit_cast<Value>(v); }
  cograd_value to_c() const noexcept { return std::bit_cast<cograd_value>(*this); }

  bool none() const noexcept {
    return kind == COGRAD_NONE || (kind == COGRAD_TENSOR && u.tensor == nullptr);
  }
  bool has_tensor() const noexcept { return kind == COGRAD_TENSOR && u.tensor != nullptr; }
  // True for a scalar of at least 2^63, whose exact uint64 bits are in `length`.
  bool is_large() const noexcept {
    return length >> 63 != 0 && static_cast<double>(length) == u.number;
  }
  bool is_number() const noexcept {
    return kind == COGRAD_BOOLEAN || kind == COGRAD_INT || kind == COGRAD_FLOAT ||
           kind == COGRAD_COMPLEX;
  }

  const Tensor& tensor() const noexcept { return reinterpret_cast<const Tensor&>(u.tensor); }
  Scalar scalar() const noexcept {
    if (kind == COGRAD_FLOAT) return is_large() ? Scalar(uint64_t{length}) : Scalar(u.number);
    if (kind == COGRAD_COMPLEX)
      return Complex<double>(u.number, std::bit_cast<double>(uint64_t{length}));
    if (kind == COGRAD_BOOLEAN) return Scalar(u.integer != 0);
    return Scalar(static_cast<long>(u.integer));
  }
  int64_t integer() const noexcept { return u.integer; }
  double number() const noexcept { return u.number; }
  bool truth() const noexcept { return u.integer != 0; }
  DType dtype() const noexcept { return static_cast<DType>(u.integer); }
  Device device() const noexcept {  // `length` is the index plus one
    return Device{static_cast<DeviceType>(u.integer), static_cast<int8_t>(int(length) - 1)};
  }
  TensorList tensors() const noexcept { return {static_cast<const Tensor*>(u.list), length}; }
  IntList ints() const noexcept { return {static_cast<const int64_t*>(u.list), length}; }
  std::string_view text() const noexcept { return {static_cast<const char*>(u.list), length}; }
  Generator* generator() const noexcept {
    return static_cast<Generator*>(const_cast<void*>(u.list));
  }

  void set_tensor(TensorImpl* t) noexcept {  // borrowed
    kind = COGRAD_TENSOR;
    u.tensor = t;
  }
  void set_scalar(const Scalar& s) noexcept {
    if (s.is_float()) {
      set_number(s.to_double());
      if (s.is_large()) length = static_cast<size_t>(s.to_int());
      return;
    }
    if (s.is_complex()) {
      set_number(s.to_double());
      kind = COGRAD_COMPLEX;
      length = std::bit_cast<uint64_t>(s.imag());
      return;
    }
    kind = s.is_bool() ? COGRAD_BOOLEAN : COGRAD_INT;
    u.integer = s.to_int();
  }
  void set_integer(int64_t v) noexcept {
    kind = COGRAD_INT;
    u.integer = v;
  }
  void set_number(double v) noexcept {
    kind = COGRAD_FLOAT;
    u.number = v;
  }
  void set_truth(bool v) noexcept {
    kind = COGRAD_BOOLEAN;
    u.integer = v;
  }
  void set_dtype(DType v) noexcept {
    kind = COGRAD_DTYPE;
    u.integer = static_cast<int64_t>(v);
  }
  void set_device(Device v) noexcept {
    kind = COGRAD_DEVICE;
    u.integer = static_cast<int64_t>(v.type);
    length = static_cast<size_t>(v.index + 1);
  }
  // `k` must be one of the kinds that use `list`.
  void set_list(int32_t k, const void* list, size_t n) noexcept {
    kind = k;
    u.list = list;
    length = n;
  }
  void set_generator(Generator* g) noexcept { set_list(kGeneratorValue, g, 0); }
};
static_assert(sizeof(Value) == sizeof(cograd_value));
static_assert(sizeof(Tensor) == sizeof(cograd_tensor));

struct ResultItems;

struct Result {
  // Only registered ops return Text and Items (a sequence of arbitrary results).
  enum class Kind : uint8_t { None, Tensor, Tuple, List, Int, Double, Bool, Text, Items };
  Kind kind = Kind::None;
  Tensor tensor;
  std::vector<Tensor> tensors;
  std::shared_ptr<ResultItems> more;  // the contents of Text and Items
  union {
    int64_t integer = 0;
    double number;
    bool truth;
  };
};

struct ResultItems {
  std::string text;
  std::vector<Result> items;
  bool tuple = false;
};

// Calls f on each tensor of a result; f may replace it.
template <class F>
void each_tensor(Result& r, F&& f) {
  if (r.tensor.defined()) f(r.tensor);
  for (Tensor& t : r.tensors)
    if (t.defined()) f(t);
  if (r.more != nullptr)
    for (Result& part : r.more->items) each_tensor(part, f);
}

// Describes a C++ parameter type: its ArgKind and how it is read from and written to a Value.
template <class T>
struct ArgTraits {
  static constexpr ArgKind kind = ArgKind::Opaque;
  static constexpr bool nullable = false;
  static const T& get(const Value& v) { return *static_cast<const T*>(v.u.list); }
  static void put(Value& v, const T& x) { v.set_list(kOpaqueValue, &x, 0); }
};

#define COGRAD_ARG(Type, kind_, nullable_, expr, set)          \
  template <>                                                  \
  struct ArgTraits<Type> {                                     \
    static constexpr ArgKind kind = ArgKind::kind_;            \
    static constexpr bool nullable = nullable_;                \
    static decltype(auto) get(const Value& v) { return expr; } \
    static void put(Value& v, Type const& x) { set; }          \
  }
COGRAD_ARG(Tensor, Tensor, true, v.tensor(), v.set_tensor(x.impl()));
COGRAD_ARG(TensorOrScalar, TensorOrScalar, false,
           v.kind == COGRAD_TENSOR ? TensorOrScalar(v.tensor()) : TensorOrScalar(v.scalar()),
           x.is_tensor() ? v.set_tensor(x.tensor().impl()) : v.set_scalar(x.scalar()));
COGRAD_ARG(TensorList, Tensors, false, v.tensors(), v.set_list(COGRAD_TENSORS, x.data(), x.size()));
COGRAD_ARG(Scalar, Scalar, false, v.scalar(), v.set_scalar(x));
COGRAD_ARG(int64_t, Int, false, v.integer(), v.set_integer(x));
COGRAD_ARG(Dim, Dim, false, Dim(v.integer()), v.set_integer(x));
COGRAD_ARG(double, Double, false, v.number(), v.set_number(x));
COGRAD_ARG(bool, Bool, false, v.truth(), v.set_truth(x));
COGRAD_ARG(IntList, Ints, false, v.ints(), v.set_list(COGRAD_INTS, x.data(), x.size()));
COGRAD_ARG(DimList, DimList, false, DimList(v.ints()), v.set_list(COGRAD_INTS, x.data(), x.size()));
COGRAD_ARG(Shape, Shape, false, Shape(v.ints()), v.set_list(COGRAD_INTS, x.data(), x.size()));
COGRAD_ARG(DType, DType, false, v.dtype(), v.set_dtype(x));
COGRAD_ARG(Device, Device, false, v.device(), v.set_device(x));
COGRAD_ARG(std::string_view, String, false, v.text(),
           v.set_list(COGRAD_STRING, x.data(), x.size()));
COGRAD_ARG(Generator*, Generator, true, v.none() ? nullptr : v.generator(),
           if (x != nullptr) v.set_generator(x));
#undef COGRAD_ARG
template <class T>
struct ArgTraits<std::optional<T>> {
  static constexpr ArgKind kind = ArgTraits<T>::kind;
  static constexpr bool nullable = true;
  static std::optional<T> get(const Value& v) {
    return v.none() ? std::nullopt : std::optional<T>(ArgTraits<T>::get(v));
  }
  static void put(Value& v, const std::optional<T>& x) {
    if (x) ArgTraits<T>::put(v, *x);
  }
};

inline void box(Result& r, Tensor t) {
  r.kind = Result::Kind::Tensor;
  r.tensor = std::move(t);
}
inline void box(Result& r, std::vector<Tensor> v) {
  r.kind = Result::Kind::List;
  r.tensors = std::move(v);
}
template <class... T>
void box(Result& r, std::tuple<T...> v) {
  r.kind = Result::Kind::Tuple;
  std::apply([&](auto&... t) { (r.tensors.push_back(std::move(t)), ...); }, v);
}
inline void box(Result& r, int64_t v) {
  r.kind = Result::Kind::Int;
  r.integer = v;
}
inline void box(Result& r, double v) {
  r.kind = Result::Kind::Double;
  r.number = v;
}
inline void box(Result& r, bool v) {
  r.kind = Result::Kind::Bool;
  r.truth = v;
}

// The inverse of box(): extracts the result of an op that returns Out.
template <class Out>
struct Unboxed {
  static Out get(Result& r) {
    if constexpr (std::is_same_v<Out, Tensor>)
      return std::move(r.tensor);
    else if constexpr (std::is_same_v<Out, std::vector<Tensor>>)
      return std::move(r.tensors);
    else if constexpr (std::is_same_v<Out, int64_t>)
      return r.integer;
    else if constexpr (std::is_same_v<Out, double>)
      return r.number;
    else if constexpr (std::is_same_v<Out, bool>)
      return r.truth;
  }
};
template <class... T>
struct Unboxed<std::tuple<T...>> {
  static std::tuple<T...> get(Result& r) { return take(r, std::index_sequence_for<T...>()); }

 private:
  template <size_t... I>
  static std::tuple<T...> take(Result& r, std::index_sequence<I...>) {
    return {std::move(r.tensors[I])...};
  }
};

}  // namespace cograd
