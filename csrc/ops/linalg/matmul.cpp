// SPDX-License-Identifier: BSD-3-Clause
// Matrix products: mm, bmm, matmul and their transposed forms, each as one op without copies.
#include "ops/linalg/matmul.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/shape/geometry.h"

#include "tensor/threads.h"

namespace cograd {

MatrixOperand::MatrixOperand(const Tensor& x, bool transposed) : source(&x) {
  const int64_t m = x.size(-2), n = x.size(-1);
  const int64_t s0 = x.stride(-2), s1 = x.stride(-1);
  bool stored_transposed = false;
  if ((s1 == 1 || n == 1) && (s0 >= n || m == 1)) {
    ld = m == 1 ? n : s0;
  } else if ((s0 == 1 || m == 1) && (s1 >= m || n == 1)) {
    ld = n == 1 ? m : s1;
    stored_transposed = true;
  } else {
    copy = raw_contiguous(x);
    ld = n;
  }
  if (ld < 1) ld = 1;
  data = tensor().bytes();
  trans = stored_transposed != transposed;
  rows = transposed ? n : m;
  cols = transposed ? m : n;
}

void fail_product_dtype(const Tensor& a, const Tensor& b) {
  detail::fail(ErrorKind::Runtime,
               "expected m1 and m2 to have the same dtype, but got: ", dtype_info(a.dtype()).c_name,
               " != ", dtype_info(b.dtype()).c_name);
}

void fail_product_shape(int64_t m, int64_t k, int64_t rows, int64_t n) {
  detail::fail(ErrorKind::Runtime, "mat1 and mat2 shapes cannot be multiplied (", m, "x", k,
               " and ", rows, "x", n, ")");
}

void raw_mm(const Tensor& a, bool ta, const Tensor& b, bool tb, double alpha, double beta,
            const Tensor& c) {
  const MatrixOperand x(a, ta);
  const MatrixOperand y(b, tb);
  kernels::gemm(a.dtype(), x.trans, y.trans, x.rows, y.cols, x.cols, alpha, x.data, x.ld, y.data,
                y.ld, beta, c.bytes(), std::max<int64_t>(y.cols, 1));
}

namespace {

// Returns the distance between consecutive matrices if it is uniform over all batch dims, else -1.
int64_t uniform_step(IntList strides, IntList batch) {
  int64_t step = 0;
  bool first = true;
  int64_t expected = 0;
  for (size_t i = batch.size(); i-- > 0;) {
    if (batch[i] == 1) continue;
    if (first) {
      step = strides[i];
      first = false;
    } else if (strides[i] != expected) {
      return -1;
    }
    expected = strides[i] * batch[i];
  }
  return step;
}

// Returns the strides of x's batch dims, broadcast to `batch`.
Dims batch_strides(const Tensor& x, IntList batch) {
  Dims out(batch.size());
  const size_t own = static_cast<size_t>(x.dim()) - 2;
  for (size_t i = 0; i < own; ++i) {
    const size_t at = batch.size() - own + i;
    out[at] = x.sizes()[i] == 1 && batch[at] != 1 ? 0 : x.strides()[i];
  }
  return out;
}

}  // namespace

void raw_bmm(const Tensor& a, bool ta, const Tensor& b, bool tb, double alpha, double beta,
             const Tensor& c, IntList batch) {
  const MatrixOperand x(a, ta);
  const MatrixOperand y(b, tb);
  const int64_t count = product(batch);
  const int64_t m = x.rows, n = y.cols, k = x.cols;
  const Dims sa = batch_strides(x.tensor(), batch), sb = batch_strides(y.tensor(), batch);
  const int64_t step_a = uniform_step(sa, batch);
  const int64_t step_b = uniform_step(sb, batch);
  const int64_t ldc = std::max<int64_t>(n, 1);
  if (step_a >= 0 && step_b >= 0) {
    // If B is shared, the rows of all matrices of A form one tall matrix.
    if (!x.trans && step_b == 0 && (count == 1 || step_a == m * x.ld))
      return kernels::gemm(a.dtype(), x.trans, y.trans, m * count, n, k, alpha, x.data, x.ld,
                           y.data, y.ld, beta, c.bytes(), ldc);
    return kernels::gemm_batched(a.dtype(), x.trans, y.trans, m, n, k, alpha, x.data, x.ld, step_a,
                                 y.data, y.ld, step_b, beta, c.bytes(), ldc, m * n, count);
  }
  HeavyScope heavy(count * m * n * k);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at_a = 0, at_b = 0;
    for (size_t d = batch.size(); d-- > 0;) {
      const int64_t r = rest % batch[d];
      rest /= batch[d];
      at_a += r * sa[d];
      at_b += r * sb[d];
    }
    kernels::gemm(a.dtype(), x.trans, y.trans, m, n, k, alpha, x.data + at_a * a.itemsize(), x.ld,
                  y.data + at_b * a.itemsize(), y.ld, beta, c.bytes() + i * m * n * c.itemsize(),
                  ldc);
  }
}

