// SPDX-License-Identifier: BSD-3-Clause
// The arguments of elementwise kernels, for the host and for kernels' text. Operand 0 is the
// output.
#pragma once

namespace cograd::device {

inline constexpr int kLoopOperands = 6, kLoopDims = 8;

// A number in the type that a row computes in.
struct alignas(16) LoopValue {
  unsigned char bytes[16];
};

struct LoopOperands {
  void* data[kLoopOperands];
  LoopValue value[kLoopOperands];  // operands that are numbers on the host
  LoopValue param[3];              // p0, p1, p2
  unsigned on_host;                // bit k: operand k is value[k]
  unsigned single;                 // bit k: operand k is one element in memory
  unsigned* error;                 // gets 1 if an integer was divided by zero; may be null
};

// Elements that lie one after another in memory.
struct FlatArgs {
  LoopOperands ops;
  long long n;
};

// The dims from the innermost to the outermost; multiplier and shift divide by the size.
struct StridedArgs {
  LoopOperands ops;
  long long n;
  int ndim;
  struct Dim {
    long long size;
    unsigned multiplier, shift;
    long long strides[kLoopOperands];  // bytes
  } dims[kLoopDims];
};

}  // namespace cograd::device
