// SPDX-License-Identifier: BSD-3-Clause
// Slots that search in sorted rows, and histograms.
#include <limits>

#include "cograd/error.h"
#include "cuda/args/search_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/sorting.h"
#include "kernels/index/sort.h"

namespace cograd::cuda {

namespace {

void check_dtype(const char* slot, DType t) {
  if (t == DType::UInt16 || t == DType::UInt32 || t == DType::UInt64) detail::fail_no_kernel(slot);
}
template <class Args>
void search_kernel(const char* slot, DType t, const char* name, int64_t n, const Args& a) {
  if (n == 0) return;
  launch(slot, function_of("search.h", name, {{"TYPE", bits_type(t)}}), grid_over(n), a);
}

// Keeps the bins of n elements in `sorter`'s keys, adds what falls into each, and writes dtype
// `out_type`: counts, or sums of weights.
class Bins {
 public:
  Bins(const char* slot, DType t, const void* x, int64_t n, int64_t bins)
      : slot_(slot), type_(t), sorter_(check(slot, t, n, bins), 1, false) {
    a_.x = x;
    a_.n = n;
    a_.bins = bins;
    a_.keys = static_cast<unsigned*>(sorter_.keys());
  }
  device::BinArgs& args() noexcept { return a_; }
  void number(const char* kernel_name) { search_kernel(slot_, type_, kernel_name, a_.n, a_); }

  void count(unsigned long long* counts) {
    set_bytes(counts, 0, a_.bins * 8);
    a_.counts = counts;
    if (a_.n == 0) return;
    const int64_t blocks = std::min<int64_t>(blocks_of(a_.n, 1024), 8 * multiprocessors());
    launch(slot_, function_of("bins.h", "count_bins", {{"WEIGHT", "float"}, {"OUT", "float"}}),
           grid_of_blocks(blocks, 256), a_);
  }
  void sum(const void* weights, DType weight_type, void* out, DType out_type) {
    set_bytes(out, 0, a_.bins * dtype_size(out_type));
    if (a_.n == 0) return;
    int bits = 0;
    while (bits < 32 && a_.bins >> bits != 0) ++bits;
    const Sorter::Result sorted = sorter_.run(bits);
    device::BinArgs a = a_;
    a.weights = weights;
    a.out = out;
    a.order = sorted.order;
    a.keys = static_cast<unsigned*>(const_cast<void*>(sorted.keys));
    launch(slot_,
           function_of("bins.h", "sum_bins",
                       {{"WEIGHT", bits_type(weight_type)}, {"OUT", bits_type(out_type)}}),
           grid_over(a.n), a);
  }
  // Writes counts or sums of weights in the dtype of x.
  void finish(const void* weights, void* out) {
    if (weights != nullptr) return sum(weights, type_, out, type_);
    const Scratch counts(static_cast<size_t>(a_.bins) * 8);
    count(counts.get<unsigned long long>());
    a_.out = out;
    search_kernel(slot_, type_, "store_counts", a_.bins, a_);
  }

