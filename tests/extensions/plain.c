/* SPDX-License-Identifier: BSD-3-Clause */
/* Ops in C: with a gradient, calling other ops, and every way to fail. */
#include <cograd/c_api.h>
#include <stdlib.h>
#include <string.h>

/* Returns the status of a call that failed, from the function it stands in. */
#define TRY(call)                        \
  do {                                   \
    cograd_status s_ = (call);           \
    if (s_ != COGRAD_OK) return s_;      \
  } while (0)

static int64_t live_states = 0;
static void destroy_state(void* state) {
  --live_states;
  free(state);
}

static cograd_status contiguous_float64(cograd_tensor t, const char* who) {
  if (cograd_tensor_dtype(t) != COGRAD_FLOAT64)
    return cograd_fail(COGRAD_TYPE_ERROR, "%s(): expected float64, got dtype %d", who,
                       (int)cograd_tensor_dtype(t));
  if (!(cograd_tensor_flags(t) & COGRAD_IS_CONTIGUOUS))
    return cograd_fail(COGRAD_VALUE_ERROR, "%s(): expected a contiguous tensor", who);
  return COGRAD_OK;
}

/* y = x^3 * scale, by hand: the second derivative needs backward made of ops, see below. */
static cograd_status cube_forward(cograd_context ctx, void* user, const cograd_value* args,
                                  size_t n, cograd_results results) {
  cograd_tensor x = args[0].u.tensor, y = NULL;
  double scale = args[1].u.number, *state;
  const double* in;
  double* out;
  int64_t i, count = cograd_tensor_numel(x);
  (void)n;
  TRY(contiguous_float64(x, "cube"));
  if (scale < 0) return cograd_fail(COGRAD_VALUE_ERROR, "scale is %g, expected 0 or more", scale);
  TRY(cograd_tensor_empty(COGRAD_FLOAT64, cograd_tensor_dim(x), cograd_tensor_sizes(x), &y));
  in = (const double*)cograd_tensor_data(x);
  out = (double*)cograd_tensor_data(y);
  for (i = 0; i < count; ++i) out[i] = scale * *(double*)user * in[i] * in[i] * in[i];
  if (cograd_context_recording(ctx)) {
    cograd_status s = cograd_context_save(ctx, &x, 1);
    if (s != COGRAD_OK) {
      cograd_tensor_release(y);
      return s;
    }
    state = (double*)malloc(sizeof *state);
    *state = scale;
    ++live_states;
    cograd_context_set_state(ctx, state, destroy_state);
  }
  TRY(cograd_results_push_tensor(results, y));
  cograd_tensor_release(y);
  return COGRAD_OK;
}

/* Calls an op of two arguments by its name. */
static cograd_status call2(const char* name, cograd_value a, cograd_value b, cograd_tensor* out) {
  cograd_op op;
  cograd_value args[2], result;
  args[0] = a;
  args[1] = b;
  TRY(cograd_op_find(name, strlen(name), &op));
  TRY(cograd_op_call(op, args, 2, &result));
  *out = result.u.tensor; /* the reference is ours now */
  return COGRAD_OK;
}
static cograd_value tensor_value(cograd_tensor t) {
  cograd_value v = {COGRAD_TENSOR, 0, {0}, 0};
  v.u.tensor = t;
  return v;
}
static cograd_value number_value(double d) {
  cograd_value v = {COGRAD_FLOAT, 0, {0}, 0};
  v.u.number = d;
  return v;
}

/* g * 3 * scale * x * x, of ops: so it has a derivative itself. */
static cograd_status cube_backward(cograd_context ctx, void* user, const cograd_tensor* grads,
                                   size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  cograd_tensor x = NULL, square = NULL, product = NULL;
  double scale = *(double*)cograd_context_state(ctx) * *(double*)user;
  cograd_status s;
  (void)n_grads;
  (void)n_inputs;
  if (!cograd_context_needs_input_grad(ctx, 0)) return COGRAD_OK;
  s = cograd_context_saved(ctx, 0, &x);
  if (s == COGRAD_OK) s = call2("mul", tensor_value(x), tensor_value(x), &square);
  if (s == COGRAD_OK) s = call2("mul", tensor_value(square), number_value(3 * scale), &product);
  if (s == COGRAD_OK) s = call2("mul", tensor_value(product), tensor_value(grads[0]), &out[0]);
  cograd_tensor_release(x);
  cograd_tensor_release(square);
  cograd_tensor_release(product);
  return s;
}

