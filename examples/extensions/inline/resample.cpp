// SPDX-License-Identifier: BSD-3-Clause
// A differentiable bilinear image resampler, which computes values between the pixels of an image.
#include <cmath>

using cograd::Tensor;
using cograd::autograd::AutogradContext;
using cograd::autograd::Function;
using cograd::autograd::variable_list;

// The four pixels around a point and their weights; those outside of the image count as zero.
struct Corners {
  int64_t y0, x0;
  double fy, fx;
  Corners(double y, double x) {
    y0 = static_cast<int64_t>(std::floor(y));
    x0 = static_cast<int64_t>(std::floor(x));
    fy = y - static_cast<double>(y0);
    fx = x - static_cast<double>(x0);
  }
  template <class F>  // f(y, x, weight, d weight / dy, d weight / dx)
  void each(int64_t h, int64_t w, F&& f) const {
    for (int64_t dy = 0; dy < 2; ++dy)
      for (int64_t dx = 0; dx < 2; ++dx) {
        const int64_t y = y0 + dy, x = x0 + dx;
        if (y < 0 || y >= h || x < 0 || x >= w) continue;
        const double wy = dy == 1 ? fy : 1 - fy, wx = dx == 1 ? fx : 1 - fx;
        f(y, x, wy * wx, (dy == 1 ? 1 : -1) * wx, (dx == 1 ? 1 : -1) * wy);
      }
  }
};

// Computes the values [C, N] of image [C, H, W] at points [N, 2] (rows, columns).
struct Resample : Function<Resample> {
  static constexpr bool once_differentiable = true;  // backward works on elements, not with ops

  static Tensor forward(AutogradContext* ctx, const Tensor& image, const Tensor& points) {
    COGRAD_CHECK_VALUE(image.dim() == 3, "image has ", image.dim(), " dims, expected 3");
    COGRAD_CHECK_VALUE(points.dim() == 2 && points.size(1) == 2, "points are ", points.summary(),
                       ", expected [N, 2]");
    COGRAD_CHECK_TYPE(points.dtype() == image.dtype(), "image and points differ in dtype");
    ctx->save_for_backward({image, points});
    Tensor out = cograd::zeros({image.size(0), points.size(0)}, image.options());
    COGRAD_DISPATCH_FLOATING(image.dtype(), "Resample", [&] {
      const auto im = image.accessor<scalar_t, 3>();
      const auto at = points.accessor<scalar_t, 2>();
      const auto o = out.accessor<scalar_t, 2>();
      cograd::parallel_for(0, points.size(0), 1024, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          Corners(at[n][0], at[n][1])
              .each(im.size(1), im.size(2),
                    [&](int64_t y, int64_t x, double weight, double, double) {
                      for (int64_t c = 0; c < im.size(0); ++c)
                        o[c][n] += static_cast<scalar_t>(weight) * im[c][y][x];
                    });
      });
    });
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor image = saved[0], points = saved[1], grad = grads[0];
    Tensor d_image = cograd::zeros_like(image), d_points = cograd::zeros_like(points);
    COGRAD_DISPATCH_FLOATING(image.dtype(), "Resample", [&] {
      const auto im = image.accessor<scalar_t, 3>();
      const auto at = points.accessor<scalar_t, 2>();
      const auto g = grad.accessor<scalar_t, 2>();  // any strides: gradients are often expanded
      const auto di = d_image.accessor<scalar_t, 3>();
      const auto dp = d_points.accessor<scalar_t, 2>();
      for (int64_t n = 0; n < points.size(0); ++n)
        Corners(at[n][0], at[n][1])
            .each(im.size(1), im.size(2),
                  [&](int64_t y, int64_t x, double weight, double by_y, double by_x) {
                    for (int64_t c = 0; c < im.size(0); ++c) {
                      di[c][y][x] += static_cast<scalar_t>(weight) * g[c][n];
                      dp[n][0] += static_cast<scalar_t>(by_y) * im[c][y][x] * g[c][n];
                      dp[n][1] += static_cast<scalar_t>(by_x) * im[c][y][x] * g[c][n];
                    }
                  });
    });
    return {ctx->needs_input_grad(0) ? d_image : Tensor(),
            ctx->needs_input_grad(1) ? d_points : Tensor()};
  }
};
