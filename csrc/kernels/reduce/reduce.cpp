// SPDX-License-Identifier: BSD-3-Clause
// Walks the geometry of a reduction and writes the results; the loops are in reduce_leaf.cpp.
#include "kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "cograd/error.h"
#include "kernels/core/isa.h"
#include "kernels/core/loops.h"
#include "kernels/reduce/reduce_leaf.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_DECLARE_ISA(ReduceLeaf, reduce_leaf, (LeafOp op, DType t))

ReduceLeaf reduce_leaf(LeafOp op, DType t) { return COGRAD_BEST_ISA(reduce_leaf)(op, t); }

namespace {

constexpr int64_t kMinChunk = 1 << 15;  // elements per piece of a long reduction
constexpr int64_t kMaxChunks = 32;
constexpr int64_t kColumnTile = 1024;

struct Dim {
  int64_t size;
  int64_t stride;  // stride in the input, in bytes
  int64_t out;     // stride in the output (kept) or in the flattened index (reduced), in elements
};

// Stores dimensions in place: a reduction of a few elements must not allocate.
class Dims {
 public:
  void push_back(const Dim& d) {
    COGRAD_CHECK(count_ < kMaxDims, "reduction over more than ", kMaxDims, " dimensions");
    dims_[count_++] = d;
  }
  void resize(size_t n) { count_ = n; }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  Dim* begin() { return dims_; }
  Dim* end() { return dims_ + count_; }
  const Dim& back() const { return dims_[count_ - 1]; }
  Dim& operator[](size_t i) { return dims_[i]; }
  const Dim& operator[](size_t i) const { return dims_[i]; }

 private:
  size_t count_ = 0;
  Dim dims_[kMaxDims];
};

int64_t numel(std::span<const int64_t> sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}
int64_t numel(const Dims& dims, size_t count) {
  int64_t n = 1;
  for (size_t i = 0; i < count; ++i) n *= dims[i].size;
  return n;
}

// Drops dimensions of size 1, orders by stride if allowed, and merges contiguous neighbours.
Dims simplify(std::span<const int64_t> sizes, std::span<const int64_t> strides, bool reorder) {
  Dims dims;
  if (sizes.size() <= 1) {
    if (!sizes.empty() && sizes[0] != 1) dims.push_back({sizes[0], strides[0], 1});
    return dims;
  }
  int64_t out = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1) dims.push_back({sizes[i], strides[i], out});
    out *= sizes[i];
  }
  std::reverse(dims.begin(), dims.end());
  if (reorder) {
    // Insertion sort keeps equal strides in order and does not allocate.
    for (size_t i = 1; i < dims.size(); ++i) {
      for (size_t j = i; j > 0 && std::abs(dims[j].stride) > std::abs(dims[j - 1].stride); --j) {
        std::swap(dims[j], dims[j - 1]);
      }
    }
  }
  size_t last = 0;
  for (size_t i = 1; i < dims.size(); ++i) {
    Dim& d = dims[last];
    const Dim& e = dims[i];
    if (d.stride == e.stride * e.size && d.out == e.out * e.size) {
      d = {d.size * e.size, e.stride, e.out};
    } else {
      dims[++last] = e;
    }
  }
  if (!dims.empty()) dims.resize(last + 1);
  return dims;
}

// Byte and output offsets of the flat position `i` in the first `count` dimensions.
struct Offset {
  int64_t in = 0;
  int64_t out = 0;
};
Offset offset_of(const Dims& dims, size_t count, int64_t i) {
  Offset o;
  for (size_t d = count; d-- > 0;) {
    const int64_t q = i / dims[d].size;
    const int64_t r = i - q * dims[d].size;
    o.in += r * dims[d].stride;
    o.out += r * dims[d].out;
    i = q;
  }
  return o;
}

