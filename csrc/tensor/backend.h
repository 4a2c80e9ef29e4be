// SPDX-License-Identifier: BSD-3-Clause
// A device with memory and kernels of its own implements this interface. Its library registers one
// object, which slot.h, device.h and Storage::make call if the thread's place is such a device.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/slot.h"
#include "tensor/storage.h"

namespace cograd {

// The kernel of a device needs a library that is not installed. The fallback tells the reason.
class COGRAD_API NoLibrary : public NoKernel {
 public:
  using NoKernel::NoKernel;
};

class COGRAD_API Backend {
 public:
  virtual ~Backend() = default;
  virtual int count() = 0;
  // Index of the device that "cuda" without an index means on this thread.
  virtual int current() noexcept = 0;
  // Returns memory on device d that the current stream may use; raises OutOfMemoryError.
  virtual Storage* make_storage(Device d, int64_t nbytes) = 0;
  // Copies after all work that was given to the current stream; returns when the copy is done.
  virtual void copy_to_host(Device d, const void* from, void* to, size_t bytes) = 0;
  virtual void copy_from_host(Device d, const void* from, void* to, size_t bytes) = 0;
  // Starts such a copy and returns, if `from` is pinned memory: what frees it lets the copy end
  // first. Otherwise does nothing and returns false.
  virtual bool start_copy_from_host(Device, const void*, void*, size_t) { return false; }
  // Does the same from the device to `to`: nobody may read `to` before the copy is done.
  virtual bool start_copy_to_host(Device, const void*, void*, size_t) { return false; }
  virtual bool is_pinned(const void*) noexcept { return false; }
  virtual void copy_between(Device from, const void* p, Device to, void* q, size_t bytes) = 0;
  // Number of the current stream of this thread on device d; 0 is the default one.
  virtual uint8_t stream_index(Device d) noexcept = 0;
  // Makes a stream the current one. What it gets from now on waits for the work that the stream
  // that was current has by now.
  virtual void switch_stream(Device d, uint8_t index) = 0;
  // Raises if kernels of the current stream cannot use memory of the device, because the work that
  // computes it is being captured. Is called while a capture is open.
  virtual void check_operand(const Storage&) {}
  // Returns the function that replaces the CPU's kernel of that name and has the same type, or
  // null.
  virtual void* kernel(const char* name) noexcept = 0;
  // Number of kernels that this thread has started. Tells whether a failed op may have written.
  virtual uint64_t launches() noexcept = 0;
};

// Returns the backend of a type of device, or null.
COGRAD_API Backend* backend_of(DeviceType t) noexcept;
COGRAD_API void set_backend(DeviceType t, Backend* b) noexcept;
// False if the thread's place is a GPU without the kernel of that name. An op that can also be
// composed of others asks this, so that it does not fall back to the CPU.
COGRAD_API bool place_has_kernel(const char* name) noexcept;

// The properties of a GPU, in torch's terms.
struct GpuProperties {
  std::string name;
  int major = 0, minor = 0;  // the compute capability
  int multiprocessors = 0, warp_size = 32, max_threads_per_multiprocessor = 0;
  int shared_per_block = 0, shared_per_block_optin = 0, registers_per_multiprocessor = 0;
  int l2_cache = 0;
  int64_t total_memory = 0;
};
// Bytes and counts of the allocator of one GPU since the start; peaks can be reset.
struct GpuMemory {
  struct Number {
    int64_t current = 0, peak = 0, allocated = 0, freed = 0;
    void add(int64_t n) noexcept {
      current += n;
      (n > 0 ? allocated : freed) += n > 0 ? n : -n;
      if (current > peak) peak = current;
    }
  };
  Number blocks, bytes, segments, reserved;  // given to tensors; taken from the driver
  int64_t retries = 0, failures = 0;
};

// A kernel of a user: a text in CUDA C++ and the function in it.
struct KernelText {
  std::string name;  // stands in messages
  std::string text;
  std::string expression;            // names the function: "ops::scale<float>"
  std::vector<std::string> options;  // of the compiler
};
// Counts what NVRTC has compiled since the process started; kernels from the disk cache do not
// count.
struct Compilations {
  int64_t count = 0;
  double seconds = 0;
  std::string last;  // the name of the last program that was begun
};
// Tells what a stream did for one launch, copy or fill, by the host's steady clock.
struct DeviceTime {
  std::string name;
  int device = 0;
  uint64_t stream = 0, thread = 0;  // the thread that started it, as in ProfileEvent
  int64_t launched_ns = 0, begin_ns = 0, end_ns = 0;
};
// A library's plans that are kept for a GPU.
enum class PlanKind : uint8_t { Fft, Convolution };
struct PlanNumbers {
  int64_t count = 0, most = 0;
};
// How cuDNN computes convolutions, for all threads. The switches are torch's.
struct CudnnSwitches {
  std::atomic<bool> enabled{true}, benchmark{false}, deterministic{false}, tf32{true};
  std::atomic<bool> deterministic_algorithms{false};  // of use_deterministic_algorithms()
  std::atomic<int> benchmark_limit{10};               // 0: no limit
};
extern COGRAD_API CudnnSwitches cudnn_switches;
// How often a kernel runs: blocks of threads, each with dynamic shared memory.
struct LaunchShape {
  unsigned blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
};

// The policy says what becomes of a call that waits for a GPU.
enum class WaitPolicy : uint8_t { Allow, Warn, Error };
COGRAD_API void set_wait_policy(WaitPolicy p) noexcept;
COGRAD_API WaitPolicy wait_policy() noexcept;

// The number of captures that have begun and not ended, on all threads.
extern COGRAD_API std::atomic<int> open_captures;
// While one is open, the driver forbids to free memory, and events may not be asked or waited for.
inline bool capture_open() noexcept { return open_captures.load(std::memory_order_relaxed) != 0; }
// True if this thread's current stream of the place's GPU, or of the current one, is captured.
COGRAD_API bool capturing() noexcept;
// True if errors about waits need the name of the op that runs.
COGRAD_API bool waits_need_names() noexcept;
// Name of the outermost op that runs on this thread, for such errors; null if none was noted.
COGRAD_API const char* running_op() noexcept;
COGRAD_API void set_running_op(const char* name) noexcept;
// Notes a name in its scope, unless it is null or an outer op has one.
class RunningOp {
 public:
  explicit RunningOp(const char* name) noexcept
      : noted_(name != nullptr && waits_need_names() && running_op() == nullptr) {
    if (noted_) set_running_op(name);
  }
  ~RunningOp() {
    if (noted_) set_running_op(nullptr);
  }
  RunningOp(const RunningOp&) = delete;
  RunningOp& operator=(const RunningOp&) = delete;

