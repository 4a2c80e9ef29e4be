// SPDX-License-Identifier: BSD-3-Clause
// linear, input @ weight^T + bias as one op with the leading dims folded, and bilinear.
#include "kernels/core/moves.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/linalg/matmul.h"

namespace cograd {

namespace {

struct LinearOp {
  static constexpr OpSpec spec{"linear", "input, weight, bias", kInternal | kContraction, "",
                               "none: linear"};
  static constexpr int kSaved = 2;
  static constexpr TangentRule kTangent = multilinear({0, 1}, {2});
  static Tensor forward(Ctx<LinearOp>& ctx, const Tensor& x, const Tensor& w, const Tensor& bias) {
    check(x, w, bias);
    if (ctx.recording())
      ctx.save(ctx.needs(1) ? x : Tensor(), ctx.needs(0) ? fixed_view(w) : Tensor());
    Dims sizes(x.sizes());
    const int64_t k = w.size(1), n = w.size(0);
    sizes.back() = n;
    Tensor y = empty(sizes, x.dtype());
    const int64_t rows = n == 0 ? 0 : y.numel() / n;
    const int64_t flat_y[2] = {rows, n}, flat_x[2] = {rows, k}, steps_y[2] = {n, 1},
                  steps_x[2] = {k, 1};
    const bool matrix = x.dim() == 2;
    const Tensor out = matrix ? y : alias_strided(y, flat_y, steps_y, y.bytes());
    if (bias.defined()) bias.dim() > 1 ? raw_copy(y, bias) : fill_rows(out, bias, rows);
    if (y.numel() == 0) return y;
    const Tensor dense = matrix ? x : raw_contiguous(x);
    const Tensor in = matrix ? dense : alias_strided(dense, flat_x, steps_x, dense.bytes());
    raw_mm(in, false, w, true, 1, bias.defined() ? 1 : 0, out);
    return y;
  }
  static void batch(BatchCall& c) {
    const Tensor &x = c.arg(0).tensor(), &w = c.arg(1).tensor(), &bias = c.arg(2).tensor();
    if (!c.batched(w) && !c.batched(bias))
      return c.set_result(apply<LinearOp>(c.physical(x), w, bias));
    const bool vector = x.dim() == 1;
    Tensor y = matmul_t(vector ? unsqueeze(x, 0) : x, w, false, true);
    if (vector) y = squeeze(y, 0);
    box(c.out(), bias.defined() ? y + bias : y);
  }
  static void backward(Ctx<LinearOp>& ctx, const Tensor& g) {
    const bool vector = g.dim() == 1;
    if (ctx.needs(0)) {
      const Tensor w = ctx.saved(1);
      check_fixed_view(ctx.node(), w);
      ctx.grad(0) = vector ? mv_t(w, g, true) : matmul_t(g, w, false, false);
    }
    if (ctx.needs(1)) ctx.grad(1) = weight_gradient(g, ctx.saved(0));
    if (ctx.needs(2)) ctx.grad(2) = g;  // the engine sums it to the bias' shape
  }

