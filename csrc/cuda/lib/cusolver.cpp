// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/lib/cusolver.h"

#include <array>
#include <string>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"

namespace cograd::cuda {

namespace {

constexpr Status kSolverStatuses[] = {
    {1, "CUSOLVER_STATUS_NOT_INITIALIZED", "the library could not start"},
    {2, "CUSOLVER_STATUS_ALLOC_FAILED", "there is not enough memory on the GPU"},
    {3, "CUSOLVER_STATUS_INVALID_VALUE", "an argument is invalid"},
    {4, "CUSOLVER_STATUS_ARCH_MISMATCH", "the library does not support this GPU"},
    {5, "CUSOLVER_STATUS_MAPPING_ERROR", "memory could not be read"},
    {6, "CUSOLVER_STATUS_EXECUTION_FAILED", "a kernel failed"},
    {7, "CUSOLVER_STATUS_INTERNAL_ERROR", "the library or the driver failed"},
    {8, "CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "it does not support such matrices"},
    {9, "CUSOLVER_STATUS_NOT_SUPPORTED", "it does not support these arguments"},
};
constexpr Status kBlasStatuses[] = {
    {1, "CUBLAS_STATUS_NOT_INITIALIZED", "the library could not start"},
    {3, "CUBLAS_STATUS_ALLOC_FAILED", "there is not enough memory on the GPU"},
    {7, "CUBLAS_STATUS_INVALID_VALUE", "an argument is invalid"},
    {8, "CUBLAS_STATUS_ARCH_MISMATCH", "the library does not support this GPU"},
    {11, "CUBLAS_STATUS_MAPPING_ERROR", "memory could not be read"},
    {13, "CUBLAS_STATUS_EXECUTION_FAILED", "a kernel failed"},
    {14, "CUBLAS_STATUS_INTERNAL_ERROR", "the library or the driver failed"},
    {15, "CUBLAS_STATUS_NOT_SUPPORTED", "it does not support these arguments"},
};

// Numbers the dtypes of matrices; the letters are those of LAPACK's names.
constexpr int kTypes = 4;
constexpr char kLetters[kTypes] = {'S', 'D', 'C', 'Z'};
size_t number_of(DType t) noexcept {
  return t == DType::Float32 ? 0 : t == DType::Float64 ? 1 : t == DType::Complex64 ? 2 : 3;
}

}  // namespace

// A library whose functions take a handle. Handles exist until the process ends.
struct HandledLibrary {
  HandledLibrary(const LibraryNames& names, const char* create_name, const char* stream_name,
                 int no_memory_status, std::span<const Status> known)
      : title(names.title), library(names), no_memory(no_memory_status), statuses(known) {
    library.get(create, create_name);
    library.get(set_stream, stream_name);
  }
  LibraryHandle& handle() { return handles.at(static_cast<size_t>(here().index)); }

