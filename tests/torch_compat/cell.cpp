// SPDX-License-Identifier: BSD-3-Clause
// A recurrent cell whose backward is written by hand, as a pybind11 module for torch.
#include <torch/extension.h>

#include <vector>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_ON_CPU(x) AT_ASSERTM(!x.type().is_cuda(), #x " must be a CPU tensor")

// Derivatives from the outputs s = sigmoid(z) and t = tanh(z).
torch::Tensor sigmoid_slope(const torch::Tensor& s) { return s * (1 - s); }
torch::Tensor tanh_slope(const torch::Tensor& t) { return 1 - t.pow(2); }

// h, c, the three activations, the joined input.
std::vector<at::Tensor> cell_forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                     torch::Tensor h, torch::Tensor c) {
  CHECK_ON_CPU(x);
  CHECK_CONTIGUOUS(weight);
  auto joined = torch::cat({x, h}, /*dim=*/1);
  auto z = torch::addmm(bias, joined, weight.t()).chunk(3, /*dim=*/1);
  auto forget = torch::sigmoid(z[0]);
  auto output = at::sigmoid(z[1]);
  auto candidate = torch::tanh(z[2]);
  auto new_c = forget * c + (1 - forget) * candidate;
  auto new_h = output * new_c;
  return {new_h, new_c, forget, output, candidate, joined};
}

std::vector<torch::Tensor> cell_backward(torch::Tensor grad_h, torch::Tensor grad_c,
                                         torch::Tensor c, torch::Tensor new_c, torch::Tensor forget,
                                         torch::Tensor output, torch::Tensor candidate,
                                         torch::Tensor joined, torch::Tensor weight) {
  auto d_new_c = grad_c + grad_h * output;
  auto d_forget = d_new_c * (c - candidate);
  auto d_candidate = d_new_c * (1 - forget);
  auto d_output = grad_h * new_c;
  d_forget *= sigmoid_slope(forget);
  d_output *= sigmoid_slope(output);
  d_candidate *= tanh_slope(candidate);
  auto d_z = torch::cat({d_forget, d_output, d_candidate}, 1);
  auto d_joined = d_z.mm(weight);
  const auto inputs = joined.size(1) - grad_h.size(1);
  return {d_joined.slice(/*dim=*/1, 0, inputs), d_z.t().mm(joined), d_z.sum(0),
          d_joined.slice(1, inputs), d_new_c * forget};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &cell_forward, "One step of the cell");
  m.def("backward", &cell_backward, "Its gradient");
  m.def("needs_cuda", [](torch::Tensor x) { CHECK_CUDA(x); });
  m.def("sum_of", [](const c10::List<double>& l, py::dict d) {
    return std::accumulate(l.begin(), l.end(), 0.0) + static_cast<double>(d.size());
  });
}
