// SPDX-License-Identifier: BSD-3-Clause
// Prepares matrix operands for gemm; shared by the product ops.
#pragma once
#include "kernels/product/gemm.h"
#include "ops/reduce/reduce.h"

namespace cograd {

// The last two dims of a tensor in the form that gemm accepts: row length ld, stored transposed or
// not. Tensors that are neither row- nor column-major are copied.
struct MatrixOperand {
  MatrixOperand(const Tensor& x, bool transposed);
  const Tensor& tensor() const { return copy.defined() ? copy : *source; }
  const Tensor* source;
  Tensor copy;  // defined if gemm cannot use the source's layout
  const char* data;
  int64_t ld;
  bool trans;          // the product uses op(stored)
  int64_t rows, cols;  // the sizes of op(x)
};

[[noreturn]] void fail_product_dtype(const Tensor& a, const Tensor& b);
[[noreturn]] void fail_product_shape(int64_t m, int64_t k, int64_t rows, int64_t n);

inline void check_product(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype()) [[unlikely]]
    fail_product_dtype(a, b);
}

// Computes c (contiguous m x n) = alpha op(a) op(b) + beta c; a and b are matrices.
void raw_mm(const Tensor& a, bool ta, const Tensor& b, bool tb, double alpha, double beta,
            const Tensor& c);

// Does the same over broadcast batch dims; c is contiguous.
void raw_bmm(const Tensor& a, bool ta, const Tensor& b, bool tb, double alpha, double beta,
             const Tensor& c, IntList batch);
void check_bmm(const Tensor& a, const Tensor& b);
[[noreturn]] void fail_mv(const Tensor& a, const Tensor& x);

// Differentiable: A x (A^T x if transposed) for a matrix and a vector, x . y and x y^T.
Tensor mv_t(const Tensor& a, const Tensor& x, bool transposed);
Tensor dot(const Tensor& x, const Tensor& y);
Tensor outer(const Tensor& x, const Tensor& y);

}  // namespace cograd
