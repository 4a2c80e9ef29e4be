// SPDX-License-Identifier: BSD-3-Clause
// The loops of unary rows and of their fused gradients, for one instruction set.
#include "kernels/elementwise/loops.h"

namespace cograd::kernels {
namespace {

#define UNARY_FORWARD(name, types, cost, args, forward)               \
  struct Forward_##name : Row<types, cost, count_args(args) - 1, 1> { \
    template <class T>                                                \
    static auto f(T v, COGRAD_PARAMS) {                               \
      return forward;                                                 \
    }                                                                 \
  };
#define UNARY(name, types, cost, args, forward, ...) \
  UNARY_FORWARD(name, types, cost, args, T(forward))
#define UNARY_BOOL(name, types, forward, ...) UNARY_FORWARD(name, types, CHEAP, "input", forward)
#include "kernels/elementwise/elementwise.def"
#undef UNARY_FORWARD

COGRAD_CAREFUL(reciprocal, divides, true)
COGRAD_CAREFUL(sqrt, extreme, false)
COGRAD_CAREFUL(rsqrt, extreme, true)
COGRAD_CAREFUL(exp, not_finite, false)
COGRAD_CAREFUL(exp2, not_finite, false)
COGRAD_CAREFUL(expm1, not_finite, false)
COGRAD_CAREFUL(log, extreme, false)
COGRAD_CAREFUL(log1p, not_finite, false)
COGRAD_CAREFUL(log2, extreme, false)
COGRAD_CAREFUL(log10, extreme, false)
COGRAD_CAREFUL(sin, not_finite, false)
COGRAD_CAREFUL(cos, not_finite, false)
COGRAD_CAREFUL(sinh, not_finite, false)
COGRAD_CAREFUL(cosh, not_finite, false)
COGRAD_CAREFUL(sinc, not_finite, false)
COGRAD_CAREFUL(sigmoid, not_finite, false)
COGRAD_CAREFUL(silu, not_finite, false)

#if defined(__AVX512F__)
// The kernels of MATH rows pass an n that is a multiple of 16: see pad_of().
#define COGRAD_FLOAT_LOOP(name)                                             \
  template <>                                                               \
  struct FloatLoop<Forward_##name> {                                        \
    static constexpr bool kOwn = true;                                      \
    static void run(float* out, const float* in, const float*, int64_t n) { \
      for (int64_t i = 0; i < n; i += 16)                                   \
        _mm512_storeu_ps(out + i, name##512(_mm512_loadu_ps(in + i)));      \
    }                                                                       \
  };
COGRAD_FLOAT_LOOP(exp)
COGRAD_FLOAT_LOOP(log)
COGRAD_FLOAT_LOOP(tanh)
COGRAD_FLOAT_LOOP(erf)
COGRAD_FLOAT_LOOP(gelu)
#undef COGRAD_FLOAT_LOOP

#define COGRAD_DOUBLE_LOOP(name)                                               \
  template <>                                                                  \
  struct DoubleLoop<Forward_##name> {                                          \
    static constexpr bool kOwn = true;                                         \
    static void run(double* out, const double* in, const double*, int64_t n) { \
      for (int64_t i = 0; i < n; i += 8)                                       \
        _mm512_storeu_pd(out + i, name##512(_mm512_loadu_pd(in + i)));         \
    }                                                                          \
  };
COGRAD_DOUBLE_LOOP(exp)
COGRAD_DOUBLE_LOOP(log)
COGRAD_DOUBLE_LOOP(tanh)
#undef COGRAD_DOUBLE_LOOP

// The divider takes 12 cycles per vector and leaves the multipliers idle, so every other vector is
// computed with multiplications; the bits are the same.
template <>
struct FloatLoop<Forward_sqrt> {
  static constexpr bool kOwn = true;
  static void run(float* out, const float* in, const float*, int64_t n) {
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
      const __m512 a = _mm512_loadu_ps(in + i), b = _mm512_loadu_ps(in + i + 16);
      _mm512_storeu_ps(out + i, _mm512_sqrt_ps(a));
      _mm512_storeu_ps(out + i + 16, sqrt512(b));
    }
    for (; i < n; ++i) out[i] = sqrt(in[i]);
  }
};
// In float64 the divider takes as long as two vectors of multiplications.
template <>
struct DoubleLoop<Forward_sqrt> {
  static constexpr bool kOwn = true;
  static void run(double* out, const double* in, const double*, int64_t n) {
    int64_t i = 0;
    for (; i + 24 <= n; i += 24) {
      const __m512d a = _mm512_loadu_pd(in + i), b = _mm512_loadu_pd(in + i + 8);
      const __m512d c = _mm512_loadu_pd(in + i + 16);
      _mm512_storeu_pd(out + i, _mm512_sqrt_pd(a));
      _mm512_storeu_pd(out + i + 8, sqrt512(b));
      _mm512_storeu_pd(out + i + 16, sqrt512(c));
    }
    for (; i < n; ++i) out[i] = sqrt(in[i]);
  }
};
#elif defined(COGRAD_PIECES256)
#define COGRAD_FLOAT_LOOP(name)                                             \
  template <>                                                               \
  struct FloatLoop<Forward_##name> {                                        \
    static constexpr bool kOwn = true;                                      \
    static void run(float* out, const float* in, const float*, int64_t n) { \
      for (int64_t i = 0; i < n; i += 8)                                    \
        _mm256_storeu_ps(out + i, name##256(_mm256_loadu_ps(in + i)));      \
    }                                                                       \
  };
