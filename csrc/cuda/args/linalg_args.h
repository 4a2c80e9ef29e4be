// SPDX-License-Identifier: BSD-3-Clause
// The arguments of linalg.h, for the host and for kernels' text.
#pragma once

namespace cograd::device {

// Writes the addresses of `count` matrices, `step` bytes apart.
struct PointersArgs {
  void** out;
  char* first;
  long long step, count;
};
// `count` column-major matrices of `rows` x `cols`, and LAPACK's info of each.
struct MatricesArgs {
  void* a;
  int* info;
  long long rows, cols, count;
};
// Copies matrices that are `step` elements apart, or their conjugate transposes, to ones of `rows`
// x `cols` without gaps.
struct CopyArgs {
  const void* from;
  void* to;
  long long rows, cols, count, step;
};
// Replaces reflectors, in matrices `step` elements apart, by the `cols` columns of Q.
struct QArgs {
  void* a;
  const void* tau;
  long long rows, cols, rank, step, count;
};
// Copies the upper triangle of the first `rank` rows; r has `rows` rows and zeros elsewhere.
struct TriangleOfQrArgs {
  const void* a;  // m rows, matrices `step` elements apart
  void* r;
  long long m, step, rows, cols, rank, count;
};
struct DeterminantArgs {
  const void* lu;
  const int* pivots;
  void *det, *sign, *log;
  int* ill;  // becomes 1 if the diagonal of some matrix spans more than 1 / narrow
  long long n, count;
  double narrow;
};
struct PermutationArgs {
  const int* pivots;
  long long* out;
  long long count, k, rows;
  int inverse;
};

}  // namespace cograd::device
