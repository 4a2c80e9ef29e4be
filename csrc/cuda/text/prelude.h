// SPDX-License-Identifier: BSD-3-Clause
// Every kernel's text begins with this: types, kernels, loads and stores, warps, atomics. NVRTC
// reads it without any other header; tests/cuda/fake/host.h stands for the device under g++.
//
//   struct Args { float* out; const float* in; int64_t n; };
//   COGRAD_KERNEL(twice, Args) { ... a.out[i] = 2 * a.in[i]; ... }
//
// A kernel with barriers, shared memory or shuffles is a COGRAD_BLOCK_KERNEL. A third argument is
// the largest number of threads in a block.
#pragma once

#if defined(__CUDACC_RTC__)
#if __CUDA_ARCH__ >= 700
#define COGRAD_ARGS const __grid_constant__
#else
#define COGRAD_ARGS const
#endif
#define COGRAD_BLOCK_KERNEL(name, Args, ...) \
  extern "C" __global__ __VA_OPT__(__launch_bounds__(__VA_ARGS__)) void name(COGRAD_ARGS Args a)
#define COGRAD_KERNEL COGRAD_BLOCK_KERNEL
#define COGRAD_SHARED __shared__
// Declares T* name, the memory whose size the launch states.
#define COGRAD_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char cograd_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(cograd_dynamic_shared)
#define COGRAD_UNROLL _Pragma("unroll")
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000LL)
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#endif

namespace cograd::device {

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
inline uint32_t bits_of(float f) { return __float_as_uint(f); }
inline float float_of(uint32_t u) { return __uint_as_float(u); }
inline uint64_t bits_of(double f) { return static_cast<uint64_t>(__double_as_longlong(f)); }
inline double double_of(uint64_t u) { return __longlong_as_double(static_cast<long long>(u)); }
#else
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
inline uint32_t bits_of(float f) { return __builtin_bit_cast(uint32_t, f); }
inline float float_of(uint32_t u) { return __builtin_bit_cast(float, u); }
inline uint64_t bits_of(double f) { return __builtin_bit_cast(uint64_t, f); }
inline double double_of(uint64_t u) { return __builtin_bit_cast(double, u); }
#endif

// IEEE binary16 as stored; arithmetic is done in float.
struct Half {
  uint16_t bits;
  Half() = default;
  Half(float f) : bits(from_float(f)) {}
  operator float() const { return to_float(bits); }
#if defined(__CUDACC_RTC__)
  static float to_float(uint16_t h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
  }
  static uint16_t from_float(float f) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
  }
#else
  static float to_float(uint16_t h) {
    const uint32_t magnitude = static_cast<uint32_t>(h & 0x7FFFu) << 13;
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const bool special = (h & 0x7C00u) == 0x7C00u;
    const uint32_t finite = bits_of(float_of(magnitude) * float_of(0x77800000u));
    return float_of((special ? 0x7F800000u | (magnitude & 0x007FFFFFu) : finite) | sign);
  }
  static uint16_t from_float(float f) {
    const uint32_t sign = (bits_of(f) >> 16) & 0x8000u, u = bits_of(f) & 0x7FFFFFFFu;
    // Adding 0.5 aligns the mantissa of a subnormal result, rounded to even.
    const uint32_t small = bits_of(float_of(u) + 0.5f) - 0x3F000000u;
    uint32_t r = u < 0x38800000u ? small : (u + 0xC8000FFFu + ((u >> 13) & 1u)) >> 13;
    if (u >= 0x477FF000u) r = 0x7C00u;
    if (u > 0x7F800000u) r = 0x7E00u | ((u >> 13) & 0x3FFu);
    return static_cast<uint16_t>(r | sign);
  }
#endif
};

// The upper 16 bits of a float; arithmetic is done in float.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float f) : bits(from_float(f)) {}
  operator float() const { return float_of(static_cast<uint32_t>(bits) << 16); }
  static uint16_t from_float(float f) {
#if defined(__CUDACC_RTC__) && __CUDA_ARCH__ >= 800
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
#else
    const uint32_t u = bits_of(f);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0u;
    return static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
#endif
  }
};

