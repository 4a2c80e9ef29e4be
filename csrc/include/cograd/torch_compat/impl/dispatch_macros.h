// SPDX-License-Identifier: BSD-3-Clause
// AT_DISPATCH_...: runs one lambda for several element types.
#pragma once
#include "cograd/torch_compat/impl/complex.h"
#include "cograd/torch_compat/impl/names.h"

namespace cograd {
namespace torch_compat {

template <DType T>
struct CppType;
#define COGRAD_CPP_TYPE(cpp, name) \
  template <>                      \
  struct CppType<DType::name> {    \
    using type = cpp;              \
  };
AT_FORALL_COGRAD_DTYPES(COGRAD_CPP_TYPE)
COGRAD_CPP_TYPE(::cograd::Complex<float>, ComplexFloat)
COGRAD_CPP_TYPE(::cograd::Complex<double>, ComplexDouble)
#undef COGRAD_CPP_TYPE

}  // namespace torch_compat
}  // namespace cograd

namespace c10 {
namespace impl {
template <::cograd::DType T>
using ScalarTypeToCPPTypeT = typename ::cograd::torch_compat::CppType<T>::type;
template <::cograd::DType T>
using ScalarTypeToCPPType = ::cograd::torch_compat::CppType<T>;
}  // namespace impl
}  // namespace c10

#define AT_DISPATCH_CASE(enum_type, ...) \
  AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, scalar_t, __VA_ARGS__)
#define AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, hint, ...)                   \
  case enum_type: {                                                             \
    using hint [[maybe_unused]] = ::c10::impl::ScalarTypeToCPPTypeT<enum_type>; \
    return __VA_ARGS__();                                                       \
  }
#define AT_PRIVATE_CASE_TYPE(name, enum_type, type, ...) \
  case enum_type: {                                      \
    using scalar_t [[maybe_unused]] = type;              \
    return __VA_ARGS__();                                \
  }
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                              \
  [&] {                                                                                  \
    const ::cograd::DType cograd_type_ = (TYPE);                                         \
    switch (cograd_type_) {                                                              \
      __VA_ARGS__                                                                        \
      default:                                                                           \
        ::cograd::torch_compat::fail(::cograd::ErrorKind::NotImplemented, "", '"', NAME, \
                                     "\" not implemented for '", cograd_type_, "'");     \
    }                                                                                    \
  }()

#define AT_DISPATCH_CASE_FLOATING_TYPES(...)             \
  AT_DISPATCH_CASE(::cograd::DType::Double, __VA_ARGS__) \
  AT_DISPATCH_CASE(::cograd::DType::Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...)   \
  AT_DISPATCH_CASE(::cograd::DType::Half, __VA_ARGS__) \
  AT_DISPATCH_CASE(::cograd::DType::BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)           \
  AT_DISPATCH_CASE(::cograd::DType::Byte, __VA_ARGS__) \
  AT_DISPATCH_CASE(::cograd::DType::Char, __VA_ARGS__) \
  AT_DISPATCH_CASE(::cograd::DType::Int, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::cograd::DType::Long, __VA_ARGS__) \
  AT_DISPATCH_CASE(::cograd::DType::Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...)                     \
  AT_DISPATCH_CASE(::cograd::DType::ComplexDouble, __VA_ARGS__) \
  AT_DISPATCH_CASE(::cograd::DType::ComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)

// The cases of a family of types plus 1 to 4 more types.
#define COGRAD_AT_1_(family, A, ...) \
  AT_DISPATCH_CASE_##family(__VA_ARGS__) AT_DISPATCH_CASE(A, __VA_ARGS__)
#define COGRAD_AT_2_(family, A, B, ...) \
  COGRAD_AT_1_(family, A, __VA_ARGS__) AT_DISPATCH_CASE(B, __VA_ARGS__)
#define COGRAD_AT_3_(family, A, B, C, ...) \
  COGRAD_AT_2_(family, A, B, __VA_ARGS__) AT_DISPATCH_CASE(C, __VA_ARGS__)
#define COGRAD_AT_4_(family, A, B, C, D, ...) \
  COGRAD_AT_3_(family, A, B, C, __VA_ARGS__) AT_DISPATCH_CASE(D, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(...) \
  COGRAD_AT_1_(FLOATING_TYPES, ::cograd::DType::Half, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(A, ...) COGRAD_AT_1_(FLOATING_TYPES, A, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(A, B, ...) \
  COGRAD_AT_2_(FLOATING_TYPES, A, B, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND(A, ...) COGRAD_AT_1_(ALL_TYPES, A, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(A, B, ...) COGRAD_AT_2_(ALL_TYPES, A, B, __VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_FLOATING_TYPES_AND_HALF(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND(A, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_1_(FLOATING_TYPES, A, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND2(A, B, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_2_(FLOATING_TYPES, A, B, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND3(A, B, C, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_3_(FLOATING_TYPES, A, B, C, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND4(A, B, C, D, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_4_(FLOATING_TYPES, A, B, C, D, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND(A, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_1_(ALL_TYPES, A, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND2(A, B, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_2_(ALL_TYPES, A, B, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND3(A, B, C, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_3_(ALL_TYPES, A, B, C, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND4(A, B, C, D, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_4_(ALL_TYPES, A, B, C, D, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_HALF(T, N, ...) \
  AT_DISPATCH_ALL_TYPES_AND(::cograd::DType::Half, T, N, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES_AND(A, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_1_(INTEGRAL_TYPES, A, __VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(T, N, ...)                                        \
  AT_DISPATCH_SWITCH(                                                             \
      T, N,                                                                       \
      AT_PRIVATE_CASE_TYPE_USING_HINT(::cograd::DType::Int, index_t, __VA_ARGS__) \
          AT_PRIVATE_CASE_TYPE_USING_HINT(::cograd::DType::Long, index_t, __VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES_AND(A, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_1_(COMPLEX_TYPES, A, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(A, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_1_(FLOATING_AND_COMPLEX_TYPES, A, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(A, B, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_2_(FLOATING_AND_COMPLEX_TYPES, A, B, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND3(A, B, C, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_3_(FLOATING_AND_COMPLEX_TYPES, A, B, C, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND4(A, B, C, D, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_4_(FLOATING_AND_COMPLEX_TYPES, A, B, C, D, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(A, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_1_(ALL_TYPES_AND_COMPLEX, A, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(A, B, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_2_(ALL_TYPES_AND_COMPLEX, A, B, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(A, B, C, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_3_(ALL_TYPES_AND_COMPLEX, A, B, C, __VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(A, B, C, D, T, N, ...) \
  AT_DISPATCH_SWITCH(T, N, COGRAD_AT_4_(ALL_TYPES_AND_COMPLEX, A, B, C, D, __VA_ARGS__))
