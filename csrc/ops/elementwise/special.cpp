// SPDX-License-Identifier: BSD-3-Clause
// Ops that choose among rows by an option, or combine them: gelu, logit, polygamma, mvlgamma.
#include <limits>

#include "ops/elementwise/rows.h"
#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

struct Gelu {
  static constexpr OpSpec spec{
      "gelu",
      "input, *, approximate='none'",
      kFunction | kNN | kElementwise,
      "input * Phi(input), Phi the normal distribution function; approximate 'tanh' avoids erf.",
      "T(3, 4, lo=-3, hi=3); T(3, 4, lo=-3, hi=3), approximate='tanh'",
      ""};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(CallForm into, const Tensor& x, std::string_view approximate) {
    COGRAD_CHECK(approximate == "none" || approximate == "tanh",
                 "approximate argument must be either none or tanh.");
    COGRAD_CHECK_NOT_IMPLEMENTED(is_floating(x.dtype()), "gelu(): not implemented for dtype ",
                                 scalar_type_name(x.dtype()), ", expected a floating one");
    return approximate == "tanh" ? into.run<rows::Row_gelu_tanh>(x) : into.run<rows::Row_gelu>(x);
  }
};
COGRAD_OP(Gelu)

struct SoftsignComplex {
  static constexpr OpSpec spec{"softsign", "input", kInternal | kInplace | kOut | kElementwise, "",
                               "none: softsign"};
  static constexpr int kSaved = 1;
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<SoftsignComplex>& ctx, const Tensor& z) {
    ctx.save(z);
    const Tensor y = z / (abs(z) + 1);
    Tensor out = ctx.out(z.sizes(), z.dtype());
    raw_copy(out, y);
    return out;
  }
  // For s z with s = 1 / (1 + |z|), both s and the part of g along z depend on |z|.
  static Tensor backward(Ctx<SoftsignComplex>& ctx, const Tensor& g) {
    const Tensor z = ctx.saved(0), s = reciprocal(abs(z) + 1);
    return g * s - sgn(z) * (square(s) * real(conj(g) * z));
  }
};

struct Softsign {
  static constexpr OpSpec spec{"softsign",
                               "input",
                               kForms | kElementwise,
                               "input / (1 + abs(input)).",
                               "T(3, 4, lo=-3, hi=3)",
                               "input / (1 + np.abs(input))"};
  static constexpr DTypeSet kDTypes = kAllTypes | kComplexTypes;
  static Tensor forward(CallForm into, const Tensor& x) {
    if (is_complex(x.dtype())) [[unlikely]]
      return into.run<SoftsignComplex>(x);
    return into.run<rows::Row_softsign>(x);
  }
};
COGRAD_OP(Softsign)

struct LogaddexpComplex {
  static constexpr OpSpec spec{"logaddexp", "input, other",
                               kInternal | kInplace | kOut | kElementwise, "", "none: logaddexp"};
  static constexpr int kSaved = 3;
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<LogaddexpComplex>& ctx, const Tensor& a, const Tensor& b) {
    ctx.save(a, b);
    const Tensor larger = maximum(real(a), real(b));
    const Tensor most = where(isfinite(larger), larger, 0.0);
    const Tensor y = log(exp(a - most) + exp(b - most)) + most;
    Tensor out = ctx.out(y.sizes(), y.dtype());
    raw_copy(out, y);
    ctx.save_output(out);
    return out;
  }
  static void backward(Ctx<LogaddexpComplex>& ctx, const Tensor& g) {
    const Tensor y = ctx.saved(2);
    if (ctx.needs(0)) ctx.grad(0) = g * exp(ctx.saved(0) - y);
    if (ctx.needs(1)) ctx.grad(1) = g * exp(ctx.saved(1) - y);
  }
};

