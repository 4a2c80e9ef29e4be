// SPDX-License-Identifier: BSD-3-Clause
// Parses the parameter strings of op declarations into the table.
#include "ops/core/registry.h"

#include <cstdio>
#include <cstdlib>

namespace cograd {

namespace {

std::vector<OpRecord*>& table() {
  static auto* t = new std::vector<OpRecord*>;
  return *t;
}

struct AliasName {
  const char* name;
  const char* of;
};
std::vector<AliasName>& pending_aliases() {
  static auto* v = new std::vector<AliasName>;
  return *v;
}

// A string default lies inside its ArgInfo, so its address is taken again after every copy.
void point_at_default_strings(OpRecord& r) {
  for (ArgInfo& a : r.args) {
    if (a.default_value.kind != Value::Kind::String) continue;
    a.default_value.list = a.default_string.data();
    a.default_value.length = a.default_string.size();
  }
}

void make_aliases() {
  const std::vector<AliasName> aliases = std::move(pending_aliases());
  pending_aliases().clear();
  const std::vector<OpRecord*> known = table();
  for (const AliasName& alias : aliases) {
    for (const OpRecord* r : known) {
      if (std::string_view(r->spec.name) != alias.of) continue;
      auto* copy = new OpRecord(*r);
      copy->spec.name = alias.name;
      copy->spec.samples = "none: another name of an op that has samples";
      point_at_default_strings(*copy);
      table().push_back(copy);
    }
  }
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

[[noreturn]] void bad(const OpRecord& r, const char* why, std::string_view what) {
  detail::fail(ErrorKind::Value, "op '", r.spec.name, "' has a malformed declaration: ", why, " '",
               what, "'");
}

void set_default(const OpRecord& r, ArgInfo& a, std::string_view text) {
  a.has_default = true;
  a.default_text = text;
  Value& v = a.default_value;
  if (text == "None") {
    if (!a.nullable) bad(r, "this C++ type cannot be None:", a.name);
    return;
  }
  const bool truth = text == "True";
  if (truth || text == "False") {
    v.kind = a.kind == ArgKind::Bool ? Value::Kind::Bool : Value::Kind::Scalar;
    v.truth = truth;
    v.scalar = Scalar(truth);
  } else if (text == "()" || text == "[]") {
    v.kind = a.kind == ArgKind::Tensors   ? Value::Kind::Tensors
             : a.kind == ArgKind::Doubles ? Value::Kind::Doubles
             : a.kind == ArgKind::Bools   ? Value::Kind::Bools
             : a.kind == ArgKind::Strings ? Value::Kind::Strings
                                          : Value::Kind::Ints;
    v.list = nullptr;
  } else if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"')) {
    a.default_string = std::string(text.substr(1, text.size() - 2));
    v.kind = Value::Kind::String;
  } else {
    char* end = nullptr;
    const std::string s(text);
    const double d = std::strtod(s.c_str(), &end);
    if (end == s.c_str() || *end != '\0') bad(r, "cannot read the default", text);
    const bool integral = s.find_first_of(".einf") == std::string::npos;
    v.scalar = integral ? Scalar(std::strtol(s.c_str(), nullptr, 10)) : Scalar(d);
    switch (a.kind) {
      case ArgKind::Int:
        v.kind = Value::Kind::Int;
        v.integer = v.scalar.to_int();
        break;
      case ArgKind::Double:
        v.kind = Value::Kind::Double;
        v.number = d;
        break;
      default:
        v.kind = Value::Kind::Scalar;
    }
  }
}

}  // namespace

void parse_parameters(OpRecord& r) {
  std::string_view rest = r.spec.args;
  bool keyword_only = false;
  size_t i = 0;
  while (!trim(rest).empty()) {
    const size_t comma = rest.find(',');
    std::string_view item = trim(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (item == "*") {
      keyword_only = true;
      continue;
    }
    if (i == r.args.size()) bad(r, "more names than C++ parameters at", item);
    ArgInfo& a = r.args[i++];
    a.keyword_only = keyword_only;
    if (item.front() == '*') {
      if (a.kind != ArgKind::Ints && a.kind != ArgKind::Tensors)
        bad(r, "only ints and tensors are variadic:", item);
      a.variadic = true;
      keyword_only = true;  // of those that follow
      item.remove_prefix(1);
    }
    const size_t eq = item.find('=');
    a.name = trim(item.substr(0, eq));
    if (eq != std::string_view::npos) set_default(r, a, trim(item.substr(eq + 1)));
  }
  if (i != r.args.size()) bad(r, "fewer names than C++ parameters in", r.spec.args);
  point_at_default_strings(r);
  for (ArgInfo& a : r.args) {
    // A Tensor parameter may be None exactly when None is its default.
    if (a.kind == ArgKind::Tensor) a.nullable = a.has_default;
  }
}

const std::vector<OpRecord*>& op_table() {
  if (!pending_aliases().empty()) make_aliases();
  return table();
}

bool add_alias(const char* name, const char* of) {
  pending_aliases().push_back({name, of});
  return true;
}

bool add_record(OpRecord* record) {
  try {
    parse_parameters(*record);
  } catch (const Error& e) {  // a bug in a declaration: found at the first import
    std::fprintf(stderr, "cograd: %s\n", e.what());
    std::abort();
  }
  table().push_back(record);
  return true;
}

}  // namespace cograd
