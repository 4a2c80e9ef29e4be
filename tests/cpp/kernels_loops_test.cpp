// SPDX-License-Identifier: BSD-3-Clause
// Strided iteration, casts, integer division and the thread pool. Exits 1 on failure.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/core/cast.h"
#include "kernels/core/isa_names.h"
#include "kernels/elementwise/tables.h"
#include "tensor/threads.h"

using namespace cograd;
using namespace cograd::kernels;

namespace {

int g_failures = 0;
std::mt19937 g_random(11);

#define EXPECT(condition, ...)           \
  if (!(condition) && ++g_failures < 40) \
  std::printf("FAIL %s\n", cograd::detail::concat(__LINE__, ": ", __VA_ARGS__).c_str())

int64_t random_up_to(int64_t n) {
  return static_cast<int64_t>(g_random() % static_cast<uint32_t>(n));
}

// A random strided view on its own buffer: permuted, with gaps, perhaps broadcast.
struct View {
  std::vector<int> buffer;
  std::vector<int64_t> strides;  // bytes
  int64_t offset = 0;
  View(const std::vector<int64_t>& shape, bool may_broadcast) : strides(shape.size(), 0) {
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (random_up_to(3) != 0) std::reverse(order.begin(), order.end());
    if (random_up_to(3) == 0) std::shuffle(order.begin(), order.end(), g_random);
    int64_t step = 4 * (1 + random_up_to(2));
    for (size_t d : order) {
      if (may_broadcast && random_up_to(4) == 0) continue;
      strides[d] = step;
      step *= shape[d] + (random_up_to(3) == 0 ? 1 : 0);
    }
    buffer.resize(static_cast<size_t>(step / 4 + 1));
    for (int& v : buffer) v = static_cast<int>(g_random() % 1000);
  }
  char* data() { return reinterpret_cast<char*>(buffer.data()); }
  int& at(const std::vector<int64_t>& index) {
    int64_t byte = 0;
    for (size_t d = 0; d < index.size(); ++d) byte += index[d] * strides[d];
    return buffer[static_cast<size_t>(byte / 4)];
  }
};

void test_strided() {
  const LoopFn fn = ElementRow(TernaryOp::addcmul).loop(DType::Int32);
  for (int round = 0; round < 1500; ++round) {
    std::vector<int64_t> shape(static_cast<size_t>(random_up_to(6)));
    const int64_t limit = shape.size() <= 2 ? 400 : shape.size() <= 3 ? 40 : 9;
    for (int64_t& n : shape) n = random_up_to(30) == 0 ? 0 : 1 + random_up_to(limit);
    View out(shape, false), a(shape, true), b(shape, true), c(shape, true);
    std::vector<int> untouched = out.buffer;
    ElementParams p;
    p.set(0, 3);
    const Operand ops[] = {{out.data(), out.strides.data()},
                           {a.data(), a.strides.data()},
                           {b.data(), b.strides.data()},
                           {c.data(), c.strides.data()}};
    run_loop(fn, static_cast<int>(shape.size()), shape.data(), ops, 4, &p);
    std::vector<int64_t> index(shape.size(), 0);
    int64_t total = 1;
    for (int64_t n : shape) total *= n;
    for (int64_t i = 0; i < total; ++i) {
      const int want = a.at(index) + 3 * b.at(index) * c.at(index);
      EXPECT(out.at(index) == want, "round ", round, ": got ", out.at(index), ", want ", want);
      out.at(index) = -1;
      for (size_t d = shape.size(); d-- > 0;) {
        if (++index[d] < shape[d]) break;
        index[d] = 0;
      }
    }
    // What the view does not reach must be as before.
    for (size_t i = 0; i < untouched.size(); ++i)
      EXPECT(out.buffer[i] == -1 || out.buffer[i] == untouched[i], "round ", round,
             ": stray write");
  }
}

template <class T>
double value_of(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return static_cast<double>(v);
}

void test_casts() {
  const double kValues[] = {0,  1,  2,    3,    7,   42,    100,   127,
                            -1, -2, -100, -128, 0.5, -0.75, 1.875, -1.875};
  for (int f = 0; f < kNumDTypes; ++f) {
    for (int t = 0; t < kNumDTypes; ++t) {
      const DType from = static_cast<DType>(f), to = static_cast<DType>(t);
      if (is_complex(from) || is_complex(to)) continue;  // tests/ops/test_complex.py
      dispatch_real(from, [&](auto from_tag) {
        dispatch_real(to, [&](auto to_tag) {
          using From = typename decltype(from_tag)::type;
          using To = typename decltype(to_tag)::type;
          for (int64_t stride : {1, 3}) {
            constexpr size_t kN = 1100;
            auto in = std::make_unique<From[]>(kN);
            auto out = std::make_unique<To[]>(kN * 3);
            for (size_t i = 0; i < kN; ++i) {
              double v = kValues[i % std::size(kValues)];
              if (!is_signed(from)) v = std::abs(v);
              in[i] = static_cast<From>(static_cast<float>(v));
            }
            const int64_t strides[] = {stride * dtype_size(to), dtype_size(from)};
            char* ptrs[] = {reinterpret_cast<char*>(out.get()), reinterpret_cast<char*>(in.get())};
            cast_loop(from, to)(ptrs, strides, kN, nullptr);
            for (size_t i = 0; i < kN; ++i) {
              const double v = value_of<From>(&in[i]);
              const double got = value_of<To>(&out[i * static_cast<size_t>(stride)]);
              double want = v;
              if (to == DType::Bool) want = v != 0;
              if (is_integral(to)) want = std::trunc(v);
              if (to == DType::UInt8 && want < 0) want += 256;
              if (to == DType::Int8 && want > 127) want -= 256;
              EXPECT(got == want, dtype_name(from), " to ", dtype_name(to), ": ", v, " gave ", got);
            }
          }
        });
      });
    }
  }
  // Every half and bfloat16 survives the way through float32, bit for bit (NaN stays NaN).
  for (DType t : {DType::Float16, DType::BFloat16}) {
    std::vector<uint16_t> all(65536), back(65536);
    std::vector<float> wide(65536);
    std::iota(all.begin(), all.end(), uint16_t{0});
    const int64_t down[] = {4, 2}, up[] = {2, 4};
    char* to_wide[] = {reinterpret_cast<char*>(wide.data()), reinterpret_cast<char*>(all.data())};
    char* to_back[] = {reinterpret_cast<char*>(back.data()), reinterpret_cast<char*>(wide.data())};
    cast_loop(t, DType::Float32)(to_wide, down, 65536, nullptr);
    cast_loop(DType::Float32, t)(to_back, up, 65536, nullptr);
    for (size_t i = 0; i < 65536; ++i) {
      EXPECT(back[i] == all[i] || std::isnan(wide[i]), dtype_name(t), " bits ", all[i]);
      const float want = t == DType::Float16 ? Half::to_float(all[i])
                                             : std::bit_cast<float>(uint32_t{all[i]} << 16);
      EXPECT(wide[i] == want || std::isnan(want), dtype_name(t), " value ", all[i]);
    }
    // Rounding to nearest even, against the scalar conversion of dtype.h.
    for (float& v : wide) v = std::bit_cast<float>(static_cast<uint32_t>(g_random()));
    cast_loop(DType::Float32, t)(to_back, up, 65536, nullptr);
    for (size_t i = 0; i < 65536; ++i) {
      if (std::isnan(wide[i])) continue;
      const uint16_t want =
          t == DType::Float16 ? Half::from_float(wide[i]) : BFloat16::from_float(wide[i]);
      EXPECT(back[i] == want, dtype_name(t), " of ", wide[i], " gave bits ", back[i]);
    }
  }
  // Out-of-range values are converted as the processor does it.
  float wild[] = {NAN, INFINITY, -INFINITY, 3e9f, -3e9f, 1e19f};
  int32_t got32[6];
  int64_t got64[6];
  char* p32[] = {reinterpret_cast<char*>(got32), reinterpret_cast<char*>(wild)};
  char* p64[] = {reinterpret_cast<char*>(got64), reinterpret_cast<char*>(wild)};
  const int64_t s32[] = {4, 4}, s64[] = {8, 4};
  cast_loop(DType::Float32, DType::Int32)(p32, s32, 6, nullptr);
  cast_loop(DType::Float32, DType::Int64)(p64, s64, 6, nullptr);
  for (int i = 0; i < 6; ++i) {
    EXPECT(got32[i] == INT32_MIN, "int32 of ", wild[i], " gave ", got32[i]);
    const int64_t want = i == 3 ? 3000000000 : i == 4 ? -3000000000 : INT64_MIN;
    EXPECT(got64[i] == want, "int64 of ", wild[i], " gave ", got64[i]);
  }
}

template <class T>
T call_binary(BinaryOp op, T a, T b, int* flag) {
  ElementParams p;
  p.division_by_zero = flag;
  T out = 77;
  char* ptrs[] = {reinterpret_cast<char*>(&out), reinterpret_cast<char*>(&a),
                  reinterpret_cast<char*>(&b)};
  const int64_t size = sizeof(T), strides[] = {size, size, size};
  ElementRow(op).loop(dtype_of<T>)(ptrs, strides, 1, &p);
  return out;
}

template <class T>
void test_integer_division() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0, 1, 2, 3, 7, Limits::max(), Limits::min(), T(Limits::max() - 1)};
  if (Limits::is_signed) values.insert(values.end(), {T(-1), T(-2), T(-7), T(Limits::min() + 1)});
  for (int i = 0; i < 60; ++i)
    values.push_back(static_cast<T>((uint64_t{g_random()} << 32 | g_random()) >> random_up_to(60)));
  for (T a : values) {
    for (T b : values) {
      int flag = 0;
      const T q = call_binary(BinaryOp::div_trunc, a, b, &flag);
      EXPECT(flag == (b == 0), "flag of ", +a, " / ", +b);
      if (b == 0) {
        EXPECT(q == 77, "written in spite of a zero divisor");
        continue;
      }
      const T f = call_binary(BinaryOp::floor_divide, a, b, &flag);
      const T r = call_binary(BinaryOp::remainder, a, b, &flag);
      const T m = call_binary(BinaryOp::fmod, a, b, &flag);
      using Wide = __int128;
      const Wide wq = Wide(a) / Wide(b), wm = Wide(a) % Wide(b);
      const bool down = wm != 0 && (wm < 0) != (b < 0);
      EXPECT(q == static_cast<T>(wq), +a, " div_trunc ", +b, " gave ", +q);
      EXPECT(m == static_cast<T>(wm), +a, " fmod ", +b, " gave ", +m);
      EXPECT(f == static_cast<T>(wq - down), +a, " floor_divide ", +b, " gave ", +f);
      EXPECT(r == static_cast<T>(down ? wm + b : wm), +a, " remainder ", +b, " gave ", +r);
    }
  }
}