struct Logaddexp {
  static constexpr OpSpec spec{"logaddexp",
                               "input, other",
                               kForms | kElementwise,
                               "log(exp(input) + exp(other)).",
                               "T(3, 4), T(3, 4); T(3, 1), T(1, 4)",
                               "np.log(np.exp(input) + np.exp(other))"};
  static constexpr DTypeSet kDTypes = kAllTypes | kComplexTypes;
  static Tensor forward(CallForm into, const TensorOrScalar& a, const TensorOrScalar& b) {
    const auto complex = [](const TensorOrScalar& v) {
      return v.is_tensor() && is_complex(v.tensor().dtype());
    };
    if (complex(a) || complex(b)) [[unlikely]] {
      const DType t = result_type(a, b);
      const auto tensor = [&](const TensorOrScalar& v) {
        return v.is_tensor() ? cast(v.tensor(), t) : wrapped_number(v.scalar(), t);
      };
      return into.run<LogaddexpComplex>(tensor(a), tensor(b));
    }
    return into.run<rows::Row_logaddexp>(a, b);
  }
};
COGRAD_OP(Logaddexp)

struct Logit {
  static constexpr OpSpec spec{
      "logit",
      "input, eps=None",
      kForms | kElementwise,
      "log(input / (1 - input)); eps first limits input to [eps, 1 - eps].",
      "T(3, 4, lo=0.1, hi=0.9); T(3, 4, lo=0.1, hi=0.9), 0.2",
      ""};
  static Tensor forward(CallForm into, const Tensor& x, std::optional<double> eps) {
    return into.run<rows::Row_logit>(x, eps.value_or(-std::numeric_limits<double>::infinity()));
  }
};
COGRAD_OP(Logit)

Tensor polygamma(CallForm into, int64_t n, const Tensor& x) {
  COGRAD_CHECK(n >= 0, "polygamma(n, x) does not support negative n.");
  if (n == 0) return into.run<rows::Row_digamma>(x);
  if (n == 1) return into.run<rows::Row_trigamma>(x);
  return into.run<rows::Row_polygamma_of>(x, static_cast<double>(n));
}

struct Polygamma {
  static constexpr OpSpec spec{"polygamma",
                               "n, input",
                               kFunction | kOut | kElementwise,
                               "The n-th derivative of digamma.",
                               "0, P(4); 1, P(3, 4); 2, P(4); 5, P(4)",
                               ""};
  static Tensor forward(CallForm into, int64_t n, const Tensor& x) { return polygamma(into, n, x); }
};
COGRAD_OP(Polygamma)

struct PolygammaMethod {
  static constexpr OpSpec spec{"polygamma",
                               "input, n",
                               kMethod | kInplace | kElementwise,
                               "The n-th derivative of digamma.",
                               "P(3, 4), 1; P(4), 2",
                               ""};
  static Tensor forward(CallForm into, const Tensor& x, int64_t n) { return polygamma(into, n, x); }
};
COGRAD_OP(PolygammaMethod)

// The constant is log pi^(p (p - 1) / 4), see DLMF 35.3.
struct Mvlgamma {
  static constexpr OpSpec spec{"mvlgamma",
                               "input, p",
                               kForms | kElementwise,
                               "Logarithm of the multivariate gamma function of dimension p.",
                               "T(3, 4, lo=2, hi=5), 3; T(4, lo=1, hi=3), 1",
                               ""};
  static constexpr BatchRule kBatch = through();
  static constexpr bool kCopiesTarget = true;
  static Tensor forward(const Tensor& x, int64_t p) {
    COGRAD_CHECK(p >= 1, "p has to be greater than or equal to 1");
    constexpr int64_t kMost = 1 << 16;  // each step is a pass over the tensor and a graph node
    COGRAD_CHECK(p <= kMost, "mvlgamma(): p has to be at most ", kMost, ", got ", p);
    Tensor y = lgamma(x);
    for (int64_t k = 1; k < p; ++k) y = y + lgamma(x - 0.5 * static_cast<double>(k));
    const double dim = static_cast<double>(p);
    return p == 1 ? y : y + dim * (dim - 1) / 4 * 1.14472988584940017414;
  }
};
COGRAD_OP(Mvlgamma)

}  // namespace

}  // namespace cograd
