// SPDX-License-Identifier: BSD-3-Clause
// Matrix products against plain loops, Philox against published vectors, moments, and fork.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "kernels/product/gemm.h"
#include "kernels/random/random.h"
#include "kernels_check.h"
#include "tensor/threads.h"

using namespace cograd;
using namespace cograd::kernels;

namespace {

template <class T>
void test_gemm(int64_t m, int64_t n, int64_t k, double tolerance) {
  const auto a = random_values<T>(m * k, 1, 2), b = random_values<T>(k * n, 2, 2);
  for (int mode = 0; mode < 4; ++mode) {
    const bool ta = mode & 1, tb = mode & 2;
    auto c = random_values<T>(m * n, 3);
    const auto before = c;
    gemm(dtype_of<T>, ta, tb, m, n, k, 2, a.data(), ta ? m : k, b.data(), tb ? k : n, 1, c.data(),
         n);
    for (int64_t i = 0; i < m * n; ++i) {
      const int64_t r = i / n, s = i % n;
      double want = static_cast<double>(before[static_cast<size_t>(i)]);
      for (int64_t p = 0; p < k; ++p) {
        want += 2 * static_cast<double>(a[static_cast<size_t>(ta ? p * m + r : r * k + p)]) *
                static_cast<double>(b[static_cast<size_t>(tb ? s * k + p : p * n + s)]);
      }
      check_close(static_cast<double>(c[static_cast<size_t>(i)]), want, tolerance,
                  "gemm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    }
  }
}

std::vector<float> product(const std::vector<float>& a, int64_t n) {
  std::vector<float> c(a.size());
  gemm(DType::Float32, false, true, n, n, n, 1, a.data(), n, a.data(), n, 0, c.data(), n);
  return c;
}

template <class T>
std::vector<T> batched(int64_t m, int64_t n, int64_t k, int64_t batch, bool tb) {
  const auto a = random_values<T>(m * k * batch, 5), b = random_values<T>(k * n * batch, 6);
  std::vector<T> c(static_cast<size_t>(m * n * batch));
  gemm_batched(dtype_of<T>, false, tb, m, n, k, 1, a.data(), k, m * k, b.data(), tb ? k : n, k * n,
               0, c.data(), n, m * n, batch);
  return c;
}

// OpenBLAS rounds differently in a block's last rows and columns, in small products and in those
// with one row or column: what is cut must not depend on who takes the pieces.
template <class T>
void test_same_bits() {
  struct Shape {
    int64_t m, n, k, batch;
  };
  const int before = num_threads();
  for (const Shape& s :
       {Shape{129, 129, 129, 1}, Shape{512, 512, 512, 1}, Shape{257, 1000, 33, 1},
        Shape{65, 64, 9000, 1}, Shape{2000, 3, 400, 1}, Shape{3, 2000, 400, 1},
        Shape{1, 2049, 1100, 1}, Shape{2049, 1, 1100, 1}, Shape{401, 399, 402, 1},
        Shape{150, 140, 130, 3}, Shape{150, 140, 130, 9}, Shape{407, 407, 407, 8}}) {
    for (const bool tb : {false, true}) {
      const bool large = s.m * s.n * s.k * s.batch > 1 << 28;  // for slow core types: once
      if (large && (tb || sizeof(T) == 8)) continue;
      set_num_threads(1);
      const auto one = batched<T>(s.m, s.n, s.k, s.batch, tb);
      for (const int threads : {2, 3, 7}) {
        set_num_threads(threads);
        check(batched<T>(s.m, s.n, s.k, s.batch, tb) == one,
              "same bits with " + std::to_string(threads) + " threads: " + std::to_string(s.m) +
                  "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + ", " +
                  std::to_string(s.batch));
      }
    }
  }
  set_num_threads(before);
}

// A child made by fork multiplies with fresh threads and gets the same bits.
void test_threads_and_fork() {
  const int64_t n = 300;
  const auto a = random_values<float>(n * n, 4);
  const int before = num_threads();
  set_num_threads(1);
  const auto one = product(a, n);
  set_num_threads(3);
  check(product(a, n) == one, "gemm does not depend on the thread count");
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(product(a, n) == one ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "gemm in a forked child");
  set_num_threads(before);
}

void test_philox() {
  using Words = std::array<uint32_t, 4>;
  check(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        "philox of zeros");
  check(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
            Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        "philox of ones");
  check(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
            Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
        "philox of pi");
  // The vector words, across a carry of the low counter word.
  const PhiloxState s{0x123456789abcdef0, 0xfffffff8};
  std::vector<float> u(1000);
  check(random_uniform(DType::Float32, u.data(), 1000, s, 0, 1) == 256, "blocks used");
  for (uint64_t i = 0; i < u.size(); ++i) {
    const uint64_t block = s.offset + i / 64 * 16 + i % 16;
    const auto w =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                   {0x9abcdef0, 0x12345678});
    check(u[i] == static_cast<float>(w[i % 64 / 16] >> 8) * 0x1p-24f, "uniform words");
  }
}

template <class T>
void test_moments(double tolerance) {
  const int64_t n = 1 << 20;
  std::vector<T> z(static_cast<size_t>(n)), again(static_cast<size_t>(n));
  const int before = num_threads();
  set_num_threads(1);
  random_normal(dtype_of<T>, z.data(), n, {5, 0}, 1, 2);
  set_num_threads(3);
  random_normal(dtype_of<T>, again.data(), n, {5, 0}, 1, 2);
  set_num_threads(before);
  check(std::equal(z.begin(), z.end(), again.begin()), "normal does not depend on threads");
  double m[5] = {};
  for (T v : z) {
    const double d = (static_cast<double>(v) - 1) / 2;
    for (int k = 1; k < 5; ++k) m[k] += std::pow(d, k) / static_cast<double>(n);
  }
  check(std::abs(m[1]) < tolerance && std::abs(m[2] - 1) < tolerance &&
            std::abs(m[3]) < tolerance && std::abs(m[4] - 3) < 4 * tolerance,
        "moments of normal");
  random_uniform(dtype_of<T>, z.data(), n, {6, 0}, -1, 1);
  check(*std::min_element(z.begin(), z.end()) >= T(-1) &&
            *std::max_element(z.begin(), z.end()) < T(1),
        "uniform stays inside");
  random_exponential(dtype_of<T>, z.data(), n, {7, 0}, 1);
  check(*std::min_element(z.begin(), z.end()) > T(0), "exponential is positive");
}

void test_integers() {
  std::vector<int64_t> x(100000), counts(10);
  random_int(DType::Int64, x.data(), 100000, {1, 0}, -3, 7);
  for (int64_t v : x) ++counts[static_cast<size_t>(v + 3)];
  double chi = 0;
  for (int64_t c : counts) chi += static_cast<double>((c - 10000) * (c - 10000)) / 10000;
  check(chi < 30, "randint is uniform");
  random_permutation(x.data(), 100000, {2, 0});
  check(!std::is_sorted(x.begin(), x.end()), "a permutation moves things");
  std::sort(x.begin(), x.end());
  for (int64_t i = 0; i < 100000; ++i) check(x[static_cast<size_t>(i)] == i, "permutation");
}

}  // namespace

int main() {
  for (int64_t size : {1, 3, 8, 17, 70}) {
    test_gemm<float>(size, size + 2, size + 1, 1e-4);
    test_gemm<double>(size, size + 2, size + 1, 1e-12);
    test_gemm<int32_t>(size, size + 2, size + 1, 0);
    test_gemm<int64_t>(size + 3, size, 0, 0);
  }
  test_gemm<float>(200, 130, 90, 1e-3);
  test_same_bits<float>();
  test_same_bits<double>();
  test_threads_and_fork();
  test_philox();
  test_moments<float>(0.01);
  test_moments<double>(0.01);
  test_integers();
  return report("kernels_gemm_random_test");
}
