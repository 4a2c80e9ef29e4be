// SPDX-License-Identifier: BSD-3-Clause
// Reads the names and default values of the parameters of registered ops.
#include "api/defaults.h"

#include <cctype>
#include <cstdlib>

namespace cograd::api {

void bad_schema(const ForeignOp& op, const char* why, std::string_view what) {
  detail::fail(ErrorKind::Value, "op '", op.qualified, "': ", why, " '", what, "' in its schema");
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
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

bool is_identifier(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0])) != 0) return false;
  for (const char c : s)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  return true;
}

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
bool read_scalar(std::string_view s, Scalar& out) {
  bool b = false;
  int64_t i = 0;
  double d = 0;
  if (read_bool(s, b))
    out = Scalar(b);
  else if (read_int(s, i))
    out = Scalar(static_cast<long>(i));
  else if (read_double(s, d))
    out = Scalar(d);
  else
    return false;
  return true;
}

// "[1, 2]" or "(1, 2)" through `one`; anything else is one element.
template <class T, class F>
bool read_list(std::string_view s, std::vector<T>& out, F&& one) {
  const bool bracket = s.size() >= 2 && ((s.front() == '[' && s.back() == ']') ||
                                         (s.front() == '(' && s.back() == ')'));
  if (bracket) s = s.substr(1, s.size() - 2);
  for (const std::string_view item : split_items(s)) {
    T value{};
    if (!one(item, value)) return false;
    out.push_back(value);
  }
  return bracket || out.size() == 1;
}
template <class T>
void set_list(Value& v, Value::Kind kind, const std::vector<T>& list) {
  v.kind = kind;
  v.list = list.data();
  v.length = list.size();
}

bool read_list_default(DefaultLists& lists, ArgKind kind, std::string_view text, Value& v) {
  bool ok = false;
  if (kind == ArgKind::Ints) {
    auto& list = lists.ints.emplace_back();
    ok = read_list(text, list, read_int);
    set_list(v, Value::Kind::Ints, list);
  } else if (kind == ArgKind::Doubles) {
    auto& list = lists.doubles.emplace_back();
    ok = read_list(text, list, read_double);
    set_list(v, Value::Kind::Doubles, list);
  } else if (kind == ArgKind::Bools) {
    auto& list = lists.bools.emplace_back();
    ok = read_list(text, list, [](std::string_view s, uint8_t& out) {
      bool b = false;
      const bool is_bool = read_bool(s, b);
      out = b;
      return is_bool;
    });
    set_list(v, Value::Kind::Bools, list);
  } else if (kind == ArgKind::Strings) {
    auto& list = lists.strings.emplace_back();
    ok = read_list(text, list, read_text);
    for (std::string_view& s : list) s = lists.texts.emplace_back(s);
    set_list(v, Value::Kind::Strings, list);
  } else if (kind == ArgKind::Tensors) {
    ok = text == "[]" || text == "()";
    v.kind = Value::Kind::Tensors;
    v.list = nullptr;
  }
  return ok;
}

bool read_default(ForeignOp& op, ArgKind kind, std::string_view text, Value& v) {
  std::string_view inside;
  switch (kind) {
    case ArgKind::Bool:
      v.kind = Value::Kind::Bool;
      return read_bool(text, v.truth);
    case ArgKind::Int:
      v.kind = Value::Kind::Int;
      return read_int(text, v.integer);
    case ArgKind::Double:
      v.kind = Value::Kind::Double;
      return read_double(text, v.number);
    case ArgKind::Scalar:
    case ArgKind::TensorOrScalar:
      v.kind = Value::Kind::Scalar;
      return read_scalar(text, v.scalar);
    case ArgKind::DType:
      v.kind = Value::Kind::DType;
      return read_dtype(text, v.dtype);
    case ArgKind::Device:
      v.kind = Value::Kind::Device;
      v.device = Device{DeviceType::CPU, -1};
      return text == "cpu" || (read_text(text, inside) && inside == "cpu");
    case ArgKind::String: {
      if (!read_text(text, inside)) return false;
      const std::string& kept = op.lists.texts.emplace_back(inside);
      v.kind = Value::Kind::String;
      v.list = kept.data();
      v.length = kept.size();
      return true;
    }
    case ArgKind::Tensor:
    case ArgKind::Generator:
      return false;
    default:
      return read_list_default(op.lists, kind, text, v);
  }
}

void set_default(ForeignOp& op, size_t i, std::string_view text) {
  ArgInfo& a = op.record.args[i];
  a.has_default = true;
  a.default_text = text;
  if (text == "None") {
    if (a.kind == ArgKind::Tensor) a.nullable = true;  // arrives undefined
    COGRAD_CHECK_VALUE(a.nullable, "op '", op.qualified, "': parameter '", a.name,
                       "' cannot be None: its type is '", op.types[i], "', which is not optional");
    return;
  }
  COGRAD_CHECK_VALUE(read_default(op, a.kind, text, a.default_value), "op '", op.qualified,
                     "': cannot read the default '", text, "' of parameter '", a.name,
                     "', whose type is '", op.types[i], "'");
}

}  // namespace

void parse_names(ForeignOp& op) {
  auto& args = op.record.args;
  bool keyword_only = false, optional = false;
  size_t i = 0;
  for (std::string_view item : split_items(op.params)) {
    if (item == "*") {
      keyword_only = true;
      optional = false;
      continue;
    }
    if (i == args.size()) bad_schema(op, "more names than parameters at", item);
    ArgInfo& a = args[i];
    a.keyword_only = keyword_only;
    if (item.front() == '*') {
      if (a.kind != ArgKind::Ints && a.kind != ArgKind::Tensors)
        bad_schema(op, "only ints and tensors may be given one by one:", item);
      a.variadic = keyword_only = true;  // those that follow need their names
      item.remove_prefix(1);
    }
    const size_t eq = item.find('=');
    a.name = trim(item.substr(0, eq));
    if (!is_identifier(a.name)) bad_schema(op, "expected a name, got", item);
    for (size_t j = 0; j < i; ++j)
      if (args[j].name == a.name) bad_schema(op, "there are two parameters", a.name);
    if (eq != std::string_view::npos)
      set_default(op, i, trim(item.substr(eq + 1)));
    else if (optional && !a.variadic)
      bad_schema(op, "a parameter without default follows one that has one:", item);
    optional |= eq != std::string_view::npos;
    ++i;
  }
  if (i != args.size())
    bad_schema(op, detail::concat("got ", i, " names for ", args.size(), " parameters:").c_str(),
               op.params);
}

}  // namespace cograd::api
