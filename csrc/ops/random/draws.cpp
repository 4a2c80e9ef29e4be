// SPDX-License-Identifier: BSD-3-Clause
// Ops that draw with one or two parameters per element: poisson, binomial, gamma, Dirichlet, von
// Mises; and derivatives of the samples with respect to the parameters.
#include <limits>

#include "kernels/random/random_draws.h"
#include "ops/declare/ops.h"
#include "ops/random/fill.h"

namespace cograd {

namespace {

// Calls draw(out, n, state) on contiguous memory; each element uses its own block of the stream.
template <class F>
Tensor drawn(CtxBase& ctx, IntList sizes, DType t, Generator* generator, const F& draw) {
  const Tensor out = ctx.out(sizes, t);
  const int64_t n = out.numel();
  if (n == 0) return out;
  Generator& g = generator_or_default(generator);
  const Tensor dense = out.is_contiguous() ? out : empty(out.sizes(), t);
  if (g.stream() == Stream::Philox) [[likely]] {
    draw(static_cast<void*>(dense.bytes()), n,
         kernels::DrawSource{g.take(static_cast<uint64_t>(n))});
  } else {
    HeavyScope heavy(16 * n);  // releases the GIL before the generator is locked
    g.draw(
        static_cast<uint64_t>(n),
        [&](kernels::PhiloxState s) { draw(static_cast<void*>(dense.bytes()), n, {s}); },
        [&](kernels::MtStream& s) { draw(static_cast<void*>(dense.bytes()), n, {{}, &s}); });
  }
  if (!dense.is(out)) raw_copy(out, dense);
  return out;
}

struct Poisson {
  static constexpr OpSpec spec{"poisson", "input, generator=None", kFunction | kOut | kRandom,
                               "Poisson samples whose rates are the elements of input.",
                               "none: random"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(Ctx<Poisson>& ctx, const Tensor& rate, Generator* g) {
    check_floating("poisson", rate.dtype());
    const Tensor dense = raw_contiguous(rate);
    double bad = 0;
    COGRAD_CHECK(all_between(dense, 0, std::numeric_limits<double>::infinity(), &bad),
                 "invalid Poisson rate, expected rate to be non-negative");
    return drawn(ctx, rate.sizes(), rate.dtype(), g,
                 [&](void* out, int64_t n, const kernels::DrawSource& s) {
                   kernels::draw_poisson(rate.dtype(), out, dense.bytes(), n, s);
                 });
  }
  static Tensor backward(Ctx<Poisson>&, const Tensor& g) { return zeros_like(g); }
};
COGRAD_OP(Poisson)

struct Binomial {
  static constexpr OpSpec spec{
      "binomial", "count, prob, generator=None", kFunction | kOut | kNondiff | kRandom,
      "Numbers of successes in count trials with probability prob, broadcast.", "none: random"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(Ctx<Binomial>& ctx, const Tensor& count, const Tensor& prob, Generator* g) {
    check_trials("count", count.dtype());
    check_trials("prob", prob.dtype());
    COGRAD_CHECK(count.dtype() == prob.dtype(), "binomial(): count and prob must have one dtype, ",
                 "got ", dtype_name(count.dtype()), " and ", dtype_name(prob.dtype()));
    Dims shape;
    COGRAD_CHECK(broadcast_shapes(count.sizes(), prob.sizes(), shape),
                 "binomial(): the shapes of count ", to_string(count.sizes()), " and prob ",
                 to_string(prob.sizes()), " do not broadcast");
    const Tensor n = raw_contiguous(expand(count, shape));
    const Tensor p = raw_contiguous(expand(prob, shape));
    return drawn(ctx, shape, count.dtype(), g,
                 [&](void* out, int64_t size, const kernels::DrawSource& s) {
                   kernels::draw_binomial(count.dtype(), out, n.bytes(), p.bytes(), size, s);
                 });
  }

 private:
  static void check_trials(const char* name, DType t) {
    COGRAD_CHECK_VALUE(is_floating(t), "binomial only supports floating-point dtypes for ", name,
                       ", got: ", scalar_type_name(t));
  }
};
COGRAD_OP(Binomial)

// Raises: the derivative of a sample with respect to its parameter is not differentiable again.
[[noreturn]] void fail_second(const char* op) {
  detail::fail(ErrorKind::NotImplemented, "the derivative for '", op, "' is not implemented.");
}

struct StandardGammaGrad {
  static constexpr OpSpec spec{"_standard_gamma_grad", "input, output", kInternal | kElementwise,
                               "d output / d input of output = _standard_gamma(input).",
                               "none: by _standard_gamma"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<StandardGammaGrad>&, const Tensor& alpha, const Tensor& x) {
    check_floating("_standard_gamma_grad", alpha.dtype());
    check_matching("_standard_gamma_grad", alpha, x);
    const Tensor a = raw_contiguous(alpha), at = raw_contiguous(x);
    Tensor out = empty(alpha.sizes(), alpha.dtype());
    kernels::gamma_sample_grad(a.dtype(), out.bytes(), a.bytes(), at.bytes(), a.numel());
    return out;
  }
  static void backward(Ctx<StandardGammaGrad>&, const Tensor&) {
    fail_second("_standard_gamma_grad");
  }
  static void check_matching(const char* op, const Tensor& a, const Tensor& b) {
    COGRAD_CHECK(a.dtype() == b.dtype() && same(a.sizes(), b.sizes()), op,
                 "(): expected tensors of one dtype and shape, got ", dtype_name(a.dtype()), " ",
                 to_string(a.sizes()), " and ", dtype_name(b.dtype()), " ", to_string(b.sizes()));
  }
};
COGRAD_OP(StandardGammaGrad)

struct StandardGamma {
  static constexpr OpSpec spec{
      "_standard_gamma", "input, generator=None", kInternal | kRandom,
      "Gamma samples with scale 1, whose shape parameters are the elements of input.",
      "none: random"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr int kSaved = 2;
  static Tensor forward(Ctx<StandardGamma>& ctx, const Tensor& alpha, Generator* g) {
    check_floating("_standard_gamma", alpha.dtype());
    const Tensor dense = raw_contiguous(alpha);
    Tensor out = drawn(ctx, alpha.sizes(), alpha.dtype(), g,
                       [&](void* to, int64_t n, const kernels::DrawSource& s) {
                         kernels::draw_gamma(alpha.dtype(), to, dense.bytes(), n, s);
                       });
    ctx.save(alpha);
    ctx.save_output(out);
    return out;
  }
  static Tensor backward(Ctx<StandardGamma>& ctx, const Tensor& g) {
    return mul(g, apply<StandardGammaGrad>(ctx.saved(0), ctx.saved(1)));
  }
};
COGRAD_OP(StandardGamma)

struct DirichletGrad {
  static constexpr OpSpec spec{
      "_dirichlet_grad", "x, alpha, total", kInternal | kElementwise,
      "d x / d alpha / (1 - x) of x ~ Beta(alpha, total - alpha), at a fixed level.",
      "none: by _sample_dirichlet"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<DirichletGrad>&, const Tensor& x, const Tensor& alpha,
                        const Tensor& total) {
    check_floating("_dirichlet_grad", x.dtype());
    StandardGammaGrad::check_matching("_dirichlet_grad", x, alpha);
    StandardGammaGrad::check_matching("_dirichlet_grad", x, total);
    const Tensor at = raw_contiguous(x), a = raw_contiguous(alpha), sum = raw_contiguous(total);
    Tensor out = empty(x.sizes(), x.dtype());
    kernels::dirichlet_sample_grad(x.dtype(), out.bytes(), at.bytes(), a.bytes(), sum.bytes(),
                                   x.numel());
    return out;
  }
  static void backward(Ctx<DirichletGrad>&, const Tensor&) { fail_second("_dirichlet_grad"); }
};
COGRAD_OP(DirichletGrad)

struct SampleDirichlet {
  static constexpr OpSpec spec{"_sample_dirichlet", "input, generator=None", kInternal | kRandom,
                               "Dirichlet samples with concentrations along the last dim.",
                               "none: random"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static constexpr int kSaved = 2;
  static Tensor forward(Ctx<SampleDirichlet>& ctx, const Tensor& alpha, Generator* g) {
    check_floating("_sample_dirichlet", alpha.dtype());
    const Tensor dense = raw_contiguous(alpha);
    const int64_t size = alpha.dim() == 0 ? 1 : alpha.size(-1);
    Tensor out =
        drawn(ctx, alpha.sizes(), alpha.dtype(), g,
              [&](void* to, int64_t n, const kernels::DrawSource& s) {
                kernels::draw_dirichlet(alpha.dtype(), to, dense.bytes(), n / size, size, s);
              });
    ctx.save(alpha);
    ctx.save_output(out);
    return out;
  }
  // Component i moves along its marginal, Beta(alpha_i, total - alpha_i); the other components
  // shrink or grow proportionally. (Jankowiak and Obermeyer, "Pathwise derivatives beyond the
  // reparameterization trick", 2018.)
  static Tensor backward(Ctx<SampleDirichlet>& ctx, const Tensor& g) {
    const Tensor alpha = ctx.saved(0), x = ctx.saved(1);
    if (alpha.dim() == 0) return zeros_like(g);
    const int64_t last[] = {-1};
    const Tensor total = expand(sum(alpha, last, true), alpha.sizes());
    return mul(apply<DirichletGrad>(x, alpha, total), sub(g, sum(mul(x, g), last, true)));
  }
};
COGRAD_OP(SampleDirichlet)

struct SampleVonMises {
  static constexpr OpSpec spec{
      "_sample_von_mises", "input, generator=None", kInternal | kNondiff | kRandom,
      "Von Mises angles about 0 whose concentrations are input's elements.", "none: random"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(Ctx<SampleVonMises>& ctx, const Tensor& concentration, Generator* g) {
    check_floating("_sample_von_mises", concentration.dtype());
    const Tensor dense = raw_contiguous(concentration);
    return drawn(ctx, concentration.sizes(), concentration.dtype(), g,
                 [&](void* out, int64_t n, const kernels::DrawSource& s) {
                   kernels::draw_von_mises(dense.dtype(), out, dense.bytes(), n, s);
                 });
  }
};
COGRAD_OP(SampleVonMises)

}  // namespace

}  // namespace cograd
