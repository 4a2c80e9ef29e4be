// SPDX-License-Identifier: BSD-3-Clause
// gather, scatter and scatter_reduce along one dimension.
#include <limits>
#include <memory>
#include <type_traits>

#include "kernels/index/index_impl.h"
#include "kernels/index/index_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

struct Strides {
  int64_t size, self, index, other;
};

// The iteration space with `dim` last or last but one; positions of the dimensions before it are
// independent.
struct Space {
  std::vector<Strides> outer;  // dimensions whose positions may run in parallel
  Strides dim{};
  Strides line{};  // innermost; size 1 if `dim` itself is the last dimension
  int64_t tasks = 1, dim_size, dim_stride;
  int dim_number;

  explicit Space(const DimIndexGeometry& g) : dim_size(g.dim_size), dim_number(g.dim) {
    const int nd = static_cast<int>(g.sizes.size());
    line = {1, 0, 0, 0};
    dim_stride = nd == 0 ? 0 : g.self_strides[static_cast<size_t>(g.dim)];
    dim = {1, 0, 0, 0};
    for (int d = 0; d < nd; ++d) {
      const auto i = static_cast<size_t>(d);
      const Strides s{g.sizes[i], g.self_strides[i], g.index_strides[i], g.other_strides[i]};
      if (d == g.dim) {
        dim = s;
        dim.self = 0;
      } else if (d == nd - 1) {
        line = s;
      } else {
        outer.push_back(s);
      }
    }
    for (const Strides& s : outer) tasks *= s.size;
  }
  bool empty() const { return tasks == 0 || dim.size == 0 || line.size == 0; }
  int64_t numel() const { return tasks * dim.size * line.size; }

  Strides at(int64_t task) const {
    Strides o{0, 0, 0, 0};
    for (size_t d = outer.size(); d-- > 0;) {
      const int64_t q = task / outer[d].size, r = task - q * outer[d].size;
      o.self += r * outer[d].self;
      o.index += r * outer[d].index;
      o.other += r * outer[d].other;
      task = q;
    }
    return o;
  }

  // Calls f(self, index, other, strides, n) for lines, which run along `dim` if it is the last
  // dimension. Lines that may reach the same element run in order on one thread.
  template <class F>
  void for_lines(char* self, const char* index, char* other, const F& f) const {
    if (empty()) return;
    const int64_t per_task = dim.size * line.size;
    // A single task with long lines is split along the line instead.
    const int64_t pieces =
        line.size > 1 && tasks < num_threads() ? std::min<int64_t>(line.size, 16) : 1;
    const int64_t grain = std::max<int64_t>(1, kIndexGrain * pieces / per_task);
    parallel_for(0, tasks * pieces, grain, [&](int64_t lo, int64_t hi) {
      for (; lo < hi; ++lo) {
        const Strides o = at(lo / pieces);
        const int64_t piece = lo % pieces;
        const int64_t first = line.size * piece / pieces;
        const int64_t n = line.size * (piece + 1) / pieces - first;
        if (line.size == 1) {
          f(self + o.self, index + o.index, other + o.other, dim, dim.size);
          continue;
        }
        for (int64_t i = 0; i < dim.size; ++i) {
          f(self + o.self + first * line.self, index + o.index + i * dim.index + first * line.index,
            other + o.other + i * dim.other + first * line.other, line, n);
        }
      }
    });
  }

  void check(const int64_t* index) const {
    for_lines(nullptr, reinterpret_cast<const char*>(index), nullptr,
              [&](const char*, const char* p, const char*, const Strides& s, int64_t n) {
                if (!index_loops().in_range(p, s.index, n, 0, dim_size)) find_bad(p, s.index, n);
              });
  }
  // Calls f(element of self, element of other) for every index that still is what check() saw;
  // elements have kWidth bytes.
  template <int64_t kWidth, class F>
  void for_places(char* self, const int64_t* index, char* other, const F& f) const {
    for_lines(self, reinterpret_cast<const char*>(index), other,
              [&](char* base, const char* p, char* q, const Strides& s, int64_t n) {
                if (packed<kWidth>(s))
                  each_place(base, p, q, {n, 0, sizeof(int64_t), kWidth}, dim_size, kWidth, f);
                else
                  each_place(base, p, q, {n, s.self, s.index, s.other}, dim_size, dim_stride, f);
              });
  }
  // True for a line along `dim` itself if all three arrays are contiguous.
  template <int64_t kWidth>
  bool packed(const Strides& s) const {
    return s.self == 0 && dim_stride == kWidth && s.index == sizeof(int64_t) && s.other == kWidth;
  }
  // Copies n indices, `stride` bytes apart, to `to`, and checks the copies.
  void load_line(const char* p, int64_t stride, int64_t n, int64_t* to) const {
    if (!index_loops().load(p, stride, n, dim_size, to))
      find_bad(reinterpret_cast<const char*>(to), sizeof(int64_t), n);
  }

