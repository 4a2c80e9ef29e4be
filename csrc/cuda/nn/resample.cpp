// SPDX-License-Identifier: BSD-3-Clause
// The slot of kernels/nn/resample.h.
#include "kernels/nn/resample.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/args/resample_args.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/graph.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "tensor/backend.h"

namespace cograd::cuda {

using device::kResampleThreads;
using device::ResampleArgs;
using kernels::ResampleDim;
using kernels::Resampling;

namespace {

// A dim's tables, in one block.
std::string tables_of(const ResampleDim& d) {
  std::string all;
  const auto add = [&all](const void* p, size_t n) {
    all.append(static_cast<const char*>(p), 8 * n);
  };
  add(d.start.data(), static_cast<size_t>(d.out));
  add(d.count.data(), static_cast<size_t>(d.out));
  add(d.weight.data(), d.weight.size());
  return all;
}

// Returns tables on the device. A copy waits for the device, so the tables of a process's first
// maps stay there; `room` gets those of later ones.
const char* device_tables(const std::string& tables, std::unique_ptr<Scratch>& room) {
  constexpr size_t kMost = 256;
  static std::mutex mutex;
  static auto* known = new std::map<std::pair<int, std::string>, std::unique_ptr<Scratch>>;
  const std::lock_guard lock(mutex);
  const std::pair<int, std::string> key(here().index, tables);
  if (const auto it = known->find(key); it != known->end())
    return static_cast<const char*>(it->second->data());
  room = std::make_unique<Scratch>(static_cast<int64_t>(tables.size()));
  const auto to = reinterpret_cast<CUdeviceptr>(room->data());
  if (capture_constant(here().stream(), tables.data(), to, tables.size()))
    return static_cast<const char*>(room->data());  // the memory is the graph's: not kept
  const Device d = thread_place.now;
  backend_of(d.type)->copy_from_host(d, tables.data(), room->data(), tables.size());
  const char* at = static_cast<const char*>(room->data());
  if (known->size() < kMost) known->emplace(key, std::move(room));
  return at;
}

std::string defines_of(uint64_t v) {
  const auto part = [v](int k) { return stored_type(static_cast<DType>(v >> (8 * k) & 0xFF)); };
  return std::string("-DCOGRAD_FROM=") + part(0) + " -DCOGRAD_TO=" + part(1) +
         " -DCOGRAD_SUM=" + part(2);
}

}  // namespace

void resample(DType t, const Resampling& r, int64_t planes, const void* x, void* y) {
  if (planes == 0 || r.out_size() == 0) return;
  const DType wide = dtype_size(t) == 8 ? DType::Float64 : DType::Float32;
  const auto growth = [&](int d) {
    return static_cast<double>(r.dims[d].out) /
           static_cast<double>(std::max<int64_t>(1, r.dims[d].in));
  };
  std::vector<int> order;
  for (int d = 0; d < 3; ++d)
    if (!r.dims[d].identity) order.push_back(d);
  const auto count = static_cast<int>(order.size());
  // Dims that shrink the plane come first.
  std::sort(order.begin(), order.end(), [&](int a, int b) { return growth(a) < growth(b); });
  if (count == 0) {
    return copy_on_device(y, x, planes * r.in_size() * dtype_size(t));
  }
  int64_t sizes[3] = {r.dims[0].in, r.dims[1].in, r.dims[2].in};
  const void* from = x;
  std::unique_ptr<Scratch> before;
  for (int i = 0; i < count; ++i) {
    const int d = order[static_cast<size_t>(i)];
    ResampleArgs a{};
    std::unique_ptr<Scratch> tables;
    const char* table = device_tables(tables_of(r.dims[d]), tables);
    a.start = reinterpret_cast<const long long*>(table);
    a.count = a.start + r.dims[d].out;
    a.weight = reinterpret_cast<const double*>(a.count + r.dims[d].out);
    a.outer = planes;
    a.inner = 1;
    for (int k = 0; k < d; ++k) a.outer *= sizes[k];
    for (int k = d + 1; k < 3; ++k) a.inner *= sizes[k];
    a.taps = r.dims[d].taps;
    a.in = r.dims[d].in;
    a.out = sizes[d] = r.dims[d].out;
    const int64_t n = a.outer * a.out * a.inner;
    const bool last = i + 1 == count;
    auto room = last ? nullptr : std::make_unique<Scratch>(n * dtype_size(wide));
    a.x = from;
    a.y = last ? y : room->data();
    const auto code = [](DType v) { return static_cast<uint64_t>(v); };
    const uint64_t variant =
        code(i == 0 ? t : wide) | code(last ? t : wide) << 8 | code(wide) << 16;
    launch("resample", function_of("resample.h", "resample", variant, defines_of),
           grid_of(ceil_div(n, kResampleThreads), kResampleThreads), a);
    from = a.y;
    before = std::move(room);
  }
}

COGRAD_CUDA_SLOT(resample)

}  // namespace cograd::cuda
