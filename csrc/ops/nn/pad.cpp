// SPDX-License-Identifier: BSD-3-Clause
// pad: adds (or cuts) elements at the ends of the last dims, from a constant or the input itself.
#include "ops/nn/pad.h"
#include "kernels/core/sequences.h"

#include "ops/compute/elementwise.h"
#include "ops/compute/scalars.h"
#include "ops/compute/strides.h"
#include "ops/declare/kinked.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

using kernels::PadMode;

PadMode pad_mode(std::string_view name) {
  if (name == "constant") return PadMode::Constant;
  if (name == "reflect") return PadMode::Reflect;
  if (name == "replicate") return PadMode::Replicate;
  COGRAD_CHECK_NOT_IMPLEMENTED(name == "circular", "Unrecognised padding mode ", name);
  return PadMode::Circular;
}

// The k-th last dim gets pad[2 k] elements in front and pad[2 k + 1] behind.
struct Ends {
  int dim;
  int64_t left, right;
};
Ends ends_of(const Tensor& x, IntList pad, size_t k) {
  return {x.dim() - 1 - static_cast<int>(k), pad[2 * k], pad[2 * k + 1]};
}

int64_t padded_size(const Tensor& x, const Ends& e) {
  int64_t size = x.size(e.dim);
  COGRAD_CHECK(!__builtin_add_overflow(size, e.left, &size) &&
                   !__builtin_add_overflow(size, e.right, &size) && size >= 0,
               "pad: The input size ", x.size(e.dim), ", plus negative padding ", e.left, " and ",
               e.right, " resulted in a negative output size, which is invalid. Check dimension ",
               e.dim, " of your input.");
  return size;
}

struct ConstantPad {
  static constexpr OpSpec spec{"constant_pad_nd", "input, pad, value=0", kFunction | kReduction,
                               "The input padded with one value; negative paddings cut.",
                               "T(3, 4), (1, 2); T(3, 4), (-1, 2, 0, -1), 2.0; T(2, 3), (2, -4)"};
  struct State {
    Dims pad;
  };
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr BatchRule kBatch = leading_alone();
  static Tensor forward(Ctx<ConstantPad>& ctx, const Tensor& x, IntList pad, Scalar value) {
    COGRAD_CHECK(pad.size() % 2 == 0, "Length of pad must be even but instead it equals ",
                 pad.size());
    COGRAD_CHECK(pad.size() <= 2 * static_cast<size_t>(x.dim()),
                 "Length of pad should be no more than twice the number of dimensions of the "
                 "input. Pad length is ",
                 pad.size(), " while the input has ", x.dim(), " dimensions.");
    if (ctx.recording())
      for (int64_t n : pad) ctx->pad.push_back(-n);
    Dims sizes(x.sizes());
    for (size_t k = 0; k < pad.size() / 2; ++k) {
      const Ends e = ends_of(x, pad, k);
      sizes[static_cast<size_t>(e.dim)] = padded_size(x, e);
    }
    const bool grows = std::any_of(pad.begin(), pad.end(), [](int64_t n) { return n > 0; });
    if (!grows) return cut(x, pad);
    // In torch the value is a float, and negative values do not wrap.
    if (is_integral(x.dtype()) && !is_signed(x.dtype()) && value.to_double() < 0)
      fail_number("pad", "value", value, x.dtype());
    check_number("pad", "value", value, x.dtype(), OutOfRange::Raises);
    Tensor out = empty_with_strides(sizes, format_strides(sizes, suggested_format(x)), x.dtype());
    raw_fill(out, value);
    Tensor from = x, to = out;
    for (size_t k = 0; k < pad.size() / 2; ++k) {
      const Ends e = ends_of(x, pad, k);
      const int64_t skip = std::max<int64_t>(-e.left, 0), at = std::max<int64_t>(e.left, 0);
      const int64_t n = std::min(x.size(e.dim) - skip, to.size(e.dim) - at);
      if (n <= 0) return out;
      from = slice_region(from, e.dim, {skip, n}, 1);
      to = slice_region(to, e.dim, {at, n}, 1);
    }
    raw_copy(to, from);
    return out;
  }
  // Copies the remaining part if nothing is added, and keeps the input's memory order.
  static Tensor cut(const Tensor& x, IntList pad) {
    Tensor left = x;
    for (size_t k = 0; k < pad.size() / 2; ++k) {
      const Ends e = ends_of(x, pad, k);
      left = slice_region(left, e.dim, {-e.left, padded_size(x, e)}, 1);
    }
    const Tensor out = empty_preserving(left, x.dtype());
    raw_copy(out, left);
    return out;
  }
  // Cuts added elements off again and pads cut ones with zeros.
  static Tensor backward(Ctx<ConstantPad>& ctx, const Tensor& g) {
    return apply<ConstantPad>(g, IntList(ctx->pad), Scalar(0));
  }
};
COGRAD_OP(ConstantPad)

