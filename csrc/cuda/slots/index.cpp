// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/index that move or fold elements by index: each describes its index space.
#include "kernels/index/index.h"

#include <limits>

#include "cuda/args/moves_args.h"
#include "cuda/driver/capture.h"
#include "cuda/driver/late.h"
#include "cuda/slots/index_plan.h"
#include "cuda/slots/registry.h"
#include "kernels/core/moves.h"

namespace cograd::cuda {

using kernels::DimIndexGeometry;
using kernels::IndexGeometry;
using kernels::ScatterReduce;

namespace {

constexpr int64_t kIndexSize = sizeof(int64_t);

IndexPlan plan_of(const char* slot, const DimIndexGeometry& g, const int64_t* index) {
  std::vector<int64_t> self(g.self_strides.begin(), g.self_strides.end());
  int64_t stride = 0;
  if (!self.empty()) std::swap(stride, self[static_cast<size_t>(g.dim)]);
  const PlanTensor t{index, {g.index_strides.begin(), g.index_strides.end()}, g.dim_size, stride};
  return {slot, g.sizes, self, g.other_strides, {&t, 1}, false, device::kRuntimeError};
}
IndexPlan plan_of(const char* slot, const IndexGeometry& g) {
  std::vector<PlanTensor> tensors;
  for (const kernels::IndexOperand& i : g.index)
    tensors.push_back({i.data, {i.strides.begin(), i.strides.end()}, i.size, i.stride});
  return {slot, g.sizes, g.self_strides, g.other_strides, tensors, true, device::kIndexError};
}

// Contiguous [outer, n, inner] with m indices into n, whose other array is [outer, m, inner].
// `source` is 0 if the other array is one value.
IndexPlan rows_plan(const char* slot, int64_t outer, int64_t n, int64_t inner, int64_t itemsize,
                    const int64_t* index, int64_t m, bool wrap, unsigned code, int64_t source = 1) {
  const int64_t row = inner * itemsize;
  const int64_t sizes[] = {outer, m, inner}, self[] = {n * row, 0, itemsize},
                other[] = {source * m * row, source * row, source * itemsize};
  const PlanTensor t{index, {0, kIndexSize, 0}, n, row};
  return {slot, sizes, self, other, {&t, 1}, wrap, code};
}
// Plans a call whose index tensor has an index for each element.
IndexPlan along_plan(const char* slot, int64_t outer, int64_t n, int64_t inner, int64_t itemsize,
                     const int64_t* index, int64_t m) {
  const int64_t row = inner * itemsize;
  const int64_t sizes[] = {outer, m, inner}, self[] = {n * row, 0, itemsize},
                other[] = {m * row, row, itemsize};
  const PlanTensor t{index, {m * inner * kIndexSize, inner * kIndexSize, kIndexSize}, n, row};
  return {slot, sizes, self, other, {&t, 1}, false, device::kIndexError};
}

// Elements of rows of bytes; plans join them to wider ones.
int64_t width_of(int64_t bytes) {
  int64_t w = 1;
  while (w < 16 && bytes % (2 * w) == 0) w *= 2;
  return w;
}

}  // namespace

void gather(int64_t itemsize, const DimIndexGeometry& g, const void* self, const int64_t* index,
            void* out) {
  plan_of("gather", g, index).pick(itemsize, self, out);
}
COGRAD_CUDA_SLOT(gather)

void scatter(int64_t itemsize, const DimIndexGeometry& g, void* self, const int64_t* index,
             const void* src) {
  const IndexPlan plan = plan_of("scatter", g, index);
  if (plan.numel() == 0) return;
  const OnDevice source(src, static_cast<size_t>(itemsize));
  plan.put(itemsize, self, source.get());
}
COGRAD_CUDA_SLOT(scatter)

void scatter_reduce(ScatterReduce op, DType t, const DimIndexGeometry& g, void* self, int64_t,
                    const int64_t* index, const void* src, bool include_self) {
  if (is_complex(t) && (op == ScatterReduce::Amax || op == ScatterReduce::Amin))
    detail::fail_no_kernel("scatter_reduce");
  const IndexPlan plan = plan_of("scatter_reduce", g, index);
  if (plan.numel() == 0) return;
  const OnDevice source(src, static_cast<size_t>(dtype_size(t)));
  IndexPlan::Fold f;
  f.op = static_cast<int>(op);
  f.include_self = include_self;
  plan.fold(t, self, source.get(), f);
}
COGRAD_CUDA_SLOT(scatter_reduce)

void index_get(int64_t itemsize, const IndexGeometry& g, const void* self, void* out) {
  plan_of("index_get", g).pick(itemsize, self, out);
}
COGRAD_CUDA_SLOT(index_get)

void index_put(int64_t itemsize, const IndexGeometry& g, void* self, const void* values) {
  plan_of("index_put", g).put(itemsize, self, values);
}
COGRAD_CUDA_SLOT(index_put)

void index_put_accumulate(DType t, const IndexGeometry& g, void* self, const void* values) {
  IndexPlan::Fold f;
  f.round_each = true;
  plan_of("index_put_accumulate", g).fold(t, self, values, f);
}
COGRAD_CUDA_SLOT(index_put_accumulate)

void index_select(const void* src, int64_t outer, int64_t n, int64_t inner_bytes,
                  const int64_t* index, int64_t m, void* out, int64_t) {
  const int64_t w = width_of(inner_bytes);
  rows_plan("index_select", outer, n, inner_bytes / w, w, index, m, false, device::kIndexError)
      .pick(w, src, out);
}
COGRAD_CUDA_SLOT(index_select)

void index_add(DType t, void* self, int64_t outer, int64_t n, int64_t inner, const int64_t* index,
               int64_t m, const void* src, double alpha, int64_t dim) {
  if (is_complex(t))  // alpha is real, so the parts can be added separately
    return index_add(real_dtype(t), self, outer, n, 2 * inner, index, m, src, alpha, dim);
  IndexPlan::Fold f;
  f.alpha = alpha;
  rows_plan("index_add", outer, n, inner, dtype_size(t), index, m, false, device::kRuntimeError)
      .fold(t, self, src, f);
}
COGRAD_CUDA_SLOT(index_add)

void index_copy(void* self, int64_t outer, int64_t n, int64_t inner_bytes, const int64_t* index,
                int64_t m, const void* src, int64_t) {
  const int64_t w = width_of(inner_bytes);
  rows_plan("index_copy", outer, n, inner_bytes / w, w, index, m, false, device::kIndexError)
      .put(w, self, src);
}
COGRAD_CUDA_SLOT(index_copy)

void index_fill(int64_t itemsize, void* self, int64_t outer, int64_t n, int64_t inner,
                const int64_t* index, int64_t m, const void* value, int64_t) {
  const OnDevice one(value, static_cast<size_t>(itemsize));
  rows_plan("index_fill", outer, n, inner, itemsize, index, m, true, device::kIndexError, 0)
      .put(itemsize, self, one.get());
}
COGRAD_CUDA_SLOT(index_fill)

void take(int64_t itemsize, const void* self, int64_t self_numel, const int64_t* index, int64_t m,
          void* out) {
  rows_plan("take", 1, self_numel, 1, itemsize, index, m, true, device::kIndexError)
      .pick(itemsize, self, out);
}
COGRAD_CUDA_SLOT(take)

void put(DType t, void* self, int64_t self_numel, const int64_t* index, int64_t m, const void* src,
         bool accumulate) {
  const int64_t size = dtype_size(t);
  const IndexPlan plan =
      rows_plan("put", 1, self_numel, 1, size, index, m, true, device::kIndexError);
  if (!accumulate) return plan.put(size, self, src);
  IndexPlan::Fold f;
  f.round_each = true;
  plan.fold(t, self, src, f);
}
COGRAD_CUDA_SLOT(put)

// Elements of the region may share memory, so they are added by index.
void add_strided(DType t, std::span<const int64_t> sizes, std::span<const int64_t> strides,
                 void* region, const void* values) {
  device::OffsetArgs a{};
  a.n = 1;
  int64_t extent = 1;
  if (sizes.size() > std::size(a.size)) detail::fail_no_kernel("add_strided");
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] < 0) detail::fail_no_kernel("add_strided");
    a.size[d] = sizes[d];
    a.stride[d] = strides[d];
    a.n *= sizes[d];
    extent += (sizes[d] - 1) * strides[d];
  }
  if (a.n == 0) return;
  a.ndim = static_cast<int>(sizes.size());
  const Scratch offsets(static_cast<size_t>(a.n) * sizeof(int64_t));
  a.out = offsets.get<long long>();
  const IndexPlan plan = rows_plan("add_strided", 1, extent, 1, dtype_size(t),
                                   offsets.get<int64_t>(), a.n, false, device::kIndexError);
  plan.check_fold();
  launch("add_strided", function_of("index_sequences.h", "strided_offsets", {}), grid_over(a.n), a);
  IndexPlan::Fold f;
  f.round_each = true;
  plan.fold(t, region, values, f);
}
COGRAD_CUDA_SLOT(add_strided)

