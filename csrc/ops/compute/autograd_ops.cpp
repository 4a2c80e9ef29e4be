// SPDX-License-Identifier: BSD-3-Clause
// Implements the ops that the autograd layer calls; autograd does not depend on the op table.
#include <cmath>

#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"
#include "ops/declare/ops.h"
#include "ops/random/generator.h"
#include "ops/shape/geometry.h"
#include "transforms/batch.h"
#include "transforms/custom_samples.h"
#include "transforms/double_vjp.h"
#include "transforms/sparse.h"

namespace cograd {

namespace {

Pairing pairing(const Tensor& a, const Tensor& b) {
  if (is_batched(a)) return pairing(physical_tensor(a), physical_like(a, b));
  if (is_batched(b)) return pairing(physical_like(b, a), physical_tensor(b));
  const PlaceGuard here(a->device);
  const Tensor x = raw_contiguous(raw_cast(detach(a), DType::Complex128));
  const Tensor y = raw_contiguous(raw_cast(detach(b), DType::Complex128));
  COGRAD_CHECK(x.numel() == y.numel(), "gradient check: a hook changed the shape of a tensor from ",
               to_string(b.sizes()), " (the shape of its gradient) to ", to_string(a.sizes()));
  const auto p = host_values<Complex<double>>(x), q = host_values<Complex<double>>(y);
  Pairing sum;
  for (size_t i = 0; i < p.size(); ++i) {
    sum.sum += p[i].re * q[i].re + p[i].im * q[i].im;
    sum.size += std::hypot(p[i].re, p[i].im) * std::hypot(q[i].re, q[i].im);
  }
  return sum;
}

const bool installed = [] {
  autograd_ops.add = [](const Tensor& a, const Tensor& b) {
    return is_sparse(a) || is_sparse(b) ? sparse_ops.add(a, b) : add(a, b);
  };
  autograd_ops.add_ = [](const Tensor& a, const Tensor& b) {
    const PlaceGuard here(a->device);  // not a call of an op, so no stage sets it
    CtxBase ctx;
    ctx.set_target(&a, true, "add_", {});
    const Tensor sum = binary_op(ctx, kernels::BinaryOp::add, a, b, Rule::Same, "add");
    if (!sum.is(a)) raw_copy(a, sum);
  };
  autograd_ops.copy_ = copy_;
  autograd_ops.any_nonzero = [](const Tensor& x) {
    return host_value<bool>(any(ne(detach(x), 0)));
  };
  autograd_ops.clone = clone;
  autograd_ops.contiguous_clone = [](const Tensor& t) {
    return is_sparse(t) ? sparse_ops.clone(t) : contiguous_clone(t);
  };
  autograd_ops.cast = [](const Tensor& t, DType to) {
    return is_sparse(t) ? sparse_ops.cast(t, to) : cast(t, to);
  };
  autograd_ops.sum_to = sum_to;
  autograd_ops.expand = expand;
  autograd_ops.permute = permute;
  autograd_ops.select = select;
  autograd_ops.stack = [](const std::vector<Tensor>& v) { return stack(v, 0); };
  autograd_ops.zeros = zeros;
  autograd_ops.ones = ones;
  autograd_ops.as_strided = as_strided;
  autograd_ops.scatter_slice = scatter_region;
  autograd_ops.relayout = relayout;
  autograd_ops.parts_of_complex = parts_of_complex;
  autograd_ops.complex_from_parts = complex_from_parts;
  real_pairing = pairing;
  keep_random_state = [] {
    Generator* const g = &generator_or_default(nullptr);
    return std::function<void()>([g, state = g->state()] { g->set_state(state); });
  };
  return true;
}();

}  // namespace

}  // namespace cograd
