// SPDX-License-Identifier: BSD-3-Clause
// Accuracy, special values, gradients and layouts of the elementwise kernels. Exits 1 on failure.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/cast.h"
#include "kernels/core/isa_names.h"
#include "kernels/elementwise/tables.h"

using namespace cograd;
using namespace cograd::kernels;

namespace {

int g_failures = 0;
std::mt19937_64 g_random(7);

void fail(const std::string& what) {
  ++g_failures;
  if (g_failures < 60) std::printf("FAIL %s\n", what.c_str());
}
#define EXPECT(condition, ...) \
  if (!(condition)) fail(cograd::detail::concat(__VA_ARGS__))

const char* kUnaryNames[] = {
#define UNARY(name, ...) #name,
#define UNARY_BOOL(name, ...) #name,
#include "kernels/elementwise/elementwise.def"
};
const char* kBinaryNames[] = {
#define BINARY(name, ...) #name,
#define BINARY_BOOL(name, ...) #name,
#define BINARY_FLAT(name, ...) #name,
#include "kernels/elementwise/elementwise.def"
};

template <class T, class... In>
std::vector<T> run(LoopFn fn, const ElementParams* p, const In&... in) {
  const int64_t n = static_cast<int64_t>(std::max({in.size()...}));
  std::vector<T> out(static_cast<size_t>(n));
  const int64_t size = sizeof(T);
  const int64_t strides[] = {size, (in.size() == 1 ? 0 : size)...};
  char* ptrs[] = {reinterpret_cast<char*>(out.data()),
                  reinterpret_cast<char*>(const_cast<T*>(in.data()))...};
  fn(ptrs, strides, n, p);
  return out;
}

template <class T>
double ulps(T got, long double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1e30;
  const T rounded = static_cast<T>(want);
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) {
    // One step over the edge of the range is one ulp.
    const T edge = std::numeric_limits<T>::max();
    return std::abs(got) >= edge && std::abs(rounded) >= edge && (got > 0) == (rounded > 0) ? 1
                                                                                            : 1e30;
  }
  int exponent;
  std::frexp(want, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / ulp);
}

// Ordinary values, every exponent, and the special ones.
template <class T>
std::vector<T> sample_inputs(double lo, double hi) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> v = {T(0),
                      -T(0),
                      T(1),
                      T(-1),
                      T(0.5),
                      T(-0.5),
                      T(2),
                      T(-2),
                      Limits::infinity(),
                      -Limits::infinity(),
                      Limits::quiet_NaN(),
                      Limits::max(),
                      Limits::lowest(),
                      Limits::min(),
                      Limits::denorm_min(),
                      -Limits::denorm_min(),
                      T(1e5),
                      T(-1e5),
                      T(1e15),
                      T(-1e15)};
  std::uniform_real_distribution<double> ordinary(lo, hi),
      exponent(Limits::min_exponent, Limits::max_exponent);
  for (int i = 0; i < 60000; ++i) v.push_back(static_cast<T>(ordinary(g_random)));
  for (int i = 0; i < 60000; ++i) {
    const double m = std::exp2(exponent(g_random));
    v.push_back(static_cast<T>((i & 1) != 0 ? m : -m));
  }
  return v;
}