class Driver {
 public:
  Driver(const ReduceLeaf& leaf, DType t, const void* x, const ReduceGeometry& g, bool ordered)
      : leaf_(leaf),
        x_(static_cast<const char*>(x)),
        kept_(simplify(g.kept_sizes, g.kept_strides, true)),
        reduced_(simplify(g.reduced_sizes, g.reduced_strides, !ordered)),
        outputs_(numel(g.kept_sizes)),
        terms_(numel(g.reduced_sizes)) {
    const int64_t itemsize = dtype_size(t);
    if (reduced_.empty()) reduced_.push_back({terms_, itemsize, 1});
    inner_ = reduced_.back();
    columns_ = !kept_.empty() && kept_.back().stride == itemsize && kept_.back().size >= 16 &&
               inner_.stride != itemsize;
  }

  // Runs the reduction; finish(states, count, first output element, output stride) writes results.
  template <class F>
  void run(const F& finish) const {
    if (outputs_ == 0) return;
    if (terms_ == 0) return run_empty(finish);
    HeavyScope heavy(outputs_ * terms_);
    if (columns_) {
      run_columns(finish);
    } else if (outputs_ == 1 && terms_ <= kMinChunk && reduced_.size() == 1) {
      run_one(finish);
    } else {
      run_rows(finish);
    }
  }

 private:
  static constexpr int64_t kBatchBytes = 2048;

  template <class F>
  void run_empty(const F& finish) const {
    alignas(64) char state[kBatchBytes];
    leaf_.init(state, 1);
    for (int64_t i = 0; i < outputs_; ++i) finish(state, 1, i, 1);
  }

  // Runs what run_rows does for one output whose few terms lie at one stride.
  template <class F>
  void run_one(const F& finish) const {
    alignas(64) char state[kBatchBytes];
    leaf_.init(state, 1);
    leaf_.row(leaf_, state, x_, terms_, inner_.stride, 0);
    finish(state, 1, 0, 1);
  }

  // Folds flat positions [lo, hi) of the reduced dimensions at `base`: calls segment(pointer, n,
  // index) for runs of the innermost dimension.
  template <class F>
  void for_segments(const char* base, int64_t lo, int64_t hi, const F& segment) const {
    const size_t outer = reduced_.size() - 1;
    while (lo < hi) {
      const int64_t row = outer == 0 ? 0 : lo / inner_.size;
      const int64_t first = lo - row * inner_.size;
      const int64_t n = std::min(inner_.size - first, hi - lo);
      const Offset o = offset_of(reduced_, outer, row);
      segment(base + o.in + first * inner_.stride, n, lo);
      lo += n;
    }
  }

  // Returns the number of terms per piece of one output; depends on the geometry only.
  int64_t chunk_terms(int64_t width) const {
    const int64_t least = std::max<int64_t>(1, kMinChunk / width);
    const int64_t most = divide_up(terms_, kMaxChunks);
    return std::max(least, (most + 63) / 64 * 64);
  }

