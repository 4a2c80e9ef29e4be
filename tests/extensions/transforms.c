/* SPDX-License-Identifier: BSD-3-Clause */
/* Ops and functions in C with rules for forward mode and vmap, and with descriptors as long as
 * those of the first header. */
#include <cograd/c_api.h>
#include <string.h>

#define TRY(call)                   \
  do {                              \
    cograd_status s_ = (call);      \
    if (s_ != COGRAD_OK) return s_; \
  } while (0)

static int64_t rule_calls = 0;

/* out = factor * x * y (1 where NULL), on the numbers, of float64 tensors. */
static cograd_status contiguous_product(double factor, cograd_tensor x, cograd_tensor y,
                                        cograd_tensor* out) {
  const double *a, *b;
  double* q;
  int64_t i, n = cograd_tensor_numel(x);
  TRY(cograd_tensor_empty(COGRAD_FLOAT64, cograd_tensor_dim(x), cograd_tensor_sizes(x), out));
  a = (const double*)cograd_tensor_data(x);
  b = y == NULL ? NULL : (const double*)cograd_tensor_data(y);
  q = (double*)cograd_tensor_data(*out);
  for (i = 0; i < n; ++i) q[i] = factor * a[i] * (b == NULL ? 1.0 : b[i]);
  return COGRAD_OK;
}

static cograd_status contiguous(cograd_tensor t, cograd_tensor* out) {
  cograd_op op;
  cograd_value arg = {COGRAD_TENSOR, 0, {0}, 0}, result;
  if (t == NULL) return COGRAD_OK;
  arg.u.tensor = t;
  TRY(cograd_op_find("contiguous", 10, &op));
  TRY(cograd_op_call(op, &arg, 1, &result));
  *out = result.u.tensor;
  return COGRAD_OK;
}
static cograd_status product(double factor, cograd_tensor x, cograd_tensor y, cograd_tensor* out) {
  cograd_tensor a = NULL, b = NULL;
  cograd_status s = contiguous(x, &a);
  if (s == COGRAD_OK) s = contiguous(y, &b);
  if (s == COGRAD_OK) s = contiguous_product(factor, a, b, out);
  cograd_tensor_release(a);
  cograd_tensor_release(b);
  return s;
}

static cograd_status push_product(cograd_results results, cograd_tensor x, cograd_tensor y) {
  cograd_tensor out = NULL;
  cograd_status s;
  TRY(product(1.0, x, y, &out));
  s = cograd_results_push_tensor(results, out);
  cograd_tensor_release(out);
  return s;
}

/* ---- the op: x * x ------------------------------------------------------------------------ */
static cograd_status square_forward(cograd_context ctx, void* user, const cograd_value* args,
                                    size_t n, cograd_results results) {
  cograd_tensor x = args[0].u.tensor;
  (void)user;
  (void)n;
  if (ctx != NULL) {
    TRY(cograd_context_save(ctx, &x, 1));
    TRY(cograd_context_save_for_forward(ctx, &x, 1));
  }
  return push_product(results, x, x);
}
static cograd_status square_backward(cograd_context ctx, void* user, const cograd_tensor* grads,
                                     size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  cograd_tensor x = NULL;
  cograd_status s;
  (void)user;
  (void)n_grads;
  (void)n_inputs;
  TRY(cograd_context_saved(ctx, 0, &x));
  s = product(2.0, grads[0], x, &out[0]);
  cograd_tensor_release(x);
  return s;
}
static cograd_status square_jvp(cograd_context ctx, void* user, const cograd_tensor* tangents,
                                size_t n_inputs, cograd_tensor* out, size_t n_outputs) {
  cograd_tensor x = NULL;
  cograd_status s;
  (void)user;
  ++rule_calls;
  if (n_inputs != 1 || n_outputs != 1 || cograd_context_num_saved_for_forward(ctx) != 1)
    return cograd_fail(COGRAD_RUNTIME_ERROR, "wrong counts");
  TRY(cograd_context_saved_for_forward(ctx, 0, &x));
  s = product(2.0, tangents[0], x, &out[0]);
  cograd_tensor_release(x);
  return s;
}
static cograd_status square_batch(const cograd_batch_info* info, void* user,
                                  const cograd_value* args, size_t n, const int32_t* in_dims,
                                  size_t n_inputs, cograd_results results) {
  (void)user;
  (void)n;
  ++rule_calls;
  if (info->struct_size != sizeof *info || n_inputs != 1 || in_dims[0] < 0 ||
      info->batch_size != cograd_tensor_sizes(args[0].u.tensor)[in_dims[0]])
    return cograd_fail(COGRAD_RUNTIME_ERROR, "wrong info");
  TRY(push_product(results, args[0].u.tensor, args[0].u.tensor));
  return cograd_results_set_dims(results, in_dims, 1);
}

