/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of cograd, for other languages and for cograd's C++ headers. Objects are opaque
 * pointers; release each new reference to a tensor by cograd_tensor_release. Functions never throw.
 * Those that return a status return COGRAD_TYPE_ERROR if a required pointer is NULL, and
 * COGRAD_VALUE_ERROR if a number of elements cannot fit in memory (for example a negative number).
 */
#ifndef COGRAD_C_API_H
#define COGRAD_C_API_H
#include <stddef.h>
#include <stdint.h>

/* The version of the interface in this header. It works with a library of the same major version
 * and the same or a later minor version. */
#define COGRAD_ABI_MAJOR 1
#define COGRAD_ABI_MINOR 1

#if defined(COGRAD_BUILDING)
#define COGRAD_C_API __attribute__((visibility("default")))
#else
#define COGRAD_C_API
#endif
#ifdef __cplusplus
#define COGRAD_NOEXCEPT noexcept
extern "C" {
#else
#define COGRAD_NOEXCEPT
#endif

/* ---- status ------------------------------------------------------------------------------- */
typedef int32_t cograd_status;
enum {
  COGRAD_OK = 0,
  COGRAD_RUNTIME_ERROR = 1, /* each becomes the Python exception of that name, except MEMORY,
                             * which becomes a RuntimeError as in torch */
  COGRAD_VALUE_ERROR = 2,
  COGRAD_TYPE_ERROR = 3,
  COGRAD_INDEX_ERROR = 4,
  COGRAD_NOT_IMPLEMENTED_ERROR = 5,
  COGRAD_MEMORY_ERROR = 6,
  COGRAD_FOREIGN_ERROR = 7 /* an exception of the caller's language, passed on unchanged */
};
/* Gets the last error on this thread: its text (valid until the next error) and a number that
 * identifies it. Returns its status. */
COGRAD_C_API cograd_status cograd_error_get(const char** message, size_t* length,
                                            uint64_t* token) COGRAD_NOEXCEPT;
/* Sets this thread's last error and returns `status`, so that a callback can
 * `return cograd_error_set(...)`. `token` is 0, or the number of the error that is passed on. */
COGRAD_C_API cograd_status cograd_error_set(cograd_status status, const char* message,
                                            size_t length, uint64_t token) COGRAD_NOEXCEPT;
/* Does the same for C: formats the text like printf. */
COGRAD_C_API cograd_status cograd_fail(cograd_status status, const char* format,
                                       ...) COGRAD_NOEXCEPT __attribute__((format(printf, 2, 3)));
/* Returns the text of the last error on this thread. */
COGRAD_C_API const char* cograd_last_error(void) COGRAD_NOEXCEPT;

COGRAD_C_API void cograd_abi_version(int32_t* major, int32_t* minor) COGRAD_NOEXCEPT;
COGRAD_C_API const char* cograd_version(void) COGRAD_NOEXCEPT; /* "0.1.0" */

/* ---- tensors ------------------------------------------------------------------------------ */
typedef struct cograd_tensor_s* cograd_tensor; /* reference-counted; NULL stands for None */

/* Element types; the numbers are part of the interface. */
enum {
  COGRAD_BOOL = 0,
  COGRAD_UINT8 = 1,
  COGRAD_INT8 = 2,
  COGRAD_INT16 = 3,
  COGRAD_INT32 = 4,
  COGRAD_INT64 = 5,
  COGRAD_FLOAT16 = 6,
  COGRAD_BFLOAT16 = 7,
  COGRAD_FLOAT32 = 8,
  COGRAD_FLOAT64 = 9
};
enum { COGRAD_CPU = 0 };

enum {
  COGRAD_IS_CONTIGUOUS = 1,
  COGRAD_REQUIRES_GRAD = 2,
  COGRAD_IS_LEAF = 4,
  COGRAD_IS_VIEW = 8,
  COGRAD_IS_INFERENCE = 16
};
/* A description of a tensor. Set struct_size to sizeof before the call. The pointers are valid
 * while the tensor lives and is not resized. Strides are in elements. */
typedef struct cograd_tensor_info {
  size_t struct_size;
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
  int64_t numel;
  int64_t storage_offset;
  int32_t dim;
  int32_t dtype;
  int32_t device_type;
  int32_t device_index;
  uint32_t flags;
  uint32_t version;
} cograd_tensor_info;

COGRAD_C_API void cograd_tensor_retain(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_tensor_release(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API uint32_t cograd_tensor_use_count(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_tensor_describe(cograd_tensor t, cograd_tensor_info* info) COGRAD_NOEXCEPT;
/* These return the most used parts of the description. If `t` is NULL, they set an error (see
 * cograd_error_get) and return NULL, -1 or, for the flags, 0; a description gets -1 for dim, dtype
 * and numel. The data of a batched tensor of a vmap is an error as well. */
COGRAD_C_API void* cograd_tensor_data(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API int64_t cograd_tensor_numel(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_tensor_dim(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_tensor_dtype(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API const int64_t* cograd_tensor_sizes(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API const int64_t* cograd_tensor_strides(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API uint32_t cograd_tensor_flags(cograd_tensor t) COGRAD_NOEXCEPT;
/* Declares that the tensor's elements were written through its data pointer. A backward that needs
 * the value from before the write then raises. */
COGRAD_C_API void cograd_tensor_bump_version(cograd_tensor t) COGRAD_NOEXCEPT;

/* Creates a contiguous tensor with undefined elements. */
COGRAD_C_API cograd_status cograd_tensor_empty(int32_t dtype, int32_t dim, const int64_t* sizes,
                                               cograd_tensor* out) COGRAD_NOEXCEPT;
/* Creates a tensor with the given strides (in elements, not negative) and undefined elements. */
COGRAD_C_API cograd_status cograd_tensor_empty_strided(int32_t dtype, int32_t dim,
                                                       const int64_t* sizes, const int64_t* strides,
                                                       cograd_tensor* out) COGRAD_NOEXCEPT;
/* Creates a tensor over memory of the caller; if strides is NULL, it is contiguous. `deleter` (may
 * be NULL) is called with `context` when the last tensor over the memory is destroyed. */
COGRAD_C_API cograd_status cograd_tensor_from_blob(void* data, int32_t dtype, int32_t dim,
                                                   const int64_t* sizes, const int64_t* strides,
                                                   void (*deleter)(void* context), void* context,
                                                   cograd_tensor* out) COGRAD_NOEXCEPT;
/* Gets the only element as a double, an integer or both (either pointer may be NULL). */
COGRAD_C_API cograd_status cograd_tensor_item(cograd_tensor t, double* as_double,
                                              int64_t* as_int) COGRAD_NOEXCEPT;
/* Writes dtype and shape as text: "float32[2, 3]". */
COGRAD_C_API cograd_status cograd_tensor_summary(cograd_tensor t, char* text,
                                                 size_t capacity) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_default_dtype(void) COGRAD_NOEXCEPT;

/* One index of x[...]. */
enum {
  COGRAD_INDEX_INT = 0,
  COGRAD_INDEX_SLICE = 1,
  COGRAD_INDEX_NONE = 2,
  COGRAD_INDEX_ELLIPSIS = 3,
  COGRAD_INDEX_TENSOR = 4
};
typedef struct cograd_index {
  int32_t kind;
  int32_t reserved;
  int64_t start, stop, step; /* INT: start only. SLICE: INT64_MIN to INT64_MAX is the whole dim */
  cograd_tensor tensor;      /* borrowed */
} cograd_index;
/* Computes x[items]; the result is a view unless a tensor is among the items. */
COGRAD_C_API cograd_status cograd_tensor_index(cograd_tensor x, const cograd_index* items, size_t n,
                                               cograd_tensor* out) COGRAD_NOEXCEPT;
/* Executes x[items] = value. */
COGRAD_C_API cograd_status cograd_tensor_index_put(cograd_tensor x, const cograd_index* items,
                                                   size_t n, cograd_tensor value) COGRAD_NOEXCEPT;

/* ---- autograd ----------------------------------------------------------------------------- */
COGRAD_C_API cograd_status cograd_tensor_set_requires_grad(cograd_tensor t,
                                                           int32_t value) COGRAD_NOEXCEPT;
/* Gets .grad as a new reference, or NULL if there is no gradient. */
COGRAD_C_API cograd_status cograd_tensor_grad(cograd_tensor t, cograd_tensor* out) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_set_grad(cograd_tensor t,
                                                  cograd_tensor grad) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_detach(cograd_tensor t,
                                                cograd_tensor* out) COGRAD_NOEXCEPT;
/* Returns a tensor over the same memory without history and with a separate version (Python's
 * .data). */
COGRAD_C_API cograd_status cograd_tensor_variable_data(cograd_tensor t,
                                                       cograd_tensor* out) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_retain_grad(cograd_tensor t) COGRAD_NOEXCEPT;
/* Writes the name of the node that created `t`, "" for a leaf; at most `capacity` bytes including
 * the final NUL. */
COGRAD_C_API cograd_status cograd_tensor_grad_fn_name(cograd_tensor t, char* text,
                                                      size_t capacity) COGRAD_NOEXCEPT;
/* A hook, called during backward with the tensor's gradient, or NULL if none arrived. It may set
 * *replacement to a new reference. */
typedef cograd_status (*cograd_hook_fn)(void* context, cograd_tensor grad,
                                        cograd_tensor* replacement);
COGRAD_C_API cograd_status cograd_tensor_register_hook(cograd_tensor t, cograd_hook_fn hook,
                                                       void* context, void (*destroy)(void*),
                                                       uint64_t* id) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_remove_hook(cograd_tensor t, uint64_t id) COGRAD_NOEXCEPT;

enum { COGRAD_RETAIN_GRAPH = 1, COGRAD_CREATE_GRAPH = 2, COGRAD_ALLOW_UNUSED = 4 };
/* Adds gradients to .grad of the leaves, or only of `inputs` if there are any. grads[i] may be NULL
 * for a root of one element; grads may be NULL. */
COGRAD_C_API cograd_status cograd_backward(const cograd_tensor* roots, const cograd_tensor* grads,
                                           size_t n_roots, const cograd_tensor* inputs,
                                           size_t n_inputs, uint32_t flags) COGRAD_NOEXCEPT;
/* Computes the gradients of the roots with respect to `inputs`, as new references (NULL if unused).
 */
COGRAD_C_API cograd_status cograd_grad(const cograd_tensor* roots, const cograd_tensor* grads,
                                       size_t n_roots, const cograd_tensor* inputs, size_t n_inputs,
                                       uint32_t flags, cograd_tensor* out) COGRAD_NOEXCEPT;

COGRAD_C_API int32_t cograd_grad_enabled(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_set_grad_enabled(int32_t enabled) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_inference_enabled(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_set_inference_enabled(int32_t enabled) COGRAD_NOEXCEPT;

/* ---- threads ------------------------------------------------------------------------------ */
/* Calls fn on chunks of [begin, end) of at least `grain` items on several threads. Returns the
 * first status that is not COGRAD_OK once all calls have ended. */
typedef cograd_status (*cograd_range_fn)(void* context, int64_t begin, int64_t end);
COGRAD_C_API cograd_status cograd_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                               cograd_range_fn fn, void* context) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_num_threads(void) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_set_num_threads(int32_t n) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_in_parallel_region(void) COGRAD_NOEXCEPT;
/* Call begin before long work on this thread and end, with begin's result, after it: other Python
 * threads run meanwhile (the GIL is released if this thread holds it). */
COGRAD_C_API void* cograd_heavy_begin(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_heavy_end(void* state) COGRAD_NOEXCEPT;

/* ---- values: arguments and results of ops -------------------------------------------------- */
enum {
  COGRAD_NONE = 0,
  COGRAD_TENSOR = 1,            /* tensor */
  COGRAD_BOOLEAN = 2,           /* integer: 0 or 1 */
  COGRAD_INT = 3,               /* integer */
  COGRAD_FLOAT = 4,             /* number */
  COGRAD_STRING = 5,            /* list: bytes in UTF-8; length: number of bytes */
  COGRAD_DTYPE = 6,             /* integer */
  COGRAD_DEVICE = 7,            /* integer: device type */
  COGRAD_TENSORS = 8,           /* list: cograd_tensor[length] */
  COGRAD_INTS = 9,              /* list: int64_t[length] */
  COGRAD_FLOATS = 10,           /* list: double[length] */
  COGRAD_BOOLEANS = 11,         /* list: uint8_t[length] */
  COGRAD_STRINGS = 12,          /* list: cograd_string[length] */
  COGRAD_ITEMS = 13,            /* list: cograd_value[length]; a result of several values: a list */
  COGRAD_TUPLE = 14,            /* list: cograd_value[length]; a tuple */
  COGRAD_NUMBER = 15,           /* only for parameters: BOOLEAN, INT, FLOAT or COMPLEX */
  COGRAD_TENSOR_OR_NUMBER = 16, /* only for parameters */
  COGRAD_DEFAULT = 17,          /* only for arguments: the parameter's default */
  /* u.number is the real part; the bytes of `length` hold the imaginary part, also a double. */
  COGRAD_COMPLEX = 18
};
typedef struct cograd_string {
  const char* data;
  size_t length;
} cograd_string;
typedef struct cograd_value {
  int32_t kind;
  uint32_t owned; /* only used by cograd_value_free: leave it 0 */
  union {
    cograd_tensor tensor;
    int64_t integer;
    double number;
    const void* list;
  } u;
  size_t length;
} cograd_value;
/* Releases the contents of a result of cograd_op_call or cograd_function_apply. */
COGRAD_C_API void cograd_value_free(cograd_value* v) COGRAD_NOEXCEPT;

/* ---- calling ops by name -------------------------------------------------------------------- */
typedef const struct cograd_op_s* cograd_op;
/* Finds an op by name: "add", "add_" (in place), "relu" (without "nn."), "namespace::name" for an
 * op of an extension. The pointer stays valid until the process ends. */
COGRAD_C_API cograd_status cograd_op_find(const char* name, size_t length,
                                          cograd_op* out) COGRAD_NOEXCEPT;
/* Calls an op with arguments in the order of its parameters. Missing arguments and COGRAD_DEFAULT
 * get the parameters' defaults. Records a node if an argument requires grad. The result owns its
 * contents. */
COGRAD_C_API cograd_status cograd_op_call(cograd_op op, const cograd_value* args, size_t n,
                                          cograd_value* result) COGRAD_NOEXCEPT;
/* Returns "name(parameters)" for every form of the op, one per line. */
COGRAD_C_API const char* cograd_op_signature(cograd_op op) COGRAD_NOEXCEPT;

/* ---- functions with a custom gradient ------------------------------------------------------- */
typedef struct cograd_context_s* cograd_context; /* a call, and later its graph node */
enum {
  /* backward computes on the elements, not with ops: a second derivative raises, as it would
   * otherwise silently lack this part. */
  COGRAD_FUNCTION_ONCE_DIFFERENTIABLE = 1,
  /* forward, backward and jvp consist of ops only, so that they run on batched tensors of a vmap
   * (Python's generate_vmap_rule). */
  COGRAD_FUNCTION_TAKES_SAMPLES = 2,
  /* batch accepts tensors that are batched by outer vmaps, whose data is NULL. Without this flag
   * it runs once per sample of the outer vmaps. */
  COGRAD_FUNCTION_BATCH_TAKES_SAMPLES = 4
};
typedef struct cograd_results_s* cograd_results;
enum { COGRAD_RANDOMNESS_ERROR = 0, COGRAD_RANDOMNESS_DIFFERENT = 1, COGRAD_RANDOMNESS_SAME = 2 };
/* The vmap that a vmap rule (`batch`) runs for. */
typedef struct cograd_batch_info {
  size_t struct_size;
  int64_t batch_size; /* number of samples */
  int32_t randomness;
} cograd_batch_info;
typedef struct cograd_function {
  size_t struct_size;
  const char* name; /* name of the node: "MyOpBackward" */
  /* Computes gradients. grads[i] is the gradient of output i (NULL if none arrived and
   * materialising is off). Sets out[j], which is NULL at entry, to a new reference for each input j
   * that needs a gradient. */
  cograd_status (*backward)(cograd_context ctx, void* state, const cograd_tensor* grads,
                            size_t n_grads, cograd_tensor* out, size_t n_inputs);
  void (*release)(void* state); /* drops the data for backward, which will not run again; or NULL */
  void (*destroy)(void* state); /* may be NULL */
  uint32_t flags;
  /* Since 1.1; each may be NULL.
   * Computes tangents in forward mode. tangents[i] is that of input i (NULL if it is not a
   * floating-point tensor, or has none and materialising is off). Sets out[j], which is NULL at
   * entry, to the tangent of output j. Without jvp the tangents come from backward, which must then
   * consist of ops. */
  cograd_status (*jvp)(cograd_context ctx, void* state, const cograd_tensor* tangents,
                       size_t n_inputs, cograd_tensor* out, size_t n_outputs);
  /* Computes the call for all samples of a vmap. in_dims[i] is the batch dim of inputs[i], -1 if it
   * is the same for all samples. Pushes the outputs and sets their batch dims by
   * cograd_results_set_dims. Without batch the samples run one by one. */
  cograd_status (*batch)(const cograd_batch_info* info, void* user, const cograd_tensor* inputs,
                         const int32_t* in_dims, size_t n_inputs, cograd_results results);
  /* Makes the whole call, from begin to end, on these inputs; pushes the outputs. */
  cograd_status (*call)(void* user, const cograd_tensor* inputs, size_t n_inputs,
                        cograd_results results);
} cograd_function;

/* Begins a call. Until end or abort nothing is recorded on this thread. `inputs` are all tensor
 * arguments of the call (NULL for None). The context is valid until end or abort, and in backward.
 * Takes over `state`, also when it fails. If inputs are batched by a vmap and the function has
 * `batch` or `call`, no call begins and *out is NULL: use cograd_function_apply. */
COGRAD_C_API cograd_status cograd_function_begin(const cograd_function* function, void* state,
                                                 const cograd_tensor* inputs, size_t n,
                                                 cograd_context* out) COGRAD_NOEXCEPT;
/* Ends the call: connects the outputs to the graph. Takes over the references in outputs[i] (NULL
 * is allowed) and replaces them by the tensors to return. */
COGRAD_C_API cograd_status cograd_function_end(cograd_context ctx, cograd_tensor* outputs,
                                               size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_function_abort(cograd_context ctx) COGRAD_NOEXCEPT;
/* Runs the function's `call` with `user`; if inputs are batched by a vmap, its `batch`, or `call`
 * for each sample. The result is a COGRAD_TENSORS of the outputs and owns its contents. Since 1.1.
 */
COGRAD_C_API cograd_status cograd_function_apply(const cograd_function* function, void* user,
                                                 const cograd_tensor* inputs, size_t n,
                                                 cograd_value* result) COGRAD_NOEXCEPT;

/* Returns 1 if a gradient or tangent may be needed, so that tensors should be saved; else 0. */
COGRAD_C_API int32_t cograd_context_recording(cograd_context ctx) COGRAD_NOEXCEPT;
/* Saves tensors for backward, after those saved before; NULL is allowed. Reading a tensor that was
 * written in place meanwhile raises. */
COGRAD_C_API cograd_status cograd_context_save(cograd_context ctx, const cograd_tensor* tensors,
                                               size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API size_t cograd_context_num_saved(cograd_context ctx) COGRAD_NOEXCEPT;
/* Saves tensors for jvp, which can read these and those of cograd_context_save. Since 1.1. */
COGRAD_C_API cograd_status cograd_context_save_for_forward(cograd_context ctx,
                                                           const cograd_tensor* tensors,
                                                           size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API size_t cograd_context_num_saved_for_forward(cograd_context ctx) COGRAD_NOEXCEPT;
/* In jvp: gets tensor i of these as a new reference. */
COGRAD_C_API cograd_status cograd_context_saved_for_forward(cograd_context ctx, size_t i,
                                                            cograd_tensor* out) COGRAD_NOEXCEPT;
/* In backward and jvp: gets saved tensor i as a new reference. */
COGRAD_C_API cograd_status cograd_context_saved(cograd_context ctx, size_t i,
                                                cograd_tensor* out) COGRAD_NOEXCEPT;
/* Declares inputs that forward wrote in place; they must be among the outputs. */
COGRAD_C_API cograd_status cograd_context_mark_dirty(cograd_context ctx,
                                                     const cograd_tensor* tensors,
                                                     size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_context_mark_non_differentiable(cograd_context ctx,
                                                                  const cograd_tensor* tensors,
                                                                  size_t n) COGRAD_NOEXCEPT;
/* Sets whether backward gets zeros in place of gradients that did not arrive; it does by default.
 */
COGRAD_C_API void cograd_context_set_materialize_grads(cograd_context ctx,
                                                       int32_t value) COGRAD_NOEXCEPT;
/* Returns 1 if this backward needs the gradient of input i (in forward: if any may need it), else
 * 0. Negative on error: there is no such input. */
COGRAD_C_API int32_t cograd_context_needs_input_grad(cograd_context ctx, size_t i) COGRAD_NOEXCEPT;
/* Sets a pointer that belongs to the op, for ops registered with function pointers. */
COGRAD_C_API void cograd_context_set_state(cograd_context ctx, void* state,
                                           void (*destroy)(void*)) COGRAD_NOEXCEPT;
COGRAD_C_API void* cograd_context_state(cograd_context ctx) COGRAD_NOEXCEPT;

/* ---- registering ops ------------------------------------------------------------------------ */
/* Appends one result. The value is copied; tensors get a new reference. */
COGRAD_C_API cograd_status cograd_results_push(cograd_results results,
                                               const cograd_value* v) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_results_push_tensor(cograd_results results,
                                                      cograd_tensor t) COGRAD_NOEXCEPT;
/* In a vmap rule: sets the batch dim of each tensor among the results, in order (a list counts each
 * of its tensors); -1 if it is the same for all samples. The default is 0 for all. Since 1.1. */
COGRAD_C_API cograd_status cograd_results_set_dims(cograd_results results, const int32_t* dims,
                                                   size_t n) COGRAD_NOEXCEPT;

enum {
  COGRAD_NULLABLE = 0x100, /* or-ed to a parameter's kind: it accepts None */
  COGRAD_MUTATED = 0x200   /* or-ed to COGRAD_TENSOR: the op writes its elements */
};
enum {
  COGRAD_OP_LIST = 1,                 /* the results form a list, even if there is only one */
  COGRAD_OP_DIFFERENTIABLE = 2,       /* `forward` records its node itself */
  COGRAD_OP_TUPLE = 4,                /* the results form a tuple, even if there is only one */
  COGRAD_OP_NON_DIFFERENTIABLE = 8,   /* has no derivative; else a backward through it raises */
  COGRAD_OP_ONCE_DIFFERENTIABLE = 16, /* COGRAD_FUNCTION_ONCE_DIFFERENTIABLE, for `backward` */
  /* COGRAD_FUNCTION_TAKES_SAMPLES. For an op that records its node itself, or none: forward
   * consists of ops and functions, which accept batched tensors. */
  COGRAD_OP_TAKES_SAMPLES = 32,
  COGRAD_OP_BATCH_TAKES_SAMPLES = 64, /* COGRAD_FUNCTION_BATCH_TAKES_SAMPLES */
  /* What an op that records its node itself says about its function, for audits. */
  COGRAD_OP_HAS_JVP = 128,
  COGRAD_OP_HAS_BATCH = 256,
  /* The kind of the result, for docs: COGRAD_OP_RESULT_UNIT * (kind + 1), or 0 if it is not said. A
   * typed schema says it itself. */
  COGRAD_OP_RESULT_UNIT = 0x10000,
  COGRAD_OP_RESULT = 0xFF0000
};
typedef struct cograd_op_desc {
  size_t struct_size;
  /* The version the caller was compiled with: COGRAD_ABI_MAJOR, COGRAD_ABI_MINOR. */
  int32_t abi_major;
  int32_t abi_minor;
  const char* library; /* namespace */
  const char* name;
  /* "(Tensor x, float alpha=1.0, int[] dims, Tensor? w=None) -> Tensor"; the op writes
   * "Tensor(a!) x". If kinds are given, it may be names and defaults, "x, alpha=1.0", or "" for
   * generated names. Keyword-only parameters follow "*,". */
  const char* schema;
  const int32_t* kinds; /* kinds of the parameters, or NULL */
  size_t n_params;
  const char* doc; /* or NULL */
  uint32_t flags;
  /* ctx is NULL unless `backward` or `jvp` is given. */
  cograd_status (*forward)(cograd_context ctx, void* user, const cograd_value* args, size_t n,
                           cograd_results results);
  /* Gives the op a gradient; like that of cograd_function. The inputs are the tensors among the
   * parameters, in order (a list counts each of its tensors). */
  cograd_status (*backward)(cograd_context ctx, void* user, const cograd_tensor* grads,
                            size_t n_grads, cograd_tensor* out, size_t n_inputs);
  void* user;
  /* Since 1.1; each may be NULL. Like that of cograd_function. */
  cograd_status (*jvp)(cograd_context ctx, void* user, const cograd_tensor* tangents,
                       size_t n_inputs, cograd_tensor* out, size_t n_outputs);
  /* Like that of cograd_function. args are those of forward, but each tensor holds all samples;
   * in_dims has one entry per tensor among the parameters, in order (a list counts each of its
   * tensors). */
  cograd_status (*batch)(const cograd_batch_info* info, void* user, const cograd_value* args,
                         size_t n, const int32_t* in_dims, size_t n_inputs, cograd_results results);
  void* batch_user; /* passed to batch instead of `user`, unless NULL */
} cograd_op_desc;
/* Registers an op; strings are copied. A failure is also reported to the code that loads the
 * library, since an initialiser cannot report it. */
COGRAD_C_API cograd_status cograd_op_register(const cograd_op_desc* desc) COGRAD_NOEXCEPT;
/* Sets the gradient of a registered op, "namespace::name". */
COGRAD_C_API cograd_status cograd_op_set_backward(
    const char* name,
    cograd_status (*backward)(cograd_context ctx, void* user, const cograd_tensor* grads,
                              size_t n_grads, cograd_tensor* out, size_t n_inputs),
    void* user) COGRAD_NOEXCEPT;

/* ---- for cograd/python.h ------------------------------------------------------------------- */
/* Set by the Python module when it is imported; objects are PyObject*. */
typedef struct cograd_python_bridge {
  size_t struct_size;
  void* (*wrap_tensor)(cograd_tensor t);                    /* new reference, NULL on error */
  int32_t (*unwrap_tensor)(void* object, cograd_tensor* t); /* borrowed; 0 if it is not a tensor */
  void* (*wrap_dtype)(int32_t dtype);                       /* new reference */
  int32_t (*unwrap_dtype)(void* object, int32_t* dtype);
  void* (*wrap_device)(int32_t type, int32_t index);
  int32_t (*unwrap_device)(void* object, int32_t* type, int32_t* index);
  int32_t (*unwrap_number)(void* object, cograd_value* v); /* BOOLEAN, INT or FLOAT */
  void (*raise)(void); /* sets a Python exception from the last error on this thread */
} cograd_python_bridge;
COGRAD_C_API const cograd_python_bridge* cograd_python(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_set_python(const cograd_python_bridge* bridge) COGRAD_NOEXCEPT;

/* Every shared object that is built with this header has a marker of its version, which a loader
 * can read from the file before loading it. */
#define COGRAD_ABI_TEXT_(x) #x
#define COGRAD_ABI_TEXT(a, b) "COGRAD_ABI:" COGRAD_ABI_TEXT_(a) "." COGRAD_ABI_TEXT_(b) ";"
#if !defined(COGRAD_BUILDING) && defined(__GNUC__) && defined(__ELF__)
#if defined(__has_attribute)
#if __has_attribute(retain)
#define COGRAD_RETAIN_ , retain
#endif
#endif
#ifndef COGRAD_RETAIN_
#define COGRAD_RETAIN_
#endif
__attribute__((used COGRAD_RETAIN_, section(".cograd.abi"))) static const char cograd_abi_marker[] =
    COGRAD_ABI_TEXT(COGRAD_ABI_MAJOR, COGRAD_ABI_MINOR);
#endif

#ifdef __cplusplus
}
#endif
#endif
