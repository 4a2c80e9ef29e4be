// SPDX-License-Identifier: BSD-3-Clause
// Advanced indexing: x[i, :, mask] and its assignment, with NumPy's placement of the result dims.
#include "kernels/core/sequences.h"
#include "kernels/index/index.h"
#include "ops/declare/batch_call.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

// An index resolved against a shape: masks become positions, and all index tensors are int64.
struct Positions {
  SmallVec<Tensor, 3> index;
  Dims dims;      // the dim that index[k] applies to, ascending
  Dims joint;     // the shape to which the index tensors broadcast
  Dims result;    // shape of x[index]
  size_t at = 0;  // where the joint dims start in the result
};

// Adds one int64 tensor of coordinates per dim of the mask.
void add_mask(Positions& p, const Tensor& mask, int64_t dim) {
  const Tensor m = raw_contiguous(mask);
  const int64_t count = kernels::nonzero_count(m.dtype(), m.bytes(), m.numel());
  const int64_t nd = m.dim();
  const int64_t shape[2] = {nd, count};
  const Tensor found = empty(shape, DType::Int64);
  kernels::nonzero(m.dtype(), m.bytes(), m.sizes(), count, found.data<int64_t>());
  for (int64_t k = 0; k < nd; ++k) {
    const int64_t size[1] = {count};
    const int64_t step[1] = {1};
    p.index.push_back(alias_strided(found, size, step, found.bytes() + 8 * count * k));
    p.dims.push_back(dim + k);
  }
}

void check_mask(IntList sizes, const Tensor& mask, size_t dim) {
  for (size_t j = 0; j < static_cast<size_t>(mask.dim()); ++j)
    if (dim + j >= sizes.size() || mask.sizes()[j] != sizes[dim + j])
      detail::fail(ErrorKind::Index, "The shape of the mask ", to_string(mask.sizes()),
                   " at index ", j, " does not match the shape of the indexed tensor ",
                   to_string(sizes), " at index ", dim + j);
}

Positions resolve(IntList sizes, TensorList given) {
  Positions p;
  size_t dim = 0;
  for (const Tensor& t : given) {
    const bool mask = t.defined() && (t.dtype() == DType::Bool || t.dtype() == DType::UInt8);
    const size_t takes = mask ? static_cast<size_t>(t.dim()) : 1;
    COGRAD_CHECK_INDEX(dim + takes <= sizes.size(), "too many indices for tensor of dimension ",
                       sizes.size());
    if (mask) {
      check_mask(sizes, t, dim);
      add_mask(p, t, static_cast<int64_t>(dim));
    } else if (t.defined()) {
      COGRAD_CHECK_INDEX(t.dtype() == DType::Int64 || t.dtype() == DType::Int32,
                         "tensors used as indices must be long, int, byte or bool tensors, got ",
                         dtype_name(t.dtype()));
      p.index.push_back(raw_cast(t, DType::Int64));
      p.dims.push_back(static_cast<int64_t>(dim));
    }
    dim += takes;
  }
  for (const Tensor& t : p.index) {
    Dims joined;
    if (!broadcast_shapes(p.joint, t.sizes(), joined)) {
      std::string shapes;
      for (const Tensor& s : p.index) shapes += (shapes.empty() ? "" : ", ") + to_string(s.sizes());
      detail::fail(ErrorKind::Index,
                   "shape mismatch: indexing tensors could not be broadcast "
                   "together with shapes ",
                   shapes);
    }
    p.joint = std::move(joined);
  }
  const size_t k = p.dims.size();
  if (k > 0 && p.dims[k - 1] - p.dims[0] == static_cast<int64_t>(k) - 1)
    p.at = static_cast<size_t>(p.dims[0]);
  for (size_t d = 0, next = 0; d <= sizes.size(); ++d) {
    if (d == p.at) p.result.append(p.joint.begin(), p.joint.end());
    if (d == sizes.size()) break;
    if (next < k && p.dims[next] == static_cast<int64_t>(d))
      ++next;
    else
      p.result.push_back(sizes[d]);
  }
  return p;
}

