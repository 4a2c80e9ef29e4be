// SPDX-License-Identifier: BSD-3-Clause
// Ops of extensions: their records, who registered them, and how the record is called.
#pragma once
#include <string>
#include <vector>

#include "cograd/c_api.h"
#include "ops/core/registry.h"

namespace cograd {

// What an extension gave for one op. Never freed: handles on it stay valid.
struct ForeignOp {
  std::string library, name, qualified, params, doc, node_name, owner;
  uint32_t flags = 0;
  bool opaque = false;  // computes without recording and has no gradient
  bool writes = false;  // has a mutated parameter
  decltype(cograd_op_desc::forward) forward = nullptr;
  decltype(cograd_op_desc::backward) backward = nullptr;
  decltype(cograd_op_desc::jvp) jvp = nullptr;
  decltype(cograd_op_desc::batch) batch = nullptr;
  void* user = nullptr;
  void* backward_user = nullptr;
  void* batch_user = nullptr;
  OpRecord record;
};

namespace api {

// Reads a schema: a typed one ("(Tensor x, float a=1.0) -> Tensor") when no kinds are given, else
// names and defaults. Fills the record; raises ValueError on what it cannot read.
void parse_schema(ForeignOp& op, const char* schema, const int32_t* kinds, size_t n);

// All ops of extensions under "library::name"; null if there is none.
COGRAD_API const ForeignOp* find_foreign(std::string_view qualified);
COGRAD_API std::vector<const ForeignOp*> foreign_ops();

// Ops registered on this thread until `end_loading` belong to `owner`: they replace its earlier
// ones of the same names. Returns what was registered and what failed.
struct Loaded {
  std::vector<std::string> names, errors;
};
COGRAD_API void begin_loading(std::string owner);
COGRAD_API Loaded end_loading();

// Runs the op on boxed arguments.
COGRAD_API void call_foreign(const ForeignOp& op, const Value* args, Result& result);

}  // namespace api
}  // namespace cograd
