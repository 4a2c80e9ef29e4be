// SPDX-License-Identifier: BSD-3-Clause
// Combinations of tensors: meshgrid, cartesian_prod, combinations and kron.
#include <limits>

#include "kernels/core/sequences.h"
#include "ops/compute/elementwise.h"
#include "ops/declare/ops.h"
#include "ops/shape/geometry.h"
#include "tensor/interrupt.h"

namespace cograd {

namespace {

struct Meshgrid {
  static constexpr OpSpec spec{"meshgrid", "*tensors, indexing=None", kFunction | kShape,
                               "Coordinate grids of 1-d tensors; indexing 'ij' (default) or 'xy'.",
                               "T(3), T(4); T(2), T(), T(3)"};
  static std::vector<Tensor> forward(TensorList tensors, std::optional<std::string_view> indexing) {
    COGRAD_CHECK(!tensors.empty(), "meshgrid expects a non-empty TensorList");
    const std::string_view order = indexing.value_or("ij");
    COGRAD_CHECK(order == "ij" || order == "xy",
                 "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: ", order);
    const bool swap = order == "xy" && tensors.size() >= 2;
    Dims shape;
    for (const Tensor& t : tensors) {
      COGRAD_CHECK(t.dim() <= 1,
                   "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got "
                   "a tensor of shape ",
                   to_string(t.sizes()));
      COGRAD_CHECK(t.dtype() == tensors[0].dtype(),
                   "meshgrid expects all tensors to have the same dtype");
      shape.push_back(t.numel());
    }
    if (swap) std::swap(shape[0], shape[1]);
    std::vector<Tensor> out;
    for (size_t i = 0; i < tensors.size(); ++i) {
      Dims place(shape.size(), 1);
      place[swap && i < 2 ? 1 - i : i] = tensors[i].numel();
      out.push_back(expand(view(tensors[i], place), shape));
    }
    return out;
  }
};
COGRAD_OP(Meshgrid)

void check_vector(const Tensor& t) {
  COGRAD_CHECK(t.dim() == 1, "Expect a 1D vector, but got shape ", to_string(t.sizes()));
}

struct CartesianProd {
  static constexpr OpSpec spec{"cartesian_prod", "*tensors", kFunction | kShape,
                               "All combinations of the elements of 1-d tensors, one per row.",
                               "T(3), T(2); T(4)"};
  static Tensor forward(TensorList tensors) {
    COGRAD_CHECK(!tensors.empty(), "cartesian_prod expects a non-empty TensorList");
    for (const Tensor& t : tensors) check_vector(t);
    if (tensors.size() == 1) return tensors[0];
    std::vector<Tensor> columns = apply<Meshgrid>(tensors, std::optional<std::string_view>("ij"));
    for (Tensor& c : columns) c = flatten(c);
    return stack(columns, 1);
  }
};
COGRAD_OP(CartesianProd)

struct Combinations {
  static constexpr OpSpec spec{"combinations", "input, r=2, with_replacement=False",
                               kFunction | kShape,
                               "All choices of r elements of a vector, in order, one per row.",
                               "T(4); T(4), 3; T(3), 2, True; T(2), 3"};
  static Tensor forward(const Tensor& x, int64_t r, bool with_replacement) {
    check_vector(x);
    COGRAD_CHECK(r >= 0, "Expect a non-negative number, but got ", r);
    if (r == 0) return empty(Dims{0}, x.dtype());
    const Dims sizes{count(x.numel(), r, with_replacement), r};
    const Tensor index = empty(sizes, DType::Int64);
    if (index.numel() > 0) choose(x.numel(), r, with_replacement, index);
    return unsafe_view(index_select(x, 0, view(index, Dims{index.numel()})), sizes);
  }

 private:
  // Returns binomial(n, r), or the number of multisets if `repeat`; raises if it overflows int64.
  static int64_t count(int64_t n, int64_t r, bool repeat) {
    if (repeat && n > 0) n = checked_add(n, r - 1);
    if (r > n) return 0;
    Wide c = 1;
    for (int64_t i = 1; i <= std::min(r, n - r); ++i) {
      c = c * (n - i + 1) / i;
      if (c > std::numeric_limits<int64_t>::max()) fail_numel();
    }
    return static_cast<int64_t>(c);
  }
  // A kernel writes about this many elements before the op looks whether the user interrupts it.
  static constexpr int64_t kBetweenChecks = 1 << 16;
  // Writes the combinations in order, one per row of `index`.
  static void choose(int64_t n, int64_t r, bool repeat, const Tensor& index) {
    kernels::first_combination(index.data<int64_t>(), r, repeat);
    const int64_t rows = index.size(0), step = std::max<int64_t>(1, kBetweenChecks / r);
    InterruptCheck interrupt;
    for (int64_t k = 1; k < rows; k += step) {
      const int64_t next = std::min(step, rows - k);
      kernels::next_combinations(index.data<int64_t>() + (k - 1) * r, next, n, r, repeat);
      interrupt.after(next * r);
    }
  }
};
COGRAD_OP(Combinations)

struct Kron {
  static constexpr OpSpec spec{"kron",
                               "input, other",
                               kFunctional | kOut | kContraction,
                               "The Kronecker product.",
                               "T(2, 3), T(3, 2); T(3), T(2, 2); T(2, 2), T()",
                               "np.kron(input, other)"};
  static Tensor forward(const Tensor& a, const Tensor& b) {
    const int n = std::max(a.dim(), b.dim());
    Dims left, right, joined;
    for (int d = 0; d < n; ++d) {
      const int64_t sa = d < n - a.dim() ? 1 : a.size(d - (n - a.dim()));
      const int64_t sb = d < n - b.dim() ? 1 : b.size(d - (n - b.dim()));
      left.push_back(sa);
      left.push_back(1);
      right.push_back(1);
      right.push_back(sb);
      joined.push_back(checked_mul(sa, sb));
    }
    const Tensor all = contiguous(mul(reshape(a, left), reshape(b, right)));
    return unsafe_view(all, joined);
  }
};
COGRAD_OP(Kron)

}  // namespace

}  // namespace cograd
