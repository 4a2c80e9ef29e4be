// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/libraries/lapack_batch.h: decompositions of matrices by cuSOLVER, batches of
// small ones by one call, others one after the other.
#include <algorithm>
#include <optional>
#include <vector>

#include "cuda/driver/gpu.h"
#include "cuda/lib/cusolver.h"
#include "cuda/lib/linalg.h"
#include "cuda/slots/registry.h"

namespace cograd::cuda {

namespace {

// The most rows and columns that the batched functions by Jacobi's rotations take, or are best at.
constexpr int64_t kJacobi = 32;

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

// Finds the reflectors of a batch of small matrices; returns false if it is none.
bool find_small_reflectors(const char* slot, MatrixBatch b, int64_t m, int64_t n, int64_t step,
                           void* a, void* tau) {
  if (m == 0 || n == 0 || !many_small(b, std::max(m, n)) || !cublas().found()) return false;
  const BlasCall call(slot, b.t);
  const Pointers matrices(b, a, step), factors(b, tau, std::min(m, n));
  int info = 0;  // says whether arguments are valid, as the status does
  call.run("geqrfBatched", call.api.geqrf_batched, narrow(m), narrow(n), matrices.get(), narrow(m),
           factors.get(), &info, narrow(b.count));
  return true;
}

// Copies matrices that are `step` elements apart to ones of `rows` x `cols`: by "adjoint" their
// conjugate transposes, by "first_columns" what they begin with.
void copy(const char* name, MatrixBatch b, const void* from, int64_t rows, int64_t cols, void* to,
          int64_t step) {
  const device::CopyArgs args{from, to, rows, cols, b.count, step};
  launch(name, linalg_kernel(b.t, name), grid_over(rows * cols * b.count), args);
}
void adjoint(MatrixBatch b, const void* from, int64_t rows, int64_t cols, void* to) {
  copy("adjoint", b, from, rows, cols, to, rows * cols);
}

// Matrices that a batched function by Jacobi's rotations overwrites. Its number of sweeps is
// limited, so a few may not converge, which another algorithm decomposes.
class Kept {
 public:
  Kept(MatrixBatch b, const void* a, int64_t size)
      : b_(b), size_(size), copy_(bytes_of(b, b.count * size)) {
    copy_on_device(copy_.data(), a, static_cast<int64_t>(bytes_of(b, b.count * size)));
  }
  // Waits for the GPU, as who checks `info` does. Writes those that failed to `a` again and returns
  // their numbers.
  std::vector<int64_t> restore_failed(const int* info, void* a) const {
    std::vector<int> codes(static_cast<size_t>(b_.count));
    CUstream const s = here().stream();
    check(driver().copy_to_host(codes.data(), reinterpret_cast<CUdeviceptr>(info),
                                codes.size() * sizeof(int), s),
          "cuMemcpyDtoHAsync");
    check(driver().stream_synchronize(s), "cuStreamSynchronize");
    std::vector<int64_t> failed;
    for (int64_t i = 0; i < b_.count; ++i) {
      if (codes[static_cast<size_t>(i)] == 0) continue;
      copy_on_device(at(b_, a, i, size_), at(b_, copy_.data(), i, size_),
                     static_cast<int64_t>(bytes_of(b_, size_)));
      failed.push_back(i);
    }
    return failed;
  }

