// SPDX-License-Identifier: BSD-3-Clause
// Determinants from LU factors. Gradients: M. B. Giles, "An extended collection of matrix
// derivative results" (2008), 2.2.
#include <cmath>

#include "kernels/lapack.h"
#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

// Sign and log|det| from the factors, and the determinant.
struct Determinants {
  Tensor det, sign, logabs;
};

template <class T>
T sign_of(T u) {
  return std::isnan(u) ? u : static_cast<T>((u > 0) - (u < 0));
}
template <class T>
Complex<T> sign_of(Complex<T> u) {
  const T size = std::hypot(u.re, u.im);
  return size == 0 ? Complex<T>(0) : u / size;
}
template <class T>
T size_of(T u) {
  return std::abs(u);
}
template <class T>
T size_of(Complex<T> u) {
  return std::hypot(u.re, u.im);
}

Determinants determinants(const Tensor& a) {
  const Factors f = factored(a);
  const int64_t n = a.size(-1);
  Determinants d{empty(batch_of(a), a.dtype()), empty(batch_of(a), a.dtype()),
                 empty(batch_of(a), real_dtype(a.dtype()))};
  each_matrix(a.dtype(), f.info.numel(), n, [&](auto tag, int64_t i) {
    using T = typename decltype(tag)::type;
    using R = kernels::real_of<T>;
    T det = 1, sign = 1;
    R logabs = 0;
    for (int64_t k = 0; k < n; ++k) {
      const T u = f.lu.data<T>()[i * n * n + k * n + k];
      const bool swapped = f.pivots.data<int32_t>()[i * n + k] != k + 1;
      det *= swapped ? -u : u;
      sign *= sign_of(swapped ? -u : u);
      logabs += std::log(size_of(u));
    }
    d.det.data<T>()[i] = det;
    d.sign.data<T>()[i] = sign;
    d.logabs.data<R>()[i] = logabs;
  });
  return d;
}

Tensor per_matrix(const Tensor& x) { return unsqueeze(unsqueeze(x, -1), -1); }

// The matrix of cofactors by the SVD A = U S V^H, which a singular A has too:
// det(U V^H) conj(U diag(prod_{j != i} s_j) V^H).
Tensor cofactors(const Tensor& a) {
  auto [u, s, vh] = svd(a, false);
  const Tensor sign = determinants(matmul(detach(u), detach(vh))).sign;
  const Tensor others = product_of_others(s, DimMask{1} << (s.dim() - 1));
  return per_matrix(sign) * conj(matmul(u * unsqueeze(others, -2), vh));
}

struct LinalgDet {
  static constexpr OpSpec spec{"linalg_det",
                               "A",
                               kInternal | kOut | kDecomposition,
                               "The determinant of each matrix.",
                               "S(3); S(2, 3)",
                               "np.linalg.det(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr bool kHolomorphic = true;
  static constexpr const char* kNodeName = "LinalgDetBackward0";
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = leading(2);
  static Tensor forward(Ctx<LinalgDet>& ctx, const Tensor& a) {
    check_square("linalg.det", a);
    ctx.save(a);
    Tensor det = determinants(a).det;
    ctx.save_output(det);
    return det;
  }
  static Tensor backward(Ctx<LinalgDet>& ctx, const Tensor& g) {
    const Tensor a = ctx.saved(0), det = ctx.saved(1);
    if (any_zero(det)) return per_matrix(g) * cofactors(a);
    return per_matrix(g * det) * matrix_t(inverse(a));
  }

 private:
  static bool any_zero(const Tensor& det) {
    const Tensor values = raw_contiguous(det);
    bool any = false;
    dispatch_matrix(det.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* v = values.data<T>();
      any = std::any_of(v, v + values.numel(), [](T x) { return x == T(0); });
    });
    return any;
  }
};
COGRAD_OP(LinalgDet)

struct LinalgSlogdet {
  static constexpr OpSpec spec{"linalg_slogdet",
                               "A",
                               kInternal | kOut | kDecomposition,
                               "Sign and logarithm of the absolute value of the determinant.",
                               "S(3); S(2, 3)",
                               "np.linalg.slogdet(x)",
                               "sign, logabsdet"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static constexpr int kSaved = 2;
  static constexpr BatchRule kBatch = leading(2);
  static std::tuple<Tensor, Tensor> forward(Ctx<LinalgSlogdet>& ctx, const Tensor& a) {
    check_square("linalg.slogdet", a);
    ctx.save(a);
    const Determinants d = determinants(a);
    if (is_complex(a.dtype())) ctx.save_output(d.sign, 0);
    return {d.sign, d.logabs};
  }
  // d log|det A| = Re tr(A^-1 dA), and Im tr(A^-1 dA) turns the sign, which is constant where a
  // real one is smooth.
  static void backward(Ctx<LinalgSlogdet>& ctx, std::span<Tensor> gs) {
    const Tensor a = ctx.saved(0);
    const bool turned = is_complex(a.dtype()) && gs[0].defined();
    if (!gs[1].defined() && !turned) return;
    Tensor g = gs[1];
    if (turned) {
      const Tensor turn = imag(gs[0] * conj(ctx.saved(1)));
      g = complex_of(g.defined() ? g : zeros_like(turn), turn);
    }
    ctx.grad(0) = per_matrix(g) * matrix_h(inverse_or_nan(a));
  }
};
COGRAD_OP(LinalgSlogdet)

struct Det {
  static constexpr OpSpec spec{
      "det",  "input",           kFunctional | kDecomposition, "The determinant of each matrix.",
      "S(3)", "np.linalg.det(x)"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a) { return apply<LinalgDet>(a); }
};
COGRAD_OP(Det)

struct Slogdet {
  static constexpr OpSpec spec{"slogdet",
                               "input",
                               kFunctional | kOut | kDecomposition,
                               "Sign and logarithm of the absolute value of the determinant.",
                               "S(3)",
                               "np.linalg.slogdet(x)",
                               "sign, logabsdet"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static std::tuple<Tensor, Tensor> forward(const Tensor& a) { return apply<LinalgSlogdet>(a); }
};
COGRAD_OP(Slogdet)

struct Logdet {
  static constexpr OpSpec spec{
      "logdet",
      "input",
      kFunctional | kDecomposition,
      "The logarithm of the determinant; NaN where a real one is negative.",
      "S(3); S(2, 3)",
      "np.log(np.linalg.det(x))"};
  static constexpr DTypeSet kDTypes = kMatrixTypes;
  static Tensor forward(const Tensor& a) {
    auto [sign, logabs] = apply<LinalgSlogdet>(a);
    if (is_complex(a.dtype())) return log(sign) + logabs;
    return where(eq(sign, -1), std::nan(""), logabs);
  }
};
COGRAD_OP(Logdet)

}  // namespace

}  // namespace cograd