 private:
  static int64_t check(const char* slot, DType t, int64_t n, int64_t bins) {
    constexpr int64_t kMost = (int64_t{1} << 32) - 2;
    check_dtype(slot, t);
    if (n > kMost || bins > kMost) detail::fail_no_kernel(slot);
    return n;
  }
  const char* slot_;
  DType type_;
  Sorter sorter_;
  device::BinArgs a_{};
};

}  // namespace

void searchsorted(DType t, const void* sorted, const int64_t* sorter, int64_t n, bool shared,
                  const void* values, int64_t batch, int64_t m, bool right, DType out_dtype,
                  void* out) {
  check_dtype("searchsorted", t);
  search_kernel(
      "searchsorted", t, "searchsorted", batch * m,
      device::SearchArgs{sorted, reinterpret_cast<const long long*>(sorter), values, out, n, batch,
                         m, shared ? 1 : 0, right ? 1 : 0, out_dtype == DType::Int32 ? 1 : 0});
}
COGRAD_CUDA_SLOT(searchsorted)

void is_member(DType t, const void* sorted, int64_t m, const void* x, const int64_t* at, int64_t n,
               bool invert, bool* out) {
  search_kernel("isin", t, "is_member", n,
                device::MemberArgs{sorted, x, reinterpret_cast<const long long*>(at), out, m, n,
                                   invert ? 1 : 0});
}
COGRAD_CUDA_SLOT(is_member)

int64_t bincount_size(DType t, const void* x, int64_t n) {
  if (is_floating(t) || is_complex(t)) detail::fail_no_kernel("bincount_size");
  check_dtype("bincount_size", t);
  if (n == 0) return 0;
  const Scratch found(16);
  device::BinArgs a{};
  a.x = x;
  a.n = n;
  a.counts = found.get<unsigned long long>();
  set_bytes(a.counts, 0, 8);
  set_bytes(a.counts + 1, 0xFF, 8);
  search_kernel("bincount", t, "integer_range", n, a);
  uint64_t host[2];
  read_back(a.counts, host, sizeof host);
  if (host[1] != std::numeric_limits<uint64_t>::max()) detail::fail_no_kernel("bincount_size");
  const auto top = static_cast<int64_t>(host[0] ^ uint64_t{1} << 63);
  COGRAD_CHECK(top < std::numeric_limits<int64_t>::max(),
               "maximum value of input overflowed, it should be < ",
               std::numeric_limits<int64_t>::max(), " but got ", top);
  return top + 1;
}
COGRAD_CUDA_SLOT(bincount_size)

void bincount(DType t, const void* x, int64_t n, DType weight_dtype, const void* weights,
              int64_t bins, void* out) {
  if (bins == 0) return;
  Bins b("bincount", t, x, n, bins);
  if (weights != nullptr && weight_dtype != DType::Float32 && weight_dtype != DType::Float64)
    detail::fail_no_kernel("bincount");
  b.number("integer_bins");
  if (weights == nullptr) return b.count(static_cast<unsigned long long*>(out));
  b.sum(weights, weight_dtype, out, weight_dtype);
}
COGRAD_CUDA_SLOT(bincount)

void histogram_uniform(DType t, const void* x, const void* weights, int64_t n, double lo, double hi,
                       int64_t bins, void* out) {
  if (bins == 0) return;
  Bins b("histogram", t, x, n, bins);
  b.args().lo = lo;
  b.args().hi = hi;
  b.number("uniform_bins");
  b.finish(weights, out);
}
COGRAD_CUDA_SLOT(histogram_uniform)

void histogram_edges(DType t, const void* x, const void* weights, int64_t n, const void* edges,
                     int64_t bins, void* out) {
  if (bins == 0) return;
  Bins b("histogram", t, x, n, bins);
  b.args().edges = edges;
  b.number("edge_bins");
  b.finish(weights, out);
}
COGRAD_CUDA_SLOT(histogram_edges)

void quantile_positions(DType t, const void* x, const int64_t* order, int64_t outer, int64_t n,
                        int64_t inner, const kernels::QuantileSpec& q,
                        const kernels::QuantileOutputs& out) {
  if (t != DType::Float64 && t != DType::Float32) detail::fail_no_kernel("quantile_positions");
  if (outer * inner == 0) return;
  const OnDevice fractions(q.fractions, std::max<size_t>(1, static_cast<size_t>(q.count)) * 8);
  const device::QuantileArgs a{x,
                               reinterpret_cast<const long long*>(order),
                               static_cast<const double*>(fractions.get()),
                               reinterpret_cast<long long*>(out.low),
                               reinterpret_cast<long long*>(out.high),
                               out.weight,
                               out.steps,
                               outer * inner,
                               n,
                               inner,
                               q.count,
                               static_cast<int>(q.mode),
                               q.ignore_nan ? 1 : 0};
  launch("quantile", function_of("quantile.h", "quantile_positions", {{"TYPE", bits_type(t)}}),
         grid_over(a.rows), a);
}
COGRAD_CUDA_SLOT(quantile_positions)

void modes(DType t, const void* sorted, const int64_t* order, int64_t outer, int64_t n,
           int64_t inner, void* values, int64_t* indices) {
  search_kernel("mode", t, "modes", outer * inner,
                device::ModeArgs{sorted, reinterpret_cast<const long long*>(order), values,
                                 reinterpret_cast<long long*>(indices), outer * inner, n, inner});
}
COGRAD_CUDA_SLOT(modes)

}  // namespace cograd::cuda
