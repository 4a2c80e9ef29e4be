// SPDX-License-Identifier: BSD-3-Clause
// Starts kernels of rows, and runs the loops of the CPU on the GPU.
#pragma once
#include <span>

#include "cuda/slots/loop_args.h"
#include "kernels/optim/optim.h"

namespace cograd::cuda {

// Starts a row's kernel, which is compiled if need be. Throws NoKernel before if there is none.
void start_row(int index, const LoopRow& row, const LoopLaunch& l);

// The slots.
void run_loop(kernels::LoopFn fn, int ndim, const int64_t* shape, const kernels::Operand* ops,
              int nops, const void* params, int cost_per_element);
bool expect_loop(kernels::LoopFn fn, bool flat);
void copy_strided(DType from, DType to, int ndim, const int64_t* shape, const kernels::Operand& out,
                  const kernels::Operand& in);
void optim_steps(std::span<const kernels::OptimStep> steps);

}  // namespace cograd::cuda
