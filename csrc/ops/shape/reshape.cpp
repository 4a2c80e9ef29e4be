// SPDX-License-Identifier: BSD-3-Clause
// Reshaping: view and related copying ops, flatten and unflatten, views as another dtype.
#include <algorithm>

#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

struct InputSizes {
  Dims sizes;
};

struct View {
  static constexpr OpSpec spec{"view",
                               "input, *size",
                               kMethod | kView,
                               "A view of the same memory with another shape; one size may be -1.",
                               "T(3, 4), (2, -1); T(2, 3, 4), (6, 4); T(), (1, 1)",
                               "np.reshape(input, size)"};
  using State = InputSizes;
  static constexpr BatchRule kBatch = by_shape();
  static Tensor forward(Ctx<View>& ctx, const Tensor& x, Shape asked) {
    const Dims sizes = infer_sizes(asked, x.numel());
    Dims strides;
    COGRAD_CHECK(view_strides(x, sizes, strides),
                 "view size is not compatible with input tensor's size and stride (at least one "
                 "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    return make_view(x, sizes, strides, x.bytes());
  }
  static Tensor backward(Ctx<View>& ctx, const Tensor& g) { return reshape(g, ctx->sizes); }
};
COGRAD_OP(View)

// Returns a reshaped alias of a tensor with no other owner; it is not a view for autograd.
struct UnsafeView {
  static constexpr OpSpec spec{"_unsafe_view", "input, *size", kInternal | kShape | kAlias,
                               "view of a temporary; the result is not a view for autograd.",
                               "none: reached through reshape()"};
  using State = InputSizes;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_shape();
  static Tensor forward(Ctx<UnsafeView>& ctx, const Tensor& x, Shape sizes) {
    const bool whole = std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n >= 0; });
    COGRAD_CHECK(whole && product(sizes) == x.numel(), "_unsafe_view(): shape ", to_string(sizes),
                 " does not fit a tensor of shape ", to_string(x.sizes()));
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const Tensor dense = raw_contiguous(x);
    return alias_strided(dense, sizes, contiguous_strides(sizes), dense.bytes());
  }
  static Tensor backward(Ctx<UnsafeView>& ctx, const Tensor& g) { return reshape(g, ctx->sizes); }
};
COGRAD_OP(UnsafeView)

Tensor reshaped(const Tensor& x, IntList asked) {
  if (x.is_contiguous()) return apply<View>(x, asked);
  const Dims sizes = infer_sizes(asked, x.numel());
  Dims strides;
  if (view_strides(x, sizes, strides)) return apply<View>(x, IntList(sizes));
  return apply<UnsafeView>(contiguous(x), IntList(sizes));
}

struct Reshape {
  static constexpr OpSpec spec{"reshape",
                               "input, *shape",
                               kFunctional | kShape,
                               "The tensor in another shape: a view if strides allow, else a copy.",
                               "T(3, 4), (2, 6); T(2, 3, 4), (-1,)",
                               "np.reshape(input, shape)"};
  static Tensor forward(const Tensor& x, Shape shape) { return reshaped(x, shape); }
};
COGRAD_OP(Reshape)

struct ViewAs {
  static constexpr bool kMixesDevices = true;  // reads the shape of the other tensor
  static constexpr OpSpec spec{"view_as",          "input, other",
                               kMethod | kView,    "view in other's shape.",
                               "T(3, 4), T(2, 6)", "np.reshape(input, other.shape)"};
  static Tensor forward(const Tensor& x, const Tensor& other) {
    return apply<View>(x, other.sizes());
  }
};
COGRAD_OP(ViewAs)

struct ReshapeAs {
  static constexpr bool kMixesDevices = true;  // reads the shape of the other tensor
  static constexpr OpSpec spec{"reshape_as",       "input, other",
                               kMethod | kShape,   "reshape to other's shape.",
                               "T(3, 4), T(2, 6)", "np.reshape(input, other.shape)"};
  static Tensor forward(const Tensor& x, const Tensor& other) { return reshaped(x, other.sizes()); }
};
COGRAD_OP(ReshapeAs)

Tensor flattened(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  const int start = wrap_dim(start_dim, x.dim());
  const int end = wrap_dim(end_dim, x.dim());
  COGRAD_CHECK(start <= end,
               "flatten() has invalid args: start_dim cannot come after end_dim, got ", start_dim,
               " and ", end_dim);
  if (x.dim() == 0) return apply<View>(x, IntList(Dims{1}));
  if (start == end) return x;
  Dims sizes;
  int64_t joined = 1;
  for (int d = 0; d < x.dim(); ++d) {
    if (d < start || d > end)
      sizes.push_back(x.size(d));
    else
      joined = checked_mul(joined, x.size(d));
    if (d == end) sizes.push_back(joined);
  }
  return reshaped(x, sizes);
}

struct Flatten {
  static constexpr OpSpec spec{"flatten",
                               "input, start_dim=0, end_dim=-1",
                               kFunctional | kShape,
                               "The tensor with the dims start_dim..end_dim merged into one.",
                               "T(2, 3, 4); T(2, 3, 4), 1; T(2, 3, 4), 0, 1; T()",
                               ""};
  static Tensor forward(const Tensor& x, Dim start_dim, Dim end_dim) {
    return flattened(x, start_dim, end_dim);
  }
};
COGRAD_OP(Flatten)

