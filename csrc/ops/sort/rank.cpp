// SPDX-License-Identifier: BSD-3-Clause
// Statistics by rank along a dim: median, kthvalue, mode and quantile.
#include <cmath>

#include "kernels/sort.h"
#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

Dims reduced_shape(const Tensor& x, int dim, bool keepdim) {
  Dims shape(x.sizes());
  if (shape.empty()) return shape;
  if (keepdim)
    shape[static_cast<size_t>(dim)] = 1;
  else
    shape.erase(static_cast<size_t>(dim));
  return shape;
}

struct PickState {
  Dims sizes;
  int dim = 0;
};

// select(contiguous x, axis, values, indices) fills one value and index per row along dim.
template <class Op, class F>
std::tuple<Tensor, Tensor> select_along(Ctx<Op>& ctx, const Tensor& x, int64_t dim, bool keepdim,
                                        F&& select) {
  const int d = wrap_dim(dim, x.dim());
  COGRAD_CHECK_INDEX(x.dim() == 0 || x.size(d) > 0, Op::spec.name, "(): Expected reduction dim ", d,
                     " to have non-zero size.");
  const Dims shape = reduced_shape(x, d, keepdim);
  Tensor values = empty(shape, x.dtype());
  Tensor indices = empty(shape, DType::Int64);
  if (values.numel() > 0) select(raw_contiguous(x), axis_of(x.sizes(), d), values, indices);
  if (ctx.recording()) {
    ctx->sizes = Dims(x.sizes());
    ctx->dim = d;
    ctx.save(indices);
  }
  return {values, indices};
}

template <class Op>
void select_gradient(Ctx<Op>& ctx, std::span<Tensor> gs) {
  if (gs[0].defined()) ctx.grad(0) = put_along(gs[0], ctx->dim, ctx.saved(0), ctx->sizes);
}

