// SPDX-License-Identifier: BSD-3-Clause
#include "python/ops/signatures.h"

#include "api/registration.h"
#include "ops/declare/out.h"

namespace cograd::python {

namespace {

const char* python_type(ArgKind kind) noexcept {
  switch (kind) {
    case ArgKind::Tensor:
      return "Tensor";
    case ArgKind::TensorOrScalar:
      return "Tensor | Number";
    case ArgKind::Tensors:
      return "Sequence[Tensor]";
    case ArgKind::Scalar:
      return "Number";
    case ArgKind::Int:
    case ArgKind::Dim:
      return "int";
    case ArgKind::Double:
      return "float";
    case ArgKind::Bool:
      return "bool";
    case ArgKind::Ints:
    case ArgKind::DimList:
      return "int | Sequence[int]";
    case ArgKind::Shape:
      return "Sequence[int]";
    case ArgKind::DType:
      return "dtype";
    case ArgKind::Device:
      return "device | str";
    case ArgKind::String:
      return "str";
    case ArgKind::Generator:
      return "Generator";
    case ArgKind::Doubles:
      return "Sequence[float]";
    case ArgKind::Bools:
      return "Sequence[bool]";
    case ArgKind::Strings:
      return "Sequence[str]";
    case ArgKind::Opaque:
      break;
  }
  return "Any";
}

// A variadic parameter takes its values one by one, or all of them as one sequence.
std::string annotation(const ArgInfo& a) {
  if (a.variadic)
    return a.kind == ArgKind::Tensors ? "Tensor | Sequence[Tensor]" : "int | Sequence[int]";
  std::string type = python_type(a.kind);
  // An op of the table whose tensor may be undefined has None as its default.
  const bool none = a.has_default && a.default_text == "None";
  if (none || (a.nullable && (a.kind != ArgKind::Tensor || !a.type.empty()))) type += " | None";
  return type;
}

std::string parameters(const OpRecord& r, bool out) {
  std::string text;
  const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  bool by_keyword = false;
  for (const ArgInfo& a : r.args) {
    if (a.keyword_only && !by_keyword) add("*");
    by_keyword |= a.keyword_only || a.variadic;
    add((a.variadic ? "*" : "") + a.name + ": " + annotation(a) +
        (a.has_default ? " = " + a.default_text : ""));
  }
  if (!out) return text;
  if (!by_keyword) add("*");
  add(takes_outs(r) ? "out: Sequence[Tensor] | None = None" : "out: Tensor | None = None");
  return text;
}

// Returns Python's type for one of a schema: "list[Tensor]" for "Tensor[]".
std::string schema_type(std::string_view word) {
  if (word.ends_with('?')) return schema_type(word.substr(0, word.size() - 1)) + " | None";
  if (word.ends_with("[]")) return "list[" + schema_type(word.substr(0, word.size() - 2)) + "]";
  if (word == "Scalar") return "Number";
  for (const std::string_view known : {"Tensor", "int", "float", "bool", "str", "tuple", "None"})
    if (word == known) return std::string(known);
  return "Any";
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + schema_type(word);
  return text;
}

std::string result_type(const OpRecord& r) {
  if (r.foreign != nullptr) {
    const std::vector<std::string>& words = r.foreign->returns;
    if (words.size() > 1) return "tuple[" + joined(words) + "]";
    return words.empty() ? "" : schema_type(words[0]);
  }
  switch (r.result) {
    case Result::Kind::None:
      return "None";
    case Result::Kind::Tensor:
      return "Tensor";
    case Result::Kind::Tuple:
      return "tuple[" + joined(std::vector<std::string>(r.num_results, "Tensor")) + "]";
    case Result::Kind::List:
      return "tuple[Tensor, ...]";
    case Result::Kind::Int:
      return "int";
    case Result::Kind::Double:
      return "float";
    case Result::Kind::Bool:
      return "bool";
    case Result::Kind::Text:
      return "str";
    case Result::Kind::Items:
      break;
  }
  return "Any";
}

bool has_out(const OpRecord& r, bool inplace) { return (r.has_out || takes_outs(r)) && !inplace; }

}  // namespace

std::string plain_signature(const std::vector<const OpRecord*>& forms, bool inplace) {
  if (forms.size() == 1) return "(" + names_text(forms[0]->args, has_out(*forms[0], inplace)) + ")";
  bool out = false;
  std::vector<const std::vector<ArgInfo>*> lists;
  for (const OpRecord* r : forms) {
    lists.push_back(&r->args);
    out |= has_out(*r, inplace);
  }
  return "(" + merged_names(lists, out) + ")";
}

std::string typed_signature(const OpRecord& r, bool inplace) {
  const std::string result = inplace ? "Tensor" : result_type(r);
  return "(" + parameters(r, has_out(r, inplace)) + ")" + (result.empty() ? "" : " -> " + result);
}

}  // namespace cograd::python