 private:
  // Takes all arguments by value, so that what f writes cannot change them.
  template <class F>
  static void each_place(char* base, const char* p, char* q, Strides s, int64_t size, int64_t step,
                         F f) {
    for (int64_t i = 0; i < s.size; ++i) {
      const int64_t at = load_index(p + i * s.index);
      if (within(at, size)) f(base + i * s.self + at * step, q + i * s.other);
    }
  }
  void find_bad(const char* p, int64_t stride, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t v = load_index(p + i * stride);
      if (!within(v, dim_size)) raise_bounds(ErrorKind::Runtime, v, dim_number, dim_size);
    }
  }
};

char* bytes(const void* p) { return static_cast<char*>(const_cast<void*>(p)); }

template <ScatterReduce kOp, class T>
T reduce_pair(T a, T b) {
  using U = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, uint64_t, T>;
  if constexpr (kOp == ScatterReduce::Prod)
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  else if constexpr (kOp == ScatterReduce::Amax)
    return a > b || a != a ? a : b;
  else if constexpr (kOp == ScatterReduce::Amin)
    return a < b || a != a ? a : b;
  else
    return add_to<T, T>(a, b);
}

// Calls f with the reduction as a constant; a mean starts as a sum.
template <class F>
void by_reduction(ScatterReduce op, const F& f) {
  switch (op) {
    case ScatterReduce::Prod:
      return f(std::integral_constant<ScatterReduce, ScatterReduce::Prod>());
    case ScatterReduce::Amax:
      return f(std::integral_constant<ScatterReduce, ScatterReduce::Amax>());
    case ScatterReduce::Amin:
      return f(std::integral_constant<ScatterReduce, ScatterReduce::Amin>());
    default:
      return f(std::integral_constant<ScatterReduce, ScatterReduce::Sum>());
  }
}

template <class T>
T identity(ScatterReduce op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ScatterReduce::Prod:
      return T(1);
    case ScatterReduce::Amax:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ScatterReduce::Amin:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    default:
      return T(0);
  }
}

// T is the type of self's values (float for the 16-bit types), S that of src.
template <class T, class S>
void reduce_into(ScatterReduce op, const Space& space, T* self, int64_t self_numel,
                 const int64_t* index, const void* src, bool include_self) {
  constexpr int64_t kWidth = sizeof(T);
  if (!include_self)
    space.for_places<kWidth>(
        bytes(self), index, bytes(src),
        [start = identity<T>(op)](char* to, const char*) { write(to, start); });
  const auto fold = [&]<ScatterReduce kOp>(std::integral_constant<ScatterReduce, kOp>) {
    space.for_places<kWidth>(bytes(self), index, bytes(src), [](char* to, const char* from) {
      write(to, reduce_pair<kOp, T>(read<T>(to), static_cast<T>(read<S>(from))));
    });
  };
  by_reduction(op, fold);
  if (op != ScatterReduce::Mean) return;
  std::vector<int64_t> count(static_cast<size_t>(self_numel), include_self ? 1 : 0);
  space.for_places<kWidth>(bytes(self), index, bytes(src),
                           [begin = bytes(self), counts = count.data()](char* to, const char*) {
                             ++counts[static_cast<size_t>(to - begin) / sizeof(T)];
                           });
  for (int64_t i = 0; i < self_numel; ++i) {
    const int64_t c = count[static_cast<size_t>(i)];
    if (c < 2) continue;
    if constexpr (std::is_floating_point_v<T>) {
      self[i] /= static_cast<T>(c);
    } else {
      // A mean of integers rounds down.
      const auto v = static_cast<int64_t>(self[i]);
      self[i] = static_cast<T>(v / c - (v % c < 0 ? 1 : 0));
    }
  }
}

template <class H>
void reduce_half(ScatterReduce op, DimIndexGeometry g, void* self, int64_t self_numel,
                 const int64_t* index, const void* src, bool include_self) {
  std::vector<float> wide(static_cast<size_t>(self_numel));
  H* h = static_cast<H*>(self);
  for (int64_t i = 0; i < self_numel; ++i) wide[static_cast<size_t>(i)] = h[i];
  std::vector<int64_t> strides(g.self_strides.begin(), g.self_strides.end());
  for (int64_t& s : strides) s *= 2;
  g.self_strides = strides;
  reduce_into<float, H>(op, Space(g), wide.data(), self_numel, index, src, include_self);
  for (int64_t i = 0; i < self_numel; ++i) h[i] = H(wide[static_cast<size_t>(i)]);
}

}  // namespace

namespace {

// Calls store(i, load(i)) for i < n, with eight loads before their stores, because the compiler
// cannot know that they do not overlap.
template <class U, class L, class S>
void move_by_eight(int64_t n, const L& load, const S& store) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    U v[8];
    for (int64_t k = 0; k < 8; ++k) v[k] = load(i + k);
    for (int64_t k = 0; k < 8; ++k) store(i + k, v[k]);
  }
  for (; i < n; ++i) store(i, load(i));
}

