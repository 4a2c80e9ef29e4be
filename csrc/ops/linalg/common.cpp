// SPDX-License-Identifier: BSD-3-Clause
// Shared by ops on matrices: checks, messages and the column-major layout that LAPACK uses.
#include "ops/compute/host_values.h"
#include "ops/linalg/linalg.h"
#include "ops/reduce/reduce.h"
#include "transforms/batch.h"
#include "transforms/probing.h"

namespace cograd {

namespace {

void check_dims(const char* name, const Tensor& x, const char* arg) {
  COGRAD_CHECK(x.dim() >= 2, name, ": The input tensor ", arg, " must have at least 2 dimensions.");
}

}  // namespace

void check_matrix(const char* name, const Tensor& x, const char* arg) {
  check_dims(name, x, arg);
  COGRAD_CHECK(is_differentiable(x.dtype()), name,
               ": Expected a floating point or complex tensor as input. Got ",
               scalar_type_name(x.dtype()));
  COGRAD_CHECK(x.itemsize() >= 4, name, ": Low precision dtypes not supported. Got ",
               scalar_type_name(x.dtype()));
}

void check_square(const char* name, const Tensor& x, const char* arg) {
  check_matrix(name, x, arg);
  check_square_of_any(name, x, arg);
}

void check_square_of_any(const char* name, const Tensor& x, const char* arg) {
  check_dims(name, x, arg);
  COGRAD_CHECK(x.size(-1) == x.size(-2), name, ": ", arg,
               " must be batches of square matrices, but they are ", x.size(-2), " by ", x.size(-1),
               " matrices");
}

void check_info(const char* name, const Tensor& info, std::string (*text)(int)) {
  const Tensor all = raw_contiguous(physical_tensor(info));  // of every sample of a vmap
  const int64_t i = kernels::first_nonzero(all.data<int32_t>(), all.numel());
  if (i == all.numel()) return;
  const std::string which = all.dim() == 0 ? "" : detail::concat("(Batch element ", i, "): ");
  throw LinAlgError(detail::concat(name, ": ", which, text(host_value<int32_t>(all, i))));
}

Dims batch_and(const Tensor& x, std::initializer_list<int64_t> tail) {
  Dims out(batch_of(x));
  out.append(tail.begin(), tail.end());
  return out;
}

Tensor empty_columns(const Tensor& batch, int64_t rows, int64_t cols) {
  return empty_columns(batch, rows, cols, batch.dtype());
}

Tensor empty_columns(const Tensor& batch, int64_t rows, int64_t cols, DType t) {
  const Tensor flat = empty(batch_and(batch, {cols, rows}), t);
  Dims strides(flat.strides());
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return alias_strided(flat, batch_and(batch, {rows, cols}), strides, flat.bytes());
}

Tensor copy_columns(const Tensor& x) {
  Tensor out = empty_columns(x, x.size(-2), x.size(-1));
  raw_copy(out, x);
  return out;
}

Tensor as_columns(const Tensor& x) {
  const int64_t rows = x.size(-2), cols = x.size(-1);
  Dims strides = contiguous_strides(batch_and(x, {cols, rows}));
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return same(x.strides(), strides) ? x : copy_columns(x);
}

Tensor first_columns(const Tensor& x, int64_t cols) {
  return alias_strided(x, batch_and(x, {x.size(-2), cols}), x.strides(), x.bytes());
}

void check_phase(const char* message, const Tensor& phase) {
  constexpr double kTolerance = 1e-2;
  if (probing_backward() || transformed(phase)) return;
  const auto values = host_values_or<double>(raw_cast(raw_contiguous(phase), DType::Float64), 0);
  const bool fixed =
      std::all_of(values.begin(), values.end(), [](double x) { return std::abs(x) <= kTolerance; });
  COGRAD_CHECK(fixed, message);
}

}  // namespace cograd
