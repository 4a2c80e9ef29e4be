// SPDX-License-Identifier: BSD-3-Clause
// embedding_bag: sums, means or maxima of a table's rows.
#include "kernels/index/embedding_bag.h"

#include "kernels/core/sequences.h"
#include "kernels/index/index.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"
#include "ops/compute/pointers.h"
#include "ops/index/gather_scatter.h"
#include "tensor/backend.h"

namespace cograd {

namespace {

using kernels::BagMode;

struct BagState {
  BagMode mode = BagMode::Sum;
  int64_t padding = -1;
  bool by_freq = false;
  int64_t rows = 0;
};

// `offsets` has one more element than there are bags; callers have checked the indices.
kernels::Bags bags_of(const BagState& s, int64_t columns, const Tensor& index,
                      const Tensor& offsets, const Tensor& weights) {
  return {s.mode,    offsets.numel() - 1,   columns,
          s.rows,    index.data<int64_t>(), offsets.data<int64_t>(),
          s.padding, bytes_or_null(weights)};
}

struct EmbeddingBagOp {
  static constexpr OpSpec spec{
      "_embedding_bag_sums",
      "weight, indices, offsets, mode, padding_idx, by_freq, per_sample_weights=None",
      kInternal | kIndex, "", "none: reached through embedding_bag"};
  static constexpr const char* kNodeName = "EmbeddingBagBackward0";
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr int kSaved = 6;
  using State = BagState;
  static std::tuple<Tensor, Tensor, Tensor> forward(Ctx<EmbeddingBagOp>& ctx, const Tensor& weight,
                                                    const Tensor& index, const Tensor& offsets,
                                                    int64_t mode, int64_t padding, bool by_freq,
                                                    const Tensor& per_sample) {
    const BagState s{static_cast<BagMode>(mode), padding, by_freq, weight.size(0)};
    if (ctx.recording()) {
      *ctx.operator->() = s;
      // The gradient depends on the table's values only for per_sample_weights.
      ctx.save(ctx.needs(3) ? weight : Tensor(), index, offsets, per_sample);
    }
    auto [out, counted, at] = has_kernels(s) ? by_kernel(s, weight, index, offsets, per_sample)
                                             : by_ops(s, weight, index, offsets, per_sample);
    if (ctx.recording()) ctx.save(counted, at);
    return {out, counted, at};
  }
  static void backward(Ctx<EmbeddingBagOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    if (ctx.differentiated() || !has_kernels(*ctx.operator->())) return formula(ctx, gs[0]);
    const Tensor table = ctx.saved(0), g = raw_contiguous(gs[0]);
    const Tensor weight = table.defined() ? raw_contiguous(table) : table;
    const Tensor index = ctx.saved(1), offsets = ctx.saved(2), per_sample = ctx.saved(3);
    const Tensor each = per_sample.defined() ? raw_contiguous(per_sample) : per_sample;
    const Tensor sizes = ctx.saved(4), at = ctx.saved(5);
    Tensor gw, gp;
    if (ctx.needs(0)) gw = empty(table_sizes(ctx, g), g.dtype());
    if (each.defined() && ctx.needs(3)) gp = empty(each.sizes(), each.dtype());
    if (gp.defined()) raw_fill(gp, Scalar(0.0));
    kernels::embedding_bag_backward(
        g.dtype(), bags_of(*ctx.operator->(), g.size(1), index, offsets, each),
        bytes_or_null(weight), g.bytes(), sizes.data<int64_t>(), at.data<int64_t>(), ctx->by_freq,
        bytes_or_null(gw), bytes_or_null(gp));
    if (gw.defined()) ctx.grad(0) = gw;
    if (gp.defined()) ctx.grad(3) = gp;
  }

