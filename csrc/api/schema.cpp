// SPDX-License-Identifier: BSD-3-Clause
// Schemas of registered ops: "(Tensor x, Tensor? w=None, float a=1.0, *, int[] dims) -> Tensor", or
// plain names and defaults beside the kinds a C++ signature gives.
#include <cctype>
#include <cstring>

#include "api/defaults.h"

namespace cograd::api {

namespace {

struct TypeName {
  const char* name;
  ArgKind kind;
};
constexpr TypeName kTypes[] = {
    {"Tensor[]", ArgKind::Tensors}, {"Tensor", ArgKind::Tensor},   {"int[]", ArgKind::Ints},
    {"SymInt[]", ArgKind::Ints},    {"float[]", ArgKind::Doubles}, {"double[]", ArgKind::Doubles},
    {"bool[]", ArgKind::Bools},     {"str[]", ArgKind::Strings},   {"int", ArgKind::Int},
    {"SymInt", ArgKind::Int},       {"float", ArgKind::Double},    {"double", ArgKind::Double},
    {"bool", ArgKind::Bool},        {"str", ArgKind::String},      {"Scalar", ArgKind::Scalar},
    {"ScalarType", ArgKind::DType}, {"dtype", ArgKind::DType},     {"Device", ArgKind::Device},
};

// "Tensor(a!)? x=None" -> the parameter, and "x=None" for the names.
std::string typed_parameter(ForeignOp& op, std::string_view item) {
  size_t end = 0;
  int depth = 0;
  for (; end < item.size(); ++end) {
    if (item[end] == '(' || item[end] == '[') ++depth;
    if (item[end] == ')' || item[end] == ']') --depth;
    if (depth == 0 && std::isspace(static_cast<unsigned char>(item[end]))) break;
  }
  std::string type;
  bool mutated = false, in_alias = false;
  size_t length = 0;
  for (const char c : item.substr(0, end)) {  // "(a!)" says what aliases and what is written
    if (c == '(') in_alias = true;
    if (in_alias) mutated |= c == '!';
    const bool digit = c >= '0' && c <= '9';  // int[2] is int[] of two
    if (digit && !in_alias)
      length = std::min<size_t>(length * 10 + static_cast<size_t>(c - '0'), 1 << 16);
    if (!in_alias && !digit) type.push_back(c);
    if (c == ')') in_alias = false;
  }
  ArgInfo a;
  if (type.ends_with("?")) {
    a.nullable = true;
    type.pop_back();
  }
  if (type == "Tensor?[]") type = "Tensor[]";
  const TypeName* found = nullptr;
  for (const TypeName& t : kTypes)
    if (type == t.name) found = &t;
  if (found == nullptr) bad_schema(op, "unknown type", item.substr(0, end));
  const std::string_view name = trim(item.substr(end));
  if (name.empty()) bad_schema(op, "a parameter needs a name after its type:", item);
  a.kind = found->kind;
  op.record.args.push_back(a);
  op.mutated.push_back(mutated);
  op.lengths.push_back(length);
  op.types.push_back(type + (a.nullable ? "?" : ""));
  return std::string(name);
}

void parse_typed(ForeignOp& op, std::string_view text) {
  const size_t open = text.find('('), arrow = text.rfind("->");
  const size_t close = text.rfind(')', arrow == std::string_view::npos ? text.size() : arrow);
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    bad_schema(op, "expected (parameters) -> result, got", text);
  for (const std::string_view item : split_items(text.substr(open + 1, close - open - 1))) {
    if (!op.params.empty()) op.params += ", ";
    op.params += item == "*" ? std::string(item) : typed_parameter(op, item);
  }
  if (arrow == std::string_view::npos) return;
  const std::string_view result = trim(text.substr(arrow + 2));
  if (result.ends_with("[]")) op.flags |= COGRAD_OP_LIST;
}

ArgInfo parameter_of(const ForeignOp& op, int32_t code) {
  ArgInfo a;
  a.nullable = (code & COGRAD_NULLABLE) != 0;
  switch (code & ~(COGRAD_NULLABLE | COGRAD_MUTATED)) {
    case COGRAD_TENSOR:
      a.kind = ArgKind::Tensor;
      break;
    case COGRAD_BOOLEAN:
      a.kind = ArgKind::Bool;
      break;
    case COGRAD_INT:
      a.kind = ArgKind::Int;
      break;
    case COGRAD_FLOAT:
      a.kind = ArgKind::Double;
      break;
    case COGRAD_STRING:
      a.kind = ArgKind::String;
      break;
    case COGRAD_DTYPE:
      a.kind = ArgKind::DType;
      break;
    case COGRAD_DEVICE:
      a.kind = ArgKind::Device;
      break;
    case COGRAD_TENSORS:
      a.kind = ArgKind::Tensors;
      break;
    case COGRAD_INTS:
      a.kind = ArgKind::Ints;
      break;
    case COGRAD_FLOATS:
      a.kind = ArgKind::Doubles;
      break;
    case COGRAD_BOOLEANS:
      a.kind = ArgKind::Bools;
      break;
    case COGRAD_STRINGS:
      a.kind = ArgKind::Strings;
      break;
    case COGRAD_NUMBER:
      a.kind = ArgKind::Scalar;
      break;
    case COGRAD_TENSOR_OR_NUMBER:
      a.kind = ArgKind::TensorOrScalar;
      break;
    default:
      detail::fail(ErrorKind::Value, "op '", op.qualified, "': unknown parameter kind ", code);
  }
  return a;
}

const char* type_name(ArgKind k) {
  for (const TypeName& t : kTypes)
    if (t.kind == k) return t.name;
  return "Tensor | Scalar";
}

}  // namespace

namespace {

// A typed schema beside the kinds of a C++ signature: both must say the same.
void check_kinds(const ForeignOp& op, const int32_t* kinds, size_t n) {
  COGRAD_CHECK_VALUE(op.record.args.size() == n, "op '", op.qualified, "': its schema has ",
                     op.record.args.size(), " parameters, its function ", n);
  for (size_t i = 0; i < n; ++i) {
    const ArgInfo a = parameter_of(op, kinds[i]);
    COGRAD_CHECK_VALUE(a.kind == op.record.args[i].kind, "op '", op.qualified, "': parameter ", i,
                       " is '", op.types[i], "' in its schema, but its function takes '",
                       type_name(a.kind), "'");
    COGRAD_CHECK_VALUE(a.nullable || !op.record.args[i].nullable || a.kind == ArgKind::Tensor,
                       "op '", op.qualified, "': parameter ", i, " is '", op.types[i],
                       "' in its schema, but its function cannot take None");
    COGRAD_CHECK_VALUE((kinds[i] & COGRAD_MUTATED) == 0 || op.mutated[i], "op '", op.qualified,
                       "': its function may write parameter ", i,
                       ", which the schema must declare: Tensor(a!)");
  }
}

}  // namespace

void parse_schema(ForeignOp& op, const char* schema, const int32_t* kinds, size_t n) {
  const std::string_view text = schema == nullptr ? std::string_view() : trim(schema);
  if (kinds == nullptr || text.starts_with('(')) {
    parse_typed(op, text);
    if (kinds != nullptr) check_kinds(op, kinds, n);
  } else {
    for (size_t i = 0; i < n; ++i) {
      op.record.args.push_back(parameter_of(op, kinds[i]));
      op.mutated.push_back((kinds[i] & COGRAD_MUTATED) != 0);
      op.types.push_back(std::string(type_name(op.record.args[i].kind)) +
                         (op.record.args[i].nullable ? "?" : ""));
      if (text.empty()) op.params += (i > 0 ? ", arg" : "arg") + std::to_string(i);
    }
    if (!text.empty()) op.params = text;
  }
  op.record.spec = OpSpec{op.name.c_str(), op.params.c_str(), kFunction, op.doc.c_str()};
  parse_names(op);
  op.mutated.resize(op.record.args.size());
  op.lengths.resize(op.record.args.size());
}

}  // namespace cograd::api
