// SPDX-License-Identifier: BSD-3-Clause
// Copies with rearranged elements: flip, roll, rot90, repeat, tile, repeat_interleave.
#include "kernels/core/sequences.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"

namespace cograd {

namespace {

struct DimsState {
  Dims dims;
};

// Copies x in reverse order along `dims`, through an alias with negative strides.
Tensor raw_flip(const Tensor& x, IntList dims) {
  Dims strides(x.strides());
  char* data = x.bytes();
  for (int64_t d : dims) {
    const auto at = static_cast<size_t>(d);
    if (x.sizes()[at] > 0) data += (x.sizes()[at] - 1) * strides[at] * x.itemsize();
    strides[at] = -strides[at];
  }
  Tensor out = empty_preserving(x, x.dtype());
  if (x.numel() > 0) raw_copy(out, alias_strided(x, x.sizes(), strides, data));
  return out;
}

Dims unique_dims(IntList dims, int ndim) {
  Dims out;
  for (int64_t dim : dims) {
    const int64_t d = wrap_dim(dim, ndim);
    COGRAD_CHECK(std::find(out.begin(), out.end(), d) == out.end(), "dim ", d,
                 " appears multiple times in the list of dims");
    out.push_back(d);
  }
  return out;
}

struct Flip {
  static constexpr OpSpec spec{"flip",
                               "input, *dims",
                               kFunctional | kShape,
                               "A copy with the order of the elements reversed along dims.",
                               "T(3, 4), (0,); T(2, 3, 4), (0, -1); T(3), ()",
                               "np.flip(input, dims)"};
  using State = DimsState;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Flip>& ctx, const Tensor& x, DimList asked) {
    Dims dims = unique_dims(asked, x.dim());
    if (x.dim() == 0) dims.clear();
    Tensor out = raw_flip(x, dims);
    if (ctx.recording()) ctx->dims = dims;
    return out;
  }
  static Tensor backward(Ctx<Flip>& ctx, const Tensor& g) { return flip(g, ctx->dims); }
};
COGRAD_OP(Flip)

struct Fliplr {
  static constexpr OpSpec spec{
      "fliplr", "input", kFunctional | kShape, "flip along dim 1.", "T(3, 4)", "np.fliplr(input)"};
  static Tensor forward(const Tensor& x) {
    COGRAD_CHECK(x.dim() >= 2, "Input must be >= 2-d.");
    return flip(x, Dims{1});
  }
};
COGRAD_OP(Fliplr)

struct Flipud {
  static constexpr OpSpec spec{
      "flipud",        "input",           kFunctional | kShape, "flip along dim 0.",
      "T(3, 4); T(3)", "np.flipud(input)"};
  static Tensor forward(const Tensor& x) {
    COGRAD_CHECK(x.dim() >= 1, "Input must be >= 1-d.");
    return flip(x, Dims{0});
  }
};
COGRAD_OP(Flipud)

struct Rot90 {
  static constexpr OpSpec spec{"rot90",
                               "input, k=1, dims=None",
                               kFunctional | kShape,
                               "A copy turned by 90 degrees k times in the plane of two dims "
                               "(default 0 and 1), from the first towards the second.",
                               "T(3, 4); T(3, 4), 2; T(2, 3, 4), -1, (0, 2)",
                               ""};
  struct State {
    int64_t k;
    Dims dims;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<Rot90>& ctx, const Tensor& x, int64_t k, std::optional<DimList> asked) {
    const Dims dims = asked ? Dims(*asked) : Dims{0, 1};
    COGRAD_CHECK(dims.size() == 2,
                 "expected total rotation dims == 2, but got dims = ", dims.size());
    COGRAD_CHECK(x.dim() >= 2, "expected total dims >= 2, but got total dims = ", x.dim());
    const int a = wrap_dim(dims[0], x.dim());
    const int b = wrap_dim(dims[1], x.dim());
    COGRAD_CHECK(a != b, "expected rotation dims to be different, but got dim0 = ", dims[0],
                 " and dim1 = ", dims[1]);
    *ctx.operator->() = {-(k % 4), dims};
    switch (((k % 4) + 4) % 4) {
      case 1:
        return turned(flip(x, Dims{b}), a, b);
      case 2:
        return flip(x, Dims{a, b});
      case 3:
        return turned(flip(x, Dims{a}), a, b);
      default:
        return clone(x);
    }
  }
  static Tensor backward(Ctx<Rot90>& ctx, const Tensor& g) {
    return apply<Rot90>(g, ctx->k, std::optional<IntList>(ctx->dims));
  }
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    Dims dims = c.arg(2).none() ? Dims{0, 1} : Dims(c.arg(2).ints());
    if (dims.size() != 2 || x.dim() < 2) return c.loop();  // loop() raises the error
    if (wrap_dim(dims[0], x.dim()) == wrap_dim(dims[1], x.dim())) return c.loop();
    for (int64_t& d : dims) d = wrap_dim(d, x.dim()) + 1;
    c.set_result(apply<Rot90>(c.physical(x), c.arg(1).integer(), std::optional<IntList>(dims)));
  }

