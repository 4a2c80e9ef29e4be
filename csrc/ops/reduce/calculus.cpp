// SPDX-License-Identifier: BSD-3-Clause
// Differences of neighbours, and integrals by the trapezoidal rule.
#include "ops/reduce/reduce.h"

namespace cograd {

namespace {

void check_joint(const Tensor& x, const Tensor& more, int dim) {
  if (!more.defined()) return;
  COGRAD_CHECK(more.dim() == x.dim(),
               "diff expects prepend or append to be the same dimension as input");
  for (int d = 0; d < x.dim(); ++d) {
    COGRAD_CHECK(d == dim || more.size(d) == x.size(d),
                 "diff expects the shape of tensor to prepend or append to match that of input "
                 "except along the differencing dimension; input.size(",
                 d, ") = ", x.size(d), ", but got tensor.size(", d, ") = ", more.size(d));
  }
}

struct Diff {
  static constexpr OpSpec spec{
      "diff",
      "input, n=1, dim=-1, prepend=None, append=None",
      kFunctional | kOut | kReduction,
      "Differences of neighbours along dim, n times; for bools, True where they differ.",
      "T(5); T(3, 4), 2, 0; T(3, 4), 1, 1, T(3, 2), T(3, 1); T(3), 5; B(4)",
      "np.diff(np.concatenate([a for a in (prepend, input, append) if a is not None], axis=dim), "
      "min(n, input.shape[dim]), axis=dim)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& input, int64_t n, Dim dim, const Tensor& prepend,
                        const Tensor& append) {
    COGRAD_CHECK(input.dim() > 0, "diff expects input to be at least one-dimensional");
    COGRAD_CHECK(n >= 0, "order must be non-negative but got ", n);
    const int d = wrap_dim(dim, input.dim());
    check_joint(input, prepend, d);
    check_joint(input, append, d);
    Tensor x = input;
    if (prepend.defined() || append.defined()) {
      SmallVec<Tensor, 3> parts;
      for (const Tensor* part : {&prepend, &input, &append})
        if (part->defined()) parts.push_back(*part);
      x = cat(TensorList(parts.data(), parts.size()), d);
    }
    if (n == 0) return contiguous_clone(x);
    for (n = std::min(n, x.size(d)); n > 0; --n) {
      const Tensor high = slice(x, d, 1), low = slice(x, d, 0, std::max<int64_t>(x.size(d) - 1, 0));
      x = x.dtype() == DType::Bool ? ne(high, low) : high - low;
    }
    return x;
  }
};
COGRAD_OP(Diff)

void check_number(const char* name, const char* arg, const Tensor& t) {
  COGRAD_CHECK(t.dtype() != DType::Bool, name, ": received a bool input for `", arg,
               "`, but bool is not supported");
}

// Returns the sums of neighbours along dim d.
Tensor pairs(const Tensor& y, int d) {
  return slice(y, d, 0, std::max<int64_t>(y.size(d) - 1, 0)) + slice(y, d, 1);
}

// Returns the widths of the intervals between points x, shaped so that they multiply y.
Tensor widths(const char* name, const Tensor& y, const Tensor& x, int d) {
  check_number(name, "x", x);
  Tensor points = x;
  if (x.dim() == 1) {
    COGRAD_CHECK(x.size(0) == y.size(d), name,
                 ": There must be one `x` value for each sample point, got ", x.size(0), " and ",
                 y.size(d));
    Dims sizes(static_cast<size_t>(y.dim()), 1);
    sizes[static_cast<size_t>(d)] = x.size(0);
    points = reshape(x, sizes);
  } else if (x.dim() < y.dim()) {
    Dims sizes(static_cast<size_t>(y.dim() - x.dim()), 1);
    sizes.append(x.sizes().begin(), x.sizes().end());
    points = reshape(x, sizes);
  }
  COGRAD_CHECK(points.dim() > d, name, ": `x` of shape ", to_string(x.sizes()),
               " has no dimension ", d);
  const int64_t n = points.size(d);
  return slice(points, d, 1) - slice(points, d, 0, std::max<int64_t>(n - 1, 0));
}

int dim_of(const char* name, const Tensor& y, Dim dim) {
  COGRAD_CHECK_INDEX(y.dim() > 0, "Dimension specified as ", dim.value,
                     " but tensor has no dimensions");
  check_number(name, "y", y);
  return wrap_dim(dim, y.dim());
}

Tensor trapezoid(const char* name, const Tensor& y, const Tensor& x, Dim dim) {
  const int d = dim_of(name, y, dim);
  const int64_t over[1] = {d};
  return sum(pairs(y, d) * widths(name, y, x, d), IntList(over)) / 2.0;
}
Tensor trapezoid(const char* name, const Tensor& y, const Scalar& dx, Dim dim) {
  const int d = dim_of(name, y, dim);
  COGRAD_CHECK(!dx.is_complex(), name, ": Currently, we only support dx as a real number.");
  // Without points the result is zero, for integers an integer zero.
  if (y.size(d) == 0 && !is_differentiable(y.dtype())) {
    Dims sizes(y.sizes());
    sizes.erase(static_cast<size_t>(d));
    return zeros(sizes, y.dtype());
  }
  const int64_t over[1] = {d};
  const Tensor all = sum(y, IntList(over));
  if (y.size(d) == 0) return all;
  return (all - (select(y, d, 0) + select(y, d, -1)) * 0.5) * dx.to_double();
}
Tensor running(const Tensor& t, int d) { return linear_recurrence(t, Tensor(), d, false); }

#define COGRAD_TRAPEZOID(Struct, name, points, widths_)                                \
  struct Struct##Points {                                                              \
    static constexpr OpSpec spec{                                                      \
        name,                                                                          \
        "y, x, *, dim=-1",                                                             \
        kFunction | kReduction,                                                        \
        "Integral of y over the points x by the trapezoidal rule, along dim.",         \
        "T(5), T(5); T(3, 4), T(4); T(3, 4), T(3), dim=0; T(2, 3, 4), T(3, 4), dim=1", \
        points};                                                                       \
    static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;                 \
    static constexpr BatchRule kBatch = through();                                     \
    static Tensor forward(const Tensor& y, const Tensor& x, Dim dim) {                 \
      return trapezoid("trapezoid", y, x, dim);                                        \
    }                                                                                  \
  };                                                                                   \
  COGRAD_OP(Struct##Points)                                                            \
  struct Struct##Widths {                                                              \
    static constexpr OpSpec spec{                                                      \
        name,                                                                          \
        "y, *, dx=1, dim=-1",                                                          \
        kFunction | kReduction,                                                        \
        "Integral of y, sampled at distances dx, by the trapezoidal rule.",            \
        "T(5); T(3, 4), dim=0; T(3, 4), dx=0.5",                                       \
        widths_};                                                                      \
    static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;                 \
    static constexpr BatchRule kBatch = through();                                     \
    static Tensor forward(const Tensor& y, Scalar dx, Dim dim) {                       \
      return trapezoid("trapezoid", y, dx, dim);                                       \
    }                                                                                  \
  };                                                                                   \
  COGRAD_OP(Struct##Widths)
COGRAD_TRAPEZOID(Trapezoid, "trapezoid", "", "np.trapezoid(y, dx=dx, axis=dim)")
COGRAD_TRAPEZOID(Trapz, "trapz", "", "np.trapezoid(y, dx=dx, axis=dim)")
#undef COGRAD_TRAPEZOID

struct CumulativePoints {
  static constexpr OpSpec spec{
      "cumulative_trapezoid",
      "y, x, *, dim=-1",
      kFunction | kReduction,
      "Integrals of y from the first point of x to each further one, by the trapezoidal rule.",
      "T(5), T(5); T(3, 4), T(4); T(3, 4), T(3), dim=0",
      ""};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& y, const Tensor& x, Dim dim) {
    const int d = dim_of("cumulative_trapezoid", y, dim);
    return running(pairs(y, d) * widths("cumulative_trapezoid", y, x, d) / 2.0, d);
  }
};
COGRAD_OP(CumulativePoints)

struct CumulativeWidths {
  static constexpr OpSpec spec{
      "cumulative_trapezoid",
      "y, *, dx=1, dim=-1",
      kFunction | kReduction,
      "Integrals of y, sampled at distances dx, from the first point to each further one.",
      "T(5); T(3, 4), dim=0; T(3, 4), dx=0.5",
      ""};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes;
  static constexpr BatchRule kBatch = through();
  static Tensor forward(const Tensor& y, Scalar dx, Dim dim) {
    const int d = dim_of("cumulative_trapezoid", y, dim);
    COGRAD_CHECK(!dx.is_complex(),
                 "cumulative_trapezoid: Currently, we only support dx as a real number.");
    return running(pairs(y, d) * (dx.to_double() / 2), d);
  }
};
COGRAD_OP(CumulativeWidths)

}  // namespace

}  // namespace cograd