#define COGRAD_MEDIAN(Prefix, name, ignore_nan, doc)                                               \
  struct Prefix##All {                                                                             \
    static constexpr OpSpec spec{name,                                                             \
                                 "input",                                                          \
                                 kFunctional,                                                      \
                                 doc " of all elements, the lower one of two.",                    \
                                 "T(5); T(3, 5)",                                                  \
                                 "np." name "(input)"};                                            \
    static constexpr int kSaved = 2;                                                               \
    static Tensor forward(Ctx<Prefix##All>& ctx, const Tensor& x) {                                \
      ctx.save(x);                                                                                 \
      Tensor y = empty({}, x.dtype());                                                             \
      if (x.numel() == 0)                                                                          \
        raw_fill(y, std::nan(""));                                                                 \
      else                                                                                         \
        kernels::median(x.dtype(), raw_contiguous(x).bytes(), y.bytes(), nullptr, 1, x.numel(), 1, \
                        ignore_nan);                                                               \
      ctx.save_output(y);                                                                          \
      return y;                                                                                    \
    }                                                                                              \
    static Tensor backward(Ctx<Prefix##All>& ctx, const Tensor& g) {                               \
      const Tensor x = ctx.saved(0);                                                               \
      return split_among_ties(g, x, ctx.saved(1), all_dims(x.dim()));                              \
    }                                                                                              \
  };                                                                                               \
  COGRAD_OP(Prefix##All)                                                                           \
  struct Prefix {                                                                                  \
    static constexpr OpSpec spec{name,                                                             \
                                 "input, dim=-1, keepdim=False",                                   \
                                 kFunctional | kOut,                                               \
                                 doc " along dim, the lower one of two, and its index.",           \
                                 "T(3, 5), 1; T(2, 3, 4), 0, True; T(), 0",                        \
                                 "",                                                               \
                                 "values, indices"};                                               \
    static constexpr const char* kNodeName = #Prefix "Backward1";                                  \
    static constexpr int kSaved = 1;                                                               \
    using State = PickState;                                                                       \
    static std::tuple<Tensor, Tensor> forward(Ctx<Prefix>& ctx, const Tensor& x, int64_t dim,      \
                                              bool keepdim) {                                      \
      return select_along(ctx, x, dim, keepdim,                                                    \
                          [&](const Tensor& in, const Axis& a, const Tensor& v, const Tensor& i) { \
                            kernels::median(in.dtype(), in.bytes(), v.bytes(), i.data<int64_t>(),  \
                                            a.outer, a.n, a.inner, ignore_nan);                    \
                          });                                                                      \
    }                                                                                              \
    static void backward(Ctx<Prefix>& ctx, std::span<Tensor> gs) { select_gradient(ctx, gs); }     \
  };                                                                                               \
  COGRAD_OP(Prefix)
COGRAD_MEDIAN(Median, "median", false, "Median")
COGRAD_MEDIAN(Nanmedian, "nanmedian", true, "Median without NaN")
#undef COGRAD_MEDIAN

struct Kthvalue {
  static constexpr OpSpec spec{"kthvalue",
                               "input, k, dim=-1, keepdim=False",
                               kFunctional | kOut | kOutApart,
                               "k-th smallest element along dim (from 1) and its index.",
                               "T(3, 5), 2; T(2, 3, 4), 3, 1, True; T(), 1",
                               "",
                               "values, indices"};
  static constexpr int kSaved = 1;
  using State = PickState;
  static std::tuple<Tensor, Tensor> forward(Ctx<Kthvalue>& ctx, const Tensor& x, int64_t k,
                                            int64_t dim, bool keepdim) {
    const int d = wrap_dim(dim, x.dim());
    const int64_t n = x.dim() == 0 ? 1 : x.size(d);
    COGRAD_CHECK(k >= 1 && k <= n, "kthvalue(): selected number k out of range for dimension ", d);
    return select_along(ctx, x, dim, keepdim,
                        [&](const Tensor& in, const Axis& a, const Tensor& v, const Tensor& i) {
                          kernels::kthvalue(in.dtype(), in.bytes(), v.bytes(), i.data<int64_t>(),
                                            a.outer, a.n, a.inner, k);
                        });
  }
  static void backward(Ctx<Kthvalue>& ctx, std::span<Tensor> gs) { select_gradient(ctx, gs); }
};
COGRAD_OP(Kthvalue)

// The longest run of equal values in each sorted row; the smallest value wins a draw and the last
// of its positions is reported.
template <class T>
void find_modes(const T* sorted, const int64_t* order, const Axis& a, T* values, int64_t* indices) {
  for (int64_t r = 0; r < a.outer * a.inner; ++r) {
    const int64_t base = (r / a.inner) * a.n * a.inner + r % a.inner;
    int64_t run = 0, longest = 0, at = base;
    for (int64_t k = 0; k < a.n; ++k) {
      const int64_t here = base + k * a.inner;
      const bool same = k > 0 && !(sorted[here] < sorted[here - a.inner]) &&
                        !(sorted[here - a.inner] < sorted[here]) && sorted[here] == sorted[here];
      run = same ? run + 1 : 1;
      if (run > longest) {
        longest = run;
        at = here;
      }
    }
    values[r] = sorted[at];
    indices[r] = order[at];
  }
}

struct Mode {
  static constexpr OpSpec spec{"mode",
                               "input, dim=-1, keepdim=False",
                               kFunctional | kOut,
                               "Most frequent value along dim and the index of an occurrence.",
                               "T(3, 5); T(2, 3, 4), 0, True; T()",
                               "",
                               "values, indices"};
  static constexpr int kSaved = 1;
  using State = PickState;
  static std::tuple<Tensor, Tensor> forward(Ctx<Mode>& ctx, const Tensor& x, int64_t dim,
                                            bool keepdim) {
    return select_along(ctx, x, dim, keepdim,
                        [&](const Tensor& in, const Axis& a, const Tensor& v, const Tensor& i) {
                          const Tensor sorted = empty(in.sizes(), in.dtype());
                          const Tensor order = empty(in.sizes(), DType::Int64);
                          kernels::sort(in.dtype(), in.bytes(), sorted.bytes(),
                                        order.data<int64_t>(), a.outer, a.n, a.inner, false);
                          dispatch_all(in.dtype(), [&](auto tag) {
                            using T = typename decltype(tag)::type;
                            find_modes(sorted.data<T>(), order.data<int64_t>(), a, v.data<T>(),
                                       i.data<int64_t>());
                          });
                        });
  }
  static void backward(Ctx<Mode>& ctx, std::span<Tensor> gs) { select_gradient(ctx, gs); }
};
COGRAD_OP(Mode)

enum class Interpolation { Linear, Lower, Higher, Midpoint, Nearest };

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
  Tensor weight;     // of the high one, in x's dtype
};

