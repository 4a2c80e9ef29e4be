// SPDX-License-Identifier: BSD-3-Clause
// The formulas of all elementwise loops as text, found by the address of the CPU's loop. Two rows
// that share a loop compute the same bits, so either may be taken.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cograd/dtype.h"
#include "kernels/core/loops.h"

namespace cograd::cuda {

enum class LoopKind : uint8_t {
  Row,    // of elementwise.def, or a part of complex numbers
  Cast,   // from dtype `in` to dtype `out`
  Copy,   // elements of the size of dtype `out`
  Fill,   // params point to an element
  Power,  // pow with an exponent that may choose another row
  Optim,  // a step of an optimizer
};

// One loop: what generated text needs to compute it.
struct LoopRow {
  std::string_view name;     // "exp", "exp_grad", "atan2_grad_b"
  std::string_view formula;  // C++ on scalars of type T
  std::string_view inputs;   // the letters by which the formula names them: "v", "ab", "gxy"
  DType type;                // stored; computed in float if it has 16 bits
  DType out, first;          // stored types of the output and the first input
  LoopKind kind = LoopKind::Row;
  bool divides = false;            // reports a zero divisor
  uint8_t flags = 0;               // of an optimizer's variant
  kernels::LoopFn loop = nullptr;  // the CPU's
};

// All loops; their order is fixed, so that an index names one.
const std::vector<LoopRow>& loop_rows();
// Returns the index of a CPU loop, or -1 if no row has it.
int find_loop(kernels::LoopFn fn) noexcept;
// Index of pow's row for exponents that float cannot hold exactly: it computes in double.
int far_power(bool gradient) noexcept;

// The kernels of a row: operands that are contiguous or single elements, strided ones with fewer
// than 2^31 elements, all others. An optimizer has the first only.
enum class Driver : uint8_t { Flat, Strided, Large };
inline constexpr int kDrivers = 3;

// Returns a row's program for a driver; its function is called `loop`.
std::string row_program(const LoopRow& row, Driver driver);
// Return parts of it: the headers, the Op called `op`, and the kernel called `name` that runs it.
std::string row_headers(const LoopRow& row);
std::string row_op(const LoopRow& row, const std::string& op);
std::string row_kernel(const LoopRow& row, Driver driver, const std::string& op,
                       const std::string& name);
// Returns why the device has no kernel for the row, or null if it has one.
const char* why_no_kernel(const LoopRow& row) noexcept;

// The C++ names of a dtype as stored and as computed.
const char* stored_type(DType t) noexcept;
const char* computed_type(DType t) noexcept;

}  // namespace cograd::cuda
