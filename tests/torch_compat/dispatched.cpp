// SPDX-License-Identifier: BSD-3-Clause
// An op with a kernel for the CPU and one for autograd, which call each other through the
// dispatcher; the blocks of the library are in two files.
#include <torch/script.h>
#include <torch/torch.h>

#include <ATen/core/dispatch/Dispatcher.h>

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

int cpu_calls = 0;

std::tuple<Tensor, Tensor> waves(const Tensor& x, double scale) {
  static auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("compat::waves", "").typed<decltype(waves)>();
  return op.call(x, scale);
}

std::vector<Tensor> waves_backward(const Tensor& x, const Tensor& gs, const Tensor& gc) {
  static auto op = torch::Dispatcher::singleton()
                       .findSchemaOrThrow("compat::waves", "backward")
                       .typed<std::vector<Tensor>(const Tensor&, const Tensor&, const Tensor&)>();
  return op.call(x, gs, gc);
}

std::tuple<Tensor, Tensor> waves_cpu(const Tensor& x, double scale) {
  ++cpu_calls;
  Tensor in = x.contiguous(), s = torch::empty_like(in), c = torch::empty_like(in);
  AT_DISPATCH_FLOATING_TYPES(in.type(), "waves", ([&] {
                               auto* p = in.data<scalar_t>();
                               for (int64_t i = 0; i < in.numel(); ++i) {
                                 s.data<scalar_t>()[i] = scale * std::sin(p[i]);
                                 c.data<scalar_t>()[i] = scale * std::cos(p[i]);
                               }
                             }));
  return {s, c};
}

std::vector<Tensor> waves_backward_cpu(const Tensor& x, const Tensor& gs, const Tensor& gc) {
  auto both = waves(x, 1.0);
  return {gs * std::get<1>(both) - gc * std::get<0>(both)};
}

class Waves : public torch::autograd::Function<Waves> {
 public:
  static tensor_list forward(AutogradContext* ctx, Tensor x, double scale) {
    at::AutoDispatchBelowADInplaceOrView guard;
    ctx->save_for_backward({x});
    ctx->saved_data["scale"] = scale;
    auto [s, c] = waves(x, scale);
    return {s, c};
  }
  static tensor_list backward(AutogradContext* ctx, tensor_list grads) {
    auto x = ctx->get_saved_variables()[0];
    auto g = waves_backward(x, grads[0].contiguous(), grads[1].contiguous())[0];
    return {g * ctx->saved_data["scale"].toDouble(), Tensor()};
  }
};

std::tuple<Tensor, Tensor> waves_autograd(const Tensor& x, double scale) {
  auto out = Waves::apply(x, scale);
  return {out[0], out[1]};
}

Tensor never(const Tensor&) { TORCH_CHECK(false, "a kernel of another device was called"); }

TORCH_LIBRARY_IMPL(compat, CPU, m) {
  m.impl("waves", waves_cpu);
  m.impl(TORCH_SELECTIVE_NAME("waves.backward"), TORCH_FN(waves_backward_cpu));
}
TORCH_LIBRARY_IMPL(compat, CUDA, m) { m.impl("twice", never); }
TORCH_LIBRARY_IMPL(compat, Meta, m) { m.impl("twice", never); }
TORCH_LIBRARY_IMPL(compat, Autograd, m) { m.impl("waves", waves_autograd); }

TORCH_LIBRARY_FRAGMENT(compat, m) {
  m.def("waves(Tensor x, float scale) -> (Tensor, Tensor)");
  m.def("waves.backward(Tensor x, Tensor gs, Tensor gc) -> Tensor[]");
  m.def("twice(Tensor x) -> Tensor", [](const Tensor& x) { return x + x; });
  m.def("cpu_calls", [] { return static_cast<int64_t>(cpu_calls); });
  m.def("without_kernel(Tensor x) -> Tensor");
}

Tensor thrice(Tensor x, c10::optional<Tensor> y) { return y.has_value() ? 3 * x + *y : 3 * x; }
static auto registry =
    torch::RegisterOperators()
        .op("compat::thrice", &thrice)
        .op("compat::squared(Tensor x) -> Tensor", [](Tensor x) { return x.square(); });
