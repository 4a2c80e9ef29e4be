// SPDX-License-Identifier: BSD-3-Clause
// Order statistics: median, kthvalue, mode.
#include <cmath>

#include "kernels/index/sort.h"
#include "ops/declare/batch_call.h"
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

// Calls select(contiguous x, axis, values, indices), which writes one value and index per row.
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

// Returns the medians of `rows` parts of x, which are contiguous and have equal size.
Tensor medians(const Tensor& x, IntList shape, int64_t rows, bool ignore_nan) {
  Tensor y = empty(shape, x.dtype());
  if (x.numel() == 0)
    raw_fill(y, std::nan(""));
  else
    kernels::median(x.dtype(), raw_contiguous(x).bytes(), y.bytes(), nullptr, rows,
                    x.numel() / rows, 1, ignore_nan);
  return y;
}

// Not in the table: the median() of each sample x[i].
template <bool ignore_nan>
struct MedianOfSamples {
  static constexpr OpSpec spec{ignore_nan ? "nanmedian" : "median", "input", kInternal | kReduction,
                               "median() of x[i] for each i.", "none: median() under vmap"};
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static constexpr int kSaved = 2;
  static void batch(BatchCall& c) { merge_batch_dim<MedianOfSamples>(c); }
  static Tensor forward(Ctx<MedianOfSamples>& ctx, const Tensor& x) {
    ctx.save(x);
    Tensor y = medians(x, x.sizes().first(1), x.size(0), ignore_nan);
    ctx.save_output(y);
    return y;
  }
  static Tensor backward(Ctx<MedianOfSamples>& ctx, const Tensor& g) {
    const Tensor x = ctx.saved(0);
    return split_among_ties(g, x, ctx.saved(1), all_dims(x.dim()) & ~DimMask{1});
  }
};

#define COGRAD_MEDIAN(Prefix, name, ignore_nan, doc)                                               \
  struct Prefix##All {                                                                             \
    static constexpr OpSpec spec{name,                                                             \
                                 "input",                                                          \
                                 kFunctional | kReduction,                                         \
                                 doc " of all elements; the lower middle one for even counts.",    \
                                 "T(5); T(3, 5)",                                                  \
                                 "np." name "(input)"};                                            \
    static constexpr UnsignedRule kUnsigned = ordered({0});                                        \
    static constexpr int kSaved = 2;                                                               \
    static void batch(BatchCall& c) {                                                              \
      c.set_result(apply<MedianOfSamples<ignore_nan>>(c.physical(c.arg(0).tensor())));             \
    }                                                                                              \
    static Tensor forward(Ctx<Prefix##All>& ctx, const Tensor& x) {                                \
      ctx.save(x);                                                                                 \
      Tensor y = medians(x, {}, 1, ignore_nan);                                                    \
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
                                 kFunctional | kOut | kReduction,                                  \
                                 doc " along dim (the lower middle one) and its index.",           \
                                 "T(3, 5), 1; T(2, 3, 4), 0, True; T(), 0",                        \
                                 "",                                                               \
                                 "values, indices"};                                               \
    static constexpr const char* kNodeName = #Prefix "Backward1";                                  \
    static constexpr BatchRule kBatch = by_dims();                                                 \
    static constexpr UnsignedRule kUnsigned = ordered({0});                                        \
    static constexpr int kSaved = 1;                                                               \
    using State = PickState;                                                                       \
    static std::tuple<Tensor, Tensor> forward(Ctx<Prefix>& ctx, const Tensor& x, Dim dim,          \
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
                               kFunctional | kOut | kReduction | kOutApart,
                               "k-th smallest element along dim (from 1) and its index.",
                               "T(3, 5), 2; T(2, 3, 4), 3, 1, True; T(), 1",
                               "",
                               "values, indices"};
  static constexpr int kSaved = 1;
  using State = PickState;
  static constexpr BatchRule kBatch = by_dims();
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static std::tuple<Tensor, Tensor> forward(Ctx<Kthvalue>& ctx, const Tensor& x, int64_t k, Dim dim,
                                            bool keepdim) {
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

struct Mode {
  static constexpr OpSpec spec{"mode",
                               "input, dim=-1, keepdim=False",
                               kFunctional | kOut | kReduction,
                               "Most frequent value along dim and the index of an occurrence.",
                               "T(3, 5); T(2, 3, 4), 0, True; T()",
                               "",
                               "values, indices"};
  static constexpr int kSaved = 1;
  static constexpr BatchRule kBatch = by_dims();
  using State = PickState;
  static std::tuple<Tensor, Tensor> forward(Ctx<Mode>& ctx, const Tensor& x, Dim dim,
                                            bool keepdim) {
    return select_along(ctx, x, dim, keepdim,
                        [&](const Tensor& in, const Axis& a, const Tensor& v, const Tensor& i) {
                          const Tensor sorted = empty(in.sizes(), in.dtype());
                          const Tensor order = empty(in.sizes(), DType::Int64);
                          kernels::sort(in.dtype(), in.bytes(), sorted.bytes(),
                                        order.data<int64_t>(), a.outer, a.n, a.inner, false);
                          kernels::modes(in.dtype(), sorted.bytes(), order.data<int64_t>(), a.outer,
                                         a.n, a.inner, v.bytes(), i.data<int64_t>());
                        });
  }
  static void backward(Ctx<Mode>& ctx, std::span<Tensor> gs) { select_gradient(ctx, gs); }
};
COGRAD_OP(Mode)

}  // namespace

}  // namespace cograd
