// SPDX-License-Identifier: BSD-3-Clause
// Splits parameter text into items, and items into type, name and default.
#include "ops/declare/parameters.h"

#include <cctype>

#include "ops/declare/defaults.h"

namespace cograd {

namespace {

struct TypeWord {
  const char* word;
  ArgKind kind;
};
// Messages use the first word of each kind.
constexpr TypeWord kTypes[] = {
    {"Tensor[]", ArgKind::Tensors}, {"Tensor?[]", ArgKind::Tensors},
    {"Tensor", ArgKind::Tensor},    {"int[]", ArgKind::Ints},
    {"SymInt[]", ArgKind::Ints},    {"float[]", ArgKind::Doubles},
    {"double[]", ArgKind::Doubles}, {"bool[]", ArgKind::Bools},
    {"str[]", ArgKind::Strings},    {"int", ArgKind::Int},
    {"SymInt", ArgKind::Int},       {"float", ArgKind::Double},
    {"double", ArgKind::Double},    {"bool", ArgKind::Bool},
    {"str", ArgKind::String},       {"Scalar", ArgKind::Scalar},
    {"number", ArgKind::Scalar},    {"complex", ArgKind::Scalar},
    {"ScalarType", ArgKind::DType}, {"dtype", ArgKind::DType},
    {"Device", ArgKind::Device},    {"Tensor | Scalar", ArgKind::TensorOrScalar},
};

template <class... Parts>
[[noreturn]] void fail(const std::string& who, const Parts&... parts) {
  detail::fail(ErrorKind::Value, who, ": ", parts...);
}

bool is_identifier(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0])) != 0) return false;
  for (const char c : s)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  return true;
}

// Returns the end of the type at the front of "Tensor(a!)? x=None".
size_t end_of_type(std::string_view item) {
  int depth = 0;
  for (size_t i = 0; i < item.size(); ++i) {
    if (item[i] == '(' || item[i] == '[') ++depth;
    if (item[i] == ')' || item[i] == ']') --depth;
    if (depth == 0 && std::isspace(static_cast<unsigned char>(item[i])) != 0) return i;
  }
  return item.size();
}

// Returns "Tensor?" for "Tensor(a!)?"; stores the alias mark and the length in brackets in `a`.
std::string plain_type(std::string_view text, ArgInfo& a) {
  std::string type;
  bool in_alias = false;
  for (const char c : text) {
    if (c == '(') in_alias = true;
    if (in_alias) {
      a.mutated |= c == '!';
    } else if (c >= '0' && c <= '9') {
      a.count = std::min<size_t>(a.count * 10 + static_cast<size_t>(c - '0'), 1 << 16);
    } else {
      type.push_back(c);
    }
    if (c == ')') in_alias = false;
  }
  return type;
}

const TypeWord* find_type(std::string_view word) {
  for (const TypeWord& t : kTypes)
    if (word == t.word) return &t;
  return nullptr;
}

ArgInfo typed_parameter(std::string_view item, std::string_view& rest, const std::string& who) {
  ArgInfo a;
  const size_t end = end_of_type(item);
  a.type = plain_type(item.substr(0, end), a);
  std::string_view word = a.type;
  a.nullable = word.ends_with('?');
  if (a.nullable) word.remove_suffix(1);
  const TypeWord* known = find_type(word);
  rest = trim(item.substr(end));
  if (known == nullptr) {
    const std::string_view base = word.substr(0, word.find_first_of("?["));
    fail(who, "unknown type '", base, "' in its schema");
  }
  if (rest.empty())
    fail(who, "cannot read the argument '", item, "': expected a type and a name in its schema");
  a.kind = known->kind;
  return a;
}

void set_default(ArgInfo& a, std::string_view text, const std::string& who) {
  a.has_default = true;
  a.default_text = text;
  if (text == "None" || text == "none") {
    if (a.kind == ArgKind::Tensor) {
      a.nullable = true;  // a missing tensor arrives undefined
      a.default_value.set_tensor(nullptr);
    }
    if (!a.nullable)
      fail(who, "parameter '", a.name, "' cannot be None: its type is ",
           a.type.empty() ? type_word(a.kind) : a.type.c_str(), ", which is not optional");
    return;
  }
  if (!read_default(a, text))
    fail(who, "cannot read the default value '", text, "' of parameter '", a.name,
         "', whose type is ", a.type.empty() ? type_word(a.kind) : a.type.c_str());
}

// Parses one item "*x", "x" or "x=1" into an argument whose kind is known.
void read_item(ArgInfo& a, std::string_view item, const std::string& who) {
  if (item.front() == '*') {
    const bool list = a.kind == ArgKind::Ints || a.kind == ArgKind::DimList ||
                      a.kind == ArgKind::Shape || a.kind == ArgKind::Tensors;
    if (!list) fail(who, "only lists of ints or tensors can be variadic: '", item, "'");
    a.variadic = true;
    item.remove_prefix(1);
  }
  const size_t eq = item.find('=');
  a.name = trim(item.substr(0, eq));
  if (!is_identifier(a.name)) fail(who, "expected a name, got '", item, "' in its parameters");
  if (eq != std::string_view::npos) set_default(a, trim(item.substr(eq + 1)), who);
}

}  // namespace

