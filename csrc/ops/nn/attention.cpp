// SPDX-License-Identifier: BSD-3-Clause
// scaled_dot_product_attention: computed in blocks (kernels/nn/attention.h), or composed of other
// ops where the kernel does not apply.
#include "kernels/nn/attention.h"

#include <cmath>
#include <limits>
#include <optional>

#include "ops/compute/elementwise.h"
#include "ops/declare/autocast.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/nn/dropout.h"
#include "ops/random/fill.h"

namespace cograd {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Returns how many heads of the query share each head of the key.
int64_t group_of(const Tensor& q, const Tensor& k) {
  if (q.dim() < 3 || k.dim() < 3 || k.size(-3) == 0) return 1;
  return q.size(-3) / k.size(-3);
}
Dims with_group(const Tensor& x, int64_t heads, int64_t group) {
  Dims sizes(x.sizes());
  sizes[sizes.size() - 3] = heads;
  sizes.insert(sizes.size() - 2, group);
  return sizes;
}
Tensor repeated_heads(const Tensor& x, int64_t group) {
  if (group == 1) return x;
  Dims flat(x.sizes());
  flat[flat.size() - 3] *= group;
  return reshape(expand(unsqueeze(x, -3), with_group(x, x.size(-3), group)), flat);
}
Tensor summed_heads(const Tensor& g, int64_t group) {
  if (group == 1) return g;
  const int64_t dim = -3;
  return sum(reshape(g, with_group(g, g.size(-3) / group, group)), IntList(&dim, 1));
}

// Returns which keys each row may see if row i attends to keys 0 to i.
Tensor lower_triangle(const Tensor& q, const Tensor& k) {
  const int64_t sizes[2] = {q.size(-2), k.size(-2)};
  return tril(ones(sizes, DType::Bool));
}

// Returns the softmax of masked scores; rows in which every key is masked are zero.
Tensor weights_of(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal, double scale) {
  Tensor s = matmul_t(q, k, false, true) * scale;
  const Tensor seen = causal ? lower_triangle(q, k) : mask;
  if (!seen.defined()) return softmax(s, -1);
  s = seen.dtype() == DType::Bool ? where(seen, s, TensorOrScalar(Scalar(kNever))) : s + seen;
  const int64_t dim = -1;
  const Tensor blind = eq(sum(cast(ne(s, kNever), s.dtype()), IntList(&dim, 1), true), 0.0);
  const TensorOrScalar zero(Scalar(0.0));
  return where(blind, zero, softmax(where(blind, zero, s), -1));
}

// Returns the dtype in which the place's kernels take these operands; none if they do not.
std::optional<DType> own_dtype(const Tensor& q, const Tensor& v) {
  return kernels::attention_dtype(q.dtype(), q.size(-1), v.size(-1));
}

struct AttentionOp {
  static constexpr OpSpec spec{
      "_attention", "query, key, value, dropout_p, is_causal, scale, mask=None",
      kInternal | kContraction,
      "scaled_dot_product_attention of operands with the same leading dims, or fewer heads of key "
      "and value; the mask is expanded to them.",
      "T(2, 5, 4), T(2, 6, 4), T(2, 6, 3), 0.0, False, 0.5; "
      "T(5, 4), T(5, 4), T(5, 4), 0.0, True, 0.5; "
      "T(4, 5, 4), T(2, 6, 4), T(2, 6, 3), 0.0, False, 0.5"};
  static constexpr const char* kNodeName = "ScaledDotProductAttentionBackward0";
  static constexpr DTypeSet kDTypes = kWideTypes;
  static constexpr bool kHolomorphic = false;
  static constexpr int kSaved = 6;
  struct State {
    double dropout = 0, scale = 0;
    bool causal = false;
    kernels::PhiloxState random;
  };