COGRAD_FLOAT_LOOP(erf)
COGRAD_FLOAT_LOOP(gelu)
#undef COGRAD_FLOAT_LOOP
#endif

// One macro for each value of the `saves` column, which decides the names that the formula can use.
#define BACKWARD(inputs, arguments, name, types, cost, args, grad)                        \
  struct Backward_##name                                                                  \
      : Row<has_loop(#grad) ? (types) & FLOATS : 0, cost, count_args(args) - 1, inputs> { \
    template <class T>                                                                    \
    static T f arguments {                                                                \
      COGRAD_LIT return grad;                                                             \
    }                                                                                     \
  };
#define BACKWARD_X(...) BACKWARD(2, (T g, COGRAD_UNUSED T x, COGRAD_PARAMS), __VA_ARGS__)
#define BACKWARD_Y(...) BACKWARD(2, (T g, COGRAD_UNUSED T y, COGRAD_PARAMS), __VA_ARGS__)
#define BACKWARD_G(...) BACKWARD(1, (T g, COGRAD_PARAMS), __VA_ARGS__)
#define BACKWARD_NO(name, types, cost, args, grad) \
  struct Backward_##name : Row<0, cost, 0, 1> {};
#define UNARY(name, types, cost, args, forward, saves, grad, ...) \
  BACKWARD_##saves(name, types, cost, args, grad)
#include "kernels/elementwise/elementwise.def"

#if defined(__AVX512F__) || defined(COGRAD_PIECES256)
template <>
struct FloatLoop<Backward_gelu> {
  static constexpr bool kOwn = true;
  static void run(float* out, const float* g, const float* x, int64_t n) {
#if defined(__AVX512F__)
    for (int64_t i = 0; i < n; i += 16)
      _mm512_storeu_ps(out + i, gelu_backward512(_mm512_loadu_ps(g + i), _mm512_loadu_ps(x + i)));
#else
    for (int64_t i = 0; i < n; i += 8)
      _mm256_storeu_ps(out + i, gelu_backward256(_mm256_loadu_ps(g + i), _mm256_loadu_ps(x + i)));
#endif
  }
};
#endif

constexpr int kRows = static_cast<int>(UnaryOp::kCount);

// Makes the loops of pow_scalar for exponents that do not map to another row.
constexpr Table<2> make_pow() {
  Table<2> t{};
  Loops<Forward_pow_scalar, false>::fill(t.loops[0]);
  Loops<Backward_pow_scalar, false>::fill(t.loops[1]);
  return t;
}
constexpr Table<2> kPow = make_pow();

LoopFn forward_loop(UnaryOp op, DType t);
LoopFn backward_loop(UnaryOp op, DType t);

// float32 rounds larger odd exponents to even ones, which changes the sign of a negative base.
constexpr double kParityEnd = 0x1p24;
// Computes powers of float32 with larger exponents in double.
template <bool kBackward>
void pow_far(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  const double e = static_cast<const ElementParams*>(params)->d[0];
  for (int64_t i = 0; i < n; ++i) {
    float x, g = 1;
    memcpy(&x, ptrs[kBackward ? 2 : 1] + i * strides[kBackward ? 2 : 1], sizeof x);
    if (kBackward) memcpy(&g, ptrs[1] + i * strides[1], sizeof g);
    const double y = kBackward ? static_cast<double>(g) * pow(static_cast<double>(x), e - 1) * e
                               : pow(static_cast<double>(x), e);
    const auto narrow = static_cast<float>(y);
    memcpy(ptrs[0] + i * strides[0], &narrow, sizeof narrow);
  }
}

