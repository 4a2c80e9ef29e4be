// SPDX-License-Identifier: BSD-3-Clause
#include "api/kernel_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <span>

#include "cograd/error.h"

namespace cograd::api {

namespace {

using Tokens = std::vector<std::string>;
using Span = std::span<const std::string>;
using Aliases = std::map<std::string, std::string, std::less<>>;

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(std::string_view s) {
  return !s.empty() && is_letter(s[0]) && std::isdigit(static_cast<unsigned char>(s[0])) == 0;
}

// Returns the position behind the literal that begins at `at` with a quote.
size_t behind_literal(std::string_view text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}
// Returns the position behind the line of the preprocessor that begins at `at`.
size_t behind_directive(std::string_view text, size_t at) {
  while (at < text.size() && (text[at] != '\n' || text[at - 1] == '\\')) ++at;
  return at;
}

void define(Aliases& aliases, std::string_view text) {
  size_t end = 0;
  while (end < text.size() && is_letter(text[end])) ++end;
  if (end == 0 || end == text.size() || text[end] == '(') return;
  size_t begin = end + 1;
  while (begin < text.size() && text[begin] == ' ') ++begin;
  aliases[std::string(text.substr(0, end))] = text.substr(begin);
}

// Divides a text into names, numbers, "::" and single characters. Comments and literals are left
// out; definitions of the preprocessor become aliases.
Tokens tokens_of(std::string_view text, Aliases& aliases) {
  Tokens tokens;
  bool line_begins = true;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::string_view two = text.substr(i, 2);
    if (c == '\n') {
      line_begins = true;
      ++i;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++i;
    } else if (two == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (two == "/*") {
      const size_t end = text.find("*/", i + 2);
      i = end == std::string_view::npos ? text.size() : end + 2;
    } else if (c == '#' && line_begins) {
      const size_t end = behind_directive(text, i);
      size_t word = i + 1;
      while (word < end && text[word] == ' ') ++word;
      if (text.substr(word, 7) == "define ") define(aliases, text.substr(word + 7, end - word - 7));
      i = end;
    } else if (c == '"' || c == '\'') {
      i = behind_literal(text, i);
      line_begins = false;
    } else {
      size_t end = i + (two == "::" ? 2 : 1);
      if (is_letter(c))
        while (end < text.size() && is_letter(text[end])) ++end;
      tokens.emplace_back(text.substr(i, end - i));
      i = end;
      line_begins = false;
    }
  }
  return tokens;
}

// Returns the index of the token that closes the bracket at `open`, or the number of tokens.
size_t closing(Span tokens, size_t open, std::string_view opens, std::string_view closes) {
  int depth = 0;
  for (size_t i = open; i < tokens.size(); ++i) {
    if (tokens[i] == opens) ++depth;
    if (tokens[i] == closes && --depth == 0) return i;
  }
  return tokens.size();
}

// Divides at commas that stand outside of all brackets.
std::vector<Span> divided(Span tokens) {
  std::vector<Span> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& t = tokens[i];
    if (t == "(" || t == "<" || t == "[" || t == "{") ++depth;
    if (t == ")" || t == ">" || t == "]" || t == "}") --depth;
    if (t != "," || depth > 0) continue;
    parts.push_back(tokens.subspan(begin, i - begin));
    begin = i + 1;
  }
  if (begin < tokens.size()) parts.push_back(tokens.subspan(begin));
  return parts;
}

// Writes a type as people do: "unsigned long", "Complex<float>".
std::string joined(Span tokens) {
  std::string s;
  for (const std::string& t : tokens) {
    if (!s.empty() && is_letter(s.back()) && is_letter(t[0])) s += ' ';
    s += t;
  }
  return s;
}

struct Found {
  std::string name;
  Span parameters;
  Span templates;  // the parameters of its template, if it is one
};

// Finds the template<...> whose declaration reaches up to token `at`.
Span template_before(Span tokens, size_t at) {
  for (size_t i = at; i-- > 0;) {
    if (tokens[i] == ";" || tokens[i] == "}" || tokens[i] == "{") return {};
    if (tokens[i] != "template" || i + 1 >= at || tokens[i + 1] != "<") continue;
    const size_t end = closing(tokens, i + 1, "<", ">");
    return end < at ? tokens.subspan(i + 2, end - i - 2) : Span();
  }
  return {};
}

std::vector<Found> kernels_of(Span tokens) {
  std::vector<Found> found;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != "__global__") continue;
    // Attributes with brackets may stand before the name.
    for (size_t j = i + 1; j + 1 < tokens.size() && tokens[j] != ";" && tokens[j] != "{"; ++j) {
      if (!is_name(tokens[j]) || tokens[j + 1] != "(") continue;
      const size_t end = closing(tokens, j + 1, "(", ")");
      if (tokens[j].starts_with("__") || tokens[j] == "alignas") {
        j = end;
        continue;
      }
      found.push_back({tokens[j], tokens.subspan(j + 2, end - j - 2), template_before(tokens, i)});
      i = std::min(end, tokens.size() - 1);
      break;
    }
  }
  return found;
}

