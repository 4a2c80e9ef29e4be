// SPDX-License-Identifier: BSD-3-Clause
// masked_fill, masked_select, masked_scatter and nonzero.
#include <type_traits>

#include "kernels/core/loops.h"
#include "kernels/index/index_impl.h"
#include "tensor/slot.h"
#include "tensor/threads.h"

namespace cograd::kernels {
namespace {

constexpr int64_t kBlock = 1 << 14;

template <class U>
void fill_where(char* const* ptrs, const int64_t* strides, int64_t n, const void* params) {
  const U v = read<U>(static_cast<const char*>(params));
  char* to = ptrs[0];
  const char* mask = ptrs[1];
  if (strides[0] == static_cast<int64_t>(sizeof(U)) && strides[1] == 1) {
    U* p = reinterpret_cast<U*>(to);
    for (int64_t i = 0; i < n; ++i) p[i] = mask[i] != 0 ? v : p[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    if (mask[i * strides[1]] != 0) write(to + i * strides[0], v);
  }
}

// Foreign memory may hold any byte as a bool: every byte but 0 is true.
bool is_true(const bool* mask, int64_t i) { return reinterpret_cast<const uint8_t*>(mask)[i] != 0; }

int64_t count_true(const bool* mask, int64_t n) {
  int64_t total = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t v;
    std::memcpy(&v, mask + i, 8);
    // Set the lowest bit of each byte if any of its bits is set.
    v |= v >> 4;
    v |= v >> 2;
    v |= v >> 1;
    // The multiplication adds the bytes, which are now 0 or 1, into the top byte.
    total += static_cast<int64_t>(((v & 0x0101010101010101u) * 0x0101010101010101u) >> 56);
  }
  for (; i < n; ++i) total += is_true(mask, i);
  return total;
}

// Returns the first output position of every block, and the total at the end.
template <class Count>
std::vector<int64_t> block_starts(int64_t n, const Count& count) {
  const int64_t blocks = divide_up(n, kBlock);
  std::vector<int64_t> start(static_cast<size_t>(blocks) + 1, 0);
  parallel_for(0, blocks, 4, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t first = lo * kBlock;
      start[static_cast<size_t>(lo) + 1] = count(first, std::min(n, first + kBlock));
    }
  });
  for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
  return start;
}

// Raises if the number of elements differs from the one the output was allocated for: another
// thread has written the input since.
void check_count(const char* op, int64_t now, int64_t before) {
  COGRAD_CHECK(now == before, op, ": the number of selected elements went from ", before, " to ",
               now, " during the call: another thread writes to the tensor");
}

// Runs f(first, last, output position, output count) over blocks of n inputs. accept(total) raises
// if the output cannot hold that many.
template <class Count, class Accept, class F>
void for_blocks(int64_t n, const Count& count, const Accept& accept, const F& f) {
  const std::vector<int64_t> start = block_starts(n, count);
  accept(start.back());
  parallel_for(0, static_cast<int64_t>(start.size()) - 1, 4, [&](int64_t lo, int64_t hi) {
    for (; lo < hi; ++lo) {
      const int64_t at = start[static_cast<size_t>(lo)];
      f(lo * kBlock, std::min(n, (lo + 1) * kBlock), at, start[static_cast<size_t>(lo) + 1] - at);
    }
  });
}

template <class T>
bool is_nonzero(const T* x, int64_t i) {
  if constexpr (std::is_same_v<T, bool>) {
    return is_true(x, i);
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return (x[i].bits & 0x7FFFu) != 0;
  } else {
    return !(x[i] == T(0));
  }
}

template <class T>
int64_t count_nonzero(const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, bool>) return count_true(x, n);
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) total += is_nonzero(x, i);
  return total;
}

// Sets at[k] to the k-th position in [lo, hi) that is not zero, for k < count; returns how many it
// found.
template <class T>
int64_t find_nonzero(const T* x, int64_t lo, int64_t hi, int64_t* at, int64_t count) {
  int64_t k = 0;
  for (; k < count && lo < hi; ++lo) {
    at[k] = lo;
    k += is_nonzero(x, lo);
  }
  return k;
}

// Turns flat positions into coordinates; steps between neighbours without division.
class Coordinates {
 public:
  explicit Coordinates(std::span<const int64_t> sizes) : sizes_(sizes), at_(sizes.size(), 0) {}

  // Writes the coordinates `step` elements apart.
  void move_to(int64_t flat, int64_t* out, int64_t step) {
    const size_t nd = sizes_.size();
    int64_t last = at_[nd - 1] + (flat - flat_);
    if (last >= sizes_[nd - 1]) {
      int64_t rest = flat;
      for (size_t d = nd; d-- > 0;) {
        at_[d] = rest % sizes_[d];
        rest /= sizes_[d];
      }
    } else {
      at_[nd - 1] = last;
    }
    flat_ = flat;
    for (size_t d = 0; d < nd; ++d) out[static_cast<int64_t>(d) * step] = at_[d];
  }

 private:
  std::span<const int64_t> sizes_;
  std::vector<int64_t> at_;
  int64_t flat_ = 0;
};

}  // namespace

