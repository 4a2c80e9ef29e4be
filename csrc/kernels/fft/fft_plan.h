// SPDX-License-Identifier: BSD-3-Clause
// Declares the transforms of the lines of one axis, with one copy per instruction set.
#pragma once
#include <cstdint>
#include <memory>

#include "cograd/dtype.h"
#include "tensor/dims.h"

namespace cograd::kernels {

enum class FftKind : uint8_t {
  Complex,   // n complex points to n
  ToHalf,    // n real points to bins 0 to n/2
  FromHalf,  // bins 0 to n/2 to n real points
};

// Lines along one axis of two arrays. All strides are in bytes; the last dim of `sizes` is the one
// with the smallest strides.
struct FftLines {
  const char* in = nullptr;
  char* out = nullptr;
  int64_t in_step = 0, out_step = 0;    // from one point of a line to the next one
  Dims sizes, in_strides, out_strides;  // the dims that number the lines
  bool forward = true;                  // the sign of the exponent; used by kind Complex only
  double scale = 1;

  int64_t count() const noexcept {
    int64_t n = 1;
    for (const int64_t size : sizes) n *= size;
    return n;
  }
};

// The factors of one length, for a kind and a real dtype.
class FftPlan {
 public:
  virtual ~FftPlan() = default;
  FftPlan(const FftPlan&) = delete;
  FftPlan& operator=(const FftPlan&) = delete;
  // Transforms the lines numbered lo to hi - 1. An element has the same bits in any range.
  virtual void run(const FftLines& lines, int64_t lo, int64_t hi) const = 0;
  int64_t lanes() const noexcept { return lanes_; }  // the number of lines transformed together
  int64_t bytes() const noexcept { return bytes_; }

 protected:
  FftPlan(int64_t lanes, int64_t bytes) noexcept : lanes_(lanes), bytes_(bytes) {}

 private:
  int64_t lanes_, bytes_;
};

struct FftLoops {
  // Makes a plan for lines of n points; `t` is Float32 or Float64.
  std::unique_ptr<const FftPlan> (*plan)(FftKind kind, DType t, int64_t n);
};
const FftLoops& fft_loops();

}  // namespace cograd::kernels