 private:
  const MatrixBatch b_;
  const int64_t size_;
  const Scratch copy_;
};

// Does what batched_svd does, for many matrices of up to 32 rows and columns.
void small_svd(const SolverCall& call, MatrixBatch b, bool full, int64_t m, int64_t n, void* a,
               void* s, void* u, void* vh, int* info) {
  const int im = narrow(m), in = narrow(n), count = narrow(b.count);
  const int vectors = u == nullptr ? kNoVectors : kVectors;
  const bool direct = u != nullptr && (full || m <= n);  // u has the shape that the library writes
  const Scratch left(direct ? 1 : bytes_of(b, b.count * m * m)), v(bytes_of(b, b.count * n * n));
  void* const to = direct ? u : left.data();
  int size = 0;
  call.query("gesvdjBatched_bufferSize", call.api.gesvdj_batched_size, vectors, im, in, a, im, s,
             to, im, v.data(), in, &size, call.of_singular, count);
  const Scratch work(bytes_of(b, size));
  call.run("gesvdjBatched", call.api.gesvdj_batched, vectors, im, in, a, im, s, to, im, v.data(),
           in, work.data(), size, info, call.of_singular, count);
  if (u == nullptr) return;
  if (!direct) copy("first_columns", b, to, m, n, u, m * m);
  copy("adjoint", b, v.data(), full ? n : std::min(m, n), n, vh, n * n);
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

// Does what batched_svd does, one matrix after the other. cuSOLVER takes none with more columns
// than rows, so its conjugate transpose is decomposed: A^H = V S U^H.
void each_svd(const SolverCall& call, MatrixBatch b, bool full, int64_t m, int64_t n, void* a,
              void* s, void* u, void* vh, int* info) {
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

// Decomposes symmetric matrices one after the other.
void each_eigh(const SolverCall& call, MatrixBatch b, int job, int triangle, int64_t n, void* a,
               void* values, int* info) {
  const int in = narrow(n);
  const int size =
      call.ask("syevd_bufferSize", call.api.syevd_size, job, triangle, in, a, in, values);
  const Scratch work(bytes_of(b, size));
  for (int64_t i = 0; i < b.count; ++i)
    call.run("syevd", call.api.syevd, job, triangle, in, at(b, a, i, n * n), in,
             at(reals_of(b), values, i, n), work.data(), size, info + i);
}

}  // namespace

void batched_reflectors(MatrixBatch b, int64_t m, int64_t n, void* a, void* tau) {
  if (find_small_reflectors("geqrf", b, m, n, m * n, a, tau)) return;
  const SolverCall call("geqrf", b.t);
  if (m > 0 && n > 0 && b.count > 0) find_reflectors(call, b, m, n, m * n, a, tau);
}
COGRAD_CUDA_SLOT(batched_reflectors)

void batched_qr(MatrixBatch b, int64_t m, int64_t n, int64_t columns, void* a, void* r) {
  constexpr int64_t kSmallQ = 64;
  const int64_t rank = std::min(m, n), step = m * std::max(n, columns);
  const Scratch tau(bytes_of(b, b.count * rank));
  const bool found = find_small_reflectors("qr", b, m, n, step, a, tau.data());
  std::optional<SolverCall> solver;
  if (!found || (columns > 0 && std::max(m, columns) > kSmallQ)) solver.emplace("qr", b.t);
  if (b.count == 0) return;
  if (rank > 0 && !found) find_reflectors(*solver, b, m, n, step, a, tau.data());
  if (columns * n > 0) {
    const device::TriangleOfQrArgs args{a, r, m, step, columns, n, rank, b.count};
    launch("triangle_of_qr", linalg_kernel(b.t, "triangle_of_qr"), grid_over(columns * n * b.count),
           args);
  }
  if (columns == 0) return;
  if (rank == 0) return each_element("identity", b, a, m, columns);
  if (!solver) {
    const device::QArgs args{a, tau.data(), m, columns, rank, step, b.count};
    return launch("q_of_reflectors", linalg_kernel(b.t, "q_of_reflectors"), grid_of(b.count, 32),
                  args);
  }
  const SolverCall& call = *solver;
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
  if (b.count > 1 && n <= kJacobi) {
    const Kept kept(b, a, n * n);
    const int count = narrow(b.count);
    int size = 0;
    call.query("syevjBatched_bufferSize", call.api.syevj_batched_size, job, triangle, in, a, in,
               values, &size, call.of_eigen, count);
    const Scratch work(bytes_of(b, size));
    call.run("syevjBatched", call.api.syevj_batched, job, triangle, in, a, in, values, work.data(),
             size, info, call.of_eigen, count);
    for (const int64_t i : kept.restore_failed(info, a))
      each_eigh(call, {b.t, 1}, job, triangle, n, at(b, a, i, n * n), at(reals_of(b), values, i, n),
                info + i);
  } else {
    each_eigh(call, b, job, triangle, n, a, values, info);
  }
  const device::MatricesArgs args{values, info, n, 1, b.count};
  launch("eigh", linalg_kernel(b.t, "check_values"), grid_of(b.count, 32), args);
}
COGRAD_CUDA_SLOT(batched_eigh)

void batched_svd(MatrixBatch b, bool full, int64_t m, int64_t n, void* a, void* s, void* u,
                 void* vh, int* info) {
  const SolverCall call("svd", b.t);
  clear_info(b, info);
  if (m == 0 || n == 0 || b.count == 0) return;
  if (b.count == 1 || std::max(m, n) > kJacobi)
    return each_svd(call, b, full, m, n, a, s, u, vh, info);
  const Kept kept(b, a, m * n);
  small_svd(call, b, full, m, n, a, s, u, vh, info);
  const int64_t k = std::min(m, n), columns = full ? m : k, rows = full ? n : k;
  for (const int64_t i : kept.restore_failed(info, a))
    each_svd(call, {b.t, 1}, full, m, n, at(b, a, i, m * n), at(reals_of(b), s, i, k),
             u == nullptr ? nullptr : at(b, u, i, m * columns),
             vh == nullptr ? nullptr : at(b, vh, i, rows * n), info + i);
}
COGRAD_CUDA_SLOT(batched_svd)

}  // namespace cograd::cuda