 private:
  using Outputs = std::tuple<Tensor, Tensor, Tensor>;
  // A maximum's row is found by the kernel only.
  static bool has_kernels(const BagState& s) {
    return s.mode == BagMode::Max || place_has_kernel("embedding_bag");
  }
  static Outputs by_kernel(const BagState& s, const Tensor& weight, const Tensor& index,
                           const Tensor& offsets, const Tensor& per_sample) {
    const Tensor table = raw_contiguous(weight);
    const Tensor each = per_sample.defined() ? raw_contiguous(per_sample) : per_sample;
    const int64_t sizes[2] = {offsets.numel() - 1, weight.size(1)}, count[1] = {sizes[0]};
    Tensor out = empty(sizes, weight.dtype());
    const Tensor counted = empty(count, DType::Int64);
    const int64_t none[2] = {s.mode == BagMode::Max ? sizes[0] : 0, weight.size(1)};
    const Tensor at = raw_full(none, DType::Int64, 0);
    kernels::embedding_bag(weight.dtype(), bags_of(s, weight.size(1), index, offsets, each),
                           table.bytes(), out.bytes(), counted.data<int64_t>(), at.data<int64_t>());
    return {out, counted, at};
  }
  // Sums and means, where the device has no kernel for bags.
  static Outputs by_ops(const BagState& s, const Tensor& weight, const Tensor& index,
                        const Tensor& offsets, const Tensor& per_sample) {
    const Dims sizes{offsets.numel() - 1, weight.size(1)};
    const DType wide = wide_dtype(weight.dtype());
    const Tensor bag = bag_of_each(index, offsets);
    const Tensor counts = ne(index, TensorOrScalar(s.padding));
    Tensor rows = cast(index_select(weight, 0, index), wide);
    if (per_sample.defined()) rows = rows * unsqueeze(cast(per_sample, wide), 1);
    rows = or_zero(unsqueeze(counts, 1), rows);
    Tensor out = scatter_add(zeros(sizes, wide), 0, expand(unsqueeze(bag, 1), rows.sizes()), rows);
    const Tensor counted =
        scatter_add(zeros(Dims{sizes[0]}, DType::Int64), 0, bag, cast(counts, DType::Int64));
    if (s.mode == BagMode::Mean) out = out / clamp_min(cast(unsqueeze(counted, 1), wide), 1.0);
    return {cast(out, weight.dtype()), counted, zeros(Dims{0, sizes[1]}, DType::Int64)};
  }
  static Dims table_sizes(Ctx<EmbeddingBagOp>& ctx, const Tensor& g) {
    return Dims{ctx->rows, g.size(1)};
  }
  // Does the same with differentiable ops.
  static void formula(Ctx<EmbeddingBagOp>& ctx, const Tensor& grad) {
    const Tensor weight = ctx.saved(0), index = ctx.saved(1), offsets = ctx.saved(2);
    const Tensor per_sample = ctx.saved(3), sizes = ctx.saved(4), at = ctx.saved(5);
    const DType wide = wide_dtype(grad.dtype());
    const Tensor g = cast(grad, wide), zero = zeros(table_sizes(ctx, g), wide);
    const int64_t last = -1;
    if (ctx->mode == BagMode::Max) {
      const Tensor kept = or_zero(unsqueeze(gt(sizes, 0.0), 1), g);
      if (ctx.needs(0)) ctx.grad(0) = cast(scatter_add(zero, 0, at, kept), grad.dtype());
      return;
    }
    const Tensor bag = bag_of_each(index, offsets), rows = index_select(g, 0, bag);
    const Tensor counts = ne(index, TensorOrScalar(ctx->padding));
    if (per_sample.defined() && ctx.needs(3)) {
      const Tensor looked_up =
          or_zero(unsqueeze(counts, 1), cast(index_select(weight, 0, index), wide));
      ctx.grad(3) = cast(sum(looked_up * rows, IntList(&last, 1)), per_sample.dtype());
    }
    if (!ctx.needs(0)) return;
    Tensor scale = cast(counts, wide);
    if (per_sample.defined()) scale = or_zero(counts, cast(per_sample, wide));
    if (ctx->mode == BagMode::Mean)
      scale = scale / clamp_min(cast(index_select(sizes, 0, bag), wide), 1.0);
    if (ctx->by_freq) {
      const Tensor often = scatter_add(zeros(Dims{ctx->rows}, wide), 0, index, ones_like(scale));
      scale = scale / index_select(often, 0, index);
    }
    const Tensor terms = rows * unsqueeze(scale, 1);
    ctx.grad(0) =
        cast(scatter_add(zero, 0, expand(unsqueeze(index, 1), terms.sizes()), terms), grad.dtype());
  }
  // Multiplying by 0 instead would turn inf into nan.
  static Tensor or_zero(const Tensor& mask, const Tensor& x) {
    return where(mask, x, TensorOrScalar(Scalar(0.0)));
  }
  static Tensor bag_of_each(const Tensor& index, const Tensor& offsets) {
    const int64_t bags = offsets.numel() - 1;
    const Tensor sizes = narrow(offsets, 0, 1, bags) - narrow(offsets, 0, 0, bags);
    const Tensor bag = empty(index.sizes(), DType::Int64);
    kernels::repeat_numbers(sizes.data<int64_t>(), bags, bag.data<int64_t>());
    return bag;
  }
};

struct EmbeddingBag {
  static constexpr OpSpec spec{
      "_embedding_bag",
      "weight, indices, offsets, mode, padding_idx=-1, scale_grad_by_freq=False, "
      "include_last_offset=False, per_sample_weights=None",
      kInternal | kIndex,
      "Per bag of indices the sum (mode 0), mean (1) or maximum (2) of weight's rows: the results "
      "(B, D), the bags' sizes without padding and, for maxima, the rows that they come from.",
      "T(5, 3), I(4, hi=5), I(1, hi=1), 0; T(5, 3), I(4, hi=5), I(1, hi=1), 1; "
      "T(5, 3), I(4, hi=5), I(1, hi=1), 2"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr BatchRule kBatch{};
  static std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& weight, const Tensor& indices,
                                                    const Tensor& offsets, int64_t mode,
                                                    int64_t padding, bool by_freq,
                                                    bool last_included, const Tensor& per_sample) {
    COGRAD_CHECK(weight.dim() == 2,
                 "embedding_bag: weight has to be a 2D Tensor, but got Tensor "
                 "of dimension ",
                 weight.dim());
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(weight.dtype()),
                                 "embedding_bag(): not implemented for dtype ",
                                 scalar_type_name(weight.dtype()));
    COGRAD_CHECK(mode >= 0 && mode <= 2, "embedding_bag: mode is ", mode, ", expected 0, 1 or 2");
    COGRAD_CHECK(indices.dim() == 1 && is_index(indices) && offsets.dim() == 1 && is_index(offsets),
                 "embedding_bag: indices and offsets must be 1-d tensors of int32 or int64");
    COGRAD_CHECK(!per_sample.defined() || (mode == 0 && per_sample.dtype() == weight.dtype() &&
                                           same(per_sample.sizes(), indices.sizes())),
                 "embedding_bag: per_sample_weights must have the shape of the indices and the "
                 "weight's dtype, with mode 'sum'");
    const Tensor index = contiguous_clone(raw_cast(indices, DType::Int64));
    const std::vector<int64_t> bags =
        ends_of(raw_contiguous(raw_cast(offsets, DType::Int64)), index.numel(), last_included);
    const Tensor ends = tensor_of(bags);
    int64_t bad = 0;
    const int64_t rows = weight.size(0);
    COGRAD_CHECK(kernels::all_within(index.data<int64_t>(), index.numel(), rows, &bad),
                 "embedding_bag: Expected idx >= 0 && idx < "
                 "num_embeddings but found idx to be ",
                 bad);
    COGRAD_CHECK(padding >= -1 && padding < rows, "embedding_bag: padding_idx is ", padding,
                 ", expected -1 or a row below ", rows);
    const int64_t used = bags.back();
    if (used == index.numel())
      return apply<EmbeddingBagOp>(weight, index, ends, mode, padding, by_freq, per_sample);
    return apply<EmbeddingBagOp>(
        weight, narrow(index, 0, 0, used), ends, mode, padding, by_freq,
        per_sample.defined() ? narrow(per_sample, 0, 0, used) : per_sample);
  }

