// SPDX-License-Identifier: BSD-3-Clause
// Tells a GPU which gradients' loops will be run.
#include <atomic>

#include "kernels/core/expect.h"
#include "ops/elementwise/rows.h"

namespace cograd::rows {

namespace {

// Bits of dtypes, by the gradient's operand, by whether the operands are flat, and by op.
using Told = std::atomic<uint32_t>;
Told told_unary[2][static_cast<size_t>(UnaryOp::kCount)];
Told told_binary[2][2][static_cast<size_t>(BinaryOp::kCount)];

bool is_flat(const Tensor& t, const Tensor& y) {
  return t.numel() == 1 || (t.is_contiguous() && t.numel() == y.numel());
}
bool is_flat(const TensorOrScalar& v, const Tensor& y) {
  return !v.is_tensor() || is_flat(v.tensor(), y);
}

void expect(Told& told, const Gradient& g, kernels::LoopFn fused, DType t, bool flat) {
  const uint32_t bit = uint32_t{1} << static_cast<int>(t);
  if ((told.load(std::memory_order_relaxed) & bit) != 0) return;
  const kernels::LoopFn loop = g.fused ? fused : kernels::ElementRow(g.step.op).loop(t);
  if (loop == nullptr || kernels::expect_loop(loop, flat))
    told.fetch_or(bit, std::memory_order_relaxed);
}

}  // namespace

void expect_gradients(const CtxBase& ctx, UnaryOp k, const Gradient* grads, const Tensor& y,
                      const Tensor& x) {
  const bool flat = is_flat(x, y) && y.is_contiguous();
  if (grads[0].direct() && ctx.needs(0))
    expect(told_unary[flat][static_cast<size_t>(k)], grads[0], gradient_loop(k, 0, y.dtype()),
           y.dtype(), flat);
}

void expect_gradients(const CtxBase& ctx, BinaryOp k, const Gradient* grads, const Tensor& y,
                      const TensorOrScalar& a, const TensorOrScalar& b) {
  const bool flat = is_flat(a, y) && is_flat(b, y) && y.is_contiguous();
  for (size_t i = 0; i < 2; ++i)
    if (grads[i].direct() && ctx.needs(i))
      expect(told_binary[i][flat][static_cast<size_t>(k)], grads[i], gradient_loop(k, i, y.dtype()),
             y.dtype(), flat);
}

}  // namespace cograd::rows
