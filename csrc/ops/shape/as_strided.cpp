// SPDX-License-Identifier: BSD-3-Clause
// Views with arbitrary strides, their gradients, and copies with other strides.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/core/moves.h"
#include "kernels/core/sequences.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/declare/view.h"
#include "ops/index/gather_scatter.h"
#include "ops/shape/geometry.h"
#include "ops/shape/inplace_geometry.h"

namespace cograd {

namespace {

constexpr int64_t kMaxOffset = std::numeric_limits<int64_t>::max();

void check_strides(const char* op, IntList sizes, IntList strides) {
  COGRAD_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape: ", op,
               "() got size ", to_string(sizes), " and stride ", to_string(strides));
  for (size_t i = 0; i < sizes.size(); ++i) {
    COGRAD_CHECK(sizes[i] >= 0, "Trying to create tensor with negative dimension ", sizes[i], ": ",
                 to_string(sizes));
    COGRAD_CHECK(
        strides[i] >= 0, op,
        ": Negative strides are not supported at the moment, got strides: ", to_string(strides));
  }
}

// Copies x into new memory with the given strides, which must not overlap.
Tensor raw_relayout(const Tensor& x, IntList strides) {
  check_strides("_relayout", x.sizes(), strides);
  const int64_t room[1] = {storage_extent(x.sizes(), strides)};
  const Tensor flat = zeros(room, x.dtype());
  Tensor out = alias_strided(flat, x.sizes(), strides, flat.bytes());
  raw_copy(out, x);
  return out;
}

struct Relayout {
  static constexpr OpSpec spec{"_relayout", "input, strides", kInternal | kShape,
                               "A copy of the values with other strides.",
                               "none: used by in-place writes to views"};
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<Relayout>&, const Tensor& x, Shape strides) {
    return raw_relayout(x, strides);
  }
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    const IntList own = c.arg(1).ints();
    Dims strides{std::max<int64_t>(1, storage_extent(x.sizes(), own))};
    for (const int64_t s : own) strides.push_back(s);
    c.set_result(apply<Relayout>(c.physical(x), IntList(strides)));
  }
  static Tensor backward(Ctx<Relayout>&, const Tensor& g) { return g; }
};
COGRAD_OP(Relayout)

// The location of a strided region, relative to the first element of its base tensor.
struct Region {
  Dims base_sizes, base_strides, sizes, strides;
  int64_t offset;
};

Tensor region_of(const Tensor& whole, const Region& r) {
  return alias_strided(whole, r.sizes, r.strides, whole.bytes() + r.offset * whole.itemsize());
}

struct AsStrided;
struct ScatterRegion;
Tensor region_replaced(const Tensor& base, const Tensor& slice, const Region& r);

void check_region(const Tensor& x, IntList sizes, IntList strides, int64_t offset) {
  check_strides("as_strided", sizes, strides);
  COGRAD_CHECK(offset >= 0, "as_strided(): Tensor: invalid storage offset ", offset);
  const int64_t end = storage_extent(sizes, strides, offset);
  int64_t bytes = 0, start = 0;
  if (__builtin_mul_overflow(end, x.itemsize(), &bytes) ||
      __builtin_mul_overflow(offset, x.itemsize(), &start))
    fail_storage_size(sizes, strides);
  COGRAD_CHECK(bytes <= x->storage->nbytes, "setStorage: sizes ", to_string(sizes), ", strides ",
               to_string(strides), ", storage offset ", offset, ", and itemsize ", x.itemsize(),
               " requiring a storage size of ", bytes, " are out of bounds for storage of size ",
               x->storage->nbytes);
}

// True if the inner dims of each dim lie within one step of it. Otherwise elements may overlap.
bool distinct(IntList sizes, IntList strides) {
  SmallVec<std::pair<int64_t, int64_t>, 6> dims;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1) dims.push_back({strides[i], sizes[i]});
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