// Adds what `using A = B;` and `typedef B A;` say.
void add_aliases(Span tokens, Aliases& aliases) {
  for (size_t i = 0; i + 3 < tokens.size(); ++i) {
    const bool is_using = tokens[i] == "using" && tokens[i + 2] == "=";
    if (!is_using && tokens[i] != "typedef") continue;
    size_t end = i;
    while (end < tokens.size() && tokens[end] != ";") ++end;
    if (is_using)
      aliases[tokens[i + 1]] = joined(tokens.subspan(i + 3, end - i - 3));
    else if (end > i + 2)
      aliases[tokens[end - 1]] = joined(tokens.subspan(i + 1, end - i - 2));
    i = end;
  }
}

// Adds the arguments of a template's parameters.
void add_arguments(const Found& f, Span arguments, Aliases& aliases) {
  const auto given = divided(arguments);
  const auto parameters = divided(f.templates);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Span p = parameters[i];
    const auto equals = std::find(p.begin(), p.end(), "=");
    const auto name = static_cast<size_t>(equals - p.begin());
    if (name == 0) continue;
    if (i < given.size())
      aliases[p[name - 1]] = joined(given[i]);
    else if (equals != p.end())
      aliases[p[name - 1]] = joined(p.subspan(name + 1));
  }
}

constexpr std::string_view kWords[] = {"unsigned", "signed", "short",  "long", "int",
                                       "char",     "float",  "double", "bool"};
bool is_word(std::string_view s) {
  return std::find(std::begin(kWords), std::end(kWords), s) != std::end(kWords);
}

// The dtype of a type that consists of C's words, such as "long unsigned int".
std::optional<DType> dtype_of_words(Span words) {
  const auto count = [&](std::string_view w) { return std::count(words.begin(), words.end(), w); };
  const bool is_unsigned = count("unsigned") > 0;
  if (count("bool") > 0) return DType::Bool;
  if (count("float") > 0) return DType::Float32;
  if (count("double") > 0) return count("long") > 0 ? std::nullopt : std::optional(DType::Float64);
  if (count("char") > 0) return is_unsigned ? DType::UInt8 : DType::Int8;
  if (count("short") > 0) return is_unsigned ? DType::UInt16 : DType::Int16;
  if (count("long") > 0) return is_unsigned ? DType::UInt64 : DType::Int64;
  return is_unsigned ? DType::UInt32 : DType::Int32;
}

std::optional<DType> dtype_of_name(std::string_view name) {
  static const std::map<std::string_view, DType> kNames = {{"int8_t", DType::Int8},
                                                           {"uint8_t", DType::UInt8},
                                                           {"int16_t", DType::Int16},
                                                           {"uint16_t", DType::UInt16},
                                                           {"int32_t", DType::Int32},
                                                           {"uint32_t", DType::UInt32},
                                                           {"int64_t", DType::Int64},
                                                           {"uint64_t", DType::UInt64},
                                                           {"size_t", DType::UInt64},
                                                           {"ptrdiff_t", DType::Int64},
                                                           {"half", DType::Float16},
                                                           {"__half", DType::Float16},
                                                           {"Half", DType::Float16},
                                                           {"BFloat16", DType::BFloat16},
                                                           {"nv_bfloat16", DType::BFloat16},
                                                           {"__nv_bfloat16", DType::BFloat16},
                                                           {"cuFloatComplex", DType::Complex64},
                                                           {"cuDoubleComplex", DType::Complex128},
                                                           {"cuComplex", DType::Complex64}};
  const auto it = kNames.find(name);
  if (it != kNames.end()) return it->second;
  if (name == "Complex<float>" || name == "complex<float>") return DType::Complex64;
  if (name == "Complex<double>" || name == "complex<double>") return DType::Complex128;
  return {};
}

std::optional<DType> dtype_of_type(std::string_view type, const Aliases& aliases, int depth = 0) {
  Aliases none;
  Tokens tokens = tokens_of(type, none);
  std::erase_if(tokens, [](const std::string& t) { return t == "const" || t == "typename"; });
  if (tokens.empty()) return {};
  if (std::all_of(tokens.begin(), tokens.end(), is_word)) return dtype_of_words(tokens);
  // The part behind the namespaces.
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size() && tokens[i] != "<"; ++i)
    if (tokens[i] == "::") begin = i + 1;
  const std::string name = joined(Span(tokens).subspan(begin));
  constexpr int kDeepest = 16;  // an alias may name itself
  const auto alias = aliases.find(name);
  if (alias != aliases.end() && depth < kDeepest)
    return dtype_of_type(alias->second, aliases, depth + 1);
  return dtype_of_name(name);
}

