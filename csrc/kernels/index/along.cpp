// SPDX-License-Identifier: BSD-3-Clause
// Elements along one dim by the indices that an op returned.
#include "kernels/index/index_impl.h"
#include "tensor/slot.h"

namespace cograd::kernels {

namespace {

[[noreturn]] void raise_pick(int64_t index, int64_t size) {
  detail::fail(ErrorKind::Index, "index ", index, " is out of bounds for dimension with size ",
               size);
}

// Calls move(index into the whole, index into the picked) for every picked element. Checks the
// indices: they may have been written through `.data` since an op returned them.
template <class F>
void each_pick(int64_t outer, int64_t n, int64_t inner, const int64_t* index, int64_t m,
               const F& move) {
  int64_t k = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < m; ++j)
      for (int64_t i = 0; i < inner; ++i, ++k) {
        const int64_t pick = load_index(index + k);
        if (!within(pick, n)) [[unlikely]]
          raise_pick(pick, n);
        move((o * n + pick) * inner + i, k);
      }
}

}  // namespace

void take_along(int64_t itemsize, const void* x, int64_t outer, int64_t n, int64_t inner,
                const int64_t* index, int64_t m, void* out) {
  COGRAD_SLOT(take_along, itemsize, x, outer, n, inner, index, m, out);
  by_width(itemsize, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(x);
    T* to = static_cast<T*>(out);
    each_pick(outer, n, inner, index, m, [=](int64_t whole, int64_t k) { to[k] = from[whole]; });
  });
}

void add_along(DType t, const void* values, int64_t outer, int64_t n, int64_t inner,
               const int64_t* index, int64_t m, void* out) {
  COGRAD_SLOT(add_along, t, values, outer, n, inner, index, m, out);
  dispatch_all(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = static_cast<const T*>(values);
    T* to = static_cast<T*>(out);
    each_pick(outer, n, inner, index, m,
              [=](int64_t whole, int64_t k) { to[whole] = static_cast<T>(to[whole] + from[k]); });
  });
}

}  // namespace cograd::kernels