/* ---- the function: x * y, called from an op that says it takes samples --------------------- */
static cograd_status times_backward(cograd_context ctx, void* state, const cograd_tensor* grads,
                                    size_t n_grads, cograd_tensor* out, size_t n_inputs) {
  cograd_tensor saved = NULL;
  size_t i;
  (void)state;
  (void)n_grads;
  for (i = 0; i < n_inputs; ++i) {
    cograd_status s;
    if (!cograd_context_needs_input_grad(ctx, i)) continue;
    TRY(cograd_context_saved(ctx, 1 - i, &saved));
    s = product(1.0, grads[0], saved, &out[i]);
    cograd_tensor_release(saved);
    if (s != COGRAD_OK) return s;
  }
  return COGRAD_OK;
}
static cograd_status times_jvp(cograd_context ctx, void* state, const cograd_tensor* tangents,
                               size_t n_inputs, cograd_tensor* out, size_t n_outputs) {
  cograd_tensor saved = NULL, parts[2] = {NULL, NULL};
  double *a, *b;
  int64_t i, n;
  size_t k;
  (void)state;
  ++rule_calls;
  if (n_inputs != 2 || n_outputs != 1) return cograd_fail(COGRAD_RUNTIME_ERROR, "wrong counts");
  for (k = 0; k < 2; ++k) {
    TRY(cograd_context_saved(ctx, 1 - k, &saved));
    TRY(product(1.0, tangents[k], saved, &parts[k]));
    cograd_tensor_release(saved);
  }
  n = cograd_tensor_numel(parts[0]);
  a = (double*)cograd_tensor_data(parts[0]);
  b = (double*)cograd_tensor_data(parts[1]);
  for (i = 0; i < n; ++i) a[i] += b[i];
  out[0] = parts[0];
  cograd_tensor_release(parts[1]);
  return COGRAD_OK;
}
static cograd_status times_call(void* user, const cograd_tensor* inputs, size_t n,
                                cograd_results results);
static cograd_status times_batch(const cograd_batch_info* info, void* user,
                                 const cograd_tensor* inputs, const int32_t* in_dims, size_t n,
                                 cograd_results results) {
  cograd_tensor list[2];
  (void)info;
  ++rule_calls;
  if (n != 2 || in_dims[0] < 0 || in_dims[1] != in_dims[0])
    return cograd_fail(COGRAD_NOT_IMPLEMENTED_ERROR, "times: only of two with samples");
  list[0] = inputs[0];
  list[1] = inputs[1];
  TRY(times_call(user, list, 2, results));
  return cograd_results_set_dims(results, in_dims, 1);
}
static cograd_function times = {sizeof(cograd_function),
                                "TimesBackward",
                                times_backward,
                                NULL,
                                NULL,
                                0,
                                times_jvp,
                                NULL,
                                times_call};
static cograd_function times_with_rule = {sizeof(cograd_function),
                                          "TimesBackward",
                                          times_backward,
                                          NULL,
                                          NULL,
                                          0,
                                          times_jvp,
                                          times_batch,
                                          times_call};

