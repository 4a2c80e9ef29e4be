// SPDX-License-Identifier: BSD-3-Clause
// batch_norm, instance_norm and group_norm, based on one kernel.
#include "kernels/nn/group_norm.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/pointers.h"
#include "ops/compute/strides.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/kinked.h"
#include "ops/declare/ops.h"
#include "ops/nn/running_stats.h"

namespace cograd {

namespace {

using kernels::NormGroups;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Normed = std::tuple<Tensor, Tensor, Tensor, Tensor>;  // y, mean, 1 / sqrt(var + eps), var

DType wide(DType t) { return t == DType::Float64 ? DType::Float64 : DType::Float32; }

// Returns the number of elements in the dims after the first two.
int64_t positions(const Tensor& x) { return product(x.sizes().last(x.sizes().size() - 2)); }

NormGroups batch_groups(const Tensor& x) {
  const int64_t c = x.size(1), s = positions(x);
  return {c, x.size(0), s, std::max<int64_t>(c, 1), 0, s, c * s, 1, 0};
}
NormGroups sample_groups(const Tensor& x, int64_t groups) {
  const int64_t c = x.size(1), s = positions(x), each = c / groups;
  return {x.size(0) * groups, each, s, groups, c * s, each * s, s, each, 1};
}

Tensor vector_as(const Tensor& t, DType type) {
  return t.defined() ? raw_contiguous(raw_cast(t, type)) : t;
}

// Converts `y`, which is contiguous, to the memory format of `x`.
Tensor in_format_of(const Tensor& x, const Tensor& y) {
  const MemoryFormat format = suggested_format(x);
  if (format == MemoryFormat::Contiguous) return y;
  const Tensor out = empty_in_format(y, y.dtype(), format);
  raw_copy(out, y);
  return out;
}

// Views (C) so that it broadcasts against (N, C, *).
Tensor along_channels(const Tensor& v, int dims) {
  Dims shape(static_cast<size_t>(dims), 1);
  shape[1] = v.numel();
  return view(v, shape);
}
Dims without_channels(int dims) {
  Dims all{0};
  for (int i = 2; i < dims; ++i) all.push_back(i);
  return all;
}

// Returns out[i], the sum of the terms in a row that belong to weight i.
Tensor sum_by_weight(const NormGroups& n, const Tensor& terms, int which, int64_t count, DType t) {
  const int64_t sizes[1] = {count};
  const Tensor total = raw_full(sizes, DType::Float64, 0.0);
  kernels::add_by_weight(n, terms.data<double>() + which * terms.size(1), total.data<double>());
  return raw_cast(total, t);
}

// rows: the gradient lies in rows, whatever the memory format of x.
template <class Op>
void fused_backward(Ctx<Op>& ctx, const NormGroups& n, const Tensor& g, bool given,
                    bool rows = false) {
  const Tensor x = ctx.saved(0), w = ctx.saved(1), mean = ctx.saved(2), rstd = ctx.saved(3);
  const Tensor cx = raw_contiguous(x), cg = raw_contiguous(g), cw = vector_as(w, x.dtype());
  const Tensor gx = ctx.needs(0) ? empty(x.sizes(), x.dtype()) : Tensor();
  const int64_t count = n.groups * n.segments, sizes[2] = {2, count};
  const Tensor terms = empty(sizes, DType::Float64);  // of the bias, then of the weight
  kernels::group_norm_backward(x.dtype(), n, cg.bytes(), cx.bytes(), mean.bytes(), rstd.bytes(),
                               bytes_or_null(cw), given, bytes_or_null(gx), terms.data<double>(),
                               terms.data<double>() + count);
  if (gx.defined()) ctx.grad(0) = rows ? gx : in_format_of(x, gx);
  const DType t = w.defined() ? w.dtype() : x.dtype();
  if (ctx.needs(1)) ctx.grad(1) = sum_by_weight(n, terms, 1, x.size(1), t);
  if (ctx.needs(2)) ctx.grad(2) = sum_by_weight(n, terms, 0, x.size(1), t);
}

// mean and var are running statistics, which are constants, or undefined.
struct BatchNormOp {
  static constexpr OpSpec spec{"_batch_norm", "input, weight, bias, mean, var, eps",
                               kInternal | kReduction, "", "none: batch_norm"};
  static constexpr const char* kNodeName = "NativeBatchNormBackward0";
  static constexpr int kSaved = 4;
  static constexpr uint32_t kNondiffOutputs = 14;
  struct State {
    double eps = 0;
    bool given = false;
  };
  static Normed forward(Ctx<BatchNormOp>& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                        const Tensor& given_mean, const Tensor& given_var, double eps) {
    const NormGroups n = batch_groups(x);
    const bool given = given_mean.defined();
    const DType t = wide(x.dtype());
    const int64_t sizes[1] = {x.size(1)};
    const Tensor mean = empty(sizes, t), rstd = empty(sizes, t), var = empty(sizes, t);
    if (given) {
      raw_copy(mean, given_mean);
      raw_copy(var, given_var);
      raw_copy(rstd, rsqrt(raw_cast(given_var, t) + eps));
    }
    const Tensor y = empty(x.sizes(), x.dtype()), in = raw_contiguous(x);
    const Tensor cw = vector_as(w, x.dtype()), cb = vector_as(b, x.dtype());
    kernels::group_norm_forward(x.dtype(), n, in.bytes(), bytes_or_null(cw), bytes_or_null(cb), eps,
                                given, y.bytes(), mean.bytes(), rstd.bytes(), var.bytes());
    if (ctx.recording()) {
      *ctx.operator->() = {eps, given};
      ctx.save(x, w, mean, rstd);
    }
    return {in_format_of(x, y), mean, rstd, var};
  }
  static void backward(Ctx<BatchNormOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    if (!ctx.differentiated())
      return fused_backward(ctx, batch_groups(ctx.saved(0)), gs[0], ctx->given);
    const DType own = gs[0].dtype(), t = wide(own);  // 16-bit dtypes in float32, as the kernel
    const Tensor g = cast(gs[0], t), x = cast(ctx.saved(0), t), w = ctx.saved(1);
    const Dims dims = without_channels(x.dim());
    Tensor center, r;
    if (ctx->given) {
      center = x - along_channels(ctx.saved(2), x.dim());
      r = along_channels(ctx.saved(3), x.dim());
    } else {
      center = x - mean(x, IntList(dims), true);
      r = rsqrt(mean(square(center), IntList(dims), true) + ctx->eps);
    }
    const Tensor xh = center * r;
    if (ctx.needs(0)) {
      const Tensor h = w.defined() ? g * along_channels(cast(w, t), x.dim()) : g;
      const Tensor gx =
          ctx->given
              ? r * h
              : r * (h - mean(h, IntList(dims), true) - xh * mean(h * xh, IntList(dims), true));
      ctx.grad(0) = ctx->given ? kinked(ctx, cast(gx, own)) : cast(gx, own);
    }
    if (ctx.needs(1)) ctx.grad(1) = cast(sum(g * xh, IntList(dims)), w.dtype());
    if (ctx.needs(2)) ctx.grad(2) = cast(sum(g, IntList(dims)), own);
  }
  // Merges the batch dim of vmap with the channels.
  static void batch(BatchCall& c) {
    const auto side_by_side = [&](size_t i) {
      const Tensor& t = c.arg(i).tensor();
      return t.defined() ? flatten(c.physical_expanded(t), 0, 1) : t;
    };
    const Tensor x = movedim(c.physical_expanded(c.arg(0).tensor()), 0, 1);
    auto [y, mean, rstd, var] =
        apply<BatchNormOp>(flatten(x, 1, 2), side_by_side(1), side_by_side(2), side_by_side(3),
                           side_by_side(4), c.arg(5).number());
    const int64_t stats[2] = {c.size(), x.size(2)};
    const auto batched = [&](const Tensor& t, int dim) {
      return make_batched(t, dim, c.level().id);
    };
    box(c.out(), std::tuple(batched(reshape(y, x.sizes()), 1), batched(reshape(mean, stats), 0),
                            batched(reshape(rstd, stats), 0), batched(reshape(var, stats), 0)));
  }
};

struct GroupNormOp {
  static constexpr OpSpec spec{"_group_norm", "input, weight, bias, groups, eps, fixed",
                               kInternal | kReduction, "", "none: group_norm"};
  static constexpr const char* kNodeName = "NativeGroupNormBackward0";
  static constexpr int kSaved = 4;
  static constexpr uint32_t kNondiffOutputs = 14;
  struct State {
    int64_t groups = 1;
    double eps = 0;
    bool fixed = false;
  };
  // `fixed` saves the weight's present values, so that a later change of its data has no effect.
  static Normed forward(Ctx<GroupNormOp>& ctx, const Tensor& x, const Tensor& w, const Tensor& b,
                        int64_t groups, double eps, bool fixed) {
    const NormGroups n = sample_groups(x, groups);
    const int64_t sizes[2] = {x.size(0), groups};
    const DType t = wide(x.dtype());
    const Tensor mean = empty(sizes, t), rstd = empty(sizes, t), var = empty(sizes, t);
    const Tensor y = empty(x.sizes(), x.dtype()), in = raw_contiguous(x);
    const Tensor cw = vector_as(w, x.dtype()), cb = vector_as(b, x.dtype());
    kernels::group_norm_forward(x.dtype(), n, in.bytes(), bytes_or_null(cw), bytes_or_null(cb), eps,
                                false, y.bytes(), mean.bytes(), rstd.bytes(), var.bytes());
    if (ctx.recording()) {
      *ctx.operator->() = {groups, eps, fixed};
      ctx.save(x, fixed && w.defined() ? fixed_view(w) : w, mean, rstd);
    }
    return {fixed ? y : in_format_of(x, y), mean, rstd, var};
  }
  static void backward(Ctx<GroupNormOp>& ctx, std::span<Tensor> gs) {
    if (!gs[0].defined()) return;
    if (!ctx.differentiated())
      return fused_backward(ctx, sample_groups(ctx.saved(0), ctx->groups), gs[0], false,
                            ctx->fixed);
    const DType own = gs[0].dtype(), t = wide(own);
    const Tensor g = cast(gs[0], t), x = cast(ctx.saved(0), t), w = ctx.saved(1);
    const int64_t grouped[3] = {x.size(0), ctx->groups, x.size(1) / ctx->groups * positions(x)};
    const int64_t dims[1] = {2};
    const Tensor rows = reshape(x, grouped);
    const Tensor center = rows - mean(rows, IntList(dims), true);
    const Tensor r = rsqrt(mean(square(center), IntList(dims), true) + ctx->eps);
    const Tensor xh = center * r;
    const Dims others = without_channels(x.dim());
    if (ctx.needs(0)) {
      const Tensor h = reshape(w.defined() ? g * along_channels(cast(w, t), x.dim()) : g, grouped);
      const Tensor gx =
          r * (h - mean(h, IntList(dims), true) - xh * mean(h * xh, IntList(dims), true));
      ctx.grad(0) = cast(reshape(gx, x.sizes()), own);
    }
    if (ctx.needs(1))
      ctx.grad(1) = cast(sum(g * reshape(xh, x.sizes()), IntList(others)), w.dtype());
    if (ctx.needs(2)) ctx.grad(2) = cast(sum(g, IntList(others)), own);
  }
  static void batch(BatchCall& c) {
    for (size_t i = 1; i < 3; ++i)
      if (c.arg(i).tensor().defined() && c.batched(c.arg(i).tensor())) return c.loop();
    const Tensor x = c.physical(c.arg(0).tensor());
    auto [y, mean, rstd, var] =
        apply<GroupNormOp>(flatten(x, 0, 1), c.arg(1).tensor(), c.arg(2).tensor(),
                           c.arg(3).integer(), c.arg(4).number(), c.arg(5).truth());
    const int64_t stats[3] = {x.size(0), x.size(1), c.arg(3).integer()};
    const auto batched = [&](const Tensor& t) { return make_batched(t, 0, c.level().id); };
    box(c.out(), std::tuple(batched(reshape(y, x.sizes())), batched(reshape(mean, stats)),
                            batched(reshape(rstd, stats)), batched(reshape(var, stats))));
  }
};

void check_input(const char* op, const Tensor& x, int least) {
  COGRAD_CHECK(x.dim() >= least, op, ": expected an input of at least ", least,
               " dims, (N, C, *), but got shape ", to_string(x.sizes()));
  COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()), "\"", op, "\" not implemented for '",
                               scalar_type_name(x.dtype()), "'");
}
void check_vector(const Tensor& v, const char* name, int64_t channels) {
  if (!v.defined()) return;
  COGRAD_CHECK(v.dim() == 1 && v.numel() == channels, name, " should contain ", channels,
               " elements not ", v.numel());
  COGRAD_CHECK(is_floating(v.dtype()), name, " should be floating, but is of dtype ",
               dtype_name(v.dtype()));
}

