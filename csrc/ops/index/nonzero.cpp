// SPDX-License-Identifier: BSD-3-Clause
// Defines nonzero, argwhere, nonzero_static, and where with one argument.
#include <cstring>
#include "kernels/index/index.h"
#include "ops/compute/strides.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

// Returns the [count, ndim] coordinates of non-zero elements; those of one dim are contiguous.
Tensor coordinates(const Tensor& x) {
  const Tensor in = raw_contiguous(x);
  const int64_t count = kernels::nonzero_count(in.dtype(), in.bytes(), in.numel());
  const int64_t shape[2] = {count, in.dim()};
  const int64_t strides[2] = {1, count};
  Tensor out = empty_with_strides(shape, strides, DType::Int64);
  kernels::nonzero(in.dtype(), in.bytes(), in.sizes(), count, out.data<int64_t>());
  return out;
}

// Returns one vector of coordinates per dim; a 0-dim tensor is treated as 1-dim.
std::vector<Tensor> coordinate_vectors(const Tensor& x) {
  const int64_t one[1] = {1};
  const Tensor in = x.dim() > 0 ? x : alias_strided(x, one, one, x.bytes());
  const Tensor found = coordinates(in);
  const int64_t count[1] = {found.size(0)};
  const int64_t step[1] = {1};
  std::vector<Tensor> out;
  for (int d = 0; d < in.dim(); ++d)
    out.push_back(
        alias_strided(found, count, step, found.bytes() + d * count[0] * found.itemsize()));
  return out;
}

struct Nonzero {
  static constexpr OpSpec spec{
      "nonzero",
      "input, *, as_tuple=False",
      kFunctional | kOut | kNondiff | kIndex,
      "Coordinates of the non-zero elements in C order: int64 [count, ndim], or with as_tuple one "
      "vector per dim, fit for indexing.",
      "I(3, 4, hi=2); B(5); B(2, 3), as_tuple=True",
      "np.nonzero(input) if as_tuple else np.argwhere(input)"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Results forward(const Tensor& x, bool as_tuple) {
    if (as_tuple) return {coordinate_vectors(x), true};
    return {{coordinates(x)}, false};
  }
};
COGRAD_OP(Nonzero)

struct Argwhere {
  static constexpr OpSpec spec{"argwhere",
                               "input",
                               kFunctional | kNondiff | kIndex,
                               "Coordinates of the non-zero elements: int64 [count, ndim].",
                               "I(3, 4, hi=2); B(5)",
                               "np.argwhere(input)"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& x) { return coordinates(x); }
};
COGRAD_OP(Argwhere)

struct NonzeroStatic {
  static constexpr OpSpec spec{
      "nonzero_static",
      "input, *, size, fill_value=-1",
      kFunctional | kOut | kNondiff | kIndex,
      "The first `size` coordinates of the non-zero elements, padded with rows of fill_value: "
      "int64 [size, ndim].",
      "I(3, 4, hi=2), size=3; B(5), size=7, fill_value=2",
      ""};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& x, int64_t size, int64_t fill_value) {
    COGRAD_CHECK(size >= 0, "nonzero_static: 'size' must be a non-negative integer, got ", size);
    const Tensor found = coordinates(x);
    const int64_t shape[2] = {size, x.dim()};
    const Tensor out = raw_full(shape, DType::Int64, fill_value);
    const int64_t rows = std::min(size, found.size(0));
    if (rows > 0) raw_copy(narrow(out, 0, 0, rows), narrow(found, 0, 0, rows));
    return out;
  }
};
COGRAD_OP(NonzeroStatic)

struct WhereTrue {
  static constexpr OpSpec spec{"where",
                               "condition",
                               kFunction | kNondiff | kIndex,
                               "nonzero(condition, as_tuple=True).",
                               "B(3, 4); I(4, hi=2)",
                               "np.nonzero(condition)"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static std::vector<Tensor> forward(const Tensor& condition) {
    return coordinate_vectors(condition);
  }
};
COGRAD_OP(WhereTrue)

}  // namespace

}  // namespace cograd