// The strides with which the kernels iterate over the result.
class Geometry {
 public:
  Geometry(const Positions& p, const Tensor& self, const Tensor& other) {
    const size_t n = p.result.size();
    const size_t joint = p.joint.size();
    self_.resize(n);
    other_ = broadcast_bytes(other, p.result);
    for (size_t d = 0, out = 0, next = 0; d < static_cast<size_t>(self.dim()); ++d) {
      if (next < p.dims.size() && p.dims[next] == static_cast<int64_t>(d)) {
        ++next;
        continue;
      }
      const size_t place = out + (out >= p.at ? joint : 0);
      self_[place] = self.strides()[d] * self.itemsize();
      ++out;
    }
    steps_.resize(p.index.size());
    for (size_t k = 0; k < p.index.size(); ++k) {
      const auto d = static_cast<int>(p.dims[k]);
      const Dims inner = broadcast_bytes(p.index[k], p.joint);
      steps_[k].resize(n);
      std::copy(inner.begin(), inner.end(), steps_[k].begin() + p.at);
      operands_.push_back({p.index[k].data<int64_t>(), steps_[k], self.size(d),
                           self.stride(d) * self.itemsize(), d});
    }
    kernel_ = {p.result, self_, other_, operands_};
  }
  Geometry(const Geometry&) = delete;
  Geometry& operator=(const Geometry&) = delete;
  const kernels::IndexGeometry& get() const noexcept { return kernel_; }

 private:
  Dims self_, other_;
  std::vector<Dims> steps_;
  std::vector<kernels::IndexOperand> operands_;
  kernels::IndexGeometry kernel_;
};

// Describes an index so that backward can apply it again; tensors beyond the slots are stacked.
constexpr int kSlots = 3;
struct IndexState {
  Dims sizes;  // sizes of the indexed tensor
  Dims dims;
  bool stacked = false;
  bool masked = false;  // the one saved tensor is a mask over all dims
};

Tensor stack_positions(const Positions& p) {
  Dims shape{static_cast<int64_t>(p.index.size())};
  shape.append(p.joint.begin(), p.joint.end());
  const Tensor all = empty(shape, DType::Int64);
  const int64_t step = checked_mul(product(p.joint), all.itemsize());
  for (size_t k = 0; k < p.index.size(); ++k)
    raw_copy(alias_strided(all, p.joint, contiguous_strides(p.joint),
                           all.bytes() + static_cast<int64_t>(k) * step),
             p.index[k]);
  return all;
}

template <class Op>
void save_positions(Ctx<Op>& ctx, IntList sizes, const Positions& p) {
  if (!ctx.recording()) return;
  ctx->sizes = Dims(sizes);
  ctx->dims = p.dims;
  ctx->stacked = p.index.size() > kSlots;
  if (ctx->stacked)
    ctx.save(stack_positions(p));
  else
    for (const Tensor& t : p.index) ctx.save(t);
}

template <class Op>
std::vector<Tensor> saved_positions(Ctx<Op>& ctx) {
  const Dims& dims = ctx->dims;
  std::vector<Tensor> out(dims.empty() ? 0 : static_cast<size_t>(dims.back()) + 1);
  const Tensor all = ctx->stacked ? ctx.saved(0) : Tensor();
  for (size_t k = 0; k < dims.size(); ++k) {
    Tensor& t = out[static_cast<size_t>(dims[k])];
    if (!ctx->stacked) {
      t = ctx.saved(static_cast<int>(k));
      continue;
    }
    const IntList joint = all.sizes().subspan(1);
    t = alias_strided(all, joint, contiguous_strides(joint),
                      all.bytes() + checked_mul(static_cast<int64_t>(k) * 8, product(joint)));
  }
  return out;
}

bool is_whole_mask(const Tensor& x, TensorList given) {
  return given.size() == 1 && given[0].defined() && given[0].dtype() == DType::Bool &&
         x.dim() > 0 && same(given[0].sizes(), x.sizes());
}

struct IndexGrad;
Tensor index_grad(const Tensor& g, TensorList indices, IntList sizes);

