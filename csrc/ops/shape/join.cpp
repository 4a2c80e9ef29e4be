// SPDX-License-Identifier: BSD-3-Clause
// Ops that join tensors into a new one: cat, stack and related ops.
#include <numeric>

#include "kernels/core/moves.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/nn/pad.h"
#include "ops/shape/geometry.h"
#include "tensor/foreign.h"

namespace cograd {

namespace {

constexpr int64_t kMemcpyBytes = 1 << 17;  // larger results use the threaded copy

// True for an empty 1-d tensor: torch's legacy rule joins it with any shape by skipping it.
bool skipped(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

// Copies the parts along `dim` into `out`; all have out's other sizes.
void raw_join(const Tensor& out, TensorList parts, int dim) {
  bool direct = out.is_contiguous() && out.numel() <= kMemcpyBytes &&
                out.numel() * out.itemsize() <= kMemcpyBytes;
  for (const Tensor& t : parts) direct &= t.is_contiguous() && t.dtype() == out.dtype();
  if (!direct) {
    int64_t at = 0;
    for (const Tensor& t : parts) {
      if (skipped(t)) continue;
      copy_region(out, t, dim, at);
      at += t.size(dim);
    }
    return;
  }
  const int64_t outer = product(out.sizes().first(static_cast<size_t>(dim)));
  const int64_t inner =
      checked_mul(product(out.sizes().subspan(static_cast<size_t>(dim) + 1)), out.itemsize());
  if (outer == 1) {
    int64_t at = 0;
    for (const Tensor& t : parts) {
      const int64_t n = t.numel() * t.itemsize();
      kernels::copy_bytes(t.bytes(), n, out.bytes() + at);
      at += n;
    }
    return;
  }
  SmallVec<kernels::JoinedPart, 8> blocks;
  for (const Tensor& t : parts)
    if (t.numel() > 0) blocks.push_back({t.bytes(), checked_mul(t.size(dim), inner)});
  kernels::join({blocks.data(), blocks.size()}, outer, out.bytes());
}

DType joined_dtype(TensorList tensors) {
  ResultType type;
  for (const Tensor& t : tensors) type.add(t);
  return type.get();
}

// Returns the joined sizes after checking the shapes against the first tensor not skipped.
Dims joined_sizes(TensorList tensors, const Tensor& first, int dim) {
  Dims sizes(first.sizes());
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (skipped(t)) continue;
    COGRAD_CHECK(t.dim() == first.dim(), "Tensors must have same number of dimensions: got ",
                 first.dim(), " and ", t.dim());
    for (int d = 0; d < t.dim(); ++d)
      COGRAD_CHECK(d == dim || t.size(d) == first.size(d),
                   "Sizes of tensors must match except in dimension ", dim, ". Expected size ",
                   first.size(d), " but got size ", t.size(d), " for tensor number ", i,
                   " in the list.");
    total = checked_add(total, t.size(dim));
  }
  sizes[static_cast<size_t>(dim)] = total;
  return sizes;
}

// Pieces of a gradient along dim. If nothing else uses the gradient and a piece is contiguous, the
// piece is a separate tensor that a leaf can take over as its grad; otherwise it is a view.
class Pieces {
 public:
  Pieces(const Tensor& g, int dim)
      : g_(g),
        dim_(dim),
        own_(!differentiable({&g}) && g.is_contiguous() && g->storage->kind != 2 &&
             g.numel() * g.itemsize() >= kPieceBytes &&
             g->refs.load(std::memory_order_acquire) == 1 && g->storage->unique() &&
             g->base == nullptr && product(g.sizes().first(static_cast<size_t>(dim))) == 1) {}
  Tensor length(int64_t at, int64_t n) const {
    if (!own_) return slice(g_, dim_, at, at + n);
    Dims sizes(g_.sizes());
    sizes[static_cast<size_t>(dim_)] = n;
    return own(at, sizes);
  }
  Tensor one(int64_t at) const {
    if (!own_) return select(g_, dim_, at);
    Dims sizes(g_.sizes());
    sizes.erase(static_cast<size_t>(dim_));
    return own(at, sizes);
  }

 private:
  static constexpr int64_t kPieceBytes = 1 << 14;  // copying less is as fast

