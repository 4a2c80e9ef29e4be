// SPDX-License-Identifier: BSD-3-Clause
// Shared by the pooling ops: arguments for one to three dims, sizes of results.
#pragma once
#include "ops/declare/ops.h"

namespace cograd {

// Expands one value to all dims; accepts one value per dim.
Dims pool_dims(const char* op, IntList v, const char* name, size_t n);

struct PoolArgs {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode = false;
};
// Checks and expands the user's arguments; an empty stride means the kernel size.
PoolArgs pool_args(const char* op, size_t n, IntList kernel, IntList stride, IntList padding,
                   IntList dilation, bool ceil_mode);
// Returns the sizes of the result for an input (*, in); raises unless each is at least 1.
Dims pool_sizes(const char* op, IntList in, const PoolArgs& a);
// Raises unless x is (N, C, *) or (C, *) with n further dims; only N may be 0.
void check_pool_input(const char* op, const Tensor& x, size_t n);
// Does the same, but lets all dims before `nonempty_from` be empty.
void check_pool_input(const char* op, const Tensor& x, size_t n, int nonempty_from);
// Returns the sizes of an adaptive pooling's result; raises unless they and x have n dims.
Dims adaptive_sizes(const char* op, const Tensor& x, IntList output_size, size_t n,
                    int nonempty_from);
// Raises NotImplemented unless x is floating.
void check_pool_floating(const char* op, const Tensor& x);
// Returns x's leading dims followed by `last`.
Dims with_last(const Tensor& x, IntList last);
// Raises if memory for the result or for a table of all windows cannot be allocated, before the
// table is filled.
void check_room(const Tensor& x, IntList out);

}  // namespace cograd
