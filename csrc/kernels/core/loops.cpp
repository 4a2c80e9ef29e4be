// SPDX-License-Identifier: BSD-3-Clause
// Plans a strided loop nest (drops, sorts and merges dims; chooses the inner one) and runs it.
#include "kernels/core/loops.h"

#include <algorithm>
#include <vector>

#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kSerial = 32768;   // cheap element-operations up to which one thread is faster
constexpr int64_t kGrain = 16384;    // cheap element-operations of one parallel chunk
constexpr int64_t kShortInner = 16;  // a shorter inner loop is swapped for a longer dim
constexpr int64_t kTileInner = 256;  // tile of the inner dim if operands disagree in order
constexpr int64_t kTileOuter = 16;   // rows per tile: one cache line of float32

// The loop nest, innermost dim first. Strides are [dim][operand], so that the inner dim's row can
// be passed to the LoopFn unchanged.
struct Plan {
  LoopFn fn;
  const void* params;
  int nops;
  int ndim;
  bool tiled;
  char* data[kMaxOperands];
  int64_t shape[kMaxDims];
  int64_t strides[kMaxDims][kMaxOperands];
};

// True if dim a belongs inside dim b, by the output's strides first, then by the inputs'.
bool belongs_inside(const Plan& p, int a, int b) {
  for (int k = 0; k < p.nops; ++k) {
    const int64_t sa = p.strides[a][k], sb = p.strides[b][k];
    if (sa == 0 || sb == 0 || sa == sb) continue;
    return std::abs(sa) < std::abs(sb);
  }
  return false;
}

void swap_dims(Plan& p, int a, int b) {
  std::swap(p.shape[a], p.shape[b]);
  for (int k = 0; k < p.nops; ++k) std::swap(p.strides[a][k], p.strides[b][k]);
}

void sort_dims(Plan& p) {
  for (int i = 1; i < p.ndim; ++i) {
    for (int j = i; j > 0 && belongs_inside(p, j, j - 1); --j) swap_dims(p, j, j - 1);
  }
}

void merge_dims(Plan& p) {
  int last = 0;
  for (int d = 1; d < p.ndim; ++d) {
    bool merges = true;
    for (int k = 0; k < p.nops; ++k)
      merges &= p.strides[d][k] == p.strides[last][k] * p.shape[last];
    if (merges) {
      p.shape[last] *= p.shape[d];
      continue;
    }
    if (++last != d) {
      p.shape[last] = p.shape[d];
      std::copy_n(p.strides[d], p.nops, p.strides[last]);
    }
  }
  p.ndim = last + 1;
}

// Swaps in a longer inner dim if the inner dim is short: a call per few elements costs more than
// strided access. A loop over (100000, 3) runs along 100000.
void lengthen_inner(Plan& p) {
  if (p.ndim < 2 || p.shape[0] >= kShortInner) return;
  int longest = 0;
  for (int d = 1; d < p.ndim; ++d) {
    if (p.shape[d] > p.shape[longest]) longest = d;
  }
  if (p.shape[longest] >= 4 * p.shape[0]) swap_dims(p, 0, longest);
}

// True if some input runs along dim 1 while the output runs along dim 0: tiles use up a cache line
// of the input before it is evicted.
bool wants_tiles(const Plan& p) {
  if (p.ndim < 2 || p.shape[1] < 4 || p.shape[0] < kTileInner / 4) return false;
  for (int k = 1; k < p.nops; ++k) {
    const int64_t along = std::abs(p.strides[0][k]), across = std::abs(p.strides[1][k]);
    if (across != 0 && across < 64 && along >= 128) return true;
  }
  return false;
}

// Runs rows [r0, r1) of dim 1 and elements [c0, c1) of dim 0, from the pointers of the outer dims.
void run_rows(const Plan& p, char* const* base, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
  char* ptrs[kMaxOperands];
  const int64_t* row = p.strides[1];
  for (int64_t r = r0; r < r1; ++r) {
    for (int k = 0; k < p.nops; ++k) ptrs[k] = base[k] + r * row[k] + c0 * p.strides[0][k];
    p.fn(ptrs, p.strides[0], c1 - c0, p.params);
  }
}

void run_tile_band(const Plan& p, char* const* base, int64_t r0, int64_t r1) {
  for (int64_t c = 0; c < p.shape[0]; c += kTileInner)
    run_rows(p, base, r0, r1, c, std::min(c + kTileInner, p.shape[0]));
}

// Walks the outer dims from `first` on as an odometer, starting at linear position `at`.
class Odometer {
 public:
  Odometer(const Plan& p, int first, int64_t at) : p_(p), first_(first) {
    std::copy_n(p.data, p.nops, ptrs);
    for (int d = first; d < p.ndim; ++d) {
      index_[d] = at % p.shape[d];
      at /= p.shape[d];
      for (int k = 0; k < p.nops; ++k) ptrs[k] += index_[d] * p.strides[d][k];
    }
  }
  void next() {
    for (int d = first_; d < p_.ndim; ++d) {
      const bool wraps = ++index_[d] == p_.shape[d];
      const int64_t steps = wraps ? 1 - p_.shape[d] : 1;
      for (int k = 0; k < p_.nops; ++k) ptrs[k] += steps * p_.strides[d][k];
      if (!wraps) return;
      index_[d] = 0;
    }
  }
  char* ptrs[kMaxOperands];

 private:
  const Plan& p_;
  int first_;
  int64_t index_[kMaxDims];
};

