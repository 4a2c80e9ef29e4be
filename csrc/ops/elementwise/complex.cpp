// SPDX-License-Identifier: BSD-3-Clause
// Non-holomorphic functions of complex numbers, and their forms for real ones. Gradients follow the
// conjugate Wirtinger convention: dL/d(re) + i dL/d(im).
#include "kernels/core/complex.h"
#include "ops/declare/autocast.h"
#include "ops/elementwise/rows.h"

namespace cograd {

namespace {

using kernels::ComplexOp;

Tensor run(CtxBase& ctx, ComplexOp op, const Tensor& z, DType result) {
  const Tensor* inputs[1] = {&z};
  Tensor out = ctx.out(z.sizes(), result, inputs);
  run_elementwise(kernels::complex_loop(op, z.dtype()), out, inputs, nullptr, 8);
  return out;
}

struct AbsComplex {
  static constexpr OpSpec spec{"abs", "input", kInternal | kInplace | kOut | kElementwise, "",
                               "none: abs"};
  static constexpr int kSaved = 1;
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<AbsComplex>& ctx, const Tensor& z) {
    COGRAD_CHECK(ctx.inplace_target() == nullptr,
                 "In-place abs is not supported for complex tensors.");
    ctx.save(z);
    return run(ctx, ComplexOp::Abs, z, real_dtype(z.dtype()));
  }
  // The gradient at 0 is 0.
  static Tensor backward(Ctx<AbsComplex>& ctx, const Tensor& g) { return sgn(ctx.saved(0)) * g; }
};

struct Abs {
  static constexpr OpSpec spec{
      "abs",     "input",        kForms | kElementwise, "Absolute value, element-wise.",
      "T(3, 4)", "np.abs(input)"};
  static constexpr DTypeSet kDTypes = kNumericTypes | kComplexTypes | kUnsignedTypes;
  static Tensor forward(CallForm into, const Tensor& x) {
    if (is_complex(x.dtype())) [[unlikely]]
      return into.run<AbsComplex>(x);
    return into.run<rows::Row_abs_real>(x);
  }
};
COGRAD_OP(Abs)

struct SgnComplex {
  static constexpr OpSpec spec{"sgn", "input", kInternal | kInplace | kOut | kElementwise, "",
                               "none: sgn"};
  static constexpr int kSaved = 1;
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<SgnComplex>& ctx, const Tensor& z) {
    ctx.save(z);
    return run(ctx, ComplexOp::Sgn, z, z.dtype());
  }
  // Returns the part of g perpendicular to z, divided by |z|; 0 at 0.
  static Tensor backward(Ctx<SgnComplex>& ctx, const Tensor& g) {
    const Tensor z = ctx.saved(0), direction = sgn(z), size = abs(z);
    const Tensor across = g - direction * real(conj(direction) * g);
    return where(eq(size, 0), 0.0, across / where(eq(size, 0), 1.0, size));
  }
};

struct Sgn {
  static constexpr OpSpec spec{"sgn",
                               "input",
                               kForms | kElementwise,
                               "Sign of real numbers; input / |input| for complex ones, 0 for 0.",
                               "T(3, 4)",
                               "np.sign(input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const Tensor& x) {
    if (is_complex(x.dtype())) return into.run<SgnComplex>(x);
    return into.run<rows::Row_sign>(x);
  }
};
COGRAD_OP(Sgn)

struct AngleComplex {
  static constexpr OpSpec spec{"angle", "input", kInternal | kInplace | kOut | kElementwise, "",
                               "none: angle"};
  static constexpr int kSaved = 1;
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<AngleComplex>& ctx, const Tensor& z) {
    ctx.save(z);
    return run(ctx, ComplexOp::Angle, z, real_dtype(z.dtype()));
  }
  // Returns g * i z / |z|^2; 0 at 0.
  static Tensor backward(Ctx<AngleComplex>& ctx, const Tensor& g) {
    const Tensor z = ctx.saved(0), size = abs(z);
    const Tensor none = eq(size, 0);
    const Tensor turned = mul(sgn(z), Scalar(Complex<double>(0, 1)));
    return turned * where(none, 0.0, g / where(none, 1.0, size));
  }
};

struct AngleReal {
  static constexpr OpSpec spec{"angle", "input", kInternal | kInplace | kOut | kElementwise, "",
                               "none: angle"};
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<AngleReal>&, const Tensor& x) {
    const GradGuard no_grad(false);
    const Tensor f = is_floating(x.dtype()) ? x : cast(x, default_dtype());
    return where(isnan(f), f, where(lt(f, 0), rows::lit(3.14159265358979323846), zeros_like(f)));
  }
  static Tensor backward(Ctx<AngleReal>&, const Tensor& g) { return zeros_like(g); }
};

struct Angle {
  static constexpr OpSpec spec{"angle",
                               "input",
                               kFunctional | kOut | kElementwise,
                               "Angle of complex numbers in radians; 0 or pi for real ones.",
                               "T(3, 4)",
                               "np.angle(input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(CallForm into, const Tensor& x) {
    if (is_complex(x.dtype())) return into.run<AngleComplex>(x);
    return into.run<AngleReal>(x);
  }
};
COGRAD_OP(Angle)

struct ConjComplex {
  static constexpr OpSpec spec{"conj", "input", kInternal | kInplace | kOut | kElementwise, "",
                               "none: conj"};
  static constexpr const char* kNodeName = "ConjBackward0";
  static constexpr DTypeSet kDTypes = kComplexTypes;
  static constexpr TangentRule kTangent = linear({0});
  static constexpr bool kHolomorphic = false;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<ConjComplex>& ctx, const Tensor& z) {
    return run(ctx, ComplexOp::Conj, z, z.dtype());
  }
  static Tensor backward(Ctx<ConjComplex>&, const Tensor& g) { return conj(g); }
};

