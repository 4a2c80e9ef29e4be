// SPDX-License-Identifier: BSD-3-Clause
// Distances: dist between two tensors, cdist between all pairs of their rows.
#include <cmath>

#include "kernels/core/sequences.h"
#include "kernels/product/cdist.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/linalg/linalg.h"
#include "ops/shape/geometry.h"
#include "tensor/backend.h"

namespace cograd {

namespace {

struct Dist {
  static constexpr OpSpec spec{"dist",
                               "input, other, p=2.0",
                               kFunctional | kReduction,
                               "p-norm of input - other.",
                               "T(3, 4), T(3, 4); T(4), T(3, 4), 3.0",
                               "np.sum(np.abs(input - other)**p)**(1 / p)"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(const Tensor& a, const Tensor& b, double p) {
    return vector_norm(a - b, p, std::nullopt, false);
  }
};
COGRAD_OP(Dist)

struct CdistOp {
  static constexpr OpSpec spec{"_cdist", "x1, x2, p", kInternal | kOther, "",
                               "none: reached through cdist"};
  static constexpr const char* kNodeName = "CdistBackward0";
  static constexpr DTypeSet kDTypes = kWideTypes;
  static constexpr int kSaved = 3;
  struct State {
    double p = 2;
  };
  // Accepts [B, P, M] and [B, R, M] of one floating dtype.
  static Tensor forward(Ctx<CdistOp>& ctx, const Tensor& x1, const Tensor& x2, double p) {
    const Tensor a = raw_contiguous(x1), b = raw_contiguous(x2);
    const int64_t batch = a.size(0), n = a.size(1), r = b.size(1), m = a.size(2);
    const int64_t sizes[3] = {batch, n, r}, step = a.itemsize();
    ctx->p = p;
    ctx.save(x1, x2);
    if (!place_has_kernel("cdist_forward")) {
      Tensor found = m > 0 && product(sizes) > 0 ? by_norms(x1, x2, p) : zeros(sizes, a.dtype());
      ctx.save_output(found);
      return found;
    }
    Tensor out = empty(sizes, a.dtype());
    for (int64_t i = 0; i < batch; ++i)
      kernels::cdist_forward(a.dtype(), p, a.bytes() + i * n * m * step, n,
                             b.bytes() + i * r * m * step, r, m, out.bytes() + i * n * r * step);
    ctx.save_output(out);
    return out;
  }
  static void batch(BatchCall& c) {
    const Tensor a = c.physical_expanded(c.arg(0).tensor()),
                 b = c.physical_expanded(c.arg(1).tensor());
    const int64_t many = a.size(0) * a.size(1), n = a.size(2), r = b.size(2);
    const int64_t flat_a[3] = {many, n, a.size(3)}, flat_b[3] = {many, r, b.size(3)};
    const int64_t whole[4] = {a.size(0), a.size(1), n, r};
    c.set_result(
        reshape(apply<CdistOp>(reshape(a, flat_a), reshape(b, flat_b), c.arg(2).number()), whole));
  }
  static void backward_fused(Ctx<CdistOp>& ctx, const Tensor& grad) {
    if (!place_has_kernel("cdist_backward")) return backward(ctx, grad);
    const Tensor a = raw_contiguous(ctx.saved(0)), b = raw_contiguous(ctx.saved(1));
    const Tensor dist = ctx.saved(2), g = raw_contiguous(grad);
    const int64_t batch = a.size(0), n = a.size(1), r = b.size(1), m = a.size(2);
    const int64_t step = a.itemsize();
    const auto run = [&](size_t i, const Tensor& x, int64_t rows, const Tensor& y, int64_t others,
                         int64_t row_step, int64_t col_step) {
      if (!ctx.needs(i)) return;
      Tensor out = empty(x.sizes(), x.dtype());
      for (int64_t k = 0; k < batch; ++k)
        kernels::cdist_backward(a.dtype(), ctx->p, x.bytes() + k * rows * m * step, rows,
                                y.bytes() + k * others * m * step, others, m,
                                g.bytes() + k * n * r * step, dist.bytes() + k * n * r * step,
                                row_step, col_step, out.bytes() + k * rows * m * step);
      ctx.grad(i) = std::move(out);
    };
    run(0, a, n, b, r, r, 1);
    run(1, b, r, a, n, 1, r);
  }
  static void backward(Ctx<CdistOp>& ctx, const Tensor& g) {
    const Tensor d = unsqueeze(ctx.saved(0), 2) - unsqueeze(ctx.saved(1), 1);
    const Tensor dist = unsqueeze(ctx.saved(2), 3), gd = unsqueeze(g, 3);
    const Tensor u = gd * slope(d, dist, ctx->p);
    const int64_t second = 2, first = 1;
    if (ctx.needs(0)) ctx.grad(0) = sum(u, IntList(&second, 1));
    if (ctx.needs(1)) ctx.grad(1) = -sum(u, IntList(&first, 1));
  }