  const char* title;
  Library library;
  int no_memory;
  std::span<const Status> statuses;
  int (*create)(LibraryHandle*) = nullptr;
  int (*set_stream)(LibraryHandle, CUstream) = nullptr;
  std::mutex mutex;
  std::array<LibraryHandle, kMaxGpus> handles{};
};

namespace {

struct Solver : HandledLibrary {
  Solver()
      : HandledLibrary({"cuSOLVER", "COGRAD_CUSOLVER", "libcusolver.so.12", "libcusolver.so.11",
                        "cusolver", "'cograd[cuda-full]' (CUDA 13) or 'cograd[cuda12-full]'"},
                       "cusolverDnCreate", "cusolverDnSetStream", 2, kSolverStatuses) {
    library.get(create_eigen, "cusolverDnCreateSyevjInfo");
    library.get(create_singular, "cusolverDnCreateGesvdjInfo");
    for (size_t i = 0; i < kTypes; ++i) {
      SolverApi& a = types[i];
      const auto get = [&](auto& f, const char* name) {
        library.get(f, (std::string("cusolverDn") + kLetters[i] + name).c_str());
      };
      get(a.potrf_size, "potrf_bufferSize");
      get(a.potrf, "potrf");
      get(a.potrf_batched, "potrfBatched");
      get(a.getrf_size, "getrf_bufferSize");
      get(a.getrf, "getrf");
      get(a.getrs, "getrs");
      const bool real = i < 2;
      get(a.geqrf_size, "geqrf_bufferSize");
      get(a.geqrf, "geqrf");
      get(a.orgqr_size, real ? "orgqr_bufferSize" : "ungqr_bufferSize");
      get(a.orgqr, real ? "orgqr" : "ungqr");
      get(a.syevj_batched_size, real ? "syevjBatched_bufferSize" : "heevjBatched_bufferSize");
      get(a.syevj_batched, real ? "syevjBatched" : "heevjBatched");
      get(a.gesvdj_batched_size, "gesvdjBatched_bufferSize");
      get(a.gesvdj_batched, "gesvdjBatched");
      get(a.syevd_size, real ? "syevd_bufferSize" : "heevd_bufferSize");
      get(a.syevd, real ? "syevd" : "heevd");
      get(a.gesvd_size, "gesvd_bufferSize");
      get(a.gesvd, "gesvd");
    }
  }
  std::array<SolverApi, kTypes> types{};
  int (*create_eigen)(SolverOptions*) = nullptr;
  int (*create_singular)(SolverOptions*) = nullptr;
  SolverOptions of_eigen = nullptr, of_singular = nullptr;
};
struct Blas : HandledLibrary {
  Blas()
      : HandledLibrary({"cuBLAS", "COGRAD_CUBLAS", "libcublas.so.13", "libcublas.so.12", "cublas",
                        "'cograd[cuda]' (CUDA 13) or 'cograd[cuda12]'"},
                       "cublasCreate_v2", "cublasSetStream_v2", 3, kBlasStatuses) {
    for (size_t i = 0; i < kTypes; ++i) {
      const std::string name = std::string("cublas") + kLetters[i];
      library.get(types[i].trsm, (name + "trsm_v2").c_str());
      library.get(types[i].trsm_batched, (name + "trsmBatched").c_str());
      library.get(types[i].geqrf_batched, (name + "geqrfBatched").c_str());
      library.get(types[i].getrf_batched, (name + "getrfBatched").c_str());
      library.get(types[i].getrs_batched, (name + "getrsBatched").c_str());
    }
  }
  std::array<BlasApi, kTypes> types{};
};
Solver& solver() {
  static auto* const s = new Solver;  // the driver may end before static objects
  return *s;
}
Blas& blas() {
  static auto* const b = new Blas;
  return *b;
}

}  // namespace

LibraryCall::LibraryCall(const char* slot, HandledLibrary& l)
    : slot_(slot), library_(l), lock_(l.mutex, std::defer_lock) {
  if (!l.library.found())
    throw NoLibrary(std::string(l.title) + " is missing (" + l.library.why() + ")");
  Gpu& gpu = here();
  lock_.lock();
  LibraryHandle& handle = l.handle();
  if (handle == nullptr) {
    const DuringCapture allowed;  // the library allocates
    int status = l.create(&handle);
    if (status != 0) {  // the cache may hold the memory that the library needs
      gpu.memory.release_cached();
      status = l.create(&handle);
    }
    if (status != 0) handle = nullptr;
    check("create", status);
  }
  handle_ = handle;
  check("set_stream", l.set_stream(handle, gpu.stream()));
}

void LibraryCall::check(const char* function, int status) const {
  if (status == 0) [[likely]]
    return;
  detail::fail(status == library_.no_memory ? ErrorKind::Memory : ErrorKind::Runtime, slot_,
               "(): ", library_.title, "'s ", function, " failed with ",
               status_text(status, library_.statuses));
}

SolverCall::SolverCall(const char* slot, DType t)
    : LibraryCall(slot, solver()), api(solver().types[number_of(t)]) {
  refuse_captured(here().stream(), slot, "cuSOLVER waits for the GPU");
  Solver& s = solver();  // this call has its mutex
  const auto made = [&](const char* name, int (*create)(SolverOptions*), SolverOptions& options) {
    if (options == nullptr) check(name, create(&options));
    return options;
  };
  of_eigen = made("CreateSyevjInfo", s.create_eigen, s.of_eigen);
  of_singular = made("CreateGesvdjInfo", s.create_singular, s.of_singular);
}
BlasCall::BlasCall(const char* slot, DType t)
    : LibraryCall(slot, blas()), api(blas().types[number_of(t)]) {}

const Library& cusolver() { return solver().library; }
const Library& cublas() { return blas().library; }

}  // namespace cograd::cuda
