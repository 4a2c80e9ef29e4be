// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/libraries/library.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "kernels/core/isa.h"
#include "kernels/libraries/blas.h"
#include "kernels/libraries/onednn.h"

namespace cograd::kernels {
namespace {

constexpr const char* kNames[] = {"openblas", "mkl", "onednn", "own"};
constexpr const char* kOperations[] = {"matmul", "convolution"};
constexpr const char* kTitles[] = {"OpenBLAS", "MKL", "oneDNN", "cograd"};

std::mutex mutex;
std::atomic<const Blas*> matmul_blas{nullptr};
std::atomic<Library> matmul{Library::own}, convolution{Library::own};

bool is_extra(Library library) { return library == Library::mkl || library == Library::onednn; }

}  // namespace

Library library_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Library>(i);
  detail::fail(ErrorKind::Value, "backends: library is '", name,
               "', expected 'openblas', 'mkl', 'onednn' or 'own'");
}

Operation operation_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kOperations); ++i)
    if (name == kOperations[i]) return static_cast<Operation>(i);
  detail::fail(ErrorKind::Value, "backends: operation is '", name,
               "', expected 'matmul' or 'convolution'");
}

const char* name_of(Library library) { return kNames[static_cast<size_t>(library)]; }

void load_library(Library library, const std::string& path) {
  COGRAD_CHECK_VALUE(is_extra(library), "backends: ", name_of(library),
                     " is part of cograd, expected 'mkl' or 'onednn'");
  const std::lock_guard lock(mutex);
  if (is_loaded(library)) return;
  library == Library::mkl ? mkl::load(path) : onednn::load(path);
}

bool is_loaded(Library library) noexcept {
  if (library == Library::mkl) return mkl::is_loaded();
  return library != Library::onednn || onednn::is_loaded();
}

std::string version_of(Library library) {
  COGRAD_CHECK(is_loaded(library), "backends: ", name_of(library), " is not loaded");
  if (library == Library::mkl) return mkl::version();
  return library == Library::onednn ? onednn::version() : openblas_version();
}

void choose_library(Operation operation, Library library) {
  const bool product = operation == Operation::matmul;
  COGRAD_CHECK_VALUE(product || library == Library::own || library == Library::onednn,
                     "backends: library of 'convolution' is '", name_of(library),
                     "', expected 'own' or 'onednn'");
  COGRAD_CHECK(is_loaded(library), "backends: ", name_of(library), " is not loaded");
  if (!product) return convolution.store(library, std::memory_order_release);
  const std::lock_guard lock(mutex);
  matmul_blas.store(library == Library::mkl      ? &mkl::table()
                    : library == Library::onednn ? &onednn::table()
                    : library == Library::own    ? nullptr
                                                 : &openblas(),
                    std::memory_order_release);
  matmul.store(library, std::memory_order_release);
}

Library chosen_library(Operation operation) noexcept {
  return (operation == Operation::matmul ? matmul : convolution).load(std::memory_order_acquire);
}

const char* cpu_capability() noexcept {
  return isa() == Isa::v4 ? "AVX512" : isa() == Isa::v3 ? "AVX2" : "DEFAULT";
}

const Blas& chosen_blas() noexcept {
  const Blas* chosen = matmul_blas.load(std::memory_order_acquire);
  return chosen == nullptr ? openblas() : *chosen;
}

bool chose_blas() noexcept { return matmul_blas.load(std::memory_order_acquire) != nullptr; }

SharedObject::SharedObject(Library library, const std::string& path)
    : library_(library), path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) return;
  const char* why = dlerror();
  detail::fail(ErrorKind::Runtime, "backends: cannot load ", kTitles[static_cast<size_t>(library)],
               " from '", path, "': ", why == nullptr ? "unknown error" : why);
}

void* SharedObject::try_find(const char* symbol) const noexcept { return dlsym(handle_, symbol); }

void* SharedObject::find(const char* symbol) const {
  void* p = try_find(symbol);
  COGRAD_CHECK(p != nullptr, "backends: '", path_, "' is not a version of ",
               kTitles[static_cast<size_t>(library_)],
               " that cograd supports: it lacks the symbol ", symbol);
  return p;
}

}  // namespace cograd::kernels