// True if the result dims of the indices replace the indexed dims in place (they are adjacent).
bool indices_together(TensorList indices) {
  int changes = 0;
  bool before = false;
  for (const Tensor& t : indices) {
    changes += t.defined() && !before;
    before = t.defined();
  }
  return changes <= 1;
}

// Returns 0 ... n - 1 with `rank` trailing dims of size 1.
Tensor samples_numbers(int64_t n, int rank) {
  Dims sizes{n};
  for (int i = 0; i < rank; ++i) sizes.push_back(1);
  Tensor t = empty(sizes, DType::Int64);
  kernels::arange_integers(DType::Int64, t.bytes(), n, uint64_t{0}, uint64_t{1});
  return t;
}

struct Index {
  static constexpr bool kHostIndices = true;
  static constexpr OpSpec spec{"_index",
                               "input, indices",
                               kInternal | kIndex,
                               "Advanced indexing: input[indices].",
                               "T(3, 4), [I(5, hi=3)]; T(3, 4), [I(2, 1, hi=3), I(3, hi=4)]; "
                               "T(3, 4, 2), [B(3, 4)]; T(2, 3, 2, 2), [I(2, hi=2), I(2, hi=3), "
                               "I(1, hi=2), I(2, hi=2)]",
                               "input[tuple(indices)]"};
  static constexpr int kSaved = kSlots;
  static constexpr const char* kNodeName = "IndexBackward0";
  using State = IndexState;
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<Index>& ctx, const Tensor& x, TensorList indices) {
    if (is_whole_mask(x, indices)) return select_by_mask(ctx, x, indices[0]);
    const Positions p = resolve(x.sizes(), indices);
    save_positions(ctx, x.sizes(), p);
    Tensor out = empty(p.result, x.dtype());
    const Geometry g(p, x, out);
    kernels::index_get(x.itemsize(), g.get(), x.bytes(), out.bytes());
    return out;
  }
  // If the index is not batched, the batch dim of x is sliced. Otherwise it is indexed as well,
  // with the samples' numbers, which puts the batch dim first.
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    const TensorList given = c.arg(1).tensors();
    bool own = false, masks = false;
    int rank = 0;
    for (const Tensor& t : given) {
      if (!t.defined()) continue;
      own |= c.batched(t);
      masks |= t.dtype() == DType::Bool || t.dtype() == DType::UInt8;
      rank = std::max(rank, t.dim());
    }
    std::vector<Tensor> indices(1);
    if (!own) {
      indices.insert(indices.end(), given.begin(), given.end());
      if (!indices_together(indices)) return c.loop();
      return c.set_result(index_get(c.physical(x), indices));
    }
    if (masks) return c.loop();
    // A dim before the indexed ones would end up after the batch dim.
    std::vector<Tensor> aligned{samples_numbers(c.size(), rank)};
    for (const Tensor& t : given) aligned.push_back(t.defined() ? c.aligned(t, rank) : t);
    if (!indices_together(aligned)) return c.loop();
    if (c.batched(x)) return c.set_result(index_get(c.physical(x), aligned));
    aligned.erase(aligned.begin());
    c.set_result(index_get(x, aligned));
  }
  static void backward(Ctx<Index>& ctx, const Tensor& g) {
    if (!ctx.needs(0)) return;
    ctx.grad(0) = ctx->masked ? masked_select_grad(g, ctx.saved(0), ctx->sizes)
                              : index_grad(g, saved_positions(ctx), ctx->sizes);
  }

 private:
  // A mask over the whole tensor needs no positions.
  static Tensor select_by_mask(Ctx<Index>& ctx, const Tensor& x, const Tensor& mask) {
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    ctx->masked = true;
    ctx.save(mask);
    const Tensor in = raw_contiguous(x);
    const Tensor m = raw_contiguous(mask);
    const int64_t count[1] = {kernels::mask_count(m.data<bool>(), m.numel())};
    Tensor out = empty(count, x.dtype());
    kernels::masked_select(x.itemsize(), in.bytes(), m.data<bool>(), m.numel(), count[0],
                           out.bytes());
    return out;
  }
};
COGRAD_OP(Index)