  template <class F>
  void run_rows(const F& finish) const {
    const size_t kept = kept_.size();
    const int64_t chunk = outputs_ >= kMaxChunks ? terms_ : chunk_terms(1);
    const int64_t chunks = divide_up(terms_, chunk);
    const auto fold = [&](char* state, const char* base, int64_t lo, int64_t hi) {
      for_segments(base, lo, hi, [&](const char* p, int64_t n, int64_t index) {
        leaf_.row(leaf_, state, p, n, inner_.stride, index);
      });
    };
    if (chunks == 1) {
      const int64_t batch = kBatchBytes / leaf_.state_size;
      const int64_t grain = std::max<int64_t>(1, kMinChunk / terms_);
      parallel_for(0, outputs_, grain, [&](int64_t lo, int64_t hi) {
        alignas(64) char states[kBatchBytes];
        // Outputs along the innermost kept dimension share one offset computation.
        const Dim run = kept == 0 ? Dim{1, 0, 1} : kept_.back();
        while (lo < hi) {
          const int64_t row = lo / run.size, first = lo - row * run.size;
          const int64_t count = std::min({batch, hi - lo, run.size - first});
          const Offset o = offset_of(kept_, kept == 0 ? 0 : kept - 1, row);
          leaf_.init(states, count);
          const char* base = x_ + o.in + first * run.stride;
          if (leaf_.rows != nullptr && reduced_.size() == 1)
            leaf_.rows(leaf_, states, base, count, run.stride, terms_, inner_.stride);
          else
            for (int64_t i = 0; i < count; ++i)
              fold(states + i * leaf_.state_size, base + i * run.stride, 0, terms_);
          finish(states, count, o.out + first * run.out, run.out);
          lo += count;
        }
      });
      return;
    }
    const auto partial = states(outputs_ * chunks);
    parallel_for(0, outputs_ * chunks, 1, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) {
        const int64_t row = lo / chunks, first = (lo - row * chunks) * chunk;
        char* state = partial.get() + lo * leaf_.state_size;
        leaf_.init(state, 1);
        fold(state, x_ + offset_of(kept_, kept, row).in, first, std::min(terms_, first + chunk));
      }
    });
    for (int64_t i = 0; i < outputs_; ++i) {
      char* first = partial.get() + i * chunks * leaf_.state_size;
      for (int64_t c = 1; c < chunks; ++c) leaf_.merge(first, first + c * leaf_.state_size, 1);
      finish(first, 1, offset_of(kept_, kept, i).out, 1);
    }
  }

  template <class F>
  void run_columns(const F& finish) const {
    const size_t outer_dims = kept_.size() - 1;
    const Dim& lane = kept_.back();
    const int64_t outer = numel(kept_, outer_dims);
    const int64_t tiles = (lane.size + kColumnTile - 1) / kColumnTile;
    const int64_t chunk =
        outer * tiles >= kMaxChunks ? terms_ : chunk_terms(std::min(lane.size, kColumnTile));
    const int64_t chunks = divide_up(terms_, chunk);
    const int64_t tasks = outer * tiles * chunks;
    const int64_t width = std::min(lane.size, kColumnTile);
    const auto partial = chunks == 1 ? nullptr : states(tasks * width);
    const int64_t grain = std::max<int64_t>(1, kMinChunk / (width * std::min(chunk, terms_)));
    parallel_for(0, tasks, grain, [&](int64_t lo, int64_t hi) {
      const auto own = chunks == 1 ? states(width) : nullptr;
      for (; lo < hi; ++lo) {
        const int64_t place = lo / chunks, first = (lo - place * chunks) * chunk;
        const int64_t row = place / tiles, j = (place - row * tiles) * kColumnTile;
        const int64_t m = std::min(kColumnTile, lane.size - j);
        const Offset o = offset_of(kept_, outer_dims, row);
        char* state = chunks == 1 ? own.get() : partial.get() + lo * width * leaf_.state_size;
        leaf_.init(state, m);
        for_segments(x_ + o.in + j * lane.stride, first, std::min(terms_, first + chunk),
                     [&](const char* p, int64_t rows, int64_t index) {
                       leaf_.col(leaf_, state, p, m, rows, inner_.stride, index);
                     });
        if (chunks == 1) finish(state, m, o.out + j * lane.out, lane.out);
      }
    });
    if (chunks == 1) return;
    for (int64_t place = 0; place < outer * tiles; ++place) {
      const int64_t row = place / tiles, j = (place - row * tiles) * kColumnTile;
      const int64_t m = std::min(kColumnTile, lane.size - j);
      char* first = partial.get() + place * chunks * width * leaf_.state_size;
      for (int64_t c = 1; c < chunks; ++c) {
        leaf_.merge(first, first + c * width * leaf_.state_size, m);
      }
      finish(first, m, offset_of(kept_, outer_dims, row).out + j * lane.out, lane.out);
    }
  }

  std::unique_ptr<char[]> states(int64_t count) const {
    return std::unique_ptr<char[]>(new char[static_cast<size_t>(count * leaf_.state_size)]);
  }

  ReduceLeaf leaf_;
  const char* x_;
  Dims kept_, reduced_;
  int64_t outputs_, terms_;
  Dim inner_;
  bool columns_;
};

