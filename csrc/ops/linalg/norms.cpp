// SPDX-License-Identifier: BSD-3-Clause
// Vector norms over any dims, and slices with limited norm.
#include <cmath>

#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

constexpr int64_t kLastDim[1] = {-1};

// True if the text is one of three letters, without a call.
constexpr bool is_text(std::string_view text, const char (&letters)[4]) {
  return text.size() == 3 && text[0] == letters[0] && text[1] == letters[1] &&
         text[2] == letters[2];
}

// Raises for a norm of no elements that has no identity (infinite or negative p).
void check_norm_input(const Tensor& x, double p, DimMask mask, bool dims_given) {
  COGRAD_CHECK(is_differentiable(x.dtype()),
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

// Raises unless the norm of x can be computed in dtype t.
void check_norm_dtype(const char* name, const Tensor& x, DType t) {
  COGRAD_CHECK(is_differentiable(t), name, ": dtype should be floating point or complex, but got ",
               scalar_type_name(t));
  const char* kind = is_complex(x.dtype()) ? "complex" : "real";
  COGRAD_CHECK(is_complex(x.dtype()) == is_complex(t), name, ": dtype should be ", kind, " for ",
               kind, " inputs, but got ", scalar_type_name(t));
  COGRAD_CHECK(promote_types(x.dtype(), t) == t, name, ": the dtype of the input (",
               scalar_type_name(x.dtype()),
               ") should be convertible without narrowing to the specified dtype (",
               scalar_type_name(t), ")");
}

struct RealNorm {
  static constexpr OpSpec spec{"linalg_vector_norm", "input, ord, dim, keepdim, dtype",
                               kInternal | kReduction, "", "none: linalg_vector_norm"};
  static constexpr int kSaved = 2;
  static constexpr const char* kNodeName = "LinalgVectorNormBackward0";
  struct State : ReduceState {
    double p = 2;
  };
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<RealNorm>& ctx, const Tensor& input, double p,
                        std::optional<DimList> dims, bool keepdim, std::optional<DType> dtype) {
    const DimMask mask = dim_mask(input, dims);
    check_norm_input(input, p, mask, dims && !dims->empty());
    if (dtype) check_norm_dtype("linalg.vector_norm", input, *dtype);
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
  // d y / dx = sign(x) (|x| / y)^(p - 1), with subgradient 0 where y is 0.
  static Tensor backward(Ctx<RealNorm>& ctx, const Tensor& g) {
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
};

// A Euclidean norm is that of all real and imaginary parts; other norms use absolute values.
Tensor complex_norm(const Tensor& x, double p, std::optional<DimList> dims, bool keepdim) {
  if (p != 2 || x.dim() == 0)
    return apply<RealNorm>(abs(x), p, dims, keepdim, std::optional<DType>());
  Dims over;
  const bool some = dims && !dims->empty();
  if (some) {
    for (const int64_t d : *dims) over.push_back(wrap_dim(d, x.dim()));
    over.push_back(x.dim());
  }
  const std::optional<DimList> all_parts = some ? std::optional(DimList(over)) : std::nullopt;
  const Tensor y =
      apply<RealNorm>(parts_of_complex(x), p, all_parts, keepdim, std::optional<DType>());
  return keepdim ? squeeze(y, -1) : y;
}

Tensor vector_norm(const Tensor& x, double p, std::optional<DimList> dims, bool keepdim,
                   std::optional<DType> dtype) {
  if (!is_complex(x.dtype())) return apply<RealNorm>(x, p, dims, keepdim, dtype);
  if (dtype) check_norm_dtype("linalg.vector_norm", x, *dtype);
  return complex_norm(dtype ? cast(x, *dtype) : x, p, dims, keepdim);
}

struct VectorNorm {
  static constexpr OpSpec spec{
      "linalg_vector_norm", "input, ord=2.0, dim=None, keepdim=False, *, dtype=None",
      kInternal | kReduction, "(sum |input|^ord)^(1/ord) over dim; ord may be 0, inf and -inf.",
      "none: tested through norm"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(const Tensor& x, double p, std::optional<DimList> dims, bool keepdim,
                        std::optional<DType> dtype) {
    return vector_norm(x, p, dims, keepdim, dtype);
  }
};
COGRAD_OP(VectorNorm)

// Returns the sum of the singular values over two dims, by default the dims of a single matrix.
Tensor nuclear_norm(const Tensor& input, const std::optional<IntList>& dims, bool keepdim,
                    std::optional<DType> dtype) {
  if (dtype) check_norm_dtype("linalg.matrix_norm", input, *dtype);
  const Tensor x = dtype ? cast(input, *dtype) : input;
  COGRAD_CHECK(x.dim() >= 2,
               "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.");
  const size_t n = dims ? dims->size() : static_cast<size_t>(x.dim());
  COGRAD_CHECK(n == 2, "linalg.matrix_norm: dim must be a 2-tuple. Got ",
               dims ? to_string(*dims) : detail::concat("None for ", n, " dimensions"));
  const int rows = dims ? wrap_dim((*dims)[0], x.dim()) : 0;
  const int cols = dims ? wrap_dim((*dims)[1], x.dim()) : 1;
  COGRAD_CHECK(rows != cols, "linalg.matrix_norm: dims must be different. Got ", rows, " twice");
  Dims order;
  for (int d = 0; d < x.dim(); ++d)
    if (d != rows && d != cols) order.push_back(d);
  order.push_back(rows);
  order.push_back(cols);
  Tensor y = sum(singular_values(permute(x, order)), IntList(kLastDim));
  if (!keepdim) return y;
  y = unsqueeze(y, std::min(rows, cols));
  return unsqueeze(y, std::max(rows, cols));
}

struct NormNamed {
  static constexpr OpSpec spec{
      "norm",
      "input, p='fro', dim=None, keepdim=False, *, dtype=None",
      kFunctional | kOut | kExactOut | kReduction,
      "Euclidean (Frobenius) norm over dim; 'nuc': sum of a matrix's singular values.",
      "T(3, 4); T(3, 4), 'fro', 1; T(2, 3, 4), 'fro', (0, 2), True",
      "np.sqrt(np.sum(np.abs(input)**2, axis=dim, keepdims=keepdim))"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(const Tensor& x, std::optional<std::string_view> p,
                        std::optional<DimList> dims, bool keepdim, std::optional<DType> dtype) {
    if (p && is_text(*p, "nuc")) return nuclear_norm(x, dims, keepdim, dtype);
    COGRAD_CHECK(!p || is_text(*p, "fro"), "linalg.matrix_norm: Order ", p.value_or(""),
                 " not supported.");
    return vector_norm(x, 2.0, dims, keepdim, dtype);
  }
};
COGRAD_OP(NormNamed)

struct Norm {
  static constexpr OpSpec spec{"norm",
                               "input, p, dim=None, keepdim=False, *, dtype=None",
                               kFunctional | kOut | kExactOut | kReduction,
                               "p-norm over dim of the elements as one vector.",
                               "T(3, 4), 2; T(3, 4), 1, 1; T(2, 3, 4), 3, (0, 2), True; P(4), 0.5",
                               "np.sum(np.abs(input)**p, axis=dim, keepdims=keepdim)**(1 / p)"};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(const Tensor& x, double p, std::optional<DimList> dims, bool keepdim,
                        std::optional<DType> dtype) {
    return vector_norm(x, p, dims, keepdim, dtype);
  }
};
COGRAD_OP(Norm)

struct Renorm {
  static constexpr OpSpec spec{
      "renorm",
      "input, p, dim, maxnorm",
      kForms | kOther | kExactOut,
      "The input with each slice input.select(dim, i) scaled down to a p-norm of at most maxnorm.",
      "T(3, 4), 2, 0, 0.5; T(2, 3, 4), 1, -1, 0.7; T(3, 4), inf, 1, 0.5",
      ""};
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static constexpr bool kCopiesTarget = true;
  static Tensor forward(const Tensor& x, double p, Dim dim, double maxnorm) {
    COGRAD_CHECK(p > 0, "renorm: non-positive-norm not supported");
    COGRAD_CHECK(maxnorm >= 0, "renorm: expected maxnorm to be >= 0 but got ", maxnorm);
    COGRAD_CHECK(x.dim() > 1, "renorm: input needs at least 2 dimensions, got ", x.dim(),
                 " dimensions");
    const int kept = wrap_dim(dim, x.dim());
    Dims over;
    for (int d = 0; d < x.dim(); ++d)
      if (d != kept) over.push_back(d);
    const Tensor norm = vector_norm(x, p, IntList(over), true);
    return x * where(gt(norm, maxnorm), div(maxnorm, norm + 1e-7), 1.0);
  }
};
COGRAD_OP(Renorm)

}  // namespace

Tensor vector_norm(const Tensor& x, double p, std::optional<IntList> dims, bool keepdim) {
  return apply<VectorNorm>(x, p, dims, keepdim, std::optional<DType>());
}

}  // namespace cograd
