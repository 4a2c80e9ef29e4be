// SPDX-License-Identifier: BSD-3-Clause
// TORCH_CHECK and similar macros, warnings, and macros that only annotate declarations.
#pragma once
#include <dlfcn.h>

#include "cograd/torch_compat/impl/print.h"

namespace cograd {
namespace torch_compat {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream s;
  ((s << parts), ...);
  return s.str();
}

template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorKind kind, const char* condition,
                                                 const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0)
    throw Error(kind, std::string("Expected ") + condition + " to be true, but got false.");
  else
    throw Error(kind, text(parts...));
}
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail_internal(const char* condition, const char* file,
                                                          int line, const Parts&... parts) {
  throw Error(ErrorKind::Runtime,
              text(condition, " INTERNAL ASSERT FAILED at \"", file, "\":", line, ". ", parts...));
}

// Issues a UserWarning if a Python interpreter runs in this process, else prints a line on stderr.
[[gnu::cold, gnu::noinline]] inline void warn(const std::string& message) {
  using Initialized = int (*)();
  using Ensure = int (*)();
  using Release = void (*)(int);
  using Warn = int (*)(void*, const char*, ssize_t);
  auto symbol = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  const auto initialized = reinterpret_cast<Initialized>(symbol("Py_IsInitialized"));
  if (initialized == nullptr || initialized() == 0) {
    std::cerr << "Warning: " << message << '\n';
    return;
  }
  const auto ensure = reinterpret_cast<Ensure>(symbol("PyGILState_Ensure"));
  const auto release = reinterpret_cast<Release>(symbol("PyGILState_Release"));
  const auto raise = reinterpret_cast<Warn>(symbol("PyErr_WarnEx"));
  const auto clear = reinterpret_cast<void (*)()>(symbol("PyErr_Clear"));
  auto** category = static_cast<void**>(symbol("PyExc_UserWarning"));
  const int state = ensure();
  const bool refused = raise(*category, message.c_str(), 1) != 0;
  if (refused) clear();
  release(state);
  // A warnings filter turns warnings into errors: raise a RuntimeError.
  if (refused) throw Error(ErrorKind::Runtime, message);
}

}  // namespace torch_compat
}  // namespace cograd

namespace c10 {
using Error = ::cograd::Error;
template <class... Parts>
std::string str(const Parts&... parts) {
  return ::cograd::torch_compat::text(parts...);
}
}  // namespace c10

#define COGRAD_TORCH_CHECK_(kind, cond, ...)                                         \
  do {                                                                               \
    if (__builtin_expect(!(cond), 0))                                                \
      ::cograd::torch_compat::fail(::cograd::ErrorKind::kind, #cond, ##__VA_ARGS__); \
  } while (false)
#define TORCH_CHECK(cond, ...) COGRAD_TORCH_CHECK_(Runtime, cond, ##__VA_ARGS__)
#define TORCH_CHECK_VALUE(cond, ...) COGRAD_TORCH_CHECK_(Value, cond, ##__VA_ARGS__)
#define TORCH_CHECK_TYPE(cond, ...) COGRAD_TORCH_CHECK_(Type, cond, ##__VA_ARGS__)
#define TORCH_CHECK_INDEX(cond, ...) COGRAD_TORCH_CHECK_(Index, cond, ##__VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...) \
  COGRAD_TORCH_CHECK_(NotImplemented, cond, ##__VA_ARGS__)
#define TORCH_CHECK_LINALG(cond, ...) COGRAD_TORCH_CHECK_(Runtime, cond, ##__VA_ARGS__)
#define TORCH_CHECK_IF_NOT_ON_CUDA(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(cond, ...)                                               \
  do {                                                                                 \
    if (__builtin_expect(!(cond), 0))                                                  \
      ::cograd::torch_compat::fail_internal(#cond, __FILE__, __LINE__, ##__VA_ARGS__); \
  } while (false)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(cond, ...) \
  while (false) TORCH_INTERNAL_ASSERT(cond, ##__VA_ARGS__)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(cond, ...) TORCH_INTERNAL_ASSERT(cond, ##__VA_ARGS__)
#endif
#define COGRAD_TORCH_COMPARE_(a, b, op) \
  TORCH_CHECK((a)op(b), "Check failed: " #a " " #op " " #b " (", (a), " vs. ", (b), "). ")
#define TORCH_CHECK_EQ(a, b) COGRAD_TORCH_COMPARE_(a, b, ==)
#define TORCH_CHECK_NE(a, b) COGRAD_TORCH_COMPARE_(a, b, !=)
#define TORCH_CHECK_LE(a, b) COGRAD_TORCH_COMPARE_(a, b, <=)
#define TORCH_CHECK_LT(a, b) COGRAD_TORCH_COMPARE_(a, b, <)
#define TORCH_CHECK_GE(a, b) COGRAD_TORCH_COMPARE_(a, b, >=)
#define TORCH_CHECK_GT(a, b) COGRAD_TORCH_COMPARE_(a, b, >)
#define TORCH_WARN(...) ::cograd::torch_compat::warn(::c10::str(__VA_ARGS__))
#define TORCH_WARN_ONCE(...)                                            \
  do {                                                                  \
    static const bool cograd_warned_ = (TORCH_WARN(__VA_ARGS__), true); \
    (void)cograd_warned_;                                               \
  } while (false)
#define TORCH_WARN_DEPRECATION(...) TORCH_WARN(__VA_ARGS__)

#define AT_ERROR(...) \
  ::cograd::torch_compat::fail(::cograd::ErrorKind::Runtime, "", ::c10::str(__VA_ARGS__))
#define AT_INDEX_ERROR(...) \
  ::cograd::torch_compat::fail(::cograd::ErrorKind::Index, "", ::c10::str(__VA_ARGS__))
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ASSERTM(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_CHECK(cond, ...) TORCH_CHECK(cond, ##__VA_ARGS__)
#define AT_WARN(...) TORCH_WARN(__VA_ARGS__)

#define TORCH_API
#define TORCH_PYTHON_API
#define TORCH_EXPORT __attribute__((visibility("default")))
#define C10_API
#define C10_EXPORT __attribute__((visibility("default")))
#define C10_IMPORT
#define C10_HIDDEN __attribute__((visibility("hidden")))
#define C10_HOST
#define C10_DEVICE
#define C10_HOST_DEVICE
#define C10_LIKELY(x) (__builtin_expect(static_cast<bool>(x), 1))
#define C10_UNLIKELY(x) (__builtin_expect(static_cast<bool>(x), 0))
#define C10_UNUSED __attribute__((__unused__))
#define C10_USED __attribute__((__used__))
#define C10_NODISCARD [[nodiscard]]
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_RESTRICT __restrict
#define C10_ANONYMOUS_VARIABLE(name) COGRAD_CAT(name, __COUNTER__)
#define C10_STRINGIZE_IMPL(x) #x
#define C10_STRINGIZE(x) C10_STRINGIZE_IMPL(x)
#define C10_CONCATENATE(a, b) COGRAD_CAT(a, b)
// clang-format off
#define AT_FORALL_COGRAD_DTYPES(_)                                                 \
  _(uint8_t, Byte)                                                                 \
  _(int8_t, Char)                                                                  \
  _(int16_t, Short) _(int, Int) _(int64_t, Long) _(at::Half, Half) _(float, Float) \
      _(double, Double) _(bool, Bool) _(at::BFloat16, BFloat16)
// clang-format on
