// SPDX-License-Identifier: BSD-3-Clause
// Advanced indexing: combines all index tensors of an index into one array of byte offsets.
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/index/index_impl.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

// The geometry over index tensors of the fake device.
struct IndexGeometry::InKernelView {
  std::vector<IndexOperand> index;
  IndexGeometry geometry;
  operator const IndexGeometry&() {
    geometry.index = index;
    return geometry;
  }
};
IndexGeometry::InKernelView IndexGeometry::in_kernel_view() const {
  InKernelView v{{index.begin(), index.end()}, *this};
  for (IndexOperand& i : v.index) i.each_pointer(::cograd::detail::MovePointer());
  return v;
}
namespace {

struct Axis {
  int64_t size, self, other, offset;  // `offset` is the stride in entries of the offset array
};

// Adds to `out` the contribution of n indices, `step` bytes apart, to the offsets.
void add_offsets(const char* p, int64_t step, int64_t n, const IndexOperand& op, int64_t* out) {
  const int64_t size = op.size, stride = op.stride;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t given = load_index(p + i * step), v = given + (given < 0 ? size : 0);
    if (!within(v, size)) [[unlikely]]
      raise_bounds(ErrorKind::Index, given, op.dim, size);
    out[i] += v * stride;
  }
}

// The combined index: offsets_[p] + slice offset is the position of an element in self.
class Plan {
 public:
  explicit Plan(const IndexGeometry& g) {
    const size_t nd = g.sizes.size();
    std::vector<Axis> axes(nd);
    std::vector<size_t> varying;
    int64_t count = 1;
    for (size_t d = nd; d-- > 0;) {
      axes[d] = {g.sizes[d], g.self_strides[d], g.other_strides[d], 0};
      bool varies = false;
      for (const IndexOperand& op : g.index) varies |= op.strides[d] != 0;
      numel_ *= g.sizes[d];
      if (!varies || g.sizes[d] == 1) continue;
      axes[d].offset = count;
      count *= g.sizes[d];
      varying.insert(varying.begin(), d);
    }
    if (numel_ == 0) {
      check_unused(g);
      return;
    }
    fill_offsets(g, varying, count);
    // Merge neighbouring axes that are contiguous in all three arrays.
    for (const Axis& a : axes) {
      if (a.size == 1) continue;
      if (!axes_.empty()) {
        Axis& b = axes_.back();
        if (b.self == a.self * a.size && b.other == a.other * a.size &&
            b.offset == a.offset * a.size) {
          b = {b.size * a.size, a.self, a.other, a.offset};
          continue;
        }
      }
      axes_.push_back(a);
    }
    if (axes_.empty()) axes_.push_back({1, 0, 0, 0});
  }

  int64_t numel() const { return numel_; }

