// SPDX-License-Identifier: BSD-3-Clause
// cuSOLVER's functions for column-major matrices in memory of the GPU, and cuBLAS's for triangular
// ones and for batches, where these libraries are installed.
#pragma once
#include <mutex>
#include <type_traits>

#include "cograd/dtype.h"
#include "cuda/driver/launch.h"
#include "cuda/driver/timing.h"
#include "cuda/lib/library.h"

namespace cograd::cuda {

// The numbers of the libraries' options.
enum : int { kLower = 0, kUpper = 1 };
enum : int { kPlain = 0, kTransposed = 1 };
enum : int { kNonUnit = 0, kUnit = 1 };
enum : int { kLeft = 0 };
enum : int { kNoVectors = 0, kVectors = 1 };

using LibraryHandle = void*;
using SolverOptions = void*;

// The functions of one dtype under LAPACK's names, first those that tell the workspace's size in
// elements. `info`, one number, is on the GPU. The prototypes are our own, from the documentation.
struct SolverApi {
  int (*potrf_size)(LibraryHandle, int triangle, int n, void* a, int ld, int* size);
  int (*potrf)(LibraryHandle, int triangle, int n, void* a, int ld, void* work, int size,
               int* info);
  int (*potrf_batched)(LibraryHandle, int triangle, int n, void** a, int ld, int* info, int count);
  int (*getrf_size)(LibraryHandle, int m, int n, void* a, int ld, int* size);
  int (*getrf)(LibraryHandle, int m, int n, void* a, int ld, void* work, int* pivots, int* info);
  int (*getrs)(LibraryHandle, int transposed, int n, int k, const void* a, int lda,
               const int* pivots, void* b, int ldb, int* info);
  int (*geqrf_size)(LibraryHandle, int m, int n, void* a, int ld, int* size);
  int (*geqrf)(LibraryHandle, int m, int n, void* a, int ld, void* tau, void* work, int size,
               int* info);
  int (*orgqr_size)(LibraryHandle, int m, int n, int k, const void* a, int ld, const void* tau,
                    int* size);
  int (*orgqr)(LibraryHandle, int m, int n, int k, void* a, int ld, const void* tau, void* work,
               int size, int* info);
  // These take small matrices that follow one another; `info` has a number for each.
  int (*syevj_batched_size)(LibraryHandle, int vectors, int triangle, int n, const void* a, int ld,
                            const void* values, int* size, SolverOptions, int count);
  int (*syevj_batched)(LibraryHandle, int vectors, int triangle, int n, void* a, int ld,
                       void* values, void* work, int size, int* info, SolverOptions, int count);
  // These take up to 32 rows and columns, and write V instead of its conjugate transpose.
  int (*gesvdj_batched_size)(LibraryHandle, int vectors, int m, int n, const void* a, int lda,
                             const void* s, const void* u, int ldu, const void* v, int ldv,
                             int* size, SolverOptions, int count);
  int (*gesvdj_batched)(LibraryHandle, int vectors, int m, int n, void* a, int lda, void* s,
                        void* u, int ldu, void* v, int ldv, void* work, int size, int* info,
                        SolverOptions, int count);
  int (*syevd_size)(LibraryHandle, int vectors, int triangle, int n, const void* a, int ld,
                    const void* values, int* size);
  int (*syevd)(LibraryHandle, int vectors, int triangle, int n, void* a, int ld, void* values,
               void* work, int size, int* info);
  int (*gesvd_size)(LibraryHandle, int m, int n, int* size);
  int (*gesvd)(LibraryHandle, signed char u_part, signed char vh_part, int m, int n, void* a,
               int lda, void* s, void* u, int ldu, void* vh, int ldvh, void* work, int size,
               void* real_work, int* info);
};
struct BlasApi {
  int (*trsm)(LibraryHandle, int side, int triangle, int transposed, int unit, int m, int n,
              const void* factor, const void* a, int lda, void* b, int ldb);
  int (*trsm_batched)(LibraryHandle, int side, int triangle, int transposed, int unit, int m, int n,
                      const void* factor, void** a, int lda, void** b, int ldb, int count);
  // This info is as that of getrs_batched.
  int (*geqrf_batched)(LibraryHandle, int m, int n, void** a, int ld, void** tau, int* info,
                       int count);
  int (*getrf_batched)(LibraryHandle, int n, void** a, int ld, int* pivots, int* info, int count);
  // This info is in memory of the host, and one number for all.
  int (*getrs_batched)(LibraryHandle, int transposed, int n, int k, void** a, int lda,
                       const int* pivots, void** b, int ldb, int* info, int count);
};

struct HandledLibrary;

// A library's handle for the current GPU and stream. Others wait while one exists, because a handle
// has one stream. `slot` stands in messages.
class LibraryCall {
 public:
  LibraryCall(const char* slot, HandledLibrary& library);
  // Calls a function that starts kernels.
  template <class... P, class... A>
  void run(const char* name, int (*f)(LibraryHandle, P...), A... args) const {
    const Timed timed(name);
    check(name, f(handle_, args...));
    launched(name);
  }
  // Calls one that starts none.
  template <class... P, class... A>
  void query(const char* name, int (*f)(LibraryHandle, P...), A... args) const {
    check(name, f(handle_, args...));
  }
  // Returns the size of a workspace.
  template <class... P, class... A>
  int ask(const char* name, int (*f)(LibraryHandle, P...), A... args) const {
    int size = 0;
    check(name, f(handle_, args..., &size));
    return size;
  }

 protected:
  void check(const char* function, int status) const;

 private:
  const char* slot_;
  HandledLibrary& library_;
  std::unique_lock<std::mutex> lock_;
  LibraryHandle handle_ = nullptr;
};

// Throw NoLibrary if the library is not there. `t` is a dtype of 32 or 64 bits per part.
class SolverCall : public LibraryCall {
 public:
  SolverCall(const char* slot, DType t);
  const SolverApi& api;
  // Options of the batched functions: sorted values, as precise as the dtype.
  SolverOptions of_eigen = nullptr, of_singular = nullptr;
};
class BlasCall : public LibraryCall {
 public:
  BlasCall(const char* slot, DType t);
  const BlasApi& api;
};

const Library& cusolver();
const Library& cublas();

}  // namespace cograd::cuda
