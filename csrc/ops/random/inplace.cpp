// SPDX-License-Identifier: BSD-3-Clause
// In-place random ops: uniform_, normal_, random_, bernoulli_ and other distributions.
#include <cmath>
#include <limits>

#include "ops/compute/scalars.h"
#include "ops/declare/ops.h"
#include "ops/random/fill.h"

namespace cograd {

namespace {

// Shared by these ops: the old values are lost, so their gradient is zero. Op::fill(out,
// parameters..., generator) checks the parameters and draws.
template <class Op, class... P>
struct Refill {
  static Tensor forward(Ctx<Op>& ctx, const Tensor& self, P... parameters, Generator* g) {
    Tensor out = ctx.out(self.sizes(), self.dtype());
    Op::fill(out, parameters..., g);
    return out;
  }
  static Tensor backward(Ctx<Op>&, const Tensor& g) { return zeros_like(g); }
};

struct Uniform : Refill<Uniform, double, double> {
  static constexpr OpSpec spec{"uniform", "input, from_=0.0, to=1.0, *, generator=None",
                               kInplace | kRandom, "Overwrites with numbers uniform in [from, to).",
                               "none: random"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static void fill(const Tensor& out, double from, double to, Generator* g) {
    check_filled("uniform_", out.dtype());
    const DType t = out.dtype();
    const auto fits = [t](double v) {
      return std::isfinite(v) && representable(Scalar(v), t, OutOfRange::Raises);
    };
    COGRAD_CHECK(fits(from), "uniform_(): from is out of bounds for ", dtype_name(t), ", got ",
                 from);
    COGRAD_CHECK(fits(to), "uniform_(): to is out of bounds for ", dtype_name(t), ", got ", to);
    COGRAD_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
                 " > to=", to);
    COGRAD_CHECK(fits(to - from), "uniform_(): to - from is out of bounds for ", dtype_name(t),
                 ", got from=", from, " and to=", to);
    fill_uniform(out, g, from, to);
  }
};
COGRAD_OP(Uniform)

struct Normal : Refill<Normal, double, double> {
  static constexpr OpSpec spec{"normal", "input, mean=0.0, std=1.0, *, generator=None",
                               kInplace | kRandom, "Overwrites with normal numbers.",
                               "none: random"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static void fill(const Tensor& out, double mean, double std, Generator* g) {
    check_filled("normal_", out.dtype());
    check_std(std);
    fill_normal(out, g, mean, std);
  }
};
COGRAD_OP(Normal)

constexpr const char* kRandomDoc =
    "Overwrites with integers uniform in [from, to); without limits, in the dtype's range.";

struct RandomFull : Refill<RandomFull> {
  static constexpr OpSpec spec{"random", "input, *, generator=None", kInplace | kRandom, kRandomDoc,
                               "none: random"};
  static void fill(const Tensor& out, Generator* g) { fill_all_integers(out, g); }
};
COGRAD_OP(RandomFull)

struct RandomTo : Refill<RandomTo, int64_t> {
  static constexpr OpSpec spec{"random", "input, to, *, generator=None", kInplace | kRandom,
                               kRandomDoc, "none: random"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static void fill(const Tensor& out, int64_t to, Generator* g) {
    fill_integers("random_", out, g, 0, to);
  }
};
COGRAD_OP(RandomTo)

struct RandomFrom : Refill<RandomFrom, int64_t, int64_t> {
  static constexpr OpSpec spec{"random", "input, from_, to, *, generator=None", kInplace | kRandom,
                               kRandomDoc, "none: random"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static void fill(const Tensor& out, int64_t from, int64_t to, Generator* g) {
    fill_integers("random_", out, g, from, to);
  }
};
COGRAD_OP(RandomFrom)

struct Exponential : Refill<Exponential, double> {
  static constexpr OpSpec spec{
      "exponential", "input, lambd=1.0, *, generator=None", kInplace | kRandom,
      "Overwrites with exponential numbers of rate lambd.", "none: random"};
  static void fill(const Tensor& out, double rate, Generator* g) {
    COGRAD_CHECK(out.is_floating(),
                 "Exponential distribution is a continuous probability distribution. dtype must be "
                 "a floating point but you specified ",
                 dtype_name(out.dtype()));
    COGRAD_CHECK(rate > 0, "exponential_ expects lambda > 0.0, but found lambda=", rate);
    random_fill(
        out, g,
        [&](void* data, int64_t n, kernels::PhiloxState s) {
          kernels::random_exponential(out.dtype(), data, n, s, rate);
        },
        [&](void* data, int64_t n, kernels::MtStream& s) {
          kernels::mt_exponential(out.dtype(), data, n, s, rate);
        });
  }
};
COGRAD_OP(Exponential)

void check_probability(double p) {
  COGRAD_CHECK(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}

struct BernoulliFill : Refill<BernoulliFill, double> {
  static constexpr OpSpec spec{"bernoulli", "input, p=0.5, *, generator=None", kInplace | kRandom,
                               "Overwrites with 1 (probability p) and 0.", "none: random"};
  static void fill(const Tensor& out, double p, Generator* g) {
    check_probability(p);
    fill_bernoulli(out, g, p);
  }
};
COGRAD_OP(BernoulliFill)

struct BernoulliFillTensor {
  static constexpr OpSpec spec{"bernoulli", "input, p, *, generator=None", kInplace | kRandom,
                               "Overwrites with 1 (probabilities p, broadcast) and 0.",
                               "none: random"};
  static Tensor forward(Ctx<BernoulliFillTensor>& ctx, const Tensor& self, const Tensor& p,
                        Generator* g) {
    Dims shape;
    COGRAD_CHECK(broadcast_shapes(self.sizes(), p.sizes(), shape) && same(shape, self.sizes()),
                 "bernoulli_(): the shape of p ", to_string(p.sizes()),
                 " must broadcast to the tensor's shape ", to_string(self.sizes()));
    const Tensor chances = bernoulli_chances("bernoulli_", p);
    Tensor wide = empty(self.sizes(), chances.dtype());
    raw_copy(wide, chances);
    Tensor out = ctx.out(self.sizes(), self.dtype());
    fill_bernoulli(out, g, wide);
    return out;
  }
  static void backward(Ctx<BernoulliFillTensor>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = zeros_like(g);
    if (ctx.needs(1)) ctx.grad(1) = zeros_like(g);
  }
};
COGRAD_OP(BernoulliFillTensor)

// Draws from a distribution that is a function of uniform or normal numbers.
void fill_transformed(const Tensor& out, Generator* g, const kernels::DrawRule& rule) {
  random_fill(
      out, g,
      [&](void* data, int64_t n, kernels::PhiloxState s) {
        const Tensor draws = empty(Dims{n}, DType::Float64);
        if (rule.kind == kernels::DrawKind::LogNormal)
          kernels::random_normal(DType::Float64, draws.bytes(), n, s, 0, 1);
        else
          kernels::random_uniform(DType::Float64, draws.bytes(), n, s, 0, 1);
        kernels::transform_draws(out.dtype(), rule, draws.data<double>(), n, data);
      },
      [&](void* data, int64_t n, kernels::MtStream& s) {
        kernels::mt_transformed(out.dtype(), data, n, s, rule);
      });
}

struct LogNormal : Refill<LogNormal, double, double> {
  static constexpr OpSpec spec{"log_normal", "input, mean=1.0, std=2.0, *, generator=None",
                               kInplace | kRandom, "Overwrites with exp of normal numbers.",
                               "none: random"};
  static void fill(const Tensor& out, double mean, double std, Generator* g) {
    check_floating("log_normal_", out.dtype());
    COGRAD_CHECK(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
    fill_transformed(out, g, {kernels::DrawKind::LogNormal, mean, std});
  }
};
COGRAD_OP(LogNormal)

struct Geometric : Refill<Geometric, double> {
  static constexpr OpSpec spec{"geometric", "input, p, *, generator=None", kInplace | kRandom,
                               "Overwrites with the number of trials up to the first success.",
                               "none: random"};
  static void fill(const Tensor& out, double p, Generator* g) {
    COGRAD_CHECK(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
    COGRAD_CHECK_NOT_IMPLEMENTED(out.dtype() != DType::Bool,
                                 "geometric_(): not implemented for dtype bool");
    const double rate = std::log1p(-p);
    fill_transformed(out, g, {kernels::DrawKind::Geometric, rate, 1 / rate});
  }
};
COGRAD_OP(Geometric)

struct Cauchy : Refill<Cauchy, double, double> {
  static constexpr OpSpec spec{"cauchy", "input, median=0.0, sigma=1.0, *, generator=None",
                               kInplace | kRandom, "Overwrites with Cauchy numbers.",
                               "none: random"};
  static void fill(const Tensor& out, double median, double sigma, Generator* g) {
    COGRAD_CHECK(out.is_floating(),
                 "Cauchy distribution is a continuous probability distribution. dtype must be a "
                 "floating point but you specified ",
                 dtype_name(out.dtype()));
    COGRAD_CHECK(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
    fill_transformed(out, g, {kernels::DrawKind::Cauchy, median, sigma});
  }
};
COGRAD_OP(Cauchy)

}  // namespace

}  // namespace cograd