  static Tensor forward(Ctx<AttentionOp>& ctx, const Tensor& query, const Tensor& key,
                        const Tensor& value, double dropout, bool causal, double scale,
                        const Tensor& mask) {
    check(query, key, value, mask);
    const Operand q(query), k(key), v(value);
    State s{dropout, scale, causal, {}};
    const MaskOperand masks(mask, query, key.size(-2));
    kernels::Attention a = attention(s, q, k, v, masks);
    if (dropout > 0) {
      const auto blocks =
          static_cast<uint64_t>(a.count * a.rows) * static_cast<uint64_t>(a.dropout_blocks());
      s.random = a.random = generator_or_default(nullptr).take(blocks);
    }
    Tensor out = result_like(query, value.size(-1));
    const int64_t rows[3] = {2, a.count, a.rows};
    const Tensor stats = empty(rows, wide_dtype(query.dtype()));
    const Operand o(out);
    kernels::attention_forward(query.dtype(), a, o.matrices(), stats.bytes());
    if (ctx.recording()) {
      *ctx.operator->() = s;
      ctx.save(query, key, value, mask, stats);
      ctx.save_output(out);
    }
    return out;
  }
  static void batch(BatchCall& c) {
    if (c.arg(3).number() > 0) return c.loop();
    const Tensor &q = c.arg(0).tensor(), &mask = c.arg(6).tensor();
    c.set_result(apply<AttentionOp>(c.physical_expanded(q), c.physical_expanded(c.arg(1).tensor()),
                                    c.physical_expanded(c.arg(2).tensor()), 0.0, c.arg(4).truth(),
                                    c.arg(5).number(),
                                    mask.defined() ? c.aligned(mask, q.dim()) : mask));
  }
  static void backward_fused(Ctx<AttentionOp>& ctx, const Tensor& grad) {
    const Tensor query = ctx.saved(0), key = ctx.saved(1), value = ctx.saved(2);
    const Tensor mask = ctx.saved(3), stats = ctx.saved(4), out = ctx.saved(5);
    const Operand q(query), k(key), v(value), o(out), g(grad);
    const MaskOperand masks(mask, query, key.size(-2));
    const Tensor gq = result_like(query, query.size(-1)), gk = result_like(key, key.size(-1)),
                 gv = result_like(value, value.size(-1));
    const Operand to_q(gq), to_k(gk), to_v(gv);
    kernels::attention_backward(query.dtype(), attention(*ctx.operator->(), q, k, v, masks),
                                o.matrices(), g.matrices(), stats.bytes(), to_q.matrices(),
                                to_k.matrices(), to_v.matrices());
    if (ctx.needs(0)) ctx.grad(0) = gq;
    if (ctx.needs(1)) ctx.grad(1) = gk;
    if (ctx.needs(2)) ctx.grad(2) = gv;
  }
  // Computes in float for dtypes of 16 bits, whose scores would lose too much.
  static void backward(Ctx<AttentionOp>& ctx, const Tensor& grad) {
    const DType t = grad.dtype(), wide = wide_dtype(t);
    const Tensor query = cast(ctx.saved(0), wide), key = cast(ctx.saved(1), wide),
                 value = cast(ctx.saved(2), wide), g = cast(grad, wide);
    const int64_t group = group_of(query, key), dim = -1;
    const Tensor k = repeated_heads(key, group), v = repeated_heads(value, group);
    const Tensor w = weights_of(query, k, ctx.saved(3), ctx->causal, ctx->scale);
    const Tensor keep = ctx->dropout > 0 ? factors(ctx, query, key, value) : Tensor();
    const Tensor used = keep.defined() ? w * keep : w;
    Tensor gw = matmul_t(g, v, false, true);
    if (keep.defined()) gw = gw * keep;
    const Tensor gs = w * (gw - sum(w * gw, IntList(&dim, 1), true)) * ctx->scale;
    if (ctx.needs(0)) ctx.grad(0) = cast(matmul_t(gs, k, false, false), t);
    if (ctx.needs(1)) ctx.grad(1) = cast(summed_heads(matmul_t(gs, query, true, false), group), t);
    if (ctx.needs(2)) ctx.grad(2) = cast(summed_heads(matmul_t(used, g, true, false), group), t);
  }

 private:
  // A tensor as matrices over its leading dims; it is copied unless its rows are dense.
  class Operand {
   public:
    explicit Operand(const Tensor& x)
        : x_(x.stride(-1) == 1 || x.size(-1) == 1 ? x : raw_contiguous(x)) {}
    kernels::Matrices matrices() const {
      return {x_.bytes(), x_.strides().data(), x_.stride(-2), nullptr};
    }
    const Tensor& tensor() const { return x_; }

   private:
    Tensor x_;
  };
  // The mask for each of the query's matrices.
  class MaskOperand {
   public:
    MaskOperand(const Tensor& mask, const Tensor& q, int64_t keys) {
      if (!mask.defined()) return;
      Dims sizes(q.sizes());
      sizes.back() = keys;
      strides_ = broadcast_strides(mask, sizes);
      const auto lead = sizes.size() - 2;
      mask_ = {mask.bytes(),   mask.dtype(),       strides_.begin(),
               strides_[lead], strides_[lead + 1], nullptr};
    }
    MaskOperand(const MaskOperand&) = delete;
    MaskOperand& operator=(const MaskOperand&) = delete;
    const kernels::AttentionMask& get() const { return mask_; }

