// SPDX-License-Identifier: BSD-3-Clause
// What pooling ops share: arguments for one to three dims, sizes of results.
#pragma once
#include "ops/core/ops.h"

namespace cograd {

// One number for all dims, or one for each.
Dims pool_dims(const char* op, IntList v, const char* name, size_t n);

struct PoolArgs {
  Dims kernel, stride, padding, dilation;
  bool ceil_mode = false;
};
// Arguments as users write them, checked; an empty stride is the kernel size.
PoolArgs pool_args(const char* op, size_t n, IntList kernel, IntList stride, IntList padding,
                   IntList dilation, bool ceil_mode);
// Sizes of the result for an input (*, in), each at least 1; raises otherwise.
Dims pool_sizes(const char* op, IntList in, const PoolArgs& a);
// Raises unless x is (N, C, *) or (C, *) with n further dims; only N may be 0.
void check_pool_input(const char* op, const Tensor& x, size_t n);
// The same where dims before `nonempty_from` may be empty.
void check_pool_input(const char* op, const Tensor& x, size_t n, int nonempty_from);
// Sizes of an adaptive pooling's result; raises unless they and x suit n dims.
Dims adaptive_sizes(const char* op, const Tensor& x, IntList output_size, size_t n,
                    int nonempty_from);
// Raises NotImplemented unless x is floating.
void check_pool_floating(const char* op, const Tensor& x);
// x's leading dims and the given last ones.
Dims with_last(const Tensor& x, IntList last);
// Raises where the result, or a table of all windows, has no room, before the table is filled.
void check_room(const Tensor& x, IntList out);

}  // namespace cograd
