// SPDX-License-Identifier: BSD-3-Clause
// Declares the BLAS routines that products call, in the library that was chosen for them.
#pragma once
#include <string>

namespace cograd::kernels {

inline constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

// The CBLAS interface with 32-bit integers; complex scalars are passed as pairs behind void*.
struct Blas {
  template <class T, class S>
  using Gemm = void(int order, int ta, int tb, int m, int n, int k, S alpha, const T* a, int lda,
                    const T* b, int ldb, S beta, T* c, int ldc);
  template <class T, class S>
  using Gemv = void(int order, int ta, int m, int n, S alpha, const T* a, int lda, const T* x,
                    int incx, S beta, T* y, int incy);
  Gemm<float, float>* sgemm;
  Gemm<double, double>* dgemm;
  Gemm<void, const void*>*cgemm, *zgemm;
  Gemv<float, float>* sgemv;
  Gemv<double, double>* dgemv;
  Gemv<void, const void*>*cgemv, *zgemv;
};

// The routines of each table compute on the calling thread alone: they start no threads.
const Blas& chosen_blas() noexcept;
// True if a library was chosen by name; it then computes real products, too.
bool chose_blas() noexcept;
const Blas& openblas() noexcept;
std::string openblas_version();

namespace mkl {
void load(const std::string& path);
bool is_loaded() noexcept;
std::string version();
const Blas& table() noexcept;
}  // namespace mkl

}  // namespace cograd::kernels
