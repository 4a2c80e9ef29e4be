// SPDX-License-Identifier: BSD-3-Clause
// Includes pocketfft under a name of its own for each instruction set; otherwise the linker would
// keep one copy of its templates for all of them. Only the per-ISA files include this.
#pragma once
#include <cstddef>

#include "kernels/core/isa.h"
#include "kernels/fft/fft_memory.h"

#define COGRAD_FFT_JOIN(a, b) a##b
#define COGRAD_FFT_NAME(isa) COGRAD_FFT_JOIN(pocketfft_, isa)
#define POCKETFFT_NO_MULTITHREADING
#define pocketfft COGRAD_FFT_NAME(COGRAD_ISA)

// The library finds these before those of the C library.
namespace pocketfft::detail {
inline void* malloc(std::size_t n) { return ::cograd::kernels::fft_malloc(n); }
inline void free(void* p) { ::cograd::kernels::fft_free(p); }
}  // namespace pocketfft::detail
#include <pocketfft_hdronly.h>

namespace cograd::kernels::COGRAD_ISA {
namespace pocket = pocketfft::detail;
}
#undef pocketfft
