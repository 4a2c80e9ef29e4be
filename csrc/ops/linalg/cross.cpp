// SPDX-License-Identifier: BSD-3-Clause
// Cross products of the vectors along one dim.
#include "ops/linalg/linalg.h"

namespace cograd {

namespace {

// Permutes the vectors (x, y, z) along dim to (y, z, x) or (z, x, y).
Tensor turned(const Tensor& x, int64_t dim, int64_t by) {
  return roll(x, IntList(&by, 1), IntList(&dim, 1));
}

struct LinalgCross {
  static constexpr OpSpec spec{"linalg_cross",
                               "input, other, *, dim=-1",
                               kInternal | kOut | kOther | kOutApart,
                               "Cross product of the vectors of length 3 along dim.",
                               "T(4, 3), T(4, 3); T(3, 4), T(3, 1), dim=0; T(3), T(3)",
                               "np.cross(input, other, axis=p0)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr int kSaved = 2;
  struct State {
    int dim;
  };
  static constexpr TangentRule kTangent = multilinear({0, 1});
  static constexpr BatchRule kBatch = by_aligned_dims();
  static Tensor forward(Ctx<LinalgCross>& ctx, const Tensor& a, const Tensor& b, Dim dim) {
    COGRAD_CHECK(a.dim() == b.dim(),
                 "linalg.cross: inputs must have the same number of dimensions.");
    const int d = wrap_dim(dim, a.dim());
    COGRAD_CHECK(a.dim() > 0 && a.size(d) == 3 && b.size(d) == 3, "linalg.cross: inputs dimension ",
                 dim.value, " must have length 3. Got ", a.dim() > 0 ? a.size(d) : 1, " and ",
                 a.dim() > 0 ? b.size(d) : 1);
    ctx->dim = d;
    ctx.save(a, b);
    return turned(a, d, -1) * turned(b, d, 1) - turned(a, d, 1) * turned(b, d, -1);
  }
  // Uses the triple product: g . (da x b) = da . (b x g) and g . (a x db) = db . (g x a).
  static void backward(Ctx<LinalgCross>& ctx, const Tensor& g) {
    const Tensor a = ctx.saved(0), b = ctx.saved(1);
    const int64_t dim = ctx->dim;
    if (ctx.needs(0)) ctx.grad(0) = apply<LinalgCross>(expand(b, g.sizes()), g, dim);
    if (ctx.needs(1)) ctx.grad(1) = apply<LinalgCross>(g, expand(a, g.sizes()), dim);
  }
};
COGRAD_OP(LinalgCross)

struct Cross {
  static constexpr OpSpec spec{"cross",
                               "input, other, dim=None",
                               kFunctional | kOut | kOther | kOutApart | kExactOut,
                               "Cross product of the vectors along dim, by default the first dim "
                               "of size 3.",
                               "T(4, 3), T(4, 3); T(3, 4), T(3, 1), 0",
                               ""};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static Tensor forward(const Tensor& a, const Tensor& b, std::optional<Dim> dim) {
    return apply<LinalgCross>(a, b, dim ? *dim : Dim(first_of_three(a)));
  }

 private:
  static int64_t first_of_three(const Tensor& x) {
    for (int d = 0; d < x.dim(); ++d)
      if (x.size(d) == 3) return d;
    detail::fail(ErrorKind::Runtime, "no dimension of size 3 in input");
  }
};
COGRAD_OP(Cross)

}  // namespace

}  // namespace cograd
