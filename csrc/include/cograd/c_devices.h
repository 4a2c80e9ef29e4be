/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of the C interface that is about devices: tensors on NVIDIA GPUs, streams, and kernels
 * whose text is compiled in the process. What needs a GPU returns COGRAD_RUNTIME_ERROR, with the
 * reason, where there is none. An index of -1 is the current GPU. Since 1.1. */
#ifndef COGRAD_C_DEVICES_H
#define COGRAD_C_DEVICES_H
#include "cograd/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device type beside COGRAD_CPU. A value of kind COGRAD_DEVICE has the index + 1 in `length`. */
enum { COGRAD_CUDA = 2 };
/* A flag of cograd_op_desc: forward and backward take tensors that are on GPUs. An op without it
 * gets copies on the CPU, so it never sees an address of a GPU. */
enum { COGRAD_OP_CUDA = 512 };

/* Gets where a tensor is; the index of the CPU is -1. */
COGRAD_C_API cograd_status cograd_tensor_device(cograd_tensor t, int32_t* type,
                                                int32_t* index) COGRAD_NOEXCEPT;
/* Returns the address of the first element on the tensor's device, which the CPU may be unable to
 * read. NULL and an error if the tensor has none (see cograd_tensor_data). */
COGRAD_C_API void* cograd_tensor_device_data(cograd_tensor t) COGRAD_NOEXCEPT;
/* Like cograd_tensor_empty, on a device. */
COGRAD_C_API cograd_status cograd_tensor_empty_on(int32_t dtype, int32_t dim, const int64_t* sizes,
                                                  int32_t device_type, int32_t device_index,
                                                  cograd_tensor* out) COGRAD_NOEXCEPT;

/* Returns the number of GPUs; 0 if there is none. */
COGRAD_C_API int32_t cograd_cuda_count(void) COGRAD_NOEXCEPT;
/* Get and set the current GPU of this thread. */
COGRAD_C_API cograd_status cograd_cuda_device(int32_t* index) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_cuda_set_device(int32_t index) COGRAD_NOEXCEPT;
/* Get and set the current stream of this thread on a GPU: the driver's handle (CUstream), which is
 * NULL for the default stream. */
COGRAD_C_API cograd_status cograd_cuda_stream(int32_t device, void** stream) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_cuda_set_stream(int32_t device, void* stream) COGRAD_NOEXCEPT;
/* Gets one of the GPU's streams; those of a negative priority go first. */
COGRAD_C_API cograd_status cograd_cuda_new_stream(int32_t device, int32_t priority,
                                                  void** stream) COGRAD_NOEXCEPT;
/* Returns 1 if all work of a stream is done, 0 if not; negative on error. */
COGRAD_C_API int32_t cograd_cuda_stream_done(int32_t device, void* stream) COGRAD_NOEXCEPT;
/* Wait for all work of a stream, or of a GPU. */
COGRAD_C_API cograd_status cograd_cuda_synchronize_stream(int32_t device,
                                                          void* stream) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_cuda_synchronize(int32_t device) COGRAD_NOEXCEPT;

typedef struct cograd_cuda_kernel_s* cograd_cuda_kernel;
typedef struct cograd_cuda_kernel_desc {
  size_t struct_size;
  const char* text; /* CUDA C++ */
  /* The function in it, "ops::scale<float>"; NULL or "" if it has one only. */
  const char* name;
  const char* const* options; /* of the compiler, such as "-DWIDTH=4" */
  size_t n_options;
  const char* const* strided; /* parameters whose tensors need not be contiguous */
  size_t n_strided;
} cograd_cuda_kernel_desc;
typedef struct cograd_cuda_launch {
  size_t struct_size;
  int64_t grid[3];  /* blocks */
  int64_t block[3]; /* threads */
  int64_t shared_bytes;
  int64_t threads; /* if grid is all zeros: threads along x; for 0 the arguments are only checked */
} cograd_cuda_launch;
/* Reads a kernel's parameters from its text. Needs no GPU: the text is compiled at the first
 * launch, or taken from the cache on disk. */
COGRAD_C_API cograd_status cograd_cuda_kernel_create(const cograd_cuda_kernel_desc* desc,
                                                     cograd_cuda_kernel* out) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_cuda_kernel_release(cograd_cuda_kernel kernel) COGRAD_NOEXCEPT;
/* Starts the kernel on the current stream of the GPU of its tensors. Arguments are COGRAD_TENSOR,
 * COGRAD_NONE (a null pointer) and numbers; each is checked against the kernel's parameter. */
COGRAD_C_API cograd_status cograd_cuda_kernel_launch(cograd_cuda_kernel kernel,
                                                     const cograd_cuda_launch* launch,
                                                     const cograd_value* args,
                                                     size_t n) COGRAD_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