   private:
    Dims strides_;
    kernels::AttentionMask mask_;
  };
  static kernels::Attention attention(const State& s, const Operand& q, const Operand& k,
                                      const Operand& v, const MaskOperand& mask) {
    const Tensor& x = q.tensor();
    kernels::Attention a{};
    a.sizes = x.sizes().data();
    a.dims = x.dim() - 2;
    a.rows = x.size(-2);
    a.keys = k.tensor().size(-2);
    a.size = x.size(-1);
    a.value_size = v.tensor().size(-1);
    a.count = product(x.sizes().first(static_cast<size_t>(x.dim()) - 2));
    a.group = group_of(x, k.tensor());
    a.scale = s.scale;
    a.causal = s.causal;
    a.dropout = s.dropout;
    a.random = s.random;
    a.q = q.matrices();
    a.k = k.matrices();
    a.v = v.matrices();
    a.mask = mask.get();
    return a;
  }
  // Creates the result in the query's order of dims, which avoids a copy if heads are transposed.
  static Tensor result_like(const Tensor& q, int64_t size) {
    Dims sizes(q.sizes());
    sizes.back() = size;
    if (size == q.size(-1)) {
      const Tensor out = empty_preserving(q, q.dtype());
      if (out.stride(-1) == 1) return out;
    }
    return empty(sizes, q.dtype());
  }
  static Tensor factors(Ctx<AttentionOp>& ctx, const Tensor& q, const Tensor& k, const Tensor& v) {
    Dims sizes(q.sizes());
    sizes.back() = k.size(-2);
    Tensor out = empty(sizes, q.dtype());
    const Operand a(q), b(k), c(v);
    const MaskOperand none(Tensor(), q, k.size(-2));
    kernels::attention_keep(q.dtype(), attention(*ctx.operator->(), a, b, c, none), out.bytes());
    return out;
  }
  static void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(q.dtype()) && own_dtype(q, v) == q.dtype(),
                                 "_attention(): not implemented for dtype ",
                                 scalar_type_name(q.dtype()));
    COGRAD_CHECK(q.dtype() == k.dtype() && q.dtype() == v.dtype() && q.dim() >= 2 &&
                     k.dim() == q.dim() && v.dim() == q.dim() && k.size(-1) == q.size(-1) &&
                     k.size(-2) == v.size(-2) && q.numel() > 0 && k.numel() > 0 && v.numel() > 0,
                 "_attention(): the shapes of query, key and value do not match");
    const int64_t group = group_of(q, k);
    for (int d = 0; d < q.dim() - 2; ++d)
      COGRAD_CHECK(
          k.size(d) == v.size(d) && k.size(d) * (d == q.dim() - 3 ? group : 1) == q.size(d),
          "_attention(): the leading dims of query, key and value differ");
    Dims scores(q.sizes()), joint;
    scores.back() = k.size(-2);
    COGRAD_CHECK(
        !mask.defined() || ((mask.dtype() == DType::Bool || mask.dtype() == q.dtype() ||
                             mask.dtype() == wide_dtype(q.dtype())) &&
                            broadcast_shapes(mask.sizes(), scores, joint) && same(joint, scores)),
        "_attention(): the mask does not broadcast to (..., L, S)");
  }
};
COGRAD_OP(AttentionOp)