struct Ravel {
  static constexpr OpSpec spec{"ravel",
                               "input",
                               kFunctional | kShape,
                               "The tensor flattened to one dim.",
                               "T(2, 3, 4); T(3); T()",
                               "np.ravel(input)"};
  static Tensor forward(const Tensor& x) {
    const int64_t all[1] = {-1};
    return apply<View>(contiguous(x), IntList(x.numel() == 0 ? Dims{0} : Dims(all, all + 1)));
  }
};
COGRAD_OP(Ravel)

struct Unflatten {
  static constexpr OpSpec spec{"unflatten",
                               "input, dim, sizes",
                               kFunctional | kView,
                               "A view with one dim split into `sizes`; one of them may be -1.",
                               "T(3, 4), 1, (2, -1); T(6), 0, (2, 3)",
                               ""};
  static Tensor forward(const Tensor& x, Dim dim, Shape sizes) {
    COGRAD_CHECK(!sizes.empty(), "unflatten: sizes must be non-empty");
    const int d = wrap_dim(dim, x.dim());
    COGRAD_CHECK(x.dim() > 0, "unflatten: the input has no dims");
    const int64_t have = x.size(d);
    int64_t known = 1;
    int unknown = 0;
    bool overflow = false;
    for (int64_t s : sizes) {
      if (s == -1)
        ++unknown;
      else
        overflow |= __builtin_mul_overflow(known, s, &known);
    }
    COGRAD_CHECK(unknown <= 1, "unflatten: only one dimension can be inferred, got sizes ",
                 to_string(sizes));
    COGRAD_CHECK(!overflow && (unknown == 1 ? known > 0 && have % known == 0 : known == have),
                 "unflatten: Provided sizes ", to_string(sizes),
                 " don't multiply up to the size of dim ", d, " (", have, ") in the input tensor");
    Dims shape;
    for (int i = 0; i < x.dim(); ++i) {
      if (i != d)
        shape.push_back(x.size(i));
      else
        for (int64_t s : sizes) shape.push_back(s == -1 ? have / known : s);
    }
    return apply<View>(x, IntList(shape));
  }
};
COGRAD_OP(Unflatten)

// Computes sizes and strides of x's bytes seen as elements of a type that is `ratio` times larger.
void view_larger(const Tensor& x, int64_t ratio, const std::string& what, Dims& sizes,
                 Dims& strides) {
  COGRAD_CHECK(sizes.back() % ratio == 0, "self.size(-1) must be divisible by ", ratio, what,
               sizes.back());
  COGRAD_CHECK(x.storage_offset() % ratio == 0, "self.storage_offset() must be divisible by ",
               ratio, what, x.storage_offset());
  COGRAD_CHECK(strides.back() == 1, "self.stride(-1) must be 1", what, strides.back());
  for (size_t i = 0; i + 1 < strides.size(); ++i) {
    COGRAD_CHECK(strides[i] % ratio == 0, "self.stride(", i, ") must be divisible by ", ratio, what,
                 strides[i]);
    strides[i] /= ratio;
  }
  sizes.back() /= ratio;
}

struct ViewDType {
  static constexpr OpSpec spec{"view",
                               "input, dtype",
                               kMethod | kNondiff | kView | kReadsBytes,
                               "The same bytes read as another dtype; no gradient flows.",
                               "T(3, 4), torch.int64; T(3, 4), torch.int32; I(4), torch.uint8",
                               ""};
  static Tensor forward(Ctx<ViewDType>&, const Tensor& x, DType to) {
    if (to == x.dtype()) return x;
    Dims sizes(x.sizes());
    Dims strides(x.strides());
    const int64_t from_size = x.itemsize();
    const int64_t to_size = dtype_size(to);
    if (from_size != to_size) {
      const std::string pair = " to view " + std::string(scalar_type_name(x.dtype())) + " as " +
                               scalar_type_name(to) + " (different element sizes)";
      const std::string what = pair + ", but got ";
      COGRAD_CHECK(x.dim() > 0, "self.dim() cannot be 0", pair);
      if (to_size < from_size) {
        const int64_t ratio = from_size / to_size;
        COGRAD_CHECK(strides.back() == 1, "self.stride(-1) must be 1", what, strides.back());
        for (size_t i = 0; i + 1 < strides.size(); ++i)
          strides[i] = scaled_stride(strides[i], ratio);
        sizes.back() = checked_mul(sizes.back(), ratio);
      } else {
        view_larger(x, to_size / from_size, what, sizes, strides);
      }
    }
    Tensor out = alias_strided(x, sizes, strides, x.bytes());
    out->dtype = to;
    return out;
  }
};
COGRAD_OP(ViewDType)

}  // namespace

Tensor view(const Tensor& x, IntList sizes) { return apply<View>(x, sizes); }
Tensor unsafe_view(const Tensor& x, IntList sizes) { return apply<UnsafeView>(x, sizes); }
Tensor without_dim(const Tensor& x, int64_t dim) {
  Dims sizes;
  for (int d = 0; d < x.dim(); ++d)
    if (d != wrap_dim(dim, x.dim())) sizes.push_back(x.size(d));
  return unsafe_view(x, sizes);
}
Tensor reshape(const Tensor& x, IntList sizes) { return reshaped(x, sizes); }
Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  return flattened(x, start_dim, end_dim);
}

}  // namespace cograd
