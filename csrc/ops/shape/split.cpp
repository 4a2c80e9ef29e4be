// SPDX-License-Identifier: BSD-3-Clause
// Ops that split a tensor into views along a dim: split, chunk, unbind.
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"
#include "tensor/interrupt.h"

namespace cograd {

namespace {

// The lengths of the parts, and the dim along which they are split.
struct Parts {
  Dims lengths;
  int dim = 0;
  DType dtype = DType::Float32;
  Dims sizes;  // sizes of the input
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

// Joins the parts' gradients; zeros replace those that did not arrive.
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

// Returns the lengths of parts that have `length` elements each along dim.
Dims split_lengths(const Tensor& x, int64_t length, int64_t dim) {
  COGRAD_CHECK(x.dim() > 0, "split expects at least a 1-dimensional tensor");
  COGRAD_CHECK(length >= 0,
               "split expects split_size be non-negative, but got split_size=", length);
  const int64_t size = x.size(wrap_dim(dim, x.dim()));
  COGRAD_CHECK(length > 0 || size == 0,
               "split_size can only be 0 if dimension size is 0, but got dimension size of ", size);
  return even_lengths(size, length);
}

void check_lengths(const Tensor& x, IntList lengths, int64_t dim) {
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
}

// Returns the lengths of at most `chunks` equal parts; an empty dim has exactly `chunks` parts of
// 0.
Dims chunk_lengths(const Tensor& x, int64_t chunks, int64_t dim) {
  COGRAD_CHECK(x.dim() > 0, "chunk expects at least a 1-dimensional tensor");
  COGRAD_CHECK(chunks > 0, "chunk expects `chunks` to be greater than 0, got: ", chunks);
  const int64_t size = x.size(wrap_dim(dim, x.dim()));
  if (size == 0) return Dims(static_cast<size_t>(chunks), 0);
  return even_lengths(size, size / chunks + (size % chunks != 0));
}

struct Split {
  static constexpr OpSpec spec{
      "_split", "input, split_size, dim=0", kInternal | kView,
      "Views of split_size elements each along dim; the last may be shorter.",
      "T(5, 2), 2; T(3, 4), 3, 1"};
  using State = Parts;
  static constexpr BatchRule kBatch = by_dims();
  static std::vector<Tensor> forward(Ctx<Split>& ctx, const Tensor& x, int64_t length, Dim dim) {
    const Dims lengths = split_lengths(x, length, dim);
    return run_split(ctx, x, wrap_dim(dim, x.dim()), lengths);
  }
  static void backward(Ctx<Split>& ctx, std::span<Tensor> gs) {
    ctx.grad(0) = joined_gradients(ctx, gs);
  }
};
COGRAD_OP(Split)

constexpr const char* kSplitDoc =
    "Views of equal length (an int; the last may be shorter) or of the given lengths along dim.";

struct SplitEven {
  static constexpr OpSpec spec{"split", "tensor, split_size_or_sections, dim=0", kFunction | kView,
                               kSplitDoc, "T(5, 2), 2; T(3, 4), 3, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t length, Dim dim) {
    return apply<Split>(x, length, dim);
  }
};
COGRAD_OP(SplitEven)

struct SplitEvenMethod {
  static constexpr OpSpec spec{"split", "input, split_size, dim=0", kMethod | kView, kSplitDoc,
                               "T(5, 2), 2; T(3, 4), 3, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t length, Dim dim) {
    return apply<Split>(x, length, dim);
  }
};
COGRAD_OP(SplitEvenMethod)

struct SplitWithSizes {
  static constexpr OpSpec spec{"split_with_sizes", "input, split_sizes, dim=0", kFunctional | kView,
                               "Views of the given lengths along dim.", "T(5, 2), (2, 0, 3)"};
  using State = Parts;
  static constexpr BatchRule kBatch = by_dims();
  static std::vector<Tensor> forward(Ctx<SplitWithSizes>& ctx, const Tensor& x, Shape lengths,
                                     Dim dim) {
    check_lengths(x, lengths, dim);
    return run_split(ctx, x, wrap_dim(dim, x.dim()), Dims(lengths));
  }
  static void backward(Ctx<SplitWithSizes>& ctx, std::span<Tensor> gs) {
    ctx.grad(0) = joined_gradients(ctx, gs);
  }
};
COGRAD_OP(SplitWithSizes)

struct SplitSections {
  static constexpr OpSpec spec{"split", "tensor, split_size_or_sections, dim=0", kFunction | kView,
                               kSplitDoc, "T(5, 2), (2, 3)"};
  static std::vector<Tensor> forward(const Tensor& x, IntList lengths, Dim dim) {
    return apply<SplitWithSizes>(x, lengths, dim);
  }
};
COGRAD_OP(SplitSections)

struct SplitSectionsMethod {
  static constexpr OpSpec spec{"split", "input, split_size, dim=0", kMethod | kView, kSplitDoc,
                               "T(5, 2), (2, 3)"};
  static std::vector<Tensor> forward(const Tensor& x, IntList lengths, Dim dim) {
    return apply<SplitWithSizes>(x, lengths, dim);
  }
};
COGRAD_OP(SplitSectionsMethod)

struct Chunk {
  static constexpr OpSpec spec{"chunk", "input, chunks, dim=0", kFunctional | kView,
                               "At most `chunks` views of equal length along dim.",
                               "T(5, 2), 2; T(3, 4), 4, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t chunks, Dim dim) {
    const Dims lengths = chunk_lengths(x, chunks, dim);
    if (x.size(wrap_dim(dim, x.dim())) == 0) return apply<SplitWithSizes>(x, IntList(lengths), dim);
    return apply<Split>(x, lengths[0], dim);
  }
};
COGRAD_OP(Chunk)

// The parts share memory but are not views for autograd: each may be written in place alone, which
// the history of the other parts and of the input does not record.
struct UnsafeSplitWithSizes {
  static constexpr OpSpec spec{
      "unsafe_split_with_sizes", "input, split_sizes, dim=0", kFunctional | kView,
      "split_with_sizes whose parts are not views for autograd.", "T(5, 2), (2, 0, 3)"};
  using State = Parts;
  static constexpr BatchRule kBatch = by_dims();
  static std::vector<Tensor> forward(Ctx<UnsafeSplitWithSizes>& ctx, const Tensor& x, Shape lengths,
                                     Dim dim) {
    check_lengths(x, lengths, dim);
    const int d = wrap_dim(dim, x.dim());
    if (ctx.recording()) *ctx.operator->() = {Dims(lengths), d, x.dtype(), Dims(x.sizes())};
    std::vector<Tensor> out;
    int64_t at = 0;
    for (int64_t n : lengths) {
      out.push_back(slice_region(x, d, {at, n}, 1));
      at += n;
    }
    return out;
  }
  static void backward(Ctx<UnsafeSplitWithSizes>& ctx, std::span<Tensor> gs) {
    ctx.grad(0) = joined_gradients(ctx, gs);
  }
};
COGRAD_OP(UnsafeSplitWithSizes)

struct UnsafeSplit {
  static constexpr OpSpec spec{"unsafe_split", "input, split_size, dim=0", kFunctional | kView,
                               "split whose parts are not views for autograd.",
                               "T(5, 2), 2; T(3, 4), 3, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t length, Dim dim) {
    return apply<UnsafeSplitWithSizes>(x, IntList(split_lengths(x, length, dim)), dim);
  }
};
COGRAD_OP(UnsafeSplit)

struct UnsafeChunk {
  static constexpr OpSpec spec{"unsafe_chunk", "input, chunks, dim=0", kFunctional | kView,
                               "chunk whose parts are not views for autograd.",
                               "T(5, 2), 2; T(3, 4), 4, 1"};
  static std::vector<Tensor> forward(const Tensor& x, int64_t chunks, Dim dim) {
    return apply<UnsafeSplitWithSizes>(x, IntList(chunk_lengths(x, chunks, dim)), dim);
  }
};
COGRAD_OP(UnsafeChunk)

struct Unbind {
  static constexpr OpSpec spec{"unbind", "input, dim=0", kFunctional | kView,
                               "The views at each index of a dim, in order.",
                               "T(3, 4); T(2, 3), -1"};
  using State = Parts;
  static constexpr BatchRule kBatch = by_dims();
  static std::vector<Tensor> forward(Ctx<Unbind>& ctx, const Tensor& x, Dim dim) {
    COGRAD_CHECK_INDEX(x.dim() > 0, "Dimension specified as ", dim.value,
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

}  // namespace

std::vector<Tensor> split(const Tensor& x, int64_t size, int64_t dim) {
  return apply<Split>(x, size, dim);
}
std::vector<Tensor> unbind(const Tensor& x, int64_t dim) { return apply<Unbind>(x, dim); }

}  // namespace cograd