 private:
  bool noted_;
};

// The numbers that captured kernels draw. They read where a replay's numbers begin from the device,
// and add `offset`, which counts the blocks of the capture.
struct CapturedRandom {
  const uint64_t* state = nullptr;  // on the device: the seed and the position
  uint64_t offset = 0, most = 0;    // the next block of the capture; the end of the furthest draw
};
// How strictly the driver forbids calls that may disturb a capture (CUstreamCaptureMode).
enum class CaptureMode : uint8_t { Global, ThreadLocal, Relaxed };

// The work that one or more streams got while they were captured, which a replay repeats.
class COGRAD_API GpuGraph {
 public:
  struct Position {
    uint64_t seed, offset;
  };
  virtual ~GpuGraph() = default;
  // Captures the current stream, which is not the default one, from now on. Memory comes from the
  // pool; 0 makes one. `generators` are the addresses of those that the capture may draw from.
  virtual void begin(uint64_t pool, CaptureMode mode,
                     const std::vector<const void*>& generators) = 0;
  // Ends the capture; raises if the driver found the capture invalid. Keeps the graph that is not
  // yet compiled if `keep`.
  virtual void end(bool keep) = 0;
  virtual void abort() noexcept = 0;  // ends a capture and drops what it has; else does nothing
  virtual void instantiate() = 0;     // compiles the graph
  // Returns the number of blocks that a replay draws from each generator; raises if none can run.
  virtual std::vector<uint64_t> draws() = 0;
  // Starts the work on the current stream; `positions` say where the generators stand.
  virtual void replay(const std::vector<Position>& positions) = 0;
  virtual void reset() = 0;  // drops the work and leaves the pool
  virtual uint64_t pool() = 0;
  virtual void print(const std::string& path) = 0;  // writes the kept graph in DOT
  virtual uint64_t handle(bool compiled) = 0;       // the driver's
};

class Nccl;

// The Python module and the C interface call these functions of libcograd_cuda.so. Streams and
// events are handles: 0 is the default stream.
class COGRAD_API CudaRuntime : public Backend {
 public:
  virtual void set_current(int device) = 0;
  virtual GpuProperties properties(int device) = 0;
  virtual void synchronize(int device) = 0;