// Runs a reduction; see Driver::run(). The most frequent one, of elements at one stride to a single
// result, needs no Driver if they are few: setting one up takes longer than adding them.
template <class F>
[[gnu::always_inline]] inline void drive(const ReduceLeaf& leaf, DType in, const void* x,
                                         const ReduceGeometry& g, bool ordered, const F& finish) {
  if (g.kept_sizes.empty() && g.reduced_sizes.size() == 1) {
    const int64_t n = g.reduced_sizes[0];
    if (n > 0 && n <= kMinChunk) {
      static_assert(kMinChunk < kHeavyWork);
      alignas(64) char state[64];
      leaf.init(state, 1);
      leaf.row(leaf, state, static_cast<const char*>(x), n,
               n == 1 ? dtype_size(in) : g.reduced_strides[0], 0);
      return finish(state, 1, 0, 1);
    }
  }
  Driver(leaf, in, x, g, ordered).run(finish);
}

// Writes f(i) for `count` results of a wide type to y[first + i * stride] of dtype `out`.
template <class F>
void write(DType out, void* y, int64_t count, int64_t first, int64_t stride, const F& f) {
  dispatch_real(out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* p = static_cast<T*>(y) + first;
    const auto result = [&](int64_t i) {
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        return T(static_cast<float>(f(i)));
      else
        return static_cast<T>(f(i));
    };
    // Compilers turn the first loop into vectors: a mean's divisions take a while.
    if (stride == 1)
      for (int64_t i = 0; i < count; ++i) p[i] = result(i);
    else
      for (int64_t i = 0; i < count; ++i) p[i * stride] = result(i);
  });
}

LeafOp leaf_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      return LeafOp::Sum;
    case ReduceOp::Prod:
      return LeafOp::Prod;
    case ReduceOp::Min:
      return LeafOp::Min;
    case ReduceOp::Max:
      return LeafOp::Max;
    case ReduceOp::All:
    case ReduceOp::Any:
    case ReduceOp::CountNonzero:
    case ReduceOp::Norm0:
      return LeafOp::Nonzero;
    case ReduceOp::SumSquares:
    case ReduceOp::Norm2:
      return LeafOp::SumSquares;
    case ReduceOp::Norm1:
      return LeafOp::SumAbs;
    case ReduceOp::NormInf:
      return LeafOp::MaxAbs;
    case ReduceOp::NormNegInf:
      return LeafOp::MinAbs;
    case ReduceOp::LogSumExp:
      break;
  }
  return LeafOp::LogSumExp;
}

// Returns log(sum) + max; -inf for an empty or all -inf reduction.
double lse_value(const LseState& s) {
  if (s.sum == 0) return -std::numeric_limits<double>::infinity();
  return std::log(s.sum) + s.max;
}

bool float_state(ReduceOp op, DType in) {
  return is_floating(in) && leaf_op(op) != LeafOp::Nonzero;
}

}  // namespace

