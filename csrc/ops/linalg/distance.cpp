// SPDX-License-Identifier: BSD-3-Clause
// Distances: dist between two tensors, cdist between all rows of two.
#include "ops/linalg/linalg.h"

namespace cograd {

namespace {

struct Dist {
  static constexpr OpSpec spec{"dist",
                               "input, other, p=2.0",
                               kFunctional | kReduction,
                               "p-norm of input - other.",
                               "T(3, 4), T(3, 4); T(4), T(3, 4), 3.0",
                               "np.sum(np.abs(input - other)**p)**(1 / p)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& a, const Tensor& b, double p) {
    return vector_norm(a - b, p, std::nullopt, false);
  }
};
COGRAD_OP(Dist)

struct Cdist {
  static constexpr OpSpec spec{
      "cdist",
      "x1, x2, p=2.0",
      kFunction | kOther,
      "p-norm distance between every row of x1 (..., P, M) and of x2 (..., R, M): (..., P, R).",
      "T(3, 4), T(2, 4); T(2, 3, 4), T(2, 5, 4), 3.0",
      "np.sum(np.abs(x1[..., :, None, :] - x2[..., None, :, :])**p, axis=-1)**(1 / p)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& a, const Tensor& b, double p) {
    COGRAD_CHECK(a.dim() >= 2, "cdist only supports at least 2D tensors, X1 got: ", a.dim(), "D");
    COGRAD_CHECK(b.dim() >= 2, "cdist only supports at least 2D tensors, X2 got: ", b.dim(), "D");
    COGRAD_CHECK(a.size(-1) == b.size(-1),
                 "X1 and X2 must have the same number of columns. X1: ", a.size(-1),
                 " X2: ", b.size(-1));
    COGRAD_CHECK(p >= 0, "cdist only supports non-negative p values");
    const Tensor difference = unsqueeze(a, -2) - unsqueeze(b, -3);
    const int64_t last = -1;
    return vector_norm(difference, p, IntList(&last, 1), false);
  }
};
COGRAD_OP(Cdist)

}  // namespace

}  // namespace cograd