struct ScaledDotProductAttention {
  static constexpr OpSpec spec{
      "scaled_dot_product_attention",
      "query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, "
      "enable_gqa=False",
      kNN | kContraction | kAutocastLow,
      "softmax(query key^T * scale + mask) value for query (..., L, E), key (..., S, E), value "
      "(..., S, V), a (..., L, V) result. attn_mask, broadcastable to (..., L, S): bool, True "
      "includes a key; or floats to add. is_causal: row i attends to keys 0 to i. scale: 1 / "
      "sqrt(E) unless given. enable_gqa: each head (dim -3) of key and value is shared by several "
      "heads of query.",
      "T(2, 3, 4), T(2, 5, 4), T(2, 5, 2); T(3, 4), T(3, 4), T(3, 4), None, 0.0, True; "
      "T(3, 4), T(5, 4), T(5, 4), T(3, 5), 0.0, False, 0.3; "
      "T(4, 3, 4), T(2, 5, 4), T(2, 5, 4), None, 0.0, False, None, True",
      ""};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& mask, double dropout, bool causal,
                        std::optional<double> scale, bool grouped) {
    check(query, key, value, mask, dropout, causal);
    if (causal && mask.defined())
      return forward(query, key, value, causal_mask(query, key, mask), dropout, false, scale,
                     grouped);
    const DType t = query.dtype();
    const DType wide = wide_dtype(t);
    const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
    if (grouped) check_groups(query, key, value);
    // Blocks need random numbers by position, as Philox provides; torch's stream is sequential.
    const bool in_turn = dropout > 0 && generator_or_default(nullptr).stream() == Stream::Torch;
    const std::optional<DType> own = in_turn ? std::nullopt : own_dtype(query, value);
    if (own && fit(query, key, value, mask, grouped))
      return cast(apply<AttentionOp>(cast(query, *own), cast(key, *own), cast(value, *own), dropout,
                                     causal, factor, as_mask(mask, *own)),
                  t);
    Tensor q = cast(query, wide), k = cast(key, wide), v = cast(value, wide);
    const Tensor m = as_mask(mask, wide);
    k = repeated_heads(k, grouped ? group_of(q, k) : 1);
    v = repeated_heads(v, grouped ? group_of(q, v) : 1);
    const Tensor w = dropped(weights_of(q, k, m, causal, factor), dropout, true);
    return cast(matmul(w, v), t);
  }

 private:
  static void check(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                    double dropout, bool causal) {
    // torch's kernel for the CPU takes both; its formula, which runs in other cases, refuses them.
    const bool both = q.dim() == 4 && dropout == 0 && !(mask.defined() && requires_grad(mask));
    COGRAD_CHECK(!causal || !mask.defined() || both,
                 "scaled_dot_product_attention: Explicit attn_mask should not be set when "
                 "is_causal=True");
    COGRAD_CHECK(q.dtype() == k.dtype() && q.dtype() == v.dtype(),
                 "Expected query, key, and value to have the same dtype, but got query.dtype: ",
                 scalar_type_name(q.dtype()), " key.dtype: ", scalar_type_name(k.dtype()),
                 " and value.dtype: ", scalar_type_name(v.dtype()), " instead.");
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(q.dtype()),
                                 "scaled_dot_product_attention: not implemented for dtype ",
                                 scalar_type_name(q.dtype()));
    COGRAD_CHECK(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
                 "Expected query, key, and value to all be  at least 2 dimensional, but got "
                 "query.dim(): ",
                 q.dim(), ", key.dim(): ", k.dim(), " and value.dim(): ", v.dim(), " instead.");
    COGRAD_CHECK(dropout >= 0 && dropout <= 1,
                 "dropout probability has to be between 0 and 1, but "
                 "got ",
                 dropout);
    COGRAD_CHECK(!mask.defined() || mask.dtype() == DType::Bool || mask.dtype() == q.dtype() ||
                     mask.dtype() == DType::Float32,
                 "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
                 "attn_mask.dtype: ",
                 mask.defined() ? scalar_type_name(mask.dtype()) : "",
                 " and  query.dtype: ", scalar_type_name(q.dtype()), " instead.");
  }
  // Joins a mask with the causal one.
  static Tensor causal_mask(const Tensor& q, const Tensor& k, const Tensor& mask) {
    const Tensor seen = lower_triangle(q, k);
    if (mask.dtype() == DType::Bool) return logical_and(mask, seen);
    return where(seen, mask, TensorOrScalar(Scalar(kNever)));
  }
  // A mask to add has the dtype in which it is added, or that of the operands.
  static Tensor as_mask(const Tensor& mask, DType t) {
    if (!mask.defined() || mask.dtype() == DType::Bool || mask.dtype() == t) return mask;
    return cast(mask, wide_dtype(t));
  }
  static void check_groups(const Tensor& q, const Tensor& k, const Tensor& v) {
    const bool fits = q.dim() >= 3 && k.dim() >= 3 && v.dim() >= 3 && k.size(-3) > 0 &&
                      v.size(-3) > 0 && q.size(-3) % k.size(-3) == 0 &&
                      q.size(-3) % v.size(-3) == 0;
    COGRAD_CHECK(fits,
                 "scaled_dot_product_attention: Number of heads in key and value must divide "
                 "the number of heads in query.");
  }
  static bool fit(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  bool grouped) {
    if (mask.defined() && is_floating(mask.dtype()) && differentiable({&mask})) return false;
    if (k.dim() != q.dim() || v.dim() != q.dim() || k.size(-1) != q.size(-1) ||
        k.size(-2) != v.size(-2) || q.numel() == 0 || k.numel() == 0 || v.numel() == 0)
      return false;
    for (int d = 0; d < q.dim() - 2; ++d) {
      if (k.size(d) != v.size(d)) return false;
      if (k.size(d) != q.size(d) && !(grouped && d == q.dim() - 3)) return false;
    }
    if (!mask.defined()) return true;
    Dims scores(q.sizes()), joint;
    scores.back() = k.size(-2);
    return broadcast_shapes(mask.sizes(), scores, joint) && same(joint, scores);
  }
};
COGRAD_OP(ScaledDotProductAttention)

}  // namespace

}  // namespace cograd
