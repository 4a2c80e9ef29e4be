// SPDX-License-Identifier: BSD-3-Clause
// An op that is built once and loaded by every Python there is (tests/extension/test_abi.py).
#include <cograd/extension.h>

using namespace cograd;

namespace {

struct Sinc : autograd::Function<Sinc> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x, double scale) {
    COGRAD_CHECK_VALUE(scale > 0, "scale is ", scale, ", expected a positive number");
    ctx->save_for_backward({x});
    ctx->saved_data["scale"] = scale;
    return (x * scale).sin() / x;
  }
  static variable_list backward(autograd::AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    const double a = ctx->saved_data["scale"].to_double();
    return {grads[0] * ((x * a).cos() * a * x - (x * a).sin()) / (x * x), Tensor()};
  }
};

}  // namespace

COGRAD_LIBRARY(t_prebuilt, m) { m.def<Sinc>("sinc", "x, scale=1.0", "sin(scale * x) / x."); }
