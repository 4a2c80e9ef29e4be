// SPDX-License-Identifier: BSD-3-Clause
// Ops with kernels for the CPU; the gradient of fused_madd is registered from Python.
#include <ATen/Operators.h>
#include <Python.h>
#include <torch/all.h>
#include <torch/library.h>

extern "C" {
PyObject* PyInit_compat_ops(void) {
  static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compat_ops", nullptr, -1, nullptr};
  return PyModule_Create(&module);
}
}

namespace compat {

template <typename scalar_t>
void madd(const scalar_t* a, const scalar_t* b, double c, scalar_t* out, int64_t n) {
  at::parallel_for(0, n, 0, [&](int64_t begin, int64_t end) {
    for (const auto i : c10::irange(begin, end)) out[i] = a[i] * b[i] + static_cast<scalar_t>(c);
  });
}

at::Tensor fused_madd(const at::Tensor& a, const at::Tensor& b, double c) {
  TORCH_CHECK(a.sizes() == b.sizes());
  TORCH_CHECK_TYPE(a.dtype() == b.dtype(), "expected one dtype, got ", a.dtype(), " and ",
                   b.scalar_type());
  TORCH_INTERNAL_ASSERT(a.device().type() == at::DeviceType::CPU);
  at::Tensor x = a.contiguous(), y = b.contiguous();
  at::Tensor result = torch::empty(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "fused_madd", [&] {
    madd<scalar_t>(x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), c, result.data_ptr<scalar_t>(),
                   result.numel());
  });
  return result;
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b) { return fused_madd(a, b, 0.0); }

void add_into(const at::Tensor& a, const at::Tensor& b, at::Tensor& out) {
  TORCH_CHECK(a.sizes() == b.sizes() && b.sizes() == out.sizes());
  TORCH_CHECK(out.is_contiguous());
  const auto x = a.contiguous(), y = b.contiguous();
  float* p = out.data_ptr<float>();
  for (int64_t i = 0; i < out.numel(); i++) p[i] = x.data_ptr<float>()[i] + y.data_ptr<float>()[i];
}

at::Tensor& scaled_(at::Tensor& x, double by) { return x.mul_(by); }

at::Tensor weighted(at::TensorList list, at::ArrayRef<double> weights) {
  at::Tensor sum = at::zeros_like(list[0]);
  for (size_t i = 0; i < list.size(); ++i) sum += list[i] * weights[i];
  return sum;
}

TORCH_LIBRARY(compat, m) {
  m.def("fused_madd(Tensor a, Tensor b, float c=1.0) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("product(Tensor a, Tensor b) -> Tensor");
  m.def("add_into(Tensor a, Tensor b, Tensor(a!) out) -> ()");
  m.def("scaled_(Tensor(a!) x, float by) -> Tensor(a!)");
  m.def("weighted(Tensor[] list, float[] weights) -> Tensor");
}

TORCH_LIBRARY_IMPL(compat, CPU, m) {
  m.impl("fused_madd", &fused_madd);
  m.impl("product", &product);
  m.impl("add_into", &add_into);
  m.impl("scaled_", TORCH_FN(scaled_));
  m.impl("weighted", &weighted);
}

}  // namespace compat