 private:
  // Swaps dims of a copy with no other owner. It makes no view, so that the result can have the
  // op's history.
  // history.
  static Tensor turned(const Tensor& x, int a, int b) {
    Dims sizes(x.sizes()), strides(x.strides());
    std::swap(sizes[static_cast<size_t>(a)], sizes[static_cast<size_t>(b)]);
    std::swap(strides[static_cast<size_t>(a)], strides[static_cast<size_t>(b)]);
    return alias_strided(x, sizes, strides, x.bytes());
  }
};
COGRAD_OP(Rot90)

// Moves every dim as up to two blocks; each bit of `mask` selects the block of one dim.
void raw_roll(const Tensor& out, const Tensor& x, IntList shifts, IntList dims) {
  for (uint64_t mask = 0; mask < uint64_t{1} << dims.size(); ++mask) {
    Tensor from = x;
    Tensor to = out;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int d = static_cast<int>(dims[i]);
      const int64_t s = shifts[i];
      const int64_t head = x.size(d) - s;  // the first `head` slots move up by s
      const bool wraps = ((mask >> i) & 1) != 0;
      from = slice_region(from, d, {wraps ? head : 0, wraps ? s : head}, 1);
      to = slice_region(to, d, {wraps ? 0 : s, wraps ? s : head}, 1);
    }
    if (from.numel() > 0) raw_copy(to, from);
  }
}

struct Roll {
  static constexpr OpSpec spec{
      "roll",
      "input, shifts, dims=None",
      kFunctional | kShape,
      "A copy shifted along dims; elements shifted out come back in at the "
      "start; without dims the flattened tensor is shifted.",
      "T(3, 4), 1; T(3, 4), -1, 0; T(3, 4), (1, 6), (0, 1)",
      ""};
  struct State {
    Dims shifts;
    Dims dims;
  };
  static constexpr TangentRule kTangent = linear({0});
  static constexpr BatchRule kBatch = by_dims();
  static Tensor forward(Ctx<Roll>& ctx, const Tensor& x, IntList shifts,
                        std::optional<DimList> given) {
    const IntList dims = given.value_or(IntList());
    COGRAD_CHECK(!shifts.empty(), "`shifts` required");
    const bool flat = dims.empty() && shifts.size() == 1;
    COGRAD_CHECK(flat || shifts.size() == dims.size(),
                 "shifts and dimensions must align. shifts: ", shifts.size(),
                 ", dims:", dims.size());
    Tensor out = empty(x.sizes(), x.dtype());
    if (flat) {
      const int64_t n[1] = {x.numel()};
      const int64_t step[1] = {1};
      const int64_t zero[1] = {0};
      const Tensor from = raw_contiguous(x);
      raw_rolls(alias_strided(out, n, step, out.bytes()),
                alias_strided(from, n, step, from.bytes()), shifts, zero);
    } else {
      COGRAD_CHECK_INDEX(x.dim() > 0, "Dimension specified as ", dims[0],
                         " but tensor has no dimensions");
      for (int64_t d : dims) wrap_dim(d, x.dim());
      raw_rolls(out, x, shifts, dims);
    }
    if (ctx.recording()) {
      for (int64_t s : shifts) ctx->shifts.push_back(-s);
      ctx->dims = Dims(dims);
    }
    return out;
  }
  static Tensor backward(Ctx<Roll>& ctx, const Tensor& g) {
    return roll(g, ctx->shifts, ctx->dims);
  }

 private:
  // Adds up the shifts of repeated dims and reduces them to [0, size).
  static void raw_rolls(const Tensor& out, const Tensor& x, IntList shifts, IntList dims) {
    if (x.numel() == 0) return;
    Dims total(static_cast<size_t>(x.dim()), 0);
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto d = static_cast<size_t>(wrap_dim(dims[i], x.dim()));
      const int64_t n = x.sizes()[d];
      total[d] = (total[d] + shifts[i] % n + n) % n;
    }
    Dims moved, by;
    for (size_t d = 0; d < total.size(); ++d) {
      if (total[d] == 0) continue;
      moved.push_back(static_cast<int64_t>(d));
      by.push_back(total[d]);
    }
    raw_roll(out, x, by, moved);
  }
};
COGRAD_OP(Roll)

