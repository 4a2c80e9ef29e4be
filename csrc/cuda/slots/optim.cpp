// SPDX-License-Identifier: BSD-3-Clause
// Steps of optimizers: up to 64 parameters a launch, if they have the rule, the dtype and the
// scalars in common.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/args/optim_args.h"
#include "cuda/slots/loops.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"

namespace cograd::cuda {

namespace {

using kernels::Operand;
using kernels::OptimStep;

constexpr size_t kScalarBytes = sizeof(device::OptimArgs::scalars);
static_assert(kScalarBytes == kernels::kOptimScalars * sizeof(double));
static_assert(device::kOptimOperands == kernels::kOptimOperands);

// True if the elements of operand k lie one after another, in the order of the nest.
bool packed(const Nest& nest, int k, int64_t size) {
  for (int d = 0; d < nest.ndim; ++d) {
    if (nest.strides[d][k] != size) return false;
    size *= nest.shape[d];
  }
  return true;
}

// A copy of an operand whose elements lie one after another, in the order of the nest.
class Packed {
 public:
  Packed(const Nest& nest, int k, DType t)
      : type_(t), at_(nest.data[k]), buffer_(static_cast<size_t>(nest.total * dtype_size(t))) {
    int64_t step = dtype_size(t);
    for (int d = 0; d < nest.ndim; ++d) {
      shape_.push_back(nest.shape[d]);
      strides_.push_back(nest.strides[d][k]);
      packed_.push_back(step);
      step *= nest.shape[d];
    }
  }
  void* data() const noexcept { return buffer_.data(); }
  void load() const { copy({buffer_.get<char>(), packed_.data()}, {at_, strides_.data()}); }
  void store() const { copy({at_, strides_.data()}, {buffer_.get<char>(), packed_.data()}); }

 private:
  void copy(const Operand& out, const Operand& in) const {
    copy_strided(type_, type_, static_cast<int>(shape_.size()), shape_.data(), out, in);
  }

  DType type_;
  char* at_;
  Scratch buffer_;
  std::vector<int64_t> shape_, strides_, packed_;
};

// A parameter whose step has a kernel.
struct Item {
  int row;
  bool aligned = true;
  const double* scalars;
  device::OptimArgs::Tensor tensor{};
  kernels::OptimCount count = {};
};

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// Counts the steps whose counters are on the device, up to 64 by a launch, and tells the items
// where their scalars are.
class Counts {
 public:
  explicit Counts(std::vector<Item>& items) : room_(bytes_of(items)) {
    double* out = room_.get<double>();
    for (Item& i : items) {
      if (i.count.counter == nullptr) continue;
      if (!takes(i)) start();
      if (args_.count == 0) begin(i, out);
      args_.counters[args_.count++] = {i.count.counter, i.count.single ? 1 : 0};
      i.tensor.scalars = out;
      out += kernels::kOptimScalars;
    }
    start();
  }

 private:
  static size_t bytes_of(const std::vector<Item>& items) {
    size_t n = 0;
    for (const Item& i : items) n += i.count.counter != nullptr ? kScalarBytes : 0;
    return n;
  }
  bool takes(const Item& i) const {
    return args_.count < device::kOptimTensors && args_.beta1 == i.count.beta1 &&
           args_.beta2 == i.count.beta2 &&
           std::equal(std::begin(args_.scalars), std::end(args_.scalars), i.scalars, same_bits);
  }
  void begin(const Item& i, double* out) {
    std::memcpy(args_.scalars, i.scalars, kScalarBytes);
    args_.beta1 = i.count.beta1;
    args_.beta2 = i.count.beta2;
    args_.out = out;
    args_.rate = kernels::optim_scalar::kRate;
    args_.root = kernels::optim_scalar::kOwn + 3;
  }
  void start() {
    if (args_.count > 0)
      launch("optim_counts", function_of("optim.h", "optim_counts", {{"COUNTS", 1}}),
             grid_over(args_.count, 64), args_);
    args_.count = 0;
  }

  Scratch room_;
  device::OptimCountArgs args_{};
};

// One launch that gathers parameters.
struct Batch {
  int row;
  int64_t blocks = 0;
  device::OptimArgs args{};

  explicit Batch(const Item& i) : row(i.row) {
    args.aligned = i.aligned ? 1 : 0;
    std::memcpy(args.scalars, i.scalars, kScalarBytes);
  }
  bool takes(const Item& i) const {
    return row == i.row && args.aligned == (i.aligned ? 1 : 0) &&
           args.count < device::kOptimTensors &&
           std::equal(std::begin(args.scalars), std::end(args.scalars), i.scalars, same_bits);
  }
  void add(const device::OptimArgs::Tensor& t) {
    args.first_block[args.count] = static_cast<unsigned>(blocks);
    args.tensors[args.count++] = t;
    blocks += blocks_of(t.n, device::kOptimPart);
  }
  void start() const {
    start_row(row, loop_rows()[static_cast<size_t>(row)],
              {Driver::Flat, static_cast<unsigned>(blocks), &args});
  }
};

// Starts few kernels for many parameters. Few batches are open at a time, so that the search is
// short if every parameter has scalars of its own.
class Batches {
 public:
  void add(const Item& i) {
    for (const auto& b : open_)
      if (b->takes(i)) return b->add(i.tensor);
    if (open_.size() == kOpen) {
      open_.front()->start();
      open_.erase(open_.begin());
    }
    open_.push_back(std::make_unique<Batch>(i));
    open_.back()->add(i.tensor);
  }
  void finish() const {
    for (const auto& b : open_) b->start();
  }

 private:
  static constexpr size_t kOpen = 8;
  std::vector<std::unique_ptr<Batch>> open_;
};

}  // namespace

void optim_steps(std::span<const OptimStep> steps) {
  std::vector<Item> items;
  std::vector<std::unique_ptr<Packed>> loads, stores;
  items.reserve(steps.size());
  int row = -1;
  for (const OptimStep& s : steps) {
    if (row < 0 || loop_rows()[static_cast<size_t>(row)].loop != s.loop) row = find_loop(s.loop);
    if (row < 0) cograd::detail::fail_no_kernel("an optimizer's step that is not a row");
    const Nest nest(s.ndim, s.shape, s.ops, s.nops);
    if (nest.total == 0) {  // but its step counts
      if (s.count.counter != nullptr) items.push_back({row, true, s.scalars, {}, s.count});
      continue;
    }
    const DType type = loop_rows()[static_cast<size_t>(row)].type;
    Item item{row, true, s.scalars, {}, s.count};
    item.tensor.n = nest.total;
    for (int k = 0; k < nest.nops; ++k) {
      if (!on_device(nest.data[k]))
        cograd::detail::fail_no_kernel("an optimizer's step over memory of the host");
      void* data = nest.data[k];
      if (!packed(nest, k, dtype_size(type))) {
        auto& list = k == 1 ? loads : stores;
        list.push_back(std::make_unique<Packed>(nest, k, type));
        data = list.back()->data();
      }
      item.tensor.data[k] = data;
      if (reinterpret_cast<uintptr_t>(data) % 16 != 0) item.aligned = false;
    }
    items.push_back(item);
  }
  // All are known to have kernels: what is written from here on need not be undone.
  for (const auto& p : loads) p->load();
  for (const auto& p : stores) p->load();
  const Counts counts(items);
  Batches batches;
  for (const Item& i : items)
    if (i.tensor.n > 0) batches.add(i);
  batches.finish();
  for (const auto& p : stores) p->store();
}
COGRAD_CUDA_SLOT(optim_steps)

}  // namespace cograd::cuda
