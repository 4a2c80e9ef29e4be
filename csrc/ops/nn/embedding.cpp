// SPDX-License-Identifier: BSD-3-Clause
// embedding: selects rows of a table by index.
#include "kernels/index/index.h"
#include "kernels/reduce/reduce.h"
#include "ops/compute/host_values.h"
#include "ops/declare/batch_call.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/geometry.h"
#include "transforms/batch.h"
#include "transforms/function_inputs.h"

namespace cograd {

namespace {

struct EmbeddingState {
  int64_t rows = 0;
  int64_t padding = -1;
  bool by_freq = false;
};

// The gradient of embedding with respect to its weight; it is linear in g. It is not in the table:
// callers have checked the indices.
struct EmbeddingGrad {
  static constexpr OpSpec spec{"_embedding_grad", "grad, indices, rows, padding_idx, by_freq",
                               kInternal | kIndex, "Adds the rows of grad at the indices.",
                               "none: gradient of embedding"};
  static constexpr int kSaved = 1;
  using State = EmbeddingState;
  static Tensor forward(Ctx<EmbeddingGrad>& ctx, const Tensor& g, const Tensor& index, int64_t rows,
                        int64_t padding, bool by_freq) {
    *ctx.operator->() = {rows, padding, by_freq};
    ctx.save(index);
    const Tensor cg = raw_contiguous(g);
    const Tensor at = raw_contiguous(index);
    const int64_t n = g.size(-1);
    const int64_t sizes[2] = {rows, n};
    Tensor out = empty(sizes, g.dtype());
    kernels::embedding_backward(g.dtype(), cg.bytes(), at.data<int64_t>(), at.numel(), n, rows,
                                padding, by_freq, out.bytes());
    return out;
  }
  // Looks rows of g up again, skipped and scaled in the same way: the transpose.
  static void backward(Ctx<EmbeddingGrad>& ctx, const Tensor& g);
};

void check_rows(std::span<const int64_t> index, int64_t rows) {
  for (const int64_t i : index)
    COGRAD_CHECK_INDEX(i >= 0 && i < rows, "index out of range in self: embedding() got ", i,
                       " for ", rows, " rows");
}

struct EmbeddingOp {
  static constexpr OpSpec spec{"embedding", "weight, indices, padding_idx, by_freq",
                               kInternal | kIndex, "", "none: embedding"};
  static constexpr int kSaved = 1;
  using State = EmbeddingState;
  static Tensor forward(Ctx<EmbeddingOp>& ctx, const Tensor& weight, const Tensor& indices,
                        int64_t padding, bool by_freq) {
    const Tensor index = raw_contiguous(raw_cast(indices, DType::Int64));
    *ctx.operator->() = {weight.size(0), padding, by_freq};
    ctx.save(index);
    const Tensor rows = raw_contiguous(weight);
    Dims sizes(indices.sizes());
    sizes.push_back(weight.size(1));
    Tensor out = empty(sizes, weight.dtype());
    kernels::embedding(rows.bytes(), weight.size(0), weight.size(1) * weight.itemsize(),
                       index.data<int64_t>(), index.numel(), out.bytes());
    return out;
  }
  static void batch(BatchCall& c) {
    if (c.batched(c.arg(0).tensor())) return c.loop();
    c.set_result(apply<EmbeddingOp>(c.arg(0).tensor(), c.physical(c.arg(1).tensor()),
                                    c.arg(2).integer(), c.arg(3).truth()));
  }
  static void backward(Ctx<EmbeddingOp>& ctx, const Tensor& g) {
    if (ctx.needs(0))
      ctx.grad(0) = apply<EmbeddingGrad>(g, ctx.saved(0), ctx->rows, ctx->padding, ctx->by_freq);
  }
};

void EmbeddingGrad::backward(Ctx<EmbeddingGrad>& ctx, const Tensor& g) {
  const Tensor index = ctx.saved(0);
  Tensor rows = apply<EmbeddingOp>(g, index, int64_t{-1}, false);
  if (ctx->padding >= 0)
    rows = where(unsqueeze(eq(index, TensorOrScalar(ctx->padding)), -1), 0.0, rows);
  if (ctx->by_freq) {
    Dims each(index.sizes());
    each.push_back(1);
    const Tensor counts =
        apply<EmbeddingGrad>(ones(each, g.dtype()), index, ctx->rows, int64_t{-1}, false);
    rows = rows / apply<EmbeddingOp>(counts, index, int64_t{-1}, false);
  }
  ctx.grad(0) = rows;
}

struct Embedding {
  static constexpr OpSpec spec{
      "embedding",
      "input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, "
      "sparse=False",
      kFunction | kNN | kIndex,
      "Rows of weight (V, D) at the indices input (*): (*, D). Row padding_idx gets no gradient.",
      "I(2, 3, hi=5), T(5, 4); I(4, hi=5), T(5, 2); ~I(4, hi=5), T(5, 4), 1; "
      "~I(4, hi=5), T(5, 2), -1",
      "weight[input]"};
  static Tensor forward(const Tensor& input, const Tensor& weight, std::optional<int64_t> padding,
                        std::optional<double> max_norm, double norm_type, bool by_freq,
                        bool sparse) {
    COGRAD_CHECK(weight.dim() == 2, "'weight' must be 2-D");
    COGRAD_CHECK(input.dtype() == DType::Int64 || input.dtype() == DType::Int32,
                 "Expected tensor for argument #1 'indices' to have one of the following scalar "
                 "types: Long, Int; but got ",
                 scalar_type_name(input.dtype()),
                 " instead (while checking arguments for embedding)");
    COGRAD_CHECK_NOT_IMPLEMENTED(!sparse,
                                 "embedding: sparse=True is not supported, gradients are dense");
    const int64_t rows = weight.size(0);
    if (padding)
      COGRAD_CHECK(*padding >= -rows && *padding < rows,
                   "Padding_idx must be within num_embeddings, got ", *padding, " for ", rows);
    const int64_t skip = padding ? (*padding < 0 ? *padding + rows : *padding) : -1;
    if (max_norm && is_of_function(weight)) {
      const MayWrite scope(weight);
      renormalize(weight, input, *max_norm, norm_type);
    } else if (max_norm) {
      renormalize(weight, input, *max_norm, norm_type);
    }
    return apply<EmbeddingOp>(weight, input, skip, by_freq);
  }