  virtual uint64_t new_stream(int device, int priority) = 0;  // one of a pool
  virtual uint64_t current_stream(int device) = 0;
  virtual void set_stream(int device, uint64_t stream) = 0;
  virtual void synchronize_stream(int device, uint64_t stream) = 0;
  virtual bool stream_done(int device, uint64_t stream) = 0;
  virtual uint64_t new_event(int device, bool timed) = 0;
  virtual void free_event(uint64_t event) noexcept = 0;
  virtual void record_event(int device, uint64_t event, uint64_t stream) = 0;
  virtual void wait_event(int device, uint64_t stream, uint64_t event) = 0;
  virtual void synchronize_event(uint64_t event) = 0;
  virtual bool event_done(uint64_t event) = 0;
  virtual float milliseconds(uint64_t first, uint64_t last) = 0;

  virtual GpuMemory memory(int device) = 0;
  virtual void reset_peaks(int device) = 0;
  virtual void release_cached(int device) = 0;
  virtual std::pair<int64_t, int64_t> free_and_total(int device) = 0;

  // Returns memory of the host that GPUs can copy from while the program goes on.
  virtual Storage* make_pinned(int64_t nbytes) = 0;
  virtual int device_of(const void* p) = 0;  // the GPU of an address, also of other libraries

  // Returns a user's kernel for the GPU of the thread's place, compiled or from the disk cache.
  // Raises RuntimeError with the compiler's log. It stays valid until the process ends.
  virtual void* user_kernel(const KernelText& k) = 0;
  // Starts it on the current stream; `parameters` point to the values of its parameters.
  virtual void launch_user(const std::string& name, void* kernel, const LaunchShape& shape,
                           void** parameters) = 0;

  virtual std::unique_ptr<GpuGraph> new_graph() = 0;
  virtual uint64_t new_pool() noexcept = 0;      // the number of a new pool of memory for graphs
  virtual bool captures(Device d) noexcept = 0;  // whether the current stream is captured
  // Returns the numbers of a generator in the capture of the current stream; null if the stream is
  // not captured. Raises if the capture does not know the generator.
  virtual CapturedRandom* captured_random(Device d, const void* generator) = 0;

  virtual Compilations compilations() = 0;
  // Sets how many threads compile in the background; waits for them, and returns whether they have
  // nothing to do.
  virtual void set_compile_threads(int most) noexcept = 0;
  virtual bool wait_for_compile_threads(double seconds) = 0;

  // Measures all work of streams from now on, or no more. The times of a run are returned once they
  // are known, which may take a wait for the GPU.
  virtual void time_launches(bool on) = 0;
  virtual std::vector<DeviceTime> device_times() = 0;

  virtual PlanNumbers plans(PlanKind kind, int device) = 0;
  // Keeps at most that many from now on: those that were used last.
  virtual void limit_plans(PlanKind kind, int device, int64_t most) = 0;
  virtual void clear_plans(PlanKind kind, int device) = 0;

  virtual Nccl& nccl() = 0;  // tensor/nccl.h

  virtual int driver_version() = 0;
  struct Library {
    std::string name, path, version, missing;  // `missing` says why there is none
  };
  // Describes which libraries besides the driver were found.
  virtual std::vector<Library> libraries() = 0;
};

// Loads libcograd_cuda.so, which lies beside this library, and the driver. Returns null and says
// why in `why` if there is none.
COGRAD_API CudaRuntime* load_cuda(std::string* why);
// Returns the number of GPUs without starting the driver, which a later fork() would not survive.
COGRAD_API int count_gpus() noexcept;

}  // namespace cograd
