// SPDX-License-Identifier: BSD-3-Clause
// Variance, standard deviation and vector norms over any dims.
#include <cmath>

#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"
#include "tensor/warn.h"

namespace cograd {

namespace {

void check_floating(const char* who, const char* verb, const Tensor& x) {
  COGRAD_CHECK(is_floating(x.dtype()), who, " only ", verb,
               " floating point and complex dtypes, got ", scalar_type_name(x.dtype()));
}

// a / b, and 0 with zero derivatives where b is 0.
Tensor ratio_or_zero(const Tensor& a, const Tensor& b) {
  const Tensor none = eq(b, 0);
  return where(none, 0.0, a / where(none, 1.0, b));
}

struct Moments : ReduceState {
  double divisor = 1;  // n - correction, not below 0
  double count = 1;
};

template <class Op>
std::tuple<Tensor, Tensor> run_var(Ctx<Op>& ctx, const Tensor& x,
                                   const std::optional<IntList>& dims,
                                   std::optional<Scalar> correction, bool keepdim, bool take_sqrt,
                                   bool with_mean) {
  const DimMask mask = dim_mask(x, dims);
  const ReducePlan plan(x, mask, keepdim);
  const double c = correction ? correction->to_double() : 1.0;
  if (static_cast<double>(plan.count) - c <= 0)
    warn(std::string(Op::spec.name) +
         "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
         "factor (input numel divided by output numel).");
  if (ctx.recording()) {
    ctx->sizes = Dims(x.sizes());
    ctx->mask = mask;
    ctx->count = static_cast<double>(plan.count);
    ctx->divisor = std::max(ctx->count - c, 0.0);
    ctx.save(x);
  }
  Tensor spread = empty(plan.shape, x.dtype());
  Tensor mean = with_mean ? empty(plan.shape, x.dtype()) : Tensor();
  kernels::reduce_var(x.dtype(), x.bytes(), plan.geometry(), c, take_sqrt, x.dtype(),
                      spread.bytes(), with_mean ? mean.bytes() : nullptr);
  if (take_sqrt) ctx.save_output(spread);
  return {spread, mean};
}

// d var / dx = 2 (x - mean) / (n - correction)
Tensor var_gradient(const Tensor& g, const Tensor& x, const Moments& m) {
  const Dims dims = mask_dims(m.mask);
  const Tensor center = m.mask == 0 ? x : mean(x, dims, true);
  return expand_reduced(g, m.sizes, m.mask) * ((x - center) * (2.0 / m.divisor));
}
// d std = d var / (2 std), taken as 0 where the spread is 0.
Tensor std_gradient(const Tensor& g, const Tensor& x, const Tensor& y, const Moments& m) {
  return var_gradient(ratio_or_zero(g, y) * 0.5, x, m);
}
Tensor mean_gradient(const Tensor& g, const Moments& m) {
  return expand_reduced(g / m.count, m.sizes, m.mask);
}

struct VarOp {
  static constexpr OpSpec spec{"var", "input, dim, correction, keepdim", kInternal, "",
                               "none: var"};
  static constexpr int kSaved = 1;
  using State = Moments;
  static Tensor forward(Ctx<VarOp>& ctx, const Tensor& x, std::optional<IntList> dims,
                        std::optional<Scalar> correction, bool keepdim) {
    check_floating("std and var", "support", x);
    return std::get<0>(run_var(ctx, x, dims, correction, keepdim, false, false));
  }
  static Tensor backward(Ctx<VarOp>& ctx, const Tensor& g) {
    return var_gradient(g, ctx.saved(0), *ctx.operator->());
  }
};

struct StdOp {
  static constexpr OpSpec spec{"std", "input, dim, correction, keepdim", kInternal, "",
                               "none: std"};
  static constexpr int kSaved = 2;
  using State = Moments;
  static Tensor forward(Ctx<StdOp>& ctx, const Tensor& x, std::optional<IntList> dims,
                        std::optional<Scalar> correction, bool keepdim) {
    check_floating("std and var", "support", x);
    return std::get<0>(run_var(ctx, x, dims, correction, keepdim, true, false));
  }
  static Tensor backward(Ctx<StdOp>& ctx, const Tensor& g) {
    return std_gradient(g, ctx.saved(0), ctx.saved(1), *ctx.operator->());
  }
};

struct VarMeanOp {
  static constexpr OpSpec spec{"var_mean", "input, dim, correction, keepdim", kInternal, "",
                               "none: var_mean"};
  static constexpr int kSaved = 1;
  using State = Moments;
  static std::tuple<Tensor, Tensor> forward(Ctx<VarMeanOp>& ctx, const Tensor& x,
                                            std::optional<IntList> dims,
                                            std::optional<Scalar> correction, bool keepdim) {
    check_floating("var_mean", "support", x);
    return run_var(ctx, x, dims, correction, keepdim, false, true);
  }
  static void backward(Ctx<VarMeanOp>& ctx, std::span<Tensor> gs) {
    const Moments& m = *ctx.operator->();
    Tensor gx;
    if (gs[0].defined()) gx = var_gradient(gs[0], ctx.saved(0), m);
    if (gs[1].defined()) gx = gx.defined() ? gx + mean_gradient(gs[1], m) : mean_gradient(gs[1], m);
    ctx.grad(0) = gx;
  }
};

struct StdMeanOp {
  static constexpr OpSpec spec{"std_mean", "input, dim, correction, keepdim", kInternal, "",
                               "none: std_mean"};
  static constexpr int kSaved = 2;
  using State = Moments;
  static std::tuple<Tensor, Tensor> forward(Ctx<StdMeanOp>& ctx, const Tensor& x,
                                            std::optional<IntList> dims,
                                            std::optional<Scalar> correction, bool keepdim) {
    check_floating("std_mean", "support", x);
    return run_var(ctx, x, dims, correction, keepdim, true, true);
  }
  static void backward(Ctx<StdMeanOp>& ctx, std::span<Tensor> gs) {
    const Moments& m = *ctx.operator->();
    Tensor gx;
    if (gs[0].defined()) gx = std_gradient(gs[0], ctx.saved(0), ctx.saved(1), m);
    if (gs[1].defined()) gx = gx.defined() ? gx + mean_gradient(gs[1], m) : mean_gradient(gs[1], m);
    ctx.grad(0) = gx;
  }
};

std::optional<Scalar> correction_of(bool unbiased) { return Scalar(unbiased ? 1 : 0); }

// Three spellings of each: f(dim, unbiased, keepdim), f(unbiased) and f(dim, *, correction,
// keepdim), tried in this order.
#define COGRAD_SPREAD(Prefix, name, Result, what, numpy, returned)                                \
  struct Prefix##Dim {                                                                            \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, dim, unbiased=True, keepdim=False",                      \
                                 kFunctional,                                                     \
                                 what " over dim.",                                               \
                                 "T(3, 4), 1; T(2, 3, 4), (0, 2), False, True",                   \
                                 numpy("dim", "unbiased", "keepdim"),                             \
                                 returned};                                                       \
    static Result forward(const Tensor& x, std::optional<IntList> dims, bool unbiased,            \
                          bool keepdim) {                                                         \
      return apply<Prefix##Op>(x, dims, correction_of(unbiased), keepdim);                        \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix##Dim)                                                                          \
  struct Prefix##Unbiased {                                                                       \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, unbiased",                                               \
                                 kFunctional,                                                     \
                                 what " of all elements.",                                        \
                                 "T(3, 4), False; T(3, 4), True",                                 \
                                 numpy("None", "unbiased", "False"),                              \
                                 returned};                                                       \
    static Result forward(const Tensor& x, bool unbiased) {                                       \
      return apply<Prefix##Op>(x, std::optional<IntList>(), correction_of(unbiased), false);      \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix##Unbiased)                                                                     \
  struct Prefix {                                                                                 \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, dim=None, *, correction=1, keepdim=False",               \
                                 kFunctional | kOut,                                              \
                                 what " over dim, the sum of squares divided by n - correction.", \
                                 "T(3, 4); T(3, 4), 1, correction=0; "                            \
                                 "T(2, 3, 4), (0, 2), correction=2, keepdim=True",                \
                                 numpy("dim", "correction", "keepdim"),                           \
                                 returned};                                                       \
    static Result forward(const Tensor& x, std::optional<IntList> dims,                           \
                          std::optional<Scalar> correction, bool keepdim) {                       \
      return apply<Prefix##Op>(x, dims, correction, keepdim);                                     \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix)
#define VAR_REF(dim, ddof, keep) "np.var(input, axis=" dim ", ddof=" ddof ", keepdims=" keep ")"
#define STD_REF(dim, ddof, keep) "np.std(input, axis=" dim ", ddof=" ddof ", keepdims=" keep ")"
#define NO_REF(dim, ddof, keep) ""
using Pair = std::tuple<Tensor, Tensor>;
COGRAD_SPREAD(Var, "var", Tensor, "Variance", VAR_REF, "")
COGRAD_SPREAD(Std, "std", Tensor, "Standard deviation", STD_REF, "")
COGRAD_SPREAD(VarMean, "var_mean", Pair, "Variance and mean", NO_REF, "")
COGRAD_SPREAD(StdMean, "std_mean", Pair, "Standard deviation and mean", NO_REF, "")
#undef COGRAD_SPREAD

// A norm without identity (inf, negative) needs elements.
void check_norm_input(const Tensor& x, double p, DimMask mask, bool dims_given) {
  COGRAD_CHECK(is_floating(x.dtype()),
               "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
               scalar_type_name(x.dtype()));
  if (x.numel() > 0 || (p >= 0 && !std::isinf(p))) return;
  const ReducePlan plan(x, mask, false);
  if (plan.count > 0) return;
  if (!dims_given)
    detail::fail(ErrorKind::Runtime, "linalg.vector_norm cannot compute the ", p,
                 " norm on an empty tensor because the operation does not have an identity");
  for (int i = 0; i < x.dim(); ++i)
    COGRAD_CHECK((mask >> i & 1) == 0 || x.size(i) > 0, "linalg.vector_norm cannot compute the ", p,
                 " norm on the dimension ", i,
                 " because this dimension is empty and the operation does not have an identity");
}

struct VectorNorm {
  static constexpr OpSpec spec{"linalg_vector_norm",
                               "input, ord=2.0, dim=None, keepdim=False, *, dtype=None", kInternal,
                               "(sum |input|^ord)^(1/ord) over dim; ord may be 0, inf and -inf.",
                               "none: tested through norm"};
  static constexpr int kSaved = 2;
  static constexpr const char* kNodeName = "LinalgVectorNormBackward0";
  struct State : ReduceState {
    double p = 2;
  };
  static Tensor forward(Ctx<VectorNorm>& ctx, const Tensor& input, double p,
                        std::optional<IntList> dims, bool keepdim, std::optional<DType> dtype) {
    const DimMask mask = dim_mask(input, dims);
    check_norm_input(input, p, mask, dims && !dims->empty());
    if (dtype) check_dtype(input, *dtype);
    if (ctx.recording()) {
      ctx->sizes = Dims(input.sizes());
      ctx->mask = mask;
      ctx->p = p;
      ctx.save(input);
    }
    const Tensor x = raw_cast(input, dtype.value_or(input.dtype()));
    const ReducePlan plan(x, mask, keepdim);
    Tensor y = empty(plan.shape, x.dtype());
    kernels::reduce_norm(p, x.dtype(), x.bytes(), plan.geometry(), y.dtype(), y.bytes());
    ctx.save_output(y);
    return y;
  }
  // d y / dx = sign(x) (|x| / y)^(p - 1), a subgradient 0 where y is 0.
  static Tensor backward(Ctx<VectorNorm>& ctx, const Tensor& g) {
    const double p = ctx->p;
    if (p == 0) return Tensor();
    const Tensor x = cast(ctx.saved(0), g.dtype());
    const Tensor whole = expand_reduced(g, ctx->sizes, ctx->mask);
    if (p == 1) return whole * sign(x);
    const Tensor y = ctx.saved(1);
    if (std::isinf(p)) return split_among_ties(g, abs(x), y, ctx->mask) * sign(x);
    const Tensor norm = expand_reduced(y, ctx->sizes, ctx->mask);
    if (p == 2) return x * ratio_or_zero(whole, norm);
    const Tensor scale = ratio_or_zero(whole, pow(norm, p - 1));
    if (p > 2) return x * pow(abs(x), p - 2) * scale;
    const Tensor power = where(eq(x, 0), 0.0, pow(abs(x), p - 1));
    return sign(x) * power * scale;
  }

 private:
  static void check_dtype(const Tensor& x, DType t) {
    COGRAD_CHECK(is_floating(t),
                 "linalg.vector_norm: dtype should be floating point or complex, "
                 "but got ",
                 scalar_type_name(t));
    COGRAD_CHECK(promote_types(x.dtype(), t) == t, "linalg.vector_norm: the dtype of the input (",
                 scalar_type_name(x.dtype()),
                 ") should be convertible without narrowing to the specified dtype (",
                 scalar_type_name(t), ")");
  }
};
COGRAD_OP(VectorNorm)

struct NormNamed {
  static constexpr OpSpec spec{"norm",
                               "input, p='fro', dim=None, keepdim=False, *, dtype=None",
                               kFunctional,
                               "Euclidean (Frobenius) norm over dim.",
                               "T(3, 4); T(3, 4), 'fro', 1; T(2, 3, 4), 'fro', (0, 2), True",
                               "np.sqrt(np.sum(input**2, axis=dim, keepdims=keepdim))"};
  static Tensor forward(const Tensor& x, std::optional<std::string_view> p,
                        std::optional<IntList> dims, bool keepdim, std::optional<DType> dtype) {
    COGRAD_CHECK_NOT_IMPLEMENTED(!p || *p != "nuc", "norm(): p='nuc' is not supported");
    COGRAD_CHECK(!p || *p == "fro", "linalg.matrix_norm: Order ", p.value_or(""),
                 " not supported.");
    return apply<VectorNorm>(x, 2.0, dims, keepdim, dtype);
  }
};
COGRAD_OP(NormNamed)

struct Norm {
  static constexpr OpSpec spec{"norm",
                               "input, p, dim=None, keepdim=False, *, dtype=None",
                               kFunctional,
                               "p-norm over dim of the elements as one vector.",
                               "T(3, 4), 2; T(3, 4), 1, 1; T(2, 3, 4), 3, (0, 2), True; P(4), 0.5",
                               "np.sum(np.abs(input)**p, axis=dim, keepdims=keepdim)**(1 / p)"};
  static Tensor forward(const Tensor& x, double p, std::optional<IntList> dims, bool keepdim,
                        std::optional<DType> dtype) {
    return apply<VectorNorm>(x, p, dims, keepdim, dtype);
  }
};
COGRAD_OP(Norm)

struct Dist {
  static constexpr OpSpec spec{"dist",
                               "input, other, p=2.0",
                               kFunctional,
                               "p-norm of input - other.",
                               "T(3, 4), T(3, 4); T(4), T(3, 4), 3.0",
                               "np.sum(np.abs(input - other)**p)**(1 / p)"};
  static Tensor forward(const Tensor& a, const Tensor& b, double p) {
    return apply<VectorNorm>(a - b, p, std::optional<IntList>(), false, std::optional<DType>());
  }
};
COGRAD_OP(Dist)

struct Cdist {
  static constexpr OpSpec spec{
      "cdist",
      "x1, x2, p=2.0",
      kFunction,
      "p-norm distance between every row of x1 (..., P, M) and of x2 (..., R, M): (..., P, R).",
      "T(3, 4), T(2, 4); T(2, 3, 4), T(2, 5, 4), 3.0",
      "np.sum(np.abs(x1[..., :, None, :] - x2[..., None, :, :])**p, axis=-1)**(1 / p)"};
  static Tensor forward(const Tensor& a, const Tensor& b, double p) {
    COGRAD_CHECK(a.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", a.dim(), "D");
    COGRAD_CHECK(b.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", b.dim(), "D");
    COGRAD_CHECK(a.size(-1) == b.size(-1),
                 "X1 and X2 must have the same number of columns. X1: ", a.size(-1),
                 " X2: ", b.size(-1));
    COGRAD_CHECK(p >= 0, "cdist only supports non-negative p values");
    const Tensor difference = unsqueeze(a, -2) - unsqueeze(b, -3);
    const int64_t last = -1;
    return apply<VectorNorm>(difference, p, std::optional<IntList>(IntList(&last, 1)), false,
                             std::optional<DType>());
  }
};
COGRAD_OP(Cdist)

}  // namespace

Tensor vector_norm(const Tensor& x, double p, std::optional<IntList> dims, bool keepdim) {
  return apply<VectorNorm>(x, p, dims, keepdim, std::optional<DType>());
}

}  // namespace cograd