// Tells which places of a memory of `room` elements a region uses. Takes a pass for each dim,
// however many of its elements share a place.
std::vector<int64_t> used_places(IntList sizes, IntList strides, int64_t from, int64_t room) {
  std::vector<int64_t> left(static_cast<size_t>(room));  // steps of the dim that remain, or 0
  left[static_cast<size_t>(from)] = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] <= 1 || strides[d] == 0) continue;
    const auto step = static_cast<size_t>(strides[d]);
    for (size_t at = 0; at < left.size(); ++at) {
      if (left[at] > 0)
        left[at] = sizes[d];
      else if (at >= step && left[at - step] > 1)
        left[at] = left[at - step] - 1;
    }
  }
  return left;
}

// True if each element of the region is an element of a tensor with these sizes and strides.
bool covers(IntList sizes, IntList strides, IntList region, IntList region_strides,
            int64_t offset) {
  const int64_t room = storage_extent(sizes, strides);
  const int64_t extent = storage_extent(region, region_strides);
  if (extent == 0) return true;
  if (offset < 0 || extent > room - offset) return false;
  if (product(sizes) == room && distinct(sizes, strides)) return true;  // there are no gaps
  const auto own = used_places(sizes, strides, 0, room);
  const auto wanted = used_places(region, region_strides, offset, room);
  for (size_t i = 0; i < own.size(); ++i)
    if (wanted[i] > 0 && own[i] == 0) return false;
  return true;
}

struct AsStrided {
  static constexpr OpSpec spec{
      "as_strided",
      "input, size, stride, storage_offset=None",
      kFunctional | kView | kReadsBytes,
      "A view of the storage with the given size, stride and offset (in elements).",
      "T(6), (2, 2), (2, 1), 1; T(6), (4, 3), (1, 1)",
      ""};
  struct State : Region {
    bool of_view = false;  // of a view in a graph, beside whose elements are those of its base
  };
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<AsStrided>& ctx, const Tensor& x, Shape sizes, Shape strides,
                        std::optional<int64_t> offset) {
    const int64_t at = offset.value_or(x.storage_offset());
    check_region(x, sizes, strides, at);
    if (ctx.recording())
      *ctx.operator->() = {
          {Dims(x.sizes()), Dims(x.strides()), Dims(sizes), Dims(strides), at - x.storage_offset()},
          x->base != nullptr && (x->grad_fn != nullptr || transformed(x))};
    return make_view(x, sizes, strides, static_cast<char*>(x->storage->data) + at * x.itemsize());
  }
  // Takes the same region of every sample's memory, which ends at the sample's last element.
  // Samples that share memory are laid out separately, since each needs its own gradient.
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    check_strides("as_strided", c.arg(1).ints(), c.arg(2).ints());
    const int64_t from = c.arg(3).none() ? 0 : c.arg(3).integer() - x.storage_offset();
    const int64_t room = storage_extent(x.sizes(), x.strides());
    const int64_t extent = storage_extent(c.arg(1).ints(), c.arg(2).ints());
    const int64_t end = extent == 0 ? 0 : checked_add(extent, from);  // no elements, no memory
    COGRAD_CHECK(from >= 0 && (end <= room || c.size() == 0), "vmap: as_strided(",
                 to_string(c.arg(1).ints()), ", ", to_string(c.arg(2).ints()), ", ",
                 from + x.storage_offset(), ") exceeds the memory of a sample of size ",
                 to_string(x.sizes()), ", strides ", to_string(x.strides()), " and offset ",
                 x.storage_offset(), ". This is not supported inside of a vmap.");
    Tensor whole = c.physical(x);
    if (c.size() > 1 && whole.stride(0) < room && differentiable({&whole})) {
      COGRAD_CHECK(covers(x.sizes(), x.strides(), c.arg(1).ints(), c.arg(2).ints(), from),
                   "vmap: as_strided(", to_string(c.arg(1).ints()), ", ",
                   to_string(c.arg(2).ints()),
                   ") reaches elements of other samples, which lie between those of a sample with "
                   "strides ",
                   to_string(x.strides()),
                   ". Call it on a clone(), or let the batch dim come first in memory.");
      Dims own{std::max<int64_t>(1, room)};
      for (const int64_t s : x.strides()) own.push_back(s);
      whole = relayout(whole, own);
    }
    const Dims sizes = detail::with_samples(c.size(), c.arg(1).ints());
    const Dims strides = detail::with_samples(whole.stride(0), c.arg(2).ints());
    c.set_result(as_strided(whole, sizes, strides, whole.storage_offset() + from));
  }
  static Tensor backward(Ctx<AsStrided>& ctx, const Tensor& g);
};
COGRAD_OP(AsStrided)
[[maybe_unused]] const bool as_strided_inplace = add_geometry_op<AsStrided>();