void take_along(int64_t itemsize, const void* x, int64_t outer, int64_t n, int64_t inner,
                const int64_t* index, int64_t m, void* out) {
  along_plan("take_along", outer, n, inner, itemsize, index, m).pick(itemsize, x, out);
}
COGRAD_CUDA_SLOT(take_along)

void add_along(DType t, const void* values, int64_t outer, int64_t n, int64_t inner,
               const int64_t* index, int64_t m, void* out) {
  IndexPlan::Fold f;
  f.round_each = true;
  along_plan("add_along", outer, n, inner, dtype_size(t), index, m).fold(t, out, values, f);
}
COGRAD_CUDA_SLOT(add_along)

void embedding(const void* weight, int64_t rows, int64_t row_bytes, const int64_t* index,
               int64_t count, void* out) {
  const int64_t w = width_of(row_bytes);
  rows_plan("embedding", 1, rows, row_bytes / w, w, index, count, false, device::kIndexError)
      .pick(w, weight, out);
}
COGRAD_CUDA_SLOT(embedding)

void embedding_backward(DType t, const void* grad, const int64_t* index, int64_t count, int64_t n,
                        int64_t rows, int64_t padding_idx, bool scale_by_freq, void* gweight) {
  if (is_complex(t))
    return embedding_backward(real_dtype(t), grad, index, count, 2 * n, rows, padding_idx,
                              scale_by_freq, gweight);
  IndexPlan::Fold f;
  f.include_self = false;
  f.by_count = scale_by_freq;
  f.skip = padding_idx < 0 ? -1 : padding_idx;
  const IndexPlan plan = rows_plan("embedding_backward", 1, rows, n, dtype_size(t), index, count,
                                   false, device::kIndexError);
  plan.check_fold();
  set_bytes(gweight, 0, rows * n * dtype_size(t));
  plan.fold(t, gweight, grad, f);
}
COGRAD_CUDA_SLOT(embedding_backward)

