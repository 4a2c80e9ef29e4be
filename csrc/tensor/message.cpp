// SPDX-License-Identifier: BSD-3-Clause
// Composes error messages.
#include <charconv>

#include "cograd/error.h"
#include "tensor/thread_locals.h"

namespace cograd::detail {
namespace {

template <class T>
void put_number(std::string& s, T v) {
  char buf[32];
  const auto end = std::to_chars(buf, buf + sizeof buf, v);
  s.append(buf, end.ptr);
}

void put_part(std::string& s, const Part& p) {
  switch (p.kind) {
    case Part::Kind::Chars:
      s.append(static_cast<const char*>(p.text));
      break;
    case Part::Kind::String:
      s.append(*static_cast<const std::string*>(p.text));
      break;
    case Part::Kind::View:
      s.append(*static_cast<const std::string_view*>(p.text));
      break;
    case Part::Kind::Char:
      s.push_back(static_cast<char>(p.integer));
      break;
    case Part::Kind::Bool:
      s.append(p.integer != 0 ? "True" : "False");
      break;
    case Part::Kind::Int:
      put_number(s, p.integer);
      break;
    case Part::Kind::Unsigned:
      put_number(s, static_cast<uint64_t>(p.integer));
      break;
    case Part::Kind::Float:
      put_number(s, static_cast<float>(p.real));
      break;
    case Part::Kind::Double:
      put_number(s, p.real);
      break;
  }
}

}  // namespace

std::string compose(const Part* parts, size_t n) {
  std::string s;
  for (size_t i = 0; i < n; ++i) put_part(s, parts[i]);
  return s;
}

void raise(ErrorKind kind, const Part* parts, size_t n) {
  (void)take_thread_locals();
  throw Error(kind, compose(parts, n));
}

}  // namespace cograd::detail
