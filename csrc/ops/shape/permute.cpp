// SPDX-License-Identifier: BSD-3-Clause
// Views that reorder dims: permute, transpose, movedim and their aliases.
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"
#include "ops/shape/inplace_geometry.h"
#include "ops/transform/forward_mode.h"

namespace cograd {

namespace {

struct Alias {
  static constexpr OpSpec spec{
      "_alias", "input", kInternal | kView, "A view of the whole tensor.", "T(3, 4); T()", "input"};
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<Alias>&, const Tensor& x) {
    return make_view(x, x.sizes(), x.strides(), x.bytes());
  }
  static Tensor backward(Ctx<Alias>&, const Tensor& g) { return g; }
};
COGRAD_OP(Alias)

struct Permute {
  static constexpr OpSpec spec{"permute",
                               "input, *dims",
                               kFunctional | kView,
                               "A view with the dims in the given order.",
                               "T(2, 3, 4), (2, 0, 1); T(3, 4), (-1, 0); T(), ()",
                               "np.transpose(input, dims)"};
  struct State {
    Dims inverse;
  };
  static Tensor forward(Ctx<Permute>& ctx, const Tensor& x, DimList dims) {
    COGRAD_CHECK(dims.size() == static_cast<size_t>(x.dim()),
                 "permute(): number of dimensions in the tensor input does not match the length of "
                 "the desired ordering of dimensions i.e. input.dim() = ",
                 x.dim(), " is not equal to len(dims) = ", dims.size());
    Dims sizes(dims.size());
    Dims strides(dims.size());
    Dims inverse(dims.size(), -1);
    for (size_t i = 0; i < dims.size(); ++i) {
      const int d = wrap_dim(dims[i], x.dim());
      COGRAD_CHECK(inverse[static_cast<size_t>(d)] == -1,
                   "permute(): duplicate dims are not allowed.");
      inverse[static_cast<size_t>(d)] = static_cast<int64_t>(i);
      sizes[i] = x.size(d);
      strides[i] = x.stride(d);
    }
    if (ctx.recording()) ctx->inverse = inverse;
    return make_view(x, sizes, strides, x.bytes());
  }
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    Dims dims{0};
    for (const int64_t d : c.arg(1).ints()) {
      const bool bad = d < -x.dim() || d >= x.dim();  // permute() raises for these
      dims.push_back(bad ? d : (d < 0 ? d + x.dim() : d) + 1);
    }
    c.set_result(permute(c.physical(x), dims));
  }
  static Tensor backward(Ctx<Permute>& ctx, const Tensor& g) { return permute(g, ctx->inverse); }
};
COGRAD_OP(Permute)

struct SwappedDims {
  int a;
  int b;
};

Tensor swapped_view(const Tensor& x, SwappedDims d) {
  Dims sizes(x.sizes());
  Dims strides(x.strides());
  if (x.dim() > 0) {
    std::swap(sizes[static_cast<size_t>(d.a)], sizes[static_cast<size_t>(d.b)]);
    std::swap(strides[static_cast<size_t>(d.a)], strides[static_cast<size_t>(d.b)]);
  }
  return make_view(x, sizes, strides, x.bytes());
}

template <bool kInplaceForm>
struct TransposeOp {
  static constexpr OpSpec spec{"transpose",
                               "input, dim0, dim1",
                               kFunctional | kView,
                               "A view with two dims exchanged.",
                               "T(2, 3, 4), 0, -1; T(3, 4), 1, 0",
                               "np.swapaxes(input, dim0, dim1)"};
  static constexpr const char* kNodeName =
      kInplaceForm ? "TransposeBackward1" : "TransposeBackward0";
  using State = SwappedDims;
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<TransposeOp>& ctx, const Tensor& x, Dim dim0, Dim dim1) {
    const SwappedDims d{wrap_dim(dim0, x.dim()), wrap_dim(dim1, x.dim())};
    *ctx.operator->() = d;
    return swapped_view(x, d);
  }
  static Tensor backward(Ctx<TransposeOp>& ctx, const Tensor& g) {
    return transpose(g, ctx->a, ctx->b);
  }
};
using Transpose = TransposeOp<false>;
COGRAD_OP(Transpose)

