// SPDX-License-Identifier: BSD-3-Clause
// searchsorted, bincount and histograms.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "cograd/error.h"
#include "kernels/core/element.h"
#include "kernels/index/sort.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kGrain = 1 << 12;

// Compares the 16-bit types as float.
template <class T>
using Plain = std::conditional_t<std::is_class_v<T>, float, T>;

// Returns the first position whose entry is >= v (> v if right). Uses negations, as torch does, so
// that a NaN, as v or in the sequence, is treated as larger than everything.
template <class T, class At>
int64_t bound(int64_t n, T v, bool right, const At& at) {
  int64_t lo = 0, hi = n;
  while (lo < hi) {
    const int64_t mid = lo + (hi - lo) / 2;
    const T m = at(mid);
    if (right ? !(m > v) : !(m >= v)) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return lo;
}

template <class T, class Out>
void search(const T* sorted, const int64_t* sorter, int64_t n, bool shared, const T* values,
            int64_t batch, int64_t m, bool right, Out* out) {
  using P = Plain<T>;
  parallel_for(0, batch * m, kGrain, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t row = shared ? 0 : lo / m * n;
      const P v = static_cast<P>(values[lo]);
      const T* seq = sorted + row;
      int64_t at;
      if (sorter == nullptr) {
        at = bound(n, v, right, [=](int64_t i) { return static_cast<P>(seq[i]); });
      } else {
        const int64_t* order = sorter + row;
        at = bound(n, v, right, [=](int64_t i) {
          const int64_t k = load_index(order + i);
          if (!within(k, n)) [[unlikely]]
            return P();
          return static_cast<P>(seq[k]);
        });
      }
      out[lo] = static_cast<Out>(at);
    }
  });
}

// Adds weights (or 1) to bins in double, then writes the bins in x's dtype.
template <class T, class Bin>
void histogram(const T* x, const T* weights, int64_t n, int64_t bins, T* out, const Bin& bin) {
  std::vector<double> total(static_cast<size_t>(bins), 0.0);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t b = bin(static_cast<Plain<T>>(x[i]));
    if (b < 0) continue;
    const auto w = weights == nullptr ? 1.0 : static_cast<double>(Plain<T>(weights[i]));
    total[static_cast<size_t>(b)] += w;
  }
  for (int64_t b = 0; b < bins; ++b) {
    out[b] = static_cast<T>(static_cast<Plain<T>>(total[static_cast<size_t>(b)]));
  }
}

}  // namespace

void searchsorted(DType t, const void* sorted, const int64_t* sorter, int64_t n, bool shared,
                  const void* values, int64_t batch, int64_t m, bool right, DType out_dtype,
                  void* out) {
  COGRAD_SLOT(searchsorted, t, sorted, sorter, n, shared, values, batch, m, right, out_dtype, out);
  HeavyScope heavy(batch * m * 16);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* s = static_cast<const T*>(sorted);
    const T* v = static_cast<const T*>(values);
    if (out_dtype == DType::Int32) {
      search(s, sorter, n, shared, v, batch, m, right, static_cast<int32_t*>(out));
    } else {
      search(s, sorter, n, shared, v, batch, m, right, static_cast<int64_t*>(out));
    }
  });
}

int64_t bincount_size(DType t, const void* x, int64_t n) {
  COGRAD_SLOT_READS(bincount_size, t, x, n);
  HeavyScope heavy(n);
  return dispatch_real(t, [&](auto tag) -> int64_t {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      const T* p = static_cast<const T*>(x);
      int64_t top = -1;
      for (int64_t i = 0; i < n; ++i) {
        const auto v = static_cast<int64_t>(p[i]);
        COGRAD_CHECK(v >= 0, "bincount only supports 1-d non-negative integral inputs, got ", v);
        top = std::max(top, v);
      }
      COGRAD_CHECK(top < std::numeric_limits<int64_t>::max(),
                   "maximum value of input overflowed, it should be < ",
                   std::numeric_limits<int64_t>::max(), " but got ", top);
      return top + 1;
    } else {
      detail::fail(ErrorKind::Runtime, "bincount: input has dtype ", dtype_name(t),
                   ", expected an integer dtype");
    }
  });
}

void bincount(DType t, const void* x, int64_t n, DType weight_dtype, const void* weights,
              int64_t bins, void* out) {
  COGRAD_SLOT(bincount, t, x, n, weight_dtype, weights, bins, out);
  HeavyScope heavy(n);
  const auto count = [&]<class W>(TypeTag<W>, const W* w, auto* total) {
    std::fill_n(total, bins, 0);
    dispatch_real(t, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (std::is_integral_v<T>) {
        const T* p = static_cast<const T*>(x);
        using Total = std::remove_pointer_t<decltype(total)>;
        for (int64_t i = 0; i < n; ++i) {
          const auto bin = static_cast<int64_t>(load_index(p + i));
          if (within(bin, bins)) total[bin] += w == nullptr ? Total(1) : static_cast<Total>(w[i]);
        }
      }
    });
  };
  if (weights == nullptr) {
    return count(TypeTag<int64_t>{}, static_cast<const int64_t*>(nullptr),
                 static_cast<int64_t*>(out));
  }
  if (weight_dtype == DType::Float32) {
    std::vector<double> total(static_cast<size_t>(bins));
    count(TypeTag<float>{}, static_cast<const float*>(weights), total.data());
    for (int64_t i = 0; i < bins; ++i) {
      static_cast<float*>(out)[i] = static_cast<float>(total[static_cast<size_t>(i)]);
    }
    return;
  }
  COGRAD_CHECK(weight_dtype == DType::Float64, "bincount: weights have dtype ",
               dtype_name(weight_dtype), ", expected float32 or float64");
  count(TypeTag<double>{}, static_cast<const double*>(weights), static_cast<double*>(out));
}

void histogram_uniform(DType t, const void* x, const void* weights, int64_t n, double lo, double hi,
                       int64_t bins, void* out) {
  COGRAD_SLOT(histogram_uniform, t, x, weights, n, lo, hi, bins, out);
  HeavyScope heavy(n);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    histogram(static_cast<const T*>(x), static_cast<const T*>(weights), n, bins,
              static_cast<T*>(out), [=](Plain<T> raw) -> int64_t {
                const auto v = static_cast<double>(raw);
                if (!(v >= lo && v <= hi)) return -1;
                const auto b =
                    static_cast<int64_t>((v - lo) / (hi - lo) * static_cast<double>(bins));
                return std::min(b, bins - 1);
              });
  });
}

void histogram_edges(DType t, const void* x, const void* weights, int64_t n, const void* edges,
                     int64_t bins, void* out) {
  COGRAD_SLOT(histogram_edges, t, x, weights, n, edges, bins, out);
  HeavyScope heavy(n * 8);
  dispatch_real(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* e = static_cast<const T*>(edges);
    const auto at = [e](int64_t i) { return static_cast<Plain<T>>(e[i]); };
    histogram(static_cast<const T*>(x), static_cast<const T*>(weights), n, bins,
              static_cast<T*>(out), [&](Plain<T> v) -> int64_t {
                if (!(v >= at(0) && v <= at(bins))) return -1;
                return std::min(bound(bins + 1, v, true, at) - 1, bins - 1);
              });
  });
}

}  // namespace cograd::kernels
