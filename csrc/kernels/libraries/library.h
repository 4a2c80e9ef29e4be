// SPDX-License-Identifier: BSD-3-Clause
// The libraries that may compute products and convolutions. Those that are not part of the build
// are loaded on request and stay loaded.
#pragma once
#include <string>
#include <string_view>

#include "cograd/error.h"

namespace cograd::kernels {

enum class Library : uint8_t { openblas, mkl, onednn, own };
enum class Operation : uint8_t { matmul, convolution };

// Find a library or operation by name; raise Value for any other name.
COGRAD_API Library library_of(std::string_view name);
COGRAD_API Operation operation_of(std::string_view name);
COGRAD_API const char* name_of(Library library);

// Loads mkl or onednn from a file, once; raises Runtime if it is missing, too old or broken.
COGRAD_API void load_library(Library library, const std::string& path);
COGRAD_API bool is_loaded(Library library) noexcept;
// Returns the version that the library reports; it must be loaded.
COGRAD_API std::string version_of(Library library);

// Chooses a library for an operation; raises Value or Runtime if it is not loaded or cannot do it.
COGRAD_API void choose_library(Operation operation, Library library);
COGRAD_API Library chosen_library(Operation operation) noexcept;

// Returns the vector instructions that the loops use: DEFAULT, AVX2 or AVX512.
COGRAD_API const char* cpu_capability() noexcept;

// A shared object and its functions.
class SharedObject {
 public:
  SharedObject(Library library, const std::string& path);
  template <class F>
  void get(F*& f, const char* symbol) const {
    f = reinterpret_cast<F*>(find(symbol));
  }
  // Sets `f` to null if there is no such symbol.
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