void check_vectors(int64_t channels, const Tensor& w, const Tensor& b, const Tensor& running_mean,
                   const Tensor& running_var) {
  check_vector(running_mean, "running_mean", channels);
  check_vector(running_var, "running_var", channels);
  check_vector(w, "weight", channels);
  check_vector(b, "bias", channels);
}

Triple without_var(const Normed& n) { return {std::get<0>(n), std::get<1>(n), std::get<2>(n)}; }

Triple batch_norm(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum, double eps) {
  // An input without elements is not checked further, as in torch.
  const bool nothing = x.defined() && x.numel() == 0 && is_floating(x.dtype());
  if (nothing && x.dim() == 1) {
    const Tensor y = clone(x), none = empty(Dims{0}, wide(x.dtype()));
    return {y, none, none};
  }
  check_input("batch_norm", x, 2);
  check_vectors(x.size(1), w, b, running_mean, running_var);
  const RunningStats running("batch_norm", running_mean, running_var);
  if (!training) {
    COGRAD_CHECK(nothing || running_mean.defined(),
                 "running_mean must be defined in evaluation mode");
    COGRAD_CHECK(nothing || running_var.defined(),
                 "running_var must be defined in evaluation mode");
    return without_var(apply<BatchNormOp>(x, w, b, running_mean, running_var, eps));
  }
  running.check_writable(x);
  const Normed out = apply<BatchNormOp>(x, w, b, Tensor(), Tensor(), eps);
  const int64_t count = x.size(1) == 0 ? 0 : x.numel() / x.size(1);
  if (count > 0 && running.any()) {
    const GradGuard no_grad(false);
    const Normed own = running.lack_samples_of(w, b)
                           ? apply<BatchNormOp>(x, Tensor(), Tensor(), Tensor(), Tensor(), eps)
                           : out;  // batched weights must not make the statistics batched
    running.update(std::get<1>(own), std::get<3>(own), count, momentum);
  }
  return without_var(out);
}