namespace {

struct ProductState {
  bool ta = false;
  bool tb = false;
  int right_dim = 2;  // the number of dims of B
};

// Gradients of C = op(A) op(B): with G = dC, d op(A) = G op(B)^T and d op(B) = op(A)^T G. A
// transposed operand gets the transpose of that, which is again one product with flags.
template <class Op>
void product_backward(Ctx<Op>& ctx, const Tensor& g) {
  const bool ta = ctx->ta, tb = ctx->tb;
  if (ctx.needs(0)) {
    const Tensor b = ctx.saved(1);
    ctx.grad(0) = ta ? matmul_t(b, g, tb, true) : matmul_t(g, b, false, !tb);
  }
  if (!ctx.needs(1)) return;
  const Tensor a = ctx.saved(0);
  if (ctx->right_dim == 2 && g.dim() > 2 && !ta && g.numel() > 0 && a.numel() > 0) {
    // For a shared right factor, computes one tall product instead of a sum of small ones.
    const int64_t tall_a[2] = {-1, a.size(-1)}, tall_g[2] = {-1, g.size(-1)};
    const Tensor fa = reshape(a, tall_a), fg = reshape(g, tall_g);
    ctx.grad(1) = tb ? matmul_t(fg, fa, true, false) : matmul_t(fa, fg, true, false);
    return;
  }
  ctx.grad(1) = tb ? matmul_t(g, a, true, ta) : matmul_t(a, g, !ta, false);
}
template <class Op>
void save_factors(Ctx<Op>& ctx, const Tensor& a, const Tensor& b, bool ta, bool tb) {
  if (!ctx.recording()) return;
  *ctx.operator->() = {ta, tb, b.dim()};
  ctx.save(ctx.needs(1) ? a : Tensor(), ctx.needs(0) ? b : Tensor());
}

struct MmOp {
  static constexpr OpSpec spec{"mm", "a, b, transpose_a, transpose_b",
                               kInternal | kContraction | kExactOut, "", "none: mm"};
  static constexpr int kSaved = 2;
  using State = ProductState;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static Tensor forward(Ctx<MmOp>& ctx, const Tensor& a, const Tensor& b, bool ta, bool tb) {
    check_product(a, b);
    const MatrixOperand x(a, ta);
    const MatrixOperand y(b, tb);
    if (x.cols != y.rows) [[unlikely]]
      fail_product_shape(x.rows, x.cols, y.rows, y.cols);
    save_factors(ctx, a, b, ta, tb);
    const int64_t sizes[2] = {x.rows, y.cols};
    Tensor c = empty(sizes, a.dtype());
    kernels::gemm(a.dtype(), x.trans, y.trans, x.rows, y.cols, x.cols, 1, x.data, x.ld, y.data,
                  y.ld, 0, c.bytes(), std::max<int64_t>(y.cols, 1));
    return c;
  }
  static void batch(BatchCall& c) {
    const Tensor &a = c.arg(0).tensor(), &b = c.arg(1).tensor();
    c.set_result(matmul_t(c.physical(a), c.physical(b), c.arg(2).truth(), c.arg(3).truth()));
  }
  static void backward(Ctx<MmOp>& ctx, const Tensor& g) { product_backward(ctx, g); }
};

int64_t op_rows(const Tensor& x, bool t) { return x.size(t ? -1 : -2); }
int64_t op_cols(const Tensor& x, bool t) { return x.size(t ? -2 : -1); }

// Accepts any ndim >= 2 on both sides; batch dims broadcast.
struct MatmulOp {
  static constexpr OpSpec spec{"bmm", "a, b, transpose_a, transpose_b",
                               kInternal | kContraction | kExactOut, "", "none: bmm"};
  static constexpr int kSaved = 2;
  using State = ProductState;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static constexpr BatchRule kBatch = leading(2);
  static Tensor forward(Ctx<MatmulOp>& ctx, const Tensor& a, const Tensor& b, bool ta, bool tb) {
    check_product(a, b);
    COGRAD_CHECK(a.dim() >= 2 && b.dim() >= 2, "matmul: expected matrices, got tensors of ",
                 a.dim(), " and ", b.dim(), " dims");
    const IntList lead_a = a.sizes().first(static_cast<size_t>(a.dim()) - 2);
    const IntList lead_b = b.sizes().first(static_cast<size_t>(b.dim()) - 2);
    Dims batch;
    check_batch(lead_a, lead_b, batch);
    if (op_cols(a, ta) != op_rows(b, tb)) fail_inner(a, ta, b, tb, batch);
    save_factors(ctx, a, b, ta, tb);
    Dims sizes(batch);
    sizes.push_back(op_rows(a, ta));
    sizes.push_back(op_cols(b, tb));
    Tensor c = empty(sizes, a.dtype());
    if (c.numel() > 0) raw_bmm(a, ta, b, tb, 1, 0, c, batch);
    return c;
  }
  static void backward(Ctx<MatmulOp>& ctx, const Tensor& g) { product_backward(ctx, g); }

