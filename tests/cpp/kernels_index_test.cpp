// SPDX-License-Identifier: BSD-3-Clause
// Sorting, selection, indexing and masks against plain loops.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "kernels/index/index.h"
#include "kernels/index/sort.h"
#include "kernels_check.h"

using namespace cograd;
using namespace cograd::kernels;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// NaN is larger than every number.
bool less(float a, float b) { return a != a ? false : b != b || a < b; }

void test_sort(int64_t outer, int64_t n, int64_t inner) {
  auto x = random_values<float>(outer * n * inner, 1, 3);
  for (float& v : x) v = std::round(v);
  for (size_t i = 5; i < x.size(); i += 11) x[i] = kNan;
  std::vector<float> values(x.size());
  std::vector<int64_t> at(x.size());
  for (bool descending : {false, true}) {
    sort(DType::Float32, x.data(), values.data(), at.data(), outer, n, inner, descending);
    for (int64_t r = 0; r < outer * inner; ++r) {
      const int64_t base = r / inner * n * inner + r % inner;
      std::vector<int64_t> want(static_cast<size_t>(n));
      std::iota(want.begin(), want.end(), int64_t{0});
      std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
        const float va = x[static_cast<size_t>(base + a * inner)];
        const float vb = x[static_cast<size_t>(base + b * inner)];
        return descending ? less(vb, va) : less(va, vb);
      });
      bool same = true;
      for (int64_t i = 0; i < n; ++i) {
        same &= at[static_cast<size_t>(base + i * inner)] == want[static_cast<size_t>(i)];
      }
      check(same, "sort of " + std::to_string(n));
      if (n < 4) continue;
      const int64_t k = n / 3 + 1;
      std::vector<float> top(static_cast<size_t>(outer * k * inner));
      std::vector<int64_t> top_at(top.size());
      topk(DType::Float32, x.data(), top.data(), top_at.data(), outer, n, inner, k, descending);
      const int64_t first = r / inner * k * inner + r % inner;
      for (int64_t i = 0; i < k; ++i) {
        same &= top_at[static_cast<size_t>(first + i * inner)] == want[static_cast<size_t>(i)];
      }
      check(same, "topk of " + std::to_string(n));
    }
  }
}

void test_unique() {
  const std::vector<int16_t> x = {5, -2, 5, 5, 7, -2};
  std::vector<int16_t> values(6);
  std::vector<int64_t> inverse(6), counts(6);
  const int64_t n = unique(DType::Int16, x.data(), 6, values.data(), inverse.data(), counts.data());
  check(n == 3 && values[0] == -2 && values[2] == 7, "unique values");
  check(inverse == std::vector<int64_t>({1, 0, 1, 1, 2, 0}), "unique inverse");
  check(counts[0] == 2 && counts[1] == 3 && counts[2] == 1, "unique counts");
  const int64_t runs =
      unique_consecutive(DType::Int16, x.data(), 6, values.data(), inverse.data(), counts.data());
  check(runs == 5 && counts[2] == 2, "unique_consecutive");
}

void test_gather_scatter() {
  const int64_t rows = 6, cols = 9, m = 4;
  const auto x = random_values<float>(rows * cols, 2);
  const auto index = random_indices(m * cols, rows, 3);
  const std::vector<int64_t> sizes = {m, cols}, self = {cols * 4, 4}, idx = {cols * 8, 8};
  std::vector<float> out(static_cast<size_t>(m * cols));
  const DimIndexGeometry g{sizes, self, idx, self, 0, rows};
  gather(4, g, x.data(), index.data(), out.data());
  auto sum = x, want = x;
  scatter_reduce(ScatterReduce::Sum, DType::Float32, g, sum.data(), rows * cols, index.data(),
                 out.data(), true);
  for (int64_t i = 0; i < m * cols; ++i) {
    const auto at = static_cast<size_t>(index[static_cast<size_t>(i)] * cols + i % cols);
    check(out[static_cast<size_t>(i)] == x[at], "gather");
    want[at] += out[static_cast<size_t>(i)];
  }
  check(sum == want, "scatter_add");

  auto bad = index;
  bad.back() = rows;
  auto untouched = x;
  check_throws(ErrorKind::Runtime, "index 6 is out of bounds for dimension 0 with size 6",
               [&] { scatter(4, g, untouched.data(), bad.data(), out.data()); });
  bad.back() = -1;
  check_throws(ErrorKind::Runtime, "index -1 is out of bounds for dimension 0 with size 6",
               [&] { scatter(4, g, untouched.data(), bad.data(), out.data()); });
  check(untouched == x, "scatter wrote before its check");
}

