// SPDX-License-Identifier: BSD-3-Clause
// Parts of products of floating dtypes on the calling thread, with one copy per instruction set.
// How a product is cut into parts changes no bit of it: see docs/numerics.md.
#pragma once
#include <algorithm>

#include "kernels/product/gemm_small.h"
#include "tensor/alloc.h"
#include "tensor/threads.h"

namespace cograd::kernels {

inline constexpr int64_t kSumBlock = 128;  // terms that one chain adds
inline constexpr int64_t kDepth = 256;     // rows of B in a packed panel

// Memory for packed operands. It comes from the cache of large blocks: malloc may return such
// memory to the system after each product, and clearing its pages again takes longer than packing.
class Scratch {
 public:
  explicit Scratch(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), data_(bytes > 0 ? data_alloc(bytes_) : nullptr) {}
  ~Scratch() {
    if (data_ != nullptr) data_free(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  size_t bytes_;
  void* data_;
};

// Divides `size` rows into `parts` of almost equal height.
struct EvenParts {
  EvenParts(int64_t size, int64_t count)
      : parts(count), least(size / count), longer(size % count) {}
  int64_t first(int64_t part) const { return part * least + std::min(part, longer); }
  int64_t parts, least, longer;
};

// True if the rows of a strip of A share one set of the first-level cache, which holds 8 to 12
// lines.
inline bool rows_collide(DType t, const GemmArgs& g) {
  return !g.ta && g.lda * dtype_size(t) % 4096 == 0;
}

// Strips of rows of C [strip, strip_end) and panels of its columns [panel, panel_end).
struct Piece {
  int64_t strip, strip_end, panel, panel_end;
};
// Rows [p, end) of op(B), in panels from `first` on: for each kDepth of them `panels` panels.
struct PackedRight {
  int64_t p, end, first, panels;
  const void* data;
};

struct GemmTile {
  int64_t strip_rows;
  int64_t (*panel_cols)(DType t);
  // Computes a piece from the operands as they lie, in Float32 or Float64.
  void (*direct)(DType t, const GemmArgs& g, const Piece& piece);
  // Packs rows [p, p + depth) of panels [panel, panel_end). Here and below 16-bit operands are
  // widened, and C is a float matrix.
  void (*pack)(DType t, const GemmArgs& g, int64_t p, int64_t depth, int64_t panel,
               int64_t panel_end, void* to);
  void (*packed)(DType t, const GemmArgs& g, const Piece& piece, const PackedRight& b);
  // Computes c = beta c + alpha block for `blocks` blocks of n elements, `step` apart.
  void (*add_blocks)(DType t, int64_t n, int64_t blocks, const void* block, int64_t step,
                     double alpha, double beta, void* c);
  // Converts between 16-bit rows and float rows.
  void (*widen)(DType t, const void* from, int64_t n, float* to);
  void (*narrow)(DType t, const float* from, int64_t n, void* to);
};
const GemmTile& gemm_tile();

}  // namespace cograd::kernels