struct TransposeAll {
  static constexpr OpSpec spec{"transpose",
                               "input, axes",
                               kFunction | kView,
                               "permute under NumPy's name.",
                               "T(2, 3, 4), (2, 0, -2); T(3, 4), (1, 0)",
                               "np.transpose(input, axes)"};
  static Tensor forward(const Tensor& x, DimList axes) { return permute(x, axes); }
};
COGRAD_OP(TransposeAll)
[[maybe_unused]] const bool transpose_inplace =
    add_geometry_op<TransposeOp<true>>() && add_geometry_op<TransposeOp<true>>("swapdims") &&
    add_geometry_op<TransposeOp<true>>("swapaxes", "input, axis0, axis1");

struct Swapaxes {
  static constexpr OpSpec spec{"swapaxes",          "input, axis0, axis1",
                               kFunctional | kView, "transpose under NumPy's name.",
                               "T(2, 3, 4), 0, 2",  "np.swapaxes(input, axis0, axis1)"};
  static Tensor forward(const Tensor& x, Dim a, Dim b) { return apply<Transpose>(x, a, b); }
};
COGRAD_OP(Swapaxes)

struct Swapdims {
  static constexpr OpSpec spec{"swapdims",          "input, dim0, dim1",
                               kFunctional | kView, "transpose under another name.",
                               "T(2, 3, 4), 0, 2",  "np.swapaxes(input, dim0, dim1)"};
  static Tensor forward(const Tensor& x, Dim a, Dim b) { return apply<Transpose>(x, a, b); }
};
COGRAD_OP(Swapdims)

template <bool kInplaceForm>
struct TOp {
  static constexpr OpSpec spec{
      "t",
      "input",
      kFunctional | kView,
      "A transposed view of a matrix; tensors with fewer dims are returned as they are.",
      "T(3, 4); T(3)",
      "input.T"};
  static constexpr const char* kNodeName = kInplaceForm ? "TBackward1" : "TBackward0";
  static Tensor forward(Ctx<TOp>&, const Tensor& x) {
    COGRAD_CHECK(x.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", x.dim(),
                 "D");
    return swapped_view(x, {0, x.dim() == 2 ? 1 : 0});
  }
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    box(c.out(), x.dim() < 2 ? alias(x) : transpose(x, 0, 1));
  }
  static Tensor backward(Ctx<TOp>&, const Tensor& g) { return t(g); }
};
using T = TOp<false>;
COGRAD_OP(T)
[[maybe_unused]] const bool t_inplace = add_geometry_op<TOp<true>>();

struct ReversedDims {
  static constexpr OpSpec spec{"_T",
                               "input",
                               kInternal | kView,
                               "x.T: a view with the dims reversed.",
                               "T(2, 3, 4); T(3, 4)",
                               "np.transpose(input)"};
  static Tensor forward(const Tensor& x) {
    Dims dims;
    for (int d = x.dim() - 1; d >= 0; --d) dims.push_back(d);
    return apply<Permute>(x, IntList(dims));
  }
};
COGRAD_OP(ReversedDims)

struct MatrixT {
  static constexpr OpSpec spec{"_mT",
                               "input",
                               kInternal | kView,
                               "x.mT: a view with the last two dims exchanged.",
                               "T(2, 3, 4); T(3, 4)",
                               "np.swapaxes(input, -1, -2)"};
  static Tensor forward(const Tensor& x) {
    COGRAD_CHECK(x.dim() >= 2 || x.dim() == 0,
                 "tensor.mT is only supported on matrices or batches of matrices. Got ", x.dim(),
                 "-D tensor.");
    return x.dim() == 0 ? x : apply<Transpose>(x, int64_t{-2}, int64_t{-1});
  }
};
COGRAD_OP(MatrixT)