const char* type_word(ArgKind kind) noexcept {
  for (const TypeWord& t : kTypes)
    if (t.kind == kind) return t.word;
  return kind_name(kind);
}

void read_names(std::vector<ArgInfo>& args, std::string_view text, const std::string& who) {
  bool keyword_only = false, optional = false;
  size_t i = 0;
  for (const std::string_view item : split_items(text)) {
    if (item == "*") {
      keyword_only = true;
      optional = false;
      continue;
    }
    if (i == args.size()) fail(who, "more names than parameters at '", item, "'");
    ArgInfo& a = args[i];
    a.keyword_only = keyword_only;
    read_item(a, item, who);
    for (size_t j = 0; j < i; ++j)
      if (args[j].name == a.name) fail(who, "there are two parameters '", a.name, "'");
    if (optional && !a.has_default && !a.variadic && !keyword_only)
      fail(who, "a parameter without default follows one that has one: '", item, "'");
    optional |= a.has_default;
    keyword_only |= a.variadic;  // parameters after a variadic one are keyword-only
    ++i;
  }
  if (i != args.size())
    fail(who, "got ", i, " names for ", args.size(), " parameters: '", text, "'");
}

std::string parameter_name(std::string_view text, size_t k) {
  for (const std::string_view item : split_items(text))
    if (item != "*" && k-- == 0) return std::string(trim(item.substr(0, item.find('='))));
  return "a parameter";
}

std::string names_text(const std::vector<ArgInfo>& args, bool out) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  bool by_keyword = false;
  for (const ArgInfo& a : args) {
    if (a.keyword_only && !by_keyword) add("*");
    by_keyword |= a.keyword_only || a.variadic;
    add((a.variadic ? "*" : "") + a.name + (a.has_default ? "=" + a.default_text : ""));
  }
  if (!out) return text;
  if (!by_keyword) add("*");
  add("out=None");
  return text;
}

namespace {

struct MergedName {
  const ArgInfo* arg;
  size_t lists = 0;  // how many have it
  bool optional = false, positional = false;
};

void merge_names(std::vector<MergedName>& all, const std::vector<ArgInfo>& args) {
  size_t at = 0;  // after the parameters that both have
  for (const ArgInfo& a : args) {
    size_t i = 0;
    while (i < all.size() && all[i].arg->name != a.name) ++i;
    if (i == all.size()) {
      i = at;
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(i), MergedName{&a});
    }
    ++all[i].lists;
    all[i].optional |= a.has_default;
    all[i].positional |= !a.keyword_only;
    if (a.has_default && !all[i].arg->has_default) all[i].arg = &a;
    at = std::max(at, i + 1);
  }
}

}  // namespace

std::string merged_names(const std::vector<const std::vector<ArgInfo>*>& lists, bool out) {
  std::vector<MergedName> all;
  for (const std::vector<ArgInfo>* args : lists) merge_names(all, *args);
  const bool rest = std::ranges::any_of(all, [](const auto& m) { return m.arg->variadic; });
  // A parameter that some records lack is passed by keyword if another takes any number of values.
  const auto group = [&](const MergedName& m) {
    if (m.arg->variadic) return 1;
    return !m.positional ? 3 : rest && m.lists != lists.size() ? 2 : 0;
  };
  std::ranges::stable_sort(all, {}, group);
  bool optional = false, by_keyword = false;
  std::string text;
  for (const MergedName& m : all) {
    if (!m.positional && !by_keyword) text += text.empty() ? "*" : ", *";
    by_keyword |= !m.positional || m.arg->variadic;
    optional |= m.optional || m.lists != lists.size();
    text += (text.empty() ? "" : ", ") + std::string(m.arg->variadic ? "*" : "") + m.arg->name;
    if (optional && !m.arg->variadic)
      text += "=" + (m.arg->has_default ? m.arg->default_text : std::string("None"));
  }
  if (out) text += by_keyword ? ", out=None" : ", *, out=None";
  return text;
}

Schema read_schema(std::string_view text, const std::string& who) {
  const size_t open = text.find('('), arrow = text.rfind("->");
  const size_t close = text.rfind(')', arrow == std::string_view::npos ? text.size() : arrow);
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    fail(who, "expected 'name(type name, ...) -> type', got '", text, "'");
  Schema s;
  s.name = trim(text.substr(0, open));
  std::string names;
  for (const std::string_view item : split_items(text.substr(open + 1, close - open - 1))) {
    std::string_view rest = item;
    if (item != "*") s.args.push_back(typed_parameter(item, rest, who));
    names += (names.empty() ? "" : ", ") + std::string(rest);
  }
  read_names(s.args, names, who);
  if (arrow == std::string_view::npos) return s;
  std::string_view result = trim(text.substr(arrow + 2));
  if (result.starts_with('(') && result.ends_with(')'))
    result = result.substr(1, result.size() - 2);
  for (const std::string_view item : split_items(result)) {
    ArgInfo ignored;
    s.returns.push_back(plain_type(item.substr(0, end_of_type(item)), ignored));
  }
  return s;
}

}  // namespace cograd
