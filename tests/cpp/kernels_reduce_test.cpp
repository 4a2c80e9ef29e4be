// SPDX-License-Identifier: BSD-3-Clause
// Reductions, softmax, scans, layer norm and losses against plain loops in double.
#include <algorithm>
#include <limits>

#include "kernels/nn/loss.h"
#include "kernels/nn/norm.h"
#include "kernels/nn/softmax.h"
#include "kernels/reduce/reduce.h"
#include "kernels/reduce/scan.h"
#include "kernels_check.h"
#include "tensor/threads.h"

using namespace cograd;
using namespace cograd::kernels;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
double tolerance() {
  if (sizeof(T) == 8) return 1e-12;
  return sizeof(T) == 4 ? 1e-5 : 2e-2;
}
template <class T>
double wide(T v) {
  if constexpr (std::is_class_v<T>)
    return static_cast<double>(static_cast<float>(v));
  else
    return static_cast<double>(v);
}

double plain(ReduceOp op, const std::vector<double>& v) {
  const auto n = static_cast<double>(v.size());
  double sum = 0, prod = 1, low = kInf, high = -kInf, nonzero = 0, squares = 0, abs = 0, exps = 0;
  for (double x : v) {
    sum += x;
    prod *= x;
    low = x != x || low != low ? kNan : std::min(low, x);
    high = x != x || high != high ? kNan : std::max(high, x);
    nonzero += x != 0;
    squares += x * x;
    abs += std::abs(x);
    exps += std::exp(x);
  }
  switch (op) {
    case ReduceOp::Sum:
      return sum;
    case ReduceOp::Mean:
      return sum / n;
    case ReduceOp::Prod:
      return prod;
    case ReduceOp::Min:
      return low;
    case ReduceOp::Max:
      return high;
    case ReduceOp::CountNonzero:
    case ReduceOp::Norm0:
      return nonzero;
    case ReduceOp::SumSquares:
      return squares;
    case ReduceOp::Norm1:
      return abs;
    case ReduceOp::Norm2:
      return std::sqrt(squares);
    case ReduceOp::LogSumExp:
      return std::log(exps);
    default:
      return kNan;
  }
}

// A 3-d array reduced over each subset of its dimensions, from contiguous and permuted memory.
template <class T>
void test_reduce(const std::vector<int64_t>& sizes, const std::vector<int>& order, bool with_nan) {
  const int64_t n = sizes[0] * sizes[1] * sizes[2];
  std::vector<T> x = random_values<T>(n, 1, 0.7);
  if (with_nan && n > 3) x[3] = static_cast<T>(static_cast<float>(kNan));
  std::vector<int64_t> strides(3);
  int64_t stride = 1;
  for (int d = 2; d >= 0; --d) {
    strides[static_cast<size_t>(order[static_cast<size_t>(d)])] = stride;
    stride *= sizes[static_cast<size_t>(order[static_cast<size_t>(d)])];
  }
  for (unsigned mask = 1; mask < 8; ++mask) {
    std::vector<int64_t> ks, kst, rs, rst;
    for (unsigned d = 0; d < 3; ++d) {
      auto& s = mask >> d & 1 ? rs : ks;
      auto& st = mask >> d & 1 ? rst : kst;
      s.push_back(sizes[d]);
      st.push_back(strides[d] * static_cast<int64_t>(sizeof(T)));
    }
    int64_t outputs = 1;
    for (int64_t s : ks) outputs *= s;
    const ReduceGeometry g{ks, kst, rs, rst};
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max,
                        ReduceOp::SumSquares, ReduceOp::Norm0, ReduceOp::Norm1, ReduceOp::Norm2,
                        ReduceOp::LogSumExp}) {
      if (n == 0 && (op == ReduceOp::Min || op == ReduceOp::Max)) continue;
      std::vector<T> y(static_cast<size_t>(outputs));
      reduce(op, dtype_of<T>, x.data(), g, dtype_of<T>, y.data());
      for (int64_t o = 0; o < outputs; ++o) {
        std::vector<double> terms;
        for (int64_t i = 0; i < n; ++i) {
          const int64_t at[3] = {i / sizes[2] / sizes[1], i / sizes[2] % sizes[1], i % sizes[2]};
          int64_t place = 0, out = 0;
          for (unsigned d = 0; d < 3; ++d) {
            place += at[d] * strides[d];
            if (!(mask >> d & 1)) out = out * sizes[d] + at[d];
          }
          if (out == o) terms.push_back(wide(x[static_cast<size_t>(place)]));
        }
        check_close(wide(y[static_cast<size_t>(o)]), plain(op, terms), tolerance<T>() * 4,
                    "reduce op " + std::to_string(static_cast<int>(op)) + " " +
                        dtype_name(dtype_of<T>) + " mask " + std::to_string(mask));
      }
    }
  }
}

