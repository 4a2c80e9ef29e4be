// SPDX-License-Identifier: BSD-3-Clause
// Ops that create sequences: arange, linspace, logspace, indices of triangles.
#include <cmath>

#include "kernels/core/sequences.h"
#include "ops/compute/elementwise.h"
#include "ops/compute/scalars.h"
#include "ops/compute/unsigned.h"
#include "ops/declare/ops.h"
#include "ops/declare/options.h"
#include "tensor/interrupt.h"

namespace cograd {

namespace {

// Returns one dim, or the shape of out= if it has the same number of elements.
Dims counted_sizes(const CtxBase& ctx, int64_t n) {
  if (ctx.target() != nullptr && ctx.target()->numel() == n) return Dims(ctx.target()->sizes());
  return Dims{n};
}

int64_t arange_length(const Scalar& start, const Scalar& end, const Scalar& step, bool exact) {
  const double a = start.to_double(), b = end.to_double(), s = step.to_double();
  COGRAD_CHECK(s != 0, "step must be nonzero");
  COGRAD_CHECK(std::isfinite(a) && std::isfinite(b), "unsupported range: ", a, " -> ", b);
  COGRAD_CHECK(std::isfinite(s), "arange(): step must be finite, got ", s);
  COGRAD_CHECK((s > 0 && b >= a) || (s < 0 && b <= a),
               "upper bound and lower bound inconsistent with step sign: got start ", a, ", end ",
               b, ", step ", s);
  if (exact) {
    const auto gap = static_cast<int64_t>(static_cast<uint64_t>(end.to_int()) -
                                          static_cast<uint64_t>(start.to_int()));
    const bool fits =
        gap == 0 || ((gap < 0) == (s < 0) && (gap != INT64_MIN || step.to_int() != -1));
    COGRAD_CHECK(fits, "arange(): the range ", a, " -> ", b, " is too long");
    return gap / step.to_int() + (gap % step.to_int() != 0);
  }
  const double n = std::ceil((b - a) / s);
  COGRAD_CHECK(n >= 0 && n < 0x1p62, "invalid size, possible overflow? arange() would have ", n,
               " elements");
  return static_cast<int64_t>(n);
}

Scalar whole(const char* argument, const Scalar& v) {
  check_number("arange", argument, v, DType::Int64, OutOfRange::Raises);
  return v.is_float() ? Scalar(static_cast<long>(v.to_int())) : v;
}

template <class Op>
Tensor counted(Ctx<Op>& ctx, Scalar start, Scalar end, Scalar step, COGRAD_FACTORY_PARAMS) {
  const bool floating = start.is_float() || end.is_float() || step.is_float();
  const DType t = factory_dtype(ctx, dtype, floating ? default_dtype() : DType::Int64);
  COGRAD_CHECK_NOT_IMPLEMENTED(t != DType::Bool, "\"arange_cpu\" not implemented for 'Bool'");
  check_factory("arange", t, layout, pin_memory, requires_grad);
  if (t == DType::Int64 && std::isfinite(start.to_double()) && std::isfinite(end.to_double())) {
    start = whole("start", start);
    end = whole("end", end);
    step = whole("step", step);
  }
  const auto exact = [t](const Scalar& v) {
    return !v.is_float() || (v.is_large() && t == DType::UInt64);
  };
  const int64_t n = arange_length(start, end, step, exact(start) && exact(end) && !step.is_float());
  Tensor out = empty_checked("arange", counted_sizes(ctx, n), t);
  if (is_integral(t)) {
    const auto a = static_cast<uint64_t>(start.to_int()), s = static_cast<uint64_t>(step.to_int());
    kernels::arange_integers(t, out.bytes(), out.numel(), a, s);
  } else {
    kernels::arange(t, out.bytes(), out.numel(), start.to_double(), step.to_double());
  }
  return finish_factory(out, requires_grad);
}

constexpr const char* kArangeDoc =
    "Values start, start + step, ... below end; int64 if all of them are ints.";

struct ArangeEnd {
  static constexpr OpSpec spec{"arange",
                               "end, *, " COGRAD_FACTORY_ARGS,
                               kFunction | kOut | kNondiff | kCreation,
                               kArangeDoc,
                               "5; 2.5; 0",
                               "np.arange(end)"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(Ctx<ArangeEnd>& ctx, Scalar end, COGRAD_FACTORY_PARAMS) {
    return counted(ctx, 0, end, 1, dtype, layout, {}, pin_memory, requires_grad);
  }
};
COGRAD_OP(ArangeEnd)

struct Arange {
  static constexpr OpSpec spec{"arange",
                               "start, end, step=1, *, " COGRAD_FACTORY_ARGS,
                               kFunction | kOut | kNondiff | kCreation,
                               kArangeDoc,
                               "1, 5; 0, 1, 0.25; 5, 0, -2; 2, 2",
                               "np.arange(start, end, step)"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(Ctx<Arange>& ctx, Scalar start, Scalar end, Scalar step,
                        COGRAD_FACTORY_PARAMS) {
    return counted(ctx, start, end, step, dtype, layout, {}, pin_memory, requires_grad);
  }
};
COGRAD_OP(Arange)

void check_range(const char* op, const Scalar& start, const Scalar& end, int64_t steps, DType t) {
  COGRAD_CHECK(steps >= 0, op, "(): number of steps must be non-negative, got ", steps);
  COGRAD_CHECK_NOT_IMPLEMENTED(t != DType::Bool || steps <= 1, "\"", op,
                               "_cpu\" not implemented for 'Bool'");
  // An end that no element takes is not checked, as in torch.
  if (steps > 0) check_number(op, "start", start, t, OutOfRange::Raises);
  if (steps > 1) check_number(op, "end", end, t, OutOfRange::Raises);
}

// Returns an end of the range; as in torch, integer dtypes first convert it to one of their values.
// values.
double end_of(const Scalar& v, DType t) {
  if (!is_integral(t) || t == DType::Bool) return v.to_double();
  if (!representable(v, t, OutOfRange::Raises)) return 0;  // no element has it
  return dispatch_values(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>)
      return static_cast<double>(
          static_cast<T>(is_wide_unsigned(t) ? unsigned_bits(v) : v.to_int()));
    else
      return v.to_double();
  });
}

// Returns the dtype of a range between two scalars; raises if it would drop an imaginary part.
DType range_dtype(const char* op, const CtxBase& ctx, std::optional<DType> asked, const Scalar& a,
                  const Scalar& b) {
  if (!a.is_complex() && !b.is_complex()) return factory_dtype(ctx, asked, default_dtype());
  const DType inferred = complex_dtype(default_dtype());
  const DType t = factory_dtype(ctx, asked, inferred);
  COGRAD_CHECK(is_complex(t), op, "(): inferred dtype ", dtype_name(inferred),
               " can't be safely cast to passed dtype ", dtype_name(t));
  return t;
}

Scalar end_number(const char* op, const char* name, const TensorOrScalar& v) {
  if (!v.is_tensor()) return v.scalar();
  const Tensor& t = v.tensor();
  COGRAD_CHECK(t.dim() == 0, op, " only supports 0-dimensional start and end tensors, but got ",
               name, " with ", t.dim(), " dimension(s).");
  COGRAD_CHECK_TYPE(!transformed(t) || !has_tangent(t), op, "(): argument '", name,
                    "' does not take a tensor with a tangent, which would be lost: detach() it");
  return element_at(t, 0);
}

struct Linspace {
  static constexpr OpSpec spec{"linspace",
                               "start, end, steps, *, " COGRAD_FACTORY_ARGS,
                               kFunction | kOut | kNondiff | kCreation | kNumbers,
                               "`steps` evenly spaced values from start to end, both included.",
                               "0.0, 1.0, 5; 3, -3, 4; 2.0, 5.0, 1; 0, 1, 0",
                               "np.linspace(start, end, steps)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(Ctx<Linspace>& ctx, const TensorOrScalar& from, const TensorOrScalar& to,
                        int64_t steps, COGRAD_FACTORY_PARAMS) {
    const Scalar start = end_number("linspace", "start", from);
    const Scalar end = end_number("linspace", "end", to);
    const DType t = range_dtype("linspace", ctx, dtype, start, end);
    check_range("linspace", start, end, steps, t);
    check_factory("linspace", t, layout, pin_memory, requires_grad);
    Tensor out = empty_checked("linspace", counted_sizes(ctx, steps), t);
    if (is_complex(t))
      kernels::linspace_complex(t, out.bytes(), steps, start.to_complex(), end.to_complex());
    else
      kernels::linspace(t, out.bytes(), steps, end_of(start, t), end_of(end, t));
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(Linspace)

struct Logspace {
  static constexpr OpSpec spec{
      "logspace",
      "start, end, steps, base=10.0, *, " COGRAD_FACTORY_ARGS,
      kFunction | kOut | kNondiff | kCreation | kNumbers,
      "base to the power of `steps` evenly spaced values from start to end.",
      "0.0, 2.0, 5; -1.0, 1.0, 3, 2.0",
      "np.logspace(start, end, steps, base=base)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(Ctx<Logspace>& ctx, const TensorOrScalar& from, const TensorOrScalar& to,
                        int64_t steps, double base, COGRAD_FACTORY_PARAMS) {
    const Scalar start = end_number("logspace", "start", from);
    const Scalar end = end_number("logspace", "end", to);
    const DType t = range_dtype("logspace", ctx, dtype, start, end);
    check_range("logspace", start, end, steps == 1 ? 0 : steps, t);
    check_factory("logspace", t, layout, pin_memory, requires_grad);
    Tensor out = empty_checked("logspace", counted_sizes(ctx, steps), t);
    if (is_complex(t)) {
      kernels::logspace_complex(t, out.bytes(), steps, base, start.to_complex(), end.to_complex());
    } else if (steps == 1) {  // computed before it is converted, as in torch
      const double only = std::pow(base, start.to_double());
      check_number("logspace", "value", Scalar(only), t, OutOfRange::Inf);
      kernels::logspace(t, out.bytes(), 1, base, start.to_double(), start.to_double());
    } else {
      const kernels::Evenly exponent(end_of(start, t), end_of(end, t), steps);
      for (int64_t i = 0; is_integral(t) && i < steps; ++i)
        check_number("logspace", "value", Scalar(std::pow(base, exponent(i))), t,
                     OutOfRange::Raises);
      kernels::logspace(t, out.bytes(), steps, base, exponent.start, exponent.end);
    }
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(Logspace)

// A kernel writes about this many elements before the op looks whether the user interrupts it.
constexpr int64_t kBetweenChecks = 1 << 16;

// Returns rows and columns, [2, n], of the elements with column - row <= offset (lower) or >=
// (upper).
Tensor triangle_indices(const char* op, int64_t rows, int64_t cols, int64_t offset, bool upper,
                        DType t) {
  COGRAD_CHECK(rows >= 0, "row must be non-negative, got ", rows);
  COGRAD_CHECK(cols >= 0, "col must be non-negative, got ", cols);
  COGRAD_CHECK_NOT_IMPLEMENTED(t == DType::Int64 || t == DType::Int32, op,
                               "(): not implemented for dtype ", dtype_name(t),
                               ", expected int32 or int64");
  // In row r, the lower triangle (or the complement of the upper one) is the first r + from
  // columns.
  const Wide from = Wide{offset} + (upper ? 0 : 1);
  const auto clamped = [](Wide v, int64_t top) {
    return static_cast<int64_t>(std::clamp<Wide>(v, 0, top));
  };
  const int64_t first = clamped(-from, rows);       // from this row on, it has at least one column
  const int64_t full = clamped(cols - from, rows);  // from this row on, it has all columns
  const Wide lower =
      Wide{full - first} * (2 * from + first + full - 1) / 2 + Wide{rows - full} * cols;
  const Wide count = upper ? Wide{rows} * cols - lower : lower;
  if (count > std::numeric_limits<int64_t>::max()) fail_storage_size(Dims{2, rows}, Dims{});
  const auto n = static_cast<int64_t>(count);
  const Tensor out = empty_checked(op, Dims{2, n}, DType::Int64);
  if (n == 0) return raw_cast(out, t);
  const auto shift = static_cast<int64_t>(std::clamp<Wide>(from, -rows, cols));
  const int64_t step = std::max<int64_t>(1, kBetweenChecks / cols);
  InterruptCheck interrupt;
  int64_t done = 0;
  for (int64_t r = upper ? 0 : first, end = upper ? full : rows; r < end; r += step) {
    const int64_t next = std::min(r + step, end);
    kernels::triangle_indices(out.data<int64_t>() + done, out.data<int64_t>() + n + done, r, next,
                              cols, shift, upper);
    for (int64_t k = r; k < next; ++k) {
      const int64_t cut = clamped(from + k, cols);
      done += upper ? cols - cut : cut;
    }
    interrupt.after(step * cols);
  }
  return raw_cast(out, t);
}

#define COGRAD_TRIANGLE_INDICES(Struct, name, upper, ref)                                    \
  struct Struct {                                                                            \
    static constexpr OpSpec spec{name,                                                       \
                                 "row, col, offset=0, *, " COGRAD_FACTORY_ARGS,              \
                                 kFunction | kNondiff | kCreation,                           \
                                 "Row and column numbers of a triangle's elements, [2, n].", \
                                 "3, 3; 3, 4, 1; 4, 3, -1",                                  \
                                 ref};                                                       \
    static Tensor forward(Ctx<Struct>&, int64_t row, int64_t col, int64_t offset,            \
                          COGRAD_FACTORY_PARAMS) {                                           \
      const DType t = dtype.value_or(DType::Int64);                                          \
      check_factory(name, t, layout, pin_memory, requires_grad);                             \
      return triangle_indices(name, row, col, offset, upper, t);                             \
    }                                                                                        \
  };                                                                                         \
  COGRAD_OP(Struct)
COGRAD_TRIANGLE_INDICES(TrilIndices, "tril_indices", false,
                        "np.stack(np.tril_indices(row, offset, col))")
COGRAD_TRIANGLE_INDICES(TriuIndices, "triu_indices", true,
                        "np.stack(np.triu_indices(row, offset, col))")

}  // namespace

}  // namespace cograd
