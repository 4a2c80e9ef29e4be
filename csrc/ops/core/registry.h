// SPDX-License-Identifier: BSD-3-Clause
// The table of ops: one record each, made from the op's declaration. Bindings, stubs, docs and
// generated tests are all derived from it.
#pragma once
#include "ops/core/facts.h"
#include "ops/core/parameters.h"

namespace cograd {

using OpFlags = uint32_t;
inline constexpr OpFlags kFunction = 1;   // cograd.name(...)
inline constexpr OpFlags kMethod = 2;     // Tensor.name(...)
inline constexpr OpFlags kInplace = 4;    // Tensor.name_(...)
inline constexpr OpFlags kOut = 8;        // out= keyword
inline constexpr OpFlags kNN = 16;        // in cograd.nn.functional instead of cograd
inline constexpr OpFlags kNondiff = 32;   // no gradient by nature (comparisons, indices, ...)
inline constexpr OpFlags kInternal = 64;  // reachable through _C only
inline constexpr OpFlags kFunctional = kFunction | kMethod;
inline constexpr OpFlags kForms = kFunction | kMethod | kInplace | kOut;
inline constexpr OpFlags kExactOut = 128;       // out= has the result's dtype; others convert
inline constexpr OpFlags kAbsentTensors = 256;  // its lists of tensors may hold None
inline constexpr OpFlags kUninitialised = 512;  // its values are whatever the memory held
inline constexpr OpFlags kReadsBytes = 1024;    // depends on how the bytes lie, not on values alone
inline constexpr OpFlags kNoCpp = 2048;         // no generated function of it in the public headers
// out= is written while inputs are read, so it may not even be one of them:
inline constexpr OpFlags kOutApart = 4096;    // none at all
inline constexpr OpFlags kOutIsInput = 8192;  // none but the first
inline constexpr OpFlags kNumbers = 16384;    // operands may all be Python numbers: add(2, 3)

// What an op's struct declares about itself, in one place.
struct OpSpec {
  const char* name;
  // Python parameters in the order of the C++ ones: "input, dim=None, *, dtype=None"; a name with
  // a leading star ("*size") also takes its ints as separate positional arguments.
  const char* args;
  OpFlags flags;  // of the above, and a kind
  const char* doc;
  // Argument lists for the generated tests, ';' between samples, or "none: reason".
  const char* samples = "";
  const char* ref = "";      // NumPy expression over the argument names
  const char* returns = "";  // field names of a named tuple result: "values, indices"
};

struct ForeignOp;  // an op of an extension (api/registration.h)

struct OpRecord {
  using Call = void (*)(const Value* args, Result& result);
  // `target` is written: the tensor itself of an in-place op, the given tensor of out=.
  using CallInto = void (*)(const Tensor& target, const Value* args);
  OpSpec spec;
  std::vector<ArgInfo> args;
  bool differentiable = false;
  bool composite = false;  // made of ops that are recorded themselves
  OpFacts facts;
  Result::Kind result = Result::Kind::None;
  uint8_t num_results = 1;             // of a tuple
  const ForeignOp* foreign = nullptr;  // then `call` is null
  Call call = nullptr;
  CallInto call_inplace = nullptr;
  CallInto call_out = nullptr;
};

// All records in registration order; overloads share a name. Complete once the library is loaded.
COGRAD_API const std::vector<OpRecord*>& op_table();
// Reads the parameters and adds it; aborts the load on a malformed declaration.
COGRAD_API bool add_record(OpRecord* record);
// Gives every overload of op `of` a second name; made when the table is first asked for.
COGRAD_API bool add_alias(const char* name, const char* of);

}  // namespace cograd