/* Sum and difference of a list of two, as a tuple; the difference is not differentiable. */
static cograd_status pair_forward(cograd_context ctx, void* user, const cograd_value* args,
                                  size_t n, cograd_results results) {
  const cograd_tensor* list = (const cograd_tensor*)args[0].u.list;
  cograd_tensor sum = NULL, difference = NULL;
  cograd_status s;
  (void)user;
  (void)n;
  if (args[0].length != 2)
    return cograd_fail(COGRAD_VALUE_ERROR, "expected 2 tensors, got %d", (int)args[0].length);
  s = call2("add", tensor_value(list[0]), tensor_value(list[1]), &sum);
  if (s == COGRAD_OK) s = call2("sub", tensor_value(list[0]), tensor_value(list[1]), &difference);
  if (s == COGRAD_OK) s = cograd_context_mark_non_differentiable(ctx, &difference, 1);
  if (s == COGRAD_OK) s = cograd_results_push_tensor(results, sum);
  if (s == COGRAD_OK) s = cograd_results_push_tensor(results, difference);
  cograd_tensor_release(sum);
  cograd_tensor_release(difference);
  return s;
}
static cograd_status pair_backward(cograd_context ctx, void* user, const cograd_tensor* grads,
                                   size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  size_t i;
  (void)user;
  if (n_grads != 2 || n_inputs != 2) return cograd_fail(COGRAD_RUNTIME_ERROR, "wrong counts");
  for (i = 0; i < n_inputs; ++i) {
    if (!cograd_context_needs_input_grad(ctx, i)) continue;
    cograd_tensor_retain(grads[0]);
    out[i] = grads[0];
  }
  return COGRAD_OK;
}

/* Doubles its argument in place, with a gradient. */
static cograd_status twice_forward(cograd_context ctx, void* user, const cograd_value* args,
                                   size_t n, cograd_results results) {
  double* p = (double*)cograd_tensor_data(args[0].u.tensor);
  int64_t i;
  (void)ctx;
  (void)user;
  (void)n;
  TRY(contiguous_float64(args[0].u.tensor, "twice_"));
  for (i = 0; i < cograd_tensor_numel(args[0].u.tensor); ++i) p[i] *= 2;
  return cograd_results_push_tensor(results, args[0].u.tensor);
}
static cograd_status twice_backward(cograd_context ctx, void* user, const cograd_tensor* grads,
                                    size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  (void)ctx;
  (void)user;
  (void)n_grads;
  (void)n_inputs;
  return call2("mul", tensor_value(grads[0]), number_value(2), &out[0]);
}

static cograd_status states_forward(cograd_context ctx, void* user, const cograd_value* args,
                                    size_t n, cograd_results results) {
  cograd_value v = {COGRAD_INT, 0, {0}, 0};
  (void)ctx;
  (void)user;
  (void)args;
  (void)n;
  v.u.integer = live_states;
  return cograd_results_push(results, &v);
}

/* Fails as it is told: 0 to 6 statuses, 7 a status without an error, 8 what a failed op says. */
static cograd_status fail_forward(cograd_context ctx, void* user, const cograd_value* args,
                                  size_t n, cograd_results results) {
  int64_t how = args[0].u.integer;
  cograd_op op;
  (void)ctx;
  (void)user;
  (void)n;
  (void)results;
  if (how == 7) return 12345;
  if (how == 8) return cograd_op_find("no_such_op", 10, &op);
  return cograd_fail((cograd_status)how, "failed as told with %d", (int)how);
}

static double unit = 1.0;

__attribute__((constructor)) static void register_ops(void) {
  cograd_op_desc d;
  memset(&d, 0, sizeof d);
  d.struct_size = sizeof d;
  d.library = "t_plain";
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;

  d.name = "cube";
  d.schema = "(Tensor x, float scale=1.0) -> Tensor";
  d.doc = "The third power.";
  d.forward = cube_forward;
  d.backward = cube_backward;
  d.user = &unit;
  cograd_op_register(&d);

  d.doc = NULL;
  d.user = NULL;
  d.name = "pair";
  d.schema = "(Tensor[] l) -> (Tensor, Tensor)";
  d.forward = pair_forward;
  d.backward = pair_backward;
  cograd_op_register(&d);

  d.name = "twice_";
  d.schema = "(Tensor(a!) x) -> Tensor(a!)";
  d.forward = twice_forward;
  d.backward = twice_backward;
  cograd_op_register(&d);

  d.backward = NULL;
  d.name = "live_states";
  d.schema = "() -> int";
  d.forward = states_forward;
  cograd_op_register(&d);

  d.name = "fail";
  d.schema = "(int how) -> ()";
  d.forward = fail_forward;
  cograd_op_register(&d);
}