void test_advanced() {
  // x[i, :, j] of shape [4, 5, 6] with i, j of length 3: result [3, 5].
  const auto x = random_values<double>(4 * 5 * 6, 4);
  const std::vector<int64_t> i = {0, -1, 2}, j = {5, 0, -6};
  const std::vector<int64_t> sizes = {3, 5}, self = {0, 48}, other = {40, 8}, step = {8, 0};
  const IndexOperand operands[] = {{i.data(), step, 4, 240, 0}, {j.data(), step, 6, 8, 2}};
  const IndexGeometry g{sizes, self, other, operands};
  std::vector<double> out(15);
  index_get(8, g, x.data(), out.data());
  const int64_t ii[] = {0, 3, 2}, jj[] = {5, 0, 0};
  for (int64_t k = 0; k < 15; ++k) {
    const auto at = static_cast<size_t>(ii[k / 5] * 30 + k % 5 * 6 + jj[k / 5]);
    check(out[static_cast<size_t>(k)] == x[at], "index_get");
  }
  const std::vector<int64_t> twice = {1, 1, -3};
  const IndexOperand same[] = {{twice.data(), step, 4, 240, 0}, {jj, step, 6, 8, 2}};
  const IndexGeometry h{sizes, self, other, same};
  auto added = x;
  index_put_accumulate(DType::Float64, h, added.data(), out.data());
  auto want = x;
  for (int64_t k = 0; k < 15; ++k) {
    want[static_cast<size_t>(30 + k % 5 * 6 + jj[k / 5])] += out[static_cast<size_t>(k)];
  }
  check(added == want, "index_put_accumulate");
  const std::vector<int64_t> far = {0, 4, 0};
  const IndexOperand wrong[] = {{far.data(), step, 4, 240, 0}, {jj, step, 6, 8, 2}};
  const IndexGeometry w{sizes, self, other, wrong};
  auto untouched = x;
  check_throws(ErrorKind::Index, "index 4 is out of bounds for dimension 0 with size 4",
               [&] { index_put(8, w, untouched.data(), out.data()); });
  check(untouched == x, "index_put wrote before its check");
}

void test_masks() {
  const int64_t n = 100003;
  const auto x = random_values<float>(n, 5);
  const auto mask = std::unique_ptr<bool[]>(new bool[static_cast<size_t>(n)]);
  std::vector<float> want;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < n; ++i) {
    mask[static_cast<size_t>(i)] = x[static_cast<size_t>(i)] > 0.3f;
    if (!mask[static_cast<size_t>(i)]) continue;
    want.push_back(x[static_cast<size_t>(i)]);
    places.push_back(i);
  }
  check(mask_count(mask.get(), n) == static_cast<int64_t>(want.size()), "mask_count");
  std::vector<float> out(want.size());
  const auto count = static_cast<int64_t>(want.size());
  masked_select(4, x.data(), mask.get(), n, count, out.data());
  check(out == want, "masked_select");
  for (const int64_t wrong : {count - 1, count + 1}) {  // as if the mask had been written since
    std::vector<float> other(static_cast<size_t>(wrong) + 1, -9);
    const std::string told = "masked_select: the number of selected elements went from " +
                             std::to_string(wrong) + " to " + std::to_string(count) +
                             " during the call: another thread writes to the tensor";
    check_throws(ErrorKind::Runtime, told,
                 [&] { masked_select(4, x.data(), mask.get(), n, wrong, other.data()); });
    check(other.back() == -9, "masked_select wrote beyond its room");
  }
  std::vector<int64_t> found(places.size());
  nonzero(DType::Bool, mask.get(), {&n, 1}, static_cast<int64_t>(found.size()), found.data());
  check(found == places, "nonzero");
  std::vector<float> back(static_cast<size_t>(n), -9);
  masked_scatter(4, back.data(), mask.get(), n, out.data(), static_cast<int64_t>(out.size()));
  bool same = true;
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    same &= back[k] == (mask[k] ? x[k] : -9.0f);
  }
  check(same, "masked_scatter");
}

void test_embedding() {
  const int64_t rows = 7, n = 5, count = 300;
  const auto index = random_indices(count, rows, 6);
  const auto g = random_values<float>(count * n, 7);
  std::vector<float> got(static_cast<size_t>(rows * n), 1.0f);
  std::vector<double> want(static_cast<size_t>(rows * n), 0.0);
  embedding_backward(DType::Float32, g.data(), index.data(), count, n, rows, 2, false, got.data());
  for (int64_t i = 0; i < count * n; ++i) {
    const int64_t r = index[static_cast<size_t>(i / n)];
    if (r != 2) want[static_cast<size_t>(r * n + i % n)] += g[static_cast<size_t>(i)];
  }
  for (size_t i = 0; i < want.size(); ++i) check_close(got[i], want[i], 1e-5, "embedding_backward");
}

}  // namespace

int main() {
  test_sort(2, 5, 3);
  test_sort(3, 200, 2);
  test_sort(1, 1, 1);
  test_sort(1, 300000, 1);
  test_unique();
  test_gather_scatter();
  test_advanced();
  test_masks();
  test_embedding();
  return report("kernels_index_test");
}