struct IndexGrad {
  static constexpr OpSpec spec{"_index_grad", "grad, indices, sizes", kInternal | kIndex,
                               "Zeros of `sizes` with grad added at the indexed positions.",
                               "none: gradient of indexing"};
  static constexpr int kSaved = kSlots;
  static constexpr const char* kNodeName = "IndexBackwardBackward0";
  using State = IndexState;
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<IndexGrad>& ctx, const Tensor& g, TensorList indices, Shape sizes) {
    const Positions p = resolve(sizes, indices);
    save_positions(ctx, sizes, p);
    Tensor out = zeros(sizes, g.dtype());
    const Geometry geometry(p, out, g);
    kernels::index_put_accumulate(g.dtype(), geometry.get(), out.bytes(), g.bytes());
    return out;
  }
  static void backward(Ctx<IndexGrad>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = index_get(g, saved_positions(ctx));
  }
};

Tensor index_grad(const Tensor& g, TensorList indices, IntList sizes) {
  return apply<IndexGrad>(g, indices, sizes);
}

struct IndexPut {
  static constexpr bool kHostIndices = true;
  static constexpr OpSpec spec{
      "index_put", "input, indices, values, accumulate=False",
      kFunctional | kInplace | kIndex | kNoCpp | kAbsentTensors,
      "A copy of input with values, broadcast, written at indices (a tuple of index tensors or "
      "masks); accumulate adds instead.",
      "T(3, 4), (cograd.tensor([0, 2]),), T(2, 4); "
      "T(3, 4), (I(5, hi=3), I(5, hi=4)), T(5), accumulate=True; T(3, 4), (B(3),), T(4)"};
  static constexpr int kSaved = kSlots;
  struct State : IndexState {
    bool accumulate = false;
  };
  // The gradient counts overwritten values, too, so a tangent that follows from it would be wrong.
  static constexpr TangentRule kTangent = linear({0, 2});
  static Tensor forward(Ctx<IndexPut>& ctx, const Tensor& self, TensorList indices,
                        const Tensor& values, bool accumulate) {
    COGRAD_CHECK(values.dtype() == self.dtype(),
                 "Index put requires the source and destination dtypes match, got ",
                 scalar_type_name(self.dtype()), " for the destination and ",
                 scalar_type_name(values.dtype()), " for the source.");
    Positions p = resolve(self.sizes(), indices);
    Dims joined;
    COGRAD_CHECK(broadcast_shapes(values.sizes(), p.result, joined) && same(joined, p.result),
                 "shape mismatch: value tensor of shape ", to_string(values.sizes()),
                 " cannot be broadcast to indexing result of shape ", to_string(p.result));
    save_positions(ctx, self.sizes(), p);
    ctx->accumulate = accumulate;
    Tensor source = values;
    Tensor out = rewrite_target(ctx, self, false, {&source});
    for (Tensor& t : p.index)
      if (t->storage == out->storage) t = copied(t);
    const Geometry g(p, out, source);
    if (accumulate)
      kernels::index_put_accumulate(out.dtype(), g.get(), out.bytes(), source.bytes());
    else
      kernels::index_put(out.itemsize(), g.get(), out.bytes(), source.bytes());
    return out;
  }
  static void backward(Ctx<IndexPut>& ctx, const Tensor& g) {
    const std::vector<Tensor> indices = saved_positions(ctx);
    const size_t values = ctx.num_inputs() - 1;
    if (ctx.needs(0))
      ctx.grad(0) = ctx->accumulate
                        ? g
                        : apply<IndexPut>(g, TensorList(indices), zeros({}, g.dtype()), false);
    if (ctx.needs(values)) ctx.grad(values) = index_get(g, indices);
  }

 private:
  static Tensor copied(const Tensor& t) {
    Tensor out = empty(t.sizes(), t.dtype());
    raw_copy(out, t);
    return out;
  }
};
COGRAD_OP(IndexPut)

}  // namespace

Tensor index_get(const Tensor& x, TensorList indices) { return apply<Index>(x, indices); }
void index_put_(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  apply_inplace<IndexPut>(self, {}, self, indices, values, accumulate);
}

}  // namespace cograd
