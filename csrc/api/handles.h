// SPDX-License-Identifier: BSD-3-Clause
// Conversions between the opaque pointers of the C interface and the objects they point to.
#pragma once
#include "api/error.h"
#include "autograd/graph/variable.h"

namespace cograd::api {

inline TensorImpl* impl(cograd_tensor t) noexcept { return reinterpret_cast<TensorImpl*>(t); }
inline cograd_tensor handle(TensorImpl* p) noexcept { return reinterpret_cast<cograd_tensor>(p); }
inline cograd_tensor handle(const Tensor& t) noexcept { return handle(t.impl()); }
inline Tensor borrow(cograd_tensor t) noexcept { return Tensor::borrow(impl(t)); }
// Returns a pointer that owns the reference; the caller of the C interface must release it.
inline cograd_tensor owned_handle(Tensor t) noexcept { return handle(t.release()); }

// Returns the variable `t` as a Tensor, without taking a reference.
inline const Tensor& view_of(const cograd_tensor& t) noexcept {
  return reinterpret_cast<const Tensor&>(t);
}
inline const Tensor& view_of(const cograd_tensor& t, const char* who, const char* what = "t") {
  COGRAD_CHECK_TYPE(t != nullptr, who, "(): got no tensor (None) for ", what);
  return view_of(t);
}
// Returns element `i` of a list as a Tensor, without taking a reference.
inline const Tensor& view_of(const cograd_tensor* list, size_t i, const char* who,
                             const char* what) {
  COGRAD_CHECK_TYPE(list[i] != nullptr, who, "(): got no tensor (None) for ", what, "[", i, "]");
  return view_of(list[i]);
}
// Returns *p; raises TypeError if `p` is NULL.
template <class T>
T& given(T* p, const char* who, const char* what) {
  COGRAD_CHECK_TYPE(p != nullptr, who, "(): ", what, " is NULL");
  return *p;
}
// True if `n` elements may fit in memory; a negative number cast to size_t does not.
constexpr bool is_count(size_t n, size_t itemsize) noexcept { return n <= PTRDIFF_MAX / itemsize; }
// Returns the `n` elements at `p`; raises if `p` is NULL and n > 0, or if `n` cannot fit in memory.
template <class T>
std::span<T> given_list(T* p, size_t n, const char* who, const char* what) {
  COGRAD_CHECK_VALUE(is_count(n, sizeof(T)), who, "(): the number of ", what, " is ",
                     static_cast<int64_t>(n), ", expected one that fits in memory");
  COGRAD_CHECK_TYPE(p != nullptr || n == 0, who, "(): ", what, " is NULL, expected ", n,
                    " elements");
  return {p, n};
}
// Stores `t` in *out, which takes over the reference.
inline void put(cograd_tensor* out, const char* who, Tensor t) {
  cograd_tensor& place = given(out, who, "out");
  place = owned_handle(std::move(t));
}
inline TensorList list_of(const cograd_tensor* t, size_t n, const char* who, const char* what) {
  given_list(t, n, who, what);
  return {reinterpret_cast<const Tensor*>(t), n};
}

}  // namespace cograd::api
