// SPDX-License-Identifier: BSD-3-Clause
// Expands rows of the elementwise table into loops. Only the per-ISA kernel files, which are
// compiled once for each instruction set, include this file.
#pragma once
#include "kernels/core/complex_math.h"
#include "kernels/core/doubles512.h"
#include "kernels/core/isa.h"
#include "kernels/core/pieces256.h"
#include "kernels/core/pieces512.h"
#include "kernels/core/staging.h"
#include "kernels/core/vecmath.h"
#include "kernels/core/vecmath512.h"
#include "kernels/elementwise/special.h"
#include "kernels/elementwise/tables.h"

namespace cograd::kernels {

namespace {

using namespace types;

enum Cost { CHEAP, MATH, SLOW, DIVIDE };

// Marks names that a formula may leave unused.
#define COGRAD_UNUSED [[maybe_unused]]

// Static traits of one row or one gradient; the derived class defines f().
template <unsigned kTypes_, Cost kCost_, int kParams_, int kInputs_>
struct Row {
  static constexpr unsigned kTypes = kTypes_;
  static constexpr Cost kCost = kCost_;
  static constexpr int kParams = kParams_;
  static constexpr int kInputs = kInputs_;
};

template <class T>
T param(const ElementParams* p, int k) {
  if constexpr (is_complex_type<T>)
    return T(Complex<double>(p->d[k], p->imag[k]));
  else if constexpr (is_float<T>)
    return static_cast<T>(p->d[k]);
  else
    return static_cast<T>(p->i[k]);
}

// libmvec rows process whole vectors only, without a scalar tail, so that an element's result does
// not depend on its position.
template <class Op, class T, class R>
constexpr int pad_of() {
  if (Op::kCost != MATH || !(is_float<T> || is_complex_type<T>)) return 1;
  return static_cast<int>(64 / sizeof(T));
}

template <class T>
constexpr bool kIsBool = false;
template <>
constexpr bool kIsBool<bool> = true;

// False if a zero divisor was found (and reported).
template <class T>
bool check_divisor(const T* b, int64_t n, const ElementParams* p) {
  if (p == nullptr || p->division_by_zero == nullptr) return true;
  bool zero = false;
  for (int64_t i = 0; i < n; ++i) zero |= b[i] == T(0);
  if (zero) __atomic_store_n(p->division_by_zero, 1, __ATOMIC_RELAXED);
  return !zero;
}

// Loading a bool as a byte allows vectorisation.
template <class T>
T element(const T* p) {
  if constexpr (kIsBool<T>) return *reinterpret_cast<const uint8_t*>(p) != 0;
  return *p;
}

// Functions that gradient formulas use besides operations: see rows.h.
template <class T>
T log_beside(COGRAD_UNUSED T y, T v) {
  return log(v);
}
template <class T>
T erfcx_slope_far(T x) {
  const T r = T(1) / (x * x);
  return r * ((r * (r * T(13.125) - T(3.75)) + T(1.5)) * r - T(1)) * T(0.56418958354775629);
}

// A row with its own loop over float32 specialises this: run(out, a, b, n), b for two inputs.
template <class Op>
struct FloatLoop {
  static constexpr bool kOwn = false;
};
// A row with its own loop over float64 specialises this.
template <class Op>
struct DoubleLoop {
  static constexpr bool kOwn = false;
};

// A row that works on the bits of 16-bit floats specialises this: run<form>(ptrs, strides, n,
// params).
template <class Op>
struct NarrowLoop {
  static constexpr bool kOwn = false;
};

template <class Op, class T, class R, class First>
__attribute__((noinline)) void kernel(char* const* ptrs, int64_t n, const void* params) {
  constexpr int kPad = pad_of<Op, T, R>();
  const auto* p = static_cast<const ElementParams*>(params);
  const T p0 = Op::kParams > 0 ? param<T>(p, 0) : T(0);
  const T p1 = Op::kParams > 1 ? param<T>(p, 1) : T(0);
  const T p2 = Op::kParams > 2 ? param<T>(p, 2) : T(0);
  auto* out = reinterpret_cast<R*>(ptrs[0]);
  const auto* a = reinterpret_cast<const First*>(ptrs[1]);
  const auto* b = reinterpret_cast<const T*>(ptrs[Op::kInputs > 1 ? 2 : 1]);
  const auto* c = reinterpret_cast<const T*>(ptrs[Op::kInputs > 2 ? 3 : 1]);
  const auto* d = reinterpret_cast<const T*>(ptrs[Op::kInputs > 3 ? 4 : 1]);
  if constexpr (Op::kCost == DIVIDE && !is_float<T>) {
    if (!check_divisor(b, n, p)) return;
  }
  n &= -int64_t{kPad};
  if constexpr (FloatLoop<Op>::kOwn && sizeof(T) == 4 && is_float<T>)
    return FloatLoop<Op>::run(out, a, b, n);
  if constexpr (DoubleLoop<Op>::kOwn && sizeof(T) == 8 && is_float<T>)
    return DoubleLoop<Op>::run(out, a, b, n);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const First u = element(a + i);
    if constexpr (Op::kInputs == 1) {
      out[i] = R(Op::template f<T>(u, p0, p1, p2));
    } else if constexpr (Op::kInputs == 2) {
      out[i] = R(Op::template f<T>(u, element(b + i), p0, p1, p2));
    } else if constexpr (Op::kInputs == 3) {
      out[i] = R(Op::template f<T>(u, element(b + i), c[i], p0, p1, p2));
    } else {
      out[i] = R(Op::template f<T>(u, b[i], c[i], d[i], p0, p1, p2));
    }
  }
}

// A complex row whose quick formula fails for some inputs specialises this: rare(v, r) detects
// these from the divisor (or the only input) v and the quick result r.
template <class Op>
struct Careful {
  static constexpr bool kOwn = false;
};
template <class T>
inline bool not_finite(Complex<T>, Complex<T> r) {
  return !isfinite(r);
}
// Also true for v so large or small that its half or its reciprocal is not a normal number.
template <class T>
inline bool extreme(Complex<T> v, Complex<T> r) {
  constexpr T kSmall = sizeof(T) == 4 ? T(0x1p-120) : T(0x1p-1000);
  const T a = abs(v.re), b = abs(v.im), size = a < b ? b : a;
  return !isfinite(r) | (size > T(1) / kSmall) | ((size < kSmall) & (size != T(0)));
}
// Like extreme, but v = 0 stays with the quick formula, which divides part by part.
template <class T>
inline bool divides(Complex<T> v, Complex<T> r) {
  constexpr T kSmall = sizeof(T) == 4 ? T(0x1p-120) : T(0x1p-1000);
  const T a = abs(v.re), b = abs(v.im), size = a < b ? b : a;
  const bool far = !isfinite(r) | (size > T(1) / kSmall) | (size < kSmall);
  return far & ((v.re != T(0)) | (v.im != T(0)));
}
// nan: true if one NaN part makes the whole input NaN, even if the other part is infinite.
#define COGRAD_CAREFUL(name, test, nan)            \
  template <>                                      \
  struct Careful<Forward_##name> {                 \
    static constexpr bool kOwn = true, kNan = nan; \
    template <class T>                             \
    static bool rare(T v, T r) {                   \
      return test(v, r);                           \
    }                                              \
  };

