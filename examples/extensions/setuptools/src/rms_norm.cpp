// SPDX-License-Identifier: BSD-3-Clause
// RMS norm, y = x / sqrt(mean(x^2) + eps) * w over the last dim, in one pass over each row.
#include <cograd/extension.h>

#include <cmath>

using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::Function;
using cograd::autograd::variable_list;

namespace {

// Runs f(row, first, last) for every row of x, several rows at a time.
template <class F>
void each_row(const Tensor& x, F&& f) {
  const int64_t n = x.size(-1), rows = n == 0 ? 0 : x.numel() / n;
  cograd::parallel_for(0, rows, std::max<int64_t>(1, 16384 / (n + 1)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r) f(r, r * n, (r + 1) * n);
                       });
}

struct RmsNorm : Function<RmsNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& input, const Tensor& weight,
                        double eps) {
    COGRAD_CHECK_VALUE(input.dim() > 0 && weight.dim() == 1 && weight.size(0) == input.size(-1),
                       "input is ", input.summary(), " and weight ", weight.summary(),
                       ", expected [..., n] and [n]");
    COGRAD_CHECK_TYPE(input.dtype() == weight.dtype(), "input and weight differ in dtype");
    const Tensor x = input.contiguous(), w = weight.contiguous();
    Tensor y = cograd::empty(x.sizes(), x.options());
    COGRAD_DISPATCH_FLOATING(x.dtype(), "rms_norm", [&] {
      const auto *px = x.data_ptr<scalar_t>(), *pw = w.data_ptr<scalar_t>();
      auto* py = y.data_ptr<scalar_t>();
      each_row(x, [&](int64_t, int64_t first, int64_t last) {
        scalar_t sum = 0;
        for (int64_t i = first; i < last; ++i) sum += px[i] * px[i];
        const scalar_t r =
            1 / std::sqrt(sum / static_cast<scalar_t>(last - first) + static_cast<scalar_t>(eps));
        for (int64_t i = first; i < last; ++i) py[i] = px[i] * r * pw[i - first];
      });
    });
    ctx->save_for_backward({input, weight});
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const double eps = ctx->saved_data["eps"].to_double();
    if (cograd::GradMode::is_enabled()) {  // create_graph=True: use ops, which are differentiable
      const Tensor &input = saved[0], &weight = saved[1];
      const Tensor r = (input.square().mean(-1, true) + eps).rsqrt();
      const Tensor gw = grads[0] * weight, xhat = input * r;
      return {(gw - xhat * (gw * xhat).mean(-1, true)) * r,
              (grads[0] * xhat).reshape({-1, input.size(-1)}).sum(0), Tensor()};
    }
    const Tensor x = saved[0].contiguous(), w = saved[1].contiguous(), g = grads[0].contiguous();
    Tensor dx = cograd::empty(x.sizes(), x.options()),
           scaled = cograd::empty(x.sizes(), x.options());
    COGRAD_DISPATCH_FLOATING(x.dtype(), "rms_norm", [&] {
      const auto *px = x.data_ptr<scalar_t>(), *pw = w.data_ptr<scalar_t>(),
                 *pg = g.data_ptr<scalar_t>();
      auto *pdx = dx.data_ptr<scalar_t>(), *ps = scaled.data_ptr<scalar_t>();
      each_row(x, [&](int64_t, int64_t first, int64_t last) {
        const auto n = static_cast<scalar_t>(last - first);
        scalar_t sum = 0, dot = 0;
        for (int64_t i = first; i < last; ++i) {
          sum += px[i] * px[i];
          dot += pg[i] * pw[i - first] * px[i];
        }
        const scalar_t r = 1 / std::sqrt(sum / n + static_cast<scalar_t>(eps));
        const scalar_t k = dot * r * r / n;
        for (int64_t i = first; i < last; ++i) {
          pdx[i] = r * (pg[i] * pw[i - first] - px[i] * k);
          ps[i] = pg[i] * px[i] * r;
        }
      });
    });
    return {dx, scaled.reshape({-1, x.size(-1)}).sum(0), Tensor()};
  }
};

}  // namespace

COGRAD_LIBRARY(rms_norm, m) {
  m.def<RmsNorm>("rms_norm", "input, weight, eps=1e-6",
                 "input / sqrt(mean(input ** 2) + eps) * weight over the last dim.");
}
