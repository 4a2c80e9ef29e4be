// SPDX-License-Identifier: BSD-3-Clause
// The object through which cograd uses CUDA devices, and the library's entry point.
#include <algorithm>
#include <exception>

#include "cuda/driver/capture.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/graph.h"
#include "cuda/driver/late.h"
#include "cuda/driver/launch.h"
#include "cuda/driver/timing.h"
#include "cuda/jit/compile_thread.h"
#include "cuda/jit/nvrtc.h"
#include "cuda/jit/user_kernel.h"
#include "cuda/lib/convolution.h"
#include "cuda/lib/cublaslt.h"
#include "cuda/lib/cudnn.h"
#include "cuda/lib/cufft.h"
#include "cuda/lib/cusolver.h"
#include "cuda/lib/nccl.h"
#include "cuda/memory/pinned.h"
#include "cuda/slots/registry.h"

namespace cograd::cuda {

namespace {

CUdeviceptr address(const void* p) noexcept { return reinterpret_cast<CUdeviceptr>(p); }
CUstream stream_of(uint64_t handle) noexcept {
  return reinterpret_cast<CUstream>(handle);  // NOLINT(performance-no-int-to-ptr)
}
CUevent event_of(uint64_t handle) noexcept {
  return reinterpret_cast<CUevent>(handle);  // NOLINT(performance-no-int-to-ptr)
}

void free_block(void* context) noexcept {
  auto* b = static_cast<Block*>(context);
  if (forked()) return;
  try {
    Gpu& g = gpu(b->owner->gpu());
    g.activate();
    b->owner->free(b, g.used_streams());
  } catch (const std::exception&) {  // the context is lost: its memory is gone
  }
}

void free_pinned(void* p) noexcept {
  if (!forked()) pinned_free(p);
}

CudaRuntime::Library compiler() {
  try {
    const int v = nvrtc_version();
    return {
        "NVRTC", nvrtc_path(), std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10), {}};
  } catch (const std::exception& e) {
    return {"NVRTC", {}, {}, e.what()};
  }
}
CudaRuntime::Library described(const char* name, const Library& l, std::string version = {}) {
  return {name, l.path(), std::move(version), l.why()};
}

class Runtime final : public CudaRuntime {
 public:
  int count() override { return gpu_count(); }
  int current() noexcept override { return current_gpu(); }
  Storage* make_storage(Device d, int64_t nbytes) override {
    Gpu& g = active(d.index);
    Block* b = g.memory.allocate(static_cast<size_t>(nbytes), g.stream());
    void* at = reinterpret_cast<void*>(b->at);  // NOLINT(performance-no-int-to-ptr)
    return Storage::wrap(at, nbytes, free_block, b, false);
  }
  void copy_to_host(Device d, const void* from, void* to, size_t bytes) override {
    Gpu& g = active(d.index);
    before_wait(g.stream(), "a read of a tensor's values");
    {
      const Timed timed("Memcpy DtoH", &g);
      check(driver().copy_to_host(to, address(from), bytes, g.stream()), "cuMemcpyDtoHAsync");
    }
    wait(g.stream());
    raise_late();
  }
  void copy_from_host(Device d, const void* from, void* to, size_t bytes) override {
    Gpu& g = active(d.index);
    before_wait(g.stream(), "a copy from memory that is not pinned");
    {
      const Timed timed("Memcpy HtoD", &g);
      check(driver().copy_to_device(address(to), from, bytes, g.stream()), "cuMemcpyHtoDAsync");
    }
    wait(g.stream());  // the caller may free or change `from` at once
  }
  bool start_copy_from_host(Device d, const void* from, void* to, size_t bytes) override {
    if (!cuda::is_pinned(from)) return false;
    Gpu& g = active(d.index);
    {
      const Timed timed("Memcpy HtoD", &g);
      check(driver().copy_to_device(address(to), from, bytes, g.stream()), "cuMemcpyHtoDAsync");
    }
    if (!keep_for_graph(g.stream(), from)) pinned_used_by(from, g.stream());
    return true;
  }
  bool start_copy_to_host(Device d, const void* from, void* to, size_t bytes) override {
    if (!cuda::is_pinned(to)) return false;
    Gpu& g = active(d.index);
    check(driver().copy_to_host(to, address(from), bytes, g.stream()), "cuMemcpyDtoHAsync");
    if (!keep_for_graph(g.stream(), to)) pinned_used_by(to, g.stream());
    return true;
  }
  void copy_between(Device from, const void* p, Device to, void* q, size_t bytes) override {
    Gpu& source = active(from.index);
    before_wait(source.stream(), "a copy between GPUs");
    wait(source.stream());
    Gpu& target = active(to.index);
    before_wait(target.stream(), "a copy between GPUs");
    {
      const Timed timed("Memcpy DtoD", &target);
      check(driver().copy_on_device(address(q), address(p), bytes, target.stream()),
            "cuMemcpyDtoDAsync");
    }
    wait(target.stream());
  }
  uint8_t stream_index(Device d) noexcept override {
    try {
      return gpu(d.index < 0 ? current_gpu() : d.index).stream_index();
    } catch (const std::exception&) {
      return 0;
    }
  }
  void switch_stream(Device d, uint8_t index) override { active(d.index).switch_stream(index); }
  void check_operand(const Storage& s) override {
    constexpr uint8_t kPart = 3;
    const Storage* whole = s.kind == kPart ? static_cast<const Storage*>(s.context) : &s;
    if (whole->deleter != free_block) return;
    const auto* b = static_cast<const Block*>(whole->context);
    const uint64_t capture = b->owner->open_capture_of(b);
    if (capture == 0 || capture_of(active(b->owner->gpu()).stream()) == capture) return;
    const char* const op = running_op();
    detail::fail(ErrorKind::Runtime, op == nullptr ? "a kernel" : op, op == nullptr ? "" : "()",
                 ": a tensor was computed in the capture of a CUDA graph, and the current stream "
                 "is not part of that capture, so its values do not exist yet. Let the stream wait "
                 "for a captured one (Stream.wait_stream), or go on after the capture");
  }
  void* kernel(const char* name) noexcept override { return find_slot(name); }
  uint64_t launches() noexcept override { return cuda::launches(); }