// Which two elements of every row make up each quantile, and the weight of the second.
template <class T>
void find_positions(const T* x, const int64_t* order, const Axis& a, std::span<const double> q,
                    Interpolation mode, bool ignore_nan, const Positions& p) {
  auto* low = p.low.data<int64_t>();
  auto* high = p.high.data<int64_t>();
  T* weight = p.weight.data<T>();
  const auto nq = static_cast<int64_t>(q.size());
  for (int64_t r = 0; r < a.outer * a.inner; ++r) {
    const int64_t o = r / a.inner, i = r % a.inner;
    const int64_t base = o * a.n * a.inner + i;
    int64_t n = a.n;  // NaN sort last
    while (n > 0 &&
           std::isnan(static_cast<double>(x[base + order[base + (n - 1) * a.inner] * a.inner])))
      --n;
    const bool poisoned = n == 0 || (n < a.n && !ignore_nan);
    for (int64_t k = 0; k < nq; ++k) {
      const int64_t to = (o * nq + k) * a.inner + i;
      const double rank = poisoned ? static_cast<double>(a.n - 1)
                                   : q[static_cast<size_t>(k)] * static_cast<double>(n - 1);
      double below = std::floor(rank);
      double above = std::ceil(rank);
      double w = rank - below;
      if (mode == Interpolation::Lower) above = below;
      if (mode == Interpolation::Higher) below = above;
      if (mode == Interpolation::Nearest) below = above = std::nearbyint(rank);
      if (mode == Interpolation::Midpoint) w = 0.5;
      if (below == above) w = 0;
      low[to] = order[base + static_cast<int64_t>(below) * a.inner];
      high[to] = order[base + static_cast<int64_t>(above) * a.inner];
      weight[to] = static_cast<T>(w);
    }
  }
}

Positions quantile_positions(const Tensor& x, int dim, std::span<const double> q,
                             Interpolation mode, bool ignore_nan) {
  const Axis a = axis_of(x.sizes(), dim);
  Dims sizes(x.sizes());
  sizes[static_cast<size_t>(dim)] = static_cast<int64_t>(q.size());
  const Tensor in = raw_contiguous(x);
  const Tensor order = empty(x.sizes(), DType::Int64);
  kernels::sort(x.dtype(), in.bytes(), nullptr, order.data<int64_t>(), a.outer, a.n, a.inner,
                false);
  Positions p{empty(sizes, DType::Int64), empty(sizes, DType::Int64), empty(sizes, x.dtype())};
  if (x.dtype() == DType::Float64)
    find_positions(in.data<double>(), order.data<int64_t>(), a, q, mode, ignore_nan, p);
  else
    find_positions(in.data<float>(), order.data<int64_t>(), a, q, mode, ignore_nan, p);
  return p;
}

// q scalar: the dim goes (or stays as 1); q 1-d: the quantiles become the first dim.
Tensor quantile_of(const Tensor& input, std::span<const double> q, bool q_scalar,
                   std::optional<int64_t> dim, bool keepdim, std::string_view interpolation,
                   bool ignore_nan) {
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
  y = y + p.weight * (take_along(x, d, p.high) - y);
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
  return reshape(y, shape);
}

std::vector<double> quantile_fractions(const Tensor& q, const Tensor& x) {
  COGRAD_CHECK(q.dim() <= 1, "quantile() q must be a scalar or 1D tensor");
  COGRAD_CHECK(q.dtype() == x.dtype(),
               "quantile() q tensor must be same dtype as the input tensor");
  const Tensor wide = raw_contiguous(raw_cast(q, DType::Float64));
  return {wide.data<double>(), wide.data<double>() + wide.numel()};
}

#define COGRAD_QUANTILE(Prefix, name, ignore_nan, doc)                                            \
  struct Prefix##Scalar {                                                                         \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, q, dim=None, keepdim=False, *, interpolation='linear'",  \
                                 kFunctional,                                                     \
                                 doc,                                                             \
                                 "T(3, 5), 0.4, 1; T(7), 0.5; T(2, 3, 4), 0.25, 0, True; "        \
                                 "T(5), 0.3, interpolation='nearest'",                            \
                                 "np." name                                                       \
                                 "(input, q, axis=dim, keepdims=keepdim, method=interpolation)"}; \
    static Tensor forward(const Tensor& x, double q, std::optional<int64_t> dim, bool keepdim,    \
                          std::string_view interpolation) {                                       \
      return quantile_of(x, {&q, 1}, true, dim, keepdim, interpolation, ignore_nan);              \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix##Scalar)                                                                       \
  struct Prefix {                                                                                 \
    static constexpr OpSpec spec{                                                                 \
        name, "input, q, dim=None, keepdim=False, *, interpolation='linear'", kFunctional,        \
        doc " q is a tensor of fractions.", "none: q is a constant; tested by hand"};             \
    static Tensor forward(const Tensor& x, const Tensor& q, std::optional<int64_t> dim,           \
                          bool keepdim, std::string_view interpolation) {                         \
      return quantile_of(x, quantile_fractions(q, x), q.dim() == 0, dim, keepdim, interpolation,  \
                         ignore_nan);                                                             \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Prefix)
COGRAD_QUANTILE(Quantile, "quantile", false,
                "The value below which the fraction q of each row lies.")
COGRAD_QUANTILE(Nanquantile, "nanquantile", true, "quantile of the elements that are not NaN.")
#undef COGRAD_QUANTILE

}  // namespace

}  // namespace cograd