template <class U>
void gather_packed(const U* from, const int64_t* at, U* to, int64_t n) {
  move_by_eight<U>(n, [=](int64_t i) { return from[at[i]]; }, [=](int64_t i, U v) { to[i] = v; });
}
template <class U>
void gather_strided(const char* from, const int64_t* at, char* to, const Strides& s, int64_t step,
                    int64_t n) {
  const int64_t self = s.self, other = s.other;
  move_by_eight<U>(
      n, [=](int64_t i) { return read<U>(from + i * self + at[i] * step); },
      [=](int64_t i, U v) { write(to + i * other, v); });
}

}  // namespace

// Nobody else can see `out` yet, so each piece of a line is copied, checked and used.
void gather(int64_t itemsize, const DimIndexGeometry& g, const void* self, const int64_t* index,
            void* out) {
  COGRAD_SLOT(gather, itemsize, g, self, index, out);
  constexpr int64_t kPiece = 256;
  const Space space(g);
  HeavyScope heavy(space.numel());
  by_width(itemsize, [&](auto tag) {
    using U = typename decltype(tag)::type;
    const auto piece = [&](const char* base, const char* p, char* q, const Strides& s, int64_t n) {
      int64_t at[kPiece];
      space.load_line(p, s.index, n, at);
      if (space.packed<sizeof(U)>(s))
        return gather_packed(reinterpret_cast<const U*>(base), at, reinterpret_cast<U*>(q), n);
      gather_strided<U>(base, at, q, s, space.dim_stride, n);
    };
    space.for_lines(bytes(self), reinterpret_cast<const char*>(index), bytes(out),
                    [&](const char* base, const char* p, char* q, const Strides& s, int64_t n) {
                      for (int64_t i = 0; i < n; i += kPiece)
                        piece(base + i * s.self, p + i * s.index, q + i * s.other, s,
                              std::min(kPiece, n - i));
                    });
  });
}

void scatter(int64_t itemsize, const DimIndexGeometry& g, void* self, const int64_t* index,
             const void* src) {
  COGRAD_SLOT(scatter, itemsize, g, self, index, src);
  const Space space(g);
  HeavyScope heavy(space.numel());
  space.check(index);
  by_width(itemsize, [&](auto tag) {
    using U = typename decltype(tag)::type;
    space.for_places<sizeof(U)>(bytes(self), index, bytes(src),
                                [](char* to, const char* from) { write(to, read<U>(from)); });
  });
}

namespace {

// Computes sums, products and means.
template <class T>
void reduce_complex(ScatterReduce op, const Space& space, void* self, int64_t self_numel,
                    const int64_t* index, const void* src, bool include_self) {
  const auto run = [&](auto f) { space.for_places<sizeof(T)>(bytes(self), index, bytes(src), f); };
  const bool product = op == ScatterReduce::Prod;
  if (!include_self) run([product](char* to, const char*) { write(to, T(product ? 1 : 0)); });
  if (product)
    return run([](char* to, const char* from) { write(to, read<T>(to) * read<T>(from)); });
  run([](char* to, const char* from) { write(to, read<T>(to) + read<T>(from)); });
  if (op != ScatterReduce::Mean) return;
  std::vector<int64_t> counts(static_cast<size_t>(self_numel), include_self ? 1 : 0);
  char* const begin = bytes(self);
  run([&](char* to, const char*) {
    __atomic_fetch_add(&counts[static_cast<size_t>(to - begin) / sizeof(T)], 1, __ATOMIC_RELAXED);
  });
  T* values = static_cast<T*>(self);
  for (int64_t i = 0; i < self_numel; ++i) {
    const int64_t n = counts[static_cast<size_t>(i)];
    if (n > 1) values[i] = values[i] / static_cast<decltype(values[i].re)>(n);
  }
}

}  // namespace

void scatter_reduce(ScatterReduce op, DType t, const DimIndexGeometry& g, void* self,
                    int64_t self_numel, const int64_t* index, const void* src, bool include_self) {
  COGRAD_SLOT(scatter_reduce, op, t, g, self, self_numel, index, src, include_self);
  const Space space(g);
  HeavyScope heavy(space.numel());
  space.check(index);
  if (space.empty()) return;
  if (is_complex(t)) {
    COGRAD_CHECK_NOT_IMPLEMENTED(op != ScatterReduce::Amax && op != ScatterReduce::Amin,
                                 "scatter_reduce(): extremes are not implemented for dtype ",
                                 dtype_name(t));
    const auto reduce =
        t == DType::Complex64 ? reduce_complex<Complex<float>> : reduce_complex<Complex<double>>;
    return reduce(op, space, self, self_numel, index, src, include_self);
  }
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      reduce_half<T>(op, g, self, self_numel, index, src, include_self);
    } else {
      reduce_into<T, T>(op, space, static_cast<T*>(self), self_numel, index, src, include_self);
    }
  });
}

}  // namespace cograd::kernels
