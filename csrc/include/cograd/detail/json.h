// SPDX-License-Identifier: BSD-3-Clause
// Reads JSON from a string in one pass: the caller asks for what it expects.
#pragma once
#include <stdint.h>

#include <string>

#include "cograd/error.h"

namespace cograd {
inline namespace abi1 {
namespace ext {

class JsonReader {
 public:
  // `where` starts the messages; both must outlive the reader.
  JsonReader(const std::string& text, const char* where) : s_(text), where_(where) {}
  // Reads an object; f(key) must read the value.
  template <class F>
  void object(F&& f) {
    take('{', "an object");
    if (next('}')) return;
    do {
      const std::string key = string();
      take(':', "a colon");
      f(key);
    } while (next(','));
    take('}', "a comma or the end of an object");
  }
  // Reads a list; f() must read the item.
  template <class F>
  void array(F&& f) {
    take('[', "a list");
    if (next(']')) return;
    do {
      f();
    } while (next(','));
    take(']', "a comma or the end of a list");
  }
  // Reads a whole number from 0 to 2^63 - 1.
  uint64_t natural() {
    space();
    uint64_t v = 0;
    const size_t start = at_;
    for (; at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '9'; ++at_) {
      const bool over = __builtin_mul_overflow(v, uint64_t{10}, &v) ||
                        __builtin_add_overflow(v, static_cast<uint64_t>(s_[at_] - '0'), &v);
      if (over || v > INT64_MAX) wrong("a number below 2^63");
    }
    const bool plain = at_ == s_.size() || (s_[at_] != '.' && s_[at_] != 'e' && s_[at_] != 'E');
    if (at_ == start || !plain || (s_[start] == '0' && at_ > start + 1))
      wrong("a whole number that is not negative");
    return v;
  }
  std::string string() {
    take('"', "a string");
    std::string out;
    while (true) {
      if (at_ >= s_.size()) wrong("the end of a string");
      const char c = s_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) wrong("no control character in a string");
      if (c != '\\')
        out += c;
      else
        escape(out);
    }
  }
  // Reads any value and drops it.
  void skip(int depth = 0) {
    if (depth > 100) wrong("fewer nested values");
    space();
    const char c = at_ < s_.size() ? s_[at_] : '\0';
    if (c == '{') {
      object([&](const std::string&) { skip(depth + 1); });
    } else if (c == '[') {
      array([&] { skip(depth + 1); });
    } else if (c == '"') {
      string();
    } else {
      const size_t start = at_;
      while (at_ < s_.size() && is_word(s_[at_])) ++at_;
      if (at_ == start) wrong("a value");
    }
  }
  // Checks that only blanks follow.
  void end() {
    space();
    if (at_ != s_.size()) wrong("the end");
  }

 private:
  static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' ||
           c == '.';
  }
  void space() {
    while (at_ < s_.size() &&
           (s_[at_] == ' ' || s_[at_] == '\n' || s_[at_] == '\t' || s_[at_] == '\r'))
      ++at_;
  }
  bool next(char c) {
    space();
    if (at_ >= s_.size() || s_[at_] != c) return false;
    ++at_;
    return true;
  }
  void take(char c, const char* what) {
    if (!next(c)) wrong(what);
  }
  [[noreturn, gnu::cold]] void wrong(const char* what) const {
    cograd::detail::fail(ErrorKind::Value, where_, ": expected ", what, " at byte ", at_, " of ",
                         s_.size());
  }
  uint32_t hex4() {
    uint32_t v = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = at_ < s_.size() ? s_[at_] : '\0';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) wrong("four hexadecimal digits");
      v = v << 4 | static_cast<uint32_t>(digit);
      ++at_;
    }
    return v;
  }
  void escape(std::string& out) {
    const char c = at_ < s_.size() ? s_[at_++] : '\0';
    const char* plain = "\"\\/bfnrt";
    const char* meaning = "\"\\/\b\f\n\r\t";
    for (int i = 0; plain[i] != '\0'; ++i)
      if (c == plain[i]) {
        out += meaning[i];
        return;
      }
    if (c != 'u') wrong("an escape sequence");
    uint32_t code = hex4();
    if (code >= 0xd800 && code < 0xdc00) {  // the first half of a pair
      const bool pair = s_.compare(at_, 2, "\\u") == 0;
      at_ += pair ? 2 : 0;
      const uint32_t low = pair ? hex4() : 0;
      if (low < 0xdc00 || low > 0xdfff) wrong("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      wrong("the first half of a surrogate pair");
    }
    utf8(out, code);
  }
  static void utf8(std::string& out, uint32_t code) {
    const auto byte = [&](uint32_t v) { out += static_cast<char>(v); };
    if (code < 0x80) {
      byte(code);
      return;
    }
    if (code < 0x800) {
      byte(0xc0 | code >> 6);
    } else {
      if (code < 0x10000) {
        byte(0xe0 | code >> 12);
      } else {
        byte(0xf0 | code >> 18);
        byte(0x80 | (code >> 12 & 0x3f));
      }
      byte(0x80 | (code >> 6 & 0x3f));
    }
    byte(0x80 | (code & 0x3f));
  }

  const std::string& s_;
  const char* where_;
  size_t at_ = 0;
};

}  // namespace ext
}  // namespace abi1
}  // namespace cograd
