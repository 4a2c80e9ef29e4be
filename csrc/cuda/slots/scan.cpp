// SPDX-License-Identifier: BSD-3-Clause
// The slots of kernels/reduce/scan.h.
#include "kernels/reduce/scan.h"

#include "cuda/args/scan_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"

namespace cograd::cuda {

namespace {

using device::kScanThreads;
using device::ScanArgs;

constexpr int kStateBytes = 16;  // of the largest state
constexpr const char* kScans[] = {"CumSum", "CumProd", "LogCumSumExp", "CumMax", "CumMin"};
enum Scan : uint8_t { kCumSum, kCumProd, kLogCumSumExp, kCumMax, kCumMin };

std::string defines_of(uint64_t variant) {
  return std::string("-DCOGRAD_T=") + stored_type(static_cast<DType>(variant & 0xFF)) +
         " -DCOGRAD_SCAN=" + kScans[variant >> 8];
}

void run(const char* slot, Scan op, DType t, ScanArgs a) {
  if (a.outer == 0 || a.n == 0 || a.inner == 0) return;
  const uint64_t variant = static_cast<uint64_t>(op) << 8 | static_cast<uint64_t>(t);
  const auto function = [&](const char* name) {
    return function_of("scan.h", name, variant, defines_of);
  };
  const bool rows = a.inner == 1;
  const int64_t lines = a.outer * a.inner, blocks = rows ? lines : ceil_div(lines, kScanThreads);
  // A chunk is worth three passes only if there are too few lines for the GPU.
  const int64_t least = rows ? 8192 : 256;
  const int64_t wanted = std::min<int64_t>(ceil_div(4 * multiprocessors(), blocks), a.n / least);
  const int64_t chunks = std::clamp<int64_t>(wanted, 1, 1024);
  a.chunk = ceil_div(ceil_div(a.n, chunks), 1024) * 1024;
  if (!rows) a.chunk = ceil_div(a.n, chunks);
  a.chunks = ceil_div(a.n, a.chunk);
  const Scratch partial(a.chunks == 1 ? 0 : lines * a.chunks * kStateBytes);
  a.partial = partial.data();
  const Grid grid =
      grid_of(rows ? lines * a.chunks : ceil_div(lines * a.chunks, kScanThreads), kScanThreads);
  if (a.chunks > 1) {
    launch(slot, function(rows ? "scan_row_totals" : "scan_column_totals"), grid, a);
    launch(slot, function("scan_carries"), grid_of(ceil_div(lines, kScanThreads), kScanThreads), a);
  }
  launch(slot, function(rows ? "scan_rows" : "scan_columns"), grid, a);
}
ScanArgs args_of(const void* x, void* y, int64_t* indices, int64_t outer, int64_t n,
                 int64_t inner) {
  ScanArgs a{};
  a.x = x;
  a.y = y;
  a.indices = reinterpret_cast<long long*>(indices);
  a.outer = outer;
  a.n = n;
  a.inner = inner;
  return a;
}

}  // namespace

void cumsum(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  if (is_complex(t))
    return run("cumsum", kCumSum, real_dtype(t), args_of(x, y, nullptr, outer, n, 2 * inner));
  run("cumsum", kCumSum, t, args_of(x, y, nullptr, outer, n, inner));
}
void cumprod(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  run("cumprod", kCumProd, t, args_of(x, y, nullptr, outer, n, inner));
}
void logcumsumexp(DType t, const void* x, void* y, int64_t outer, int64_t n, int64_t inner) {
  run("logcumsumexp", kLogCumSumExp, t, args_of(x, y, nullptr, outer, n, inner));
}
void cummax(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner) {
  run("cummax", kCumMax, t, args_of(x, values, indices, outer, n, inner));
}
void cummin(DType t, const void* x, void* values, int64_t* indices, int64_t outer, int64_t n,
            int64_t inner) {
  run("cummin", kCumMin, t, args_of(x, values, indices, outer, n, inner));
}

void linear_recurrence(DType t, const void* a, const void* b, void* s, int64_t outer, int64_t n,
                       int64_t inner, bool reverse) {
  ScanArgs args = args_of(a, s, nullptr, outer, n, inner);
  args.factor = b;
  args.reverse = reverse ? 1 : 0;
  if (b == nullptr) return run("linear_recurrence", kCumSum, t, args);
  if (outer * n * inner == 0) return;
  launch("linear_recurrence",
         function_of("scan.h", "recurrence", static_cast<uint64_t>(t), defines_of),
         grid_of(ceil_div(outer * inner, kScanThreads), kScanThreads), args);
}

COGRAD_CUDA_SLOT(cumsum)
COGRAD_CUDA_SLOT(cumprod)
COGRAD_CUDA_SLOT(logcumsumexp)
COGRAD_CUDA_SLOT(cummax)
COGRAD_CUDA_SLOT(cummin)
COGRAD_CUDA_SLOT(linear_recurrence)

}  // namespace cograd::cuda
