// SPDX-License-Identifier: BSD-3-Clause
// Elementwise loops on the GPU: the slots run_loop and copy_strided.
#include <atomic>
#include <memory>
#include <mutex>

#include "cuda/driver/gpu.h"
#include "cuda/driver/launch.h"
#include "cuda/jit/program.h"
#include "cuda/jit/text.h"
#include "cuda/slots/loops.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/core/cast.h"
#include "kernels/core/expect.h"
#include "kernels/elementwise/tables.h"
#include "tensor/slot.h"

namespace cograd::cuda {

namespace {

using kernels::LoopFn;
using kernels::Operand;

// The compiled functions of a GPU by row and driver. Reading them takes no lock.
class Functions {
 public:
  std::atomic<CUfunction>& at(int gpu, int row, Driver d) {
    auto& table = tables_[gpu];
    std::atomic<CUfunction>* list = table.load(std::memory_order_acquire);
    if (list == nullptr) {
      const std::lock_guard lock(mutex_);
      list = table.load(std::memory_order_relaxed);
      if (list == nullptr) {
        list = new std::atomic<CUfunction>[loop_rows().size() * kDrivers]();
        table.store(list, std::memory_order_release);
      }
    }
    return list[row * kDrivers + static_cast<int>(d)];
  }

 private:
  std::mutex mutex_;
  std::atomic<std::atomic<CUfunction>*> tables_[kMaxGpus] = {};
};

std::string title(const LoopRow& row) {
  std::string name(row.name);
  if (row.kind == LoopKind::Cast) name += std::string("_to_") + dtype_name(row.out);
  return name + "_" + dtype_name(row.type);
}

Functions& functions() {
  static auto* all = new Functions;
  return *all;
}
std::string program_of(const LoopRow& row, Driver driver) {
  return title(row) + "/" + std::to_string(static_cast<int>(driver)) + "/" +
         std::to_string(row.flags);
}

CUfunction function_for(int index, Driver driver) {
  std::atomic<CUfunction>& f = functions().at(here().index, index, driver);
  CUfunction known = f.load(std::memory_order_acquire);
  if (known != nullptr) [[likely]]
    return known;
  const LoopRow& row = loop_rows()[static_cast<size_t>(index)];
  if (const char* why = why_no_kernel(row)) cograd::detail::fail_no_kernel(why);
  known = function_of(
      program_of(row, driver), "", [&] { return with_includes(row_program(row, driver)); }, "loop");
  f.store(known, std::memory_order_release);
  return known;
}

unsigned on_host(const Nest& nest) noexcept {
  unsigned bits = 0;
  for (int k = 0; k < nest.nops; ++k) bits |= unsigned{!on_device(nest.data[k])} << k;
  return bits;
}

// Copies by the driver, if the bytes lie one after another in both.
bool copied(const LoopRow& row, const Nest& nest, unsigned host) {
  const int64_t size = operand_size(row, 0);
  if (row.kind != LoopKind::Copy || host != 0 || !nest.contiguous(0, size) ||
      !nest.contiguous(1, size))
    return false;
  if (nest.data[0] == nest.data[1]) return true;
  copy_on_device(nest.data[0], nest.data[1], nest.total * size);
  return true;
}

// Runs a row with an integer divisor, which must not be zero.
void divide(int index, const LoopRow& row, const Nest& nest, unsigned host, const void* params) {
  const auto* p = static_cast<const kernels::ElementParams*>(params);
  int* flag = p == nullptr ? nullptr : p->division_by_zero;
  constexpr int kDivisor = 2;
  const bool known = (host >> kDivisor & 1) != 0;
  if (known && flag != nullptr && is_zero_on_host(row, nest, kDivisor)) {
    *flag = 1;
    return;
  }
  unsigned* error = known || flag == nullptr ? nullptr : error_word();
  each_launch(row, nest, host, params, error,
              [&](const LoopLaunch& l) { start_row(index, row, l); });
  if (error != nullptr && take_error() != 0) *flag = 1;
}

void run(LoopFn fn, int ndim, const int64_t* shape, const Operand* ops, int nops,
         const void* params) {
  int index = find_loop(fn);
  if (index < 0) cograd::detail::fail_no_kernel("a loop that is not a row");
  index = chosen_row(index, params);
  const LoopRow& row = loop_rows()[static_cast<size_t>(index)];
  const Nest nest(ndim, shape, ops, nops);
  if (nest.total == 0) return;
  if (row.kind == LoopKind::Optim) {
    kernels::OptimStep one{fn, ndim, nops, shape, static_cast<const double*>(params), {}};
    std::copy_n(ops, nops, one.ops);
    return optim_steps({&one, 1});
  }
  const unsigned host = on_host(nest);
  if (copied(row, nest, host)) return;
  if (row.divides) return divide(index, row, nest, host, params);
  each_launch(row, nest, host, params, nullptr,
              [&](const LoopLaunch& l) { start_row(index, row, l); });
}

}  // namespace

void start_row(int index, const LoopRow& row, const LoopLaunch& l) {
  Grid g;
  g.blocks[0] = l.blocks;
  g.threads[0] = kLoopThreads;
  // Names of rows are literals.
  const char* name = row.name.data();  // NOLINT(bugprone-suspicious-stringview-data-usage)
  launch(name, function_for(index, l.driver), g, l.args);
}

void run_loop(LoopFn fn, int ndim, const int64_t* shape, const Operand* ops, int nops,
              const void* params, int) {
  run(fn, ndim, shape, ops, nops, params);
}
void copy_strided(DType from, DType to, int ndim, const int64_t* shape, const Operand& out,
                  const Operand& in) {
  const Operand ops[] = {out, in};
  run(kernels::cast_loop(from, to), ndim, shape, ops, 2, nullptr);
}

bool expect_loop(LoopFn fn, bool flat) {
  const Driver driver = flat ? Driver::Flat : Driver::Strided;
  const int index = find_loop(fn);
  if (index < 0) return true;
  const LoopRow& row = loop_rows()[static_cast<size_t>(index)];
  if (functions().at(here().index, index, driver).load(std::memory_order_acquire) != nullptr ||
      why_no_kernel(row) != nullptr)
    return true;
  return expect_program(program_of(row, driver), "",
                        [&row, driver] { return with_includes(row_program(row, driver)); });
}

COGRAD_CUDA_SLOT(run_loop)
COGRAD_CUDA_SLOT(expect_loop)
COGRAD_CUDA_SLOT(copy_strided)

}  // namespace cograd::cuda