template <class T>
struct Complex;

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;
template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<Complex<T>> = true;
template <class A, class B>
inline constexpr bool is_same = false;
template <class A>
inline constexpr bool is_same<A, A> = true;

template <bool kCondition, class A, class B>
struct Select {
  using type = A;
};
template <class A, class B>
struct Select<false, A, B> {
  using type = B;
};
template <bool kCondition, class A, class B>
using select_t = typename Select<kCondition, A, B>::type;

// Complex numbers as stored. Products and quotients use the same formulas as on the host.
template <class T>
struct alignas(2 * sizeof(T)) Complex {
  using value_type = T;
  T re, im;
  Complex() = default;
  constexpr Complex(T real, T imag) : re(real), im(imag) {}
  template <class U>
    requires(!is_complex_type<U>)
  constexpr Complex(U real) : re(static_cast<T>(real)), im(0) {}
  template <class U>
    requires(!is_same<T, U>)
  constexpr explicit Complex(Complex<U> v) : re(static_cast<T>(v.re)), im(static_cast<T>(v.im)) {}

  friend constexpr Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend constexpr Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend constexpr Complex operator*(Complex a, Complex b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  friend constexpr Complex operator*(Complex a, T b) { return {a.re * b, a.im * b}; }
  friend constexpr Complex operator*(T a, Complex b) { return {a * b.re, a * b.im}; }
  friend constexpr Complex operator/(Complex a, Complex b) {
    const T p = b.re < T(0) ? -b.re : b.re, q = b.im < T(0) ? -b.im : b.im;
    const T size = p < q ? q : p;
    const T c = b.re / size, d = b.im / size;
    const T scale = T(1) / ((c * c + d * d) * size);
    if (size == T(0)) return {a.re / size, a.im / size};
    return {(a.re * c + a.im * d) * scale, (a.im * c - a.re * d) * scale};
  }
  friend constexpr Complex operator/(Complex a, T b) { return {a.re / b, a.im / b}; }
  friend constexpr Complex operator-(Complex a) { return {-a.re, -a.im}; }
  friend constexpr Complex operator+(Complex a) { return a; }
  friend constexpr bool operator==(Complex a, Complex b) { return (a.re == b.re) & (a.im == b.im); }
  friend constexpr bool operator!=(Complex a, Complex b) { return !(a == b); }
  constexpr Complex& operator+=(Complex b) { return *this = *this + b; }
};
template <class T>
constexpr Complex<T> conj(Complex<T> v) {
  return {v.re, -v.im};
}

// The type in which values stored as T are computed.
template <class T>
using compute_t = select_t<is_same<T, Half> || is_same<T, BFloat16>, float, T>;

template <class T>
inline compute_t<T> widen(T v) {
  return static_cast<compute_t<T>>(v);
}
// Foreign memory may hold any byte where a bool is expected.
template <class T>
inline compute_t<T> load(const T* p) {
  if constexpr (is_same<T, bool>)
    return *reinterpret_cast<const uint8_t*>(p) != 0;
  else
    return static_cast<compute_t<T>>(*p);
}
template <class T>
inline compute_t<T> load(const T* p, int64_t i) {
  return load(p + i);
}
template <class T>
inline void store(T* p, compute_t<T> v) {
  *p = T(v);
}
template <class T>
inline void store(T* p, int64_t i, compute_t<T> v) {
  store(p + i, v);
}

// N elements that one instruction loads, if they take up to 16 aligned bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};
// A type of 1, 2, 4, 8 or 16 bytes, for kernels that only move elements.
template <int kBytes>
using bytes_t = select_t<
    kBytes == 1, uint8_t,
    select_t<kBytes == 2, uint16_t,
             select_t<kBytes == 4, uint32_t, select_t<kBytes == 8, uint64_t, Pack<uint32_t, 4>>>>>;

// Index of the thread in the grid, and the number of threads, along x.
inline int64_t grid_index() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
inline int64_t grid_size() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }
inline int lane() { return static_cast<int>(threadIdx.x % 32); }
inline int warp() { return static_cast<int>(threadIdx.x / 32); }