void test_extremes() {
  const std::vector<double> x = {1, 3, 3, kNan, 5, kNan};
  const int64_t six = 6, five = 5, three = 3, stride = 8;
  int64_t at = -1;
  double v = 0;
  reduce_extreme(true, DType::Float64, x.data(), {{}, {}, {&six, 1}, {&stride, 1}}, &v, &at);
  check(std::isnan(v) && at == 3, "argmax: the first NaN wins");
  reduce_extreme(true, DType::Float64, x.data(), {{}, {}, {&three, 1}, {&stride, 1}}, &v, &at);
  check(v == 3 && at == 1, "argmax: the first of equals");
  const std::vector<double> inf(5, -kInf);
  reduce_extreme(true, DType::Float64, inf.data(), {{}, {}, {&five, 1}, {&stride, 1}}, &v, &at);
  check(v == -kInf && at == 0, "argmax of -inf");
  reduce(ReduceOp::LogSumExp, DType::Float64, inf.data(), {{}, {}, {&five, 1}, {&stride, 1}},
         DType::Float64, &v);
  check(v == -kInf, "logsumexp of -inf");
}

void test_accuracy_and_threads() {
  const int64_t n = 1 << 22, four = 4;
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 100.0f + static_cast<float>(i % 977) * 0.001f;
  double exact = 0, mean = 0, m2 = 0;
  for (float v : x) exact += static_cast<double>(v);
  mean = exact / static_cast<double>(n);
  for (float v : x) m2 += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  const ReduceGeometry g{{}, {}, {&n, 1}, {&four, 1}};
  float sums[3], vars[3];
  const int threads[3] = {1, 2, 5};
  const int before = num_threads();
  for (int k = 0; k < 3; ++k) {
    set_num_threads(threads[k]);
    reduce(ReduceOp::Sum, DType::Float32, x.data(), g, DType::Float32, &sums[k]);
    reduce_var(DType::Float32, x.data(), g, 1, false, DType::Float32, &vars[k], nullptr);
  }
  set_num_threads(before);
  check(sums[0] == sums[1] && sums[1] == sums[2], "sum does not depend on the thread count");
  check(vars[0] == vars[1] && vars[1] == vars[2], "var does not depend on the thread count");
  check_close(static_cast<double>(sums[0]) / exact, 1, 1e-7, "sum of 4M floats");
  check_close(static_cast<double>(vars[0]) / (m2 / static_cast<double>(n - 1)), 1, 1e-6, "var");
}

template <class T>
void test_softmax(int64_t outer, int64_t n, int64_t inner) {
  const auto x = random_values<T>(outer * n * inner, 2, 3),
             g = random_values<T>(outer * n * inner, 3);
  std::vector<T> y(x.size()), ly(x.size()), gx(x.size());
  softmax(dtype_of<T>, x.data(), y.data(), outer, n, inner);
  log_softmax(dtype_of<T>, x.data(), ly.data(), outer, n, inner);
  softmax_backward(dtype_of<T>, g.data(), y.data(), gx.data(), outer, n, inner);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < inner; ++j) {
      const auto at = [&](int64_t i) { return static_cast<size_t>((o * n + i) * inner + j); };
      double sum = 0, dot = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(wide(x[at(i)]));
      for (int64_t i = 0; i < n; ++i) dot += wide(g[at(i)]) * wide(y[at(i)]);
      for (int64_t i = 0; i < n; ++i) {
        const double p = std::exp(wide(x[at(i)])) / sum;
        check_close(wide(y[at(i)]), p, tolerance<T>(), "softmax");
        check_close(wide(ly[at(i)]), std::log(p), tolerance<T>(), "log_softmax");
        check_close(wide(gx[at(i)]), wide(y[at(i)]) * (wide(g[at(i)]) - dot), tolerance<T>(),
                    "softmax_backward");
      }
    }
  }
}

