// SPDX-License-Identifier: BSD-3-Clause
// Finds NVIDIA's libraries that are installed apart, and their functions.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace cograd::cuda {

// A library by its file names for CUDA 13 and for CUDA 12, which has a folder for each wheel.
struct LibraryNames {
  const char* title;     // stands in messages
  const char* variable;  // of the environment: the path to use instead of all others
  const char* file13;
  const char* file12;
  const char* folder12;
  const char* extra;  // of pip install
};

// Looks in the process, where torch's or CuPy's may be, then in NVIDIA's wheels beside cograd, then
// where the loader looks. A driver of CUDA 12 cannot run the libraries of CUDA 13.
class Library {
 public:
  explicit Library(const LibraryNames& names);
  // Finds a function; without it the library counts as missing.
  template <class F>
  void get(F& f, const char* symbol) {
    f = reinterpret_cast<F>(find(symbol));
  }
  // Makes the library count as missing, for this reason.
  void refuse(std::string why) {
    why_ = std::move(why);
    path_.clear();
  }
  bool found() const noexcept { return why_.empty(); }
  const std::string& path() const noexcept { return path_; }  // empty if there is none
  const std::string& why() const noexcept { return why_; }    // why there is none

 private:
  void* find(const char* symbol);

  const char* title_;
  void* handle_ = nullptr;
  std::string path_, why_;
};

// The name and the meaning of a status, as "CUFFT_INVALID_SIZE (8): ...".
struct Status {
  int code;
  const char* name;
  const char* meaning;
};
std::string status_text(int code, std::span<const Status> known);

}  // namespace cograd::cuda