// Divides numbers below 2^31 by multiplication: the host makes m and shift (csrc/cuda/slots).
struct Divider {
  uint32_t divisor, multiplier, shift;
  uint32_t quotient(uint32_t n) const { return (__umulhi(n, multiplier) + n) >> shift; }
};

// Exchange values of any type between the lanes of a full warp, as 32-bit words. Blocks with these
// have a multiple of 32 threads.
template <class T, class F>
inline T shuffle_words(T v, F&& move) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  union Words {
    T value;
    uint32_t words[kWords];
    Words() : words{} {}
  } u;
  u.value = v;
  COGRAD_UNROLL
  for (int i = 0; i < kWords; ++i) u.words[i] = move(u.words[i]);
  return u.value;
}
inline constexpr unsigned kFullWarp = 0xFFFFFFFFu;
template <class T>
inline T shuffle_down(T v, unsigned delta) {
  return shuffle_words(v, [=](uint32_t w) { return __shfl_down_sync(kFullWarp, w, delta); });
}
template <class T>
inline T shuffle_up(T v, unsigned delta) {
  return shuffle_words(v, [=](uint32_t w) { return __shfl_up_sync(kFullWarp, w, delta); });
}
template <class T>
inline T shuffle_xor(T v, int mask) {
  return shuffle_words(v, [=](uint32_t w) { return __shfl_xor_sync(kFullWarp, w, mask); });
}
template <class T>
inline T shuffle_from(T v, int source) {
  return shuffle_words(v, [=](uint32_t w) { return __shfl_sync(kFullWarp, w, source); });
}

// Replaces *p by f(*p) atomically, for elements of 1 to 8 bytes: by an exchange of the word, or of
// the 32-bit word around a smaller element.
template <class T, class F>
inline void atomic_update(T* p, F&& f) {
  static_assert(sizeof(T) <= 8);
  using Word = select_t<sizeof(T) == 8, unsigned long long, unsigned>;
  using Bits = select_t<sizeof(T) == 1, uint8_t, select_t<sizeof(T) == 2, uint16_t, Word>>;
  union View {
    Bits bits;
    T value;
    View() {}
  } u;
  const unsigned long long address = reinterpret_cast<unsigned long long>(p);
  const unsigned at = sizeof(T) < 4 ? static_cast<unsigned>(address & 3) : 0, shift = 8 * at;
  const Word mask = static_cast<Word>(static_cast<Word>(static_cast<Bits>(-1)) << shift);
  Word* word = reinterpret_cast<Word*>(address - at);
  Word old = *static_cast<volatile Word*>(word);
  for (;;) {
    u.bits = static_cast<Bits>(old >> shift);
    u.value = f(u.value);
    const Word seen = atomicCAS(word, old, (old & ~mask) | static_cast<Word>(u.bits) << shift);
    if (seen == old) return;
    old = seen;
  }
}
template <class T>
inline void atomic_add(T* p, compute_t<T> v) {
  if constexpr (is_complex_type<T>) {
    atomicAdd(&p->re, v.re);
    atomicAdd(&p->im, v.im);
  } else if constexpr (is_same<T, bool>) {
    if (v) *p = true;
  } else if constexpr (is_float<T>) {
    atomicAdd(p, v);
  } else if constexpr (sizeof(T) == 4) {
    atomicAdd(reinterpret_cast<unsigned*>(p), static_cast<unsigned>(v));
  } else if constexpr (sizeof(T) == 8) {
    atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v));
  } else {
    atomic_update(p, [=](T old) { return T(widen(old) + v); });
  }
}

}  // namespace cograd::device
