// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/index that select by a mask.
#include "cograd/error.h"
#include "cuda/args/mask_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/index/index.h"

namespace cograd::cuda {

namespace {

CUfunction masks(DType t, int64_t width, const char* name) {
  return function_of("masks.h", name, {{"TYPE", bits_type(t)}, {"WIDTH", width}});
}

// The tiles of n elements of dtype t, with the number of those before each that are kept.
class Compaction {
 public:
  Compaction(DType t, const void* x, int64_t n)
      : type_(t),
        tiles_(blocks_of(n, device::kMaskTile)),
        starts_(static_cast<size_t>(tiles_ + 1) * 8) {
    args_.x = x;
    args_.n = n;
    args_.tiles = tiles_;
    args_.starts = starts_.get<unsigned long long>();
    launch("count_kept", masks(t, 1, "count_kept"), grid_of_blocks(tiles_, device::kMaskThreads),
           args_);
    launch("scan_counts", masks(t, 1, "scan_counts"), grid_of_blocks(1, 1024), args_);
  }
  int64_t total() const {
    int64_t all = 0;
    read_back(args_.starts + tiles_, &all, sizeof all);
    return all;
  }
  device::CompactArgs& args() noexcept { return args_; }
  void run(const char* name, int64_t width) const {
    launch(name, masks(type_, width, name), grid_of_blocks(tiles_, device::kMaskThreads), args_);
  }

 private:
  DType type_;
  int64_t tiles_;
  Scratch starts_;
  device::CompactArgs args_{};
};

}  // namespace

void masked_fill(int64_t itemsize, std::span<const int64_t> sizes, void* self,
                 std::span<const int64_t> self_strides, const bool* mask,
                 std::span<const int64_t> mask_strides, const void* value) {
  device::MaskedFillArgs a{};
  a.self = self;
  a.mask = mask;
  a.n = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    a.n *= sizes[d];
    if (sizes[d] == 1) continue;
    const int last = a.ndim - 1;
    if (a.ndim > 0 && a.self_stride[last] == self_strides[d] * sizes[d] &&
        a.mask_stride[last] == mask_strides[d] * sizes[d]) {
      a.size[last] *= sizes[d];
    } else {
      if (a.ndim == device::kMaskDims) detail::fail_no_kernel("masked_fill");
      a.size[a.ndim++] = sizes[d];
    }
    a.self_stride[a.ndim - 1] = self_strides[d];
    a.mask_stride[a.ndim - 1] = mask_strides[d];
  }
  if (a.n == 0) return;
  const OnDevice one(value, static_cast<size_t>(itemsize));
  a.value = one.get();
  launch("masked_fill", masks(DType::Bool, itemsize, "masked_fill"), grid_over(a.n), a);
}
COGRAD_CUDA_SLOT(masked_fill)

int64_t mask_count(const bool* mask, int64_t n) {
  return n == 0 ? 0 : Compaction(DType::Bool, mask, n).total();
}
COGRAD_CUDA_SLOT(mask_count)

void masked_select(int64_t itemsize, const void* src, const bool* mask, int64_t n, int64_t count,
                   void* out) {
  if (n == 0 || count == 0) return;
  Compaction c(DType::Bool, mask, n);
  c.args().from = src;
  c.args().to = out;
  c.args().most = count;
  c.run("masked_select", itemsize);
}
COGRAD_CUDA_SLOT(masked_select)

void masked_scatter(int64_t itemsize, void* self, const bool* mask, int64_t n, const void* src,
                    int64_t src_numel) {
  if (n == 0) return;
  Compaction c(DType::Bool, mask, n);
  // Without a wait if every element of self could be selected.
  if (src_numel < n) {
    const int64_t wanted = c.total();
    COGRAD_CHECK(wanted <= src_numel, "masked_scatter: the mask selects ", wanted,
                 " elements, but source has ", src_numel);
  }
  c.args().from = src;
  c.args().to = self;
  c.args().most = src_numel;
  c.run("masked_scatter", itemsize);
}
COGRAD_CUDA_SLOT(masked_scatter)

int64_t nonzero_count(DType t, const void* x, int64_t n) {
  return n == 0 ? 0 : Compaction(t, x, n).total();
}
COGRAD_CUDA_SLOT(nonzero_count)

void nonzero(DType t, const void* x, std::span<const int64_t> sizes, int64_t found, int64_t* out) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  if (sizes.empty() || n == 0 || found == 0) return;
  if (sizes.size() > device::kMaskDims) detail::fail_no_kernel("nonzero");
  Compaction c(t, x, n);
  c.args().to = out;
  c.args().most = found;
  c.args().ndim = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), c.args().size);
  c.run("nonzero", 1);
}
COGRAD_CUDA_SLOT(nonzero)

}  // namespace cograd::cuda