 private:
  static void fill_rows(const Tensor& out, const Tensor& bias, int64_t rows) {
    if (!bias.is_contiguous() || bias.numel() != out.size(-1)) return raw_copy(out, bias);
    kernels::repeat_row(bias.bytes(), out.size(-1) * out.itemsize(), rows, out.bytes());
  }
  static Tensor weight_gradient(const Tensor& g, const Tensor& x) {
    if (g.dim() == 1) return outer(g, x);
    if (g.dim() == 2) return matmul_t(g, x, true, false);
    const int64_t n = g.size(-1), k = x.size(-1);
    const int64_t rows = product(g.sizes().first(static_cast<size_t>(g.dim()) - 1));
    const int64_t flat_g[2] = {rows, n}, flat_x[2] = {rows, k};
    return matmul_t(reshape(g, flat_g), reshape(x, flat_x), true, false);
  }
  // True if a bias of several dims broadcasts to the result.
  static bool broadcasts(const Tensor& bias, const Tensor& x, int64_t n) {
    Dims result(x.sizes()), joint;
    result.back() = n;
    return broadcast_shapes(bias.sizes(), result, joint) && same(joint, result);
  }
  static void check(const Tensor& x, const Tensor& w, const Tensor& bias) {
    COGRAD_CHECK(x.dim() >= 1, "both arguments to linear need to be at least 1D, but they are ",
                 x.dim(), "D and ", w.dim(), "D");
    check_product(x, w);
    const int64_t k = x.size(-1);
    if (k != w.size(1)) [[unlikely]]
      fail_product_shape(k == 0 ? 0 : x.numel() / k, k, w.size(1), w.size(0));
    if (!bias.defined()) return;
    COGRAD_CHECK(bias.dtype() == x.dtype(), "self and mat2 must have the same dtype, but got ",
                 scalar_type_name(bias.dtype()), " and ", scalar_type_name(x.dtype()));
    const int64_t n = w.size(0);
    const bool fits =
        bias.dim() <= 1 ? bias.numel() == n || bias.numel() == 1 : broadcasts(bias, x, n);
    COGRAD_CHECK(fits, "The expanded size of the tensor (", n, ") must match the existing size (",
                 bias.dim() == 0 ? 1 : bias.size(-1),
                 ") at non-singleton dimension 1.  Target sizes: [", k == 0 ? 0 : x.numel() / k,
                 ", ", n, "].  Tensor sizes: ", to_string(bias.sizes()));
  }
};

struct Linear {
  static constexpr OpSpec spec{
      "linear",
      "input, weight, bias=None",
      kFunction | kNN | kContraction | kAutocastLow,
      "input (*, I) @ weight (O, I) transposed + bias (O): (*, O), or (*) for a weight (I).",
      "T(3, 4), T(2, 4), T(2); T(3, 4), T(2, 4); T(2, 3, 4), T(5, 4), T(5); T(4), T(2, 4), T(2); "
      "T(3, 4), T(4)",
      "input @ weight.T + (0 if bias is None else bias)"};
  static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& bias) {
    if (w.dim() == 2) [[likely]] {
      // A bias of one row (1, O) is also valid for a single vector.
      if (x.dim() == 1 && bias.defined() && bias.dim() == 2 && bias.size(0) == 1)
        return apply<LinearOp>(x, w, squeeze(bias, 0));
      return apply<LinearOp>(x, w, bias);
    }
    COGRAD_CHECK(w.dim() == 1, "linear(): weight must have 1 or 2 dims, got ", w.dim());
    COGRAD_CHECK(!bias.defined() || bias.dim() == 0,
                 "linear(): bias for a weight vector must have no dims, got ", bias.dim());
    const Tensor y = matmul(x, w);
    return bias.defined() ? y + bias : y;
  }
};
COGRAD_OP(Linear)

struct Bilinear {
  static constexpr OpSpec spec{
      "bilinear",
      "input1, input2, weight, bias=None",
      kFunction | kContraction,
      "x1 A x2 + b for input1 (*, I), input2 (*, J), weight (O, I, J), bias (O): (*, O).",
      "T(3, 2), T(3, 4), T(5, 2, 4), T(5); T(2), T(4), T(5, 2, 4)",
      ""};
  static Tensor forward(const Tensor& x1, const Tensor& x2, const Tensor& weight,
                        const Tensor& bias) {
    COGRAD_CHECK(x1.dim() == x2.dim() && x1.dim() > 0,
                 "bilinear(): input dimensions do not match: got ", x1.dim(), " and ", x2.dim());
    COGRAD_CHECK(weight.dim() == 3, "bilinear(): weight must have 3 dims, got ", weight.dim());
    const auto lead = static_cast<size_t>(x1.dim()) - 1;
    COGRAD_CHECK(same(x1.sizes().first(lead), x2.sizes().first(lead)),
                 "bilinear(): input batch dimensions do not match: got ", to_string(x1.sizes()),
                 " and ", to_string(x2.sizes()));
    const int64_t o = weight.size(0), i = weight.size(1), j = weight.size(2);
    COGRAD_CHECK(x1.size(-1) == i, "bilinear(): input1 size does not match weight size: got ",
                 x1.size(-1), " but expected ", i);
    COGRAD_CHECK(x2.size(-1) == j, "bilinear(): input2 size does not match weight size: got ",
                 x2.size(-1), " but expected ", j);
    if (bias.defined())
      COGRAD_CHECK(bias.dim() == 1 && bias.size(0) == o,
                   "bilinear(): bias size does not match weight size: got ",
                   bias.dim() == 0 ? 1 : bias.size(0), " but expected ", o, "; bias has shape ",
                   to_string(bias.sizes()));
    const int64_t rows = product(x1.sizes().first(lead));
    const int64_t s1[2] = {rows, i}, s2[3] = {rows, j, 1}, flat[2] = {i, o * j};
    const int64_t order[3] = {1, 0, 2}, split[3] = {rows, o, j};
    const Tensor half = mm(reshape(x1, s1), reshape(permute(weight, order), flat));
    Dims sizes(x1.sizes().first(lead));
    sizes.push_back(o);
    const Tensor y = reshape(bmm(reshape(half, split), reshape(x2, s2)), sizes);
    return bias.defined() ? y + bias : y;
  }
};
COGRAD_OP(Bilinear)

}  // namespace

}  // namespace cograd