struct BatchNorm {
  static constexpr OpSpec spec{
      "batch_norm",
      "input, weight=None, bias=None, running_mean=None, running_var=None, training=False, "
      "momentum=0.1, eps=1e-05, cudnn_enabled=True",
      kFunction | kReduction,
      "(input - mean) / sqrt(var + eps) * weight + bias over all dims of (N, C, *) except C; with "
      "training, statistics are those of the batch, and they update the running ones.",
      "T(4, 3), None, None, None, None, True, 0.1, 1e-5, False; "
      "T(2, 3, 4), T(3), T(3), None, None, True, 0.1, 1e-3, False; "
      "~T(2, 3, 2, 2), T(3), T(3), T(3), P(3), False, 0.1, 1e-5, False"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr uint32_t kConstants = parameter_bits({3, 4});
  static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b,
                        const Tensor& running_mean, const Tensor& running_var, bool training,
                        double momentum, double eps, bool) {
    return std::get<0>(batch_norm(x, w, b, running_mean, running_var, training, momentum, eps));
  }
};
COGRAD_OP(BatchNorm)

// True if the statistics of `x` may get a derivative: they are then computed once more, as
// functions of it.
bool derived(const Tensor& x) {
  return transforms_open() || (thread_state.grad_enabled && requires_grad(x));
}