// Runs linear elements [lo, hi) of the nest, innermost dim fastest.
void run_elements(const Plan& p, int64_t lo, int64_t hi) {
  const int64_t inner = p.shape[0];
  int64_t column = lo % inner;
  Odometer at(p, 1, lo / inner);
  char* ptrs[kMaxOperands];
  while (lo < hi) {
    const int64_t n = std::min(inner - column, hi - lo);
    for (int k = 0; k < p.nops; ++k) ptrs[k] = at.ptrs[k] + column * p.strides[0][k];
    p.fn(ptrs, p.strides[0], n, p.params);
    lo += n;
    column = 0;
    if (lo < hi) at.next();
  }
}

// Runs bands [lo, hi) of kTileOuter rows each; bands of one outer index are consecutive.
void run_bands(const Plan& p, int64_t lo, int64_t hi) {
  const int64_t bands = (p.shape[1] + kTileOuter - 1) / kTileOuter;
  Odometer at(p, 2, lo / bands);
  for (int64_t b = lo; b < hi; ++b) {
    const int64_t r = b % bands * kTileOuter;
    run_tile_band(p, at.ptrs, r, std::min(r + kTileOuter, p.shape[1]));
    if ((b + 1) % bands == 0) at.next();
  }
}

// Returns a multiple of the widest vector, so that only the last chunk has a tail.
int64_t grain_of(int cost) { return std::max<int64_t>(1024, kGrain / cost / 64 * 64); }

void run_plan(const Plan& p, int64_t total, int cost) {
  if (total <= kSerial / cost) return run_elements(p, 0, total);
  HeavyScope heavy(total > kHeavyWork / cost ? kHeavyWork : 0);
  const int64_t grain = grain_of(cost);
  if (!wants_tiles(p)) {
    parallel_for(0, total, grain, [&](int64_t lo, int64_t hi) { run_elements(p, lo, hi); });
    return;
  }
  const int64_t bands_per_slice = (p.shape[1] + kTileOuter - 1) / kTileOuter;
  const int64_t bands = total / (p.shape[0] * p.shape[1]) * bands_per_slice;
  const int64_t band_size = kTileOuter * p.shape[0];
  parallel_for(0, bands, std::max<int64_t>(1, grain / band_size),
               [&](int64_t lo, int64_t hi) { run_bands(p, lo, hi); });
}

void run_flat(LoopFn fn, char* const* data, const int64_t* strides, int nops, int64_t total,
              const void* params, int cost) {
  if (total <= kSerial / cost) return fn(data, strides, total, params);
  const int64_t grain = grain_of(cost);
  HeavyScope heavy(total > kHeavyWork / cost ? kHeavyWork : 0);
  parallel_for(0, total, grain, [&](int64_t lo, int64_t hi) {
    char* ptrs[kMaxOperands];
    for (int k = 0; k < nops; ++k) ptrs[k] = data[k] + lo * strides[k];
    fn(ptrs, strides, hi - lo, params);
  });
}

}  // namespace

void run_row_elsewhere(LoopFn fn, char* const* ptrs, size_t count, const int64_t* strides,
                       int64_t n, const void* params) {
  if (::cograd::detail::on_meta()) return;
  if (thread_place.now.type != DeviceType::Fake) {
    if (n == 0) return;
    Operand ops[kMaxOperands];
    while (ptrs[count - 1] == nullptr) --count;  // callers have arrays for the most operands
    for (size_t k = 0; k < count; ++k) ops[k] = {ptrs[k], strides + k};
    return run_loop(fn, 1, &n, ops, static_cast<int>(count), params);
  }
  std::vector<char*> moved(ptrs, ptrs + count);
  for (char*& p : moved) p = static_cast<char*>(kernel_view(p));
  fn(moved.data(), strides, n, params);
}

void run_loop(LoopFn fn, int ndim, const int64_t* shape, const Operand* ops, int nops,
              const void* params, int cost_per_element) {
  if (thread_place.now.type == DeviceType::Fake) [[unlikely]] {
    std::vector<Operand> moved(ops, ops + nops);
    for (Operand& o : moved) o.each_pointer(::cograd::detail::MovePointer());
    const PlaceGuard host(kHost);
    return run_loop(fn, ndim, shape, moved.data(), nops, params, cost_per_element);
  }
  COGRAD_SLOT(run_loop, fn, ndim, shape, ops, nops, params, cost_per_element);
  const int cost = std::max(1, cost_per_element);
  // Handle the common case first, without a plan: all dims merge into one in their given order.
  int64_t total = 1;
  int64_t flat[kMaxOperands];
  char* data[kMaxOperands];
  for (int k = 0; k < nops; ++k) {
    flat[k] = 0;
    data[k] = ops[k].data;
  }
  bool merges = true;
  for (int d = ndim - 1; d >= 0; --d) {
    const int64_t n = shape[d];
    if (n == 1) continue;
    for (int k = 0; k < nops; ++k) {
      const int64_t s = ops[k].strides[d];
      if (total == 1)
        flat[k] = s;
      else
        merges &= s == flat[k] * total;
    }
    total *= n;
  }
  if (total == 0) return;
  if (merges) return run_flat(fn, data, flat, nops, total, params, cost);

  Plan p;
  p.fn = fn;
  p.params = params;
  p.nops = nops;
  p.ndim = 0;
  std::copy_n(data, nops, p.data);
  for (int d = ndim - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    p.shape[p.ndim] = shape[d];
    for (int k = 0; k < nops; ++k) p.strides[p.ndim][k] = ops[k].strides[d];
    ++p.ndim;
  }
  sort_dims(p);
  merge_dims(p);
  if (p.ndim == 1) return run_flat(fn, p.data, p.strides[0], nops, total, params, cost);
  lengthen_inner(p);
  run_plan(p, total, cost);
}

}  // namespace cograd::kernels
