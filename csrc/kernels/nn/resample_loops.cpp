// SPDX-License-Identifier: BSD-3-Clause
// Maps one dim after the other of a plane that stays in the cache; compiled once per instruction
// set.
#include "kernels/nn/resample_loops.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "kernels/core/floating.h"

namespace cograd::kernels::COGRAD_ISA {

ResampleLoops resample_loops();

namespace {

// Holds a dim's weights in the compute type.
template <class A>
struct Taps {
  const ResampleDim* dim = nullptr;
  std::unique_ptr<A[]> weight;
  bool even = false;  // all weights are `same`, starts are `step` apart, counts are equal
  A same = 0;
  int64_t first = 0, step = 0, count = 0;

  explicit Taps(const ResampleDim& d) : dim(&d), weight(new A[d.weight.size()]) {
    std::copy(d.weight.begin(), d.weight.end(), weight.get());
    if (d.out < 2 || d.count[0] == 0) return;
    first = d.start[0];
    step = d.start[1] - d.start[0];
    count = d.count[0];
    same = weight[0];
    even = true;
    for (int64_t i = 0; i < d.out && even; ++i) {
      even = d.start[static_cast<size_t>(i)] == first + i * step &&
             d.count[static_cast<size_t>(i)] == count;
      for (int64_t t = 0; t < count && even; ++t)
        even = weight[static_cast<size_t>(i * d.taps + t)] == same;
    }
  }
  int64_t start(int64_t i) const { return dim->start[static_cast<size_t>(i)]; }
  int64_t number(int64_t i) const { return dim->count[static_cast<size_t>(i)]; }
  const A* of(int64_t i) const { return weight.get() + i * dim->taps; }
};

// Computes y[j] = sum over t of w[t] * x[t * n + j].
template <class A>
void mix_rows(const A* __restrict x, const A* w, int64_t count, int64_t n, A* __restrict y) {
  if (count == 0) return (void)std::fill_n(y, n, A(0));
  const A w0 = w[0];
  if (count == 1) {
    for (int64_t j = 0; j < n; ++j) y[j] = w0 * x[j];
    return;
  }
  const A w1 = w[1];
  for (int64_t j = 0; j < n; ++j) y[j] = w0 * x[j] + w1 * x[n + j];
  int64_t t = 2;
  for (; t + 1 < count; t += 2) {
    const A a = w[t], b = w[t + 1];
    const A* __restrict row = x + t * n;
    for (int64_t j = 0; j < n; ++j) y[j] += a * row[j] + b * row[n + j];
  }
  if (t < count)
    for (int64_t j = 0; j < n; ++j) y[j] += w[t] * x[t * n + j];
}

// Maps the last dim of one row.
template <class A>
void mix_row(const Taps<A>& taps, const A* __restrict x, A* __restrict y) {
  const int64_t n = taps.dim->out;
  if (taps.even) {
    const int64_t step = taps.step, count = taps.count;
    const A* __restrict from = x + taps.first;
    const A same = taps.same;
    if (count == 2 && step == 2) {
      for (int64_t i = 0; i < n; ++i) y[i] = same * (from[2 * i] + from[2 * i + 1]);
      return;
    }
    for (int64_t i = 0; i < n; ++i) y[i] = same * from[i * step];
    for (int64_t t = 1; t < count; ++t)
      for (int64_t i = 0; i < n; ++i) y[i] += same * from[i * step + t];
    return;
  }
  const int64_t* start = taps.dim->start.data();
  const int64_t* count = taps.dim->count.data();
  const int64_t stride = taps.dim->taps;
  const A* w = taps.weight.get();
  for (int64_t i = 0; i < n; ++i, w += stride) {
    const A* at = x + start[i];
    switch (count[i]) {
      case 0:
        y[i] = A(0);
        break;
      case 1:
        y[i] = w[0] * at[0];
        break;
      case 2:
        y[i] = w[0] * at[0] + w[1] * at[1];
        break;
      case 3:
        y[i] = w[0] * at[0] + w[1] * at[1] + w[2] * at[2];
        break;
      case 4:
        y[i] = (w[0] * at[0] + w[1] * at[1]) + (w[2] * at[2] + w[3] * at[3]);
        break;
      default: {
        A sum = 0;
        for (int64_t t = 0; t < count[i]; ++t) sum += w[t] * at[t];
        y[i] = sum;
      }
    }
  }
}

template <class A>
void pass(const Taps<A>& taps, int64_t outer, int64_t inner, const A* x, A* y) {
  const int64_t in = taps.dim->in, out = taps.dim->out;
  for (int64_t o = 0; o < outer; ++o) {
    if (inner == 1) {
      mix_row(taps, x + o * in, y + o * out);
      continue;
    }
    for (int64_t i = 0; i < out; ++i)
      mix_rows(x + (o * in + taps.start(i)) * inner, taps.of(i), taps.number(i), inner,
               y + (o * out + i) * inner);
  }
}

// The dims whose map is not the identity; those that shrink the plane come first.
template <class A>
class Passes {
 public:
  explicit Passes(const Resampling& r) : r_(r) {
    for (int d = 0; d < 3; ++d)
      if (!r.dims[d].identity) order_[count_++] = d;
    std::sort(order_, order_ + count_, [&](int a, int b) { return growth(a) < growth(b); });
    for (int i = 0; i < count_; ++i) taps_[i].reset(new Taps<A>(r.dims[order_[i]]));
    int64_t sizes[3] = {r.dims[0].in, r.dims[1].in, r.dims[2].in}, most = 0;
    for (int i = 0; i < count_; ++i) {
      sizes[order_[i]] = r.dims[order_[i]].out;
      most = std::max(most, sizes[0] * sizes[1] * sizes[2]);
    }
    if (count_ > 1) room_[0].reset(new A[static_cast<size_t>(most)]);
    if (count_ > 2) room_[1].reset(new A[static_cast<size_t>(most)]);
  }
  void run(const A* x, A* y) const {
    if (count_ == 0) return (void)std::copy(x, x + r_.in_size(), y);
    int64_t sizes[3] = {r_.dims[0].in, r_.dims[1].in, r_.dims[2].in};
    const A* from = x;
    for (int i = 0; i < count_; ++i) {
      const int d = order_[i];
      A* to = i + 1 == count_ ? y : room_[i].get();
      int64_t outer = 1, inner = 1;
      for (int k = 0; k < d; ++k) outer *= sizes[k];
      for (int k = d + 1; k < 3; ++k) inner *= sizes[k];
      pass(*taps_[i], outer, inner, from, to);
      sizes[d] = r_.dims[d].out;
      from = to;
    }
  }

