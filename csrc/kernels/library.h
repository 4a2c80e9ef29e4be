// SPDX-License-Identifier: BSD-3-Clause
// The libraries that may compute products and convolutions; those that are no part of the build are
// loaded when somebody asks for them and stay loaded.
#pragma once
#include <string>
#include <string_view>

#include "cograd/error.h"

namespace cograd::kernels {

enum class Library : uint8_t { openblas, mkl, onednn, own };
enum class Operation : uint8_t { matmul, convolution };

// By name; raises Value for any other.
COGRAD_API Library library_of(std::string_view name);
COGRAD_API Operation operation_of(std::string_view name);
COGRAD_API const char* name_of(Library library);

// Loads mkl or onednn from a file, once; raises Runtime if it is missing, too old or broken.
COGRAD_API void load_library(Library library, const std::string& path);
COGRAD_API bool is_loaded(Library library) noexcept;
// What the library says of itself; it is loaded.
COGRAD_API std::string version_of(Library library);

// A library that is loaded and can do the operation; raises Value or Runtime otherwise.
COGRAD_API void choose_library(Operation operation, Library library);
COGRAD_API Library chosen_library(Operation operation) noexcept;

// The vector instructions that the loops use: DEFAULT, AVX2 or AVX512.
COGRAD_API const char* cpu_capability() noexcept;

// A shared object and its functions.
class SharedObject {
 public:
  SharedObject(Library library, const std::string& path);
  template <class F>
  void get(F*& f, const char* symbol) const {
    f = reinterpret_cast<F*>(find(symbol));
  }
  // Null if there is none.
  template <class F>
  void try_get(F*& f, const char* symbol) const {
    f = reinterpret_cast<F*>(try_find(symbol));
  }

 private:
  void* find(const char* symbol) const;
  void* try_find(const char* symbol) const noexcept;
  Library library_;
  std::string path_;
  void* handle_;
};

}  // namespace cograd::kernels
