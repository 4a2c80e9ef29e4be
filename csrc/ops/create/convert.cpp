// SPDX-License-Identifier: BSD-3-Clause
// Conversions between dtypes and devices: to, type_as, float and similar methods.
#include "ops/compute/elementwise.h"
#include "ops/compute/strides.h"
#include "ops/declare/ops.h"
#include "ops/declare/options.h"
#include "ops/declare/start_copy.h"

namespace cograd {

namespace {

using Format = std::optional<std::string_view>;

// Returns x itself if nothing changes and no copy is requested; memory_format applies to copies
// only.
Tensor converted(const char* op, const Tensor& x, DType t, bool copy, Format format) {
  const MemoryFormat asked = memory_format(op, format);
  const bool same_order = asked == MemoryFormat::Preserve || suggested_format(x) == asked;
  if (x.dtype() == t && !copy && same_order) return x;
  const Tensor y = x.dtype() != t ? cast(x, t) : copy || same_order ? clone(x) : x;
  // contiguous() would keep the strides of another order if the sizes allow several.
  if (asked == MemoryFormat::Preserve || (has_format(y, asked) && suggested_format(y) == asked))
    return y;
  return in_format(y, asked);
}

// Returns x on device d and converted.
Tensor placed(const Tensor& x, Device d, DType t, bool copy, Format format,
              bool non_blocking = false) {
  if (x->device == d) [[likely]]
    return converted("to", x, t, copy, format);
  const Tensor there = to_device(x, d, non_blocking);
  return converted("to", there, t, false, format);
}

constexpr const char* kToDoc =
    "The tensor in another dtype or on another device; itself if nothing changes and copy is "
    "False.";

struct ToDType {
  static constexpr OpSpec spec{
      "to",
      "input, dtype, non_blocking=False, copy=False, *, memory_format=None",
      kMethod | kCast | kNoCpp,
      kToDoc,
      "T(3, 4), torch.float64; I(3), torch.float32",
      ""};
  static Tensor forward(const Tensor& x, DType t, bool, bool copy, Format format) {
    return converted("to", x, t, copy, format);
  }
};
COGRAD_OP(ToDType)

struct ToDevice {
  static constexpr OpSpec spec{
      "to", "input, device=None, dtype=None, non_blocking=False, copy=False, *, memory_format=None",
      kMethod | kCast | kNoCpp, kToDoc, "none: the other overload is the same conversion"};
  static Tensor forward(const Tensor& x, std::optional<Device> d, std::optional<DType> t,
                        bool non_blocking, bool copy, Format format) {
    return placed(x, d.value_or(x->device), t.value_or(x.dtype()), copy, format, non_blocking);
  }
};
COGRAD_OP(ToDevice)

struct ToOther {
  static constexpr bool kMixesDevices = true;
  static constexpr OpSpec spec{
      "to",
      "input, other, non_blocking=False, copy=False, *, memory_format=None",
      kMethod | kCast | kNoCpp,
      kToDoc,
      "T(3, 4), T(2); I(3), T(2)",
      "input.astype(other.dtype)"};
  static Tensor forward(const Tensor& x, const Tensor& other, bool non_blocking, bool copy,
                        Format format) {
    return placed(x, other->device, other.dtype(), copy, format, non_blocking);
  }
};
COGRAD_OP(ToOther)

struct TypeAs {
  static constexpr bool kMixesDevices = true;
  static constexpr OpSpec spec{"type_as",
                               "input, other",
                               kMethod | kCast,
                               "The tensor in other's dtype.",
                               "T(3, 4), T(2); I(3), T(2)",
                               "input.astype(other.dtype)"};
  static Tensor forward(const Tensor& x, const Tensor& other) {
    return placed(x, other->device, other.dtype(), false, {});
  }
};
COGRAD_OP(TypeAs)

struct Type {
  static constexpr OpSpec spec{"type",
                               "input, dtype, non_blocking=False",
                               kMethod | kCast | kNoCpp,
                               "The tensor in another dtype.",
                               "T(3, 4), torch.float64; I(3), torch.int32",
                               ""};
  static Tensor forward(const Tensor& x, DType t, bool) {
    return converted("type", x, t, false, {});
  }
};
COGRAD_OP(Type)

struct Cpu {
  static constexpr OpSpec spec{"cpu",
                               "input, memory_format=None",
                               kMethod | kCast | kNoCpp,
                               "The tensor on the CPU; itself if it is there.",
                               "T(3, 4)",
                               "input"};
  static Tensor forward(const Tensor& x, Format format) {
    return placed(x, kHost, x.dtype(), false, format);
  }
};
COGRAD_OP(Cpu)

// `flags` is kNondiff if the result cannot carry a gradient.
#define COGRAD_CONVERSION(Struct, name, dtype, flags, samples, numpy) \
  struct Struct {                                                     \
    static constexpr OpSpec spec{name,                                \
                                 "input, memory_format=None",         \
                                 kMethod | flags | kCast,             \
                                 "The tensor in dtype " #dtype ".",   \
                                 samples,                             \
                                 numpy};                              \
    static Tensor forward(const Tensor& x, Format format) {           \
      return converted(name, x, DType::dtype, false, format);         \
    }                                                                 \
  };                                                                  \
  COGRAD_OP(Struct)
#define COGRAD_TO_INTEGER(Struct, name, dtype, numpy) \
  COGRAD_CONVERSION(Struct, name, dtype, kNondiff, "P(3, 4); I(3)", numpy)
#define COGRAD_TO_FLOAT(Struct, name, dtype, numpy) \
  COGRAD_CONVERSION(Struct, name, dtype, 0, "I(3); B(2, 2)", numpy)
COGRAD_TO_INTEGER(ToBool, "bool", Bool, "input.astype(np.bool_)")
COGRAD_TO_INTEGER(ToByte, "byte", UInt8, "input.astype(np.uint8)")
COGRAD_TO_INTEGER(ToChar, "char", Int8, "input.astype(np.int8)")
COGRAD_TO_INTEGER(ToShort, "short", Int16, "input.astype(np.int16)")
COGRAD_TO_INTEGER(ToInt, "int", Int32, "input.astype(np.int32)")
COGRAD_TO_INTEGER(ToLong, "long", Int64, "input.astype(np.int64)")
COGRAD_TO_FLOAT(ToHalf, "half", Float16, "input.astype(np.float16)")
COGRAD_TO_FLOAT(ToBFloat16, "bfloat16", BFloat16, "")
COGRAD_TO_FLOAT(ToFloat, "float", Float32, "input.astype(np.float32)")
COGRAD_CONVERSION(ToDouble, "double", Float64, 0, "T(3, 4); I(3)", "input.astype(np.float64)")

}  // namespace

}  // namespace cograd
