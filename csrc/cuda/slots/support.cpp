// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/support.h"

#include "tensor/device.h"

namespace cograd::cuda {

namespace {
constexpr int64_t kMostBlocks = INT32_MAX;
}  // namespace

Grid grid_of_blocks(int64_t blocks, unsigned threads) {
  Grid g;
  g.blocks[0] = static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, kMostBlocks));
  g.threads[0] = threads;
  return g;
}
Grid grid_over(int64_t n, unsigned threads) {
  return grid_of_blocks(blocks_of(n, threads), threads);
}

const char* text_type(DType t) {
  switch (t) {
    case DType::Bool:
      return "bool";
    case DType::UInt8:
      return "uint8_t";
    case DType::Int8:
      return "int8_t";
    case DType::Int16:
    case DType::UInt16:
      return "int16_t";
    case DType::Int32:
    case DType::UInt32:
      return "int32_t";
    case DType::Int64:
    case DType::UInt64:
      return "int64_t";
    case DType::Float16:
      return "Half";
    case DType::BFloat16:
      return "BFloat16";
    case DType::Float32:
      return "float";
    case DType::Float64:
      return "double";
    case DType::Complex64:
      return "Complex<float>";
    default:
      return "Complex<double>";
  }
}

void read_back(const void* from, void* to, size_t bytes) {
  copy_to_host(thread_place.now, from, to, bytes);
}
void set_bytes(void* at, int value, int64_t n) {
  if (n <= 0) return;
  check(driver().set_bytes(reinterpret_cast<CUdeviceptr>(at), static_cast<unsigned char>(value),
                           static_cast<size_t>(n), here().stream()),
        "cuMemsetD8Async");
}

OnDevice::OnDevice(const void* p, size_t bytes) : copy_(bytes), at_(p) {
  if (on_device(p)) return;
  copy_from_host(thread_place.now, p, copy_.get(), bytes);
  at_ = copy_.get();
}

}  // namespace cograd::cuda