 private:
  // Needs memory for all differences, which the kernels do not.
  static Tensor by_norms(const Tensor& a, const Tensor& b, double p) {
    const int64_t last = -1;
    return vector_norm(unsqueeze(a, 2) - unsqueeze(b, 1), p, IntList(&last, 1), false);
  }
  // Returns the derivative of the distances with respect to the differences; 0 where rows are
  // equal.
  static Tensor slope(const Tensor& d, const Tensor& dist, double p) {
    if (p == 0) return zeros_like(d);
    if (p == 1) return sgn(d);
    if (std::isinf(p)) return sgn(d) * cast(eq(abs(d), dist), d.dtype());
    const TensorOrScalar one(Scalar(1.0));
    const Tensor none = eq(dist, 0.0), safe = where(none, one, dist);
    if (p == 2) return d / safe;
    const Tensor same = eq(d, 0.0);
    const Tensor part = pow(where(same, one, abs(d)) / safe, TensorOrScalar(Scalar(p - 1)));
    return sgn(d) * part;
  }
};

struct Cdist {
  static constexpr OpSpec spec{
      "cdist",
      "x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'",
      kFunction | kOther | kAutocastWide,
      "p-norm distance between every row of x1 (..., P, M) and of x2 (..., R, M): (..., P, R).",
      "T(3, 4), T(2, 4); T(2, 3, 4), T(2, 5, 4), 3.0; T(3, 4), T(2, 4), 1.0",
      "np.sum(np.abs(x1[..., :, None, :] - x2[..., None, :, :])**p, axis=-1)**(1 / p)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  // compute_mode only selects an optimisation in torch; cdist here always computes exactly.
  static Tensor forward(const Tensor& x1, const Tensor& x2, double p, std::string_view mode) {
    COGRAD_CHECK_VALUE(mode == "use_mm_for_euclid_dist_if_necessary" ||
                           mode == "use_mm_for_euclid_dist" ||
                           mode == "donot_use_mm_for_euclid_dist",
                       mode, " is not a valid value for compute_mode");
    COGRAD_CHECK(x1.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", x1.dim(), "D");
    COGRAD_CHECK(x2.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", x2.dim(), "D");
    COGRAD_CHECK(x1.size(-1) == x2.size(-1),
                 "X1 and X2 must have the same number of columns. X1: ", x1.size(-1),
                 " X2: ", x2.size(-1));
    COGRAD_CHECK(p >= 0, "cdist only supports non-negative p values");
    const DType t = result_type(x1, x2);
    const DType wide = wide_dtype(t);
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(t), "cdist(): not implemented for dtype ",
                                 scalar_type_name(t));
    Dims lead;
    const IntList lead1 = x1.sizes().first(static_cast<size_t>(x1.dim()) - 2);
    const IntList lead2 = x2.sizes().first(static_cast<size_t>(x2.dim()) - 2);
    COGRAD_CHECK(broadcast_shapes(lead1, lead2, lead), "cdist(): leading dims ", to_string(lead1),
                 " and ", to_string(lead2), " do not broadcast");
    const Tensor out = apply<CdistOp>(flat(cast(x1, wide), lead), flat(cast(x2, wide), lead), p);
    Dims sizes(lead);
    sizes.push_back(x1.size(-2));
    sizes.push_back(x2.size(-2));
    return cast(unsafe_view(out, sizes), t);
  }

 private:
  static Tensor flat(const Tensor& x, const Dims& lead) {
    Dims wide(lead);
    wide.push_back(x.size(-2));
    wide.push_back(x.size(-1));
    const int64_t whole[3] = {product(lead), x.size(-2), x.size(-1)};
    return reshape(expand(x, wide), whole);
  }
};
COGRAD_OP(Cdist)

struct Pdist {
  static constexpr OpSpec spec{
      "pdist",
      "input, p=2.0",
      kFunction | kNN | kOther,
      "p-norm distances between all pairs of rows of input (N, M), in the order of rows: "
      "(N (N - 1) / 2).",
      "T(4, 3); T(5, 2), 1.0",
      "np.sum(np.abs(input[:, None] - input[None])**p, axis=-1)[np.triu_indices(len(input), 1)]"
      "**(1 / p)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, double p) {
    COGRAD_CHECK(x.dim() == 2, "pdist only supports 2D tensors, got: ", x.dim(), "D");
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()),
                                 "pdist only supports floating-point dtypes");
    COGRAD_CHECK(p >= 0, "pdist only supports non-negative p values");
    const int64_t n = x.size(0), pairs[1] = {n < 2 ? 0 : n * (n - 1) / 2}, all[1] = {n * n};
    const Tensor index = empty(pairs, DType::Int64);
    kernels::pair_indices(n, index.data<int64_t>());
    const Tensor whole = apply<Cdist>(x, x, p, std::string_view("donot_use_mm_for_euclid_dist"));
    return index_select(reshape(whole, all), 0, index);
  }
};
COGRAD_OP(Pdist)

struct CosineSimilarity {
  static constexpr OpSpec spec{
      "cosine_similarity",
      "x1, x2, dim=1, eps=1e-08",
      kFunction | kDecomposition,
      "x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along dim; the shapes broadcast.",
      "T(3, 4), T(3, 4); T(3, 4), T(4), -1; T(3, 1), T(3, 4); T(2, 3), T(4, 1, 3), 0",
      "(lambda a, b: np.sum(a * b, dim) / np.sqrt(np.sum(a * a, dim) * np.sum(b * b, dim)))"
      "(*np.broadcast_arrays(x1, x2))"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x1, const Tensor& x2, Dim dim, double eps) {
    const DType t = result_type(x1, x2);
    COGRAD_CHECK(is_floating(t),
                 "cosine_similarity(): expected common dtype to be floating point, "
                 "yet common dtype is ",
                 scalar_type_name(t));
    // eps rounds to zero in float16, where zero vectors would produce NaN.
    const DType in = wide_dtype(t);
    const std::array<Tensor, 2> wide = broadcast(cast(x1, in), cast(x2, in));
    const Tensor &a = wide[0], &b = wide[1];
    return cast(sum(unit(a, dim, eps) * unit(b, dim, eps), IntList(&dim.value, 1)), t);
  }

 private:
  // Takes the norms of the broadcast vectors: a repeated element counts each time.
  static std::array<Tensor, 2> broadcast(const Tensor& a, const Tensor& b) {
    Dims joint;
    COGRAD_CHECK(broadcast_shapes(a.sizes(), b.sizes(), joint), "cosine_similarity(): shapes ",
                 to_string(a.sizes()), " and ", to_string(b.sizes()), " do not broadcast");
    return {expand(a, joint), expand(b, joint)};
  }
  static Tensor unit(const Tensor& x, int64_t dim, double eps) {
    return x / clamp_min(vector_norm(x, 2, IntList(&dim, 1), true), eps);
  }
};
COGRAD_OP(CosineSimilarity)

}  // namespace

}  // namespace cograd
