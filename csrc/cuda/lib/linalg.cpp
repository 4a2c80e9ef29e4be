// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/libraries/lapack_batch.h: factors of matrices by cuSOLVER, triangular systems
// and factors of many small matrices by cuBLAS. Large ones are computed one after the other.
#include <cmath>
#include <limits>

#include "cuda/lib/cusolver.h"
#include "cuda/lib/linalg.h"
#include "cuda/slots/registry.h"

namespace cograd::cuda {

void batched_cholesky(MatrixBatch b, int64_t n, void* a, int* info) {
  const SolverCall call("cholesky", b.t);
  clear_info(b, info);
  if (n == 0 || b.count == 0) return;
  const int in = narrow(n);
  if (many_small(b, n)) {
    const Pointers list(b, a, n * n);
    call.run("potrfBatched", call.api.potrf_batched, kLower, in, list.get(), in, info,
             narrow(b.count));
  } else {
    const int size = call.ask("potrf_bufferSize", call.api.potrf_size, kLower, in, a, in);
    const Scratch work(bytes_of(b, size));
    for (int64_t i = 0; i < b.count; ++i)
      call.run("potrf", call.api.potrf, kLower, in, at(b, a, i, n * n), in, work.data(), size,
               info + i);
  }
  const device::MatricesArgs args{a, info, n, n, b.count};
  launch("cholesky", linalg_kernel(b.t, "check_diagonal"), grid_of(b.count, 32), args);
  each_element("lower_triangle", b, a, n, n);
}
COGRAD_CUDA_SLOT(batched_cholesky)

void batched_lu_factor(MatrixBatch b, int64_t m, int64_t n, void* a, int* pivots, int* info) {
  if (m == n && n > 0 && many_small(b, n)) {
    const BlasCall call("lu_factor", b.t);
    const Pointers list(b, a, n * n);
    return call.run("getrfBatched", call.api.getrf_batched, narrow(n), list.get(), narrow(n),
                    pivots, info, narrow(b.count));
  }
  const SolverCall call("lu_factor", b.t);
  clear_info(b, info);
  if (m == 0 || n == 0 || b.count == 0) return;
  const int im = narrow(m), in = narrow(n);
  const int size = call.ask("getrf_bufferSize", call.api.getrf_size, im, in, a, im);
  const Scratch work(bytes_of(b, size));
  for (int64_t i = 0; i < b.count; ++i)
    call.run("getrf", call.api.getrf, im, in, at(b, a, i, m * n), im, work.data(),
             pivots + i * std::min(m, n), info + i);
}
COGRAD_CUDA_SLOT(batched_lu_factor)

void batched_lu_solve(MatrixBatch b, bool transpose, int64_t n, int64_t k, const void* lu,
                      const int* pivots, void* x) {
  const int in = narrow(n), ik = narrow(k), transposed = transpose ? kTransposed : kPlain;
  if (n > 0 && k > 0 && many_small(b, n)) {
    const BlasCall call("lu_solve", b.t);
    const Pointers matrices(b, lu, n * n), right(b, x, n * k);
    int info = 0;  // says whether arguments are valid, as the status does
    return call.run("getrsBatched", call.api.getrs_batched, transposed, in, ik, matrices.get(), in,
                    pivots, right.get(), in, &info, narrow(b.count));
  }
  const SolverCall call("lu_solve", b.t);
  if (n == 0 || k == 0) return;
  const Scratch info(sizeof(int));
  for (int64_t i = 0; i < b.count; ++i)
    call.run("getrs", call.api.getrs, transposed, in, ik, at(b, lu, i, n * n), in, pivots + i * n,
             at(b, x, i, n * k), in, info.get<int>());
}
COGRAD_CUDA_SLOT(batched_lu_solve)

void batched_lu_inverse(MatrixBatch b, int64_t n, void* lu, const int* pivots, const int* info) {
  const int64_t bytes = b.count * n * n * dtype_size(b.t);
  const Scratch inverse(static_cast<size_t>(bytes));
  if (bytes > 0) each_element("identity", b, inverse.data(), n, n);
  cuda::batched_lu_solve(b, false, n, n, lu, pivots, inverse.data());
  if (bytes == 0) return;
  each_element("nan_if_failed", b, inverse.data(), n, n, const_cast<int*>(info));
  copy_on_device(lu, inverse.data(), bytes);
}
COGRAD_CUDA_SLOT(batched_lu_inverse)

bool lu_determinants(MatrixBatch b, int64_t n, const void* lu, const int* pivots, void* det,
                     void* sign, void* logabs) {
  if (b.count == 0) return false;
  const bool wide = b.t == DType::Float64 || b.t == DType::Complex128;
  const double limit = std::cbrt(wide ? std::numeric_limits<double>::epsilon()
                                      : double{std::numeric_limits<float>::epsilon()});
  const Scratch ill(sizeof(int));
  set_bytes(ill.data(), 0, sizeof(int));
  const device::DeterminantArgs args{lu, pivots,  det,  sign, logabs, ill.get<int>(),
                                     n,  b.count, limit};
  launch("lu_determinants", linalg_kernel(b.t, "lu_determinants"), grid_of(b.count, 32), args);
  return read_back<int>(ill.data()) != 0;
}
COGRAD_CUDA_SLOT(lu_determinants)

void lu_permutations(int64_t count, const int* pivots, int64_t k, int64_t rows, bool inverse,
                     int64_t* out) {
  if (count * rows == 0) return;
  const device::PermutationArgs args{
      pivots, reinterpret_cast<long long*>(out), count, k, rows, inverse ? 1 : 0};
  launch("lu_permutations", linalg_kernel(DType::Float32, "lu_permutations"), grid_over(count),
         args);
}
COGRAD_CUDA_SLOT(lu_permutations)

void batched_triangular_solve(MatrixBatch b, bool upper, bool unit, int64_t n, int64_t k,
                              const void* a, void* x) {
  const BlasCall call("triangular_solve", b.t);
  if (n == 0 || k == 0 || b.count == 0) return;
  const int in = narrow(n), ik = narrow(k);
  const int triangle = upper ? kUpper : kLower, diagonal = unit ? kUnit : kNonUnit;
  const float narrow_one[2] = {1, 0};
  const double wide_one[2] = {1, 0};
  const bool wide = b.t == DType::Float64 || b.t == DType::Complex128;
  const void* const one = wide ? static_cast<const void*>(wide_one) : narrow_one;
  if (many_small(b, n)) {
    const Pointers matrices(b, a, n * n), right(b, x, n * k);
    call.run("trsmBatched", call.api.trsm_batched, kLeft, triangle, kPlain, diagonal, in, ik, one,
             matrices.get(), in, right.get(), in, narrow(b.count));
    return;
  }
  for (int64_t i = 0; i < b.count; ++i)
    call.run("trsm", call.api.trsm, kLeft, triangle, kPlain, diagonal, in, ik, one,
             at(b, a, i, n * n), in, at(b, x, i, n * k), in);
}
COGRAD_CUDA_SLOT(batched_triangular_solve)

}  // namespace cograd::cuda