 private:
  double growth(int d) const {
    return static_cast<double>(r_.dims[d].out) /
           static_cast<double>(std::max<int64_t>(1, r_.dims[d].in));
  }
  const Resampling& r_;
  int order_[3] = {0, 0, 0}, count_ = 0;
  std::unique_ptr<Taps<A>> taps_[3];
  std::unique_ptr<A[]> room_[2];
};

template <class T>
void planes(const Resampling& r, int64_t count, const void* x, void* y) {
  using A = std::conditional_t<sizeof(T) == 8, double, float>;
  const Passes<A> passes(r);
  const int64_t in = r.in_size(), out = r.out_size();
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  if constexpr (std::is_same_v<T, A>) {
    for (int64_t p = 0; p < count; ++p) passes.run(from + p * in, to + p * out);
  } else {
    const std::unique_ptr<A[]> a(new A[static_cast<size_t>(in)]),
        b(new A[static_cast<size_t>(out)]);
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t i = 0; i < in; ++i) a[static_cast<size_t>(i)] = static_cast<A>(from[p * in + i]);
      passes.run(a.get(), b.get());
      for (int64_t i = 0; i < out; ++i) to[p * out + i] = static_cast<T>(b[static_cast<size_t>(i)]);
    }
  }
}

}  // namespace

ResampleLoops resample_loops() {
  return {[](DType t, const Resampling& r, int64_t count, const void* x, void* y) {
    if (t == DType::Int64) return planes<int64_t>(r, count, x, y);
    dispatch_floating(t, [&]<class T>(TypeTag<T>) { planes<T>(r, count, x, y); });
  }};
}

}  // namespace cograd::kernels::COGRAD_ISA