  // Calls f(self, offsets, other, innermost axis) for lines, in C order within a task. A task is
  // one line or, if `exclusive`, a group of lines that reach the same elements.
  template <class F>
  void for_lines(bool exclusive, char* self, char* other, const F& f) const {
    if (numel_ == 0) return;
    const size_t outer = axes_.size() - 1;
    const Axis& line = axes_.back();
    // Positions of leading slice axes never overlap: only these axes may run in parallel for
    // writes.
    int64_t tasks = 1, inner = 1;
    size_t split = 0;
    while (split < outer && (!exclusive || (axes_[split].offset == 0 && axes_[split].self != 0))) {
      tasks *= axes_[split++].size;
    }
    for (size_t d = split; d < outer; ++d) inner *= axes_[d].size;
    // A single long line is split into pieces for reading.
    const int64_t pieces =
        !exclusive && outer == 0 ? (line.size + kIndexGrain - 1) / kIndexGrain : 1;
    const int64_t grain = pieces > 1 ? 1 : std::max<int64_t>(1, kIndexGrain / (inner * line.size));
    parallel_for(0, tasks * pieces, grain, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) {
        const int64_t task = lo / pieces, piece = lo % pieces;
        for (int64_t i = 0; i < inner; ++i) {
          Axis at = position(task * inner + i);
          Axis part = line;
          const int64_t first = line.size * piece / pieces;
          part.size = line.size * (piece + 1) / pieces - first;
          f(self + at.self + first * line.self, offsets_.get() + at.offset + first * line.offset,
            other + at.other + first * line.other, part);
        }
      }
    });
  }

 private:
  Axis position(int64_t flat) const {
    Axis at{0, 0, 0, 0};
    for (size_t d = axes_.size() - 1; d-- > 0;) {
      const int64_t q = flat / axes_[d].size, r = flat - q * axes_[d].size;
      at.self += r * axes_[d].self;
      at.other += r * axes_[d].other;
      at.offset += r * axes_[d].offset;
      flat = q;
    }
    return at;
  }

  // Checks the index values of an empty slice; empty index tensors have none. Only sliced
  // dimensions have a stride in self.
  static void check_unused(const IndexGeometry& g) {
    int64_t count = 1;
    std::vector<size_t> varying;
    for (size_t d = 0; d < g.sizes.size(); ++d) {
      if (g.sizes[d] == 0 && g.self_strides[d] == 0) return;
      bool varies = false;
      for (const IndexOperand& op : g.index) varies |= op.strides[d] != 0;
      if (!varies) continue;
      varying.push_back(d);
      count *= g.sizes[d];
    }
    Plan probe;
    if (count > 0) probe.fill_offsets(g, varying, count);
  }
  Plan() = default;

  void fill_offsets(const IndexGeometry& g, const std::vector<size_t>& varying, int64_t count) {
    offsets_.reset(new int64_t[static_cast<size_t>(count)]());
    int64_t row = 1;
    for (size_t d : varying) row = g.sizes[d];
    const int64_t rows = row == 0 ? 0 : count / row;
    for (const IndexOperand& op : g.index) {
      const int64_t step = varying.empty() ? 0 : op.strides[varying.back()];
      parallel_for(0, rows, std::max<int64_t>(1, kIndexGrain / row), [&](int64_t lo, int64_t hi) {
        for (; lo < hi; ++lo) {
          int64_t rest = lo, at = 0;
          for (size_t k = varying.size() - (varying.empty() ? 0 : 1); k-- > 0;) {
            const int64_t n = g.sizes[varying[k]];
            at += rest % n * op.strides[varying[k]];
            rest /= n;
          }
          const char* p = reinterpret_cast<const char*>(op.data) + at;
          add_offsets(p, step, row, op, offsets_.get() + lo * row);
        }
      });
    }
  }

  std::vector<Axis> axes_;
  std::unique_ptr<int64_t[]> offsets_;
  int64_t numel_ = 1;
};

char* bytes(const void* p) { return static_cast<char*>(const_cast<void*>(p)); }

// Moves one line; a contiguous slice is one memcpy.
template <class U, bool kGet>
void move_line(char* self, const int64_t* offsets, char* other, const Axis& a) {
  constexpr auto kWidth = static_cast<int64_t>(sizeof(U));
  if (a.offset == 0) {
    char* p = self + *offsets;
    if (a.self == kWidth && a.other == kWidth) {
      const auto n = static_cast<size_t>(a.size * kWidth);
      std::memcpy(kGet ? other : p, kGet ? p : other, n);
      return;
    }
    for (int64_t i = 0; i < a.size; ++i) {
      if constexpr (kGet)
        write(other + i * a.other, read<U>(p + i * a.self));
      else
        write(p + i * a.self, read<U>(other + i * a.other));
    }
    return;
  }
  for (int64_t i = 0; i < a.size; ++i) {
    char* p = self + i * a.self + offsets[i * a.offset];
    if constexpr (kGet)
      write(other + i * a.other, read<U>(p));
    else
      write(p, read<U>(other + i * a.other));
  }
}

}  // namespace

void index_get(int64_t itemsize, const IndexGeometry& g, const void* self, void* out) {
  COGRAD_SLOT(index_get, itemsize, g, self, out);
  const Plan plan(g);
  HeavyScope heavy(plan.numel());
  by_width(itemsize, [&](auto tag) {
    plan.for_lines(false, bytes(self), bytes(out), move_line<typename decltype(tag)::type, true>);
  });
}

void index_put(int64_t itemsize, const IndexGeometry& g, void* self, const void* values) {
  COGRAD_SLOT(index_put, itemsize, g, self, values);
  const Plan plan(g);
  HeavyScope heavy(plan.numel());
  by_width(itemsize, [&](auto tag) {
    plan.for_lines(true, bytes(self), bytes(values),
                   move_line<typename decltype(tag)::type, false>);
  });
}

void index_put_accumulate(DType t, const IndexGeometry& g, void* self, const void* values) {
  COGRAD_SLOT(index_put_accumulate, t, g, self, values);
  const Plan plan(g);
  HeavyScope heavy(plan.numel());
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    plan.for_lines(true, bytes(self), bytes(values),
                   [](char* base, const int64_t* offsets, char* other, const Axis& a) {
                     for (int64_t i = 0; i < a.size; ++i) {
                       char* p = base + i * a.self + offsets[i * a.offset];
                       write(p, add_to(read<T>(p), read<T>(other + i * a.other)));
                     }
                   });
  });
}

}  // namespace cograd::kernels
