// SPDX-License-Identifier: BSD-3-Clause
// Value and Result: the boxed arguments and results with which any op can be called by name.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "tensor/tensor.h"

namespace cograd {

class Generator;

// An argument that may be a tensor or a number, as the operands of arithmetic are.
// Holds a reference: the tensor must outlive the call.
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
  Doubles,  // lists, of registered ops
  Bools,
  Strings,
};

struct Value {
  enum class Kind : uint8_t {
    None,
    Tensor,
    Tensors,
    Scalar,
    Int,
    Double,
    Bool,
    Ints,
    DType,
    Device,
    String,
    Generator,
    Doubles,
    Bools,
    Strings,
  };
  Kind kind = Kind::None;
  Scalar scalar;
  union {
    TensorImpl* tensor;  // borrowed
    const void* list;    // int64_t, Tensor, char, double, bool or string_view, borrowed
    int64_t integer = 0;
    double number;
    bool truth;
    DType dtype;
    Device device;
    Generator* generator;
  };
  size_t length = 0;  // of a list
  bool none() const noexcept { return kind == Kind::None; }
};

struct ResultItems;

struct Result {
  // Text and Items (a sequence of anything) are results of registered ops only.
  enum class Kind : uint8_t { None, Tensor, Tuple, List, Int, Double, Bool, Text, Items };
  Kind kind = Kind::None;
  Tensor tensor;
  std::vector<Tensor> tensors;
  std::shared_ptr<ResultItems> more;  // of Text and Items
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

// How one C++ parameter type is filled from a Value, and what kind of argument it is.
template <class T>
struct ArgTraits;

#define COGRAD_ARG(Type, kind_, nullable_, expr)               \
  template <>                                                  \
  struct ArgTraits<Type> {                                     \
    static constexpr ArgKind kind = ArgKind::kind_;            \
    static constexpr bool nullable = nullable_;                \
    static decltype(auto) get(const Value& v) { return expr; } \
  }
COGRAD_ARG(Tensor, Tensor, true, (reinterpret_cast<const Tensor&>(v.tensor)));
COGRAD_ARG(TensorOrScalar, TensorOrScalar, false,
           v.kind == Value::Kind::Tensor ? TensorOrScalar(reinterpret_cast<const Tensor&>(v.tensor))
                                         : TensorOrScalar(v.scalar));
COGRAD_ARG(std::optional<TensorOrScalar>, TensorOrScalar, true,
           v.none() ? std::nullopt
                    : std::optional<TensorOrScalar>(ArgTraits<TensorOrScalar>::get(v)));
COGRAD_ARG(TensorList, Tensors, false, (TensorList(static_cast<const Tensor*>(v.list), v.length)));
COGRAD_ARG(Scalar, Scalar, false, v.scalar);
COGRAD_ARG(std::optional<Scalar>, Scalar, true,
           v.none() ? std::nullopt : std::optional<Scalar>(v.scalar));
COGRAD_ARG(int64_t, Int, false, v.integer);
COGRAD_ARG(std::optional<int64_t>, Int, true,
           v.none() ? std::nullopt : std::optional<int64_t>(v.integer));
COGRAD_ARG(double, Double, false, v.number);
COGRAD_ARG(std::optional<double>, Double, true,
           v.none() ? std::nullopt : std::optional<double>(v.number));
COGRAD_ARG(bool, Bool, false, v.truth);
COGRAD_ARG(std::optional<bool>, Bool, true, v.none() ? std::nullopt : std::optional<bool>(v.truth));
COGRAD_ARG(IntList, Ints, false, (IntList(static_cast<const int64_t*>(v.list), v.length)));
COGRAD_ARG(std::optional<IntList>, Ints, true,
           v.none()
               ? std::nullopt
               : std::optional<IntList>(IntList(static_cast<const int64_t*>(v.list), v.length)));
COGRAD_ARG(DType, DType, false, v.dtype);
COGRAD_ARG(std::optional<DType>, DType, true,
           v.none() ? std::nullopt : std::optional<DType>(v.dtype));
COGRAD_ARG(std::optional<Device>, Device, true,
           v.none() ? std::nullopt : std::optional<Device>(v.device));
COGRAD_ARG(std::string_view, String, false,
           (std::string_view(static_cast<const char*>(v.list), v.length)));
COGRAD_ARG(std::optional<std::string_view>, String, true,
           v.none()
               ? std::nullopt
               : std::optional<std::string_view>(std::string_view(static_cast<const char*>(v.list),
                                                                  v.length)));
COGRAD_ARG(Generator*, Generator, true, v.none() ? nullptr : v.generator);
#undef COGRAD_ARG

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

}  // namespace cograd