void test_threads() {
  set_num_threads(4);
  for (int64_t n : {0, 1, 1000, 100000}) {
    std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
    parallel_for(0, n, 7, [&](int64_t lo, int64_t hi) {
      for (int64_t i = lo; i < hi; ++i) ++hits[static_cast<size_t>(i)];
    });
    EXPECT(std::all_of(hits.begin(), hits.end(), [](const auto& h) { return h == 1; }), "n ", n);
  }
  auto boundaries = [](int threads) {
    set_num_threads(threads);
    std::vector<std::atomic<int>> starts(10001);
    parallel_for(0, 10000, 33, [&](int64_t lo, int64_t hi) {
      starts[static_cast<size_t>(lo)] = static_cast<int>(hi);
    });
    return std::vector<int>(starts.begin(), starts.end());
  };
  EXPECT(boundaries(1) == boundaries(4), "chunks depend on the thread count");
  set_num_threads(4);
  for (int round = 0; round < 200; ++round) {
    bool caught = false;
    try {
      parallel_for(0, 1000, 10, [&](int64_t lo, int64_t) {
        if (lo == 500) throw std::runtime_error("from a chunk");
      });
    } catch (const std::runtime_error& e) {
      caught = std::string(e.what()) == "from a chunk";
    }
    EXPECT(caught, "exception lost in round ", round);
  }
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 6; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        parallel_for(0, 1000, 50, [&](int64_t lo, int64_t hi) {
          parallel_for(lo, hi, 5, [&](int64_t l, int64_t h) { sum += h - l; });
        });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT(sum == int64_t{6} * 300 * 1000, "concurrent callers lost work: ", sum.load());
  std::fflush(stdout);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      std::atomic<int> n{0};
      parallel_for(0, 100, 1, [&](int64_t, int64_t) { ++n; });
      std::exit(n == 100 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT(status == 0, "forked child failed");
  }
}

int g_begun = 0, g_ended = 0;

void test_heavy_hooks() {
  set_heavy_hooks(
      []() -> void* {
        ++g_begun;
        return &g_begun;
      },
      [](void* state) { g_ended += state == &g_begun; });
  {
    HeavyScope light(kHeavyWork - 1);
    EXPECT(g_begun == 0, "light work called the hook");
    HeavyScope heavy(kHeavyWork), nested(kHeavyWork);
    EXPECT(g_begun == 1 && g_ended == 0, "begun ", g_begun);
  }
  EXPECT(g_begun == 1 && g_ended == 1, "ended ", g_ended);
  set_heavy_hooks(nullptr, nullptr);
}

}  // namespace

int main() {
  std::printf("isa %s, %d threads\n", isa_name(), num_threads());
  set_num_threads(3);
  test_strided();
  test_casts();
  test_integer_division<uint8_t>();
  test_integer_division<int8_t>();
  test_integer_division<int16_t>();
  test_integer_division<int32_t>();
  test_integer_division<int64_t>();
  test_threads();
  test_heavy_hooks();
  std::printf(g_failures == 0 ? "ok\n" : "%d failures\n", g_failures);
  return g_failures == 0 ? 0 : 1;
}
