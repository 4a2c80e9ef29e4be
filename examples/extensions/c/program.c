/* SPDX-License-Identifier: BSD-3-Clause */
/* A C program without Python: calls the op of soft_dtw.c, which is linked in, and cograd's ops by
 * name, and compares a gradient with finite differences. */
#include <cograd/c_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(cograd_status status) {
  if (status == COGRAD_OK) return;
  fprintf(stderr, "status %d: %s\n", (int)status, cograd_last_error());
  exit(1);
}

static cograd_tensor call(const char* name, cograd_tensor x) {
  cograd_op op = NULL;
  cograd_value argument, result;
  memset(&argument, 0, sizeof argument);
  argument.kind = COGRAD_TENSOR;
  argument.u.tensor = x;
  check(cograd_op_find(name, strlen(name), &op));
  check(cograd_op_call(op, &argument, 1, &result));
  return result.u.tensor; /* the caller owns the result now */
}

/* Computes soft_dtw(cos(x)) into y, with its graph. */
static double distance(cograd_tensor x, cograd_tensor* y) {
  cograd_tensor cost = call("cos", x);
  double value = 0;
  *y = call("soft_dtw::soft_dtw", cost);
  cograd_tensor_release(cost);
  check(cograd_tensor_item(*y, &value, NULL));
  return value;
}

int main(void) {
  const int64_t sizes[] = {3, 4};
  const double h = 1e-6;
  double data[12], worst = 0;
  cograd_tensor x = NULL, y = NULL, gradient = NULL;
  for (int i = 0; i < 12; ++i) data[i] = sin(1 + 3 * i);
  check(cograd_tensor_from_blob(data, COGRAD_FLOAT64, 2, sizes, NULL, NULL, NULL, &x));
  check(cograd_tensor_set_requires_grad(x, 1));
  const double value = distance(x, &y);
  check(cograd_backward(&y, NULL, 1, NULL, 0, 0));
  cograd_tensor_release(y);
  check(cograd_tensor_grad(x, &gradient));

  const double* g = (const double*)cograd_tensor_data(gradient);
  cograd_set_grad_enabled(0);
  for (int i = 0; i < 12; ++i) {
    double side[2];
    const double there = data[i];
    for (int k = 0; k < 2; ++k) {
      data[i] = k == 0 ? there - h : there + h;
      side[k] = distance(x, &y);
      cograd_tensor_release(y);
    }
    data[i] = there;
    worst = fmax(worst, fabs((side[1] - side[0]) / (2 * h) - g[i]));
  }
  cograd_tensor_release(gradient);
  cograd_tensor_release(x);
  printf("soft_dtw: %.6f, gradient: error %.1e\n", value, worst);
  return worst < 1e-8 ? 0 : 1;
}
