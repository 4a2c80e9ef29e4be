// SPDX-License-Identifier: BSD-3-Clause
// Error classes, one for each Python exception class, and the check macros that throw them.
#pragma once
#include <charconv>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#define COGRAD_API __attribute__((visibility("default")))

namespace cograd {

enum class ErrorKind : uint8_t { Runtime, Value, Type, Index, NotImplemented, Memory };

class COGRAD_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }

 private:
  ErrorKind kind_;
  std::string message_;
};

namespace detail {
inline void put(std::string& s, std::string_view v) { s.append(v); }
inline void put(std::string& s, const char* v) { s.append(v); }
inline void put(std::string& s, const std::string& v) { s.append(v); }
inline void put(std::string& s, char v) { s.push_back(v); }
inline void put(std::string& s, bool v) { s.append(v ? "True" : "False"); }
template <class T>
  requires std::is_arithmetic_v<T>
void put(std::string& s, T v) {
  char buf[32];
  auto r = std::to_chars(buf, buf + sizeof buf, v);
  s.append(buf, r.ptr);
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
}  // namespace detail

}  // namespace cograd

// User errors. Text: "op(): what was wrong, got X, expected Y".
#define COGRAD_CHECK_KIND(kind, cond, ...)                            \
  do {                                                                \
    if (!(cond)) [[unlikely]]                                         \
      ::cograd::detail::fail(::cograd::ErrorKind::kind, __VA_ARGS__); \
  } while (0)
#define COGRAD_CHECK(cond, ...) COGRAD_CHECK_KIND(Runtime, cond, __VA_ARGS__)
#define COGRAD_CHECK_VALUE(cond, ...) COGRAD_CHECK_KIND(Value, cond, __VA_ARGS__)
#define COGRAD_CHECK_TYPE(cond, ...) COGRAD_CHECK_KIND(Type, cond, __VA_ARGS__)
#define COGRAD_CHECK_INDEX(cond, ...) COGRAD_CHECK_KIND(Index, cond, __VA_ARGS__)
#define COGRAD_CHECK_NOT_IMPLEMENTED(cond, ...) COGRAD_CHECK_KIND(NotImplemented, cond, __VA_ARGS__)