struct Repeat {
  static constexpr OpSpec spec{"repeat",
                               "input, *repeats",
                               kMethod | kShape,
                               "A copy with the tensor repeated repeats[d] times along each dim d.",
                               "T(3, 4), (2, 3); T(3), (2, 2); T(2, 2), (1, 0)",
                               "np.tile(input, repeats)"};
  struct State {
    Dims sizes;
    Dims repeats;
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<Repeat>& ctx, const Tensor& x, IntList repeats) {
    COGRAD_CHECK(repeats.size() >= static_cast<size_t>(x.dim()),
                 "Number of dimensions of repeat dims can not be smaller than number of dimensions "
                 "of tensor");
    COGRAD_CHECK(2 * repeats.size() <= static_cast<size_t>(kMaxDims), "repeat(): at most ",
                 kMaxDims / 2, " dimensions, got ", repeats.size());
    const size_t lead = repeats.size() - static_cast<size_t>(x.dim());
    Dims sizes, pairs, from;
    for (size_t i = 0; i < repeats.size(); ++i) {
      const int64_t n = i < lead ? 1 : x.sizes()[i - lead];
      COGRAD_CHECK(repeats[i] >= 0, "repeat(): Trying to create tensor with negative dimension ",
                   repeats[i], ": ", to_string(repeats));
      sizes.push_back(checked_mul(n, repeats[i]));
      pairs.push_back(repeats[i]);
      pairs.push_back(n);
      from.push_back(0);
      from.push_back(i < lead ? 0 : x.strides()[i - lead]);
    }
    Tensor out = empty_checked("repeat", sizes, x.dtype());
    if (out.numel() > 0)
      raw_copy(alias_strided(out, pairs, contiguous_strides(pairs), out.bytes()),
               alias_strided(x, pairs, from, x.bytes()));
    if (ctx.recording()) *ctx.operator->() = {Dims(x.sizes()), Dims(repeats)};
    return out;
  }
  static void batch(BatchCall& c) {
    const IntList repeats = c.arg(1).ints();
    const Tensor x = c.aligned(c.arg(0).tensor(), static_cast<int>(repeats.size()));
    c.set_result(repeat(x, detail::with_samples(1, repeats)));
  }
  // Sums over the copies by viewing g as [repeats[0], size[0], ...].
  static Tensor backward(Ctx<Repeat>& ctx, const Tensor& g) {
    const size_t lead = ctx->repeats.size() - ctx->sizes.size();
    Dims pairs, kept;
    for (size_t i = 0; i < ctx->repeats.size(); ++i) {
      const int64_t n = i < lead ? 1 : ctx->sizes[i - lead];
      pairs.push_back(ctx->repeats[i]);
      pairs.push_back(n);
      kept.push_back(1);
      kept.push_back(n);
    }
    return reshape(sum_to(reshape(g, pairs), kept), ctx->sizes);
  }
};
COGRAD_OP(Repeat)

struct Tile {
  static constexpr OpSpec spec{"tile",
                               "input, *dims",
                               kFunctional | kShape,
                               "repeat, with 1 for missing leading dims.",
                               "T(3, 4), (2,); T(3), (2, 2)",
                               "np.tile(input, dims)"};
  static Tensor forward(const Tensor& x, IntList dims) {
    Dims repeats;
    for (size_t i = dims.size(); i < static_cast<size_t>(x.dim()); ++i) repeats.push_back(1);
    repeats.append(dims.begin(), dims.end());
    return repeat(x, repeats);
  }
};
COGRAD_OP(Tile)

struct RepeatInterleave {
  static constexpr OpSpec spec{"repeat_interleave",
                               "input, repeats, dim=None, *, output_size=None",
                               kFunctional | kShape,
                               "Repeats every slot along dim; without dim it flattens the tensor.",
                               "T(3, 4), 2, 1; T(3, 4), 3; T(3), 0",
                               "np.repeat(input, repeats, dim)"};
  static Tensor forward(const Tensor& x, int64_t repeats, std::optional<Dim> dim,
                        std::optional<int64_t> output_size) {
    COGRAD_CHECK(repeats >= 0, "Repeats must be non-negative, got ", repeats);
    const Tensor input = dim ? x : flatten(x);
    const int d = wrap_dim(dim.value_or(0), input.dim());
    const Tensor in = input.dim() == 0 ? view(input, Dims{1}) : input;
    const int64_t n = checked_mul(in.size(d), repeats);
    COGRAD_CHECK(!output_size || *output_size == n,
                 "repeat_interleave: Invalid output_size, expected ", n, " but got ",
                 output_size.value_or(0));
    Dims stretched(in.sizes());
    stretched.insert(static_cast<size_t>(d) + 1, repeats);
    Dims sizes(in.sizes());
    sizes[static_cast<size_t>(d)] = n;
    return reshape(clone(expand(unsqueeze(in, d + 1), stretched)), sizes);
  }
};
COGRAD_OP(RepeatInterleave)

