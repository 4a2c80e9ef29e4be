// SPDX-License-Identifier: BSD-3-Clause
// Ops that create random tensors: rand, randn, randint, randperm, normal and the _like forms.
#include <limits>

#include "ops/compute/scalars.h"
#include "ops/declare/ops.h"
#include "ops/declare/options.h"
#include "ops/random/fill.h"

namespace cograd {

#define COGRAD_RANDOM_ARGS "generator=None, " COGRAD_FACTORY_ARGS
#define COGRAD_RANDOM_PARAMS Generator *generator, COGRAD_FACTORY_PARAMS

void fill_integers(const char* op, const Tensor& out, Generator* g, int64_t lo, int64_t hi) {
  COGRAD_CHECK(lo < hi, "random_ expects 'from' to be less than 'to', but got from=", lo,
               " >= to=", hi);
  const DType t = out.dtype();
  COGRAD_CHECK_NOT_IMPLEMENTED(!is_complex(t), "\"", op, "\" not implemented for '",
                               scalar_type_name(t), "'");
  if (t != DType::Int64 && t != DType::Float32 && t != DType::Float64 && t != DType::BFloat16) {
    const int bits = 8 * dtype_size(t);
    const int64_t top = t == DType::Bool      ? 1
                        : t == DType::Float16 ? 65504
                        : t == DType::UInt64  ? std::numeric_limits<int64_t>::max()
                        : is_signed(t)        ? (int64_t{1} << (bits - 1)) - 1
                                              : (int64_t{1} << bits) - 1;
    const int64_t low = t == DType::Float16 ? -top : is_signed(t) ? -top - 1 : 0;
    COGRAD_CHECK(lo >= low && lo <= top, op, "(): from is out of bounds for ", dtype_name(t),
                 ", got ", lo);
    COGRAD_CHECK(hi - 1 <= top, op, "(): to - 1 is out of bounds for ", dtype_name(t), ", got ",
                 hi - 1);
  }
  random_fill(
      out, g,
      [&](void* data, int64_t n, kernels::PhiloxState s) {
        kernels::random_int(t, data, n, s, lo, hi);
      },
      [&](void* data, int64_t n, kernels::MtStream& s) {
        const uint64_t range = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);
        kernels::mt_int(t, data, n, s, range, lo, range >= uint64_t{1} << 28);
      });
}

namespace {
int64_t full_range_end(DType t) {
  switch (t) {
    case DType::Bool:
      return 2;
    case DType::UInt8:
      return 256;
    case DType::Int8:
      return 128;
    case DType::Int16:
      return int64_t{1} << 15;
    case DType::Int32:
      return int64_t{1} << 31;
    case DType::Int64:
      return std::numeric_limits<int64_t>::max();
    case DType::Float16:
      return (int64_t{1} << 11) + 1;
    case DType::BFloat16:
      return (int64_t{1} << 8) + 1;
    case DType::Float32:
      return (int64_t{1} << 24) + 1;
    default:
      return (int64_t{1} << 53) + 1;
  }
}
}  // namespace

void fill_all_integers(const Tensor& out, Generator* g) {
  const DType t = out.dtype();
  COGRAD_CHECK_NOT_IMPLEMENTED(!is_complex(t), "\"random_\" not implemented for '",
                               scalar_type_name(t), "'");
  const int64_t end = full_range_end(t);
  random_fill(
      out, g,
      [&](void* data, int64_t n, kernels::PhiloxState s) {
        kernels::random_int(t, data, n, s, 0, end);
      },
      [&](void* data, int64_t n, kernels::MtStream& s) {
        const uint64_t range = t == DType::Int64 ? uint64_t{1} << 63 : static_cast<uint64_t>(end);
        kernels::mt_int(t, data, n, s, range, 0, t == DType::Int64 || t == DType::Float64);
      });
}