// Handles the exponents that torch treats separately, with its special values: x ** 0.5 is sqrt(x).
template <DType t>
void pow_loop(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  const double exponent = static_cast<const ElementParams*>(params)->d[0];
  LoopFn fn = kPow.loops[0][static_cast<int>(t)];
  if (exponent == 1) fn = forward_loop(UnaryOp::positive, t);
  if (exponent == 2) fn = forward_loop(UnaryOp::square, t);
  if (exponent == 3) fn = forward_loop(UnaryOp::cube, t);
  if constexpr (((FLOATS | COMPLEX) & bit(t)) != 0) {
    if (exponent == 0.5) fn = forward_loop(UnaryOp::sqrt, t);
    if (exponent == -0.5) fn = forward_loop(UnaryOp::rsqrt, t);
    if (exponent == -1) fn = forward_loop(UnaryOp::reciprocal, t);
  }
  if (t == DType::Float32 && abs(exponent) > kParityEnd && isfinite(exponent)) fn = pow_far<false>;
  fn(ptrs, strides, n, params);
}
template <DType t>
void pow_backward_loop(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  const double exponent = static_cast<const ElementParams*>(params)->d[0];
  LoopFn fn = kPow.loops[1][static_cast<int>(t)];
  if (exponent == 2) fn = backward_loop(UnaryOp::square, t);
  if (exponent == 3) fn = backward_loop(UnaryOp::cube, t);
  if (t == DType::Float32 && abs(exponent) > kParityEnd && isfinite(exponent)) fn = pow_far<true>;
  fn(ptrs, strides, n, params);
}

template <DType t>
constexpr void put_pow(Table<kRows>& forward, Table<kRows>& backward) {
  constexpr int kOp = static_cast<int>(UnaryOp::pow_scalar), kType = static_cast<int>(t);
  forward.loops[kOp][kType] = pow_loop<t>;
  if constexpr ((FLOATS & bit(t)) != 0) backward.loops[kOp][kType] = pow_backward_loop<t>;
}
constexpr void put_pow_loops(Table<kRows>& forward, Table<kRows>& backward) {
  put_pow<DType::UInt8>(forward, backward);
  put_pow<DType::Int8>(forward, backward);
  put_pow<DType::Int16>(forward, backward);
  put_pow<DType::Int32>(forward, backward);
  put_pow<DType::Int64>(forward, backward);
  put_pow<DType::Float16>(forward, backward);
  put_pow<DType::BFloat16>(forward, backward);
  put_pow<DType::Float32>(forward, backward);
  put_pow<DType::Float64>(forward, backward);
  put_pow<DType::Complex64>(forward, backward);
  put_pow<DType::Complex128>(forward, backward);
}

struct Tables {
  Table<kRows> forward, backward;
};
constexpr Tables make_tables() {
  Tables t{};
  LoopFn(*row)[kNumDTypes] = t.forward.loops;
#define UNARY(name, ...) Loops<Forward_##name, false>::fill(*row++);
#define UNARY_BOOL(name, ...) Loops<Forward_##name, true>::fill(*row++);
#include "kernels/elementwise/elementwise.def"
  row = t.backward.loops;
#define UNARY(name, ...) Loops<Backward_##name, false>::fill(*row++);
#define UNARY_BOOL(name, ...) ++row;
#include "kernels/elementwise/elementwise.def"
  put_pow_loops(t.forward, t.backward);
  return t;
}
constexpr Tables kTables = make_tables();

LoopFn forward_loop(UnaryOp op, DType t) {
  return kTables.forward.loops[static_cast<int>(op)][static_cast<int>(t)];
}
LoopFn backward_loop(UnaryOp op, DType t) {
  return kTables.backward.loops[static_cast<int>(op)][static_cast<int>(t)];
}

}  // namespace

}  // namespace cograd::kernels

namespace cograd::kernels::COGRAD_ISA {

LoopTable unary_forward();
LoopTable unary_backward();

LoopTable unary_forward() { return kTables.forward.loops; }
LoopTable unary_backward() { return kTables.backward.loops; }

}  // namespace cograd::kernels::COGRAD_ISA