using Reference = long double (*)(long double);
struct Accuracy {
  UnaryOp op;
  Reference reference;
  double lo, hi;
  double max_ulp = 4;
};
const long double kPiL = std::acos(-1.0L);
const Accuracy kAccuracy[] = {
    {UnaryOp::exp, std::exp, -100, 90},
    {UnaryOp::exp2, std::exp2, -140, 130},
    {UnaryOp::expm1, std::expm1, -3, 3},
    {UnaryOp::log, std::log, 0, 4},
    {UnaryOp::log1p, std::log1p, -1, 3},
    {UnaryOp::log2, std::log2, 0, 4},
    {UnaryOp::log10, std::log10, 0, 4},
    {UnaryOp::sin, std::sin, -10, 10},
    {UnaryOp::cos, std::cos, -10, 10},
    {UnaryOp::tan, std::tan, -10, 10},
    {UnaryOp::asin, std::asin, -1, 1},
    {UnaryOp::acos, std::acos, -1, 1},
    {UnaryOp::atan, std::atan, -4, 4},
    {UnaryOp::sinh, std::sinh, -4, 4},
    {UnaryOp::cosh, std::cosh, -4, 4},
    {UnaryOp::tanh, std::tanh, -4, 4},
    {UnaryOp::asinh, std::asinh, -4, 4},
    {UnaryOp::acosh, std::acosh, 1, 4},
    {UnaryOp::atanh, std::atanh, -1, 1},
    {UnaryOp::erf, std::erf, -4, 4},
    {UnaryOp::erfc, std::erfc, -4, 9, 8},
    {UnaryOp::sqrt, std::sqrt, 0, 4, 0.5},
    {UnaryOp::floor, std::floor, -9, 9, 0},
    {UnaryOp::round, std::nearbyint, -9, 9, 0},
    {UnaryOp::sigmoid, [](long double v) { return 1 / (1 + std::exp(-v)); }, -20, 20},
    {UnaryOp::rsqrt, [](long double v) { return 1 / std::sqrt(v); }, 0, 4, 1.5},
    {UnaryOp::erfinv,
     [](long double v) {
       if (!(std::abs(v) < 1)) return v == 1 ? HUGE_VALL : v == -1 ? -HUGE_VALL : NAN;
       const long double p = std::abs(v);
       if (p == 0) return v;
       long double y = p < 0.9L ? p * 0.886L : std::sqrt(-std::log((1 - p) * 1.7724L));
       for (int i = 0; i < 60; ++i) {
         const long double e = p < 0.5L ? std::erf(y) - p : (1 - p) - std::erfc(y);
         const long double u = e * std::exp(y * y) * std::sqrt(kPiL) / 2;
         y -= u / (1 + y * u);
       }
       return std::copysign(y, v);
     },
     -1, 1},
};

template <class T>
void test_accuracy(DType t) {
  for (const Accuracy& row : kAccuracy) {
    const std::vector<T> x = sample_inputs<T>(row.lo, row.hi);
    const std::vector<T> y = run<T>(ElementRow(row.op).loop(t), nullptr, x);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const long double want = row.reference(static_cast<long double>(x[i]));
      // exp(-x) overflows before sigmoid(x) becomes subnormal; torch gives 0 there too.
      if (row.op == UnaryOp::sigmoid && want < std::numeric_limits<T>::min() && y[i] == 0) continue;
      const double e = ulps(y[i], want);
      if (e > worst) {
        worst = e;
        where = i;
      }
    }
    const char* name = kUnaryNames[static_cast<int>(row.op)];
    if (std::getenv("VERBOSE")) std::printf("%-8s %s %.2f ulp\n", name, dtype_name(t), worst);
    EXPECT(worst <= row.max_ulp, name, " ", dtype_name(t), ": ", worst, " ulp at ",
           static_cast<double>(x[where]), ", got ", static_cast<double>(y[where]), ", expected ",
           static_cast<double>(row.reference(x[where])));
  }
}

using Reference2 = long double (*)(long double, long double);
struct Accuracy2 {
  BinaryOp op;
  Reference2 reference;
  double max_ulp;
};
const Accuracy2 kAccuracy2[] = {
    {BinaryOp::pow_tensor, std::pow, 4},
    {BinaryOp::atan2, std::atan2, 4},
    {BinaryOp::hypot, std::hypot, 4},
    {BinaryOp::fmod, std::fmod, 0},
    {BinaryOp::remainder,
     [](long double a, long double b) {
       const long double r = std::fmod(a, b);
       return r != 0 && (r < 0) != (b < 0) ? r + b : r;
     },
     0.5},
};

