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
  static constexpr DTypeSet kDTypes = kFloatTypes | kComplexTypes;
  static Tensor forward(const Tensor& a, const Tensor& b, double p) {
    return vector_norm(a - b, p, std::nullopt, false);
  }
};
COGRAD_OP(Dist)

struct Cdist {
  static constexpr OpSpec spec{
      "cdist",
      "x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary'",
      kFunction | kOther,
      "p-norm distance between every row of x1 (..., P, M) and of x2 (..., R, M): (..., P, R).",
      "T(3, 4), T(2, 4); T(2, 3, 4), T(2, 5, 4), 3.0",
      "np.sum(np.abs(x1[..., :, None, :] - x2[..., None, :, :])**p, axis=-1)**(1 / p)"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  // How the distances are computed is an optimisation; there is one way here, the exact one.
  static Tensor forward(const Tensor& a, const Tensor& b, double p, std::string_view mode) {
    COGRAD_CHECK_VALUE(mode == "use_mm_for_euclid_dist_if_necessary" ||
                           mode == "use_mm_for_euclid_dist" ||
                           mode == "donot_use_mm_for_euclid_dist",
                       mode, " is not a valid value for compute_mode");
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

struct CosineSimilarity {
  static constexpr OpSpec spec{
      "cosine_similarity",
      "x1, x2, dim=1, eps=1e-08",
      kFunction | kDecomposition,
      "x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along dim; the shapes broadcast.",
      "T(3, 4), T(3, 4); T(3, 4), T(4), -1; T(3, 1), T(3, 4); T(2, 3), T(4, 1, 3), 0",
      "(lambda a, b: np.sum(a * b, dim) / np.sqrt(np.sum(a * a, dim) * np.sum(b * b, dim)))"
      "(*np.broadcast_arrays(x1, x2))"};
  static constexpr DTypeSet kDTypes = kFloatTypes;
  static Tensor forward(const Tensor& x1, const Tensor& x2, Dim dim, double eps) {
    const DType t = result_type(x1, x2);
    COGRAD_CHECK(is_floating(t),
                 "cosine_similarity(): expected common dtype to be floating point, "
                 "yet common dtype is ",
                 scalar_type_name(t));
    const std::array<Tensor, 2> wide = broadcast(cast(x1, t), cast(x2, t));
    const Tensor &a = wide[0], &b = wide[1];
    return sum(unit(a, dim, eps) * unit(b, dim, eps), IntList(&dim.value, 1));
  }

 private:
  // The norms are those of the broadcast vectors: a repeated element counts each time.
  static std::array<Tensor, 2> broadcast(const Tensor& a, const Tensor& b) {
    Dims joint;
    COGRAD_CHECK(broadcast_shapes(a.sizes(), b.sizes(), joint), "cosine_similarity(): shapes ",
                 to_string(a.sizes()), " and ", to_string(b.sizes()), " do not broadcast");
    return {expand(a, joint), expand(b, joint)};
  }
  static Tensor unit(const Tensor& x, int64_t dim, double eps) {
    return x / clamp_min(vector_norm(x, 2, IntList(&dim, 1), true), eps);
  }
};
COGRAD_OP(CosineSimilarity)

}  // namespace

}  // namespace cograd
