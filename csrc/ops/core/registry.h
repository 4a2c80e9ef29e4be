// SPDX-License-Identifier: BSD-3-Clause
// The table of ops: one record each, made from the op's declaration. Bindings, stubs, docs and
// generated tests are all derived from it.
#pragma once
#include "ops/core/value.h"

namespace cograd {

enum OpFlags : uint32_t {
  kFunction = 1,  // cograd.name(...)
  kMethod = 2,    // Tensor.name(...)
  kInplace = 4,   // Tensor.name_(...)
  kOut = 8,       // out= keyword
  kNN = 16,       // in cograd.nn.functional instead of cograd
  kNondiff = 32,  // no gradient by nature (comparisons, indices, ...)
  kFunctional = kFunction | kMethod,
  kElementwise = kFunction | kMethod | kInplace | kOut,
  kInternal = 64,  // reachable through _C only
  kNumbers = 128,  // operands may all be Python numbers: add(2, 3)
};

// What an op's struct declares about itself, in one place.
struct OpSpec {
  const char* name;
  // Python parameters in the order of the C++ ones: "input, dim=None, *, dtype=None"; a name with
  // a leading star ("*size") also takes its ints as separate positional arguments.
  const char* args;
  uint32_t flags;
  const char* doc;
  // Argument lists for the generated tests, ';' between samples, or "none: reason".
  const char* samples = "";
  const char* ref = "";      // NumPy expression over the argument names
  const char* returns = "";  // field names of a named tuple result: "values, indices"
};

struct ArgInfo {
  std::string name;
  ArgKind kind = ArgKind::Tensor;
  bool nullable = false;
  bool keyword_only = false;
  bool variadic = false;
  bool has_default = false;
  std::string default_text;
  std::string default_string;  // storage of a string default
  Value default_value;
};

struct ForeignOp;  // an op of an extension (api/registration.h)

struct OpRecord {
  using Call = void (*)(const Value* args, Result& result);
  // `target` is written: the tensor itself of an in-place op, the given tensor of out=.
  using CallInto = void (*)(const Tensor& target, const Value* args);
  OpSpec spec;
  std::vector<ArgInfo> args;
  bool differentiable = false;
  Result::Kind result = Result::Kind::None;
  uint8_t num_results = 1;             // of a tuple
  const ForeignOp* foreign = nullptr;  // then `call` is null
  Call call = nullptr;
  CallInto call_inplace = nullptr;
  CallInto call_out = nullptr;
};

// All records in registration order; overloads share a name. Complete once the library is loaded.
COGRAD_API const std::vector<OpRecord*>& op_table();
// Fills in names and defaults of record.args from spec.args; raises ValueError if malformed.
COGRAD_API void parse_parameters(OpRecord& record);
// The same for an op of this library; aborts the load on a malformed declaration.
COGRAD_API bool add_record(OpRecord* record);
// Gives every overload of op `of` a second name; made when the table is first asked for.
COGRAD_API bool add_alias(const char* name, const char* of);

}  // namespace cograd
