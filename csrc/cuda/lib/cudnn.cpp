// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/lib/cudnn.h"

#include <array>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "tensor/thread_locals.h"

namespace cograd::cuda {

namespace {

struct Loaded {
  Loaded()
      : library({"cuDNN", "COGRAD_CUDNN", "libcudnn.so.9", "libcudnn.so.9", "cudnn",
                 "'cograd[cuda-full]' (CUDA 13) or 'cograd[cuda12-full]'"}) {
    library.get(api.version, "cudnnGetVersion");
    library.get(api.cuda_version, "cudnnGetCudartVersion");
    library.get(api.status_name, "cudnnGetErrorString");
    library.get(api.last_message, "cudnnGetLastErrorString");
    library.get(api.create, "cudnnCreate");
    library.get(api.set_stream, "cudnnSetStream");
    library.get(api.tensor_create, "cudnnCreateTensorDescriptor");
    library.get(api.tensor_set, "cudnnSetTensorNdDescriptor");
    library.get(api.tensor_destroy, "cudnnDestroyTensorDescriptor");
    library.get(api.filter_create, "cudnnCreateFilterDescriptor");
    library.get(api.filter_set, "cudnnSetFilterNdDescriptor");
    library.get(api.filter_destroy, "cudnnDestroyFilterDescriptor");
    library.get(api.convolution_create, "cudnnCreateConvolutionDescriptor");
    library.get(api.convolution_set, "cudnnSetConvolutionNdDescriptor");
    library.get(api.convolution_set_groups, "cudnnSetConvolutionGroupCount");
    library.get(api.convolution_set_math, "cudnnSetConvolutionMathType");
    library.get(api.convolution_destroy, "cudnnDestroyConvolutionDescriptor");
    get(api.forward, "Forward", "cudnnConvolutionForward");
    get(api.input_grad, "BackwardData", "cudnnConvolutionBackwardData");
    get(api.weight_grad, "BackwardFilter", "cudnnConvolutionBackwardFilter");
    if (library.found()) check_version();
  }
  void get(CudnnPass& pass, const std::string& name, const char* run) {
    library.get(pass.choose, ("cudnnGetConvolution" + name + "Algorithm_v7").c_str());
    library.get(pass.workspace, ("cudnnGetConvolution" + name + "WorkspaceSize").c_str());
    library.get(pass.run, run);
    pass.name = run;
  }
  void check_version() {
    const size_t v = api.version();  // 92801; before 9, 8907
    version = v < 10000 ? std::to_string(v / 1000) + "." + std::to_string(v / 100 % 10)
                        : std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100);
    version += "." + std::to_string(v % 100);
    const int made_for = static_cast<int>(api.cuda_version() / 1000);
    int driver_version = 0;
    check(driver().driver_version(&driver_version), "cuDriverGetVersion");
    if (v < 90000)
      library.refuse(library.path() + " is version " + version + ", but 9 is needed");
    else if (made_for > driver_version / 1000)
      library.refuse(library.path() + " is made for CUDA " + std::to_string(made_for) +
                     ", but the driver is for CUDA " + std::to_string(driver_version / 1000));
    if (!library.found()) version.clear();
  }
  Library library;
  CudnnApi api{};
  std::string version;
};
const Loaded& loaded() {
  static const auto* const l = new Loaded;
  return *l;
}

// The handles of threads that have ended, for others. They exist until the process ends.
struct Spare {
  std::mutex mutex;
  std::array<std::vector<CudnnHandle>, kMaxGpus> handles;
};
Spare& spare() {
  static auto* const s = new Spare;
  return *s;
}

struct OfThread {
  OfThread() = default;
  OfThread(const OfThread&) = delete;
  OfThread& operator=(const OfThread&) = delete;
  ~OfThread() {
    if (forked()) return;  // another thread of the parent may have held the lock
    const std::lock_guard lock(spare().mutex);
    for (size_t i = 0; i < kMaxGpus; ++i)
      if (handles[i] != nullptr) spare().handles[i].push_back(handles[i]);
  }
  std::array<CudnnHandle, kMaxGpus> handles{};
};
constinit thread_local ThreadValue<OfThread> mine;
const OnEachThread each_thread(nullptr, []() noexcept { mine.clear(); });

std::array<std::atomic<bool>, kMaxGpus> unsupported;  // GPUs

CudnnHandle take_handle(Gpu& gpu) {
  const auto i = static_cast<size_t>(gpu.index);
  {
    const std::lock_guard lock(spare().mutex);
    std::vector<CudnnHandle>& list = spare().handles[i];
    if (!list.empty()) {
      CudnnHandle const h = list.back();
      list.pop_back();
      return h;
    }
  }
  const DuringCapture allowed;  // the library allocates
  CudnnHandle h = nullptr;
  int status = cudnn_api().create(&h);
  if (status != 0 && !cudnn_unsupported(status)) {  // the cache may hold the memory that it needs
    gpu.memory.release_cached();
    status = cudnn_api().create(&h);
  }
  if (status == 0) return h;
  if (!cudnn_unsupported(status)) fail_cudnn(status, "cudnnCreate", "");
  unsupported[i] = true;
  return nullptr;
}

}  // namespace

const CudnnApi& cudnn_api() { return loaded().api; }
const Library& cudnn() { return loaded().library; }
std::string cudnn_version() { return loaded().version; }

CudnnHandle cudnn_handle() {
  Gpu& gpu = here();
  const auto i = static_cast<size_t>(gpu.index);
  if (unsupported[i]) return nullptr;
  CudnnHandle& h = mine.get().handles[i];
  if (h == nullptr) h = take_handle(gpu);
  if (h == nullptr) return nullptr;
  const int status = cudnn_api().set_stream(h, gpu.stream());
  if (status != 0) fail_cudnn(status, "cudnnSetStream", "");
  return h;
}

void fail_cudnn(int status, const char* function, const std::string& what) {
  char more[512] = "";
  cudnn_api().last_message(more, sizeof more);
  more[sizeof more - 1] = '\0';
  detail::fail(status == kCudnnOutOfMemory ? ErrorKind::Memory : ErrorKind::Runtime, "convolution(",
               what, "): cuDNN's ", function, " failed with ", cudnn_api().status_name(status),
               " (", status, ")", more[0] == '\0' ? "" : ": ", more,
               ". backends.cudnn.enabled = False computes without cuDNN");
}

}  // namespace cograd::cuda