void check_ends(PadMode mode, const Tensor& x, const Ends& e) {
  const int64_t n = x.size(e.dim);
  COGRAD_CHECK(n > 0, "pad: dimension ", e.dim, " of the input is empty, so there is nothing to ",
               "pad with; input has shape ", to_string(x.sizes()));
  if (mode == PadMode::Reflect)
    COGRAD_CHECK(e.left < n && e.right < n,
                 "Padding size should be less than the corresponding input dimension, but got: "
                 "padding (",
                 e.left, ", ", e.right, ") at dimension ", e.dim, " of input ",
                 to_string(x.sizes()));
  if (mode == PadMode::Circular)
    COGRAD_CHECK(e.left <= n && e.right <= n,
                 "Padding value causes wrapping around more than once, got (", e.left, ", ",
                 e.right, ") at dimension ", e.dim, " of input ", to_string(x.sizes()));
}

Tensor padded_dim(PadMode mode, const Tensor& given, const Ends& whole) {
  if (whole.left == 0 && whole.right == 0) return given;
  Ends e = whole;
  Tensor x = given;
  // Circular padding wraps around what remains after the cut.
  if (mode == PadMode::Circular && (e.left < 0 || e.right < 0)) {
    padded_size(given, whole);
    const int64_t before = std::max<int64_t>(-e.left, 0), after = std::max<int64_t>(-e.right, 0);
    x = narrow(given, e.dim, std::min(before, given.size(e.dim)),
               std::max<int64_t>(given.size(e.dim) - before - after, 0));
    e.left = std::max<int64_t>(e.left, 0);
    e.right = std::max<int64_t>(e.right, 0);
    if (e.left == 0 && e.right == 0) return contiguous_clone(x);
  }
  check_ends(mode, x, e);
  const Tensor index = empty(Dims{padded_size(x, e)}, DType::Int64);
  kernels::pad_indices(mode, x.size(e.dim), e.left, index.numel(), index.data<int64_t>());
  return index_select(x, e.dim, index);
}

struct Pad {
  static constexpr OpSpec spec{
      "pad",
      "input, pad, mode='constant', value=None",
      kFunction | kNN | kShape,
      "The input padded (or, with negative paddings, cut) at the ends of the last dims: pad is "
      "(last dim left, last dim right, second last left, ...); mode is 'constant', 'reflect', "
      "'replicate' or 'circular'.",
      "T(3, 4), (1, 2); T(3, 4), (1, -1, 0, 2), 'constant', 1.5; T(2, 4), (1, 2), 'reflect'; "
      "T(2, 3, 4), (3, 1, 0, 2), 'reflect'; T(2, 3, 4), (2, 5), 'replicate'; "
      "T(1, 2, 3, 2, 4), (1, 2, 1, 1, 2, 0), 'replicate'; T(2, 2, 3, 4), (4, 1, 2, 3), 'circular'",
      ""};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x, IntList pad, std::string_view mode_name,
                        std::optional<Scalar> value) {
    const PadMode mode = pad_mode(mode_name);
    if (mode == PadMode::Constant) return apply<ConstantPad>(x, pad, value.value_or(Scalar(0)));
    COGRAD_CHECK(pad.size() % 2 == 0, "Padding length must be divisible by 2, got ", pad.size());
    COGRAD_CHECK(pad.size() <= 2 * static_cast<size_t>(x.dim()),
                 "Padding length should be less than or equal to two times the input dimension but "
                 "got padding length ",
                 pad.size(), " and input of dimension ", x.dim());
    COGRAD_CHECK(!value || value->to_double() == 0, "Padding mode \"", mode_name,
                 "\" doesn't take in value argument");
    const int padded = static_cast<int>(pad.size() / 2);
    COGRAD_CHECK_NOT_IMPLEMENTED(
        padded >= 1 && padded <= 3 && (x.dim() == padded + 1 || x.dim() == padded + 2),
        "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, got ", padded,
        " padded dimensions of an input of ", x.dim());
    const Tensor in = mode == PadMode::Circular ? x : kinked(x);
    Tensor y = in;
    for (size_t k = 0; k < pad.size() / 2; ++k) y = padded_dim(mode, y, ends_of(x, pad, k));
    if (!y.is(in)) return y;
    return mode == PadMode::Circular ? contiguous_clone(x) : clone(in);
  }
};
COGRAD_OP(Pad)

}  // namespace

Tensor constant_pad(const Tensor& x, IntList pad, Scalar value) {
  return apply<ConstantPad>(x, pad, value);
}

}  // namespace cograd
