// SPDX-License-Identifier: BSD-3-Clause
// Provides OpenBLAS, which is linked, and MKL, which is loaded at run time.
#include "kernels/libraries/blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "kernels/libraries/library.h"

// scipy-openblas32 builds OpenBLAS with 32-bit integers and prefixed names.
extern "C" {
cograd::kernels::Blas::Gemm<float, float> scipy_cblas_sgemm;
cograd::kernels::Blas::Gemm<double, double> scipy_cblas_dgemm;
cograd::kernels::Blas::Gemm<void, const void*> scipy_cblas_cgemm, scipy_cblas_zgemm;
cograd::kernels::Blas::Gemv<float, float> scipy_cblas_sgemv;
cograd::kernels::Blas::Gemv<double, double> scipy_cblas_dgemv;
cograd::kernels::Blas::Gemv<void, const void*> scipy_cblas_cgemv, scipy_cblas_zgemv;
char* scipy_openblas_get_config();
void scipy_openblas_set_num_threads(int n);
}

namespace cograd::kernels {

namespace {

// OpenBLAS computes on the calling thread alone. Its own threads spin for 20 ms after each call; in
// the pool (openblas_set_threads_callback_function) its parts wait for one another, so all must run
// at once, which the pool does not promise. And its results depend on the number of threads.
[[maybe_unused]] const bool alone = (scipy_openblas_set_num_threads(1), true);

}  // namespace

const Blas& openblas() noexcept {
  static constexpr Blas table{scipy_cblas_sgemm, scipy_cblas_dgemm, scipy_cblas_cgemm,
                              scipy_cblas_zgemm, scipy_cblas_sgemv, scipy_cblas_dgemv,
                              scipy_cblas_cgemv, scipy_cblas_zgemv};
  return table;
}

std::string openblas_version() { return scipy_openblas_get_config(); }

namespace mkl {
namespace {

constexpr int kSequential = 1, kInt32 = 0;

struct Mkl {
  std::unique_ptr<SharedObject> object;
  Blas table;
  std::string version;
};
std::atomic<const Mkl*> loaded{nullptr};

// Checks that MKL's parts exist, because MKL aborts the process when it misses one.
void check_parts(const SharedObject& object) {
  char* (*version)(char*, int) = nullptr;
  object.get(version, "mkl_get_version_string");
  Dl_info info{};
  COGRAD_CHECK(dladdr(reinterpret_cast<void*>(version), &info) != 0 && info.dli_fname != nullptr,
               "backends: cannot determine where MKL was loaded from");
  const std::string file = info.dli_fname;
  const size_t slash = file.rfind('/'), dot = file.find(".so", slash + 1);
  const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
  const std::string end = dot == std::string::npos ? ".so" : file.substr(dot);
  if (folder.empty()) return;
  for (const char* part : {"mkl_core", "mkl_intel_lp64", "mkl_sequential", "mkl_def", "mkl_avx2"}) {
    const std::string name = folder + "lib" + part + end;
    COGRAD_CHECK(access(name.c_str(), R_OK) == 0, "backends: MKL in '", folder,
                 "' is incomplete: it has no lib", part, end);
  }
}

// Checks a product with a known result.
void try_out(const Blas& table) {
  const float a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8};
  float c[4] = {};
  table.sgemm(kRowMajor, kNoTrans, kNoTrans, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
  COGRAD_CHECK(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50,
               "backends: MKL computes a wrong product; use another version of MKL");
}

}  // namespace

void load(const std::string& path) {
  auto fresh = std::make_unique<Mkl>();
  fresh->object = std::make_unique<SharedObject>(Library::mkl, path);
  const SharedObject& o = *fresh->object;
  check_parts(o);
  int (*set_threading)(int) = nullptr;
  int (*set_interface)(int) = nullptr;
  void (*version)(char*, int) = nullptr;
  o.get(set_threading, "MKL_Set_Threading_Layer");
  o.get(set_interface, "MKL_Set_Interface_Layer");
  o.get(version, "mkl_get_version_string");
  Blas& t = fresh->table;
  o.get(t.sgemm, "cblas_sgemm");
  o.get(t.dgemm, "cblas_dgemm");
  o.get(t.cgemm, "cblas_cgemm");
  o.get(t.zgemm, "cblas_zgemm");
  o.get(t.sgemv, "cblas_sgemv");
  o.get(t.dgemv, "cblas_dgemv");
  o.get(t.cgemv, "cblas_cgemv");
  o.get(t.zgemv, "cblas_zgemv");
  COGRAD_CHECK(set_interface(kInt32) == kInt32,
               "backends: MKL already runs in this process with 64-bit integers, expected 32-bit");
  COGRAD_CHECK(set_threading(kSequential) == kSequential,
               "backends: MKL already runs in this process with its own threads; choose it "
               "before the other package uses it");
  try_out(t);
  char text[200] = {};
  version(text, sizeof text - 1);
  fresh->version = text;
  fresh->version.erase(fresh->version.find_last_not_of(' ') + 1);
  loaded.store(fresh.release(), std::memory_order_release);
}

bool is_loaded() noexcept { return loaded.load(std::memory_order_acquire) != nullptr; }
std::string version() { return loaded.load(std::memory_order_acquire)->version; }
const Blas& table() noexcept { return loaded.load(std::memory_order_acquire)->table; }

}  // namespace mkl
}  // namespace cograd::kernels
