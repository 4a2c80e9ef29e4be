// SPDX-License-Identifier: BSD-3-Clause
// Ops that cut a tensor into several views along one dim.
#include "ops/core/ops.h"
#include "ops/shape/geometry.h"
#include "tensor/interrupt.h"

namespace cograd {

namespace {

// The lengths of the parts, and the dim they lie along.
struct Parts {
  Dims lengths;
  int dim = 0;
  DType dtype = DType::Float32;
  Dims sizes;  // of the input
};

std::vector<Tensor> split_views(const Tensor& x, int dim, IntList lengths) {
  std::vector<Tensor> out;
  out.reserve(lengths.size());
  InterruptCheck interrupt;
  int64_t at = 0;
  for (int64_t n : lengths) {
    interrupt.after(1);
    Tensor part = slice_region(x, dim, {at, n}, 1);
    link_view(x, part);
    if (thread_state.grad_enabled) part->flags |= kViewMultiOutput;
    out.push_back(std::move(part));
    at += n;
  }
  return out;
}

// Joins the parts' gradients, zeros standing in for those that did not arrive.
template <class Op>
Tensor joined_gradients(Ctx<Op>& ctx, std::span<Tensor> gs) {
  std::vector<Tensor> parts;
  parts.reserve(gs.size());
  for (size_t i = 0; i < gs.size(); ++i) {
    if (gs[i].defined()) {
      parts.push_back(gs[i]);
      continue;
    }
    Dims sizes = ctx->sizes;
    sizes[static_cast<size_t>(ctx->dim)] = ctx->lengths[i];
    parts.push_back(zeros(sizes, ctx->dtype));
  }
  return cat(parts, ctx->dim);
}

template <class Op>
std::vector<Tensor> run_split(Ctx<Op>& ctx, const Tensor& x, int dim, const Dims& lengths) {
  if (ctx.recording()) *ctx.operator->() = {lengths, dim, x.dtype(), Dims(x.sizes())};
  return split_views(x, dim, lengths);
}

Dims even_lengths(int64_t size, int64_t length) {
  Dims out;
  int64_t left = size;
  do {
    out.push_back(std::min(length, left));
    left -= std::min(length, left);
  } while (left > 0);
  return out;
}

struct Split {
  static constexpr OpSpec spec{
      "_split", "input, split_size, dim=0", kInternal,
      "Views of split_size elements each along dim; the last may be shorter.",
      "T(5, 2), 2; T(3, 4), 3, 1"};
  static constexpr bool kView = true;
  using State = Parts;
  static std::vector<Tensor> forward(Ctx<Split>& ctx, const Tensor& x, int64_t length,
                                     int64_t dim) {
    COGRAD_CHECK(x.dim() > 0, "split expects at least a 1-dimensional tensor");
    COGRAD_CHECK(length >= 0,
                 "split expects split_size be non-negative, but got split_size=", length);
    const int d = wrap_dim(dim, x.dim());
    const int64_t size = x.size(d);
    COGRAD_CHECK(length > 0 || size == 0,
                 "split_size can only be 0 if dimension size is 0, but got dimension size of ",
                 size);
    return run_split(ctx, x, d, even_lengths(size, length));
  }
  static void backward(Ctx<Split>& ctx, std::span<Tensor> gs) {
    ctx.grad(0) = joined_gradients(ctx, gs);
  }
};
COGRAD_OP(Split)

constexpr const char* kSplitDoc =
    "Views of equal length (an int; the last may be shorter) or of the given lengths along dim.";

struct SplitEven {
  static constexpr OpSpec spec{"split", "tensor, split_size_or_sections, dim=0", kFunction,
                               kSplitDoc, "T(5, 2), 2; T(3, 4), 3, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t length, int64_t dim) {
    return apply<Split>(x, length, dim);
  }
};
COGRAD_OP(SplitEven)

struct SplitEvenMethod {
  static constexpr OpSpec spec{"split", "input, split_size, dim=0", kMethod, kSplitDoc,
                               "T(5, 2), 2; T(3, 4), 3, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t length, int64_t dim) {
    return apply<Split>(x, length, dim);
  }
};
COGRAD_OP(SplitEvenMethod)

struct SplitWithSizes {
  static constexpr OpSpec spec{"split_with_sizes", "input, split_sizes, dim=0", kFunctional,
                               "Views of the given lengths along dim.", "T(5, 2), (2, 0, 3)"};
  static constexpr bool kView = true;
  using State = Parts;
  static std::vector<Tensor> forward(Ctx<SplitWithSizes>& ctx, const Tensor& x, IntList lengths,
                                     int64_t dim) {
    COGRAD_CHECK(x.dim() > 0, "split_with_sizes expects at least a 1-dimensional tensor");
    const int d = wrap_dim(dim, x.dim());
    int64_t total = 0;
    bool overflow = false;
    for (int64_t n : lengths) {
      COGRAD_CHECK(n >= 0,
                   "split_with_sizes expects split_sizes have only non-negative entries, but got "
                   "split_sizes=",
                   to_string(lengths));
      overflow |= __builtin_add_overflow(total, n, &total);
    }
    COGRAD_CHECK(!overflow && total == x.size(d),
                 "split_with_sizes expects split_sizes to sum exactly to ", x.size(d),
                 " (input tensor's size at dimension ", d,
                 "), but got split_sizes=", to_string(lengths));
    return run_split(ctx, x, d, Dims(lengths));
  }
  static void backward(Ctx<SplitWithSizes>& ctx, std::span<Tensor> gs) {
    ctx.grad(0) = joined_gradients(ctx, gs);
  }
};
COGRAD_OP(SplitWithSizes)

struct SplitSections {
  static constexpr OpSpec spec{"split", "tensor, split_size_or_sections, dim=0", kFunction,
                               kSplitDoc, "T(5, 2), (2, 3)"};
  static std::vector<Tensor> forward(const Tensor& x, IntList lengths, int64_t dim) {
    return apply<SplitWithSizes>(x, lengths, dim);
  }
};
COGRAD_OP(SplitSections)

struct SplitSectionsMethod {
  static constexpr OpSpec spec{"split", "input, split_size, dim=0", kMethod, kSplitDoc,
                               "T(5, 2), (2, 3)"};
  static std::vector<Tensor> forward(const Tensor& x, IntList lengths, int64_t dim) {
    return apply<SplitWithSizes>(x, lengths, dim);
  }
};
COGRAD_OP(SplitSectionsMethod)

struct Chunk {
  static constexpr OpSpec spec{"chunk", "input, chunks, dim=0", kFunctional,
                               "At most `chunks` views of equal length along dim.",
                               "T(5, 2), 2; T(3, 4), 4, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t chunks, int64_t dim) {
    COGRAD_CHECK(x.dim() > 0, "chunk expects at least a 1-dimensional tensor");
    COGRAD_CHECK(chunks > 0, "chunk expects `chunks` to be greater than 0, got: ", chunks);
    const int d = wrap_dim(dim, x.dim());
    const int64_t size = x.size(d);
    if (size == 0) {
      const Dims none(static_cast<size_t>(chunks), 0);
      return apply<SplitWithSizes>(x, IntList(none), int64_t{d});
    }
    return apply<Split>(x, size / chunks + (size % chunks != 0), int64_t{d});
  }
};
COGRAD_OP(Chunk)

struct Unbind {
  static constexpr OpSpec spec{"unbind", "input, dim=0", kFunctional,
                               "All views at one index of a dim, in order.",
                               "T(3, 4); T(2, 3), -1"};
  static constexpr bool kView = true;
  using State = Parts;
  static std::vector<Tensor> forward(Ctx<Unbind>& ctx, const Tensor& x, int64_t dim) {
    COGRAD_CHECK_INDEX(x.dim() > 0, "Dimension specified as ", dim,
                       " but tensor has no dimensions");
    const int d = wrap_dim(dim, x.dim());
    if (ctx.recording()) *ctx.operator->() = {Dims(), d, x.dtype(), Dims(x.sizes())};
    std::vector<Tensor> out;
    out.reserve(static_cast<size_t>(x.size(d)));
    InterruptCheck interrupt;
    for (int64_t i = 0; i < x.size(d); ++i) {
      interrupt.after(1);
      Tensor part = select_region(x, d, i);
      link_view(x, part);
      if (thread_state.grad_enabled) part->flags |= kViewMultiOutput;
      out.push_back(std::move(part));
    }
    return out;
  }
  static void backward(Ctx<Unbind>& ctx, std::span<Tensor> gs) {
    Dims sizes = ctx->sizes;
    sizes.erase(static_cast<size_t>(ctx->dim));
    std::vector<Tensor> parts(gs.begin(), gs.end());
    for (Tensor& p : parts)
      if (!p.defined()) p = zeros(sizes, ctx->dtype);
    ctx.grad(0) = stack(parts, ctx->dim);
  }
};
COGRAD_OP(Unbind)

int check_tensor_split(const Tensor& x, int64_t dim) {
  COGRAD_CHECK(
      x.dim() > 0,
      "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  return wrap_dim(dim, x.dim());
}

// The first size % sections parts are one longer.
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
    "Views along dim: that many nearly equal ones (an int), or cut at the given indices.";

struct TensorSplit {
  static constexpr OpSpec spec{"tensor_split", "input, indices_or_sections, dim=0", kFunctional,
                               kTensorSplitDoc, "T(5, 2), 3; T(3, 4), 2, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t sections, int64_t dim) {
    return split_sections(x, sections, dim);
  }
};
COGRAD_OP(TensorSplit)

struct TensorSplitIndices {
  static constexpr OpSpec spec{"tensor_split", "input, indices_or_sections, dim=0", kFunctional,
                               kTensorSplitDoc, "T(5, 2), (1, 3)"};
  static std::vector<Tensor> forward(const Tensor& x, IntList indices, int64_t dim) {
    return split_indices(x, indices, dim);
  }
};
COGRAD_OP(TensorSplitIndices)

struct TensorSplitTensor {
  static constexpr OpSpec spec{"tensor_split", "input, indices_or_sections, dim=0", kFunctional,
                               kTensorSplitDoc, "none: tested by hand"};
  static std::vector<Tensor> forward(const Tensor& x, const Tensor& at, int64_t dim) {
    COGRAD_CHECK(at.dtype() == DType::Int64,
                 "tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
                 dtype_name(at.dtype()));
    COGRAD_CHECK(at.dim() <= 1,
                 "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                 "one-dimensional tensor, but got a tensor with ",
                 at.dim(), " dims");
    if (at.dim() == 0) return split_sections(x, *at.data<int64_t>(), dim);
    Dims indices;
    for (int64_t i = 0; i < at.numel(); ++i)
      indices.push_back(at.data<int64_t>()[i * at.stride(0)]);
    return split_indices(x, indices, dim);
  }
};
COGRAD_OP(TensorSplitTensor)

// The dim hsplit, vsplit and dsplit cut, after their checks.
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
    static constexpr OpSpec spec{name, "input, sections", kFunctional,                       \
                                 "tensor_split into equal parts along dim " #dim ".",        \
                                 samples_even};                                              \
    static std::vector<Tensor> forward(const Tensor& x, int64_t sections) {                  \
      return named_split(name, x, sections, named_split_dim(name, x, min_dims, dim));        \
    }                                                                                        \
  };                                                                                         \
  COGRAD_OP(Struct##Even)                                                                    \
  struct Struct##At {                                                                        \
    static constexpr OpSpec spec{name, "input, indices", kFunctional,                        \
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

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim) {
  return apply<Split>(x, size, dim);
}
std::vector<Tensor> unbind(const Tensor& x, int64_t dim) { return apply<Unbind>(x, dim); }

}  // namespace cograd
