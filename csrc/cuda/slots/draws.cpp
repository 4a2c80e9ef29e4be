// SPDX-License-Identifier: BSD-3-Clause
// Slots of kernels/random/random_draws.h.
#include "cuda/args/random_args.h"
#include "cuda/slots/registry.h"
#include "cuda/slots/support.h"
#include "kernels/random/random_draws.h"

namespace cograd::cuda {

using kernels::DrawSource;

namespace {

// Draws `rows` rows of n elements: generators of GPUs have Philox' stream.
void draw(const char* name, DType t, void* out, const void* first, const void* second, int64_t rows,
          int64_t n, const DrawSource& s, double* logs = nullptr) {
  if (n * rows == 0) return;
  const device::EachDrawArgs args{out,
                                  first,
                                  second,
                                  logs,
                                  n,
                                  rows,
                                  s.philox.seed,
                                  s.philox.offset,
                                  reinterpret_cast<const unsigned long long*>(s.philox.base)};
  launch(name, function_of("draw_each.h", name, {{"TYPE", stored_type(t)}}),
         grid_over(logs == nullptr ? n : rows), args);
}

void sample_grad(const char* name, DType t, const device::SampleGradArgs& args) {
  if (args.n > 0)
    launch(name, function_of("sample_gradients.h", name, {{"TYPE", stored_type(t)}}),
           grid_over(args.n), args);
}

}  // namespace

void draw_gamma(DType t, void* out, const void* alpha, int64_t n, const DrawSource& s) {
  draw("draw_gamma", t, out, alpha, nullptr, 1, n, s);
}
COGRAD_CUDA_SLOT(draw_gamma)

void draw_dirichlet(DType t, void* out, const void* alpha, int64_t rows, int64_t size,
                    const DrawSource& s) {
  const Scratch logs(static_cast<size_t>(rows * size) * sizeof(double));
  draw("draw_dirichlet", t, out, alpha, nullptr, rows, size, s, logs.get<double>());
}
COGRAD_CUDA_SLOT(draw_dirichlet)

void draw_poisson(DType t, void* out, const void* rate, int64_t n, const DrawSource& s) {
  draw("draw_poisson", t, out, rate, nullptr, 1, n, s);
}
COGRAD_CUDA_SLOT(draw_poisson)

void draw_binomial(DType t, void* out, const void* count, const void* chance, int64_t n,
                   const DrawSource& s) {
  draw("draw_binomial", t, out, count, chance, 1, n, s);
}
COGRAD_CUDA_SLOT(draw_binomial)

void draw_von_mises(DType t, void* out, const void* concentration, int64_t n, const DrawSource& s) {
  draw("draw_von_mises", t, out, concentration, nullptr, 1, n, s);
}
COGRAD_CUDA_SLOT(draw_von_mises)

void gamma_sample_grad(DType t, void* out, const void* alpha, const void* x, int64_t n) {
  sample_grad("gamma_sample_grad", t, {out, x, alpha, nullptr, n});
}
COGRAD_CUDA_SLOT(gamma_sample_grad)

void dirichlet_sample_grad(DType t, void* out, const void* x, const void* alpha, const void* total,
                           int64_t n) {
  sample_grad("dirichlet_sample_grad", t, {out, x, alpha, total, n});
}
COGRAD_CUDA_SLOT(dirichlet_sample_grad)

}  // namespace cograd::cuda
