// SPDX-License-Identifier: BSD-3-Clause
// Loops between complex elements and their parts, compiled for one instruction set.
#include "kernels/core/complex.h"
#include "kernels/core/complex_math.h"
#include "kernels/core/isa.h"
#include "kernels/core/staging.h"

namespace cograd::kernels {
namespace {

struct Abs {
  template <class T>
  static T f(Complex<T> v) {
    return hypot(v.re, v.im);
  }
};
struct Angle {
  template <class T>
  static T f(Complex<T> v) {
    return atan2(v.im, v.re);
  }
};
struct Conj {
  template <class T>
  static Complex<T> f(Complex<T> v) {
    return conj(v);
  }
};
struct Sgn {
  template <class T>
  static Complex<T> f(Complex<T> v) {
    // Scale, so that the absolute value neither overflows nor is subnormal.
    constexpr T kFar = sizeof(T) == 4 ? T(0x1p60) : T(0x1p500);
    const T a = abs(v.re), b = abs(v.im), large = a < b ? b : a;
    const T scale = large > kFar ? T(1) / kFar : large < T(1) / kFar ? kFar : T(1);
    const Complex<T> u = v * scale;
    const T size = hypot(u.re, u.im);
    return size == T(0) ? Complex<T>(T(0)) : Complex<T>(u.re / size, u.im / size);
  }
};

// Rows are padded to whole vectors, like rows that call libmvec.
constexpr int kPad = 8;

template <class Op, class T>
using Out = decltype(Op::f(Complex<T>()));

template <class Op, class T>
__attribute__((noinline)) void kernel(char* const* ptrs, int64_t n, const void*) {
  auto* out = reinterpret_cast<Out<Op, T>*>(ptrs[0]);
  const auto* in = reinterpret_cast<const Complex<T>*>(ptrs[1]);
  n &= -int64_t{kPad};
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Op::f(in[i]);
}

template <class Op, class T>
inline constexpr Layout kLayout = {
    2,
    kPad,
    {static_cast<int>(sizeof(Out<Op, T>)), static_cast<int>(sizeof(Complex<T>)), 0, 0, 0},
    {Form::plain, Form::plain, Form::plain, Form::plain, Form::plain}};

struct Table {
  LoopFn loops[static_cast<int>(ComplexOp::kCount)][kNumDTypes];
};
template <class Op>
constexpr void put(Table& t, ComplexOp op) {
  LoopFn* row = t.loops[static_cast<int>(op)];
  row[static_cast<int>(DType::Complex64)] = loop<kernel<Op, float>, kLayout<Op, float>>;
  row[static_cast<int>(DType::Complex128)] = loop<kernel<Op, double>, kLayout<Op, double>>;
}
constexpr Table make_table() {
  Table t{};
  put<Abs>(t, ComplexOp::Abs);
  put<Angle>(t, ComplexOp::Angle);
  put<Conj>(t, ComplexOp::Conj);
  put<Sgn>(t, ComplexOp::Sgn);
  return t;
}
constexpr Table kTable = make_table();

}  // namespace
}  // namespace cograd::kernels

namespace cograd::kernels::COGRAD_ISA {

LoopTable complex_table();
LoopTable complex_table() { return kTable.loops; }

}  // namespace cograd::kernels::COGRAD_ISA
