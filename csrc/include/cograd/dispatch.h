// SPDX-License-Identifier: BSD-3-Clause
// Runs one lambda for several element types; inside it scalar_t is the element type.
//   COGRAD_DISPATCH_FLOATING(x.dtype(), "axpby", [&] { scalar_t* p = x.data_ptr<scalar_t>(); ...
//   });
#pragma once
#include "cograd/dtype.h"
#include "cograd/error.h"

#define COGRAD_DISPATCH_CASE(T, ...)     \
  case ::cograd::dtype_of<T>: {          \
    using scalar_t [[maybe_unused]] = T; \
    return __VA_ARGS__();                \
  }
#define COGRAD_DISPATCH(dtype, name, ...)                                                        \
  [&] {                                                                                          \
    const ::cograd::DType cograd_dtype_ = (dtype);                                               \
    switch (cograd_dtype_) {                                                                     \
      __VA_ARGS__                                                                                \
      default:                                                                                   \
        ::cograd::detail::fail(::cograd::ErrorKind::NotImplemented, name,                        \
                               "(): not implemented for '", ::cograd::dtype_name(cograd_dtype_), \
                               "'");                                                             \
    }                                                                                            \
  }()
#define COGRAD_CASES_FLOATING(...) \
  COGRAD_DISPATCH_CASE(double, __VA_ARGS__) COGRAD_DISPATCH_CASE(float, __VA_ARGS__)
#define COGRAD_CASES_HALF(...)                      \
  COGRAD_DISPATCH_CASE(::cograd::Half, __VA_ARGS__) \
  COGRAD_DISPATCH_CASE(::cograd::BFloat16, __VA_ARGS__)
#define COGRAD_CASES_INTEGRAL(...)           \
  COGRAD_DISPATCH_CASE(uint8_t, __VA_ARGS__) \
  COGRAD_DISPATCH_CASE(int8_t, __VA_ARGS__)  \
  COGRAD_DISPATCH_CASE(int16_t, __VA_ARGS__) \
  COGRAD_DISPATCH_CASE(int32_t, __VA_ARGS__) COGRAD_DISPATCH_CASE(int64_t, __VA_ARGS__)
// Covers float32 and float64.
#define COGRAD_DISPATCH_FLOATING(dtype, name, ...) \
  COGRAD_DISPATCH(dtype, name, COGRAD_CASES_FLOATING(__VA_ARGS__))
// Covers float16, bfloat16, float32 and float64.
#define COGRAD_DISPATCH_FLOATING_AND_HALF(dtype, name, ...) \
  COGRAD_DISPATCH(dtype, name, COGRAD_CASES_FLOATING(__VA_ARGS__) COGRAD_CASES_HALF(__VA_ARGS__))
#define COGRAD_DISPATCH_INTEGRAL(dtype, name, ...) \
  COGRAD_DISPATCH(dtype, name, COGRAD_CASES_INTEGRAL(__VA_ARGS__))
#define COGRAD_CASES_COMPLEX(...)                              \
  COGRAD_DISPATCH_CASE(::cograd::Complex<double>, __VA_ARGS__) \
  COGRAD_DISPATCH_CASE(::cograd::Complex<float>, __VA_ARGS__)
// Covers complex64 and complex128.
#define COGRAD_DISPATCH_COMPLEX(dtype, name, ...) \
  COGRAD_DISPATCH(dtype, name, COGRAD_CASES_COMPLEX(__VA_ARGS__))
// Covers float32, float64, complex64 and complex128.
#define COGRAD_DISPATCH_FLOATING_AND_COMPLEX(dtype, name, ...) \
  COGRAD_DISPATCH(dtype, name, COGRAD_CASES_FLOATING(__VA_ARGS__) COGRAD_CASES_COMPLEX(__VA_ARGS__))
// Covers uint8, the signed integers, float32 and float64.
#define COGRAD_DISPATCH_ALL(dtype, name, ...) \
  COGRAD_DISPATCH(dtype, name,                \
                  COGRAD_CASES_FLOATING(__VA_ARGS__) COGRAD_CASES_INTEGRAL(__VA_ARGS__))
