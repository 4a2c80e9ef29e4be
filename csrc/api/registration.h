// SPDX-License-Identifier: BSD-3-Clause
// Ops of extensions: their records, their owners, and calls of a record.
#pragma once
#include <string>
#include <vector>

#include "cograd/c_api.h"
#include "ops/declare/registry.h"

namespace cograd {

// An op that an extension registered. Never freed, so that pointers to it stay valid.
struct ForeignOp {
  std::string library, name, qualified, params, doc, node_name, owner;
  std::vector<std::string> returns;  // types as in a schema; empty: the op does not say
  uint32_t flags = 0;
  bool opaque = false;    // computes without recording and has no gradient
  bool composed = false;  // consists of ops, so it runs on any device
  bool writes = false;    // has a mutated parameter
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

// Parses a schema into the op's record: a typed one, "(Tensor x, float a=1.0) -> Tensor", if it has
// types or no kinds are given, else names and defaults. Raises ValueError if it cannot parse it.
void parse_schema(ForeignOp& op, const char* schema, const int32_t* kinds, size_t n);

// Returns the op of an extension by "library::name"; null if there is none.
COGRAD_API const ForeignOp* find_foreign(std::string_view qualified);
COGRAD_API std::vector<const ForeignOp*> foreign_ops();

// Makes ops that are registered on this thread until end_loading() belong to `owner`; they replace
// its earlier ops of the same names. end_loading() returns the registered names and the errors.
struct Loaded {
  std::vector<std::string> names, errors;
};
COGRAD_API void begin_loading(std::string owner);
COGRAD_API Loaded end_loading();

// Runs the op on boxed arguments: the gate of foreign ops.
COGRAD_API void call_foreign(const ForeignOp& op, const Value* args, Result& result);
// True while this thread runs an op that computes without recording; call_foreign() checks its
// results.
bool in_opaque_op() noexcept;
// Runs the op itself, behind the stages; it handles batched arguments and tangents.
void run_foreign(const ForeignOp& op, const Value* args, Result& result);

}  // namespace api
}  // namespace cograd
