// SPDX-License-Identifier: BSD-3-Clause
// Helpers of all slots: functions of programs without a lookup by text, values read back, grids.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "cograd/dtype.h"
#include "cuda/driver/launch.h"
#include "cuda/jit/rows.h"
#include "cuda/memory/scratch.h"
#include "tensor/slot.h"

namespace cograd::cuda {

// Returns stored_type(t) for a kernel that compares nothing: it gets signed integers for unsigned
// ones of 16 bits and more.
const char* bits_type(DType t);

// Returns kernel(program, defines, function). `program` and `function` are literals; they and the
// number `variant` stand for the defines, which make(variant) returns when they are needed.
CUfunction function_of(const char* program, const char* function, uint64_t variant,
                       std::string (*make)(uint64_t));
// For programs that depend on a dtype alone: -DCOGRAD_T.
CUfunction function_of(const char* program, const char* function, DType t);

// An option -DNAME=VALUE. The value is a literal, or a number.
struct Define {
  Define(const char* option, const char* value) : name(option), text(value) {}
  Define(const char* option, int64_t value) : name(option), number(value) {}
  bool operator==(const Define&) const = default;

  const char* name = nullptr;
  const char* text = nullptr;
  int64_t number = 0;
};
// For the others: at most four options.
CUfunction function_of(const char* program, const char* function,
                       std::initializer_list<Define> defines);

// Copies from the device after all work of the current stream.
void read_back(const void* from, void* to, size_t bytes);
template <class T>
T read_back(const void* from) {
  T v;
  read_back(from, &v, sizeof v);
  return v;
}
// Set bytes in the stream, and copy them between places on the device.
void set_bytes(void* at, int value, int64_t n);
void copy_on_device(void* to, const void* from, int64_t n);
// Copies bytes to a scratch buffer if they are in host memory; they may change after the call.
class OnDevice {
 public:
  OnDevice(const void* p, size_t bytes);
  const void* get() const noexcept { return at_; }

 private:
  Scratch copy_;
  const void* at_;
};

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t blocks_of(int64_t n, int64_t per_block) { return ceil_div(n, per_block); }
inline int64_t round_up_to_power(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}
// A one-dimensional grid; kernels loop if there is more work than blocks.
inline Grid grid_of_blocks(int64_t blocks, unsigned threads) {
  Grid g;
  g.blocks[0] = static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, INT32_MAX));
  g.threads[0] = threads;
  return g;
}
inline Grid grid_of(int64_t blocks, int threads) {
  return grid_of_blocks(blocks, static_cast<unsigned>(threads));
}
// The grid of a kernel with a loop over n items.
inline Grid grid_over(int64_t n, unsigned threads = 256) {
  return grid_of_blocks(blocks_of(n, threads), threads);
}
// Divides numbers below 2^31 by d.
inline void set_divider(int64_t d, unsigned& multiplier, unsigned& shift) {
  shift = 0;
  if (d <= 0 || d > 0x7FFFFFFF) d = 1;
  while ((int64_t{1} << shift) < d) ++shift;
  multiplier =
      static_cast<unsigned>((uint64_t{1} << 32) * static_cast<uint64_t>((int64_t{1} << shift) - d) /
                                static_cast<uint64_t>(d) +
                            1);
}

}  // namespace cograd::cuda
