// SPDX-License-Identifier: BSD-3-Clause
// The Error class, with a kind for each Python exception class, and the check macros that throw it.
#pragma once
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#ifdef COGRAD_BUILDING
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
  // Identifies the exception of another language that this one wraps; 0: none.
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
#ifndef COGRAD_BUILDING
// Extensions do not use <charconv>, which would slow down the build of each of them.
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
#else
// A part of a message with its type erased, so that one function composes all messages, which keeps
// the library small. Text is not copied.
struct Part {
  enum class Kind : uint8_t { Chars, String, View, Char, Bool, Int, Unsigned, Float, Double };
  Part(const char* v) noexcept : text(v), kind(Kind::Chars) {}
  Part(const std::string* v) noexcept : text(v), kind(Kind::String) {}
  Part(const std::string_view& v) noexcept : text(&v), kind(Kind::View) {}
  Part(char v) noexcept : integer(v), kind(Kind::Char) {}
  Part(bool v) noexcept : integer(v), kind(Kind::Bool) {}
  Part(int64_t v) noexcept : integer(v), kind(Kind::Int) {}
  Part(uint64_t v) noexcept : integer(static_cast<int64_t>(v)), kind(Kind::Unsigned) {}
  Part(float v) noexcept : real(static_cast<double>(v)), kind(Kind::Float) {}
  Part(double v) noexcept : real(v), kind(Kind::Double) {}
  union {
    const void* text;
    int64_t integer;
    double real;
  };
  Kind kind;
};
COGRAD_API std::string compose(const Part* parts, size_t n);
[[noreturn, gnu::cold]] COGRAD_API void raise(ErrorKind kind, const Part* parts, size_t n);

// Reduces the types of parts to a few, so that there are few template instances.
inline const char* plain(const char* v) noexcept { return v; }
inline const std::string* plain(const std::string& v) noexcept { return &v; }
inline std::string_view plain(std::string_view v) noexcept { return v; }
inline char plain(char v) noexcept { return v; }
inline bool plain(bool v) noexcept { return v; }
inline float plain(float v) noexcept { return v; }
inline double plain(double v) noexcept { return v; }
template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
auto plain(T v) noexcept {
  return static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t> >(v);
}
template <class... Plain>
[[gnu::cold, gnu::noinline]] std::string compose_plain(Plain... parts) {
  const Part all[] = {Part(parts)...};
  return compose(all, sizeof...(Plain));
}
template <class... Parts>
[[gnu::always_inline]] inline std::string concat(const Parts&... parts) {
  return compose_plain(plain(parts)...);
}
template <class... Plain>
[[noreturn, gnu::cold, gnu::noinline]] void fail_plain(ErrorKind kind, Plain... parts) {
  const Part all[] = {Part(parts)...};
  raise(kind, all, sizeof...(Plain));
}
template <class... Parts>
[[noreturn, gnu::always_inline]] inline void fail(ErrorKind kind, const Parts&... parts) {
  fail_plain(kind, plain(parts)...);
}
#endif
}  // namespace detail

}  // namespace cograd

// Checks for user errors. The message has the form "op(): what was wrong, got X, expected Y".
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
