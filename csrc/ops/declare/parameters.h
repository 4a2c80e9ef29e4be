// SPDX-License-Identifier: BSD-3-Clause
// The only parser of parameter text, for ops of this library, of extensions and of Python:
//   names and defaults for known kinds:  "x, alpha=1.0, *, dims=[0, 1]"
//   a typed schema:  "name(Tensor x, Tensor(a!)? w=None, float a=1.0, *, int[2] k) -> Tensor"
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/declare/value.h"

namespace cograd {

struct ArgInfo {
  std::string name;
  ArgKind kind = ArgKind::Tensor;
  bool nullable = false;
  bool keyword_only = false;
  bool variadic = false;
  bool has_default = false;
  bool mutated = false;  // Tensor(a!): the op writes it
  size_t count = 0;      // N of int[N], else 0
  std::string type;      // as the schema spells it; empty without one
  std::string default_text;
  Value default_value;
  std::shared_ptr<const void> default_storage;  // owns a default that is a list
};

struct Schema {
  std::string name;
  std::vector<ArgInfo> args;
  std::vector<std::string> returns;  // types
};

// Fills in names, defaults and star flags. `who` starts the messages of ValueErrors: "op 'x'".
COGRAD_API void read_names(std::vector<ArgInfo>& args, std::string_view text,
                           const std::string& who);
// Parses a schema; raises ValueError if it is malformed.
COGRAD_API Schema read_schema(std::string_view text, const std::string& who);
// Returns the k-th name of a parameter text.
COGRAD_API std::string parameter_name(std::string_view text, size_t k);
// Returns names, defaults and stars as in a Python signature, with out=None at the end if `out`.
COGRAD_API std::string names_text(const std::vector<ArgInfo>& args, bool out = false);
// Returns the parameters of several records as one list that binds what any of them takes: what
// some lack, or what follows such a parameter, has a default.
COGRAD_API std::string merged_names(const std::vector<const std::vector<ArgInfo>*>& lists,
                                    bool out);
// Returns the word for a kind in a schema.
COGRAD_API const char* type_word(ArgKind kind) noexcept;

}  // namespace cograd