  void set_current(int device) override { set_current_gpu(device); }
  GpuProperties properties(int device) override { return gpu(device).properties; }
  void synchronize(int device) override {
    refuse_captured(active(device).stream(), "cuda.synchronize()", kWaits);
    // The driver would refuse, and spoil that capture.
    COGRAD_CHECK(!capture_open(),
                 "cuda.synchronize(): a CUDA graph is being captured on another stream, so the GPU "
                 "cannot be waited for. Wait for a stream, or call it after the capture");
    check(driver().ctx_synchronize(), "cuCtxSynchronize");
    raise_late();
  }

  uint64_t new_stream(int device, int priority) override {
    return reinterpret_cast<uint64_t>(active(device).pool_stream(priority));
  }
  uint64_t current_stream(int device) override {
    return reinterpret_cast<uint64_t>(gpu(device).stream());
  }
  void set_stream(int device, uint64_t s) override { gpu(device).set_stream(stream_of(s)); }
  void synchronize_stream(int device, uint64_t s) override {
    active(device);
    before_wait(stream_of(s), "Stream.synchronize()");
    wait(stream_of(s));
    raise_late();
  }
  bool stream_done(int device, uint64_t s) override {
    active(device);
    refuse_captured(stream_of(s), "Stream.query()", "it asks for progress");
    return done(driver().stream_query(stream_of(s)), "cuStreamQuery");
  }
  uint64_t new_event(int device, bool timed) override {
    constexpr unsigned kWithoutTiming = 2;
    active(device);
    CUevent e = nullptr;
    check(driver().event_create(&e, timed ? 0 : kWithoutTiming), "cuEventCreate");
    return reinterpret_cast<uint64_t>(e);
  }
  void free_event(uint64_t e) noexcept override {
    if (forked()) return;
    forget_event(event_of(e));
    driver().event_destroy(event_of(e));
  }
  void record_event(int device, uint64_t e, uint64_t s) override {
    active(device);
    check(driver().event_record(event_of(e), stream_of(s)), "cuEventRecord");
    note_event(event_of(e), stream_of(s));
  }
  void wait_event(int device, uint64_t s, uint64_t e) override {
    active(device);
    check_event_wait(stream_of(s), event_of(e));
    check(driver().stream_wait_event(stream_of(s), event_of(e), 0), "cuStreamWaitEvent");
  }
  void synchronize_event(uint64_t e) override {
    refuse_captured(active(-1).stream(), "Event.synchronize()", kWaits);
    const DuringCapture other;
    check(driver().event_synchronize(event_of(e)), "cuEventSynchronize");
  }
  bool event_done(uint64_t e) override {
    refuse_captured(active(-1).stream(), "Event.query()", "it asks for progress");
    const DuringCapture other;
    return done(driver().event_query(event_of(e)), "cuEventQuery");
  }
  float milliseconds(uint64_t first, uint64_t last) override {
    float ms = 0;
    check(driver().event_elapsed(&ms, event_of(first), event_of(last)), "cuEventElapsedTime");
    return ms;
  }

  GpuMemory memory(int device) override { return gpu(device).memory.statistics(); }
  void reset_peaks(int device) override { gpu(device).memory.reset_peaks(); }
  void release_cached(int device) override {
    active(device).memory.release_cached();
    pinned_release_cached();
  }
  std::pair<int64_t, int64_t> free_and_total(int device) override {
    active(device);
    size_t free = 0, total = 0;
    check(driver().mem_info(&free, &total), "cuMemGetInfo");
    return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
  }

