// SPDX-License-Identifier: BSD-3-Clause
// Products of 16-bit matrices on tensor cores, and copies that no thread waits for while it works,
// from GPUs of compute capability 8.0 on. For g++,
// tests/cuda/fake/host.h does what the instructions are documented to do.
#pragma once
#include "cuda/text/prelude.h"

namespace cograd::device {

// Loads four matrices of 8 x 8 elements from shared memory. Lane l passes the address of row l % 8
// of matrix l / 8, and gets elements 2 (l % 4) and the next one of row l / 4 of each; of the
// transposed matrices if kTransposed.
template <bool kTransposed>
inline void load_matrices(uint32_t (&r)[4], const void* row) {
#if defined(__CUDACC_RTC__)
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
#else
  cograd_twin::load_matrices(r, row, kTransposed);
#endif
}

// Adds a (16 x 16) times b (16 x 8) to c (16 x 8). Lane l has of c the elements 2 (l % 4) and the
// next one of row l / 4, then of the row 8 below; of a the same, then those 8 columns to the right;
// of b column l / 4, rows 2 (l % 4) and the next one, then those 8 below.
template <class T>
inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if defined(__CUDACC_RTC__)
  if constexpr (is_same<T, Half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  cograd_twin::multiply_add(c, a, b0, b1, [](uint16_t bits) {
    T v;
    v.bits = bits;
    return static_cast<float>(v);
  });
#endif
}

// Begins to copy 16 bytes to shared memory, or to fill them with zeros. Copies before an
// end_copies() are a group; copies_arrived<n>() waits until at most the last n groups of the thread
// are on their way.
inline void begin_copy(void* to, const void* from, bool zeros) {
#if defined(__CUDACC_RTC__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from),
                 "r"(zeros ? 0 : 16)
               : "memory");
#else
  cograd_twin::begin_copy(to, from, zeros);
#endif
}
inline void end_copies() {
#if defined(__CUDACC_RTC__)
  asm volatile("cp.async.commit_group;" : : : "memory");
#else
  cograd_twin::end_copies();
#endif
}
template <int kLeft>
inline void copies_arrived() {
#if defined(__CUDACC_RTC__)
  asm volatile("cp.async.wait_group %0;" : : "n"(kLeft) : "memory");
#else
  cograd_twin::copies_arrived(kLeft);
#endif
}

// Rounds two floats to adjacent elements.
template <class T>
inline uint32_t packed(float first, float second) {
#if defined(__CUDACC_RTC__)
  uint32_t r;
  if constexpr (is_same<T, Half>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
  return r;
#else
  return static_cast<uint32_t>(T(first).bits) | static_cast<uint32_t>(T(second).bits) << 16;
#endif
}

}  // namespace cograd::device
