// SPDX-License-Identifier: BSD-3-Clause
// Error classes, one for each Python exception class, and the check macros that throw them.
#pragma once
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#ifdef COGRAD_BUILDING
#include <charconv>
#include <string_view>
#else
#include <stdio.h>
#endif
#include <stdint.h>

#ifdef COGRAD_BUILDING
#define COGRAD_API __attribute__((visibility("default")))
#else
#define COGRAD_API __attribute__((visibility("hidden")))
#endif

namespace cograd {

enum class ErrorKind : uint8_t { Runtime, Value, Type, Index, NotImplemented, Memory };

class COGRAD_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }
  // Names the exception of another language that this one stands for; 0: none.
  uint64_t token() const noexcept { return token_; }
  void set_token(uint64_t token) noexcept { token_ = token; }

 private:
  ErrorKind kind_;
  std::string message_;
  uint64_t token_ = 0;
};

namespace detail {
inline void put(std::string& s, const char* v) { s.append(v); }
inline void put(std::string& s, const std::string& v) { s.append(v); }
inline void put(std::string& s, char v) { s.push_back(v); }
inline void put(std::string& s, bool v) { s.append(v ? "True" : "False"); }
#ifdef COGRAD_BUILDING
inline void put(std::string& s, std::string_view v) { s.append(v); }
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
void put(std::string& s, T v) {
  char buf[32];
  auto r = std::to_chars(buf, buf + sizeof buf, v);
  s.append(buf, r.ptr);
}
#else
// Extensions: no <charconv>, whose cost every one of them would pay.
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
void put(std::string& s, T v) {
  char buf[32];
  if constexpr (std::is_floating_point_v<T>)
    snprintf(buf, sizeof buf, "%g", static_cast<double>(v));
  else if constexpr (std::is_signed_v<T>)
    snprintf(buf, sizeof buf, "%lld", static_cast<long long>(v));
  else
    snprintf(buf, sizeof buf, "%llu", static_cast<unsigned long long>(v));
  s.append(buf);
}
#endif
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string s;
  (put(s, parts), ...);
  return s;
}
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, concat(parts...));
}
}  // namespace detail

}  // namespace cograd

// User errors. Text: "op(): what was wrong, got X, expected Y".
#define COGRAD_CHECK_KIND(kind, cond, ...)                            \
  do {                                                                \
    if (__builtin_expect(!(cond), 0))                                 \
      ::cograd::detail::fail(::cograd::ErrorKind::kind, __VA_ARGS__); \
  } while (0)
#define COGRAD_CHECK(cond, ...) COGRAD_CHECK_KIND(Runtime, cond, __VA_ARGS__)
#define COGRAD_CHECK_VALUE(cond, ...) COGRAD_CHECK_KIND(Value, cond, __VA_ARGS__)
#define COGRAD_CHECK_TYPE(cond, ...) COGRAD_CHECK_KIND(Type, cond, __VA_ARGS__)
#define COGRAD_CHECK_INDEX(cond, ...) COGRAD_CHECK_KIND(Index, cond, __VA_ARGS__)
#define COGRAD_CHECK_NOT_IMPLEMENTED(cond, ...) COGRAD_CHECK_KIND(NotImplemented, cond, __VA_ARGS__)