static cograd_status times_call(void* user, const cograd_tensor* inputs, size_t n,
                                cograd_results results) {
  cograd_context ctx = NULL;
  cograd_tensor out = NULL;
  cograd_status s;
  TRY(cograd_function_begin((const cograd_function*)user, NULL, inputs, n, &ctx));
  s = cograd_context_save(ctx, inputs, n);
  if (s == COGRAD_OK) s = product(1.0, inputs[0], inputs[1], &out);
  if (s != COGRAD_OK) {
    cograd_function_abort(ctx);
    return s;
  }
  TRY(cograd_function_end(ctx, &out, 1));
  s = cograd_results_push_tensor(results, out);
  cograd_tensor_release(out);
  return s;
}
static cograd_status times_forward(cograd_context ctx, void* user, const cograd_value* args,
                                   size_t n, cograd_results results) {
  cograd_tensor inputs[2];
  cograd_value out;
  cograd_status s;
  (void)ctx;
  (void)n;
  inputs[0] = args[0].u.tensor;
  inputs[1] = args[1].u.tensor;
  TRY(cograd_function_apply((const cograd_function*)user, user, inputs, 2, &out));
  s = cograd_results_push_tensor(results, ((const cograd_tensor*)out.u.list)[0]);
  cograd_value_free(&out);
  return s;
}

/* ---- as binaries of the first header: what lies after its fields is not theirs ------------- */
static cograd_function old_times;
static cograd_status old_forward(cograd_context ctx, void* user, const cograd_value* args, size_t n,
                                 cograd_results results) {
  cograd_tensor inputs[2];
  (void)ctx;
  (void)user;
  (void)n;
  inputs[0] = args[0].u.tensor;
  inputs[1] = args[1].u.tensor;
  return times_call(&old_times, inputs, 2, results);
}

static cograd_status rule_calls_forward(cograd_context ctx, void* user, const cograd_value* args,
                                        size_t n, cograd_results results) {
  cograd_value v = {COGRAD_INT, 0, {0}, 0};
  (void)ctx;
  (void)user;
  (void)args;
  (void)n;
  v.u.integer = rule_calls;
  rule_calls = 0;
  return cograd_results_push(results, &v);
}

__attribute__((constructor)) static void register_ops(void) {
  cograd_op_desc d;
  memset(&d, 0, sizeof d);
  d.struct_size = sizeof d;
  d.library = "t_transforms_c";
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;

  d.schema = "(Tensor x) -> Tensor";
  d.name = "square";
  d.forward = square_forward;
  d.backward = square_backward;
  d.flags = COGRAD_OP_ONCE_DIFFERENTIABLE;
  d.jvp = square_jvp;
  d.batch = square_batch;
  cograd_op_register(&d);
  d.name = "square_without_rules";
  d.jvp = NULL;
  d.batch = NULL;
  cograd_op_register(&d);
  d.name = "square_by_jvp_alone";
  d.backward = NULL;
  d.jvp = square_jvp;
  cograd_op_register(&d);

  d.name = "old_square";
  d.backward = square_backward;
  memset((char*)&d + offsetof(cograd_op_desc, jvp), 0x5A, sizeof d - offsetof(cograd_op_desc, jvp));
  d.struct_size = offsetof(cograd_op_desc, jvp);
  d.abi_minor = 0;
  cograd_op_register(&d);

  memset(&d, 0, sizeof d);
  d.struct_size = sizeof d;
  d.library = "t_transforms_c";
  d.abi_major = COGRAD_ABI_MAJOR;
  d.abi_minor = COGRAD_ABI_MINOR;
  d.schema = "(Tensor x, Tensor y) -> Tensor";
  d.name = "times";
  d.forward = times_forward;
  d.user = &times;
  d.flags = COGRAD_OP_DIFFERENTIABLE | COGRAD_OP_TAKES_SAMPLES;
  cograd_op_register(&d);
  d.name = "times_with_rule";
  d.user = &times_with_rule;
  cograd_op_register(&d);

  memset(&old_times, 0x5A, sizeof old_times);
  old_times.struct_size = offsetof(cograd_function, jvp);
  old_times.name = "TimesBackward";
  old_times.backward = times_backward;
  old_times.release = NULL;
  old_times.destroy = NULL;
  old_times.flags = 0;
  d.forward = old_forward;
  d.user = NULL;
  d.name = "old_times";
  d.flags = COGRAD_OP_DIFFERENTIABLE;
  cograd_op_register(&d);
  d.name = "old_times_on_samples";
  d.flags = COGRAD_OP_DIFFERENTIABLE | COGRAD_OP_TAKES_SAMPLES;
  cograd_op_register(&d);

  d.name = "rule_calls";
  d.schema = "() -> int";
  d.flags = COGRAD_OP_NON_DIFFERENTIABLE;
  d.forward = rule_calls_forward;
  cograd_op_register(&d);
}
