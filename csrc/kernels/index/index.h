// SPDX-License-Identifier: BSD-3-Clause
// Gather, scatter, selection and masks. Index values are checked before anything is written. As in
// torch, "index 7 is out of bounds for dimension 0 with size 5" is a RuntimeError for gather,
// scatter and index_add, and an IndexError for all others.
#pragma once
#include <cstdint>
#include <span>

#include "cograd/dtype.h"
#include "cograd/error.h"

namespace cograd::kernels {

enum class IndexSign : uint8_t {
  NonNegative,  // gather, scatter, index_select, index_add, index_copy, embedding
  Wrap,         // advanced indexing, take, put, index_fill: -1 is the last
};

// Raises for the first of `n` contiguous indices outside [0, size), or outside [-size, size)
// with Wrap.
void check_index(const int64_t* index, int64_t n, int64_t size, int64_t dim, IndexSign sign,
                 ErrorKind kind = ErrorKind::Index);

// Returns true if all n contiguous indices are in [0, size); else `bad` receives the first other
// one.
bool all_within(const int64_t* index, int64_t n, int64_t size, int64_t* bad);
// Returns the largest of n contiguous indices, or -1 if there are none; INT64_MIN if one is
// negative.
int64_t largest_index(const int64_t* index, int64_t n);

// Describes gather and scatter along `dim`. `sizes` is index.shape; strides are in bytes, one per
// dimension, zero where expanded. `other` is gather's out or scatter's src (all zero for a scalar).
struct DimIndexGeometry {
  std::span<const int64_t> sizes;
  std::span<const int64_t> self_strides;
  std::span<const int64_t> index_strides;
  std::span<const int64_t> other_strides;
  int dim = 0;
  int64_t dim_size = 0;  // self.size(dim)
};
void gather(int64_t itemsize, const DimIndexGeometry& g, const void* self, const int64_t* index,
            void* out);
// If indices repeat, the last one (in C order of the index) wins.
void scatter(int64_t itemsize, const DimIndexGeometry& g, void* self, const int64_t* index,
             const void* src);

enum class ScatterReduce : uint8_t { Sum, Prod, Mean, Amax, Amin };
// `self` must be contiguous with self_numel elements. Adds terms in C order of the index.
// scatter_add is Sum with include_self.
void scatter_reduce(ScatterReduce op, DType t, const DimIndexGeometry& g, void* self,
                    int64_t self_numel, const int64_t* index, const void* src, bool include_self);

// Works on contiguous [outer, n, inner] with m indices into n; inner_bytes = inner * itemsize.
void index_select(const void* src, int64_t outer, int64_t n, int64_t inner_bytes,
                  const int64_t* index, int64_t m, void* out, int64_t dim);
// Computes self[:, index[j], :] += alpha * src[:, j, :]; src is [outer, m, inner].
void index_add(DType t, void* self, int64_t outer, int64_t n, int64_t inner, const int64_t* index,
               int64_t m, const void* src, double alpha, int64_t dim);
void index_copy(void* self, int64_t outer, int64_t n, int64_t inner_bytes, const int64_t* index,
                int64_t m, const void* src, int64_t dim);
// `value` points to one element.
void index_fill(int64_t itemsize, void* self, int64_t outer, int64_t n, int64_t inner,
                const int64_t* index, int64_t m, const void* value, int64_t dim);

// Index a contiguous array of self_numel elements by flat positions; negative indices wrap.
void take(int64_t itemsize, const void* self, int64_t self_numel, const int64_t* index, int64_t m,
          void* out);
void put(DType t, void* self, int64_t self_numel, const int64_t* index, int64_t m, const void* src,
         bool accumulate);

// Masks have one byte per element (bool). `sizes` applies to self and mask, which have byte
// strides.
void masked_fill(int64_t itemsize, std::span<const int64_t> sizes, void* self,
                 std::span<const int64_t> self_strides, const bool* mask,
                 std::span<const int64_t> mask_strides, const void* value);
int64_t mask_count(const bool* mask, int64_t n);
// Reads contiguous src and mask of n elements; out holds `count` elements, the result of
// mask_count. Raises if the mask was written since.
void masked_select(int64_t itemsize, const void* src, const bool* mask, int64_t n, int64_t count,
                   void* out);
// Computes self[mask] = src[0..count), contiguous; raises RuntimeError if src has fewer elements.
void masked_scatter(int64_t itemsize, void* self, const bool* mask, int64_t n, const void* src,
                    int64_t src_numel);

int64_t nonzero_count(DType t, const void* x, int64_t n);
// Reads contiguous x of shape `sizes` with `count` non-zero elements; out is
// [sizes.size(), count]. Raises if x was written since the elements were counted.
void nonzero(DType t, const void* x, std::span<const int64_t> sizes, int64_t count, int64_t* out);

// One index tensor of an advanced index.
struct IndexOperand {
  const int64_t* data = nullptr;
  std::span<const int64_t> strides;  // bytes per iteration dimension; 0 if the index does not vary
  int64_t size = 0;                  // size of the indexed dimension
  int64_t stride = 0;                // stride in bytes of the indexed dimension in self
  int64_t dim = 0;                   // number of that dimension, for the error message

  template <class F>
  void each_pointer(F&& f) {
    f(data);
  }
};
// Describes x[i, :, j] and the like. The iteration space is the result's shape. self_strides holds
// the byte strides of the sliced dimensions in self, and 0 for dimensions that index tensors span.
struct IndexGeometry {
  std::span<const int64_t> sizes;
  std::span<const int64_t> self_strides;
  std::span<const int64_t> other_strides;  // out (get) or values (put), in bytes
  std::span<const IndexOperand> index;

  struct InKernelView;
  InKernelView in_kernel_view() const;
};
void index_get(int64_t itemsize, const IndexGeometry& g, const void* self, void* out);
// If positions repeat, the last one in C order wins.
void index_put(int64_t itemsize, const IndexGeometry& g, void* self, const void* values);
// Computes self += values in C order, so the result does not depend on the number of threads.
void index_put_accumulate(DType t, const IndexGeometry& g, void* self, const void* values);

// Computes out[count, row_bytes] = weight[index]; weight is [rows, row_bytes].
void embedding(const void* weight, int64_t rows, int64_t row_bytes, const int64_t* index,
               int64_t count, void* out);
// Zeroes gweight[rows, n], then adds grad[count, n]. Skips rows equal to padding_idx (-1: none).
// scale_by_freq divides each row by how often it occurs.
void embedding_backward(DType t, const void* grad, const int64_t* index, int64_t count, int64_t n,
                        int64_t rows, int64_t padding_idx, bool scale_by_freq, void* gweight);
// Zeroes out[count, classes] (int64) and sets the ones. Class values must be in [0, classes).
void one_hot(const int64_t* index, int64_t count, int64_t classes, int64_t* out);

// Picks or adds m elements of each contiguous [outer, n, inner] along n, at the positions in
// index [outer, m, inner].
void take_along(int64_t itemsize, const void* x, int64_t outer, int64_t n, int64_t inner,
                const int64_t* index, int64_t m, void* out);
void add_along(DType t, const void* values, int64_t outer, int64_t n, int64_t inner,
               const int64_t* index, int64_t m, void* out);

}  // namespace cograd::kernels
