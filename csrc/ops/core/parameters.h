// SPDX-License-Identifier: BSD-3-Clause
// The one parser of parameter text, for ops of this library, of extensions and of Python:
//   names and defaults beside kinds that are known:  "x, alpha=1.0, *, dims=[0, 1]"
//   a typed schema:  "name(Tensor x, Tensor(a!)? w=None, float a=1.0, *, int[2] k) -> Tensor"
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/core/value.h"

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
  std::shared_ptr<const void> default_storage;  // what a default that is a list points to
};

struct Schema {
  std::string name;
  std::vector<ArgInfo> args;
  std::vector<std::string> returns;  // types
};

// Fills in names, defaults and what stars say. `who` begins the ValueErrors: "op 'x'".
COGRAD_API void read_names(std::vector<ArgInfo>& args, std::string_view text,
                           const std::string& who);
// Raises ValueError on what it cannot read.
COGRAD_API Schema read_schema(std::string_view text, const std::string& who);
// The k-th name of such a text.
COGRAD_API std::string parameter_name(std::string_view text, size_t k);
// Names, defaults and stars as Python declares them, with out=None at the end if asked for.
COGRAD_API std::string names_text(const std::vector<ArgInfo>& args, bool out = false);
// The word for a kind in a schema.
COGRAD_API const char* type_word(ArgKind kind) noexcept;

}  // namespace cograd