 private:
  static void check_batch(IntList a, IntList b, Dims& out) {
    if (same(a, b)) {
      out = Dims(a);
      return;
    }
    if (broadcast_shapes(a, b, out)) return;
    const size_t n = std::max(a.size(), b.size());
    for (size_t i = n; i-- > 0;) {
      const int64_t x = i < n - a.size() ? 1 : a[i - (n - a.size())];
      const int64_t y = i < n - b.size() ? 1 : b[i - (n - b.size())];
      if (x != y && x != 1 && y != 1)
        detail::fail(ErrorKind::Runtime, "The size of tensor a (", x,
                     ") must match the size of tensor b (", y, ") at non-singleton dimension ", i);
    }
  }
  [[noreturn]] static void fail_inner(const Tensor& a, bool ta, const Tensor& b, bool tb,
                                      const Dims& batch) {
    const int64_t n = product(batch);
    if (b.dim() == 2) {
      const int64_t rows = a.numel() / std::max<int64_t>(op_cols(a, ta), 1);
      fail_product_shape(rows, op_cols(a, ta), op_rows(b, tb), op_cols(b, tb));
    }
    const int64_t want[2] = {n, op_cols(a, ta)}, got[2] = {n, op_rows(b, tb)};
    detail::fail(ErrorKind::Runtime,
                 "Expected size for first two dimensions of batch2 tensor to be: ", to_string(want),
                 " but got: ", to_string(got), ".");
  }
};

struct Mm {
  static constexpr OpSpec spec{"mm",
                               "input, mat2",
                               kFunctional | kOut | kContraction | kAutocastLow | kExactOut,
                               "Product of two matrices (n, m) and (m, p).",
                               "T(3, 4), T(4, 2); T(1, 3), T(3, 1)",
                               "input @ mat2"};
  static Tensor forward(const Tensor& a, const Tensor& b) {
    COGRAD_CHECK(a.dim() == 2, "self must be a matrix");
    COGRAD_CHECK(b.dim() == 2, "mat2 must be a matrix");
    return apply<MmOp>(a, b, false, false);
  }
};
COGRAD_OP(Mm)

struct Bmm {
  static constexpr OpSpec spec{"bmm",
                               "input, mat2",
                               kFunctional | kOut | kContraction | kAutocastLow | kExactOut,
                               "Batch of matrix products (b, n, m) and (b, m, p).",
                               "T(2, 3, 4), T(2, 4, 2)",
                               "input @ mat2"};
  static Tensor forward(const Tensor& a, const Tensor& b) {
    check_bmm(a, b);
    return apply<MatmulOp>(a, b, false, false);
  }
};
COGRAD_OP(Bmm)

struct Matmul {
  static constexpr OpSpec spec{
      "matmul",
      "input, other",
      kFunctional | kOut | kContraction | kAutocastLow | kExactOut,
      "Matrix product of vectors, matrices or batches of matrices, whose batch dims broadcast.",
      "T(3, 4), T(4, 2); T(4), T(4); T(3, 4), T(4); T(4), T(4, 2); T(2, 3, 4), T(4, 5); "
      "T(5, 2, 3, 4), T(2, 4, 3); T(2, 1, 3, 4), T(3, 4, 2); T(2, 3, 4), T(4); T(3), T(2, 3, 4); "
      "T(3, 4), T(2, 4, 5)",
      "input @ other"};
  static Tensor forward(const Tensor& a, const Tensor& b) {
    if (a.dim() == 2 && b.dim() == 2) [[likely]]
      return apply<MmOp>(a, b, false, false);
    return general(a, b);
  }