// The adjoint of AsStrided: zeros with the base's geometry, with g added in the region.
struct AsStridedGrad {
  static constexpr OpSpec spec{
      "_as_strided_grad", "grad, base_sizes, base_strides, sizes, strides, offset",
      kInternal | kShape, "Gradient of as_strided.", "none: used by as_strided"};
  using State = Region;
  static constexpr TangentRule kTangent = TangentRule{};
  static Tensor forward(Ctx<AsStridedGrad>& ctx, const Tensor& g, Shape base_sizes,
                        Shape base_strides, Shape sizes, Shape strides, int64_t offset) {
    const Region r{Dims(base_sizes), Dims(base_strides), Dims(sizes), Dims(strides), offset};
    if (ctx.recording()) *ctx.operator->() = r;
    check_strides("_as_strided_grad", base_sizes, base_strides);
    check_strides("_as_strided_grad", sizes, strides);
    COGRAD_CHECK(same(sizes, g.sizes()), "_as_strided_grad(): grad has shape ",
                 to_string(g.sizes()), ", expected ", to_string(sizes));
    for (size_t i = 0; i < base_sizes.size(); ++i)
      COGRAD_CHECK(base_strides[i] != 0 || base_sizes[i] <= 1,
                   "as_strided(): no gradient for an input whose elements share memory; clone() it "
                   "first");
    COGRAD_CHECK(offset >= -kMaxOffset, "_as_strided_grad(): invalid offset ", offset);
    const int64_t lo = std::min<int64_t>(0, offset);
    const int64_t base_end = checked_add(storage_extent(base_sizes, base_strides), -lo);
    const int64_t room[1] = {std::max(
        base_end, checked_add(storage_extent(sizes, strides), std::max<int64_t>(0, offset)))};
    const Tensor flat = zeros(room, g.dtype());
    const Tensor base =
        alias_strided(flat, base_sizes, base_strides, flat.bytes() - lo * flat.itemsize());
    const Tensor region = region_of(base, r), values = raw_contiguous(g);
    kernels::add_strided(g.dtype(), region.sizes(), region.strides(), region.bytes(),
                         values.bytes());
    return base;
  }
  static Tensor backward(Ctx<AsStridedGrad>& ctx, const Tensor& g) {
    const Region& r = *ctx.operator->();
    const Tensor whole = relayout(g, r.base_strides);
    return apply<AsStrided>(whole, IntList(r.sizes), IntList(r.strides),
                            std::optional<int64_t>(whole.storage_offset() + r.offset));
  }
};
COGRAD_OP(AsStridedGrad)

// Returns the positions of a region's elements, in order, in a memory of `room` elements.
Tensor places(IntList sizes, IntList strides, int64_t from, int64_t room) {
  const Tensor all = empty(Dims{room}, DType::Int64);
  kernels::arange_integers(DType::Int64, all.bytes(), room, uint64_t{0}, uint64_t{1});
  const Tensor at = alias_strided(all, sizes, strides, all.bytes() + from * all.itemsize());
  return reshape(raw_contiguous(at), Dims{at.numel()});
}

