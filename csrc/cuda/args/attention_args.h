// SPDX-License-Identifier: BSD-3-Clause
// The arguments of attention and the sizes of its blocks, for the host and for kernels' text.
#pragma once

namespace cograd::device {

inline constexpr int kAttentionDims = 6;        // leading dims of one launch
inline constexpr int kMostAttentionSize = 128;  // elements of a row of keys or values

// Matrices of an operand: `steps` elements apart along the leading dims, rows row_step apart.
struct AttentionOperand {
  const void* data;
  long long row_step;
  long long steps[kAttentionDims];
  int packs;  // all rows begin at multiples of 16 bytes and have a multiple of these
};
enum AttentionBit : int { kMaskBit = 1, kDropoutBit = 2 };  // what a program is compiled for
enum AttentionMaskKind : int {
  kTruthMask,
  kStoredMask,   // adds elements of the operands' dtype
  kComputedMask  // adds elements of the dtype that is computed in
};

struct AttentionArgs {
  AttentionOperand q, k, v, out, g, gq, gk, gv, mask;
  // [matrices, rows]: what forward saves (kernels/nn/attention.h); the sum of g * out over a row.
  void *tops, *inverses, *along;
  long long mask_col;
  long long sizes[kAttentionDims];  // of the queries' leading dims
  long long rows, keys;
  long long first;                         // number of the first matrix among those of all launches
  long long jobs, blocks;                  // blocks of rows, or of keys, in all and of each matrix
  double scale, factor;                    // `factor` multiplies weights that dropout keeps
  unsigned long long limit, seed, offset;  // dropout keeps a weight if its word is below `limit`
  const unsigned long long* base;          // of a captured kernel (random_args.h)
  int size, value_size, group, causal, mask_kind;
};

// Says what a block of threads computes. It owns rows of one operand (of queries, in the gradient
// of the keys these) and goes through the rows of the other one, some at a time.
struct AttentionTiles {
  int warps, tall, others;  // a warp owns 16 * tall rows
  int row_bytes;            // of a row in shared memory; the padding avoids bank conflicts
  int shared_bytes;
  constexpr int threads() const { return 32 * warps; }
  constexpr int rows() const { return 16 * tall * warps; }
  // Elements between the rows of the array in which lanes without mma exchange weights.
  constexpr int scratch_step() const { return others + 4; }
};

// `bytes` is the size of an element in shared memory, which without mma is one of the computed
// dtype. `size` is the length of rows there: a multiple of 32.
constexpr AttentionTiles attention_tiles(bool forward, bool mma, int bytes, int size) {
  const int row = size * bytes + 16;
  if (mma) {
    // Forward keeps the queries in registers, and loads them through the room of keys and values.
    // 32 rows per warp share what is read of these there, but long rows have no registers for that.
    if (forward) return {size <= 64 ? 4 : 8, size <= 64 ? 2 : 1, 64, row, 128 * row};
    const int others = size <= 64 ? 64 : 32;
    return {4, 1, others, row, 2 * (64 + others) * row};
  }
  // The largest block whose shared memory needs no permission, else the smallest.
  const int choices[5][2] = {{4, 32}, {4, 16}, {2, 16}, {2, 8}, {1, 8}};
  AttentionTiles t{};
  for (const auto& c : choices) {
    t = {c[0], 1, c[1], row, 0};
    t.shared_bytes =
        ((forward ? 1 : 2) * t.rows() + 2 * t.others) * row + t.rows() * t.scratch_step() * bytes;
    if (t.shared_bytes <= 48 * 1024) break;
  }
  return t;
}

}  // namespace cograd::device