struct Conj {
  static constexpr OpSpec spec{"conj",
                               "input",
                               kFunctional | kElementwise,
                               "Complex conjugate as a copy; a real tensor is returned as it is.",
                               "T(3, 4)",
                               "np.conj(input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x) { return conj(x); }
};
COGRAD_OP(Conj)

struct ConjPhysical {
  static constexpr OpSpec spec{
      "conj_physical", "input",         kForms | kElementwise, "Complex conjugate, element-wise.",
      "T(3, 4)",       "np.conj(input)"};
  static constexpr DTypeSet kDTypes = kAllTypes | kComplexTypes;
  static Tensor forward(CallForm into, const Tensor& x) {
    if (is_complex(x.dtype())) return into.run<ConjComplex>(x);
    if (x.dtype() == DType::Bool)
      return into.run<rows::Row_bitwise_and>(TensorOrScalar(x), TensorOrScalar(x));
    return into.run<rows::Row_positive>(x);
  }
};
COGRAD_OP(ConjPhysical)

// Returns the dtype of the parts; raises unless both have the same supported dtype.
DType parts_dtype(const char* op, const char* first, const Tensor& a, const char* second,
                  const Tensor& b) {
  COGRAD_CHECK(a.dtype() == DType::Float32 || a.dtype() == DType::Float64,
               "Expected both inputs to be Half, Float or Double tensors but got ",
               scalar_type_name(a.dtype()), " and ", scalar_type_name(b.dtype()), " (", op,
               "(): ", first, ", ", second, "; float16 has no complex dtype here)");
  COGRAD_CHECK(a.dtype() == b.dtype(), "Expected object of scalar type ",
               scalar_type_name(a.dtype()), " but got scalar type ", scalar_type_name(b.dtype()),
               " for second argument");
  return a.dtype();
}

struct Join {
  static constexpr OpSpec spec{"complex", "real, imag", kInternal | kInplace | kOut | kElementwise,
                               "", "none: complex"};
  static constexpr const char* kNodeName = "ComplexBackward0";
  static constexpr TangentRule kTangent = linear({0, 1});
  static constexpr bool kHolomorphic = false;
  static constexpr BatchRule kBatch = pointwise();
  static Tensor forward(Ctx<Join>& ctx, const Tensor& re, const Tensor& im) {
    Dims shape;
    COGRAD_CHECK(broadcast_shapes(re.sizes(), im.sizes(), shape), "complex(): shapes ",
                 to_string(re.sizes()), " and ", to_string(im.sizes()), " do not broadcast");
    Tensor out = ctx.out(shape, complex_dtype(re.dtype()));
    const GradGuard no_grad(false);
    raw_copy(real(detach(out)), re);
    raw_copy(imag(detach(out)), im);
    return out;
  }
  static void backward(Ctx<Join>& ctx, const Tensor& g) {
    if (ctx.needs(0)) ctx.grad(0) = real(g);
    if (ctx.needs(1)) ctx.grad(1) = imag(g);
  }
};

struct MakeComplex {
  static constexpr OpSpec spec{"complex",
                               "real, imag",
                               kFunction | kOut | kElementwise,
                               "Complex numbers from real and imaginary parts.",
                               "T(3, 4), T(3, 4); T(3, 1), T(4)",
                               "real + 1j * imag"};
  static constexpr DTypeSet kDTypes = kWideTypes;
  static Tensor forward(CallForm into, const Tensor& re, const Tensor& im) {
    parts_dtype("complex", "real", re, "imag", im);
    return into.run<Join>(re, im);
  }
};
COGRAD_OP(MakeComplex)

struct Polar {
  static constexpr OpSpec spec{"polar",
                               "abs, angle",
                               kFunction | kOut | kElementwise | kAutocastWide,
                               "Complex numbers from absolute values and angles in radians.",
                               "P(3, 4), T(3, 4); P(3, 1), T(4)",
                               "abs * np.exp(1j * angle)"};
  static constexpr DTypeSet kDTypes = kWideTypes;
  static Tensor forward(CallForm into, const Tensor& size, const Tensor& angle) {
    parts_dtype("polar", "abs", size, "angle", angle);
    const Tensor length = kinked(size);
    return into.run<Join>(length * cos(angle), length * sin(angle));
  }
};
COGRAD_OP(Polar)

struct IsReal {
  static constexpr OpSpec spec{"isreal",
                               "input",
                               kFunctional | kNondiff | kElementwise,
                               "True where the imaginary part is 0.",
                               "T(3, 4)",
                               "np.isreal(input)"};
  static constexpr DTypeSet kDTypes = kEveryType;
  static Tensor forward(const Tensor& x) {
    if (!is_complex(x.dtype())) return full(x.sizes(), DType::Bool, true);
    return eq(imag(detach(x)), 0);
  }
};
COGRAD_OP(IsReal)

}  // namespace

Tensor abs(const Tensor& x) {
  if (is_complex(x.dtype())) [[unlikely]]
    return apply<AbsComplex>(x);
  return apply<rows::Row_abs_real>(x);
}
Tensor sgn(const Tensor& x) {
  return is_complex(x.dtype()) ? apply<SgnComplex>(x) : apply<rows::Row_sign>(x);
}
Tensor conj(const Tensor& x) { return is_complex(x.dtype()) ? apply<ConjComplex>(x) : x; }
Tensor complex_of(const Tensor& re, const Tensor& im) { return apply<Join>(re, im); }

}  // namespace cograd
