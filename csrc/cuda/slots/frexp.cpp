// SPDX-License-Identifier: BSD-3-Clause
// The slot of kernels/elementwise/frexp.h.
#include "kernels/elementwise/frexp.h"

#include "cuda/args/frexp_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"

namespace cograd::cuda {

void frexp(DType t, const void* x, int64_t n, void* mantissa, int32_t* exponent) {
  if (n == 0) return;
  const device::FrexpArgs args{x, mantissa, exponent, n};
  launch("frexp", function_of("frexp.h", "split_floats", t), grid_over(n), args);
}
COGRAD_CUDA_SLOT(frexp)

}  // namespace cograd::cuda