// Returns mean and 1 / sqrt(var + eps) over `dims`.
std::pair<Tensor, Tensor> moments(const Tensor& x, IntList dims, double eps) {
  const Tensor in = cast(x, wide(x.dtype()));
  const Tensor center = mean(in, dims, true);
  return {mean(in, dims), rsqrt(mean(square(in - center), dims) + eps)};
}

// Gives statistics the dtype that torch returns: that of a 16-bit `x`, unless weights are wider.
void store_like(const Tensor& x, const Tensor& w, Tensor& center, Tensor& scale) {
  if (!is_half(x.dtype()) || (w.defined() && w.dtype() != x.dtype())) return;
  center = cast(center, x.dtype());
  scale = cast(scale, x.dtype());
}

struct NativeBatchNorm {
  static constexpr OpSpec spec{
      "native_batch_norm",
      "input, weight=None, bias=None, running_mean=None, running_var=None, training=False, "
      "momentum=0.1, eps=1e-05",
      kFunction | kReduction,
      "batch_norm, and the mean and 1 / sqrt(var + eps) of the batch (empty unless training).",
      "~T(2, 3, 4), T(3), T(3), None, None, True, 0.1, 1e-3"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr uint32_t kConstants = parameter_bits({3, 4});
  static Triple forward(const Tensor& x, const Tensor& w, const Tensor& b,
                        const Tensor& running_mean, const Tensor& running_var, bool training,
                        double momentum, double eps) {
    Triple out = batch_norm(x, w, b, running_mean, running_var, training, momentum, eps);
    auto& [y, center, scale] = out;
    if (!training) {
      const int64_t none[1] = {0};
      center = empty(none, center.dtype());
      scale = empty(none, scale.dtype());
    } else if (derived(x) && x.numel() > 0) {
      Dims but_channels{0};
      for (int64_t d = 2; d < x.dim(); ++d) but_channels.push_back(d);
      std::tie(center, scale) = moments(x, but_channels, eps);
    }
    store_like(x, w, center, scale);
    return out;
  }
};
COGRAD_OP(NativeBatchNorm)

Triple group_norm(const Tensor& x, int64_t groups, const Tensor& w, const Tensor& b, double eps) {
  check_input("group_norm", x, 2);
  COGRAD_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  COGRAD_CHECK(x.size(1) % groups == 0,
               "Expected number of channels in input to be divisible by num_groups, but got input "
               "of shape ",
               to_string(x.sizes()), " and num_groups=", groups);
  for (const Tensor* t : {&w, &b})
    COGRAD_CHECK(!t->defined() || (t->dim() == 1 && t->numel() == x.size(1)), "Expected ",
                 t == &w ? "weight" : "bias",
                 " to be a vector of size equal to the number of channels in input, but got one of "
                 "shape ",
                 t->defined() ? to_string(t->sizes()) : "", " and input of shape ",
                 to_string(x.sizes()));
  return without_var(apply<GroupNormOp>(x, w, b, groups, eps, false));
}

struct GroupNorm {
  static constexpr OpSpec spec{
      "group_norm",
      "input, num_groups, weight=None, bias=None, eps=1e-05, cudnn_enabled=True",
      kFunction | kReduction,
      "(input - mean) / sqrt(var + eps) * weight + bias over groups of channels of each sample.",
      "T(2, 4, 3), 2, T(4), T(4); T(3, 6), 3; T(2, 4, 2, 3), 1, T(4), T(4), 0.1",
      ""};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x, int64_t groups, const Tensor& w, const Tensor& b,
                        double eps, bool) {
    return std::get<0>(group_norm(x, groups, w, b, eps));
  }
};
COGRAD_OP(GroupNorm)