// Returns the slot numbers, each repeated `repeats` times.
Tensor repeated_index(const Tensor& repeats, std::optional<int64_t> output_size) {
  COGRAD_CHECK(repeats.dim() == 1, "repeats must be 0-dim or 1-dim tensor, got ", repeats.dim(),
               "-dim");
  COGRAD_CHECK_NOT_IMPLEMENTED(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32,
                               "repeat_interleave(): repeats has to be int64 or int32, got ",
                               dtype_name(repeats.dtype()));
  // A copy: another thread may write to the tensor between the sum and the fill.
  const Tensor counts = empty(repeats.sizes(), DType::Int64);
  raw_copy(counts, repeats);
  int64_t bad = 0;
  const int64_t total = kernels::total_of(counts.data<int64_t>(), counts.numel(), &bad);
  COGRAD_CHECK(total >= 0, "repeats can not be negative, got ", bad);
  COGRAD_CHECK(!output_size || *output_size == total,
               "allocated size does not match required size: output_size is ",
               output_size.value_or(0), ", the repeats sum to ", total);
  Tensor out = empty_checked("repeat_interleave", Dims{total}, DType::Int64);
  kernels::repeat_numbers(counts.data<int64_t>(), counts.numel(), out.data<int64_t>());
  return out;
}

struct RepeatInterleaveTensor {
  static constexpr OpSpec spec{"repeat_interleave",
                               "input, repeats, dim=None, *, output_size=None",
                               kFunctional | kShape,
                               "Repeats each slot i along dim repeats[i] times.",
                               "T(3, 4), I(4), 1; T(3), I(3)",
                               "np.repeat(input, repeats, dim)"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& x, const Tensor& repeats, std::optional<Dim> dim,
                        std::optional<int64_t> output_size) {
    const Tensor flat = dim ? x : flatten(x);
    const int d = wrap_dim(dim.value_or(0), flat.dim());
    const Tensor in = flat.dim() == 0 ? view(flat, Dims{1}) : flat;
    const bool one = repeats.numel() == 1 && repeats.dim() <= 1;
    COGRAD_CHECK(repeats.dim() <= 1, "repeats must be 0-dim or 1-dim tensor, got ", repeats.dim(),
                 "-dim");
    COGRAD_CHECK(one || repeats.size(0) == in.size(d),
                 "repeats must have the same size as input along dim, but got repeats.size(0) = ",
                 repeats.dim() == 0 ? 1 : repeats.size(0), " and input.size(", d,
                 ") = ", in.size(d));
    Tensor each = raw_contiguous(repeats);
    if (one) each = raw_contiguous(alias_strided(each, Dims{in.size(d)}, Dims{0}, each.bytes()));
    return index_select(in, d, repeated_index(each, output_size));
  }
};
COGRAD_OP(RepeatInterleaveTensor)

struct RepeatInterleaveIndex {
  static constexpr OpSpec spec{"repeat_interleave",
                               "repeats, *, output_size=None",
                               kFunction | kNondiff | kShape,
                               "The indices 0, 1, ..., each repeats[i] times.",
                               "I(4)",
                               "np.repeat(np.arange(len(repeats)), repeats)"};
  static constexpr DTypeSet kDTypes = dtype_set({DType::Int32, DType::Int64});
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static Tensor forward(const Tensor& repeats, std::optional<int64_t> output_size) {
    return repeated_index(repeats, output_size);
  }
};
COGRAD_OP(RepeatInterleaveIndex)

}  // namespace

Tensor flip(const Tensor& x, IntList dims) { return apply<Flip>(x, dims); }
Tensor roll(const Tensor& x, IntList shifts, IntList dims) {
  return apply<Roll>(x, shifts, std::optional<IntList>(dims));
}
Tensor repeat(const Tensor& x, IntList repeats) { return apply<Repeat>(x, repeats); }

}  // namespace cograd