template <class T>
void test_accuracy2(DType t) {
  for (const Accuracy2& row : kAccuracy2) {
    std::vector<T> a = sample_inputs<T>(-5, 5), b = a;
    std::shuffle(b.begin(), b.end(), g_random);
    for (const T& u : std::vector<T>(a.begin(), a.begin() + 20)) {
      for (size_t i = 0; i < 20; ++i) {
        b.push_back(a[i]);
        a.push_back(u);
      }
    }
    const std::vector<T> y = run<T>(ElementRow(row.op).loop(t), nullptr, a, b);
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double e = ulps(y[i], row.reference(a[i], b[i]));
      if (e > worst) {
        worst = e;
        where = i;
      }
    }
    const char* name = kBinaryNames[static_cast<int>(row.op)];
    if (std::getenv("VERBOSE")) std::printf("%-8s %s %.2f ulp\n", name, dtype_name(t), worst);
    EXPECT(worst <= row.max_ulp, name, " ", dtype_name(t), ": ", worst, " ulp at ",
           static_cast<double>(a[where]), ", ", static_cast<double>(b[where]), ", got ",
           static_cast<double>(y[where]));
  }
}

// Parameters that suit every parameterised row; unused ones are ignored.
ElementParams sample_params(const std::string& name) {
  ElementParams p;
  p.set(0, 0.7).set(1, name == "softplus" ? 20.0 : 1.3).set(2, -1.0);
  if (name == "hardtanh" || name == "clamp") p.set(0, -0.6).set(1, 0.8);
  if (name == "pow_scalar") p.set(0, 2.5);
  if (name == "logit") p.set(0, -1e9);
  if (name == "polygamma_of") p.set(0, 3.0);  // an order of derivative
  return p;
}

void expect_slope(const char* name, double got, double up, double down, double h, double at) {
  const double want = (up - down) / (2 * h);
  EXPECT(std::abs(got - want) <= 2e-5 * (1 + std::abs(want)), name, ": gradient ", got,
         ", central difference ", want, " at ", at);
}

void check_unary_gradient(const char* name, UnaryOp op, char saves, double lo, double hi) {
  const LoopFn backward = unary_backward_loop(op, DType::Float64);
  if (backward == nullptr) return;
  const LoopFn forward = ElementRow(op).loop(DType::Float64);
  const ElementParams p = sample_params(name);
  constexpr double kStep = 1e-6;
  std::uniform_real_distribution<double> d(lo, hi);
  std::vector<double> x(200), up, down, g(200, 1.5);
  for (double& v : x) {
    v = d(g_random);
    if (std::abs(v - std::round(v)) < 1e-3) v += 2e-3;
  }
  for (double v : x) {
    up.push_back(v + kStep);
    down.push_back(v - kStep);
  }
  const std::vector<double> y = run<double>(forward, &p, x);
  const std::vector<double> hi_y = run<double>(forward, &p, up);
  const std::vector<double> lo_y = run<double>(forward, &p, down);
  const std::vector<double> gx = saves == 'G'   ? run<double>(backward, &p, g)
                                 : saves == 'X' ? run<double>(backward, &p, g, x)
                                                : run<double>(backward, &p, g, y);
  for (size_t i = 0; i < x.size(); ++i)
    expect_slope(name, gx[i], 1.5 * hi_y[i], 1.5 * lo_y[i], kStep, x[i]);
}

void check_binary_gradient(const char* name, BinaryOp op, int which, const std::string& saves,
                           double lo, double hi) {
  const LoopFn backward = binary_backward_loop(op, which, DType::Float64);
  if (backward == nullptr) return;
  const LoopFn forward = ElementRow(op).loop(DType::Float64);
  const ElementParams p = sample_params(name);
  constexpr double kStep = 1e-6;
  std::uniform_real_distribution<double> d(lo, hi);
  std::vector<double> in[2], up[2], down[2], g(200, 1.5);
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < 200; ++i) in[k].push_back(d(g_random));
    up[k] = down[k] = in[k];
  }
  for (size_t i = 0; i < 200; ++i) {
    up[which][i] += kStep;
    down[which][i] -= kStep;
  }
  const std::vector<double> y = run<double>(forward, &p, in[0], in[1]);
  const std::vector<double> hi_y = run<double>(forward, &p, up[0], up[1]);
  const std::vector<double> lo_y = run<double>(forward, &p, down[0], down[1]);
  std::vector<char*> ptrs = {nullptr, reinterpret_cast<char*>(g.data())};
  for (char c : saves) {
    const auto& from = c == 'A' ? in[0] : c == 'B' ? in[1] : y;
    if (c != 'G') ptrs.push_back(reinterpret_cast<char*>(const_cast<double*>(from.data())));
  }
  std::vector<double> gx(200);
  ptrs[0] = reinterpret_cast<char*>(gx.data());
  const std::vector<int64_t> strides(ptrs.size(), 8);
  backward(ptrs.data(), strides.data(), 200, &p);
  for (size_t i = 0; i < 200; ++i)
    expect_slope(name, gx[i], 1.5 * hi_y[i], 1.5 * lo_y[i], kStep, in[0][i]);
}

