// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/reduce/reduce.h.
#include "kernels/reduce/reduce.h"

#include <cmath>

#include "cuda/slots/reduce_plan.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"

namespace cograd::cuda {

using kernels::ReduceGeometry;
using kernels::ReduceOp;

namespace {

Leaf leaf_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      return Leaf::Sum;
    case ReduceOp::Prod:
      return Leaf::Prod;
    case ReduceOp::Min:
      return Leaf::Min;
    case ReduceOp::Max:
      return Leaf::Max;
    case ReduceOp::All:
    case ReduceOp::Any:
    case ReduceOp::CountNonzero:
    case ReduceOp::Norm0:
      return Leaf::Nonzero;
    case ReduceOp::SumSquares:
    case ReduceOp::Norm2:
      return Leaf::SumSquares;
    case ReduceOp::Norm1:
      return Leaf::SumAbs;
    case ReduceOp::NormInf:
      return Leaf::MaxAbs;
    case ReduceOp::NormNegInf:
      return Leaf::MinAbs;
    case ReduceOp::LogSumExp:
      break;
  }
  return Leaf::LogSumExp;
}

int finish_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Mean:
      return device::kMean;
    case ReduceOp::Norm2:
      return device::kRoot2;
    case ReduceOp::All:
      return device::kAllTrue;
    case ReduceOp::Any:
      return device::kAnyTrue;
    default:
      return device::kPlain;
  }
}

}  // namespace

void reduce(ReduceOp op, DType in, const void* x, const ReduceGeometry& g, DType out, void* y) {
  ReduceArgs a{};
  a.y = y;
  a.out = static_cast<int>(out);
  a.finish = finish_of(op);
  run_reduction("reduce", leaf_of(op), in, x, g, false, a);
}

void reduce_extreme(bool largest, DType in, const void* x, const ReduceGeometry& g, void* values,
                    int64_t* indices) {
  ReduceArgs a{};
  a.y = values;
  a.second = indices;
  a.out = static_cast<int>(in);
  run_reduction("reduce_extreme", largest ? Leaf::ArgMax : Leaf::ArgMin, in, x, g, true, a);
}

void reduce_var(DType in, const void* x, const ReduceGeometry& g, double correction, bool take_sqrt,
                DType out, void* var, void* mean) {
  ReduceArgs a{};
  a.y = var;
  a.second = mean;
  a.out = static_cast<int>(out);
  a.finish = take_sqrt ? device::kRoot2 : device::kPlain;
  a.q = correction;
  run_reduction("reduce_var", Leaf::Var, in, x, g, false, a);
}

void reduce_norm(double p, DType in, const void* x, const ReduceGeometry& g, DType out, void* y) {
  if (p == 0) return cuda::reduce(ReduceOp::Norm0, in, x, g, out, y);
  if (p == 1) return cuda::reduce(ReduceOp::Norm1, in, x, g, out, y);
  if (p == 2) return cuda::reduce(ReduceOp::Norm2, in, x, g, out, y);
  if (std::isinf(p))
    return cuda::reduce(p > 0 ? ReduceOp::NormInf : ReduceOp::NormNegInf, in, x, g, out, y);
  ReduceArgs a{};
  a.y = y;
  a.out = static_cast<int>(out);
  a.p = p;
  run_reduction("reduce_norm", Leaf::PowerSum, in, x, g, false, a);
}

bool all_nonzero(DType t, const void* x, const ReduceGeometry& g) {
  const Scratch word(1);
  cuda::reduce(ReduceOp::All, t, x, g, DType::Bool, word.data());
  return read_back<uint8_t>(word.data()) != 0;
}

Complex<double> complex_sum(DType t, const void* x, int64_t n) {
  const DType part = t == DType::Complex64 ? DType::Float32 : DType::Float64;
  const int64_t size = dtype_size(part);
  const int64_t kept[1] = {2}, kept_step[1] = {size}, reduced[1] = {n}, step[1] = {2 * size};
  const Scratch sums(2 * sizeof(double));
  cuda::reduce(ReduceOp::Sum, part, x, {kept, kept_step, reduced, step}, DType::Float64,
               sums.data());
  double v[2];
  read_back(sums.data(), v, sizeof v);
  return {v[0], v[1]};
}

COGRAD_CUDA_SLOT(reduce)
COGRAD_CUDA_SLOT(reduce_extreme)
COGRAD_CUDA_SLOT(reduce_var)
COGRAD_CUDA_SLOT(reduce_norm)
COGRAD_CUDA_SLOT(all_nonzero)
COGRAD_CUDA_SLOT(complex_sum)

}  // namespace cograd::cuda