  void* user_kernel(const KernelText& k) override { return user_function(k); }
  void launch_user(const std::string& name, void* kernel, const LaunchShape& shape,
                   void** parameters) override {
    auto* const f = static_cast<CUfunction>(kernel);
    const GpuProperties& p = here().properties;
    COGRAD_CHECK_VALUE(shape.shared_bytes <= static_cast<unsigned>(p.shared_per_block_optin),
                       "kernel '", name, "': shared_bytes is ", shape.shared_bytes,
                       ", but a block of ", p.name, " has at most ", p.shared_per_block_optin);
    allow_shared(name.c_str(), f, shape.shared_bytes);
    Grid g;
    std::copy_n(shape.blocks, 3, g.blocks);
    std::copy_n(shape.threads, 3, g.threads);
    g.shared_bytes = shape.shared_bytes;
    launch(name.c_str(), f, g, parameters);
  }

  std::unique_ptr<GpuGraph> new_graph() override { return make_graph(); }
  uint64_t new_pool() noexcept override { return new_graph_pool(); }
  bool captures(Device d) noexcept override {
    if (forked()) return false;
    try {
      return capture_of(active(d.index).stream()) != 0;
    } catch (const std::exception&) {  // there is no such GPU
      return false;
    }
  }
  CapturedRandom* captured_random(Device d, const void* generator) override {
    return cuda::captured_random(active(d.index).stream(), generator);
  }

  Compilations compilations() override { return nvrtc_compilations(); }
  void set_compile_threads(int most) noexcept override { cuda::set_compile_threads(most); }
  bool wait_for_compile_threads(double seconds) override {
    return cuda::wait_for_compile_threads(seconds);
  }

  void time_launches(bool on) override { cuda::time_launches(on); }
  std::vector<DeviceTime> device_times() override { return take_device_times(); }

  PlanNumbers plans(PlanKind kind, int device) override {
    const int g = gpu(index_of(device)).index;
    return kind == PlanKind::Fft ? fft_plans(g) : convolution_plans(g);
  }
  void limit_plans(PlanKind kind, int device, int64_t most) override {
    const int g = active(device).index;
    kind == PlanKind::Fft ? limit_fft_plans(g, most) : limit_convolution_plans(g, most);
  }
  void clear_plans(PlanKind kind, int device) override {
    const int g = active(device).index;
    kind == PlanKind::Fft ? clear_fft_plans(g) : clear_convolution_plans(g);
  }

  Nccl& nccl() override { return nccl_calls(); }

  int driver_version() override {
    int v = 0;
    check(driver().driver_version(&v), "cuDriverGetVersion");
    return v;
  }
  Storage* make_pinned(int64_t nbytes) override {
    active(-1);
    void* p = pinned_allocate(static_cast<size_t>(nbytes));
    return Storage::wrap(p, nbytes, free_pinned, p, false);
  }
  bool is_pinned(const void* p) noexcept override { return cuda::is_pinned(p); }
  int device_of(const void* p) override {
    constexpr int kOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    int d = 0;
    check(driver().pointer_attribute(&d, kOrdinal, address(p)), "cuPointerGetAttribute");
    return d;
  }

  std::vector<Library> libraries() override {
    return {{"NVIDIA driver", driver_path(), {}, {}},
            compiler(),
            described("cuBLASLt", cublaslt()),
            described("cuFFT", cufft()),
            described("cuSOLVER", cusolver()),
            described("cuBLAS", cublas()),
            described("cuDNN", cudnn(), cudnn_version()),
            described("NCCL", nccl_library())};
  }

 private:
  static constexpr const char* kWaits = "it waits for the GPU";
  static int index_of(int device) { return device < 0 ? current_gpu() : device; }
  static Gpu& active(int device) {
    Gpu& g = gpu(index_of(device));
    g.activate();
    return g;
  }
  static void wait(CUstream s) { check(driver().stream_synchronize(s), "cuStreamSynchronize"); }
  static bool done(CUresult r, const char* function) {
    if (r == kNotReady) return false;
    check(r, function);
    return true;
  }
};

}  // namespace

}  // namespace cograd::cuda

// Returns the runtime, or null with the reason in `why`.
extern "C" COGRAD_API cograd::CudaRuntime* cograd_cuda_start(std::string* why) {
  using namespace cograd::cuda;
  if (!why_no_driver().empty()) {
    *why = why_no_driver();
    return nullptr;
  }
  if (gpu_count() == 0) {
    *why = "the NVIDIA driver finds no GPU";
    return nullptr;
  }
  static auto* runtime = new Runtime;  // never freed: tensors may outlive static objects
  return runtime;
}
