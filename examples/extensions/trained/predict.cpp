// SPDX-License-Identifier: BSD-3-Clause
// A C++ program without Python: computes a network whose state train.py has saved.
#include <cograd/extension.h>
#include <cograd/safetensors.h>

#include <cstdio>

using cograd::Tensor;

// The layer nn.Linear with the parameters of this name.
struct Linear {
  Tensor weight, bias;
  Linear(const cograd::SafeTensors& file, const std::string& name)
      : weight(file.get(name + ".weight")), bias(file.get(name + ".bias")) {}
  Tensor operator()(const Tensor& x) const { return x.matmul(weight.t()) + bias; }
};

int main(int count, char** arguments) {
  try {
    COGRAD_CHECK(count == 2, "usage: predict spirals.safetensors");
    const cograd::SafeTensors file(arguments[1]);
    const Linear first(file, "model.0"), second(file, "model.2"), last(file, "model.4");
    const cograd::NoGradGuard no_grad;
    const Tensor outputs = last(second(first(file.get("x")).tanh()).tanh());

    const double error = (outputs - file.get("outputs")).abs().max().item<double>();
    const Tensor right = (outputs.squeeze(1) > 0) == file.get("label");
    const double accuracy = right.to(cograd::kFloat).mean().item<double>();
    std::printf("accuracy %.3f, difference from Python %.1e\n", accuracy, error);
    COGRAD_CHECK(error < 1e-5 && accuracy > 0.97, "this is not the network that was trained");
    std::printf("trained: ok\n");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
