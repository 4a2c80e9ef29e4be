// SPDX-License-Identifier: BSD-3-Clause
// Products with vectors (mv, dot, outer, inner) and products added to a tensor (addmm and others).
#include "ops/compute/scalars.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/linalg/matmul.h"

namespace cograd {

void fail_mv(const Tensor& a, const Tensor& x) {
  detail::fail(ErrorKind::Runtime, "size mismatch, got input (", a.size(0), "), mat (", a.size(0),
               "x", a.size(1), "), vec (", x.size(0), ")");
}

namespace {

struct MvOp {
  static constexpr OpSpec spec{"mv", "a, x, transposed", kInternal | kContraction | kExactOut, "",
                               "none: mv"};
  static constexpr int kSaved = 2;
  struct State {
    bool transposed = false;
  };
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static Tensor forward(Ctx<MvOp>& ctx, const Tensor& a, const Tensor& x, bool transposed) {
    ctx->transposed = transposed;
    if (ctx.recording()) ctx.save(ctx.needs(1) ? a : Tensor(), ctx.needs(0) ? x : Tensor());
    const MatrixOperand m(a, transposed);
    const int64_t size[1] = {m.rows};
    Tensor y = empty(size, a.dtype());
    kernels::gemv(a.dtype(), m.trans, m.trans ? m.cols : m.rows, m.trans ? m.rows : m.cols, 1,
                  m.data, m.ld, x.bytes(), x.stride(0), 0, y.bytes(), 1);
    return y;
  }
  static void batch(BatchCall& c) {
    const Tensor &a = c.arg(0).tensor(), &x = c.arg(1).tensor();
    const bool transposed = c.arg(2).truth();
    if (!c.batched(a)) return c.set_result(matmul_t(c.physical(x), a, false, !transposed));
    box(c.out(), squeeze(matmul_t(a, unsqueeze(x, -1), transposed, false), -1));
  }
  static void backward(Ctx<MvOp>& ctx, const Tensor& g) {
    const bool t = ctx->transposed;
    if (ctx.needs(0)) ctx.grad(0) = t ? outer(ctx.saved(1), g) : outer(g, ctx.saved(1));
    if (ctx.needs(1)) ctx.grad(1) = mv_t(ctx.saved(0), g, !t);
  }
};

struct OuterOp {
  static constexpr OpSpec spec{"outer", "x, y", kInternal | kContraction, "", "none: outer"};
  static constexpr int kSaved = 2;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static Tensor forward(Ctx<OuterOp>& ctx, const Tensor& x, const Tensor& y) {
    if (ctx.recording()) ctx.save(ctx.needs(1) ? x : Tensor(), ctx.needs(0) ? y : Tensor());
    const int64_t sizes[2] = {x.size(0), y.size(0)};
    Tensor out = empty(sizes, x.dtype());
    kernels::ger(x.dtype(), sizes[0], sizes[1], 1, x.bytes(), x.stride(0), y.bytes(), y.stride(0),
                 0, out.bytes(), std::max<int64_t>(sizes[1], 1));
    return out;
  }
  static void batch(BatchCall& c) {
    box(c.out(), unsqueeze(c.arg(0).tensor(), -1) * unsqueeze(c.arg(1).tensor(), -2));
  }
  static void backward(Ctx<OuterOp>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = mv_t(g, ctx.saved(1), false);
    if (ctx.needs(1)) ctx.grad(1) = mv_t(g, ctx.saved(0), true);
  }
};

struct Mv {
  static constexpr OpSpec spec{"mv",
                               "input, vec",
                               kFunctional | kOut | kContraction | kExactOut,
                               "Product of a matrix (n, m) and a vector (m).",
                               "T(3, 4), T(4)",
                               "input @ vec"};
  static Tensor forward(const Tensor& a, const Tensor& x) {
    COGRAD_CHECK(a.dim() == 2 && x.dim() == 1, "vector + matrix @ vector expected, got 1, ",
                 a.dim(), ", ", x.dim());
    COGRAD_CHECK(a.dtype() == x.dtype(), "mv(): input tensors must have the same dtype, but got ",
                 scalar_type_name(a.dtype()), " and ", scalar_type_name(x.dtype()));
    if (a.size(1) != x.size(0)) fail_mv(a, x);
    return mv_t(a, x, false);
  }
};
COGRAD_OP(Mv)

struct Dot {
  static constexpr OpSpec spec{"dot",
                               "input, tensor",
                               kFunctional | kOut | kContraction | kExactOut,
                               "Sum of the products of two vectors.",
                               "T(4), T(4)",
                               "np.dot(input, tensor)"};
  static constexpr int kSaved = 2;
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static Tensor forward(Ctx<Dot>& ctx, const Tensor& x, const Tensor& y) {
    COGRAD_CHECK(x.dim() == 1 && y.dim() == 1, "1D tensors expected, but got ", x.dim(), "D and ",
                 y.dim(), "D tensors");
    COGRAD_CHECK(x.dtype() == y.dtype(),
                 "dot : expected both vectors to have same dtype, but found ",
                 scalar_type_name(x.dtype()), " and ", scalar_type_name(y.dtype()));
    COGRAD_CHECK(x.numel() == y.numel(), "inconsistent tensor size, expected tensor ",
                 to_string(x.sizes()), " and src ", to_string(y.sizes()),
                 " to have the same number of elements, but got ", x.numel(), " and ", y.numel(),
                 " elements respectively");
    if (ctx.recording()) ctx.save(ctx.needs(1) ? x : Tensor(), ctx.needs(0) ? y : Tensor());
    Tensor out = empty({}, x.dtype());
    kernels::dot(x.dtype(), x.numel(), x.bytes(), x.stride(0), y.bytes(), y.stride(0), out.bytes());
    return out;
  }
  static void batch(BatchCall& c) { box(c.out(), sum(c.arg(0).tensor() * c.arg(1).tensor())); }
  static void backward(Ctx<Dot>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = g * ctx.saved(1);
    if (ctx.needs(1)) ctx.grad(1) = g * ctx.saved(0);
  }
};
COGRAD_OP(Dot)

struct Vdot {
  static constexpr OpSpec spec{"vdot",
                               "input, other",
                               kFunctional | kOut | kContraction | kExactOut,
                               "dot of conj(input) and other.",
                               "T(4), T(4)",
                               "np.vdot(input, other)"};
  static Tensor forward(const Tensor& x, const Tensor& y) { return apply<Dot>(conj(x), y); }
};
COGRAD_OP(Vdot)

struct Outer {
  static constexpr OpSpec spec{"outer",
                               "input, vec2",
                               kFunctional | kOut | kContraction,
                               "Matrix of the products of two vectors' elements.",
                               "T(3), T(4)",
                               "np.outer(input, vec2)"};
  static Tensor forward(const Tensor& x, const Tensor& y) {
    COGRAD_CHECK(x.dim() == 1, "outer: Expected 1-D argument self, but got ", x.dim(), "-D");
    COGRAD_CHECK(y.dim() == 1, "outer: Expected 1-D argument vec2, but got ", y.dim(), "-D");
    const DType t = result_type(x, y);
    return outer(cast(x, t), cast(y, t));
  }
};
COGRAD_OP(Outer)

struct Inner {
  static constexpr OpSpec spec{"inner",
                               "input, other",
                               kFunctional | kOut | kContraction | kAutocastLow | kExactOut,
                               "Products summed over the last dims of both.",
                               "T(4), T(4); T(2, 3, 4), T(5, 4); T(), T(3)",
                               "np.inner(input, other)"};
  static Tensor forward(const Tensor& a, const Tensor& b) {
    if (a.dim() == 0 || b.dim() == 0) return a * b;
    COGRAD_CHECK(a.size(-1) == b.size(-1),
                 "inner() the last dimension must match on both input tensors but got shapes ",
                 to_string(a.sizes()), " and ", to_string(b.sizes()));
    if (a.dim() == 1 && b.dim() == 1) return dot(a, b);
    const int64_t k = a.size(-1);
    const int64_t fa[2] = {a.numel() / std::max<int64_t>(k, 1), k};
    const int64_t fb[2] = {b.numel() / std::max<int64_t>(k, 1), k};
    Dims sizes(a.sizes().first(static_cast<size_t>(a.dim()) - 1));
    sizes.append(b.sizes().begin(), b.sizes().end() - 1);
    return reshape(matmul_t(reshape(a, fa), reshape(b, fb), false, true), sizes);
  }
};
COGRAD_OP(Inner)

Tensor scaled(const Tensor& x, Scalar s) { return s.equals(1) ? x : mul(x, TensorOrScalar(s)); }

// Multiplies x by a factor that a double cannot represent, since products take double factors; then
// sets the factor to 1.
Tensor multiplied(const Tensor& x, Scalar& factor) {
  if (is_double(factor)) return x;
  const GradGuard no_grad(false);
  return mul(x, std::exchange(factor, Scalar(1)));
}

// Truncates the factors of integer products to integers; raises for complex factors of real ones.
void check_factors(const char* name, DType product, Scalar& beta, Scalar& alpha) {
  COGRAD_CHECK_NOT_IMPLEMENTED(product != DType::Bool, name, "(): not implemented for dtype Bool");
  COGRAD_CHECK(is_complex(product) || (!beta.is_complex() && !alpha.is_complex()), name,
               "(): expected real factors beta and alpha for tensors of dtype ",
               dtype_name(product));
  const DType t = wide_dtype(product);
  check_number(name, "beta", beta, t, OutOfRange::Raises);
  check_number(name, "alpha", alpha, t, OutOfRange::Raises);
  if (is_differentiable(product)) return;
  beta = Scalar(beta.to_int());
  alpha = Scalar(alpha.to_int());
}

// Only addr refuses fractional factors, as in torch.
void check_integer_factors(const char* name, DType product, Scalar& beta, Scalar& alpha) {
  if (!is_differentiable(product)) {
    COGRAD_CHECK(!beta.is_float(),
                 "For integral input tensors, argument beta must not be a floating point number.");
    COGRAD_CHECK(!alpha.is_float(),
                 "For integral input tensors, argument alpha must not be a floating point number.");
  }
  if (product != DType::Bool) check_factors(name, product, beta, alpha);
}

// Returns a new tensor with `input` broadcast to `sizes`, to which a product is added. beta = 0
// ignores the values, including NaN.
Tensor accumulator(const Tensor& input, IntList sizes, Scalar beta, DType product) {
  COGRAD_CHECK(input.dtype() == product, "self and mat2 must have the same dtype, but got ",
               scalar_type_name(input.dtype()), " and ", scalar_type_name(product));
  const size_t n = sizes.size(), own = static_cast<size_t>(input.dim());
  COGRAD_CHECK(own <= n, "expand(", scalar_type_name(input.dtype()), "{", to_string(input.sizes()),
               "}, size=", to_string(sizes), "): the number of sizes provided (", n,
               ") must be greater or equal to the number of dimensions in the tensor (", own, ")");
  for (size_t i = own; i-- > 0;) {
    const size_t at = n - own + i;
    COGRAD_CHECK(input.sizes()[i] == sizes[at] || input.sizes()[i] == 1,
                 "The expanded size of the tensor (", sizes[at], ") must match the existing size (",
                 input.sizes()[i], ") at non-singleton dimension ", at,
                 ".  Target sizes: ", to_string(sizes),
                 ".  Tensor sizes: ", to_string(input.sizes()));
  }
  Tensor out = empty(sizes, product);
  if (!beta.equals(0)) raw_copy(out, input);
  return out;
}

struct AddState {
  Scalar beta, alpha;
};

// Computes the gradients of beta C + alpha A B.
template <class Op>
void add_product_backward(Ctx<Op>& ctx, const Tensor& g) {
  if (ctx.needs(0)) ctx.grad(0) = scaled(g, ctx->beta);
  if (ctx.needs(1)) ctx.grad(1) = scaled(matmul_t(g, ctx.saved(1), false, true), ctx->alpha);
  if (ctx.needs(2)) ctx.grad(2) = scaled(matmul_t(ctx.saved(0), g, true, false), ctx->alpha);
}

// Returns the values of `y`, and zeros as the gradient of `unread`, whose values do not matter.
Tensor instead_of(const Tensor& unread, const Tensor& y) {
  return where(full({}, DType::Bool, true), y, unread);
}

// Returns alpha * product, which is zero for alpha = 0 even if the product is infinite or NaN.
Tensor term_of(const Tensor& product, Scalar alpha) {
  return alpha.equals(0) ? instead_of(product, zeros({}, product.dtype())) : scaled(product, alpha);
}

// Computes beta input + alpha a b with ops that have batching rules.
Tensor added_product(const char* name, const BatchCall& c) {
  Scalar beta = c.arg(3).scalar(), alpha = c.arg(4).scalar();
  check_factors(name, c.arg(1).tensor().dtype(), beta, alpha);
  const Tensor product = matmul_t(c.arg(1).tensor(), c.arg(2).tensor(), false, false);
  const Tensor y = term_of(product, alpha);
  return beta.equals(0) ? y : add(mul(c.arg(0).tensor(), beta), y);
}

struct Addmm {
  static constexpr OpSpec spec{
      "addmm",
      "input, mat1, mat2, *, beta=1, alpha=1",
      kFunctional | kInplace | kOut | kContraction | kAutocastLow | kExactOut,
      "beta * input + alpha * (mat1 @ mat2).",
      "T(3, 2), T(3, 4), T(4, 2); T(2), T(3, 4), T(4, 2), beta=0.5, alpha=2",
      "beta * input + alpha * (mat1 @ mat2)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static constexpr int kSaved = 2;
  using State = AddState;
  static Tensor forward(Ctx<Addmm>& ctx, const Tensor& input, const Tensor& a, const Tensor& b,
                        Scalar beta, Scalar alpha) {
    COGRAD_CHECK(a.dim() == 2, "mat1 must be a matrix, got ", a.dim(), "-D tensor");
    COGRAD_CHECK(b.dim() == 2, "mat2 must be a matrix, got ", b.dim(), "-D tensor");
    if (a.size(1) != b.size(0)) fail_product_shape(a.size(0), a.size(1), b.size(0), b.size(1));
    check_product(a, b);
    const int64_t sizes[2] = {a.size(0), b.size(1)};
    check_factors("addmm", a.dtype(), beta, alpha);
    if (ctx.recording()) {
      *ctx.operator->() = {beta, alpha};
      ctx.save(ctx.needs(2) ? a : Tensor(), ctx.needs(1) ? b : Tensor());
    }
    Tensor out = accumulator(multiplied(input, beta), sizes, beta, a.dtype());
    const Tensor left = multiplied(a, alpha);
    raw_mm(left, false, b, false, alpha.to_double(), beta.to_double(), out);
    return out;
  }
  static void batch(BatchCall& c) { box(c.out(), added_product("addmm", c)); }
  static void backward(Ctx<Addmm>& ctx, const Tensor& g) { add_product_backward(ctx, g); }
};
COGRAD_OP(Addmm)

struct Baddbmm {
  static constexpr OpSpec spec{
      "baddbmm",
      "input, batch1, batch2, *, beta=1, alpha=1",
      kFunctional | kInplace | kOut | kContraction | kAutocastLow | kExactOut,
      "beta * input + alpha * (batch1 @ batch2), for batches of matrices.",
      "T(2, 3, 2), T(2, 3, 4), T(2, 4, 2); T(3, 2), T(2, 3, 4), T(2, 4, 2), beta=0.5, alpha=2",
      "beta * input + alpha * (batch1 @ batch2)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static constexpr int kSaved = 2;
  using State = AddState;
  static Tensor forward(Ctx<Baddbmm>& ctx, const Tensor& input, const Tensor& a, const Tensor& b,
                        Scalar beta, Scalar alpha) {
    check_bmm(a, b);
    const int64_t sizes[3] = {a.size(0), a.size(1), b.size(2)};
    check_factors("baddbmm", a.dtype(), beta, alpha);
    if (ctx.recording()) {
      *ctx.operator->() = {beta, alpha};
      ctx.save(ctx.needs(2) ? a : Tensor(), ctx.needs(1) ? b : Tensor());
    }
    Tensor out = accumulator(multiplied(input, beta), sizes, beta, a.dtype());
    const Tensor left = multiplied(a, alpha);
    if (out.numel() > 0)
      raw_bmm(left, false, b, false, alpha.to_double(), beta.to_double(), out, {sizes, 1});
    return out;
  }
  static void batch(BatchCall& c) { box(c.out(), added_product("baddbmm", c)); }
  static void backward(Ctx<Baddbmm>& ctx, const Tensor& g) { add_product_backward(ctx, g); }
};
COGRAD_OP(Baddbmm)

// Returns beta * input + a term. beta = 0 ignores the values of input.
Tensor added(const Tensor& input, const Tensor& term, Scalar beta, DType t) {
  if (!beta.equals(0)) return cast(add(scaled(input, beta), term), t);
  return instead_of(cast(input, t), cast(term, t));
}

// Returns beta * input + times(product, alpha) for a product that is its own op.
Tensor add_product(const char* name, const Tensor& input, const Tensor& product, Scalar beta,
                   Scalar alpha, Tensor (*times)(const Tensor&, Scalar)) {
  Dims shape;
  COGRAD_CHECK(
      broadcast_shapes(input.sizes(), product.sizes(), shape) && same(shape, product.sizes()), name,
      "(): input of shape ", to_string(input.sizes()), " does not expand to the product's shape ",
      to_string(product.sizes()));
  const DType t = product.dtype();  // the dtype of the result
  if (t == DType::Bool) {
    const Tensor none = zeros(product.sizes(), t);
    const Tensor term = alpha.equals(0) ? none : product;
    return beta.equals(0) ? term : logical_or(input, term);
  }
  return added(input, times(product, alpha), beta, t);
}

// addr multiplies NaN and infinity by alpha = 0, as torch's does.
#define COGRAD_ADD_PRODUCT(Struct, name, check, times, x, y, types, flags, doc, samples, ref, \
                           expression)                                                        \
  struct Struct {                                                                             \
    static constexpr OpSpec spec{name,                                                        \
                                 "input, " #x ", " #y ", *, beta=1, alpha=1",                 \
                                 kFunctional | kInplace | kOut | kContraction | (flags),      \
                                 "beta * input + alpha * (" doc ").",                         \
                                 samples,                                                     \
                                 ref};                                                        \
    static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | (types);              \
    static Tensor forward(const Tensor& input, const Tensor& x, const Tensor& y, Scalar beta, \
                          Scalar alpha) {                                                     \
      check(name, x.dtype(), beta, alpha);                                                    \
      return add_product(name, input, expression, beta, alpha, times);                        \
    }                                                                                         \
  };                                                                                          \
  COGRAD_OP(Struct)
constexpr int64_t kFirst[1] = {0};
COGRAD_ADD_PRODUCT(Addmv, "addmv", check_factors, term_of, mat, vec, 0, kExactOut, "mat @ vec",
                   "T(3), T(3, 4), T(4); T(3), T(3, 4), T(4), beta=0.5, alpha=2",
                   "beta * input + alpha * (mat @ vec)", apply<Mv>(mat, vec))
COGRAD_ADD_PRODUCT(Addr, "addr", check_integer_factors, scaled, vec1, vec2, kBitTypes, 0,
                   "outer(vec1, vec2)", "T(3, 4), T(3), T(4); T(4), T(3), T(4), beta=0.5, alpha=2",
                   "beta * input + alpha * np.outer(vec1, vec2)", apply<Outer>(vec1, vec2))
COGRAD_ADD_PRODUCT(Addbmm, "addbmm", check_factors, term_of, batch1, batch2, 0,
                   kExactOut | kAutocastLow, "sum of batch1 @ batch2 over the batch",
                   "T(3, 2), T(2, 3, 4), T(2, 4, 2); T(2), T(2, 3, 4), T(2, 4, 2), beta=2, alpha=3",
                   "beta * input + alpha * np.sum(batch1 @ batch2, axis=0)",
                   cast(sum(bmm(batch1, batch2), IntList(kFirst)), batch1.dtype()))
#undef COGRAD_ADD_PRODUCT

}  // namespace

Tensor mv_t(const Tensor& a, const Tensor& x, bool transposed) {
  return apply<MvOp>(a, x, transposed);
}
Tensor dot(const Tensor& x, const Tensor& y) { return apply<Dot>(x, y); }
Tensor outer(const Tensor& x, const Tensor& y) { return apply<OuterOp>(x, y); }

}  // namespace cograd
