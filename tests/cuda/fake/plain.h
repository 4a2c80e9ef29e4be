// SPDX-License-Identifier: BSD-3-Clause
// The device for g++, for a user's kernels: CUDA's own words instead of cograd's macros, and
// functions with any parameters. Included after host.h.
#pragma once
#include <stddef.h>

#include <algorithm>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __shared__ static thread_local

using std::max;
using std::min;
inline float rsqrtf(float v) { return 1 / sqrtf(v); }
inline double rsqrt(double v) { return 1 / sqrt(v); }
inline float __expf(float v) { return expf(v); }
inline float __logf(float v) { return logf(v); }

namespace cograd_twin {

// The driver copies each parameter to a multiple of 16 bytes.
constexpr size_t place_of(const size_t* sizes, size_t i) {
  size_t at = 0;
  for (size_t k = 0; k < i; ++k) at += (sizes[k] + 15) / 16 * 16;
  return at;
}
template <class... P>
struct Plain {
  // The number of parameters, and the size of each.
  static const unsigned* sizes() {
    static const unsigned all[] = {sizeof...(P), static_cast<unsigned>(sizeof(P))...};
    return all;
  }
  template <size_t... I>
  static void run(void (*f)(P...), const char* args, std::index_sequence<I...>) {
    constexpr size_t all[] = {sizeof(P)..., 0};
    f(*reinterpret_cast<const P*>(args + place_of(all, I))...);
  }
};
template <class... P>
Plain<P...> plain(void (*)(P...));
template <class... P>
void run_plain(void (*f)(P...), const void* args) {
  Plain<P...>::run(f, static_cast<const char*>(args), std::index_sequence_for<P...>());
}

}  // namespace cograd_twin

// Exports function number i, which an expression names.
#define COGRAD_TWIN_NAMED(i, ...)                                            \
  extern "C" COGRAD_EXPORT void cograd_twin_named_##i(const void* args) {    \
    cograd_twin::run_plain(&__VA_ARGS__, args);                              \
  }                                                                          \
  extern "C" COGRAD_EXPORT const unsigned* cograd_twin_named_##i##_sizes() { \
    return decltype(cograd_twin::plain(&__VA_ARGS__))::sizes();              \
  }                                                                          \
  static const ::cograd_twin::BlockKernel cograd_twin_fibers_##i(cograd_twin_named_##i);