// Returns the gradient of a base whose elements share memory: they share equally what arrives
// there.
Tensor shared_gradient(const Tensor& g, const Region& r) {
  const int64_t lo = std::min<int64_t>(0, r.offset);
  const int64_t room = std::max(storage_extent(r.base_sizes, r.base_strides, -lo),
                                storage_extent(r.sizes, r.strides, r.offset - lo));
  const Tensor to = places(r.base_sizes, r.base_strides, -lo, room);
  const Tensor from = places(r.sizes, r.strides, r.offset - lo, room);
  const Tensor none = zeros(Dims{room}, g.dtype());
  const Tensor sums = scatter_add(none, 0, from, reshape(g, from.sizes()));
  const Tensor shares = scatter_add(none, 0, to, ones(to.sizes(), g.dtype()));
  return reshape(gather(sums, 0, to) / gather(shares, 0, to), r.base_sizes);
}

Tensor AsStrided::backward(Ctx<AsStrided>& ctx, const Tensor& g) {
  const AsStrided::State& r = *ctx.operator->();
  COGRAD_CHECK(!r.of_view || covers(r.base_sizes, r.base_strides, r.sizes, r.strides, r.offset),
               "as_strided(): the result of size ", to_string(r.sizes), " and stride ",
               to_string(r.strides),
               " has elements that are not in the input, which is a view of size ",
               to_string(r.base_sizes), " and stride ", to_string(r.base_strides),
               ": their gradients would be lost. Call as_strided() on the tensor that the input is "
               "a view of, with the same storage_offset.");
  if (!distinct(r.base_sizes, r.base_strides)) return shared_gradient(g, r);
  return apply<AsStridedGrad>(g, IntList(r.base_sizes), IntList(r.base_strides), IntList(r.sizes),
                              IntList(r.strides), r.offset);
}

struct ScatterRegion {
  static constexpr OpSpec spec{"_scatter_region", "input, src, size, stride, offset",
                               kInternal | kShape, "input with a strided region replaced by src.",
                               "none: used by in-place writes to views"};
  using State = Region;
  static constexpr TangentRule kTangent = linear({0, 1});
  static Tensor forward(Ctx<ScatterRegion>& ctx, const Tensor& x, const Tensor& src, Shape sizes,
                        Shape strides, int64_t offset) {
    const Region r{Dims(x.sizes()), Dims(x.strides()), Dims(sizes), Dims(strides), offset};
    if (ctx.recording()) *ctx.operator->() = r;
    Tensor out = raw_relayout(x, x.strides());
    check_strides("_scatter_region", sizes, strides);
    COGRAD_CHECK(offset >= 0 && same(sizes, src.sizes()) &&
                     checked_mul(storage_extent(sizes, strides, offset), x.itemsize()) <=
                         out->storage->nbytes,
                 "_scatter_region(): the region is not inside the input, or not of src's shape");
    raw_copy(region_of(out, r), src);
    return out;
  }
  static void backward(Ctx<ScatterRegion>& ctx, const Tensor& g) {
    const Region& r = *ctx.operator->();
    const Tensor whole = relayout(g, r.base_strides);
    if (ctx.needs(0)) ctx.grad(0) = region_replaced(whole, zeros(r.sizes, g.dtype()), r);
    if (ctx.needs(1))
      ctx.grad(1) = apply<AsStrided>(whole, IntList(r.sizes), IntList(r.strides),
                                     std::optional<int64_t>(whole.storage_offset() + r.offset));
  }
};
COGRAD_OP(ScatterRegion)

Tensor region_replaced(const Tensor& base, const Tensor& slice, const Region& r) {
  return apply<ScatterRegion>(base, slice, IntList(r.sizes), IntList(r.strides), r.offset);
}

}  // namespace

Tensor as_strided(const Tensor& x, IntList sizes, IntList strides, int64_t offset) {
  return apply<AsStrided>(x, sizes, strides, std::optional<int64_t>(offset));
}
Tensor relayout(const Tensor& x, IntList strides) { return apply<Relayout>(x, strides); }
Tensor scatter_region(const Tensor& base, const Tensor& slice, IntList sizes, IntList strides,
                      int64_t offset) {
  return apply<ScatterRegion>(base, slice, sizes, strides, offset);
}

}  // namespace cograd