void test_scan() {
  const std::vector<float> x = {1, 3, 3, static_cast<float>(kNan), 2};
  std::vector<float> y(5);
  std::vector<int64_t> at(5);
  cummax(DType::Float32, x.data(), y.data(), at.data(), 1, 5, 1);
  check(at == std::vector<int64_t>({0, 1, 2, 3, 3}) && std::isnan(y[4]), "cummax");
  const std::vector<int8_t> small = {100, 100, 2};
  std::vector<int8_t> sums(3);
  cumsum(DType::Int8, small.data(), sums.data(), 1, 3, 1);
  check(sums == std::vector<int8_t>({100, -56, -54}), "cumsum wraps");
  const std::vector<double> low = {-kInf, -kInf, 0, 0};
  std::vector<double> lse(4);
  logcumsumexp(DType::Float64, low.data(), lse.data(), 1, 4, 1);
  check(lse[1] == -kInf && lse[2] == 0, "logcumsumexp of -inf");
  check_close(lse[3], std::log(2.0), 1e-14, "logcumsumexp");
}

// Central differences of the forward kernels against the backward ones.
void test_gradients() {
  const int64_t rows = 5, n = 37, total = rows * n;
  auto x = random_values<double>(total, 4);
  const auto g = random_values<double>(total, 5), w = random_values<double>(n, 6),
             b = random_values<double>(n, 7);
  std::vector<double> y(x.size()), mean(5), rstd(5), gx(x.size()), gw(37), gb(37);
  const auto norm = [&] {
    layer_norm_forward(DType::Float64, x.data(), w.data(), b.data(), rows, n, 1e-5, y.data(),
                       mean.data(), rstd.data());
    double dot = 0;
    for (size_t i = 0; i < y.size(); ++i) dot += y[i] * g[i];
    return dot;
  };
  norm();
  layer_norm_backward(DType::Float64, g.data(), x.data(), mean.data(), rstd.data(), w.data(), rows,
                      n, gx.data(), gw.data(), gb.data());
  const auto slope = [&](double& v, const auto& f) {
    const double old = v, h = 1e-5;
    v = old + h;
    const double up = f();
    v = old - h;
    const double down = f();
    v = old;
    return (up - down) / (2 * h);
  };
  for (size_t i = 0; i < x.size(); i += 7) check_close(gx[i], slope(x[i], norm), 1e-6, "ln gx");

  const std::vector<int64_t> target = {3, -100, 36, 0, 12};
  for (double smoothing : {0.0, 0.1}) {
    const NllGeometry geo{rows, n, 1, -100, smoothing, Reduction::Mean};
    std::vector<double> weight(37, 0.5), logp(x.size()), grad(x.size());
    double out = 0, count = 0, one = 1;
    const auto loss = [&] {
      cross_entropy_forward(DType::Float64, geo, x.data(), target.data(), weight.data(),
                            logp.data(), &out, &count);
      return out;
    };
    loss();
    cross_entropy_backward(DType::Float64, geo, &one, logp.data(), target.data(), weight.data(),
                           &count, grad.data());
    for (size_t i = 0; i < x.size(); i += 5) {
      check_close(grad[i], slope(x[i], loss), 1e-6, "cross entropy gradient");
    }
  }
  const int64_t bad = 40;
  double out[2] = {7, 7};
  check_throws(ErrorKind::Index, "Target 40 is out of bounds for 37 classes", [&] {
    nll_loss_forward(DType::Float64, {1, n, 1}, x.data(), &bad, nullptr, out, out + 1);
  });
  check(out[0] == 7 && out[1] == 7, "nothing written before the check");
}

}  // namespace

int main() {
  for (const auto& order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {1, 0, 2}}) {
    for (bool nan : {false, true}) {
      test_reduce<float>({3, 5, 40}, order, nan);
      test_reduce<double>({4, 3, 17}, order, nan);
      test_reduce<Half>({2, 7, 18}, order, nan);
      test_reduce<BFloat16>({2, 3, 5}, order, nan);
    }
    test_reduce<float>({3, 0, 2}, order, false);
  }
  test_extremes();
  test_accuracy_and_threads();
  for (int64_t inner : {int64_t{1}, int64_t{7}, int64_t{100}}) {
    test_softmax<float>(3, 37, inner);
    test_softmax<double>(2, 19, inner);
    test_softmax<Half>(2, 9, inner);
  }
  test_scan();
  test_gradients();
  return report("kernels_reduce_test");
}
