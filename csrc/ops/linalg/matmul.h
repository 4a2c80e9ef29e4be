// SPDX-License-Identifier: BSD-3-Clause
// How matrix operands are handed to gemm, shared by the product ops.
#pragma once
#include "kernels/gemm.h"
#include "ops/reduce/reduce.h"

namespace cograd {

// The last two dims of a tensor as gemm takes them: row length ld, stored transposed or not.
// Tensors that are neither row- nor column-major are copied.
struct MatrixOperand {
  MatrixOperand(const Tensor& x, bool transposed);
  const Tensor& tensor() const { return copy.defined() ? copy : *source; }
  const Tensor* source;
  Tensor copy;  // defined if the source was not usable as it lies
  const char* data;
  int64_t ld;
  bool trans;          // op(stored) is what the product uses
  int64_t rows, cols;  // of op(x)
};

[[noreturn]] void fail_product_dtype(const Tensor& a, const Tensor& b);
[[noreturn]] void fail_product_shape(int64_t m, int64_t k, int64_t rows, int64_t n);

inline void check_product(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) [[unlikely]]
    fail_product_dtype(a, b);
}

// c (contiguous m x n) = alpha op(a) op(b) + beta c; a and b are matrices.
void raw_mm(const Tensor& a, bool ta, const Tensor& b, bool tb, double alpha, double beta,
            const Tensor& c);

// The same over broadcast batch dims; c is contiguous.
void raw_bmm(const Tensor& a, bool ta, const Tensor& b, bool tb, double alpha, double beta,
             const Tensor& c, IntList batch);
void check_bmm(const Tensor& a, const Tensor& b);
[[noreturn]] void fail_mv(const Tensor& a, const Tensor& x);

// The differentiable A x (A^T x when transposed) for a matrix and a vector, and x y^T.
Tensor mv_t(const Tensor& a, const Tensor& x, bool transposed);
Tensor dot(const Tensor& x, const Tensor& y);
Tensor outer(const Tensor& x, const Tensor& y);

}  // namespace cograd
