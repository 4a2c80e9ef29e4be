// SPDX-License-Identifier: BSD-3-Clause
// Starts kernels on the current stream of the device of the thread's place.
#pragma once
#include "cuda/driver/api.h"

namespace cograd::cuda {

struct Grid {
  unsigned blocks[3] = {1, 1, 1};
  unsigned threads[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
};

// Starts `f` with one struct as its parameter. All kernels of cograd are declared by
// COGRAD_KERNEL(name, Args) (text/prelude.h), so that a test can call them compiled for the CPU.
void launch(const char* name, CUfunction f, const Grid& grid, const void* args);
template <class Args>
void launch(const char* name, CUfunction f, const Grid& grid, const Args& args) {
  static_assert(sizeof(Args) <= 4096);
  launch(name, f, grid, static_cast<const void*>(&args));
}
// Starts `f` with parameters of any number; for users' kernels.
void launch(const char* name, CUfunction f, const Grid& grid, void** parameters);
// Lets `f` be started with so many bytes of dynamic shared memory; more than 48 KiB need that.
void allow_shared(const char* name, CUfunction f, unsigned bytes);
// Stands after a library has started kernels: counts one launch, waits if CUDA_LAUNCH_BLOCKING
// is 1.
void launched(const char* name);
uint64_t launches() noexcept;  // by this thread

// Returns a function of a kernel's program for the current device. Programs are compiled at their
// first use; raises RuntimeError with the compiler's log. `program` names a text file below
// cuda/text, `defines` are "-DNAME=value" options that choose the variant.
CUfunction kernel(const char* program, const char* defines, const char* function);

// Number of multiprocessors of the current device.
int multiprocessors();

// True if `p` is memory of a CUDA device. An operand may also be a scalar in host memory.
bool on_device(const void* p) noexcept;

// A word in host memory that kernels may write: the code of an error, such as a division by zero.
uint32_t* error_word();
// Waits for the current stream, and returns and clears the word.
uint32_t take_error();

}  // namespace cograd::cuda
