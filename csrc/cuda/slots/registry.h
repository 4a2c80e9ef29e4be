// SPDX-License-Identifier: BSD-3-Clause
// The kernels of the CUDA device by the names of the CPU's: a slot (tensor/slot.h) asks for them.
#pragma once
#include <type_traits>

namespace cograd::cuda {

struct SlotEntry {
  SlotEntry(const char* name, void* function);
};
// Returns a kernel, or null if there is none.
void* find_slot(const char* name) noexcept;

}  // namespace cograd::cuda

// Registers cuda::name, which must have the type of kernels::name. Stands in namespace
// cograd::cuda.
#define COGRAD_CUDA_SLOT(name)                                                              \
  static_assert(                                                                            \
      std::is_same_v<decltype(&::cograd::cuda::name), decltype(&::cograd::kernels::name)>); \
  const SlotEntry slot_##name(#name, reinterpret_cast<void*>(&::cograd::cuda::name));
