// SPDX-License-Identifier: BSD-3-Clause
// tensor_split, and hsplit, vsplit, dsplit.
#include "ops/compute/elementwise.h"
#include "ops/compute/host_values.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"
#include "tensor/interrupt.h"

namespace cograd {

namespace {

int check_tensor_split(const Tensor& x, int64_t dim) {
  COGRAD_CHECK(
      x.dim() > 0,
      "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  return wrap_dim(dim, x.dim());
}

// Splits into `sections` parts, of which the first size % sections are one element longer.
std::vector<Tensor> split_sections(const Tensor& x, int64_t sections, int64_t dim) {
  const int d = check_tensor_split(x, dim);
  COGRAD_CHECK(sections > 0, "number of sections must be larger than 0, got ", sections);
  const int64_t size = x.size(d);
  std::vector<Tensor> out;
  out.reserve(static_cast<size_t>(sections));
  InterruptCheck interrupt;
  int64_t at = 0;
  for (int64_t i = 0; i < sections; ++i) {
    interrupt.after(1);
    const int64_t n = size / sections + (i < size % sections ? 1 : 0);
    out.push_back(slice(x, d, at, at + n));
    at += n;
  }
  return out;
}

std::vector<Tensor> split_indices(const Tensor& x, IntList indices, int64_t dim) {
  const int d = check_tensor_split(x, dim);
  std::vector<Tensor> out;
  int64_t at = 0;
  for (int64_t i : indices) {
    out.push_back(slice(x, d, at, i));
    at = i;
  }
  out.push_back(slice(x, d, at));
  return out;
}

constexpr const char* kTensorSplitDoc =
    "Views along dim: n parts of nearly equal size (an int), or split at the given indices.";

struct TensorSplit {
  static constexpr OpSpec spec{"tensor_split", "input, sections, dim=0", kFunctional | kView,
                               kTensorSplitDoc, "T(5, 2), 3; T(3, 4), 2, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t sections, Dim dim) {
    return split_sections(x, sections, dim);
  }
};
COGRAD_OP(TensorSplit)

struct TensorSplitIndices {
  static constexpr OpSpec spec{"tensor_split", "input, indices, dim=0", kFunctional | kView,
                               kTensorSplitDoc, "T(5, 2), (1, 3)"};
  static std::vector<Tensor> forward(const Tensor& x, IntList indices, Dim dim) {
    return split_indices(x, indices, dim);
  }
};
COGRAD_OP(TensorSplitIndices)

struct TensorSplitTensor {
  static constexpr OpSpec spec{"tensor_split", "input, tensor_indices_or_sections, dim=0",
                               kFunctional | kView, kTensorSplitDoc, "none: tested by hand"};
  static constexpr bool kMixesDevices = true;  // reads the other tensor
  static std::vector<Tensor> forward(const Tensor& x, const Tensor& at, Dim dim) {
    COGRAD_CHECK(at.dtype() == DType::Int64,
                 "tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
                 dtype_name(at.dtype()));
    COGRAD_CHECK(at.dim() <= 1,
                 "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                 "one-dimensional tensor, but got a tensor with ",
                 at.dim(), " dims");
    std::vector<int64_t> values;
    {
      const PlaceGuard there(at->device);
      values = host_values<int64_t>(raw_contiguous(at));
    }
    return at.dim() == 0 ? split_sections(x, values[0], dim) : split_indices(x, values, dim);
  }
};
COGRAD_OP(TensorSplitTensor)

// Returns the dim that hsplit, vsplit or dsplit cuts, after their checks.
int named_split_dim(const char* op, const Tensor& x, int min_dims, int dim) {
  COGRAD_CHECK(x.dim() >= min_dims, "torch.", op, " requires a tensor with at least ", min_dims,
               " dimension, but got a tensor with ", x.dim(), " dimensions!");
  return x.dim() == 1 ? 0 : dim;
}

std::vector<Tensor> named_split(const char* op, const Tensor& x, int64_t sections, int dim) {
  COGRAD_CHECK(sections > 0 && x.size(dim) % sections == 0, "torch.", op,
               " attempted to split along dimension ", dim, ", but the size of the dimension ",
               x.size(dim), " is not divisible by the split_size ", sections, "!");
  return split_sections(x, sections, dim);
}

#define COGRAD_NAMED_SPLIT(Struct, name, min_dims, dim, samples_even, samples_at)            \
  struct Struct##Even {                                                                      \
    static constexpr OpSpec spec{name, "input, sections", kFunctional | kShape,              \
                                 "tensor_split into equal parts along dim " #dim ".",        \
                                 samples_even};                                              \
    static std::vector<Tensor> forward(const Tensor& x, int64_t sections) {                  \
      return named_split(name, x, sections, named_split_dim(name, x, min_dims, dim));        \
    }                                                                                        \
  };                                                                                         \
  COGRAD_OP(Struct##Even)                                                                    \
  struct Struct##At {                                                                        \
    static constexpr OpSpec spec{name, "input, indices", kFunctional | kShape,               \
                                 "tensor_split at indices along dim " #dim ".", samples_at}; \
    static std::vector<Tensor> forward(const Tensor& x, IntList indices) {                   \
      return split_indices(x, indices, named_split_dim(name, x, min_dims, dim));             \
    }                                                                                        \
  };                                                                                         \
  COGRAD_OP(Struct##At)

COGRAD_NAMED_SPLIT(Hsplit, "hsplit", 1, 1, "T(3, 4), 2; T(4), 2", "T(3, 4), (1, 3)")
COGRAD_NAMED_SPLIT(Vsplit, "vsplit", 2, 0, "T(4, 3), 2", "T(4, 3), (1, 3)")
COGRAD_NAMED_SPLIT(Dsplit, "dsplit", 3, 2, "T(2, 3, 4), 2", "T(2, 3, 4), (1, 3)")

}  // namespace

}  // namespace cograd
