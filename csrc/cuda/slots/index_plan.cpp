// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/slots/index_plan.h"

#include "cuda/driver/late.h"
#include "cuda/slots/sorting.h"

namespace cograd::cuda {

namespace {

constexpr int64_t kMostKeys = (int64_t{1} << 32) - 2;  // keys and entry numbers have 32 bits

// True if b continues a, which is outside of it, in every array.
bool joins(const IndexPlan::Axis& a, const IndexPlan::Axis& b) {
  bool same = a.entry == b.entry && a.self == b.self * b.size && a.other == b.other * b.size;
  for (size_t k = 0; k < a.index.size(); ++k) same = same && a.index[k] == b.index[k] * b.size;
  return same;
}

}  // namespace

IndexPlan::IndexPlan(const char* slot, std::span<const int64_t> sizes,
                     std::span<const int64_t> self, std::span<const int64_t> other,
                     std::span<const PlanTensor> tensors, bool wrap, unsigned code)
    : slot_(slot), tensors_(tensors.begin(), tensors.end()), wrap_(wrap), code_(code) {
  if (tensors.size() > kIndexTensors || tensors.empty()) detail::fail_no_kernel(slot);
  for (size_t d = 0; d < sizes.size(); ++d) {
    numel_ *= sizes[d];
    if (sizes[d] == 1) continue;
    Axis a{sizes[d], self[d], other[d], {}, self[d] == 0};
    for (size_t k = 0; k < tensors.size(); ++k) {
      a.index[k] = tensors[k].strides[d];
      a.entry = a.entry || a.index[k] != 0;
    }
    if (!axes_.empty() && joins(axes_.back(), a)) {
      a.size *= axes_.back().size;
      axes_.pop_back();
    }
    axes_.push_back(a);
  }
  if (axes_.size() > device::kIndexDims) detail::fail_no_kernel(slot);
  for (const Axis& a : axes_)
    if (a.entry) entries_ *= a.size;
  // The number of targets, which may overflow: only writes need it.
  const auto grow = [&](int64_t size) {
    if (__builtin_mul_overflow(space_, size, &space_)) space_ = INT64_MAX;
  };
  for (const PlanTensor& t : tensors_) grow(t.size);
  for (const Axis& a : axes_)
    if (a.entry && a.self != 0) grow(a.size);
}

void IndexPlan::check_space() const {
  if (space_ > kMostKeys || entries_ > kMostKeys) detail::fail_no_kernel(slot_);
}

IndexArgs IndexPlan::arguments(const std::vector<Axis>& axes, void* self, void* other) const {
  IndexArgs a{};
  a.self = self;
  a.other = other;
  a.late = late_error();
  a.op = slot_;
  a.code = code_;
  a.wrap = wrap_ ? 1 : 0;
  a.space = space_;
  a.n = 1;
  a.ndim = static_cast<int>(axes.size());
  int64_t key = 1, entry = 1;
  for (size_t k = tensors_.size(); k-- > 0;) {
    a.tensors[k] = {tensors_[k].data, tensors_[k].size, tensors_[k].stride, key};
    key *= tensors_[k].size;
  }
  for (size_t d = axes.size(); d-- > 0;) {
    const Axis& x = axes[d];
    device::IndexDim& to = a.dims[d];
    to = {x.size, x.self, x.other, 0, 0, {}};
    for (size_t k = 0; k < x.index.size(); ++k) to.index[k] = x.index[k];
    a.n *= x.size;
    if (!x.entry) continue;
    to.entry = entry;
    entry *= x.size;
    if (x.self == 0) continue;
    to.key = key;
    key *= x.size;
  }
  return a;
}

bool IndexPlan::one_value() const noexcept {
  return std::all_of(axes_.begin(), axes_.end(), [](const Axis& a) { return a.other == 0; });
}

// Joins elements of the innermost dim, as long as everything is aligned.
IndexArgs IndexPlan::widened(int64_t& itemsize, void* self, void* other) const {
  std::vector<Axis> axes = axes_;
  const auto fits = [&](int64_t width) {
    const auto whole = [&](int64_t v) { return v % width == 0; };
    bool all = whole(static_cast<int64_t>(reinterpret_cast<uintptr_t>(self))) &&
               whole(static_cast<int64_t>(reinterpret_cast<uintptr_t>(other)));
    for (size_t d = 0; d + 1 < axes.size(); ++d)
      all = all && whole(axes[d].self) && whole(axes[d].other);
    for (const PlanTensor& t : tensors_) all = all && whole(t.stride);
    return all;
  };
  while (!axes.empty() && itemsize < 16) {
    Axis& last = axes.back();
    if (last.entry || last.self != itemsize || last.other != itemsize || last.size % 2 != 0 ||
        !fits(2 * itemsize))
      break;
    itemsize *= 2;
    last.size /= 2;
    last.self = last.other = itemsize;
  }
  return arguments(axes, self, other);
}

Define IndexPlan::tensors() const noexcept {
  return {"TENSORS", static_cast<int64_t>(tensors_.size())};
}

void IndexPlan::pick(int64_t itemsize, const void* self, void* other) const {
  if (numel_ == 0) return;
  const IndexArgs a = widened(itemsize, const_cast<void*>(self), other);
  launch(slot_, function_of("index.h", "pick", {tensors(), {"WIDTH", itemsize}}), grid_over(a.n),
         a);
}

void IndexPlan::put(int64_t itemsize, void* self, const void* other) const {
  if (numel_ == 0) return;
  const bool ordered = entries_ > 1 && space_ > 0 && !one_value();
  if (ordered) check_space();
  IndexArgs a = widened(itemsize, self, const_cast<void*>(other));
  const Scratch winners(ordered ? static_cast<size_t>(space_) * 4 : 1);
  if (ordered) {
    std::vector<Axis> entries;
    for (const Axis& x : axes_)
      if (x.entry) entries.push_back(x);
    IndexArgs mark = arguments(entries, self, nullptr);
    a.winners = mark.winners = winners.get<unsigned>();
    set_bytes(a.winners, 0, space_ * 4);
    launch(slot_, function_of("index_keys.h", "mark_last", {tensors()}), grid_over(mark.n), mark);
  }
  launch(slot_, function_of("index.h", "put", {tensors(), {"WIDTH", itemsize}}), grid_over(a.n), a);
}

void IndexPlan::fold(DType t, void* self, const void* other, const Fold& f) const {
  if (numel_ == 0) return;
  check_space();
  std::vector<Axis> entries, slices;
  for (const Axis& x : axes_) (x.entry ? entries : slices).push_back(x);
  device::SumArgs s{};
  s.at = arguments(entries, self, const_cast<void*>(other));
  const IndexArgs slice = arguments(slices, nullptr, nullptr);
  s.slices = slice.n;
  s.slice_dims = slice.ndim;
  std::copy_n(slice.dims, slice.ndim, s.slice);
  s.op = f.op;
  s.include_self = f.include_self ? 1 : 0;
  s.round_each = f.round_each ? 1 : 0;
  s.by_count = f.by_count ? 1 : 0;
  s.skip = f.skip;
  s.alpha = f.alpha;
  s.alpha_bits = static_cast<int64_t>(f.alpha);

  const Sorter sorter(s.at.n, 1, false);
  s.at.keys = static_cast<unsigned*>(sorter.keys());
  launch(slot_, function_of("index_keys.h", "entry_keys", {tensors()}), grid_over(s.at.n), s.at);
  int bits = 0;
  while (bits < 32 && space_ >> bits != 0) ++bits;
  const Sorter::Result sorted = sorter.run(bits);
  s.keys = static_cast<const unsigned*>(sorted.keys);
  s.order = sorted.order;
  launch(slot_,
         function_of("index_sum.h", "sum_runs",
                     {tensors(), {"OP", int64_t{f.op}}, {"TYPE", bits_type(t)}}),
         grid_over(s.at.n * s.slices), s);
}

}  // namespace cograd::cuda
