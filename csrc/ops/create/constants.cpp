// SPDX-License-Identifier: BSD-3-Clause
// Ops that create constant tensors: empty, zeros, ones, full, eye, and their _like and new_ forms.
#include "ops/compute/elementwise.h"
#include "ops/compute/scalars.h"
#include "ops/compute/strides.h"
#include "ops/declare/ops.h"
#include "ops/declare/options.h"

namespace cograd {

namespace {

// Returns the name without its module: "strided" for "cograd.strided".
std::string_view bare(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

void check_factory(const char* op, DType dtype, std::optional<std::string_view> layout,
                   std::optional<bool> pin_memory, bool requires_grad) {
  COGRAD_CHECK(!layout || bare(*layout) == "strided", op,
               "(): only the strided layout exists, got ", layout.value_or(""));
  COGRAD_CHECK(!pin_memory.value_or(false), op,
               "(): pin_memory=True requires an accelerator backend, and there is none");
  COGRAD_CHECK(!requires_grad || is_differentiable(dtype),
               "Only Tensors of floating point and complex dtype can require gradients, ", op,
               "() got dtype ", dtype_name(dtype));
}

DType factory_dtype(const CtxBase& ctx, std::optional<DType> asked, DType otherwise) {
  if (ctx.target() == nullptr) return asked.value_or(otherwise);
  const DType have = ctx.target()->dtype();
  COGRAD_CHECK(!asked || *asked == have, "dtype ", dtype_name(*asked),
               " does not match dtype of out parameter (", dtype_name(have), ")");
  return have;
}

Tensor empty_like_format(const char* op, const Tensor& x, DType t,
                         std::optional<std::string_view> name) {
  return empty_in_format(x, t, memory_format(op, name));
}

Tensor factory_out(CtxBase& ctx, const char* op, IntList sizes, DType t) {
  if (ctx.target() != nullptr && same(ctx.target()->sizes(), sizes)) return ctx.out(sizes, t);
  return empty_checked(op, sizes, t);
}

namespace {

struct Empty {
  static constexpr OpSpec spec{"empty", "*size, " COGRAD_LIKE_ARGS,
                               kFunction | kOut | kNondiff | kCreation | kNoCpp | kUninitialised,
                               "A tensor with uninitialised elements.",
                               "none: contents are undefined"};
  static Tensor forward(Ctx<Empty>& ctx, Shape size, COGRAD_LIKE_PARAMS) {
    const DType t = factory_dtype(ctx, dtype, default_dtype());
    check_factory("empty", t, layout, pin_memory, requires_grad);
    const MemoryFormat format =
        cograd::memory_format("empty", memory_format, MemoryFormat::Contiguous);
    COGRAD_CHECK(format != MemoryFormat::Preserve, "empty(): unsupported memory format Preserve");
    Tensor out = factory_out(ctx, "empty", size, t);
    if (format != MemoryFormat::Contiguous) out = empty_in_format(out, t, format);
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(Empty)

template <class Op>
Tensor filled(Ctx<Op>& ctx, IntList size, DType t, Scalar value,
              std::optional<std::string_view> layout, std::optional<bool> pin_memory,
              bool requires_grad) {
  check_factory(Op::spec.name, t, layout, pin_memory, requires_grad);
  Tensor out = factory_out(ctx, Op::spec.name, size, t);
  raw_fill(out, value);
  return finish_factory(out, requires_grad);
}

#define COGRAD_CONSTANT(Struct, name, value)                                              \
  struct Struct {                                                                         \
    static constexpr OpSpec spec{name,                                                    \
                                 "*size, " COGRAD_FACTORY_ARGS,                           \
                                 kFunction | kOut | kNondiff | kCreation,                 \
                                 "A tensor filled with " #value ".",                      \
                                 "(2, 3); (); (0, 2)",                                    \
                                 "np." name "(size)"};                                    \
    static Tensor forward(Ctx<Struct>& ctx, Shape size, COGRAD_FACTORY_PARAMS) {          \
      return filled(ctx, size, factory_dtype(ctx, dtype, default_dtype()), value, layout, \
                    pin_memory, requires_grad);                                           \
    }                                                                                     \
  };                                                                                      \
  COGRAD_OP(Struct)
COGRAD_CONSTANT(Zeros, "zeros", 0)
COGRAD_CONSTANT(Ones, "ones", 1)

struct Full {
  static constexpr OpSpec spec{"full",
                               "size, fill_value, *, " COGRAD_FACTORY_ARGS,
                               kFunction | kOut | kNondiff | kCreation,
                               "A tensor filled with fill_value, whose type determines the dtype.",
                               "(2, 3), 1.5; (2,), 7; (), True",
                               "np.full(size, fill_value)"};
  static Tensor forward(Ctx<Full>& ctx, Shape size, Scalar value, COGRAD_FACTORY_PARAMS) {
    const DType t = factory_dtype(ctx, dtype, scalar_dtype(value));
    check_number("full", "fill_value", value, t, OutOfRange::Raises);
    return filled(ctx, size, t, value, layout, pin_memory, requires_grad);
  }
};
COGRAD_OP(Full)

struct ScalarTensor {
  static constexpr OpSpec spec{"scalar_tensor",
                               "s, *, " COGRAD_FACTORY_ARGS,
                               kFunction | kNondiff | kCreation,
                               "A 0-dim tensor of the default dtype holding a number.",
                               "1.5; 2",
                               "np.float64(s)"};
  static Tensor forward(Ctx<ScalarTensor>& ctx, Scalar value, COGRAD_FACTORY_PARAMS) {
    const DType t = dtype.value_or(default_dtype());
    check_number("scalar_tensor", "s", value, t, OutOfRange::Inf);
    return filled(ctx, {}, t, value, layout, pin_memory, requires_grad);
  }
};
COGRAD_OP(ScalarTensor)

// Returns a new tensor with the given strides, which may give several elements one address.
Tensor strided_tensor(const char* op, IntList sizes, IntList strides, DType t) {
  COGRAD_CHECK(sizes.size() == strides.size(), op, "(): dimensionality of sizes (", sizes.size(),
               ") must match dimensionality of strides (", strides.size(), ")");
  for (size_t i = 0; i < sizes.size(); ++i) {
    COGRAD_CHECK(sizes[i] >= 0, op, "(): Trying to create tensor with negative dimension ",
                 sizes[i], ": ", to_string(sizes));
    COGRAD_CHECK(strides[i] >= 0, op, "(): strides must be non-negative, got ", to_string(strides));
  }
  const Tensor flat = empty_checked(op, Dims{storage_extent(sizes, strides)}, t);
  return alias_strided(flat, sizes, strides, flat.bytes());
}

struct EmptyStrided {
  static constexpr OpSpec spec{"empty_strided", "size, stride, *, " COGRAD_FACTORY_ARGS,
                               kFunction | kNondiff | kCreation | kNoCpp | kUninitialised,
                               "An uninitialised tensor with given strides.",
                               "none: contents are undefined"};
  static Tensor forward(Ctx<EmptyStrided>& ctx, Shape size, Shape stride, COGRAD_FACTORY_PARAMS) {
    const DType t = factory_dtype(ctx, dtype, default_dtype());
    check_factory("empty_strided", t, layout, pin_memory, requires_grad);
    return finish_factory(strided_tensor("empty_strided", size, stride, t), requires_grad);
  }
};
COGRAD_OP(EmptyStrided)

#define COGRAD_LIKE(Struct, name, flags, fill, samples, ref)                                      \
  struct Struct {                                                                                 \
    static constexpr OpSpec spec{name,                                                            \
                                 "input, *, " COGRAD_LIKE_ARGS,                                   \
                                 kFunction | kNondiff | kCreation | (flags),                      \
                                 name ": a tensor like input in shape, dtype and order of dims.", \
                                 samples,                                                         \
                                 ref};                                                            \
    static constexpr BatchRule kBatch = pointwise();                                              \
    static Tensor forward(Ctx<Struct>&, const Tensor& x, COGRAD_LIKE_PARAMS) {                    \
      const DType t = dtype.value_or(x.dtype());                                                  \
      check_factory(name, t, layout, pin_memory, requires_grad);                                  \
      Tensor out = empty_like_format(name, x, t, memory_format);                                  \
      fill;                                                                                       \
      return finish_factory(out, requires_grad);                                                  \
    }                                                                                             \
  };                                                                                              \
  COGRAD_OP(Struct)
COGRAD_LIKE(EmptyLike, "empty_like", kUninitialised, (void)0, "none: contents are undefined", "")
COGRAD_LIKE(ZerosLike, "zeros_like", 0, raw_fill(out, 0), "T(3, 4); I(2)", "np.zeros_like(input)")
COGRAD_LIKE(OnesLike, "ones_like", 0, raw_fill(out, 1), "T(3, 4); I(2)", "np.ones_like(input)")

struct FullLike {
  static constexpr OpSpec spec{"full_like",
                               "input, fill_value, *, " COGRAD_LIKE_ARGS,
                               kFunction | kNondiff | kCreation,
                               "A tensor like input filled with fill_value.",
                               "T(3, 4), 2.5; I(2), 3",
                               "np.full_like(input, fill_value)"};
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<FullLike>&, const Tensor& x, Scalar value, COGRAD_LIKE_PARAMS) {
    const DType t = dtype.value_or(x.dtype());
    check_factory("full_like", t, layout, pin_memory, requires_grad);
    check_number("full_like", "fill_value", value, t, OutOfRange::Raises);
    Tensor out = empty_like_format("full_like", x, t, memory_format);
    raw_fill(out, value);
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(FullLike)

#define COGRAD_NEW(Struct, name, flags, fill, samples, ref)                                   \
  struct Struct {                                                                             \
    static constexpr OpSpec spec{name,                                                        \
                                 "input, *size, " COGRAD_FACTORY_ARGS,                        \
                                 kMethod | kNondiff | kCreation | (flags),                    \
                                 name ": a tensor of the given size and input's dtype.",      \
                                 samples,                                                     \
                                 ref};                                                        \
    static constexpr BatchRule kBatch = by_shape();                                           \
    static Tensor forward(Ctx<Struct>&, const Tensor& x, Shape size, COGRAD_FACTORY_PARAMS) { \
      const DType t = dtype.value_or(x.dtype());                                              \
      check_factory(name, t, layout, pin_memory, requires_grad);                              \
      Tensor out = empty_checked(name, size, t);                                              \
      fill;                                                                                   \
      return finish_factory(out, requires_grad);                                              \
    }                                                                                         \
  };                                                                                          \
  COGRAD_OP(Struct)
COGRAD_NEW(NewEmpty, "new_empty", kUninitialised, (void)0, "none: contents are undefined", "")
COGRAD_NEW(NewZeros, "new_zeros", 0, raw_fill(out, 0), "T(2), (3, 4)",
           "np.zeros(size, input.dtype)")
COGRAD_NEW(NewOnes, "new_ones", 0, raw_fill(out, 1), "T(2), (3, 4)", "np.ones(size, input.dtype)")

struct NewFull {
  static constexpr OpSpec spec{
      "new_full",
      "input, size, fill_value, *, " COGRAD_FACTORY_ARGS,
      kMethod | kNondiff | kCreation,
      "A tensor of the given size and input's dtype filled with fill_value.",
      "T(2), (3, 4), 2.5",
      "np.full(size, fill_value, input.dtype)"};
  static constexpr BatchRule kBatch = by_shape();
  static Tensor forward(Ctx<NewFull>& ctx, const Tensor& x, Shape size, Scalar value,
                        COGRAD_FACTORY_PARAMS) {
    const DType t = dtype.value_or(x.dtype());
    check_number("new_full", "fill_value", value, t, OutOfRange::Raises);
    return filled(ctx, size, t, value, layout, pin_memory, requires_grad);
  }
};
COGRAD_OP(NewFull)

struct NewEmptyStrided {
  static constexpr OpSpec spec{"new_empty_strided", "input, size, stride, *, " COGRAD_FACTORY_ARGS,
                               kMethod | kNondiff | kCreation | kUninitialised,
                               "An uninitialised tensor with given strides and input's dtype.",
                               "none: contents are undefined"};
  static Tensor forward(Ctx<NewEmptyStrided>&, const Tensor& x, Shape size, Shape stride,
                        COGRAD_FACTORY_PARAMS) {
    const DType t = dtype.value_or(x.dtype());
    check_factory("new_empty_strided", t, layout, pin_memory, requires_grad);
    return finish_factory(strided_tensor("new_empty_strided", size, stride, t), requires_grad);
  }
};
COGRAD_OP(NewEmptyStrided)

struct Eye {
  static constexpr OpSpec spec{"eye",
                               "n, m=None, *, " COGRAD_FACTORY_ARGS,
                               kFunction | kOut | kNondiff | kCreation,
                               "A matrix with ones on the diagonal and zeros elsewhere.",
                               "3; 3, 4; 2, 0",
                               "np.eye(n, m)"};
  static Tensor forward(Ctx<Eye>& ctx, int64_t n, std::optional<int64_t> m, COGRAD_FACTORY_PARAMS) {
    COGRAD_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
    COGRAD_CHECK(m.value_or(0) >= 0, "m must be greater or equal to 0, got ", m.value_or(0));
    const int64_t cols = m.value_or(n);
    const DType t = factory_dtype(ctx, dtype, default_dtype());
    check_factory("eye", t, layout, pin_memory, requires_grad);
    Tensor out = empty_checked("eye", Dims{n, cols}, t);
    raw_fill(out, 0);
    raw_fill(alias_strided(out, Dims{std::min(n, cols)}, Dims{cols + 1}, out.bytes()), 1);
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(Eye)

}  // namespace

}  // namespace cograd
