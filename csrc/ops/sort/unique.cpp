// SPDX-License-Identifier: BSD-3-Clause
// Distinct values and distinct slices.
#include "kernels/index/index.h"
#include "kernels/index/sort.h"
#include "ops/index/indexing.h"

namespace cograd {

namespace {

// Returns a prefix of a vector in memory of exactly its size.
Tensor prefix(const Tensor& v, int64_t n) {
  const int64_t size[1] = {n};
  const int64_t stride[1] = {1};
  if (v.numel() == n) return v;
  Tensor out = empty(size, v.dtype());
  raw_copy(out, alias_strided(v, size, stride, v.bytes()));
  return out;
}

struct Found {
  Tensor values, inverse, counts;
};

Results shaped(Found f, bool return_inverse, bool return_counts) {
  std::vector<Tensor> out;
  out.push_back(std::move(f.values));
  if (return_inverse) out.push_back(std::move(f.inverse));
  if (return_counts) out.push_back(std::move(f.counts));
  const bool tuple = out.size() > 1;
  return {std::move(out), tuple};
}

Found unique_flat(const Tensor& x, bool consecutive) {
  const Tensor in = raw_contiguous(x);
  const int64_t n[1] = {x.numel()};
  const Tensor values = empty(n, x.dtype());
  const Tensor counts = empty(n, DType::Int64);
  Tensor inverse = empty(x.sizes(), DType::Int64);
  const auto fn = consecutive ? kernels::unique_consecutive : kernels::unique;
  const int64_t found = fn(x.dtype(), in.bytes(), n[0], values.bytes(), inverse.data<int64_t>(),
                           counts.data<int64_t>());
  return {prefix(values, found), std::move(inverse), prefix(counts, found)};
}

// Returns the distinct slices of x along dim.
Found unique_slices(const char* op, const Tensor& x, int64_t dim, bool consecutive) {
  const int d = wrap_dim(dim, x.dim());
  if (x.dim() == 0) return unique_flat(x, consecutive);
  const int64_t rows[1] = {x.size(d)};
  GradGuard no_grad(false);
  // Sorting compares rows many times, so it works on a copy that no other thread can write.
  const Tensor moved = movedim(x, d, 0);
  const Tensor front = consecutive ? raw_contiguous(moved) : contiguous_clone(moved);
  const int64_t cols = rows[0] == 0 ? 0 : x.numel() / rows[0];
  COGRAD_CHECK(rows[0] == 0 || cols > 0, op, "(): slices along dimension ", d,
               " have no elements, got shape ", to_string(x.sizes()));
  const Tensor first = empty(rows, DType::Int64);
  const Tensor counts = empty(rows, DType::Int64);
  Tensor inverse = empty(rows, DType::Int64);
  const int64_t found = rows[0] == 0
                            ? 0
                            : kernels::unique_rows(x.dtype(), front.bytes(), rows[0], cols,
                                                   consecutive, first.data<int64_t>(),
                                                   inverse.data<int64_t>(), counts.data<int64_t>());
  return {index_select(x, d, prefix(first, found)), std::move(inverse), prefix(counts, found)};
}

struct Unique {
  static constexpr OpSpec spec{
      "unique",
      "input, sorted=True, return_inverse=False, return_counts=False, dim=None",
      kFunctional | kNondiff | kSorting,
      "Distinct values in ascending order (with dim: distinct slices); on request also the "
      "position "
      "of each input element among them (int64, input's shape) and how often each occurs.",
      "I(3, 4); I(5, hi=3), return_inverse=True, return_counts=True; I(4, 2, hi=2), dim=0",
      "np.unique(input, axis=dim) if not return_inverse else "
      "np.unique(input, return_inverse=True, return_counts=True)"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static Results forward(const Tensor& x, bool, bool return_inverse, bool return_counts,
                         std::optional<Dim> dim) {
    return shaped(dim ? unique_slices("unique", x, *dim, false) : unique_flat(x, false),
                  return_inverse, return_counts);
  }
};
COGRAD_OP(Unique)

struct UniqueConsecutive {
  static constexpr OpSpec spec{
      "unique_consecutive", "input, return_inverse=False, return_counts=False, dim=None",
      kFunctional | kNondiff | kSorting,
      "Input without repeats of the element (with dim: slice) just before; on request also the "
      "position of each input element in the result and the lengths of the runs.",
      "I(9, hi=2); I(5, hi=3), return_inverse=True, return_counts=True; I(4, 2, hi=2), dim=0"};
  static constexpr BatchRule kBatch{};  // it reads values, so vmap runs it sample by sample
  static constexpr UnsignedRule kUnsigned = ordered({0});
  static Results forward(const Tensor& x, bool return_inverse, bool return_counts,
                         std::optional<Dim> dim) {
    return shaped(dim ? unique_slices("unique_consecutive", x, *dim, true) : unique_flat(x, true),
                  return_inverse, return_counts);
  }
};
COGRAD_OP(UniqueConsecutive)

}  // namespace

}  // namespace cograd
