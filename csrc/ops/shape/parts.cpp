// SPDX-License-Identifier: BSD-3-Clause
// Views of complex tensors as real and imaginary parts, and the reverse.
#include "ops/compute/elementwise.h"
#include "ops/declare/autocast.h"
#include "ops/declare/ops.h"
#include "ops/declare/view.h"

namespace cograd {

namespace {

// Returns a view whose elements have another dtype.
Tensor make_typed_view(const Tensor& x, DType t, IntList sizes, IntList strides) {
  Tensor out = alias_strided(x, sizes, strides, x.bytes());
  out->dtype = t;
  link_view(x, out);
  return out;
}

struct ViewAsReal {
  static constexpr OpSpec spec{
      "view_as_real",        "input",
      kFunction | kView,     "A view of a complex tensor with a last dim of its two parts.",
      "none: complex input", ""};
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<ViewAsReal>&, const Tensor& z) {
    COGRAD_CHECK(is_complex(z.dtype()),
                 "view_as_real is only supported for complex tensors, got dtype ",
                 dtype_name(z.dtype()));
    Dims sizes(z.sizes()), strides(z.strides());
    for (int64_t& s : strides) s = scaled_stride(s, 2);
    sizes.push_back(2);
    strides.push_back(1);
    return make_typed_view(z, real_dtype(z.dtype()), sizes, strides);
  }
  static Tensor backward(Ctx<ViewAsReal>&, const Tensor& g) { return complex_from_parts(g); }
};
COGRAD_OP(ViewAsReal)

bool pairs_up(const Tensor& x) {
  if (x.dim() == 0 || x.size(-1) != 2 || x.stride(-1) != 1) return false;
  for (int i = 0; i + 1 < x.dim(); ++i)
    if (x.stride(i) % 2 != 0 && x.size(i) != 1) return false;
  return x.storage_offset() % 2 == 0;
}

struct ViewAsComplex {
  static constexpr OpSpec spec{"view_as_complex",
                               "input",
                               kFunction | kView | kAutocastWide,
                               "A view of a real tensor, whose last dim of 2 holds the parts.",
                               "T(3, 2); T(2, 3, 2)",
                               "input[..., 0] + 1j * input[..., 1]"};
  static constexpr DTypeSet kDTypes = kWideTypes;
  static constexpr BatchRule kBatch = leading(1);
  static Tensor forward(Ctx<ViewAsComplex>&, const Tensor& x) {
    COGRAD_CHECK(x.dtype() == DType::Float32 || x.dtype() == DType::Float64,
                 "view_as_complex is only supported for half, float and double tensors, but got a "
                 "tensor of scalar type: ",
                 scalar_type_name(x.dtype()));
    COGRAD_CHECK(x.dim() > 0, "Input tensor must have one or more dimensions");
    COGRAD_CHECK(x.size(-1) == 2, "Tensor must have a last dimension of size 2, got shape ",
                 to_string(x.sizes()));
    COGRAD_CHECK(x.stride(-1) == 1, "Tensor must have a last dimension with stride 1");
    COGRAD_CHECK(x.storage_offset() % 2 == 0, "Tensor must have a storage_offset divisible by 2");
    COGRAD_CHECK(
        pairs_up(x),
        "Tensor must have a stride divisible by 2 for all but last dimension, got strides ",
        to_string(x.strides()));
    Dims sizes(x.sizes()), strides(x.strides());
    sizes.pop_back();
    strides.pop_back();
    for (int64_t& s : strides) s /= 2;
    return make_typed_view(x, complex_dtype(x.dtype()), sizes, strides);
  }
  static Tensor backward(Ctx<ViewAsComplex>&, const Tensor& g) { return parts_of_complex(g); }
};
COGRAD_OP(ViewAsComplex)

struct Real {
  static constexpr OpSpec spec{"real",
                               "input",
                               kFunction | kView,
                               "A view of the real parts; a real tensor is returned as it is.",
                               "T(3, 4)",
                               "np.real(input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x) { return real(x); }
};
COGRAD_OP(Real)

struct Imag {
  static constexpr OpSpec spec{"imag",
                               "input",
                               kFunction | kView,
                               "A view of the imaginary parts of a complex tensor.",
                               "none: complex input",
                               ""};
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static Tensor forward(const Tensor& x) { return imag(x); }
};
COGRAD_OP(Imag)

}  // namespace

Tensor parts_of_complex(const Tensor& z) { return apply<ViewAsReal>(z); }
Tensor complex_from_parts(const Tensor& x) {
  return apply<ViewAsComplex>(pairs_up(x) ? x : contiguous_clone(x));
}
Tensor real(const Tensor& x) {
  return is_complex(x.dtype()) ? select(parts_of_complex(x), -1, 0) : x;
}
Tensor imag(const Tensor& x) {
  COGRAD_CHECK(is_complex(x.dtype()),
               "imag is not implemented for tensors with non-complex dtypes, got dtype ",
               dtype_name(x.dtype()));
  return select(parts_of_complex(x), -1, 1);
}

}  // namespace cograd
