// SPDX-License-Identifier: BSD-3-Clause
// The table of ops: one record per op, made from its declaration. Bindings, stubs, docs and
// generated tests are all derived from it.
#pragma once
#include <atomic>

#include "ops/declare/call_form.h"
#include "ops/declare/parameters.h"
#include "ops/declare/traits.h"

namespace cograd {

using OpFlags = uint32_t;
inline constexpr OpFlags kFunction = 1;   // cograd.name(...)
inline constexpr OpFlags kMethod = 2;     // Tensor.name(...)
inline constexpr OpFlags kInplace = 4;    // Tensor.name_(...)
inline constexpr OpFlags kOut = 8;        // out= keyword
inline constexpr OpFlags kNN = 16;        // in cograd.nn.functional instead of cograd
inline constexpr OpFlags kNondiff = 32;   // has no gradient (comparisons, indices, ...)
inline constexpr OpFlags kInternal = 64;  // reachable through _C only
inline constexpr OpFlags kFunctional = kFunction | kMethod;
inline constexpr OpFlags kForms = kFunction | kMethod | kInplace | kOut;
inline constexpr OpFlags kExactOut = 128;       // out= must have the result's dtype; others convert
inline constexpr OpFlags kAbsentTensors = 256;  // its lists of tensors may hold None
inline constexpr OpFlags kUninitialised = 512;  // returns uninitialised memory
inline constexpr OpFlags kReadsBytes = 1024;    // depends on the memory layout, not only on values
inline constexpr OpFlags kNoCpp = 2048;         // no generated C++ function in the public headers
// The op writes out= while it reads inputs, so out= may not be identical to:
inline constexpr OpFlags kOutApart = 4096;    // any input
inline constexpr OpFlags kOutIsInput = 8192;  // any input but the first
inline constexpr OpFlags kNumbers = 16384;    // operands may all be Python numbers: add(2, 3)
inline constexpr OpFlags kAlias = 32768;      // returns its first argument's memory, but not a view

// An op's own declaration, the `spec` member of its struct.
struct OpSpec {
  const char* name;
  // Python parameters in the order of the C++ ones: "input, dim=None, *, dtype=None"; a name with a
  // leading star ("*size") also accepts its ints as separate positional arguments.
  const char* args;
  OpFlags flags;  // flags above, and one kind of traits.h
  const char* doc;
  // Argument lists for the generated tests, ';' between samples, or "none: reason".
  const char* samples = "";
  const char* ref = "";      // NumPy expression over the argument names
  const char* returns = "";  // field names of a named tuple result: "values, indices"
};

struct ForeignOp;  // an op of an extension (api/registration.h)

struct OpRecord {
  using Call = void (*)(const Value* args, Result& result, const CallForm& form);
  using Run = void (*)(const OpRecord& r, const CallForm& form, const Value* args, Result& result);
  OpSpec spec;
  std::vector<ArgInfo> args;
  bool differentiable = false;
  bool composite = false;  // consists of ops that are recorded themselves
  bool looped = false;     // a composition that reads values: vmap runs it sample by sample
  OpTraits traits;
  Result::Kind result = Result::Kind::None;
  uint8_t num_results = 1;  // the length of a tuple result
  bool has_inplace = false, has_out = false;
  const ForeignOp* foreign = nullptr;  // if set, `call_plain` is null
  Call call_plain = nullptr;           // the most frequent form
  Run run = nullptr;                   // every form that the op has; `result` is for the plain one

  void call(const Value* v, Result& out) const { call_plain(v, out, kPlainCall); }

  void call_inplace(const Tensor& self, const Value* v) const {
    Result none;
    run(*this, CallForm::inplace(self, {v, args.size()}), v, none);
  }
  void call_out(const Tensor& out, const Value* v) const {
    Result none;
    run(*this, CallForm::into(out, {v, args.size()}), v, none);
  }
};

namespace detail {

// The kind of a parameter, by its C++ type.
struct ArgShape {
  ArgKind kind;
  bool nullable;
};
// The part of a record that follows from the op's struct, beside its spec and parameters.
struct RecordTraits {
  OpTraits traits;
  Result::Kind result;
  uint8_t num_results;
  bool differentiable, composite, looped, has_inplace, has_out;
};
COGRAD_API std::vector<ArgInfo> arg_infos(std::span<const ArgShape> shapes);
COGRAD_API OpRecord* new_record(const OpSpec& spec, const RecordTraits& derived,
                                std::span<const ArgShape> args, OpRecord::Call call_plain,
                                OpRecord::Run run);
// Returns the record in `slot`, which make() has made at the first call.
COGRAD_API const OpRecord& made_once(std::atomic<const OpRecord*>& slot, OpRecord* (*make)());

}  // namespace detail

// Returns all records in registration order; overloads share a name. Complete once the library is
// loaded.
COGRAD_API const std::vector<OpRecord*>& op_table();
// Parses the record's parameters and adds it; aborts the load on a malformed declaration.
COGRAD_API bool add_record(OpRecord* record);
// Adds a second name for every overload of op `of`; applied at the first access to the table.
COGRAD_API bool add_alias(const char* name, const char* of);

}  // namespace cograd
