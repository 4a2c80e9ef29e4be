// SPDX-License-Identifier: BSD-3-Clause
// Broadcasting as views, and the sums that undo it: expand, sum_to_size.
#include "kernels/reduce/reduce.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/batch_call.h"
#include "ops/declare/ops.h"
#include "ops/declare/view.h"

namespace cograd {

namespace {

struct SumTo {
  static constexpr OpSpec spec{"sum_to_size",
                               "input, *size",
                               kMethod | kReduction,
                               "Sum over the dims in which size is smaller: undoes broadcasting.",
                               "T(2, 3, 4), (3, 1); T(3, 4), (4,)",
                               ""};
  struct State {
    Dims sizes;
  };
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr TangentRule kTangent = linear({0});
  static Tensor forward(Ctx<SumTo>& ctx, const Tensor& x, Shape sizes) {
    Dims joint;
    COGRAD_CHECK(broadcast_shapes(x.sizes(), sizes, joint) && same(joint, x.sizes()), "size {",
                 to_string(sizes), "} is not expandable to size {", to_string(x.sizes()), "}.");
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const size_t lead = static_cast<size_t>(x.dim()) - sizes.size();
    Dims kept, kept_steps, reduced, reduced_steps;
    for (size_t i = 0; i < static_cast<size_t>(x.dim()); ++i) {
      const bool sum = i < lead || (sizes[i - lead] == 1 && x.sizes()[i] != 1);
      (sum ? reduced : kept).push_back(x.sizes()[i]);
      (sum ? reduced_steps : kept_steps).push_back(x.strides()[i] * x.itemsize());
    }
    // Sums of integers are int64. The dtype stays if nothing is summed, unless the size is ().
    const bool summed = !reduced.empty() || sizes.empty();
    const DType t = is_differentiable(x.dtype()) || !summed ? x.dtype() : DType::Int64;
    Tensor out = empty(sizes, t);
    DType in = x.dtype(), sum = t;
    if (is_complex(in)) {  // the parts form a dim that is kept
      in = sum = real_dtype(in);
      kept.push_back(2);
      kept_steps.push_back(dtype_size(in));
    }
    kernels::reduce(kernels::ReduceOp::Sum, in, x.bytes(),
                    {kept, kept_steps, reduced, reduced_steps}, sum, out.bytes());
    return out;
  }
  static void batch(BatchCall& c) {
    const Tensor& x = c.arg(0).tensor();
    const IntList sizes = c.arg(1).ints();
    Dims all{c.size()};
    for (size_t i = sizes.size(); i < static_cast<size_t>(x.dim()); ++i) all.push_back(1);
    for (const int64_t n : sizes) all.push_back(n);
    c.set_result(reshape(sum_to(c.physical(x), all), detail::with_samples(c.size(), sizes)));
  }
  static Tensor backward(Ctx<SumTo>& ctx, const Tensor& g) { return expand(g, ctx->sizes); }
};
COGRAD_OP(SumTo)

struct Expand {
  static constexpr OpSpec spec{"expand",
                               "input, *size, implicit=False",
                               kMethod | kView,
                               "A view with size-1 dims stretched; -1 keeps a dim.",
                               "T(3, 1), (2, 3, 4); T(3), (2, -1)",
                               ""};
  struct State {
    Dims sizes;
  };
  static Tensor forward(Ctx<Expand>& ctx, const Tensor& x, Shape asked, bool) {
    COGRAD_CHECK(asked.size() >= static_cast<size_t>(x.dim()),
                 "expand(): the number of sizes provided (", asked.size(),
                 ") must be greater or equal to the number of dimensions in the tensor (", x.dim(),
                 ")");
    if (ctx.recording()) ctx->sizes = Dims(x.sizes());
    const size_t lead = asked.size() - static_cast<size_t>(x.dim());
    Dims sizes(asked);
    Dims strides(asked.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (i < lead) {
        COGRAD_CHECK(sizes[i] >= 0, "expand(): the expanded size of the tensor (", sizes[i],
                     ") isn't allowed in a leading, non-existing dimension ", i);
        continue;
      }
      const int64_t have = x.sizes()[i - lead];
      if (sizes[i] == -1) sizes[i] = have;
      COGRAD_CHECK(
          have == sizes[i] || (have == 1 && sizes[i] >= 0), "The expanded size of the tensor (",
          sizes[i], ") must match the existing size (", have, ") at non-singleton dimension ", i,
          ".  Target sizes: ", to_string(asked), ".  Tensor sizes: ", to_string(x.sizes()));
      strides[i] = have == sizes[i] ? x.strides()[i - lead] : 0;
    }
    return make_view(x, sizes, strides, x.bytes());
  }
  static void batch(BatchCall& c) {
    const IntList sizes = c.arg(1).ints();
    const Tensor x = c.aligned(c.arg(0).tensor(), static_cast<int>(sizes.size()));
    c.set_result(expand(x, detail::with_samples(c.size(), sizes)));
  }
  static Tensor backward(Ctx<Expand>& ctx, const Tensor& g) { return sum_to(g, ctx->sizes); }
};
COGRAD_OP(Expand)

struct ExpandAs {
  static constexpr bool kMixesDevices = true;  // reads the shape of the other tensor
  static constexpr OpSpec spec{"expand_as",           "input, other",
                               kMethod | kView,       "A view stretched to other's shape.",
                               "T(3, 1), T(2, 3, 4)", "np.broadcast_to(input, other.shape)"};
  static Tensor forward(const Tensor& x, const Tensor& other) { return expand(x, other.sizes()); }
};
COGRAD_OP(ExpandAs)

struct BroadcastTo {
  static constexpr OpSpec spec{"broadcast_to",       "input, *size",
                               kFunctional | kView,  "A view stretched to `size`.",
                               "T(3, 1), (2, 3, 4)", "np.broadcast_to(input, size)"};
  static Tensor forward(const Tensor& x, Shape size) { return expand(x, size); }
};
COGRAD_OP(BroadcastTo)

Dims joint_shape(IntList a, IntList b) {
  Dims joint;
  if (broadcast_shapes(a, b, joint)) return joint;
  const size_t n = std::max(a.size(), b.size());
  size_t i = n - 1;
  int64_t x = 1, y = 1;
  for (;; --i) {  // the shapes do not broadcast, so some dim differs
    x = i < n - a.size() ? 1 : a[i - (n - a.size())];
    y = i < n - b.size() ? 1 : b[i - (n - b.size())];
    if (x != y && x != 1 && y != 1) break;
  }
  detail::fail(ErrorKind::Runtime, "The size of tensor a (", x,
               ") must match the size of tensor b (", y, ") at non-singleton dimension ", i,
               "; broadcast_tensors() got shapes ", to_string(a), " and ", to_string(b));
}

struct BroadcastTensors {
  static constexpr OpSpec spec{"broadcast_tensors", "*tensors", kFunction | kView,
                               "Views of the tensors, all stretched to their common shape.",
                               "T(3, 1), T(4); T(2, 3)"};
  static std::vector<Tensor> forward(TensorList tensors) {
    Dims shape;
    for (const Tensor& t : tensors) shape = joint_shape(shape, t.sizes());
    std::vector<Tensor> out;
    for (const Tensor& t : tensors) out.push_back(same(t.sizes(), shape) ? t : expand(t, shape));
    return out;
  }
};
COGRAD_OP(BroadcastTensors)

}  // namespace

Tensor expand(const Tensor& x, IntList sizes) { return apply<Expand>(x, sizes, false); }
Tensor sum_to(const Tensor& x, IntList sizes) {
  return same(x.sizes(), sizes) ? x : apply<SumTo>(x, sizes);
}

}  // namespace cograd
