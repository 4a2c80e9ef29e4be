// SPDX-License-Identifier: BSD-3-Clause
// Random ops whose parameters are tensors: bernoulli, multinomial, normal.
#include <limits>

#include "ops/declare/ops.h"
#include "ops/random/fill.h"

namespace cograd {

Tensor bernoulli_chances(const char* op, const Tensor& p) {
  check_floating(op, p.dtype());
  const Tensor dense = raw_contiguous(p);
  double bad = 0;
  COGRAD_CHECK(all_between(dense, 0, 1, &bad), op, "(): expected probabilities in [0, 1], got ",
               bad);
  return dense;
}

namespace {

struct Bernoulli {
  static constexpr OpSpec spec{"bernoulli", "input, *, generator=None",
                               kFunctional | kOut | kRandom,
                               "1 with the probabilities in input, else 0.", "none: random"};
  static Tensor forward(Ctx<Bernoulli>& ctx, const Tensor& p, Generator* g) {
    const Tensor chances = bernoulli_chances("bernoulli", p);
    Tensor out = ctx.out(p.sizes(), p.dtype());
    fill_bernoulli(out, g, chances);
    return out;
  }
  static Tensor backward(Ctx<Bernoulli>&, const Tensor& g) { return zeros_like(g); }
};
COGRAD_OP(Bernoulli)

struct BernoulliP {
  static constexpr OpSpec spec{"bernoulli", "input, p, *, generator=None", kFunctional | kRandom,
                               "1 with probability p, else 0, in input's shape and dtype.",
                               "none: random"};
  static Tensor forward(Ctx<BernoulliP>&, const Tensor& x, double p, Generator* g) {
    COGRAD_CHECK(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
    Tensor out = empty_preserving(x, x.dtype());
    fill_bernoulli(out, g, p);
    return out;
  }
  static Tensor backward(Ctx<BernoulliP>&, const Tensor& g) { return zeros_like(g); }
};
COGRAD_OP(BernoulliP)

struct Multinomial {
  static constexpr OpSpec spec{
      "multinomial", "input, num_samples, replacement=False, *, generator=None",
      kFunctional | kOut | kNondiff | kRandom | kExactOut,
      "Column numbers drawn with the weights in each row of input, [rows, num_samples].",
      "none: random"};
  static Tensor forward(Ctx<Multinomial>&, const Tensor& x, int64_t samples, bool replacement,
                        Generator* g) {
    COGRAD_CHECK(x.dim() == 1 || x.dim() == 2, "prob_dist must be 1 or 2 dim, got ", x.dim());
    COGRAD_CHECK(
        x.is_floating(),
        "multinomial only supports floating-point dtypes for input, got: ", dtype_name(x.dtype()));
    COGRAD_CHECK(samples > 0, "cannot sample n_sample <= 0 samples, got ", samples);
    const int64_t n = x.size(-1);
    COGRAD_CHECK(replacement || samples <= n,
                 "cannot sample n_sample > prob_dist.size(-1) samples without replacement, got ",
                 samples, " samples of ", n);
    const Tensor weights = raw_contiguous(x);
    const int64_t rows = x.dim() == 2 ? x.size(0) : 1;
    check_weights(weights, rows, n, replacement ? 1 : samples);
    const Tensor out = empty(x.dim() == 2 ? Dims{rows, samples} : Dims{samples}, DType::Int64);
    if (out.numel() == 0) return out;
    Generator& generator = generator_or_default(g);
    const int64_t draws = rows * (replacement ? samples : n);
    HeavyScope heavy(draws);
    generator.draw(
        static_cast<uint64_t>(draws) / 2 + 16,
        [&](kernels::PhiloxState state) {
          kernels::random_multinomial(x.dtype(), weights.bytes(), rows, n, samples, replacement,
                                      out.data<int64_t>(), state);
        },
        [&](kernels::MtStream& stream) {
          kernels::mt_multinomial(x.dtype(), weights.bytes(), rows, n, samples, replacement,
                                  out.data<int64_t>(), stream);
        });
    return out;
  }

 private:
  static void check_weights(const Tensor& w, int64_t rows, int64_t n, int64_t needed) {
    double bad = 0;
    COGRAD_CHECK(all_between(w, 0, std::numeric_limits<double>::max(), &bad),
                 "probability tensor contains either `inf`, `nan` or element < 0");
    int64_t positive = 0;
    const int64_t r = kernels::scarce_row(w.dtype(), w.bytes(), rows, n, needed, &positive);
    if (r == rows) return;
    COGRAD_CHECK(positive > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
    detail::fail(ErrorKind::Runtime,
                 "invalid multinomial distribution (with replacement=False, not enough "
                 "non-negative category to sample): row ",
                 r, " has ", positive, " positive weights for ", needed, " samples");
  }
};
COGRAD_OP(Multinomial)

struct NormalTensor {
  static constexpr OpSpec spec{
      "normal", "mean, std=1.0, *, generator=None", kFunction | kOut | kRandom,
      "Normal numbers with means and standard deviations, broadcast.", "none: random"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(Ctx<NormalTensor>& ctx, const TensorOrScalar& mean,
                        const TensorOrScalar& std, Generator* g) {
    COGRAD_CHECK_TYPE(mean.is_tensor() || std.is_tensor(),
                      "normal(): mean or std must be a tensor when no size is given");
    if (mean.is_tensor()) check_filled("normal", mean.tensor().dtype());
    if (std.is_tensor()) {
      COGRAD_CHECK(!is_complex(std.tensor().dtype()),
                   "normal expects standard deviation to be non-complex");
      check_floating("normal", std.tensor().dtype());
      double bad = 0;
      COGRAD_CHECK(all_between(raw_contiguous(std.tensor()), 0,
                               std::numeric_limits<double>::infinity(), &bad),
                   "normal expects all elements of std >= 0.0");
    } else {
      check_std(std.scalar().to_double());
    }
    const IntList a = mean.is_tensor() ? mean.tensor().sizes() : IntList();
    const IntList b = std.is_tensor() ? std.tensor().sizes() : IntList();
    Dims shape;
    COGRAD_CHECK(broadcast_shapes(a, b, shape), "normal(): the shapes of mean ", to_string(a),
                 " and std ", to_string(b), " do not broadcast");
    const Tensor z = empty(shape, result_type(mean, std));
    fill_normal(z, g, 0, 1);
    CtxBase plain;
    const Tensor spread = binary_op(plain, kernels::BinaryOp::mul, z, std, Rule::Same, "normal");
    return binary_op(ctx, kernels::BinaryOp::add, spread, mean, Rule::Same, "normal");
  }
  static void backward(Ctx<NormalTensor>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = zeros_like(g);
    if (ctx.needs(1)) ctx.grad(1) = zeros_like(real(g));
  }
};
COGRAD_OP(NormalTensor)

}  // namespace

}  // namespace cograd
