// SPDX-License-Identifier: BSD-3-Clause
// quantile and nanquantile, differentiable with respect to the fractions too.
#include "kernels/index/sort.h"
#include "ops/compute/host_values.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/elementwise/rows.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

using kernels::Interpolation;

Interpolation interpolation_of(std::string_view s) {
  constexpr std::string_view kNames[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  for (int i = 0; i < 5; ++i)
    if (s == kNames[i]) return static_cast<Interpolation>(i);
  detail::fail(ErrorKind::Runtime,
               "quantile() interpolation must be one of linear, lower, higher, midpoint or "
               "nearest, but got ",
               s);
}

struct Positions {
  Tensor low, high;  // indices into the rows, [outer, q, inner]
  Tensor weight;     // the weight of `high`, in x's dtype
  Tensor steps;      // [outer, 1, inner]: d (rank) / d q
};

Positions quantile_positions(const Tensor& x, int dim, std::span<const double> q,
                             Interpolation mode, bool ignore_nan) {
  const Axis a = axis_of(x.sizes(), dim);
  Dims sizes(x.sizes());
  sizes[static_cast<size_t>(dim)] = static_cast<int64_t>(q.size());
  const Tensor in = raw_contiguous(x);
  const Tensor order = empty(x.sizes(), DType::Int64);
  kernels::sort(x.dtype(), in.bytes(), nullptr, order.data<int64_t>(), a.outer, a.n, a.inner,
                false);
  Dims one(sizes);
  one[static_cast<size_t>(dim)] = 1;
  Positions p{empty(sizes, DType::Int64), empty(sizes, DType::Int64), empty(sizes, x.dtype()),
              empty(one, x.dtype())};
  kernels::quantile_positions(
      x.dtype(), in.bytes(), order.data<int64_t>(), a.outer, a.n, a.inner,
      {q.data(), std::ssize(q), mode, ignore_nan},
      {p.low.data<int64_t>(), p.high.data<int64_t>(), p.weight.bytes(), p.steps.bytes()});
  return p;
}

// The weights as a function of q: the rank is q (n - 1) in a row of n elements.
struct QuantileWeight {
  static constexpr OpSpec spec{"_quantile_weight", "q, weight, steps, dim", kInternal | kSorting,
                               "Weights of a quantile's upper elements.", "none: quantile"};
  static constexpr int kSaved = 1;
  struct State {
    int dim;
    Dims q_sizes;
  };
  static Tensor forward(Ctx<QuantileWeight>& ctx, const Tensor& q, const Tensor& weight,
                        const Tensor& steps, Dim dim) {
    ctx->dim = static_cast<int>(dim);
    if (ctx.recording()) ctx->q_sizes = Dims(q.sizes());
    ctx.save(steps);
    return weight;
  }
  static void backward(Ctx<QuantileWeight>& ctx, const Tensor& g) {
    if (!ctx.needs(0)) return;
    const DimMask others = all_dims(g.dim()) & ~(DimMask{1} << ctx->dim);
    const Tensor steps = ctx.saved(0);
    const Tensor slope = where(eq(steps, 0), 0.0, g * steps);  // g is NaN in rows that contain NaN
    ctx.grad(0) = reshape(sum_mask(slope, others, false), ctx->q_sizes);
  }
};

// Drops the dim for a scalar q (or keeps it as 1); for a 1-d q the quantiles become the first dim.
Tensor quantile_of(const Tensor& input, std::span<const double> q, bool q_scalar,
                   const Tensor& q_tensor, std::optional<int64_t> dim, bool keepdim,
                   std::string_view interpolation, bool ignore_nan) {
  const char* name = ignore_nan ? "nanquantile" : "quantile";
  COGRAD_CHECK(input.numel() > 0, name, "() input tensor must be non-empty");
  COGRAD_CHECK(input.dtype() == DType::Float32 || input.dtype() == DType::Float64, name,
               "() input tensor must be either float or double dtype");
  for (double v : q)
    COGRAD_CHECK(v >= 0 && v <= 1, name, "() q must be in the range [0, 1] but got ", v);
  const Interpolation mode = interpolation_of(interpolation);
  const int d = dim ? wrap_dim(*dim, input.dim()) : 0;
  const int64_t flat = -1;
  const Tensor x = !dim || input.dim() == 0 ? reshape(input, {&flat, 1}) : input;
  const Positions p = quantile_positions(x, d, q, mode, ignore_nan);
  Tensor y = take_along(x, d, p.low);
  const Tensor weight =
      q_tensor.defined() && mode == Interpolation::Linear
          ? apply<QuantileWeight>(q_tensor, p.weight, p.steps, static_cast<int64_t>(d))
          : p.weight;
  if (mode == Interpolation::Linear || mode == Interpolation::Midpoint) {
    const Tensor above = take_along(x, d, p.high);
    y = CallForm().run<rows::Row_lerp>(TensorOrScalar(y), TensorOrScalar(above),
                                       TensorOrScalar(weight));
  }
  y = movedim(y, d, 0);
  Dims shape;
  if (!q_scalar) shape.push_back(static_cast<int64_t>(q.size()));
  for (int i = 0; i < input.dim(); ++i) {
    const bool reduced = !dim || i == d;
    if (!reduced)
      shape.push_back(input.size(i));
    else if (keepdim)
      shape.push_back(1);
  }
  return unsafe_view(y, shape);
}

std::vector<double> quantile_fractions(const Tensor& q, const Tensor& x) {
  COGRAD_CHECK(q.dim() <= 1, "quantile() q must be a scalar or 1D tensor");
  COGRAD_CHECK(q.dtype() == x.dtype(),
               "quantile() q tensor must be same dtype as the input tensor");
  return host_values_or<double>(raw_contiguous(raw_cast(q, DType::Float64)), 0);
}

// Calls run(x, dim, keepdim) for the whole batch of x; the result has `q_dims` leading quantile
// dims.
// dims.
template <class F>
void quantile_of_samples(BatchCall& c, int q_dims, const F& run) {
  const Tensor& x = c.arg(0).tensor();
  const bool keepdim = c.arg(3).truth(), whole = c.arg(2).none() || x.dim() == 0;
  Tensor each = c.physical(x);
  if (whole) each = reshape(each, Dims{c.size(), x.numel()});
  const int64_t dim = whole ? 1 : wrap_dim(c.arg(2).integer(), x.dim()) + 1;
  Tensor y = run(each, dim, keepdim && !whole);
  if (whole && keepdim) {
    Dims sizes(y.sizes());
    for (int i = 0; i < x.dim(); ++i) sizes.push_back(1);
    y = reshape(y, sizes);
  }
  c.set_result(y, q_dims);
}

#define COGRAD_QUANTILE(Prefix, name, ignore_nan, doc)                                            \
  struct Prefix {                                                                                 \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, q, dim=None, keepdim=False, *, interpolation='linear'",  \
                                 kFunctional | kOut | kExactOut | kSorting | kAutocastWide,       \
                                 doc " q is a tensor of fractions.",                              \
                                 "T(3, 5), T(2, lo=0.1, hi=0.9), 1; T(7), T(3, lo=0.1, hi=0.9)"}; \
    static constexpr DTypeSet kDTypes = kWideTypes;                                               \
    static constexpr BatchRule kBatch{}; /* reads values: looks for samples by itself */          \
    static Tensor forward(const Tensor& x, const Tensor& q, std::optional<Dim> dim, bool keepdim, \
                          std::string_view interpolation) {                                       \
      return quantile_of(x, quantile_fractions(q, x), q.dim() == 0, q, dim, keepdim,              \
                         interpolation, ignore_nan);                                              \
    }                                                                                             \
    static void batch(BatchCall& c) {                                                             \
      const Tensor& q = c.arg(1).tensor();                                                        \
      if (c.batched(q)) return c.loop();                                                          \
      quantile_of_samples(c, q.dim(), [&](const Tensor& x, Dim dim, bool keepdim) {               \
        return apply<Prefix>(x, q, std::optional<Dim>(dim), keepdim, c.arg(4).text());            \
      });                                                                                         \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix)                                                                               \
  struct Prefix##Scalar {                                                                         \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, q, dim=None, keepdim=False, *, interpolation='linear'",  \
                                 kFunctional | kOut | kExactOut | kSorting | kAutocastWide,       \
                                 doc,                                                             \
                                 "T(3, 5), 0.4, 1; T(7), 0.5; T(2, 3, 4), 0.25, 0, True; "        \
                                 "T(5), 0.3, interpolation='nearest'",                            \
                                 "np." name                                                       \
                                 "(input, q, axis=dim, keepdims=keepdim, method=interpolation)"}; \
    static constexpr DTypeSet kDTypes = kWideTypes;                                               \
    static constexpr BatchRule kBatch{}; /* reads values: looks for samples by itself */          \
    static Tensor forward(const Tensor& x, double q, std::optional<Dim> dim, bool keepdim,        \
                          std::string_view interpolation) {                                       \
      return quantile_of(x, {&q, 1}, true, Tensor(), dim, keepdim, interpolation, ignore_nan);    \
    }                                                                                             \
    static void batch(BatchCall& c) {                                                             \
      quantile_of_samples(c, 0, [&](const Tensor& x, Dim dim, bool keepdim) {                     \
        return apply<Prefix##Scalar>(x, c.arg(1).number(), std::optional<Dim>(dim), keepdim,      \
                                     c.arg(4).text());                                            \
      });                                                                                         \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix##Scalar)
COGRAD_QUANTILE(Quantile, "quantile", false,
                "The value below which a fraction q of each row's elements lie.")
COGRAD_QUANTILE(Nanquantile, "nanquantile", true, "quantile of the elements that are not NaN.")
#undef COGRAD_QUANTILE

}  // namespace

}  // namespace cograd
