// SPDX-License-Identifier: BSD-3-Clause
// The functions of the CUDA driver that cograd calls, found in libcuda.so.1 when a device is first
// used. The prototypes are our own, from the driver API's reference; no CUDA header is needed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace cograd::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;

inline constexpr CUresult kSuccess = 0, kOutOfMemory = 2, kNotReady = 600;
// Errors of calls that a capture does not allow, and of captures that such a call has spoilt.
inline constexpr CUresult kFirstCaptureError = 900, kLastCaptureError = 908;

// X(name, symbol, parameters); all return CUresult.
#define COGRAD_CUDA_DRIVER(X)                                                                      \
  X(init, "cuInit", (unsigned))                                                                    \
  X(driver_version, "cuDriverGetVersion", (int*))                                                  \
  X(device_count, "cuDeviceGetCount", (int*))                                                      \
  X(device_get, "cuDeviceGet", (CUdevice*, int))                                                   \
  X(device_name, "cuDeviceGetName", (char*, int, CUdevice))                                        \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                               \
  X(device_total_mem, "cuDeviceTotalMem_v2", (size_t*, CUdevice))                                  \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                            \
  X(ctx_set_current, "cuCtxSetCurrent", (CUcontext))                                               \
  X(ctx_get_current, "cuCtxGetCurrent", (CUcontext*))                                              \
  X(ctx_synchronize, "cuCtxSynchronize", ())                                                       \
  X(mem_info, "cuMemGetInfo_v2", (size_t*, size_t*))                                               \
  X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr*, size_t))                                            \
  X(mem_free, "cuMemFree_v2", (CUdeviceptr))                                                       \
  X(mem_host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                  \
  X(mem_free_host, "cuMemFreeHost", (void*))                                                       \
  X(pointer_attribute, "cuPointerGetAttribute", (void*, int, CUdeviceptr))                         \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, size_t, CUstream))          \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, size_t, CUstream))                  \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream))          \
  X(set_bytes, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream))                  \
  X(set_words, "cuMemsetD32Async", (CUdeviceptr, unsigned, size_t, CUstream))                      \
  X(stream_create, "cuStreamCreateWithPriority", (CUstream*, unsigned, int))                       \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream))                                              \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream))                                         \
  X(stream_query, "cuStreamQuery", (CUstream))                                                     \
  X(stream_wait_event, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                         \
  X(capture_begin, "cuStreamBeginCapture_v2", (CUstream, int))                                     \
  X(capture_end, "cuStreamEndCapture", (CUstream, CUgraph*))                                       \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                     \
    (CUstream, int*, uint64_t*, CUgraph*, const CUgraphNode**, size_t*))                           \
  X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int*))                                     \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long)) \
  X(graph_launch, "cuGraphLaunch", (CUgraphExec, CUstream))                                        \
  X(graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec))                                       \
  X(graph_destroy, "cuGraphDestroy", (CUgraph))                                                    \
  X(graph_print, "cuGraphDebugDotPrint", (CUgraph, const char*, unsigned))                         \
  X(event_create, "cuEventCreate", (CUevent*, unsigned))                                           \
  X(event_destroy, "cuEventDestroy_v2", (CUevent))                                                 \
  X(event_record, "cuEventRecord", (CUevent, CUstream))                                            \
  X(event_query, "cuEventQuery", (CUevent))                                                        \
  X(event_synchronize, "cuEventSynchronize", (CUevent))                                            \
  X(event_elapsed, "cuEventElapsedTime", (float*, CUevent, CUevent))                               \
  X(module_load, "cuModuleLoadData", (CUmodule*, const void*))                                     \
  X(module_unload, "cuModuleUnload", (CUmodule))                                                   \
  X(module_function, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                  \
  X(function_attribute, "cuFuncSetAttribute", (CUfunction, int, int))                              \
  X(launch_kernel, "cuLaunchKernel",                                                               \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,   \
     void**, void**))                                                                              \
  X(error_name, "cuGetErrorName", (CUresult, const char**))                                        \
  X(error_string, "cuGetErrorString", (CUresult, const char**))

struct DriverApi {
#define COGRAD_CUDA_MEMBER(name, symbol, parameters) CUresult(*name) parameters = nullptr;
  COGRAD_CUDA_DRIVER(COGRAD_CUDA_MEMBER)
#undef COGRAD_CUDA_MEMBER
};

// Returns the driver's functions, all of them if why_no_driver() is empty. The first call loads the
// library that COGRAD_CUDA_DRIVER names, else libcuda.so.1, and calls cuInit.
const DriverApi& driver();
const std::string& why_no_driver();
const std::string& driver_path();

// Raises for a result other than success of the driver's `function`: OutOfMemoryError for
// kOutOfMemory, else RuntimeError. `what` is the kernel or the like.
void check(CUresult result, const char* function, const char* what = nullptr);

}  // namespace cograd::cuda
