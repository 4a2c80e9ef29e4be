// SPDX-License-Identifier: BSD-3-Clause
// The arguments of the index kernels, for the host and for kernels' text. Strides are in bytes.
#pragma once
#include "late_args.h"

namespace cograd::device {

inline constexpr int kIndexDims = 8, kIndexTensors = 5;

struct IndexDim {
  long long size, self, other;
  long long key;    // what a step adds to the number of the target that it reaches
  long long entry;  // what a step adds to the number of the entry; 0 if no index varies
  long long index[kIndexTensors];
};
struct IndexTensor {
  const void* data;
  long long size, stride, key;  // of the indexed dim
};

// A space of elements or of entries. An entry is a combination of indices; the dims that it does
// not depend on are slices. Entries with equal keys have the same target.
struct IndexArgs {
  void* self;
  void* other;
  unsigned* winners;  // the largest entry + 1 of each key, or null: all entries are written
  unsigned* keys;     // of the entries
  LateError* late;
  const char* op;      // on the host, for the error
  long long n, space;  // positions; number of keys
  int ndim, wrap;
  unsigned code;
  IndexDim dims[kIndexDims];  // from the outermost to the innermost
  IndexTensor tensors[kIndexTensors];
};

enum SumOp : int { kSumOp, kProdOp, kMeanOp, kMaxOp, kMinOp };

// Folds the terms of each target; `at` is the space of entries.
struct SumArgs {
  IndexArgs at;
  const unsigned *keys, *order;  // sorted
  long long slices;
  int slice_dims;
  int op, include_self;
  int round_each;  // 16-bit floats: round after each term, else once
  int by_count;    // divides each term by the number of terms
  long long skip;  // the key that is left out, or -1
  double alpha;
  long long alpha_bits;
  IndexDim slice[kIndexDims];
};

struct OneHotArgs {
  const void* index;
  void* out;
  LateError* late;
  const char* op;
  long long count, classes;
};

// The first bad position and its value, or the largest index.
struct CheckArgs {
  const void* index;
  unsigned long long* found;
  long long n, size;
};

}  // namespace cograd::device
