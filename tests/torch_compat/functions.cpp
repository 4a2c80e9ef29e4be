// SPDX-License-Identifier: BSD-3-Clause
// Autograd Functions in C++: optional arguments, numbers, state, several results.
#include <torch/torch.h>

using namespace torch::autograd;

class Affine : public Function<Affine> {
 public:
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor input, torch::Tensor weight,
                               torch::Tensor bias = torch::Tensor()) {
    ctx->save_for_backward({input, weight, bias});
    auto output = input.mm(weight.t());
    if (bias.defined()) output += bias.unsqueeze(0).expand_as(output);
    return output;
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    auto saved = ctx->get_saved_variables();
    auto g = grads[0];
    auto grad_bias = torch::Tensor();
    if (saved[2].defined()) grad_bias = g.sum(0);
    return {g.mm(saved[1]), g.t().mm(saved[0]), grad_bias};
  }
};

class Scale : public Function<Scale> {
 public:
  static Variable forward(AutogradContext* ctx, Variable x, double by) {
    ctx->saved_data["by"] = by;
    return x * by;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->saved_data["by"].toDouble(), Variable()};
  }
};

// Doubles in place; the second result has no gradient.
class Doubled : public Function<Doubled> {
 public:
  static variable_list forward(AutogradContext* ctx, Variable x) {
    x.mul_(2);
    auto signs = x.sign();
    ctx->mark_dirty({x});
    ctx->mark_non_differentiable({signs});
    return {x, signs};
  }
  static variable_list backward(AutogradContext*, variable_list grads) { return {grads[0] * 2}; }
};

torch::Tensor penalty(torch::Tensor x) {
  auto y = (x * x * x).sum();
  auto g = grad({y}, {x}, /*grad_outputs=*/{}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  return g.pow(2).sum();
}

double slope_at(double value) {
  auto x = torch::full({1}, value, torch::dtype(torch::kFloat64).requires_grad(true));
  auto y = Scale::apply(x * x, 5.5);
  torch::NoGradGuard* none = nullptr;
  (void)none;
  y.sum().backward();
  return x.grad().item<double>();
}

TORCH_LIBRARY_FRAGMENT(compat, m) {
  m.def("affine", [](torch::Tensor x, torch::Tensor w, c10::optional<torch::Tensor> b) {
    return b ? Affine::apply(x, w, *b) : Affine::apply(x, w);
  });
  m.def("scale(Tensor x, float by) -> Tensor",
        [](torch::Tensor x, double by) { return Scale::apply(x, by); });
  m.def("doubled_(Tensor x) -> (Tensor, Tensor)", [](torch::Tensor x) {
    auto out = Doubled::apply(x);
    return std::make_tuple(out[0], out[1]);
  });
  m.def("penalty", &penalty);
  m.def("slope_at", &slope_at);
  m.def("node_name",
        [](torch::Tensor x) { return x.grad_fn() ? x.grad_fn()->name() : std::string("leaf"); });
}
