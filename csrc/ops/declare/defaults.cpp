// SPDX-License-Identifier: BSD-3-Clause
// Parses scalars, words and lists of them as default values.
#include "ops/declare/defaults.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace cograd {

std::string_view trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front())) != 0) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back())) != 0) s.remove_suffix(1);
  return s;
}

std::vector<std::string_view> split_items(std::string_view s) {
  std::vector<std::string_view> out;
  int depth = 0;
  char quote = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || (s[i] == ',' && depth == 0 && quote == 0)) {
      const std::string_view item = trim(s.substr(begin, i - begin));
      if (!item.empty()) out.push_back(item);
      begin = i + 1;
    } else if (quote != 0) {
      if (s[i] == quote) quote = 0;
    } else if (s[i] == '\'' || s[i] == '"') {
      quote = s[i];
    } else if (s[i] == '(' || s[i] == '[') {
      ++depth;
    } else if (s[i] == ')' || s[i] == ']') {
      --depth;
    }
  }
  return out;
}

namespace {

bool read_bool(std::string_view s, bool& out) {
  out = s == "True" || s == "true";
  return out || s == "False" || s == "false";
}
bool read_int(std::string_view s, int64_t& out) {
  const std::string text(s);
  char* end = nullptr;
  errno = 0;
  out = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && errno == 0;
}
bool read_double(std::string_view s, double& out) {
  const std::string text(s);
  char* end = nullptr;
  out = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0';
}
bool read_text(std::string_view s, std::string_view& out) {
  if (s.size() < 2 || s.front() != s.back() || (s.front() != '\'' && s.front() != '"'))
    return false;
  out = s.substr(1, s.size() - 2);
  return true;
}
bool read_dtype(std::string_view s, DType& out) {
  for (const std::string_view prefix : {"cograd.", "torch."})
    if (s.starts_with(prefix)) s.remove_prefix(prefix.size());
  for (int i = 0; i < kNumDTypes; ++i) {
    out = static_cast<DType>(i);
    if (s == dtype_name(out)) return true;
  }
  return false;
}
bool read_scalar(std::string_view s, Value& v) {
  bool b = false;
  int64_t i = 0;
  double d = 0;
  if (read_bool(s, b))
    v.set_truth(b);
  else if (read_int(s, i))
    v.set_integer(i);
  else if (read_double(s, d))
    v.set_number(d);
  else
    return false;
  return true;
}

// Parses "[1, 2]" or "(1, 2)" item by item; other text is a list of one item. `a` owns the list.
template <class T, class F>
bool read_list(ArgInfo& a, int32_t kind, std::string_view s, F&& one) {
  const bool bracket = s.size() >= 2 && ((s.front() == '[' && s.back() == ']') ||
                                         (s.front() == '(' && s.back() == ')'));
  if (bracket) s = s.substr(1, s.size() - 2);
  const auto list = std::make_shared<std::vector<T>>();
  for (const std::string_view item : split_items(s)) {
    T value{};
    if (!one(item, value)) return false;
    list->push_back(std::move(value));
  }
  a.default_storage = list;
  a.default_value.set_list(kind, list->empty() ? nullptr : list->data(), list->size());
  return bracket || list->size() == 1;
}

bool read_strings(ArgInfo& a, std::string_view s) {
  struct Strings {
    std::vector<std::string> texts;
    std::vector<cograd_string> list;
  };
  ArgInfo texts;
  const bool ok = read_list<std::string>(texts, 0, s, [](std::string_view item, std::string& out) {
    std::string_view inside;
    const bool quoted = read_text(item, inside);
    out = inside;
    return quoted;
  });
  if (!ok) return false;
  const auto kept = std::make_shared<Strings>();
  kept->texts = *std::static_pointer_cast<const std::vector<std::string>>(texts.default_storage);
  for (const std::string& t : kept->texts) kept->list.push_back({t.data(), t.size()});
  a.default_storage = kept;
  a.default_value.set_list(COGRAD_STRINGS, kept->list.data(), kept->list.size());
  return true;
}

bool read_string(ArgInfo& a, std::string_view s) {
  std::string_view inside;
  if (!read_text(s, inside)) return false;
  const auto kept = std::make_shared<std::string>(inside);
  a.default_storage = kept;
  a.default_value.set_list(COGRAD_STRING, kept->data(), kept->size());
  return true;
}

bool read_device(ArgInfo& a, std::string_view s) {
  std::string_view inside = s;
  read_text(s, inside);
  a.default_value.set_device(Device{DeviceType::CPU, -1});
  return inside == "cpu";
}

}  // namespace

bool read_default(ArgInfo& a, std::string_view text) {
  Value& v = a.default_value;
  bool truth = false;
  int64_t integer = 0;
  double number = 0;
  DType dtype{};
  switch (a.kind) {
    case ArgKind::Bool:
      if (!read_bool(text, truth)) return false;
      v.set_truth(truth);
      return true;
    case ArgKind::Int:
    case ArgKind::Dim:
      if (!read_int(text, integer)) return false;
      v.set_integer(integer);
      return true;
    case ArgKind::Double:
      if (!read_double(text, number)) return false;
      v.set_number(number);
      return true;
    case ArgKind::Scalar:
    case ArgKind::TensorOrScalar:
      return read_scalar(text, v);
    case ArgKind::DType:
      if (!read_dtype(text, dtype)) return false;
      v.set_dtype(dtype);
      return true;
    case ArgKind::Device:
      return read_device(a, text);
    case ArgKind::String:
      return read_string(a, text);
    case ArgKind::Ints:
    case ArgKind::DimList:
    case ArgKind::Shape:
      return read_list<int64_t>(a, COGRAD_INTS, text, read_int);
    case ArgKind::Doubles:
      return read_list<double>(a, COGRAD_FLOATS, text, read_double);
    case ArgKind::Bools:
      return read_list<uint8_t>(a, COGRAD_BOOLEANS, text, [](std::string_view s, uint8_t& out) {
        bool b = false;
        const bool ok = read_bool(s, b);
        out = b;
        return ok;
      });
    case ArgKind::Strings:
      return read_strings(a, text);
    case ArgKind::Tensors:
      v.set_list(COGRAD_TENSORS, nullptr, 0);
      return text == "[]" || text == "()";
    case ArgKind::Tensor:
    case ArgKind::Generator:
    case ArgKind::Opaque:
      break;
  }
  return false;
}

}  // namespace cograd
