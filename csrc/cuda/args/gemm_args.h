// SPDX-License-Identifier: BSD-3-Clause
// The parameters of the kernels of gemm.h; lengths and strides are in elements.
#pragma once

struct GemmArgs {
  const void *a, *b;
  void* c;
  long long m, n, k, lda, ldb, ldc;
  long long stride_a, stride_b, stride_c, batch;
  double alpha, beta;
  long long tiles_n;  // tiles along n
};

struct GemvArgs {
  const void *a, *x;
  void* y;
  long long m, n, lda, incx, incy;  // of the stored matrix, m x n
  double alpha, beta;
};

struct DotArgs {
  const void *x, *y;
  void* out;
  void* partial;  // one element of the compute type for each block
  long long n, incx, incy;
  int blocks;
};

struct GerArgs {
  const void *x, *y;
  void* a;
  long long m, n, incx, incy, lda;
  double alpha, beta;
};

struct ColumnsArgs {
  const void* x;
  void* out;
  long long images, channels, positions;
  long long in[3], places[3], kernel[3], stride[3], padding[3], dilation[3];
};
