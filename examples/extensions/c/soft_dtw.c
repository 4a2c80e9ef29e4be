/* SPDX-License-Identifier: BSD-3-Clause */
/* Soft-DTW, a differentiable distance between two sequences: the cheapest path through a matrix of
 * costs, where min(a, b, c) is -gamma log(exp(-a/gamma) + exp(-b/gamma) + exp(-c/gamma)). */
#include <cograd/c_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                   \
  do {                              \
    cograd_status s_ = (call);      \
    if (s_ != COGRAD_OK) return s_; \
  } while (0)

static double soft_min(double a, double b, double c, double gamma) {
  const double least = fmin(a, fmin(b, c));
  if (!isfinite(least)) return least;
  return least - gamma * log(exp((least - a) / gamma) + exp((least - b) / gamma) +
                             exp((least - c) / gamma));
}

/* Holds what backward needs besides the costs. */
typedef struct {
  double gamma;
  double* best; /* [n + 1, m + 1]: the cost of the cheapest path to each cell */
} Path;
static void free_path(void* p) {
  if (p != NULL) free(((Path*)p)->best);
  free(p);
}

static cograd_status forward(cograd_context ctx, void* user, const cograd_value* args,
                             size_t n_args, cograd_results results) {
  const cograd_tensor cost = args[0].u.tensor;
  const double gamma = args[1].u.number;
  cograd_tensor_info c = {sizeof c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  (void)user;
  (void)n_args;
  cograd_tensor_describe(cost, &c);
  if (c.dtype != COGRAD_FLOAT64)
    return cograd_fail(COGRAD_TYPE_ERROR, "soft_dtw(): cost has dtype %d, expected float64", c.dtype);
  if (c.dim != 2 || c.numel == 0)
    return cograd_fail(COGRAD_VALUE_ERROR, "soft_dtw(): cost has %d dims and %lld elements, "
                       "expected a matrix that is not empty", c.dim, (long long)c.numel);
  if (!(gamma > 0))
    return cograd_fail(COGRAD_VALUE_ERROR, "soft_dtw(): gamma is %g, expected more than 0", gamma);

  const int64_t n = c.sizes[0], m = c.sizes[1], w = m + 1;
  const double* d = (const double*)c.data;
  Path* path = (Path*)calloc(1, sizeof *path);
  double* best = (double*)malloc((size_t)((n + 1) * w) * sizeof *best);
  if (path == NULL || best == NULL) {
    free(path);
    free(best);
    return cograd_fail(COGRAD_MEMORY_ERROR, "soft_dtw(): out of memory");
  }
  path->gamma = gamma;
  path->best = best;
  for (int64_t i = 0; i <= n; ++i)
    for (int64_t j = 0; j <= m; ++j)
      if (i == 0 || j == 0)
        best[i * w + j] = i + j == 0 ? 0 : INFINITY;
      else
        best[i * w + j] = d[(i - 1) * c.strides[0] + (j - 1) * c.strides[1]] +
                          soft_min(best[(i - 1) * w + j], best[i * w + j - 1],
                                   best[(i - 1) * w + j - 1], gamma);
  const double total = best[n * w + m];
  if (cograd_context_recording(ctx)) {
    cograd_context_set_state(ctx, path, free_path);
    TRY(cograd_context_save(ctx, &cost, 1));
  } else {
    free_path(path);
  }

  cograd_tensor out = NULL;
  TRY(cograd_tensor_empty(COGRAD_FLOAT64, 0, NULL, &out));
  *(double*)cograd_tensor_data(out) = total;
  const cograd_status s = cograd_results_push_tensor(results, out);
  cograd_tensor_release(out);
  return s;
}

/* Computes how much of the path goes through each cell, from the last cell backwards. */
static cograd_status backward(cograd_context ctx, void* user, const cograd_tensor* grads,
                              size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  const Path* path = (const Path*)cograd_context_state(ctx);
  const double g = *(const double*)cograd_tensor_data(grads[0]), gamma = path->gamma;
  cograd_tensor cost = NULL;
  (void)user;
  (void)n_grads;
  (void)n_inputs;
  TRY(cograd_context_saved(ctx, 0, &cost));
  const int64_t* sizes = cograd_tensor_sizes(cost);
  const int64_t* strides = cograd_tensor_strides(cost);
  const int64_t n = sizes[0], m = sizes[1], w = m + 1;
  const double *d = (const double*)cograd_tensor_data(cost), *r = path->best;
  const cograd_status s = cograd_tensor_empty(COGRAD_FLOAT64, 2, sizes, &out[0]);
  if (s == COGRAD_OK) {
    double* e = (double*)cograd_tensor_data(out[0]);
    for (int64_t i = n; i >= 1; --i)
      for (int64_t j = m; j >= 1; --j) {
        double share = i == n && j == m ? g : 0;
        for (int step = 1; step < 4; ++step) { /* to the next row, column, or both */
          const int64_t a = i + (step & 1), b = j + (step >> 1);
          if (a > n || b > m) continue;
          const double there = r[a * w + b] - d[(a - 1) * strides[0] + (b - 1) * strides[1]];
          share += e[(a - 1) * m + b - 1] * exp((there - r[i * w + j]) / gamma);
        }
        e[(i - 1) * m + j - 1] = share;
      }
  }
  cograd_tensor_release(cost);
  return s;
}

__attribute__((constructor)) static void register_op(void) {
  cograd_op_desc d;
  memset(&d, 0, sizeof d);
  d.struct_size = sizeof d;
  d.library = "soft_dtw";
  d.name = "soft_dtw";
  d.schema = "(Tensor cost, float gamma=1.0) -> Tensor";
  d.doc = "Soft-DTW distance of two sequences, from the matrix of their elements' costs.";
  d.flags = COGRAD_OP_ONCE_DIFFERENTIABLE;
  d.forward = forward;
  d.backward = backward;
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;
  cograd_op_register(&d); /* loading this library raises if this fails */
}
