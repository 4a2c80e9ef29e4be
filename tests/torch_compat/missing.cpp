// SPDX-License-Identifier: BSD-3-Clause
// What cograd does not have: each line is an error of the compiler that names it.
#include <torch/torch.h>

void missing(torch::Tensor x) {
  auto c = torch::fft_fft(x);
  auto d = torch::kComplexHalf;
  auto e = at::MemoryFormat::ChannelsLast;
  auto f = at::DeviceType::XPU;
  auto g = x.unsafeGetTensorImpl();
  torch::nn::Linear h(1, 2);
  auto i = x.mutable_grad();
}
TORCH_LIBRARY(missing, m) {
  m.class_<int>("Stack");
  m.fallback([](int) {});
}
TORCH_LIBRARY_IMPL(missing, Teapot, m) {}
