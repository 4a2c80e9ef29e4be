// SPDX-License-Identifier: BSD-3-Clause
// Kernels of which a user wrote the text: checks of a launch and its arguments.
#pragma once
#include <array>
#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/kernel_text.h"
#include "cograd/c_api.h"
#include "tensor/backend.h"
#include "tensor/tensor.h"

namespace cograd::api {

// Sizes of a launch as the user gives them.
struct LaunchSizes {
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  int64_t shared_bytes = 0;
  // The number of threads along x, in place of the grid; for 0 the arguments are only checked.
  std::optional<int64_t> threads = {};
};

// A kernel is compiled when it is first launched on a GPU. Several threads may launch it.
class COGRAD_API CudaKernel {
 public:
  // `strided` names the parameters whose tensors need not be contiguous. Raises ValueError for a
  // text without the kernel, and for names that are no parameters.
  CudaKernel(std::string text, const std::string& expression, std::vector<std::string> options,
             const std::vector<std::string>& strided);
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  const KernelSignature& signature() const noexcept { return signature_; }
  // Starts the kernel on the current stream of the tensors' GPU, else of the current GPU. Bumps the
  // versions of the tensors that it may write.
  void launch(const LaunchSizes& sizes, std::span<const cograd_value> args);
  // Compiles for the current GPU.
  void compile();

 private:
  struct Tensors;
  void* function();
  std::string who(size_t i) const;
  void* pointer_of(size_t i, const cograd_value& v, Tensors& tensors) const;
  void check_sizes(const LaunchSizes& s) const;
  LaunchShape shape_of(LaunchSizes s) const;

  KernelText text_;
  KernelSignature signature_;
  std::string label_;  // "kernel 'scale'", for messages
  std::vector<bool> strided_;
  std::array<std::atomic<void*>, 64> functions_{};  // by GPU
};

// Returns the runtime. Raises RuntimeError, which names `who` unless it is empty, if there is no
// GPU.
COGRAD_API CudaRuntime& cuda_runtime(std::string_view who);

}  // namespace cograd::api