struct NativeGroupNorm {
  static constexpr OpSpec spec{
      "native_group_norm", "input, weight=None, bias=None, N=1, C=1, HxW=1, group=1, eps=1e-05",
      kFunction | kReduction, "group_norm, and the mean and 1 / sqrt(var + eps) of each group.",
      "~T(2, 4, 3), T(4), T(4), 2, 4, 3, 2, 0.01"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Triple forward(const Tensor& x, const Tensor& w, const Tensor& b, int64_t n, int64_t c,
                        int64_t s, int64_t groups, double eps) {
    COGRAD_CHECK(x.dim() >= 2 && x.size(0) == n && x.size(1) == c && positions(x) == s,
                 "native_group_norm(): expected an input of N, C, HxW = ", n, ", ", c, ", ", s,
                 ", but got shape ", to_string(x.sizes()));
    Triple out = group_norm(x, groups, w, b, eps);
    auto& [y, center, scale] = out;
    const int64_t sizes[3] = {x.size(0), groups, x.size(1) / groups * positions(x)}, last[1] = {2};
    if (derived(x)) std::tie(center, scale) = moments(reshape(x, sizes), last, eps);
    if (sizes[2] == 0) center = zeros(center.sizes(), center.dtype());  // as in torch; scale is NaN
    store_like(x, w, center, scale);
    return out;
  }
};
COGRAD_OP(NativeGroupNorm)

struct InstanceNorm {
  static constexpr OpSpec spec{
      "instance_norm",
      "input, weight=None, bias=None, running_mean=None, running_var=None, use_input_stats=True, "
      "momentum=0.1, eps=1e-05, cudnn_enabled=True",
      kFunction | kReduction,
      "(input - mean) / sqrt(var + eps) * weight + bias of each channel of each sample.",
      "T(2, 3, 4), None, None, None, None, True, 0.1, 1e-3, False; "
      "~T(2, 3, 2, 2), T(3), T(3), T(3), P(3), False, 0.1, 1e-5, False"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr uint32_t kConstants = parameter_bits({3, 4});
  static Tensor forward(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& mean,
                        const Tensor& var, bool from_input, double momentum, double eps, bool) {
    check_input("instance_norm", x, 2);
    COGRAD_CHECK(from_input || (mean.defined() && var.defined()),
                 "Expected running_mean and running_var to be defined when use_input_stats is "
                 "false");
    if (!from_input) return std::get<0>(batch_norm(x, w, b, mean, var, false, momentum, eps));
    check_vectors(x.size(1), w, b, mean, var);
    if (x.size(1) == 0) return clone(x);
    const RunningStats running("instance_norm", mean, var);
    running.check_writable(x);
    const Normed out = apply<GroupNormOp>(x, w, b, x.size(1), eps, true);
    const int64_t count = positions(x);
    if (count < 2 || x.size(0) == 0 || !running.any()) return std::get<0>(out);
    const GradGuard no_grad(false);
    const Normed own = running.lack_samples_of(w, b)
                           ? apply<GroupNormOp>(x, Tensor(), Tensor(), x.size(1), eps, false)
                           : out;
    const int64_t samples[1] = {0};
    const auto average = [&](const Tensor& t) { return cograd::mean(t, IntList(samples)); };
    running.update(average(std::get<1>(own)), average(std::get<3>(own)), count, momentum);
    return std::get<0>(out);
  }
};
COGRAD_OP(InstanceNorm)

}  // namespace

}  // namespace cograd
