// SPDX-License-Identifier: BSD-3-Clause
// A C++ program without Python: trains a small network that tells two spirals apart, with a
// custom activation function, whose gradient it checks first.
#include <cograd/extension.h>

#include <cmath>
#include <cstdio>
#include <random>

using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::Function;
using cograd::autograd::variable_list;

// Computes x * tanh(softplus(x)), with a hand-written derivative.
struct Mish : Function<Mish> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    return x * softplus(x).tanh();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0], t = softplus(x).tanh();
    return {grads[0] * (t + x * (1 - t * t) * x.sigmoid())};
  }
  static Tensor softplus(const Tensor& x) { return x.clamp_min(0) + (-x.abs()).exp().log1p(); }
};

// Compares the gradient of Mish with finite differences.
double worst_error() {
  const Tensor x = cograd::tensor({-3.0, -0.5, 0.25, 2.0}, cograd::kDouble).requires_grad_();
  const Tensor g = cograd::autograd::grad({Mish::apply(x).sum()}, {x})[0];
  const double h = 1e-6;
  const Tensor d = (Mish::apply(x.detach() + h) - Mish::apply(x.detach() - h)) / (2 * h);
  return (g - d).abs().max().item<double>();
}

struct Linear {
  Tensor weight, bias;
  Linear(int64_t in, int64_t out, std::mt19937& random) : weight(cograd::empty({in, out})) {
    std::normal_distribution<float> normal(0, std::sqrt(2.0f / static_cast<float>(in)));
    float* w = weight.data_ptr<float>();
    for (int64_t i = 0; i < weight.numel(); ++i) w[i] = normal(random);
    weight.set_requires_grad(true);
    bias = cograd::zeros({out}, cograd::requires_grad());
  }
  Tensor operator()(const Tensor& x) const { return x.matmul(weight) + bias; }
};

int main() {
  try {
    const double error = worst_error();
    std::printf("gradient of Mish: error %.1e\n", error);
    COGRAD_CHECK(error < 1e-8, "the gradient is wrong");

    std::mt19937 random(7);
    std::normal_distribution<double> noise(0, 0.02);
    const int64_t n = 200;
    Tensor x = cograd::empty({2 * n, 2}), y = cograd::empty({2 * n, 1});
    const auto px = x.accessor<float, 2>(), py = y.accessor<float, 2>();
    for (int64_t i = 0; i < 2 * n; ++i) {
      const double r = static_cast<double>(i / 2 + 10) / static_cast<double>(n + 10);
      const double angle = 6 * r + (i % 2 == 0 ? 0 : M_PI);
      px[i][0] = static_cast<float>(2 * r * std::cos(angle) + noise(random));
      px[i][1] = static_cast<float>(2 * r * std::sin(angle) + noise(random));
      py[i][0] = static_cast<float>(i % 2);
    }

    const Linear first(2, 32, random), second(32, 32, random), last(32, 1, random);
    const std::vector<Tensor> parameters = {first.weight, first.bias,  second.weight,
                                            second.bias,  last.weight, last.bias};
    std::vector<Tensor> momentum;
    for (const Tensor& p : parameters) momentum.push_back(cograd::zeros_like(p));
    double accuracy = 0;
    for (int step = 0; step <= 600; ++step) {
      const Tensor z = last(Mish::apply(second(Mish::apply(first(x)))));
      const Tensor loss = (Mish::softplus(z) - y * z).mean();
      loss.backward();
      const cograd::NoGradGuard no_grad;
      for (size_t i = 0; i < parameters.size(); ++i) {
        momentum[i].mul_(0.9).add_(parameters[i].grad());
        parameters[i].sub_(momentum[i], 0.05);
        parameters[i].zero_grad();
      }
      accuracy = ((z > 0) == (y > 0.5)).to(cograd::kFloat).mean().item<double>();
      if (step % 200 == 0)
        std::printf("step %d: loss %.4f, accuracy %.3f\n", step, loss.item<double>(), accuracy);
    }
    COGRAD_CHECK(accuracy > 0.97, "accuracy is ", accuracy, ", expected more than 0.97");
    std::printf("standalone: ok\n");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