template <class T>
struct Wider;
template <>
struct Wider<Complex<float>> {
  using type = std::complex<double>;
};
template <>
struct Wider<Complex<double>> {
  using type = std::complex<long double>;
};
template <class W, class T>
W convert(T v) {
  using R = typename W::value_type;
  return W(static_cast<R>(v.real()), static_cast<R>(v.imag()));
}
template <class Op, class W, class T>
W operand(T v) {
  if constexpr (!std::is_same_v<W, T> && Careful<Op>::kNan) {
    if (isnan(v)) return W(NAN, NAN);
  }
  return convert<W>(v);
}

// Computes row `Op` at element i in type W. kFixed: the second input is a single scalar.
template <class Op, class W, bool kFixed, class T>
W value_at(const T* a, const T* b, const T* c, int64_t i, T p0) {
  const W none(0), first = operand<Op, W>(a[i]);
  if constexpr (Op::kInputs == 1)
    return Op::template f<W>(first, none, none, none);
  else if constexpr (Op::kInputs == 2)
    return Op::template f<W>(first, operand<Op, W>(b[kFixed ? 0 : i]), none, none, none);
  else
    return Op::template f<W>(first, operand<Op, W>(b[i]), operand<Op, W>(c[i]), convert<W>(p0),
                             none, none);
}