namespace {

struct Rand {
  static constexpr OpSpec spec{"rand", "*size, " COGRAD_RANDOM_ARGS,
                               kFunction | kOut | kNondiff | kRandom, "Numbers uniform in [0, 1).",
                               "none: random"};
  static Tensor forward(Ctx<Rand>& ctx, Shape size, COGRAD_RANDOM_PARAMS) {
    const DType t = factory_dtype(ctx, dtype, default_dtype());
    check_filled("rand", t);
    check_factory("rand", t, layout, pin_memory, requires_grad);
    Tensor out = factory_out(ctx, "rand", size, t);
    fill_uniform(out, generator, 0, 1);
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(Rand)

struct Randn {
  static constexpr OpSpec spec{"randn", "*size, " COGRAD_RANDOM_ARGS,
                               kFunction | kOut | kNondiff | kRandom, "Standard normal numbers.",
                               "none: random"};
  static Tensor forward(Ctx<Randn>& ctx, Shape size, COGRAD_RANDOM_PARAMS) {
    const DType t = factory_dtype(ctx, dtype, default_dtype());
    check_filled("randn", t);
    check_factory("randn", t, layout, pin_memory, requires_grad);
    Tensor out = factory_out(ctx, "randn", size, t);
    fill_normal(out, generator, 0, 1);
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(Randn)

template <class Op>
Tensor integers(Ctx<Op>& ctx, int64_t low, int64_t high, IntList size, COGRAD_RANDOM_PARAMS) {
  const DType t = factory_dtype(ctx, dtype, DType::Int64);
  check_factory("randint", t, layout, pin_memory, requires_grad);
  Tensor out = factory_out(ctx, "randint", size, t);
  fill_integers("randint", out, generator, low, high);
  return finish_factory(out, requires_grad);
}

// Raises unless the dtype represents all of 0, ..., n - 1: a rounded value would occur twice.
void check_permuted(int64_t n, DType t) {
  if (n <= 0) return;
  check_number("randperm", "n - 1 =", Scalar(static_cast<long>(n - 1)), t, OutOfRange::Raises);
  if (is_integral(t)) return;
  const int digits = t == DType::Float16    ? 11
                     : t == DType::BFloat16 ? 8
                     : t == DType::Float32  ? 24
                                            : 53;
  COGRAD_CHECK(n - 1 <= int64_t{1} << digits, "randperm(): expected n <= 2^", digits, " + 1 for ",
               dtype_name(t), ", which cannot represent all larger integers, got n = ", n);
}

constexpr const char* kRandintDoc = "Integers uniform in [low, high); low defaults to 0.";

struct RandintHigh {
  static constexpr OpSpec spec{"randint", "high, size, *, " COGRAD_RANDOM_ARGS,
                               kFunction | kOut | kNondiff | kRandom, kRandintDoc, "none: random"};
  static Tensor forward(Ctx<RandintHigh>& ctx, int64_t high, Shape size, COGRAD_RANDOM_PARAMS) {
    return integers(ctx, 0, high, size, generator, dtype, layout, {}, pin_memory, requires_grad);
  }
};
COGRAD_OP(RandintHigh)

struct Randint {
  static constexpr OpSpec spec{"randint", "low, high, size, *, " COGRAD_RANDOM_ARGS,
                               kFunction | kOut | kNondiff | kRandom, kRandintDoc, "none: random"};
  static Tensor forward(Ctx<Randint>& ctx, int64_t low, int64_t high, Shape size,
                        COGRAD_RANDOM_PARAMS) {
    return integers(ctx, low, high, size, generator, dtype, layout, {}, pin_memory, requires_grad);
  }
};
COGRAD_OP(Randint)

struct Randperm {
  static constexpr OpSpec spec{
      "randperm", "n, *, " COGRAD_RANDOM_ARGS, kFunction | kOut | kNondiff | kRandom,
      "A random permutation of 0, ..., n - 1; int64 by default.", "none: random"};
  static Tensor forward(Ctx<Randperm>& ctx, int64_t n, COGRAD_RANDOM_PARAMS) {
    const DType t = factory_dtype(ctx, dtype, DType::Int64);
    COGRAD_CHECK_NOT_IMPLEMENTED(t != DType::Bool && !is_complex(t),
                                 "\"randperm\" not implemented for '", scalar_type_name(t), "'");
    check_factory("randperm", t, layout, pin_memory, requires_grad);
    check_permuted(n, t);
    const Tensor order = empty_checked("randperm", Dims{n}, DType::Int64);
    random_fill(
        order, generator,
        [](void* data, int64_t count, kernels::PhiloxState s) {
          kernels::random_permutation(static_cast<int64_t*>(data), count, s);
        },
        [](void* data, int64_t count, kernels::MtStream& s) {
          kernels::mt_permutation(static_cast<int64_t*>(data), count, s);
        });
    return finish_factory(raw_cast(order, t), requires_grad);
  }
};
COGRAD_OP(Randperm)

#define COGRAD_RANDOM_LIKE(Struct, name, fill, doc)                                    \
  struct Struct {                                                                      \
    static constexpr OpSpec spec{name, "input, *, generator=None, " COGRAD_LIKE_ARGS,  \
                                 kFunction | kNondiff | kRandom, doc, "none: random"}; \
    static constexpr DTypeSet kDTypes = kEveryType;                                    \
    static Tensor forward(Ctx<Struct>&, const Tensor& x, Generator* generator,         \
                          COGRAD_LIKE_PARAMS) {                                        \
      const DType t = dtype.value_or(x.dtype());                                       \
      check_filled(name, t);                                                           \
      check_factory(name, t, layout, pin_memory, requires_grad);                       \
      Tensor out = empty_like_format(name, x, t, memory_format);                       \
      fill(out, generator, 0, 1);                                                      \
      return finish_factory(out, requires_grad);                                       \
    }                                                                                  \
  };                                                                                   \
  COGRAD_OP(Struct)
COGRAD_RANDOM_LIKE(RandLike, "rand_like", fill_uniform,
                   "Numbers uniform in [0, 1), shaped as input.")
COGRAD_RANDOM_LIKE(RandnLike, "randn_like", fill_normal,
                   "Standard normal numbers, shaped as input.")

template <class Op>
Tensor integers_like(Ctx<Op>&, const Tensor& x, int64_t low, int64_t high, Generator* generator,
                     COGRAD_LIKE_PARAMS) {
  const DType t = dtype.value_or(x.dtype());
  check_factory("randint_like", t, layout, pin_memory, requires_grad);
  Tensor out = empty_like_format("randint_like", x, t, memory_format);
  fill_integers("randint_like", out, generator, low, high);
  return finish_factory(out, requires_grad);
}

struct RandintLikeHigh {
  static constexpr OpSpec spec{"randint_like", "input, high, *, generator=None, " COGRAD_LIKE_ARGS,
                               kFunction | kNondiff | kRandom, kRandintDoc, "none: random"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(Ctx<RandintLikeHigh>& ctx, const Tensor& x, int64_t high,
                        Generator* generator, COGRAD_LIKE_PARAMS) {
    return integers_like(ctx, x, 0, high, generator, dtype, layout, {}, pin_memory, requires_grad,
                         memory_format);
  }
};
COGRAD_OP(RandintLikeHigh)

struct RandintLike {
  static constexpr OpSpec spec{"randint_like",
                               "input, low, high, *, generator=None, " COGRAD_LIKE_ARGS,
                               kFunction | kNondiff | kRandom, kRandintDoc, "none: random"};
  static constexpr DTypeSet kDTypes = kAllTypes | kUnsignedTypes;
  static Tensor forward(Ctx<RandintLike>& ctx, const Tensor& x, int64_t low, int64_t high,
                        Generator* generator, COGRAD_LIKE_PARAMS) {
    return integers_like(ctx, x, low, high, generator, dtype, layout, {}, pin_memory, requires_grad,
                         memory_format);
  }
};
COGRAD_OP(RandintLike)

struct NormalSize {
  static constexpr OpSpec spec{
      "normal", "mean, std, size, *, " COGRAD_RANDOM_ARGS, kFunction | kOut | kNondiff | kRandom,
      "Normal numbers of one mean and standard deviation.", "none: random"};
  static Tensor forward(Ctx<NormalSize>& ctx, double mean, double std, Shape size,
                        COGRAD_RANDOM_PARAMS) {
    check_std(std);
    const DType t = factory_dtype(ctx, dtype, default_dtype());
    check_filled("normal", t);
    check_factory("normal", t, layout, pin_memory, requires_grad);
    Tensor out = factory_out(ctx, "normal", size, t);
    fill_normal(out, generator, mean, std);
    return finish_factory(out, requires_grad);
  }
};
COGRAD_OP(NormalSize)

}  // namespace

}  // namespace cograd
