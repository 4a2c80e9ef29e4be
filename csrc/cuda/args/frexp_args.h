// SPDX-License-Identifier: BSD-3-Clause
// The arguments of frexp, for the host and for kernels' text.
#pragma once

namespace cograd::device {

struct FrexpArgs {
  const void* x;
  void* mantissa;
  int* exponent;
  long long n;
};

}  // namespace cograd::device
