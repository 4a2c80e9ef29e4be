// SPDX-License-Identifier: BSD-3-Clause
// cuDNN's functions for convolutions, where that library is installed, and its handles.
#pragma once
#include <cstddef>
#include <string>

#include "cuda/driver/api.h"
#include "cuda/lib/library.h"

namespace cograd::cuda {

// The prototypes and numbers are our own, from cuDNN's reference; these functions are the same in
// all versions 9.
using CudnnHandle = void*;
using CudnnDescriptor = void*;

enum : int { kCudnnFloat = 0, kCudnnDouble = 1, kCudnnHalf = 2, kCudnnBFloat16 = 9 };
// How products are computed. The default may round float32 to TF32, the third to 16 bits.
enum : int { kDefaultMath = 0, kTensorMath = 1, kConvertingMath = 2, kExactMath = 3 };
enum : int { kCudnnBadParameter = 2000, kCudnnInvalidValue = 2001 };
enum : int { kCudnnOutOfMemory = 4004 };  // on the GPU; 4003 is the host's
// The library was called as it should be, but does not support that.
inline bool cudnn_unsupported(int status) noexcept { return status / 1000 == 3; }

// Tells what cuDNN expects of an algorithm, in the library's layout.
struct CudnnChoice {
  int algorithm, status;
  float milliseconds;
  size_t workspace;
  int deterministic, math;
  int reserved[3];
};
// The result or a gradient of a convolution, c, from two arrays a and b. All three passes have
// functions of the same types.
struct CudnnPass {
  int (*choose)(CudnnHandle, CudnnDescriptor a, CudnnDescriptor b, CudnnDescriptor convolution,
                CudnnDescriptor c, int asked, int* found, CudnnChoice*);
  int (*workspace)(CudnnHandle, CudnnDescriptor a, CudnnDescriptor b, CudnnDescriptor convolution,
                   CudnnDescriptor c, int algorithm, size_t*);
  int (*run)(CudnnHandle, const void* alpha, CudnnDescriptor, const void* a, CudnnDescriptor,
             const void* b, CudnnDescriptor convolution, int algorithm, void* workspace, size_t,
             const void* beta, CudnnDescriptor, void* c);
  const char* name;  // of the last function
};
struct CudnnApi {
  size_t (*version)();
  size_t (*cuda_version)();
  const char* (*status_name)(int);
  void (*last_message)(char*, size_t);
  int (*create)(CudnnHandle*);
  int (*set_stream)(CudnnHandle, CUstream);
  int (*tensor_create)(CudnnDescriptor*);
  int (*tensor_set)(CudnnDescriptor, int type, int dims, const int* sizes, const int* strides);
  int (*tensor_destroy)(CudnnDescriptor);
  int (*filter_create)(CudnnDescriptor*);
  int (*filter_set)(CudnnDescriptor, int type, int format, int dims, const int* sizes);
  int (*filter_destroy)(CudnnDescriptor);
  int (*convolution_create)(CudnnDescriptor*);
  int (*convolution_set)(CudnnDescriptor, int dims, const int* padding, const int* stride,
                         const int* dilation, int mode, int type);
  int (*convolution_set_groups)(CudnnDescriptor, int);
  int (*convolution_set_math)(CudnnDescriptor, int);
  int (*convolution_destroy)(CudnnDescriptor);
  CudnnPass forward, input_grad, weight_grad;
};

const CudnnApi& cudnn_api();  // usable if cudnn().found()
const Library& cudnn();
std::string cudnn_version();  // "9.10.2", or "" if there is none
// Returns this thread's handle for the current GPU, which uses the current stream; null if cuDNN
// does not support the GPU.
CudnnHandle cudnn_handle();
// Raises for a status of a function; `what` says of which convolution.
[[noreturn]] void fail_cudnn(int status, const char* function, const std::string& what);

}  // namespace cograd::cuda
