// SPDX-License-Identifier: BSD-3-Clause
// The arguments of products with sparse matrices, for the host and for kernels' text.
#pragma once
#include "cuda/args/late_args.h"

namespace cograd::device {

// A pattern as in kernels/product/csr.h, with its operands.
struct CsrArgs {
  const void *start, *col, *place;
  const void *left, *x;  // values, or the rows of the left factor; the dense factor
  void* out;
  LateError* late;
  const char* op;  // on the host, for the error
  long long rows, cols, entries, k;
  int lanes;  // a power of two up to 32: columns that a warp has, or lanes for an entry
};
struct CsrTransposeArgs {
  const void *start, *col, *place;
  const unsigned* order;  // of the entries by column
  void *starts, *turned, *places;
  LateError* late;
  const char* op;  // on the host, for the error
  long long rows, cols, entries;
};

}  // namespace cograd::device