// Applies the quick formula to all elements, then repeats the ones where it fails in a wider type.
template <class Op, class T, bool kFixed = false>
__attribute__((noinline)) void careful_kernel(char* const* ptrs, int64_t n, const void* params) {
  const T p0 = Op::kParams > 0 ? param<T>(static_cast<const ElementParams*>(params), 0) : T(0);
  auto* out = reinterpret_cast<T*>(ptrs[0]);
  const auto* a = reinterpret_cast<const T*>(ptrs[1]);
  const auto* b = reinterpret_cast<const T*>(ptrs[Op::kInputs > 1 ? 2 : 1]);
  const auto* c = reinterpret_cast<const T*>(ptrs[Op::kInputs > 2 ? 3 : 1]);
  const auto* key = Op::kInputs == 1 ? a : Op::kInputs == 2 ? b : c;
  constexpr int64_t kPart = 256;
  for (int64_t from = 0; from < n; from += kPart) {
    const int64_t m = n - from < kPart ? n - from : kPart;
    T quick[kPart];
    // These are two loops because a combined one would not vectorise.
    for (int64_t i = 0; i < m; ++i) quick[i] = value_at<Op, T, kFixed>(a, b, c, i, p0);
    int rare = 0;
    for (int64_t i = 0; i < m; ++i) rare |= Careful<Op>::rare(key[kFixed ? 0 : i], quick[i]);
    if (rare != 0) [[unlikely]] {
      for (int64_t i = 0; i < m; ++i) {
        if (!Careful<Op>::rare(key[kFixed ? 0 : i], quick[i])) continue;
        using W = typename Wider<T>::type;
        quick[i] = convert<T>(value_at<Op, W, kFixed>(a, b, c, i, p0));
      }
    }
    memcpy(out, quick, static_cast<size_t>(m) * sizeof(T));
    out += m, a += m, c += m, key += kFixed ? 0 : m, b += kFixed ? 0 : m;
  }
}

template <class Op, class T>
T quotient_of(T a, T b, COGRAD_UNUSED T c) {
  if constexpr (Op::kInputs == 2)
    return Op::template f<T>(a, b, T(0), T(0), T(0));
  else
    return Op::template f<T>(a, b, c, T(0), T(0), T(0));
}

// Floating DIVIDE rows and their gradients: elements that the vector formula leaves as NaN are
// computed again in long double, where the library's fmod handles every quotient.
template <class Op, class T>
__attribute__((noinline)) void divide_kernel(char* const* ptrs, int64_t n, const void*) {
  auto* out = reinterpret_cast<T*>(ptrs[0]);
  const auto* a = reinterpret_cast<const T*>(ptrs[1]);
  const auto* b = reinterpret_cast<const T*>(ptrs[2]);
  const auto* c = reinterpret_cast<const T*>(ptrs[Op::kInputs > 2 ? 3 : 2]);
  constexpr int64_t kPart = 256;
  for (; n > 0; n -= kPart, out += kPart, a += kPart, b += kPart, c += kPart) {
    const int64_t m = n < kPart ? n : kPart;
    T quick[kPart];
    for (int64_t i = 0; i < m; ++i) quick[i] = quotient_of<Op, T>(a[i], b[i], c[i]);
    int undone = 0;
    for (int64_t i = 0; i < m; ++i) undone |= quick[i] != quick[i];
    if (undone != 0) {
      for (int64_t i = 0; i < m; ++i) {
        if (quick[i] == quick[i]) continue;
        quick[i] = static_cast<T>(quotient_of<Op, long double>(a[i], b[i], c[i]));
      }
    }
    memcpy(out, quick, static_cast<size_t>(m) * sizeof(T));
  }
}

template <class Op, class T, class R, class First>
constexpr KernelFn choose() {
  if constexpr (Op::kCost == DIVIDE && is_float<T> && Op::kInputs >= 2)
    return divide_kernel<Op, T>;
  else if constexpr (Careful<Op>::kOwn && is_complex_type<T>)
    return careful_kernel<Op, T>;
  else
    return kernel<Op, T, R, First>;
}

// Runs a row whose second input is a scalar: the hot case x * 2.
template <class Op, class T>
void scalar_kernel(char* const* ptrs, int64_t n) {
  auto* out = reinterpret_cast<T*>(ptrs[0]);
  const auto* a = reinterpret_cast<const T*>(ptrs[1]);
  const T b = *reinterpret_cast<const T*>(ptrs[2]);
  if constexpr (is_complex_type<T> && Careful<Op>::kOwn)
    return careful_kernel<Op, T, true>(ptrs, n, nullptr);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Op::template f<T>(a[i], b, T(0), T(0), T(0));
}