  Tensor own(int64_t at, const Dims& sizes) const {
    char* data = g_.bytes() + at * g_.stride(dim_) * g_.itemsize();
    Storage* part = g_->storage->part(data, checked_mul(product(sizes), g_.itemsize()));
    return tensor_of_storage(part, g_.dtype(), sizes, contiguous_strides(sizes), data);
  }
  const Tensor& g_;
  int dim_;
  bool own_;
};

constexpr const char* kCatSamples =
    "[T(2, 3), T(4, 3)]; [T(2, 3), T(2, 2)], 1; [T(0), T(2, 3)]; [T(3)], -1";
constexpr const char* kCatRef =
    "np.concatenate([t for t in tensors if t.ndim > 1 or len(tensors) == 1], dim)";
constexpr const char* kRowSamples = "[T(2, 3), T(2, 3)]; [T(2, 1, 3), T(2, 1, 3)]";

struct Cat {
  static constexpr OpSpec spec{"cat",
                               "tensors, dim=0",
                               kFunction | kOut | kShape | kOutApart,
                               "The tensors one after the other along dim.",
                               kCatSamples,
                               kCatRef};
  struct State {
    SmallVec<int64_t, 6> lengths;  // -1 for a skipped tensor
    int dim;
  };
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Cat>& ctx, TensorList tensors, Dim dim) {
    COGRAD_CHECK_VALUE(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
    const Tensor* first = nullptr;
    for (size_t i = 0; i < tensors.size(); ++i) {
      COGRAD_CHECK(tensors[i].dim() > 0, "zero-dimensional tensor (at position ", i,
                   ") cannot be concatenated");
      if (first == nullptr && !skipped(tensors[i])) first = &tensors[i];
    }
    if (first == nullptr) first = &tensors[0];
    const int d = wrap_dim(dim, first->dim());
    const Dims sizes = joined_sizes(tensors, *first, d);
    if (ctx.recording()) {
      ctx->dim = d;
      for (const Tensor& t : tensors) ctx->lengths.push_back(skipped(t) ? -1 : t.size(d));
    }
    Tensor out = ctx.out(sizes, joined_dtype(tensors));
    raw_join(out, tensors, d);
    return out;
  }
  static void backward(Ctx<Cat>& ctx, const Tensor& g) {
    const Pieces pieces(g, ctx->dim);
    int64_t at = 0;
    for (size_t i = 0; i < ctx->lengths.size(); ++i) {
      const int64_t n = ctx->lengths[i];
      if (ctx.needs(i)) ctx.grad(i) = n < 0 ? zeros(Dims{0}, g.dtype()) : pieces.length(at, n);
      at += std::max<int64_t>(n, 0);
    }
  }
};
COGRAD_OP(Cat)

#define COGRAD_CAT_ALIAS(Struct, name)                                               \
  struct Struct {                                                                    \
    static constexpr OpSpec spec{name,                                               \
                                 "tensors, dim=0",                                   \
                                 kFunction | kOut | kShape | kOutApart,              \
                                 "Another name of cat.",                             \
                                 kCatSamples,                                        \
                                 kCatRef};                                           \
    static Tensor forward(TensorList tensors, Dim dim) { return cat(tensors, dim); } \
  };                                                                                 \
  COGRAD_OP(Struct)
COGRAD_CAT_ALIAS(Concat, "concat")
COGRAD_CAT_ALIAS(Concatenate, "concatenate")

struct Stack {
  static constexpr OpSpec spec{"stack",
                               "tensors, dim=0",
                               kFunction | kOut | kShape | kOutApart,
                               "Tensors of one shape joined along a new dim.",
                               "[T(2, 3), T(2, 3)]; [T(2), T(2)], 1; [T(2, 3)], -1",
                               "np.stack(tensors, dim)"};
  struct State {
    size_t count;
    int dim;
  };
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims(1);
  static Tensor forward(Ctx<Stack>& ctx, TensorList tensors, Dim dim) {
    COGRAD_CHECK(!tensors.empty(), "stack expects a non-empty TensorList");
    const Tensor& first = tensors[0];
    const int d = wrap_dim(dim, first.dim() + 1);
    std::vector<Tensor> parts;
    parts.reserve(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& t = tensors[i];
      COGRAD_CHECK(same(t.sizes(), first.sizes()),
                   "stack expects each tensor to be equal size, but got ", to_string(first.sizes()),
                   " at entry 0 and ", to_string(t.sizes()), " at entry ", i);
      Dims sizes(t.sizes());
      Dims strides(t.strides());
      sizes.insert(static_cast<size_t>(d), 1);
      strides.insert(static_cast<size_t>(d), 1);
      parts.push_back(alias_strided(t, sizes, strides, t.bytes()));
    }
    if (ctx.recording()) *ctx.operator->() = {tensors.size(), d};
    Dims sizes(parts[0].sizes());
    sizes[static_cast<size_t>(d)] = static_cast<int64_t>(tensors.size());
    Tensor out = ctx.out(sizes, joined_dtype(tensors));
    raw_join(out, parts, d);
    return out;
  }
  static void backward(Ctx<Stack>& ctx, const Tensor& g) {
    const Pieces pieces(g, ctx->dim);
    for (size_t i = 0; i < ctx->count; ++i)
      if (ctx.needs(i)) ctx.grad(i) = pieces.one(static_cast<int64_t>(i));
  }
};
COGRAD_OP(Stack)

// Adds dims to x as the atleast_ functions do, until it has n.
Tensor at_least(const Tensor& x, int n) {
  if (x.dim() >= n) return x;
  if (x.dim() == 0) return view(x, Dims(static_cast<size_t>(n), 1));
  if (n == 2) return unsqueeze(x, 0);
  return x.dim() == 2 ? unsqueeze(x, 2) : unsqueeze(unsqueeze(x, 0), 2);
}

std::vector<Tensor> all_at_least(TensorList tensors, int n) {
  std::vector<Tensor> out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(at_least(t, n));
  return out;
}

#define COGRAD_AT_LEAST(Struct, name, n, samples)                                               \
  struct Struct {                                                                               \
    static constexpr OpSpec spec{name,                                                          \
                                 "input",                                                       \
                                 kFunction | kShape,                                            \
                                 "The tensor viewed with at least " #n " dims.",                \
                                 samples,                                                       \
                                 "np." name "(input)"};                                         \
    static Tensor forward(const Tensor& x) { return at_least(x, n); }                           \
  };                                                                                            \
  COGRAD_OP(Struct)                                                                             \
  struct Struct##List {                                                                         \
    static constexpr OpSpec spec{name, "*tensors", kFunction | kShape,                          \
                                 "The tensors viewed with at least " #n " dims.",               \
                                 "T(3, 4), T(); T(2)"};                                         \
    static std::vector<Tensor> forward(TensorList tensors) { return all_at_least(tensors, n); } \
  };                                                                                            \
  COGRAD_OP(Struct##List)
COGRAD_AT_LEAST(AtLeast1d, "atleast_1d", 1, "T(); T(3, 4)")
COGRAD_AT_LEAST(AtLeast2d, "atleast_2d", 2, "T(); T(3); T(3, 4)")
COGRAD_AT_LEAST(AtLeast3d, "atleast_3d", 3, "T(); T(3); T(3, 4); T(2, 3, 4)")

void check_list(const char* op, TensorList tensors) {
  COGRAD_CHECK(!tensors.empty(), op, " expects a non-empty TensorList");
}

// Defines cat of tensors that are first extended to n dims; they are `parts`.
#define COGRAD_STACK(Struct, name, n, dim, doc, ref)                                       \
  struct Struct {                                                                          \
    static constexpr OpSpec spec{name, "tensors",   kFunction | kOut | kShape | kOutApart, \
                                 doc,  kRowSamples, ref};                                  \
    static Tensor forward(TensorList tensors) {                                            \
      check_list(name, tensors);                                                           \
      const std::vector<Tensor> parts = all_at_least(tensors, n);                          \
      return cat(parts, dim);                                                              \
    }                                                                                      \
  };                                                                                       \
  COGRAD_OP(Struct)
COGRAD_STACK(Hstack, "hstack", 1, parts[0].dim() == 1 ? 0 : 1,
             "Tensors joined along dim 1 (dim 0 if 1-d).", "np.hstack(tensors)")
COGRAD_STACK(Vstack, "vstack", 2, 0, "Tensors joined as rows.", "np.vstack(tensors)")
COGRAD_STACK(RowStack, "row_stack", 2, 0, "Another name of vstack.", "np.vstack(tensors)")
COGRAD_STACK(Dstack, "dstack", 3, 2, "Tensors joined along dim 2.", "np.dstack(tensors)")

struct ColumnStack {
  static constexpr OpSpec spec{"column_stack",
                               "tensors",
                               kFunction | kOut | kShape | kOutApart,
                               "Tensors joined as columns; 0-d and 1-d ones are single columns.",
                               "[T(3), T(3, 2)]; [T(3), T(3)]",
                               "np.column_stack(tensors)"};
  static Tensor forward(TensorList tensors) {
    check_list("column_stack", tensors);
    std::vector<Tensor> parts;
    for (const Tensor& t : tensors)
      parts.push_back(t.dim() <= 1 ? reshape(t, Dims{t.numel(), 1}) : t);
    return cat(parts, 1);
  }
};
COGRAD_OP(ColumnStack)

struct BlockDiag {
  static constexpr OpSpec spec{"block_diag", "*tensors", kFunction | kShape,
                               "A matrix with the tensors (at most 2-d) along its diagonal.",
                               "T(2, 3), T(1, 2); T(3), T()"};
  struct State {
    std::vector<Dims> sizes;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<BlockDiag>& ctx, TensorList tensors) {
    Dims total{0, 0};
    for (size_t i = 0; i < tensors.size(); ++i) {
      COGRAD_CHECK(tensors[i].dim() <= 2,
                   "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input ", i,
                   " has ", tensors[i].dim(), " dimensions");
      total[0] += rows(tensors[i].sizes());
      total[1] += cols(tensors[i].sizes());
      if (ctx.recording()) ctx->sizes.emplace_back(tensors[i].sizes());
    }
    if (tensors.empty()) total[0] = 1;
    Tensor out = zeros(total, tensors.empty() ? default_dtype() : joined_dtype(tensors));
    int64_t r = 0, c = 0;
    for (const Tensor& t : tensors) {
      const int64_t nr = rows(t.sizes()), nc = cols(t.sizes());
      raw_copy(slice_region(slice_region(out, 0, {r, nr}, 1), 1, {c, nc}, 1), t);
      r += nr;
      c += nc;
    }
    return out;
  }
  // Pads each tensor with zeros left and right, then stacks them vertically.
  static void batch(BatchCall& c) {
    const TensorList tensors = c.arg(0).tensors();
    const DType t = joined_dtype(tensors);
    int64_t left = 0, right = 0;
    for (const Tensor& x : tensors) {
      if (x.dim() > 2) return c.loop();  // loop() raises the error
      right += cols(x.sizes());
    }
    std::vector<Tensor> column;
    for (const Tensor& x : tensors) {
      const int64_t own[3] = {c.size(), rows(x.sizes()), cols(x.sizes())};
      right -= own[2];
      const int64_t pad[2] = {left, right};
      column.push_back(constant_pad(reshape(cast(c.physical_expanded(x), t), own), pad, 0));
      left += own[2];
    }
    c.set_result(cat(column, 1));
  }
  static void backward(Ctx<BlockDiag>& ctx, const Tensor& g) {
    int64_t r = 0, c = 0;
    for (size_t i = 0; i < ctx->sizes.size(); ++i) {
      const IntList sizes(ctx->sizes[i]);
      const int64_t nr = rows(sizes), nc = cols(sizes);
      if (ctx.needs(i)) ctx.grad(i) = reshape(slice(slice(g, 0, r, r + nr), 1, c, c + nc), sizes);
      r += nr;
      c += nc;
    }
  }

 private:
  static int64_t rows(IntList sizes) { return sizes.size() == 2 ? sizes[0] : 1; }
  static int64_t cols(IntList sizes) { return sizes.empty() ? 1 : sizes.back(); }
};
COGRAD_OP(BlockDiag)

}  // namespace

Tensor cat(TensorList tensors, int64_t dim) { return apply<Cat>(tensors, dim); }
Tensor stack(TensorList tensors, int64_t dim) { return apply<Stack>(tensors, dim); }

}  // namespace cograd
