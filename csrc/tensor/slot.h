// SPDX-License-Identifier: BSD-3-Clause
// The seam between ops and devices. The first line of each kernel function that ops call is
//
//   COGRAD_SLOT(softmax, t, x, y, outer, n, inner);
//
// On the host it costs one test. On the meta device, which has no data, it returns at once. On the
// fake device it calls the same kernel on the host, with the pointers moved to where kernels may
// access the memory. Another device's backend is asked for its kernel of that name.
#pragma once
#include <span>
#include <type_traits>
#include <vector>

#include "tensor/fake_device.h"

namespace cograd {

// The device of the thread's place has no kernel for this call. The fallback catches it.
class COGRAD_API NoKernel : public Error {
 public:
  explicit NoKernel(std::string message) : Error(ErrorKind::NotImplemented, std::move(message)) {}
};

namespace detail {

[[noreturn]] COGRAD_API void fail_no_kernel(const char* name);
// Returns the kernel of the place's device for a slot; throws NoKernel if it has none.
COGRAD_API void* backend_kernel(const char* name);
[[noreturn]] COGRAD_API void fail_no_data(const char* name);

struct MovePointer {
  template <class T>
  void operator()(T*& p) const {
    p = static_cast<T*>(kernel_view(p));
  }
};
template <class T>
struct IsSpan {};
template <class T>
  requires requires(std::remove_cv_t<T>& y) { y.each_pointer(MovePointer()); }
struct IsSpan<std::span<T>> {
  static constexpr bool moves = true;
};
// Returns an argument with its pointers moved to the view of the fake device's kernels. A struct
// with pointers has a member each_pointer(f), or in_kernel_view(), which returns such a copy.
template <class T>
decltype(auto) in_kernel_view(T& x) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_pointer_v<Plain> && !std::is_function_v<std::remove_pointer_t<Plain>>) {
    return static_cast<Plain>(kernel_view(x));
  } else if constexpr (requires { IsSpan<Plain>::moves; }) {
    std::vector<std::remove_cv_t<typename Plain::element_type>> list(x.begin(), x.end());
    for (auto& y : list) y.each_pointer(MovePointer());
    return list;
  } else if constexpr (requires { x.in_kernel_view(); }) {
    return x.in_kernel_view();
  } else if constexpr (requires(Plain& y) { y.each_pointer(MovePointer()); }) {
    Plain y = x;
    y.each_pointer(MovePointer());
    return y;
  } else {
    return (x);
  }
}

template <auto kKernel, class... A>
[[gnu::cold, gnu::noinline]] auto call_elsewhere(const char* name, A&... args) {
  if (thread_place.now.type != DeviceType::Fake)
    return reinterpret_cast<decltype(kKernel)>(backend_kernel(name))(args...);
  const PlaceGuard host(kHost);
  return kKernel(in_kernel_view(args)...);
}
inline bool on_meta() noexcept { return thread_place.now.type == DeviceType::Meta; }

}  // namespace detail
}  // namespace cograd

#define COGRAD_SLOT(kernel, ...)                                            \
  if (!::cograd::on_host()) [[unlikely]] {                                  \
    if (::cograd::detail::on_meta()) return;                                \
    return ::cograd::detail::call_elsewhere<&kernel>(#kernel, __VA_ARGS__); \
  }
// For a kernel that returns a value: what it returns on the meta device comes first.
#define COGRAD_SLOT_OR(value_on_meta, kernel, ...)                          \
  if (!::cograd::on_host()) [[unlikely]] {                                  \
    if (::cograd::detail::on_meta()) return value_on_meta;                  \
    return ::cograd::detail::call_elsewhere<&kernel>(#kernel, __VA_ARGS__); \
  }
// For a kernel that returns what only elements tell, such as a count: raises on the meta device.
#define COGRAD_SLOT_READS(kernel, ...)                                        \
  if (!::cograd::on_host()) [[unlikely]] {                                    \
    if (::cograd::detail::on_meta()) ::cograd::detail::fail_no_data(#kernel); \
    return ::cograd::detail::call_elsewhere<&kernel>(#kernel, __VA_ARGS__);   \
  }
