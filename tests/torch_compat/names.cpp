// SPDX-License-Identifier: BSD-3-Clause
// Names that extensions use, each in an op whose result says whether it did what it does in torch.
#include <ATen/ATen.h>
#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>
#include <c10/util/Optional.h>
#include <c10/util/irange.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

namespace F = torch::nn::functional;
using namespace torch::indexing;

namespace {

// The element type of each dispatch macro for a dtype.
std::string dispatched(at::ScalarType t) {
  std::string found;
  auto take = [&](auto zero) {
    found += at::toString(c10::CppTypeToScalarType<decltype(zero)>::value);
  };
  AT_DISPATCH_ALL_TYPES_AND3(at::ScalarType::Half, at::ScalarType::BFloat16, at::kBool, t, "all",
                             [&] { take(scalar_t()); });
  if (at::isFloatingType(t))
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, t, "floating",
                                    [&] { take(scalar_t()); });
  if (at::isIntegralType(t, /*includeBool=*/false))
    AT_DISPATCH_INTEGRAL_TYPES(t, "integral", [&] { take(scalar_t()); });
  return found;
}
at::Tensor floats_only(const at::Tensor& x) {
  return AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "floats_only", [&] {
    return at::full({}, static_cast<double>(sizeof(scalar_t)), x.options());
  });
}

template <typename scalar_t>
void column_sums(torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> in,
                 at::TensorAccessor<scalar_t, 1> out) {
  for (int j = 0; j < in.size(1); ++j) {
    at::acc_type<scalar_t, false> sum = 0;
    for (int i = 0; i < in.size(0); ++i) sum += in[i][j];
    out[j] = static_cast<scalar_t>(sum);
  }
}
at::Tensor sums(const at::Tensor& x) {
  auto out = torch::zeros({x.size(1)}, x.options());
  AT_DISPATCH_ALL_TYPES_AND_HALF(x.scalar_type(), "sums", [&] {
    column_sums<scalar_t>(x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
                          out.accessor<scalar_t, 1>());
  });
  return out;
}

double reduced(const at::Tensor& x) {
  const double* p = x.const_data_ptr<double>();
  return at::parallel_reduce(
      int64_t{0}, x.numel(), 10, 0.0,
      [&](int64_t begin, int64_t end, double sum) {
        for (int64_t i = begin; i < end; ++i) sum += p[i];
        return sum;
      },
      std::plus<double>());
}

// Half and BFloat16: arithmetic among themselves, limits, numbers of that type as operands.
at::Tensor halves(const at::Tensor& x) {
  auto out = at::empty_like(x, at::MemoryFormat::Contiguous);
  AT_DISPATCH_REDUCED_FLOATING_TYPES(x.scalar_type(), "halves", [&] {
    scalar_t sum = 0;
    for (int64_t i = 0; i < x.numel(); ++i) sum += x.data_ptr<scalar_t>()[i] * scalar_t(2);
    out.fill_(x.numel() > 0 ? sum : std::numeric_limits<scalar_t>::lowest());
  });
  return out;
}

// c10::complex: its operators, the functions of <complex>, dispatch on it and on its parts.
at::Tensor waved(const at::Tensor& x) {
  auto out = at::empty_like(x);
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(x.scalar_type(), "waved", [&] {
    const scalar_t* from = x.const_data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); ++i)
      out.data_ptr<scalar_t>()[i] = std::exp(from[i]) * from[i] + scalar_t(1);
  });
  return out;
}
at::Tensor lengths(const at::Tensor& x) {
  auto out = at::empty(x.sizes(), x.options().dtype(at::toRealValueType(x.scalar_type())));
  AT_DISPATCH_COMPLEX_TYPES(x.scalar_type(), "lengths", [&] {
    using real_t = typename scalar_t::value_type;
    for (int64_t i = 0; i < x.numel(); ++i)
      out.data_ptr<real_t>()[i] = std::abs(x.const_data_ptr<c10::complex<real_t>>()[i]);
  });
  return out;
}

at::Tensor indexed(const at::Tensor& x) {
  x.index_put_({0, Slice(None, 2)}, 7);
  return torch::stack({x.index({"...", 0}), x.index({Slice(), -1})});
}

std::string described(const at::Tensor& x, c10::optional<at::ScalarType> t, at::Scalar s,
                      c10::string_view name) {
  std::ostringstream out;
  out << x.sizes() << ' ' << x.dtype() << ' ' << x.device() << ' ' << x.type().toString() << ' '
      << t.value_or(torch::kInt32) << ' ' << s.to<float>() << ' ' << name << ' '
      << (x.device().type() == torch::kCUDA) << x.is_sparse();
  return out.str();
}

void fails(const std::string& how) {
  if (how == "value") TORCH_CHECK_VALUE(false, "a ", how);
  if (how == "type") TORCH_CHECK_TYPE(false, "a ", how);
  if (how == "index") TORCH_CHECK_INDEX(false, "an ", how);
  if (how == "missing") TORCH_CHECK_NOT_IMPLEMENTED(false, how);
  if (how == "plain") TORCH_CHECK(how.empty());
  if (how == "error") AT_ERROR("an ", how, ' ', 1);
  if (how == "assert") TORCH_INTERNAL_ASSERT(how.empty(), "why");
  if (how == "equal") TORCH_CHECK_EQ(1 + 1, 3);
  if (how == "std") throw std::out_of_range("std");
  try {
    TORCH_CHECK(false, "caught");
  } catch (const c10::Error& e) {
    TORCH_WARN("warned: ", e.what());
  }
}

at::Tensor many(const at::Tensor& x) {
  auto a = F::relu(x) + at::softmax(x, -1) + torch::clamp(x, -0.5, 0.5);
  auto b = std::get<0>(x.max(1, /*keepdim=*/true)) + torch::where(x > 0, x, torch::zeros_like(x));
  auto c = at::arange(0, x.size(1), x.options()).view({1, -1});
  auto d = torch::from_blob(x.data_ptr(), x.sizes(), x.options()).clone();
  torch::Tensor e = torch::tensor({1.0, 2.0, 3.0}, torch::dtype(torch::kFloat64));
  return (a + b + c + d.to(x) + e.to(torch::kCPU, x.scalar_type())).contiguous();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(compat_names, m) {
  m.def("dispatched", &dispatched);
  m.def("floats_only", &floats_only);
  m.def("sums", &sums);
  m.def("reduced", &reduced);
  m.def("halves", &halves);
  m.def("waved", &waved);
  m.def("lengths", &lengths);
  m.def("indexed", &indexed);
  m.def("described(Tensor x, ScalarType? t=None, Scalar s=2, str name='n') -> str", &described);
  m.def("fails(str how) -> ()", &fails);
  m.def("many", &many);
}