void test_gradients() {
#define UNARY(name, types, cost, args, forward, saves, grad, doc, ref, lo, hi, ...) \
  check_unary_gradient(#name, UnaryOp::name, #saves[0], lo, hi);
#define BINARY(name, types, cost, args, forward, saves_a, grad_a, saves_b, grad_b, doc, ref, lo, \
               hi, ...)                                                                          \
  check_binary_gradient(#name, BinaryOp::name, 0, #saves_a, lo, hi);                             \
  check_binary_gradient(#name, BinaryOp::name, 1, #saves_b, lo, hi);
#include "kernels/elementwise/elementwise.def"
}

// An element's bits do not depend on its place, the strides or the length of the run.
template <class T>
void test_placement(DType t) {
  constexpr size_t kN = 700;
  for (int op = 0; op < static_cast<int>(UnaryOp::kCount); ++op) {
    const LoopFn fn = ElementRow(static_cast<UnaryOp>(op)).loop(t);
    if (fn == nullptr) continue;
    const ElementParams p = sample_params(kUnaryNames[op]);
    std::vector<T> x(kN * 3);
    std::uniform_real_distribution<double> d(-3, 3);
    for (T& v : x) v = static_cast<T>(static_cast<float>(d(g_random)));
    std::vector<T> spread(kN * 2), packed(kN), one(1);
    char* in = reinterpret_cast<char*>(x.data());
    const int64_t size = sizeof(T), wide[] = {2 * size, 3 * size}, tight[] = {size, size};
    char* ptrs[] = {reinterpret_cast<char*>(spread.data()), in};
    std::vector<T> gathered(kN);
    for (size_t i = 0; i < kN; ++i) gathered[i] = x[3 * i];
    char* direct[] = {reinterpret_cast<char*>(packed.data()),
                      reinterpret_cast<char*>(gathered.data())};
    fn(direct, tight, kN, &p);
    // Rows with a bool output write bytes: compare the plain layout only.
    const std::string name = kUnaryNames[op];
    if (name.starts_with("is") || name == "signbit" || name == "logical_not") continue;
    fn(ptrs, wide, kN, &p);
    for (size_t i = 0; i < kN; i += 13) {
      EXPECT(std::memcmp(&spread[2 * i], &packed[i], sizeof(T)) == 0, kUnaryNames[op], " ",
             dtype_name(t), ": strided run differs at ", i);
      char* single[] = {reinterpret_cast<char*>(one.data()), reinterpret_cast<char*>(&gathered[i])};
      fn(single, tight, 1, &p);
      EXPECT(std::memcmp(&one[0], &packed[i], sizeof(T)) == 0, kUnaryNames[op], " ", dtype_name(t),
             ": run of one differs at ", i);
    }
    char* same[] = {direct[1], direct[1]};
    fn(same, tight, kN, &p);
    EXPECT(std::memcmp(gathered.data(), packed.data(), kN * sizeof(T)) == 0, kUnaryNames[op], " ",
           dtype_name(t), ": in-place run differs");
  }
}

}  // namespace

int main() {
  std::printf("isa %s\n", isa_name());
  test_accuracy<float>(DType::Float32);
  test_accuracy<double>(DType::Float64);
  test_accuracy2<float>(DType::Float32);
  test_accuracy2<double>(DType::Float64);
  test_gradients();
  test_placement<float>(DType::Float32);
  test_placement<double>(DType::Float64);
  test_placement<Half>(DType::Float16);
  test_placement<BFloat16>(DType::BFloat16);
  std::printf(g_failures == 0 ? "ok\n" : "%d failures\n", g_failures);
  return g_failures == 0 ? 0 : 1;
}
