// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/product/csr.h. They do not wait for the GPU, so they return true: the next call
// that waits raises for an index that is out of range.
#include "kernels/product/csr.h"

#include "cuda/args/csr_args.h"
#include "cuda/driver/late.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/sorting.h"

namespace cograd::cuda {

using kernels::CsrPattern;

namespace {

constexpr int kThreads = 256;

device::CsrArgs arguments(const CsrPattern& a, const void* left, const void* x, int64_t k,
                          void* out) {
  const auto lanes = static_cast<int>(std::min<int64_t>(32, round_up_to_power(k)));
  return {a.start, a.col,  a.place, left,      x, out,  late_error(),
          "_csr",  a.rows, a.cols,  a.entries, k, lanes};
}

// Starts a kernel with a warp for each item.
void run(const char* name, DType t, const CsrPattern& a, int64_t items,
         const device::CsrArgs& args) {
  if (items == 0) return;
  launch(name,
         function_of("csr.h", name, {{"TYPE", stored_type(t)}, {"INDEX", stored_type(a.index)}}),
         grid_over(items * 32, kThreads), args);
}

}  // namespace

bool csr_product(DType t, const CsrPattern& a, const void* values, const void* x, int64_t k,
                 void* out) {
  const device::CsrArgs args = arguments(a, values, x, k, out);
  run("csr_product", t, a, a.rows * ceil_div(k, args.lanes), args);
  return true;
}
COGRAD_CUDA_SLOT(csr_product)

bool csr_sampled(DType t, const CsrPattern& a, const void* y, const void* x, int64_t k, void* out) {
  run("csr_sampled", t, a, a.rows, arguments(a, y, x, k, out));
  return true;
}
COGRAD_CUDA_SLOT(csr_sampled)

bool csr_transpose(const CsrPattern& a, void* start, void* col, void* place) {
  COGRAD_CHECK(a.entries < (int64_t{1} << 32), "_csr_transpose(): there are ", a.entries,
               " elements, expected fewer than 4294967296");
  device::CsrTransposeArgs args{a.start, a.col,        a.place, nullptr, start,  col,
                                place,   late_error(), "_csr",  a.rows,  a.cols, a.entries};
  const auto run = [&](const char* name, int64_t items) {
    launch(name, function_of("csr.h", name, {{"INDEX", stored_type(a.index)}}), grid_over(items),
           args);
  };
  run("csr_check_rows", std::max<int64_t>(a.rows, 1));
  const Sorter sorter(a.entries, 1, a.index == DType::Int64);
  if (a.entries > 0) args.order = order_of("_csr_transpose", a.index, a.col, sorter);
  run("csr_starts", a.cols + 1);
  if (a.entries > 0) run("csr_turn", a.entries);
  return true;
}
COGRAD_CUDA_SLOT(csr_transpose)

}  // namespace cograd::cuda
