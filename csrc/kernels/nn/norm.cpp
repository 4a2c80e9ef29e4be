// SPDX-License-Identifier: BSD-3-Clause
// Divides layer normalisation among threads by rows and adds the partial weight gradients in order.
#include "kernels/nn/norm.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/core/isa.h"
#include "kernels/nn/norm_loops.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {

COGRAD_ISA_VALUE(LayerNormLoops, layer_norm_loops)

namespace {

constexpr int64_t kGrain = 1 << 14;  // elements per task
constexpr int64_t kMaxPartials = 32;

template <class T>
const T* at(const void* p, int64_t i) {
  return p == nullptr ? nullptr : static_cast<const T*>(p) + i;
}

// Computes total[j] = sum over chunks of partial[chunk][j] in double and writes it as T.
template <class T, class A>
void add_partials(const A* partial, int64_t chunks, int64_t n, void* out) {
  if (out == nullptr) return;
  std::vector<double> total(static_cast<size_t>(n), 0.0);
  for (int64_t c = 0; c < chunks; ++c) {
    for (int64_t j = 0; j < n; ++j) {
      total[static_cast<size_t>(j)] += static_cast<double>(partial[c * n + j]);
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    const auto v = static_cast<A>(total[static_cast<size_t>(j)]);
    static_cast<T*>(out)[j] = static_cast<T>(v);
  }
}

template <class T, class A>
void backward(DType t, const void* g, const void* x, const void* mean, const void* rstd,
              const void* weight, int64_t rows, int64_t n, void* gx, void* gweight, void* gbias) {
  const LayerNormLoops loops = layer_norm_loops();
  const int64_t chunk = std::max(
      {int64_t{1}, (rows + kMaxPartials - 1) / kMaxPartials, kGrain / std::max<int64_t>(n, 1)});
  const int64_t chunks = (rows + chunk - 1) / chunk;
  std::vector<A> gw(static_cast<size_t>(gweight == nullptr ? 0 : chunks * n), A(0));
  std::vector<A> gb(static_cast<size_t>(gbias == nullptr ? 0 : chunks * n), A(0));
  parallel_for(0, chunks, 1, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t r = lo * chunk;
      loops.backward(t, at<T>(g, r * n), at<T>(x, r * n), at<A>(mean, r), at<A>(rstd, r), weight,
                     std::min(chunk, rows - r), n,
                     gx == nullptr ? nullptr : static_cast<T*>(gx) + r * n,
                     gweight == nullptr ? nullptr : gw.data() + lo * n,
                     gbias == nullptr ? nullptr : gb.data() + lo * n);
    }
  });
  add_partials<T>(gw.data(), gweight == nullptr ? 0 : chunks, n, gweight);
  add_partials<T>(gb.data(), gbias == nullptr ? 0 : chunks, n, gbias);
}

}  // namespace

void layer_norm_forward(DType t, const void* x, const void* weight, const void* bias, int64_t rows,
                        int64_t n, double eps, void* y, void* mean, void* rstd) {
  COGRAD_SLOT(layer_norm_forward, t, x, weight, bias, rows, n, eps, y, mean, rstd);
  HeavyScope heavy(rows * n);
  const LayerNormLoops loops = layer_norm_loops();
  const int64_t itemsize = dtype_size(t), stat = t == DType::Float64 ? 8 : 4;
  const auto grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1));
  parallel_for(0, rows, grain, [&](int64_t lo, int64_t hi) {
    loops.forward(t, static_cast<const char*>(x) + lo * n * itemsize, weight, bias, hi - lo, n, eps,
                  static_cast<char*>(y) + lo * n * itemsize, static_cast<char*>(mean) + lo * stat,
                  static_cast<char*>(rstd) + lo * stat);
  });
}

void layer_norm_backward(DType t, const void* g, const void* x, const void* mean, const void* rstd,
                         const void* weight, int64_t rows, int64_t n, void* gx, void* gweight,
                         void* gbias) {
  COGRAD_SLOT(layer_norm_backward, t, g, x, mean, rstd, weight, rows, n, gx, gweight, gbias);
  HeavyScope heavy(rows * n);
  const auto run = [&]<class T, class A>(TypeTag<T>, TypeTag<A>) {
    backward<T, A>(t, g, x, mean, rstd, weight, rows, n, gx, gweight, gbias);
  };
  switch (t) {
    case DType::Float16:
      return run(TypeTag<Half>{}, TypeTag<float>{});
    case DType::BFloat16:
      return run(TypeTag<BFloat16>{}, TypeTag<float>{});
    case DType::Float32:
      return run(TypeTag<float>{}, TypeTag<float>{});
    default:
      return run(TypeTag<double>{}, TypeTag<double>{});
  }
}

}  // namespace cograd::kernels