bool is_qualifier(std::string_view s) {
  return s == "volatile" || s == "__restrict__" || s == "__restrict" || s == "restrict" ||
         s == "__grid_constant__";
}

KernelParameter parameter_of(Span given, const std::string& kernel, const Aliases& aliases) {
  Tokens t(given.begin(), std::find(given.begin(), given.end(), "="));
  std::erase_if(t, is_qualifier);
  const std::string text = joined(t);
  const auto refuse = [&](const char* why) {
    detail::fail(ErrorKind::Value, "kernel '", kernel, "': parameter '", text, "' ", why,
                 ", but a kernel takes pointers, for tensors, and numbers");
  };
  KernelParameter p;
  if (const auto open = std::find(t.begin(), t.end(), "["); open != t.end()) {
    t.erase(open, t.end());  // T x[] is T* x
    t.insert(t.end() - 1, "*");
  }
  const auto stars = std::count(t.begin(), t.end(), "*");
  if (std::find(t.begin(), t.end(), "&") != t.end()) refuse("is a reference");
  if (std::find(t.begin(), t.end(), "(") != t.end()) refuse("is a function");
  if (stars > 1) refuse("is a pointer to pointers");
  p.pointer = stars == 1;
  Tokens type = t;
  if (p.pointer) {
    const auto star = std::find(t.begin(), t.end(), "*");
    type.assign(t.begin(), star);
    p.written = std::find(type.begin(), type.end(), "const") == type.end();
    if (t.back() != "*" && t.back() != "const") p.name = t.back();
    p.type = joined(type) + "*";
  } else {
    std::erase(type, "const");
    if (type.size() > 1 && is_name(type.back()) && !is_word(type.back()) &&
        type[type.size() - 2] != "::") {
      p.name = type.back();
      type.pop_back();
    }
    p.type = joined(type);
  }
  p.dtype = dtype_of_type(joined(type), aliases);
  if (!p.pointer && !p.dtype) refuse("is of another type");
  return p;
}

std::string names_of(const std::vector<Found>& all) {
  std::string names;
  for (const Found& f : all) names += (names.empty() ? "'" : ", '") + f.name + "'";
  return names;
}

}  // namespace

KernelSignature read_kernel(std::string_view text, std::string_view expression,
                            const std::vector<std::string>& options) {
  Aliases aliases, none;
  const Tokens tokens = tokens_of(text, aliases);
  for (const std::string& o : options) {
    const size_t equals = o.find('=');
    if (o.starts_with("-D") && equals != std::string::npos)
      aliases[o.substr(2, equals - 2)] = o.substr(equals + 1);
  }
  add_aliases(tokens, aliases);
  const auto all = kernels_of(tokens);
  COGRAD_CHECK_VALUE(!all.empty(),
                     "cuda.kernel(): the text has no function that is declared __global__");
  const Tokens asked = tokens_of(expression, none);
  const auto less = std::find(asked.begin(), asked.end(), "<");
  const Found* found = nullptr;
  if (asked.empty()) {
    COGRAD_CHECK_VALUE(all.size() == 1, "cuda.kernel(): the text has several kernels, ",
                       names_of(all), ": name one of them");
    found = all.data();
  } else {
    for (const Found& f : all)
      if (less != asked.begin() && f.name == *(less - 1)) found = &f;
    COGRAD_CHECK_VALUE(found != nullptr, "cuda.kernel(): the text has no kernel '", expression,
                       "'; it has ", names_of(all));
  }
  COGRAD_CHECK_VALUE(found->templates.empty() || less != asked.end(), "cuda.kernel(): '",
                     found->name, "' is a template: name it with its arguments, such as '",
                     found->name, "<float>'");
  if (less != asked.end()) add_arguments(*found, Span(less + 1, asked.end() - 1), aliases);
  KernelSignature s;
  s.name = found->name;
  s.expression = asked.empty() ? found->name : std::string(expression);
  for (const Span p : divided(found->parameters))
    if (p.size() != 1 || p[0] != "void") s.parameters.push_back(parameter_of(p, s.name, aliases));
  for (size_t i = 0; i < s.parameters.size(); ++i)
    if (s.parameters[i].name.empty()) s.parameters[i].name = std::to_string(i);
  return s;
}

std::vector<std::string> kernel_names(std::string_view text) {
  Aliases aliases;
  const Tokens tokens = tokens_of(text, aliases);
  std::vector<std::string> names;
  for (const Found& f : kernels_of(tokens))
    if (f.templates.empty()) names.push_back(f.name);
  return names;
}

}  // namespace cograd::api
