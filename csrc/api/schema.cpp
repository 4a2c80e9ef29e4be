// SPDX-License-Identifier: BSD-3-Clause
// Parses the schemas of registered ops. A schema is typed, "(Tensor x, int n=1) -> Tensor", or has
// only names and defaults, "x, n=1"; the kinds then come from the function's C++ signature.
#include <iterator>
#include <optional>

#include "api/registration.h"

namespace cograd::api {

namespace {

// The kind of parameter for each code of the C interface; codes of results have none.
constexpr std::optional<ArgKind> kKinds[] = {
    std::nullopt,     ArgKind::Tensor,        ArgKind::Bool,    ArgKind::Int,     ArgKind::Double,
    ArgKind::String,  ArgKind::DType,         ArgKind::Device,  ArgKind::Tensors, ArgKind::Ints,
    ArgKind::Doubles, ArgKind::Bools,         ArgKind::Strings, std::nullopt,     std::nullopt,
    ArgKind::Scalar,  ArgKind::TensorOrScalar};
static_assert(std::size(kKinds) == COGRAD_TENSOR_OR_NUMBER + 1);

ArgInfo parameter_of(const ForeignOp& op, int32_t code) {
  const auto plain = static_cast<uint32_t>(code & ~(COGRAD_NULLABLE | COGRAD_MUTATED));
  COGRAD_CHECK_VALUE(plain < std::size(kKinds) && kKinds[plain].has_value(), "op '", op.qualified,
                     "': unknown parameter kind ", code);
  ArgInfo a;
  a.kind = *kKinds[plain];
  a.nullable = (code & COGRAD_NULLABLE) != 0;
  a.mutated = (code & COGRAD_MUTATED) != 0;
  return a;
}

// Raises unless a typed schema agrees with the kinds of the C++ signature.
void check_kinds(const ForeignOp& op, const int32_t* kinds, size_t n) {
  COGRAD_CHECK_VALUE(op.record.args.size() == n, "op '", op.qualified, "': its schema has ",
                     op.record.args.size(), " parameters, its function ", n);
  for (size_t i = 0; i < n; ++i) {
    const ArgInfo a = parameter_of(op, kinds[i]);
    const ArgInfo& said = op.record.args[i];
    COGRAD_CHECK_VALUE(a.kind == said.kind, "op '", op.qualified, "': parameter ", i, " is '",
                       said.type, "' in its schema, but its function takes '", type_word(a.kind),
                       "'");
    COGRAD_CHECK_VALUE(a.nullable || !said.nullable || a.kind == ArgKind::Tensor, "op '",
                       op.qualified, "': parameter ", i, " is '", said.type,
                       "' in its schema, but its function cannot take None");
    COGRAD_CHECK_VALUE(!a.mutated || said.mutated, "op '", op.qualified,
                       "': its function may write parameter ", i,
                       ", which the schema must declare: Tensor(a!)");
  }
}

// Reads the type of the result from the flags, which have it if the op is written in C++.
void read_result(ForeignOp& op) {
  const uint32_t code = (op.flags & COGRAD_OP_RESULT) / COGRAD_OP_RESULT_UNIT;
  if ((op.flags & COGRAD_OP_TUPLE) != 0)
    op.returns.emplace_back("tuple");
  else if (code == COGRAD_NONE + 1)
    op.returns.emplace_back("None");
  else if (code > 0 && code <= std::size(kKinds) && kKinds[code - 1].has_value())
    op.returns.emplace_back(type_word(*kKinds[code - 1]));
}

}  // namespace

void parse_schema(ForeignOp& op, const char* schema, const int32_t* kinds, size_t n) {
  const std::string_view text = schema == nullptr ? std::string_view() : std::string_view(schema);
  const std::string who = "op '" + op.qualified + "'";
  auto& args = op.record.args;
  const bool typed = text.find('(') < text.find_first_not_of(" \t\n(");  // begins with "("
  if (kinds == nullptr || typed) {
    Schema s = read_schema(text, who);
    args = std::move(s.args);
    if (s.returns.size() == 1 && s.returns[0].ends_with("[]")) op.flags |= COGRAD_OP_LIST;
    if (kinds != nullptr) check_kinds(op, kinds, n);
    op.params = names_text(args);
    op.returns = std::move(s.returns);
    if (op.returns.empty() && text.find("->") != text.npos) op.returns.emplace_back("None");
  } else {
    for (size_t i = 0; i < n; ++i) {
      args.push_back(parameter_of(op, kinds[i]));
      args[i].type = std::string(type_word(args[i].kind)) + (args[i].nullable ? "?" : "");
      if (text.empty()) op.params += (i > 0 ? ", arg" : "arg") + std::to_string(i);
    }
    if (!text.empty()) op.params = text;
    read_names(args, op.params, who);
    read_result(op);
  }
  op.record.spec = OpSpec{op.name.c_str(), op.params.c_str(), kFunction, op.doc.c_str()};
}

}  // namespace cograd::api
