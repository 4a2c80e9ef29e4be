// SPDX-License-Identifier: BSD-3-Clause
// C++ prototypes of the ops that other ops call. op_table() lists all ops.
#pragma once
#include "ops/declare/op.h"

namespace cograd {

// Elementwise rows of the table; p0, p1 and p2 are the row's parameters.
#define COGRAD_ROW(name, ...) \
  Tensor name(const Tensor& x, double p0 = 0, double p1 = 0, double p2 = 0);
#define UNARY COGRAD_ROW
#define UNARY_BOOL COGRAD_ROW
#include "kernels/elementwise/elementwise.def"
#undef COGRAD_ROW
#define COGRAD_ROW(name, ...) \
  Tensor name(const TensorOrScalar& a, const TensorOrScalar& b, Scalar p0 = 0);
#define BINARY COGRAD_ROW
#define BINARY_BOOL COGRAD_ROW
#define BINARY_FLAT COGRAD_ROW
#define TERNARY_COND(name, ...) \
  Tensor name(const Tensor& a, const TensorOrScalar& b, const TensorOrScalar& c);
#include "kernels/elementwise/elementwise.def"
#undef COGRAD_ROW
// Computes a ** b; a scalar operand selects the row for that case.
Tensor pow(const TensorOrScalar& a, const TensorOrScalar& b);

// For real inputs, abs and sgn are the ordinary ops, and conj and real return the tensor itself.
Tensor abs(const Tensor& x);
Tensor sgn(const Tensor& x);
Tensor conj(const Tensor& x);
Tensor complex_of(const Tensor& re, const Tensor& im);  // both of one dtype; broadcasts
// real and imag return views where the input is complex.
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);
Tensor parts_of_complex(const Tensor& z);    // [..., 2]
Tensor complex_from_parts(const Tensor& x);  // copies if the strides do not form pairs

inline Tensor operator-(const Tensor& a) { return neg(a); }
#define COGRAD_OPERATOR(op, name)                                                    \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return name(a, b); } \
  inline Tensor operator op(const Tensor& a, double b) { return name(a, b); }        \
  inline Tensor operator op(double a, const Tensor& b) { return name(a, b); }
COGRAD_OPERATOR(+, add)
COGRAD_OPERATOR(-, sub)
COGRAD_OPERATOR(*, mul)
COGRAD_OPERATOR(/, div)
#undef COGRAD_OPERATOR

// Copies and layout.
Tensor clone(const Tensor& x);
Tensor contiguous(const Tensor& x);
Tensor contiguous_clone(const Tensor& x);  // always a new tensor
Tensor cast(const Tensor& x, DType t);
COGRAD_API void copy_(const Tensor& dst, const Tensor& src);
void copy_past_stages_(const Tensor& dst, const Tensor& src);  // for results of the stages
COGRAD_API void fill_(const Tensor& x, Scalar v);
Tensor expand(const Tensor& x, IntList sizes);
Tensor sum_to(const Tensor& x, IntList sizes);
Tensor as_strided(const Tensor& x, IntList sizes, IntList strides, int64_t offset);
Tensor relayout(const Tensor& x, IntList strides);

// Reductions, products and nn (reduce, scan, softmax, matmul, ... .cpp); dims=None reduces all
// dims.
Tensor sum(const Tensor& x, std::optional<IntList> dims = std::nullopt, bool keepdim = false);
Tensor mean(const Tensor& x, std::optional<IntList> dims = std::nullopt, bool keepdim = false);
Tensor any(const Tensor& x);  // over all elements
Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor matmul(const Tensor& a, const Tensor& b);
// Returns op(a) op(b) over the last two dims, with broadcast batch dims; op transposes if its flag
// is set.
Tensor matmul_t(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b);

// Constants, which have no gradient.
Tensor zeros(IntList sizes, DType t);
Tensor ones(IntList sizes, DType t);
COGRAD_API Tensor full(IntList sizes, DType t, Scalar v);
inline Tensor zeros_like(const Tensor& x) { return zeros(x.sizes(), x.dtype()); }
inline Tensor ones_like(const Tensor& x) { return ones(x.sizes(), x.dtype()); }

// Shape: views (sharing memory) and rearranging copies.
Tensor view(const Tensor& x, IntList sizes);
COGRAD_API Tensor reshape(const Tensor& x, IntList sizes);
Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1);
Tensor permute(const Tensor& x, IntList dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor t(const Tensor& x);
Tensor movedim(const Tensor& x, int64_t source, int64_t destination);
Tensor squeeze(const Tensor& x, int64_t dim);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
// start and end are clamped as in Python; the default end is the size.
Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start,
             std::optional<int64_t> end = std::nullopt, int64_t step = 1);
Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length);
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1);
// Returns zeros of `sizes` with g on a diagonal: the adjoint of diagonal.
Tensor diagonal_backward(const Tensor& g, IntList sizes, int64_t offset, int64_t dim1,
                         int64_t dim2);
Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step);
std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim = 0);
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0);
// Selects slices of x along dim; index is a 1-d int64 tensor.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index);
Tensor cat(TensorList tensors, int64_t dim = 0);
Tensor stack(TensorList tensors, int64_t dim = 0);
Tensor flip(const Tensor& x, IntList dims);
Tensor roll(const Tensor& x, IntList shifts, IntList dims);
Tensor repeat(const Tensor& x, IntList repeats);
Tensor tril(const Tensor& x, int64_t diagonal = 0);
Tensor triu(const Tensor& x, int64_t diagonal = 0);
// Returns a new dense tensor of dtype t with x's shape and the order of dims of x's strides.
Tensor empty_preserving(const Tensor& x, DType t);

}  // namespace cograd