 private:
  static bool is_index(const Tensor& t) {
    return t.dtype() == DType::Int64 || t.dtype() == DType::Int32;
  }
  // Returns the start of each bag, followed by the end of the last one.
  static std::vector<int64_t> ends_of(const Tensor& offsets, int64_t total, bool last_included) {
    const int64_t given = offsets.numel();
    COGRAD_CHECK(!last_included || given > 0,
                 "include_last_offset: number of offset should be at least 1");
    std::vector<int64_t> to = host_values_or<int64_t>(offsets, 0);
    if (!last_included) to.push_back(total);
    const size_t bags = to.size() - 1;
    COGRAD_CHECK(given == 0 || to[0] == 0,
                 "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                 "from position 0. However, got ",
                 to[0]);
    COGRAD_CHECK(to[bags] <= total, "offsets[-1] can not be greater than input's length ", total,
                 " but got offsets[-1] of ", to[bags]);
    for (size_t i = 0; i < bags; ++i)
      COGRAD_CHECK(to[i] >= 0 && to[i] <= to[i + 1],
                   i + 1 == bags ? "offsets[-1] can not be greater than input's length "
                                 : "embedding_bag: offsets must not decrease: expected at most ",
                   to[i + 1], " but got offsets[-1] of ", to[i]);
    if (bags == 0) to[0] = 0;
    return to;
  }
};
COGRAD_OP(EmbeddingBag)

}  // namespace

}  // namespace cograd