template <class Op, class T, class R, class First, Form kForm>
constexpr Layout make_layout() {
  Layout l{};
  l.nops = 1 + Op::kInputs;
  l.pad = pad_of<Op, T, R>();
  for (int k = 0; k < l.nops; ++k) {
    const bool first = k == 1 && sizeof(First) != sizeof(T);
    const bool plain = kForm == Form::plain || first || (k == 0 && sizeof(R) != sizeof(T));
    l.form[k] = plain ? Form::plain : kForm;
    l.size[k] =
        k == 0 ? static_cast<int>(sizeof(R)) : static_cast<int>(first ? sizeof(First) : sizeof(T));
    if (!plain) l.size[k] = 2;
  }
  return l;
}
template <class Op, class T, class R, class First, Form kForm>
inline constexpr Layout kLayout = make_layout<Op, T, R, First, kForm>();

template <class Op, class T, class R>
void scalar_or_loop(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  constexpr int64_t kSize = sizeof(T);
  if (strides[2] == 0 && strides[1] == kSize && strides[0] == kSize)
    return scalar_kernel<Op, T>(ptrs, n);
  loop<choose<Op, T, R, T>(), kLayout<Op, T, R, T, Form::plain>>(ptrs, strides, n, params);
}

// Runs a 16-bit row where one operand may be a float32 scalar.
template <KernelFn kKernel, const Layout& kLayout>
void narrow_loop(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  const auto* p = static_cast<const ElementParams*>(params);
  if (p == nullptr) return run_staged(kKernel, kLayout, ptrs, strides, n, params);
  run_staged(kKernel, kLayout, ptrs, strides, n, params, p->number_at, p->number);
}

// The loops of one row. R is T, or bool for rows with a bool output.
template <class Op, bool kBoolOut, bool kBoolFirst = false>
struct Loops {
  template <class T>
  static constexpr LoopFn plain() {
    using R = typename Select<kBoolOut, bool, T>::type;
    using First = typename Select<kBoolFirst, uint8_t, T>::type;
    if constexpr (Op::kCost == CHEAP && Op::kInputs == 2 && Op::kParams == 0 && !kBoolOut &&
                  (is_float<T> || is_complex_type<T>)) {
      return scalar_or_loop<Op, T, R>;
    } else {
      return loop<choose<Op, T, R, First>(), kLayout<Op, T, R, First, Form::plain>>;
    }
  }
  template <Form kForm>
  static constexpr LoopFn narrow_float() {
    using R = typename Select<kBoolOut, bool, float>::type;
    using First = typename Select<kBoolFirst, uint8_t, float>::type;
    if constexpr (NarrowLoop<Op>::kOwn)
      return NarrowLoop<Op>::template run<kForm>;
    else
      return narrow_loop<choose<Op, float, R, First>(), kLayout<Op, float, R, First, kForm>>;
  }
  static constexpr void fill(LoopFn* row) {
    put<DType::Bool, bool>(row);
    put<DType::UInt8, uint8_t>(row);
    put<DType::Int8, int8_t>(row);
    put<DType::Int16, int16_t>(row);
    put<DType::Int32, int32_t>(row);
    put<DType::Int64, int64_t>(row);
    put<DType::Float32, float>(row);
    put<DType::Float64, double>(row);
    if constexpr ((Op::kTypes & UNSIGNED) == UNSIGNED) {
      row[static_cast<int>(DType::UInt16)] = row[static_cast<int>(DType::Int16)];
      row[static_cast<int>(DType::UInt32)] = row[static_cast<int>(DType::Int32)];
      row[static_cast<int>(DType::UInt64)] = row[static_cast<int>(DType::Int64)];
    } else {
      put<DType::UInt64, uint64_t>(row);
    }
    put<DType::Complex64, Complex<float>>(row);
    put<DType::Complex128, Complex<double>>(row);
    if constexpr ((Op::kTypes & bit(DType::Float16)) != 0) {
      row[static_cast<int>(DType::Float16)] = narrow_float<Form::half>();
      row[static_cast<int>(DType::BFloat16)] = narrow_float<Form::bfloat>();
    }
  }

 private:
  template <bool kCondition, class A, class B>
  struct Select {
    using type = A;
  };
  template <class A, class B>
  struct Select<false, A, B> {
    using type = B;
  };
  template <DType t, class T>
  static constexpr void put(LoopFn* row) {
    if constexpr ((Op::kTypes & bit(t)) != 0) row[static_cast<int>(t)] = plain<T>();
  }
};

template <int kRows>
struct Table {
  LoopFn loops[kRows][kNumDTypes];
};

#define COGRAD_PARAMS COGRAD_UNUSED T p0, COGRAD_UNUSED T p1, COGRAD_UNUSED T p2
#define COGRAD_LIT COGRAD_UNUSED constexpr auto lit = [](double value) { return T(value); };

}  // namespace
}  // namespace cograd::kernels