void masked_fill(int64_t itemsize, std::span<const int64_t> sizes, void* self,
                 std::span<const int64_t> self_strides, const bool* mask,
                 std::span<const int64_t> mask_strides, const void* value) {
  COGRAD_SLOT(masked_fill, itemsize, sizes, self, self_strides, mask, mask_strides, value);
  const Operand ops[] = {{static_cast<char*>(self), self_strides.data()},
                         {reinterpret_cast<char*>(const_cast<bool*>(mask)), mask_strides.data()}};
  by_width(itemsize, [&](auto tag) {
    run_loop(&fill_where<typename decltype(tag)::type>, static_cast<int>(sizes.size()),
             sizes.data(), ops, 2, value);
  });
}

int64_t mask_count(const bool* mask, int64_t n) {
  COGRAD_SLOT_READS(mask_count, mask, n);
  HeavyScope heavy(n);
  return block_starts(n, [&](int64_t lo, int64_t hi) { return count_true(mask + lo, hi - lo); })
      .back();
}

namespace {

// Sets q[k] to the k-th of p[lo, hi) that mask keeps, for k < count; returns how many it found.
// Writes every element and advances only for kept ones: there is no branch to mispredict.
template <class U>
int64_t select_block(const U* p, const bool* mask, int64_t lo, int64_t hi, U* q, int64_t count) {
  constexpr int64_t kStep = 32;  // inputs per bounds check
  int64_t k = 0;
  const auto take = [&](int64_t i) {
    q[k] = p[i];
    k += is_true(mask, i);
  };
  for (; lo + kStep <= hi && k + kStep <= count; lo += kStep)
    for (int64_t i = lo; i < lo + kStep; ++i) take(i);
  for (; lo < hi && k < count; ++lo) take(lo);
  return k;
}

}  // namespace

void masked_select(int64_t itemsize, const void* src, const bool* mask, int64_t n, int64_t count,
                   void* out) {
  COGRAD_SLOT(masked_select, itemsize, src, mask, n, count, out);
  HeavyScope heavy(n);
  by_width(itemsize, [&](auto tag) {
    using U = typename decltype(tag)::type;
    const U* p = static_cast<const U*>(src);
    for_blocks(
        n, [&](int64_t lo, int64_t hi) { return count_true(mask + lo, hi - lo); },
        [&](int64_t total) { check_count("masked_select", total, count); },
        [&](int64_t lo, int64_t hi, int64_t at, int64_t kept) {
          U* q = static_cast<U*>(out) + at;
          check_count("masked_select", select_block(p, mask, lo, hi, q, kept), kept);
        });
  });
}

void masked_scatter(int64_t itemsize, void* self, const bool* mask, int64_t n, const void* src,
                    int64_t src_numel) {
  COGRAD_SLOT(masked_scatter, itemsize, self, mask, n, src, src_numel);
  HeavyScope heavy(n);
  by_width(itemsize, [&](auto tag) {
    using U = typename decltype(tag)::type;
    for_blocks(
        n, [&](int64_t lo, int64_t hi) { return count_true(mask + lo, hi - lo); },
        [&](int64_t wanted) {
          COGRAD_CHECK(wanted <= src_numel, "masked_scatter: the mask selects ", wanted,
                       " elements, but source has ", src_numel);
        },
        [&](int64_t lo, int64_t hi, int64_t at, int64_t count) {
          const U* q = static_cast<const U*>(src) + at;
          const U* end = q + count;
          U* p = static_cast<U*>(self);
          for (; lo < hi && q != end; ++lo) {
            if (is_true(mask, lo)) p[lo] = *q++;
          }
        });
  });
}

int64_t nonzero_count(DType t, const void* x, int64_t n) {
  COGRAD_SLOT_READS(nonzero_count, t, x, n);
  HeavyScope heavy(n);
  return dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = static_cast<const T*>(x);
    return block_starts(n, [&](int64_t lo, int64_t hi) { return count_nonzero(p + lo, hi - lo); })
        .back();
  });
}

void nonzero(DType t, const void* x, std::span<const int64_t> sizes, int64_t found, int64_t* out) {
  COGRAD_SLOT(nonzero, t, x, sizes, found, out);
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  if (sizes.empty() || n == 0) return;
  HeavyScope heavy(n);
  const auto nd = static_cast<int64_t>(sizes.size());
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* p = static_cast<const T*>(x);
    for_blocks(
        n, [&](int64_t lo, int64_t hi) { return count_nonzero(p + lo, hi - lo); },
        [&](int64_t total) { check_count("nonzero", total, found); },
        [&](int64_t lo, int64_t hi, int64_t at, int64_t count) {
          std::vector<int64_t> flat(static_cast<size_t>(count));
          check_count("nonzero", find_nonzero(p, lo, hi, flat.data(), count), count);
          if (nd == 1) {
            std::copy(flat.begin(), flat.end(), out + at);
            return;
          }
          Coordinates where(sizes);
          for (int64_t k = 0; k < count; ++k) {
            where.move_to(flat[static_cast<size_t>(k)], out + at + k, found);
          }
        });
  });
}

}  // namespace cograd::kernels