void reduce(ReduceOp op, DType in, const void* x, const ReduceGeometry& g, DType out, void* y) {
  COGRAD_SLOT(reduce, op, in, x, g, out, y);
  const int64_t terms = numel(g.reduced_sizes);
  const auto finish = [&](const void* states, int64_t count, int64_t first, int64_t stride) {
    const auto* d = static_cast<const double*>(states);
    const auto* n = static_cast<const int64_t*>(states);
    switch (op) {
      case ReduceOp::Mean: {
        const auto divisor = static_cast<double>(terms);
        return write(out, y, count, first, stride, [&](int64_t i) { return d[i] / divisor; });
      }
      case ReduceOp::Norm2:
        return write(out, y, count, first, stride, [&](int64_t i) { return std::sqrt(d[i]); });
      case ReduceOp::LogSumExp: {
        const auto* s = static_cast<const LseState*>(states);
        return write(out, y, count, first, stride, [&](int64_t i) { return lse_value(s[i]); });
      }
      case ReduceOp::All:
        return write(out, y, count, first, stride, [&](int64_t i) { return n[i] == terms; });
      case ReduceOp::Any:
        return write(out, y, count, first, stride, [&](int64_t i) { return n[i] != 0; });
      default:
        break;
    }
    if (float_state(op, in)) {
      write(out, y, count, first, stride, [&](int64_t i) { return d[i]; });
    } else {
      write(out, y, count, first, stride, [&](int64_t i) { return n[i]; });
    }
  };
  drive(reduce_leaf(leaf_op(op), in), in, x, g, false, finish);
}

void reduce_extreme(bool largest, DType in, const void* x, const ReduceGeometry& g, void* values,
                    int64_t* indices) {
  COGRAD_SLOT(reduce_extreme, largest, in, x, g, values, indices);
  const auto put = [&](const auto* s, int64_t count, int64_t first, int64_t stride) {
    if (indices != nullptr) {
      for (int64_t i = 0; i < count; ++i) indices[first + i * stride] = s[i].index;
    }
    if (values != nullptr) {
      write(in, values, count, first, stride, [&](int64_t i) { return s[i].value; });
    }
  };
  const auto finish = [&](const void* states, int64_t count, int64_t first, int64_t stride) {
    if (is_floating(in)) {
      put(static_cast<const ArgState<double>*>(states), count, first, stride);
    } else {
      put(static_cast<const ArgState<int64_t>*>(states), count, first, stride);
    }
  };
  drive(reduce_leaf(largest ? LeafOp::ArgMax : LeafOp::ArgMin, in), in, x, g, true, finish);
}

void reduce_var(DType in, const void* x, const ReduceGeometry& g, double correction, bool take_sqrt,
                DType out, void* var, void* mean) {
  COGRAD_SLOT(reduce_var, in, x, g, correction, take_sqrt, out, var, mean);
  const double divisor = std::max(static_cast<double>(numel(g.reduced_sizes)) - correction, 0.0);
  const bool empty = numel(g.reduced_sizes) == 0;
  const auto finish = [&](const void* states, int64_t count, int64_t first, int64_t stride) {
    const auto* s = static_cast<const VarState*>(states);
    write(out, var, count, first, stride, [&](int64_t i) {
      const double v = s[i].m2 / divisor;
      return take_sqrt ? std::sqrt(v) : v;
    });
    if (mean == nullptr) return;
    write(out, mean, count, first, stride,
          [&](int64_t i) { return empty ? std::numeric_limits<double>::quiet_NaN() : s[i].mean; });
  };
  drive(reduce_leaf(LeafOp::Var, in), in, x, g, false, finish);
}

void reduce_norm(double p, DType in, const void* x, const ReduceGeometry& g, DType out, void* y) {
  COGRAD_SLOT(reduce_norm, p, in, x, g, out, y);
  if (p == 0) return reduce(ReduceOp::Norm0, in, x, g, out, y);
  if (p == 1) return reduce(ReduceOp::Norm1, in, x, g, out, y);
  if (p == 2) return reduce(ReduceOp::Norm2, in, x, g, out, y);
  if (std::isinf(p)) {
    return reduce(p > 0 ? ReduceOp::NormInf : ReduceOp::NormNegInf, in, x, g, out, y);
  }
  ReduceLeaf leaf = reduce_leaf(LeafOp::PowerSum, in);
  leaf.exponent = p;
  drive(leaf, in, x, g, false,
        [&](const void* states, int64_t count, int64_t first, int64_t stride) {
          const auto* d = static_cast<const double*>(states);
          write(out, y, count, first, stride, [&](int64_t i) { return std::pow(d[i], 1 / p); });
        });
}

}  // namespace cograd::kernels