 private:
  // Scales selected rows down to max_norm, in place and outside of any graph. Under a transform it
  // writes arguments of the transformed function, as torch does, but not captured tensors.
  static void renormalize(const Tensor& weight, const Tensor& input, double max_norm, double p) {
    if (is_batched(weight)) return renormalize_samples(weight, input, max_norm, p);
    const GradGuard no_grad(false);
    if (weight->device.type == DeviceType::Meta) return weight->bump_version();
    const Tensor index = raw_contiguous(raw_cast(input, DType::Int64));
    std::vector<int64_t> rows = host_values<int64_t>(index);
    check_rows(rows, weight.size(0));
    check_inplace(weight, "embedding_renorm_", false);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (int64_t r : rows) {
      const Tensor row = select_region(weight, 0, r);
      const Tensor values = raw_cast(raw_contiguous(row), DType::Float64);
      const Tensor size = empty({}, DType::Float64);
      const int64_t sizes[1] = {row.numel()}, steps[1] = {values.itemsize()};
      kernels::reduce_norm(p, values.dtype(), values.bytes(), {{}, {}, sizes, steps},
                           DType::Float64, size.bytes());
      const auto norm = host_value<double>(size);
      if (norm > max_norm) raw_copy(row, mul(values, max_norm / (norm + 1e-7)));
    }
    weight->bump_version();
  }

  static void renormalize_samples(const Tensor& weight, const Tensor& input, double max_norm,
                                  double p) {
    const GradGuard no_grad(false);
    const LevelId level = batch_level(weight);
    const Tensor rows = batch_dim_first(weight);
    const bool each = batch_level(input) == level;
    if (batch_level(input) > level || (each && rows.stride(0) == 0 && rows.size(0) > 1))
      throw_cannot_batch(
          "vmap: embedding_renorm_(weight, input) is not possible: input has a value for each "
          "sample, but weight, which max_norm writes, is the same for all samples. Give each "
          "sample a separate weight, or scale the rows outside of vmap.");
    for (int64_t k = 0; k < rows.size(0); ++k)
      renormalize(select(rows, 0, k), each ? select(batch_dim_first(input), 0, k) : input, max_norm,
                  p);
  }
};
COGRAD_OP(Embedding)

}  // namespace

}  // namespace cograd