void one_hot(const int64_t* index, int64_t count, int64_t classes, int64_t* out) {
  set_bytes(out, 0, count * classes * kIndexSize);
  if (count == 0) return;
  const device::OneHotArgs a{index, out, late_error(), "one_hot", count, classes};
  launch("one_hot", function_of("index_check.h", "one_hot", {}), grid_over(count), a);
}
COGRAD_CUDA_SLOT(one_hot)

bool all_within(const int64_t* index, int64_t n, int64_t size, int64_t* bad) {
  if (n == 0) return true;
  if (capture_of(here().stream()) != 0) {
    const device::OneHotArgs a{index, nullptr, late_error(), "a check of indices", n, size};
    launch("all_within", function_of("index_check.h", "report_outside", {}), grid_over(n), a);
    return true;
  }
  const Scratch found(8);
  set_bytes(found.get(), 0xFF, 8);
  const device::CheckArgs a{index, found.get<unsigned long long>(), n, size};
  launch("all_within", function_of("index_check.h", "first_outside", {}), grid_over(n), a);
  uint64_t first = 0;
  read_back(found.get(), &first, sizeof first);
  if (first == std::numeric_limits<uint64_t>::max()) return true;
  read_back(index + first, bad, sizeof *bad);
  return false;
}
COGRAD_CUDA_SLOT(all_within)

int64_t largest_index(const int64_t* index, int64_t n) {
  if (n == 0) return -1;
  const Scratch found(8);
  set_bytes(found.get(), 0, 8);
  const device::CheckArgs a{index, found.get<unsigned long long>(), n, 0};
  launch("largest_index", function_of("index_check.h", "largest", {}), grid_over(n), a);
  uint64_t top = 0;
  read_back(found.get(), &top, sizeof top);
  const auto v = static_cast<int64_t>(top);
  return v < 0 ? std::numeric_limits<int64_t>::min() : v;
}
COGRAD_CUDA_SLOT(largest_index)

}  // namespace cograd::cuda
