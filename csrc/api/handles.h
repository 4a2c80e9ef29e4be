// SPDX-License-Identifier: BSD-3-Clause
// Handles of the C interface and the objects they stand for.
#pragma once
#include "api/error.h"
#include "autograd/variable.h"

namespace cograd::api {

inline TensorImpl* impl(cograd_tensor t) noexcept { return reinterpret_cast<TensorImpl*>(t); }
inline cograd_tensor handle(TensorImpl* p) noexcept { return reinterpret_cast<cograd_tensor>(p); }
inline cograd_tensor handle(const Tensor& t) noexcept { return handle(t.impl()); }
inline Tensor borrow(cograd_tensor t) noexcept { return Tensor::borrow(impl(t)); }
// Hands the reference out.
inline cograd_tensor give(Tensor t) noexcept { return handle(t.release()); }

// The variable `t` seen as a Tensor, without a reference of its own.
inline const Tensor& view_of(const cograd_tensor& t) noexcept {
  return reinterpret_cast<const Tensor&>(t);
}
inline const Tensor& view_of(const cograd_tensor& t, const char* who, const char* what = "t") {
  COGRAD_CHECK_TYPE(t != nullptr, who, "(): got no tensor (None) for ", what);
  return view_of(t);
}
// The same of element `i` of a list.
inline const Tensor& view_of(const cograd_tensor* list, size_t i, const char* who,
                             const char* what) {
  COGRAD_CHECK_TYPE(list[i] != nullptr, who, "(): got no tensor (None) for ", what, "[", i, "]");
  return view_of(list[i]);
}
// What `p` points to; an error where it is NULL.
template <class T>
T& given(T* p, const char* who, const char* what) {
  COGRAD_CHECK_TYPE(p != nullptr, who, "(): ", what, " is NULL");
  return *p;
}
// Whether `n` elements of some size may lie in memory: a negative number given as size_t may not.
constexpr bool is_count(size_t n, size_t itemsize) noexcept { return n <= PTRDIFF_MAX / itemsize; }
// `n` elements at `p`, which may be NULL where there are none.
template <class T>
std::span<T> given_list(T* p, size_t n, const char* who, const char* what) {
  COGRAD_CHECK_VALUE(is_count(n, sizeof(T)), who, "(): the number of ", what, " is ",
                     static_cast<int64_t>(n), ", expected one that fits in memory");
  COGRAD_CHECK_TYPE(p != nullptr || n == 0, who, "(): ", what, " is NULL, expected ", n,
                    " elements");
  return {p, n};
}
// Hands `t` out at `out`.
inline void put(cograd_tensor* out, const char* who, Tensor t) {
  cograd_tensor& place = given(out, who, "out");
  place = give(std::move(t));
}
inline TensorList list_of(const cograd_tensor* t, size_t n, const char* who, const char* what) {
  given_list(t, n, who, what);
  return {reinterpret_cast<const Tensor*>(t), n};
}

}  // namespace cograd::api
