// SPDX-License-Identifier: BSD-3-Clause
// The traits of an op beside its parameters: its kind, the dtypes it accepts, and the rules that
// transforms apply. An op's struct declares them as static members:
//
//   static constexpr DTypeSet kDTypes = kFloatTypes;
//       default: every dtype for contractions and kinds that only move or select elements;
//       else every real dtype except uint16, uint32 and uint64
//   static constexpr TangentRule kTangent = linear({0});
//       default: this for views and casts, else the double VJP
//   static constexpr BatchRule kBatch = by_dims();
//       default: a loop over the samples
//   static constexpr UnsignedRule kUnsigned = ordered({0});
//       default: none, see below
//   static constexpr bool kHolomorphic = true;
//       for complex dtypes, backward uses f' as for real ones; default: true for linear ops
//   static constexpr uint32_t kConstants = parameter_bits({2});
//       parameters that are never differentiable; default: none
#pragma once
#include <cstdint>
#include <initializer_list>

#include "cograd/dtype.h"
#include "cograd/error.h"

namespace cograd {

// The kinds of ops; a spec's flags contain one of them.
inline constexpr uint32_t kOther = 0;
inline constexpr uint32_t kElementwise = 0x10000;    // element i depends on the inputs' elements i
inline constexpr uint32_t kReduction = 0x20000;      // combines elements along dims, scans included
inline constexpr uint32_t kView = 0x30000;           // the result shares the input's memory
inline constexpr uint32_t kShape = 0x40000;          // moves, joins or copies elements unchanged
inline constexpr uint32_t kContraction = 0x50000;    // products summed over shared dims
inline constexpr uint32_t kIndex = 0x60000;          // index or mask tensors select elements
inline constexpr uint32_t kRandom = 0x70000;         // samples from a Generator
inline constexpr uint32_t kCreation = 0x80000;       // creates a tensor from shapes and scalars
inline constexpr uint32_t kLoss = 0x90000;           // compares an input with a target
inline constexpr uint32_t kSorting = 0xa0000;        // orders or ranks elements
inline constexpr uint32_t kDecomposition = 0xb0000;  // factors or solves matrices
inline constexpr uint32_t kCast = 0xc0000;           // the same values in another dtype or place
inline constexpr uint32_t kKindMask = 0xff0000;
// Returns the name of the kind in a spec's flags, e.g. "reduction".
COGRAD_API const char* kind_name(uint32_t flags) noexcept;

// Dtypes with which samples create their T and P tensors (or their I tensors if there are no
// others).
using DTypeSet = DTypeMask;
constexpr DTypeSet dtype_set(std::initializer_list<DType> list) noexcept {
  DTypeSet s = 0;
  for (const DType t : list) s |= dtype_bit(t);
  return s;
}
inline constexpr DTypeSet kFloatTypes = kFloatingDTypes;
inline constexpr DTypeSet kWideTypes = kFloatTypes & ~kHalfDTypes;
// Few kernels support these: see UnsignedRule.
inline constexpr DTypeSet kUnsignedTypes = kWideUnsignedDTypes;
inline constexpr DTypeSet kIntegerTypes = kIntegralDTypes & ~kUnsignedTypes;
inline constexpr DTypeSet kBitTypes = kIntegerTypes | dtype_set({DType::Bool});
inline constexpr DTypeSet kNumericTypes = kIntegerTypes | kFloatTypes;
inline constexpr DTypeSet kAllTypes = kBitTypes | kFloatTypes;
inline constexpr DTypeSet kComplexTypes = kComplexDTypes;
inline constexpr DTypeSet kEveryType = kAllTypes | kComplexTypes | kUnsignedTypes;

// How the outputs' tangents are computed from the inputs' tangents.
struct TangentRule {
  enum class Rule : uint8_t {
    DoubleVjp,    // the derivative of the backward with respect to its gradient
    Linear,       // the op itself, on the tangents of `inputs`, in which it is jointly linear
    Multilinear,  // a sum over `inputs`, each in turn replaced by its tangent
    SelfAdjoint,  // the sum of the inputs' gradients, with tangents as incoming gradients
  };
  Rule rule = Rule::DoubleVjp;
  uint32_t inputs = 0;  // bits: parameters
  uint32_t added = 0;   // Multilinear, bits: parameters added to the result; tangents pass None
  bool (*holds)(const Value* args) = nullptr;  // Linear: false if a call takes DoubleVjp instead
};
// How vmap runs the op on a batch.
class BatchCall;
struct BatchRule {
  enum class Rule : uint8_t {
    Loop,       // sample by sample
    Pointwise,  // aligns ranks
    ByDims,     // shifts parameters that are dims
    ByShape,    // prepends the batch size to parameters that are shapes
    Leading,    // the op accepts leading batch dims; the last `core_dims` are its own
    Through,    // the ops that it consists of have rules
    Own,        // the struct's member batch(BatchCall&)
  };
  Rule rule = Rule::Loop;
  uint8_t core_dims = 0;
  uint8_t new_dims = 0;  // ByDims: number of dims that the result adds; dims count these
  bool aligned = false;  // ByDims: all tensors have the same dims, as in gather
  bool shaped = false;   // ByDims: dims refer to the shape parameter
  bool alone = false;    // Leading: only the first tensor may be batched
  void (*own)(BatchCall&) = nullptr;
};
constexpr uint32_t parameter_bits(std::initializer_list<int> list) noexcept {
  uint32_t bits = 0;
  for (const int i : list) bits |= 1u << i;
  return bits;
}
constexpr TangentRule linear(std::initializer_list<int> inputs) noexcept {
  return {TangentRule::Rule::Linear, parameter_bits(inputs)};
}
constexpr TangentRule linear_if(bool (*holds)(const Value*), std::initializer_list<int> inputs) {
  return {TangentRule::Rule::Linear, parameter_bits(inputs), 0, holds};
}
constexpr TangentRule multilinear(std::initializer_list<int> inputs,
                                  std::initializer_list<int> added = {}) noexcept {
  return {TangentRule::Rule::Multilinear, parameter_bits(inputs), parameter_bits(added)};
}
constexpr TangentRule self_adjoint() noexcept { return {TangentRule::Rule::SelfAdjoint, 1}; }
constexpr BatchRule pointwise() noexcept { return {BatchRule::Rule::Pointwise}; }
constexpr BatchRule by_dims(uint8_t new_dims = 0) noexcept {
  return {BatchRule::Rule::ByDims, 0, new_dims};
}
constexpr BatchRule by_aligned_dims() noexcept { return {BatchRule::Rule::ByDims, 0, 0, true}; }
constexpr BatchRule by_shaped_dims() noexcept {
  BatchRule r{BatchRule::Rule::ByDims};
  r.shaped = true;
  return r;
}
constexpr BatchRule by_shaped_aligned_dims() noexcept {
  BatchRule r = by_shaped_dims();
  r.aligned = true;
  return r;
}
constexpr BatchRule by_shape() noexcept { return {BatchRule::Rule::ByShape}; }
constexpr BatchRule leading(uint8_t core_dims) noexcept {
  return {BatchRule::Rule::Leading, core_dims};
}
constexpr BatchRule leading_alone() noexcept {
  BatchRule r{BatchRule::Rule::Leading};
  r.alone = true;
  return r;
}
constexpr BatchRule through() noexcept { return {BatchRule::Rule::Through}; }

// For uint16, uint32 and uint64, an op that compares elements runs on signed integers in the same
// order (with the highest bit flipped). `values` is a bit set of the results that are elements:
// these are flipped back.
struct UnsignedRule {
  bool ordered = false;
  uint32_t values = 0;
};
constexpr UnsignedRule ordered(std::initializer_list<int> values) noexcept {
  return {true, parameter_bits(values)};
}

struct OpTraits {
  DTypeSet dtypes = kEveryType;
  UnsignedRule unsigned_rule;
  TangentRule tangent;
  BatchRule batch;
  bool holomorphic = false;    // the gradient of complex numbers is conj(backward(conj(g)))
  uint32_t constants = 0;      // bits: floating parameters without a gradient
  bool host_indices = false;   // its list of tensors may be on the host
  bool mixes_devices = false;  // its tensors may be on several devices; it runs at the first one's
};

// True for kinds whose ops do not depend on the elements' values.
constexpr bool moves_elements(uint32_t kind) noexcept {
  return kind == kView || kind == kShape || kind == kCast || kind == kIndex || kind == kCreation;
}

template <class Op>
constexpr OpTraits traits_of() noexcept {
  OpTraits f;
  constexpr uint32_t kKind = Op::spec.flags & kKindMask;
  if constexpr (!moves_elements(kKind) && kKind != kContraction) f.dtypes = kAllTypes;
  if constexpr (requires { Op::kDTypes; }) f.dtypes = Op::kDTypes;
  if constexpr (requires { Op::kUnsigned; }) {
    f.unsigned_rule = Op::kUnsigned;
    f.dtypes |= kUnsignedTypes;
  }
  if constexpr (requires { Op::kTangent; })
    f.tangent = Op::kTangent;
  else if constexpr (kKind == kView || kKind == kCast)
    f.tangent = linear({0});
  if constexpr (requires { Op::kBatch; }) f.batch = Op::kBatch;
  if constexpr (requires(BatchCall& c) { Op::batch(c); }) {
    f.batch.rule = BatchRule::Rule::Own;
    f.batch.own = &Op::batch;
  }
  // Ops that move or sum elements have real coefficients, so they need no conjugation.
  f.holomorphic = kKind == kContraction || f.tangent.rule == TangentRule::Rule::Multilinear ||
                  (f.tangent.rule == TangentRule::Rule::Linear && !moves_elements(kKind) &&
                   kKind != kReduction);
  if constexpr (requires { Op::kHolomorphic; }) f.holomorphic = Op::kHolomorphic;
  if constexpr (requires { Op::kConstants; }) f.constants = Op::kConstants;
  f.mixes_devices = requires { Op::kMixesDevices; };
  f.host_indices = requires { Op::kHostIndices; };
  return f;
}

}  // namespace cograd