struct HermitianT {
  static constexpr OpSpec spec{
      "_H",      "input",  kInternal | kView, "x.H: the conjugate transpose of a matrix.",
      "T(3, 4)", "input.T"};
  static Tensor forward(const Tensor& x) {
    COGRAD_CHECK(x.dim() == 2 || x.dim() == 0,
                 "tensor.H is only supported on matrices (2-D tensors). Got ", x.dim(),
                 "-D tensor.",
                 x.dim() > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    return x.dim() == 0 ? x : conj(apply<Transpose>(x, int64_t{0}, int64_t{1}));
  }
};
COGRAD_OP(HermitianT)

struct BatchedHermitianT {
  static constexpr OpSpec spec{"_mH",
                               "input",
                               kInternal | kView,
                               "x.mH: conj of a view with the last two dims exchanged.",
                               "T(2, 3, 4)",
                               "np.swapaxes(input, -1, -2)"};
  static Tensor forward(const Tensor& x) {
    if (x.dim() == 0) return conj(x);
    COGRAD_CHECK(x.dim() >= 2,
                 "tensor.mH is only supported on matrices or batches of matrices. Got ", x.dim(),
                 "-D tensor.");
    return conj(apply<Transpose>(x, int64_t{-2}, int64_t{-1}));
  }
};
COGRAD_OP(BatchedHermitianT)

Dims wrapped_unique(const char* which, IntList dims, int ndim) {
  Dims out;
  for (int64_t d : dims) out.push_back(wrap_dim(d, ndim));
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      COGRAD_CHECK(out[i] != out[j], "movedim: repeated dim in `", which, "` (", to_string(dims),
                   ")");
  return out;
}

Tensor moved(const Tensor& x, IntList source, IntList destination) {
  COGRAD_CHECK(source.size() == destination.size(),
               "movedim: Invalid source or destination dims: source (", to_string(source),
               " dims) should contain the same number of dims as destination (",
               to_string(destination), " dims)");
  const Dims from = wrapped_unique("source", source, x.dim());
  const Dims to = wrapped_unique("destination", destination, x.dim());
  Dims order(static_cast<size_t>(x.dim()), -1);
  for (size_t i = 0; i < from.size() && x.dim() > 0; ++i)
    order[static_cast<size_t>(to[i])] = from[i];
  int64_t next = 0;
  for (int64_t& slot : order) {
    if (slot != -1) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    slot = next++;
  }
  return apply<Permute>(x, IntList(order));
}

struct Movedim {
  static constexpr OpSpec spec{"movedim",
                               "input, source, destination",
                               kFunctional | kView,
                               "A view with the dims `source` moved to the places `destination`.",
                               "T(2, 3, 4), 0, 2; T(2, 3, 4), (0, 1), (-1, 0)",
                               "np.moveaxis(input, source, destination)"};
  static Tensor forward(const Tensor& x, DimList source, DimList destination) {
    return moved(x, source, destination);
  }
};
COGRAD_OP(Movedim)

struct Moveaxis {
  static constexpr OpSpec spec{"moveaxis",          "input, source, destination",
                               kFunctional | kView, "movedim under NumPy's name.",
                               "T(2, 3, 4), 0, 2",  "np.moveaxis(input, source, destination)"};
  static Tensor forward(const Tensor& x, DimList source, DimList destination) {
    return moved(x, source, destination);
  }
};
COGRAD_OP(Moveaxis)

}  // namespace

Tensor alias(const Tensor& x) { return apply<Alias>(x); }

Tensor permute(const Tensor& x, IntList dims) { return apply<Permute>(x, dims); }
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  return apply<Transpose>(x, dim0, dim1);
}
Tensor t(const Tensor& x) { return apply<T>(x); }
Tensor movedim(const Tensor& x, int64_t source, int64_t destination) {
  return moved(x, {&source, 1}, {&destination, 1});
}

}  // namespace cograd