 private:
  static Tensor general(const Tensor& a, const Tensor& b) {
    const int na = a.dim(), nb = b.dim();
    COGRAD_CHECK(na > 0 && nb > 0, "both arguments to matmul need to be at least 1D, but they are ",
                 na, "D and ", nb, "D");
    if (na >= 2 && nb >= 2) return apply<MatmulOp>(a, b, false, false);
    check_product(a, b);
    if (na == 1 && nb == 1) return dot(a, b);
    if (na == 2) {
      if (a.size(1) != b.size(0)) fail_mv(a, b);
      return mv_t(a, b, false);
    }
    if (nb == 2) {
      if (a.size(0) != b.size(0)) fail_product_shape(1, a.size(0), b.size(0), b.size(1));
      return mv_t(b, a, true);
    }
    if (nb == 1) return without_dim(apply<MatmulOp>(a, unsqueeze(b, 1), false, false), -1);
    return without_dim(apply<MatmulOp>(unsqueeze(a, 0), b, false, false), -2);
  }
};
COGRAD_OP(Matmul)

}  // namespace

void check_bmm(const Tensor& a, const Tensor& b) {
  COGRAD_CHECK(a.dim() == 3, "batch1 must be a 3D tensor");
  COGRAD_CHECK(b.dim() == 3, "batch2 must be a 3D tensor");
  COGRAD_CHECK(a.dtype() == b.dtype(), "expected scalar type ", scalar_type_name(a.dtype()),
               " but found ", scalar_type_name(b.dtype()));
  const int64_t want[2] = {a.size(0), a.size(2)}, got[2] = {b.size(0), b.size(1)};
  COGRAD_CHECK(same(want, got),
               "Expected size for first two dimensions of batch2 tensor to be: ", to_string(want),
               " but got: ", to_string(got), ".");
}

Tensor mm(const Tensor& a, const Tensor& b) { return apply<Mm>(a, b); }
Tensor bmm(const Tensor& a, const Tensor& b) { return apply<Bmm>(a, b); }
Tensor matmul(const Tensor& a, const Tensor& b) { return apply<Matmul>(a, b); }
Tensor matmul_t(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  if (a.dim() == 2 && b.dim() == 2) return apply<MmOp>(a, b, transpose_a, transpose_b);
  return apply<MatmulOp>(a, b, transpose_a, transpose_b);
}

}  // namespace cograd
