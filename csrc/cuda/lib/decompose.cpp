// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/libraries/lapack_batch.h: decompositions of matrices by cuSOLVER, one matrix
// after the other.
#include <algorithm>

#include "cuda/lib/cusolver.h"
#include "cuda/lib/linalg.h"
#include "cuda/slots/registry.h"

namespace cograd::cuda {

namespace {

// Computes the reflectors of matrices that are `step` elements apart.
void find_reflectors(const SolverCall& call, MatrixBatch b, int64_t m, int64_t n, int64_t step,
                     void* a, void* tau) {
  const int im = narrow(m), in = narrow(n);
  const int size = call.ask("geqrf_bufferSize", call.api.geqrf_size, im, in, a, im);
  const Scratch work(bytes_of(b, size)), info(sizeof(int));  // info tells of bad arguments only
  for (int64_t i = 0; i < b.count; ++i)
    call.run("geqrf", call.api.geqrf, im, in, at(b, a, i, step), im, at(b, tau, i, std::min(m, n)),
             work.data(), size, info.get<int>());
}

// Copies conjugate transposes; `to` has `rows` rows.
void adjoint(MatrixBatch b, const void* from, int64_t rows, int64_t cols, void* to) {
  const device::AdjointArgs args{from, to, rows, cols, b.count};
  launch("adjoint", linalg_kernel(b.t, "adjoint"), grid_over(rows * cols * b.count), args);
}

// Does what batched_svd does, for matrices with at least as many rows as columns.
void tall_svd(const SolverCall& call, MatrixBatch b, bool full, int64_t m, int64_t n, void* a,
              void* s, void* u, void* vh, int* info) {
  const int im = narrow(m), in = narrow(n);
  const int size = call.ask("gesvd_bufferSize", call.api.gesvd_size, im, in);
  const Scratch work(bytes_of(b, size)), reals(bytes_of(b, n));
  const char part = u == nullptr ? 'N' : full ? 'A' : 'S';
  const int64_t columns = full ? m : n;
  const MatrixBatch values = reals_of(b);
  for (int64_t i = 0; i < b.count; ++i)
    call.run("gesvd", call.api.gesvd, part, part, im, in, at(b, a, i, m * n), im,
             at(values, s, i, n), u == nullptr ? nullptr : at(b, u, i, m * columns), im,
             vh == nullptr ? nullptr : at(b, vh, i, n * n), in, work.data(), size, reals.data(),
             info + i);
}

}  // namespace

void batched_reflectors(MatrixBatch b, int64_t m, int64_t n, void* a, void* tau) {
  const SolverCall call("geqrf", b.t);
  if (m > 0 && n > 0 && b.count > 0) find_reflectors(call, b, m, n, m * n, a, tau);
}
COGRAD_CUDA_SLOT(batched_reflectors)

void batched_qr(MatrixBatch b, int64_t m, int64_t n, int64_t columns, void* a, void* r) {
  const SolverCall call("qr", b.t);
  if (b.count == 0) return;
  const int64_t rank = std::min(m, n), step = m * std::max(n, columns);
  const Scratch tau(bytes_of(b, b.count * rank));
  if (rank > 0) find_reflectors(call, b, m, n, step, a, tau.data());
  if (columns * n > 0) {
    const device::TriangleOfQrArgs args{a, r, m, step, columns, n, rank, b.count};
    launch("triangle_of_qr", linalg_kernel(b.t, "triangle_of_qr"), grid_over(columns * n * b.count),
           args);
  }
  if (columns == 0) return;
  if (rank == 0) return each_element("identity", b, a, m, columns);
  const int im = narrow(m), ic = narrow(columns), ik = narrow(rank);
  const int size = call.ask("orgqr_bufferSize", call.api.orgqr_size, im, ic, ik, a, im, tau.data());
  const Scratch work(bytes_of(b, size)), info(sizeof(int));
  for (int64_t i = 0; i < b.count; ++i)
    call.run("orgqr", call.api.orgqr, im, ic, ik, at(b, a, i, step), im, at(b, tau.data(), i, rank),
             work.data(), size, info.get<int>());
}
COGRAD_CUDA_SLOT(batched_qr)

void batched_eigh(MatrixBatch b, bool vectors, bool upper, int64_t n, void* a, void* values,
                  int* info) {
  const SolverCall call("eigh", b.t);
  clear_info(b, info);
  if (n == 0 || b.count == 0) return;
  const int in = narrow(n), job = vectors ? kVectors : kNoVectors;
  const int triangle = upper ? kUpper : kLower;
  const MatrixBatch reals = reals_of(b);
  const int size =
      call.ask("syevd_bufferSize", call.api.syevd_size, job, triangle, in, a, in, values);
  const Scratch work(bytes_of(b, size));
  for (int64_t i = 0; i < b.count; ++i)
    call.run("syevd", call.api.syevd, job, triangle, in, at(b, a, i, n * n), in,
             at(reals, values, i, n), work.data(), size, info + i);
  const device::MatricesArgs args{values, info, n, 1, b.count};
  launch("eigh", linalg_kernel(b.t, "check_values"), grid_of(b.count, 32), args);
}
COGRAD_CUDA_SLOT(batched_eigh)

// cuSOLVER takes no matrix with more columns than rows, so its conjugate transpose is decomposed:
// A^H = V S U^H.
void batched_svd(MatrixBatch b, bool full, int64_t m, int64_t n, void* a, void* s, void* u,
                 void* vh, int* info) {
  const SolverCall call("svd", b.t);
  clear_info(b, info);
  if (m == 0 || n == 0 || b.count == 0) return;
  if (m >= n) return tall_svd(call, b, full, m, n, a, s, u, vh, info);
  const Scratch turned(bytes_of(b, b.count * m * n));
  adjoint(b, a, n, m, turned.data());
  if (u == nullptr) return tall_svd(call, b, full, n, m, turned.data(), s, nullptr, nullptr, info);
  const int64_t rows = full ? n : m;  // of vh
  const Scratch v(bytes_of(b, b.count * n * rows)), uh(bytes_of(b, b.count * m * m));
  tall_svd(call, b, full, n, m, turned.data(), s, v.data(), uh.data(), info);
  adjoint(b, v.data(), rows, n, vh);
  adjoint(b, uh.data(), m, m, u);
}
COGRAD_CUDA_SLOT(batched_svd)

}  // namespace cograd::cuda
