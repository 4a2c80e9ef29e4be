/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of cograd: everything another language, or the C++ headers beside this one, can
 * ask of libcograd. Objects are opaque handles; functions return a status and never throw. NULL
 * where a handle or an array is needed is COGRAD_TYPE_ERROR from those that return a status, and a
 * number of elements that no memory holds, such as a negative one, COGRAD_VALUE_ERROR. */
#ifndef COGRAD_C_API_H
#define COGRAD_C_API_H
#include <stddef.h>
#include <stdint.h>

/* The interface this header describes. A library of the same major version and the same or a newer
 * minor one can be used. */
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
  COGRAD_FOREIGN_ERROR = 7 /* an exception of the caller's language is on its way, unchanged */
};
/* The last error on this thread: its text (valid until the next error) and a number that names it.
 * Returns its status. */
COGRAD_C_API cograd_status cograd_error_get(const char** message, size_t* length,
                                            uint64_t* token) COGRAD_NOEXCEPT;
/* Records an error on this thread and returns `status`, so that a callback can
 * `return cograd_error_set(...)`. `token`: 0, or that of the error this one passes on. */
COGRAD_C_API cograd_status cograd_error_set(cograd_status status, const char* message,
                                            size_t length, uint64_t token) COGRAD_NOEXCEPT;
/* The same for C: formats like printf. */
COGRAD_C_API cograd_status cograd_fail(cograd_status status, const char* format,
                                       ...) COGRAD_NOEXCEPT __attribute__((format(printf, 2, 3)));
/* Text of the last error on this thread. */
COGRAD_C_API const char* cograd_last_error(void) COGRAD_NOEXCEPT;

COGRAD_C_API void cograd_abi_version(int32_t* major, int32_t* minor) COGRAD_NOEXCEPT;
COGRAD_C_API const char* cograd_version(void) COGRAD_NOEXCEPT; /* "0.1.0" */

/* ---- tensors ------------------------------------------------------------------------------ */
typedef struct cograd_tensor_s* cograd_tensor; /* counted; NULL is "no tensor" (Python's None) */

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
/* What there is to know about a tensor. Set struct_size to sizeof before the call; pointers are
 * valid while the tensor lives and is not resized. Strides are in elements. */
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
/* The most asked for parts of the description. NULL for `t` is an error on this thread, see
 * cograd_error_get: the result is NULL, -1 or, of flags, 0; a description has -1 for dim, dtype and
 * numel. So is asking for the data of a tensor that has samples of a vmap. */
COGRAD_C_API void* cograd_tensor_data(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API int64_t cograd_tensor_numel(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_tensor_dim(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_tensor_dtype(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API const int64_t* cograd_tensor_sizes(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API const int64_t* cograd_tensor_strides(cograd_tensor t) COGRAD_NOEXCEPT;
COGRAD_C_API uint32_t cograd_tensor_flags(cograd_tensor t) COGRAD_NOEXCEPT;
/* Says that the tensor's elements were written through its data pointer: later use of a value that
 * was saved for backward before the write then raises. */
COGRAD_C_API void cograd_tensor_bump_version(cograd_tensor t) COGRAD_NOEXCEPT;

/* A contiguous tensor; elements are undefined. */
COGRAD_C_API cograd_status cograd_tensor_empty(int32_t dtype, int32_t dim, const int64_t* sizes,
                                               cograd_tensor* out) COGRAD_NOEXCEPT;
/* The same with given strides (in elements, not negative). */
COGRAD_C_API cograd_status cograd_tensor_empty_strided(int32_t dtype, int32_t dim,
                                                       const int64_t* sizes, const int64_t* strides,
                                                       cograd_tensor* out) COGRAD_NOEXCEPT;
/* A tensor over memory of the caller; strides NULL: contiguous. `deleter` (may be NULL) is called
 * with `context` when the last tensor over the memory dies. */
COGRAD_C_API cograd_status cograd_tensor_from_blob(void* data, int32_t dtype, int32_t dim,
                                                   const int64_t* sizes, const int64_t* strides,
                                                   void (*deleter)(void* context), void* context,
                                                   cograd_tensor* out) COGRAD_NOEXCEPT;
/* The only element as a double or an integer. */
COGRAD_C_API cograd_status cograd_tensor_item(cograd_tensor t, double* as_double,
                                              int64_t* as_int) COGRAD_NOEXCEPT;
/* "tensor([1., 2.])"-like text is Python's; this names shape and dtype: "float32[2, 3]". */
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
  int64_t start, stop, step; /* INT: start. SLICE: INT64_MIN start or INT64_MAX stop: the ends. */
  cograd_tensor tensor;      /* borrowed */
} cograd_index;
/* x[items]: a view where no tensor is among the items. */
COGRAD_C_API cograd_status cograd_tensor_index(cograd_tensor x, const cograd_index* items, size_t n,
                                               cograd_tensor* out) COGRAD_NOEXCEPT;
/* x[items] = value. */
COGRAD_C_API cograd_status cograd_tensor_index_put(cograd_tensor x, const cograd_index* items,
                                                   size_t n, cograd_tensor value) COGRAD_NOEXCEPT;

/* ---- autograd ----------------------------------------------------------------------------- */
COGRAD_C_API cograd_status cograd_tensor_set_requires_grad(cograd_tensor t,
                                                           int32_t value) COGRAD_NOEXCEPT;
/* New handle, or NULL where there is no gradient. */
COGRAD_C_API cograd_status cograd_tensor_grad(cograd_tensor t, cograd_tensor* out) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_set_grad(cograd_tensor t,
                                                  cograd_tensor grad) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_detach(cograd_tensor t,
                                                cograd_tensor* out) COGRAD_NOEXCEPT;
/* The same memory without history and with a version of its own (Python's .data). */
COGRAD_C_API cograd_status cograd_tensor_variable_data(cograd_tensor t,
                                                       cograd_tensor* out) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_retain_grad(cograd_tensor t) COGRAD_NOEXCEPT;
/* Name of the node that made `t`, "" for a leaf; at most `capacity` bytes with the final NUL. */
COGRAD_C_API cograd_status cograd_tensor_grad_fn_name(cograd_tensor t, char* text,
                                                      size_t capacity) COGRAD_NOEXCEPT;
/* Called with the tensor's gradient during backward, NULL where none arrived; may set *replacement
 * to a new handle. */
typedef cograd_status (*cograd_hook_fn)(void* context, cograd_tensor grad,
                                        cograd_tensor* replacement);
COGRAD_C_API cograd_status cograd_tensor_register_hook(cograd_tensor t, cograd_hook_fn hook,
                                                       void* context, void (*destroy)(void*),
                                                       uint64_t* id) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_tensor_remove_hook(cograd_tensor t, uint64_t id) COGRAD_NOEXCEPT;

enum { COGRAD_RETAIN_GRAPH = 1, COGRAD_CREATE_GRAPH = 2, COGRAD_ALLOW_UNUSED = 4 };
/* Adds gradients to the leaves' .grad (to those of `inputs` only, if there are any). grads[i] may
 * be NULL for a root of one element; grads may be NULL. */
COGRAD_C_API cograd_status cograd_backward(const cograd_tensor* roots, const cograd_tensor* grads,
                                           size_t n_roots, const cograd_tensor* inputs,
                                           size_t n_inputs, uint32_t flags) COGRAD_NOEXCEPT;
/* Gradients of the roots with respect to `inputs`, as new handles (NULL where unused). */
COGRAD_C_API cograd_status cograd_grad(const cograd_tensor* roots, const cograd_tensor* grads,
                                       size_t n_roots, const cograd_tensor* inputs, size_t n_inputs,
                                       uint32_t flags, cograd_tensor* out) COGRAD_NOEXCEPT;

COGRAD_C_API int32_t cograd_grad_enabled(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_set_grad_enabled(int32_t enabled) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_inference_enabled(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_set_inference_enabled(int32_t enabled) COGRAD_NOEXCEPT;

/* ---- threads ------------------------------------------------------------------------------ */
/* Calls fn on chunks of [begin, end) of at least `grain` items on several threads. The first
 * status that is not COGRAD_OK is returned when all have ended. */
typedef cograd_status (*cograd_range_fn)(void* context, int64_t begin, int64_t end);
COGRAD_C_API cograd_status cograd_parallel_for(int64_t begin, int64_t end, int64_t grain,
                                               cograd_range_fn fn, void* context) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_num_threads(void) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_set_num_threads(int32_t n) COGRAD_NOEXCEPT;
COGRAD_C_API int32_t cograd_in_parallel_region(void) COGRAD_NOEXCEPT;
/* Around long work of the caller's own: lets other Python threads run (releases the GIL if this
 * thread holds it). end takes what begin returned. */
COGRAD_C_API void* cograd_heavy_begin(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_heavy_end(void* state) COGRAD_NOEXCEPT;

/* ---- values: arguments and results of ops -------------------------------------------------- */
enum {
  COGRAD_NONE = 0,
  COGRAD_TENSOR = 1,            /* tensor */
  COGRAD_BOOLEAN = 2,           /* integer: 0 or 1 */
  COGRAD_INT = 3,               /* integer */
  COGRAD_FLOAT = 4,             /* number */
  COGRAD_STRING = 5,            /* list: bytes in UTF-8; length: their number */
  COGRAD_DTYPE = 6,             /* integer */
  COGRAD_DEVICE = 7,            /* integer: device type */
  COGRAD_TENSORS = 8,           /* list: cograd_tensor[length] */
  COGRAD_INTS = 9,              /* list: int64_t[length] */
  COGRAD_FLOATS = 10,           /* list: double[length] */
  COGRAD_BOOLEANS = 11,         /* list: uint8_t[length] */
  COGRAD_STRINGS = 12,          /* list: cograd_string[length] */
  COGRAD_ITEMS = 13,            /* list: cograd_value[length]; of results: a list */
  COGRAD_TUPLE = 14,            /* the same, a tuple */
  COGRAD_NUMBER = 15,           /* of parameters only: BOOLEAN, INT or FLOAT */
  COGRAD_TENSOR_OR_NUMBER = 16, /* of parameters only */
  COGRAD_DEFAULT = 17,          /* of arguments only: the parameter's default */
  /* u.number is the real part, the bytes of `length` are the imaginary part: a double, too. */
  COGRAD_COMPLEX = 18
};
typedef struct cograd_string {
  const char* data;
  size_t length;
} cograd_string;
typedef struct cograd_value {
  int32_t kind;
  uint32_t owned; /* used by cograd_value_free only: leave 0 */
  union {
    cograd_tensor tensor;
    int64_t integer;
    double number;
    const void* list;
  } u;
  size_t length;
} cograd_value;
/* Releases what a result of cograd_op_call holds. */
COGRAD_C_API void cograd_value_free(cograd_value* v) COGRAD_NOEXCEPT;

/* ---- calling ops by name -------------------------------------------------------------------- */
typedef const struct cograd_op_s* cograd_op;
/* "add", "add_" (in place), "nn.relu"-like names are plain here: "relu"; an extension's op is
 * "namespace::name". The handle stays valid for ever. */
COGRAD_C_API cograd_status cograd_op_find(const char* name, size_t length,
                                          cograd_op* out) COGRAD_NOEXCEPT;
/* Arguments in the order of the op's parameters; those left out, or COGRAD_DEFAULT, get their
 * defaults. Records a node where a gradient may be asked for. The result owns what it holds. */
COGRAD_C_API cograd_status cograd_op_call(cograd_op op, const cograd_value* args, size_t n,
                                          cograd_value* result) COGRAD_NOEXCEPT;
/* "name(parameters)" of every form the op has, one a line. */
COGRAD_C_API const char* cograd_op_signature(cograd_op op) COGRAD_NOEXCEPT;

/* ---- functions with a gradient of their own ----------------------------------------------- */
typedef struct cograd_context_s* cograd_context; /* a call under way, and later its graph node */
enum {
  /* backward computes on the numbers, not with ops: a second derivative raises, instead of
   * missing its part silently. */
  COGRAD_FUNCTION_ONCE_DIFFERENTIABLE = 1,
  /* forward, backward and jvp are made of ops alone, and run on tensors that have samples of a
   * vmap: Python's generate_vmap_rule. */
  COGRAD_FUNCTION_TAKES_SAMPLES = 2,
  /* batch may get tensors that have samples of outer vmaps, whose data is NULL: otherwise it runs
   * for one of these after the other. */
  COGRAD_FUNCTION_BATCH_TAKES_SAMPLES = 4
};
typedef struct cograd_results_s* cograd_results;
enum { COGRAD_RANDOMNESS_ERROR = 0, COGRAD_RANDOMNESS_DIFFERENT = 1, COGRAD_RANDOMNESS_SAME = 2 };
/* What a batching rule is told of the vmap it runs for. */
typedef struct cograd_batch_info {
  size_t struct_size;
  int64_t batch_size; /* number of samples */
  int32_t randomness;
} cograd_batch_info;
typedef struct cograd_function {
  size_t struct_size;
  const char* name; /* of the node: "MyOpBackward" */
  /* grads[i]: gradient of output i (NULL where none arrived and materialising is off). Sets
   * out[j], NULL at entry, to a new handle for each input j that needs one. */
  cograd_status (*backward)(cograd_context ctx, void* state, const cograd_tensor* grads,
                            size_t n_grads, cograd_tensor* out, size_t n_inputs);
  void (*release)(void* state); /* drop what backward needs: it will not run again; may be NULL */
  void (*destroy)(void* state); /* may be NULL */
  uint32_t flags;
  /* Since 1.1; each may be NULL.
   * Forward mode: tangents[i] of input i (NULL: it is no floating-point tensor, or has none and
   * materialising is off). Sets out[j], NULL at entry, to the tangent of output j. Without it the
   * tangents come from backward, which must then be made of ops. */
  cograd_status (*jvp)(cograd_context ctx, void* state, const cograd_tensor* tangents,
                       size_t n_inputs, cograd_tensor* out, size_t n_outputs);
  /* The call for all samples of a vmap: those of inputs[i] are in its dim in_dims[i], -1: they are
   * equal. Pushes the outputs, and says by cograd_results_set_dims where their samples are. Without
   * it the samples run one by one. */
  cograd_status (*batch)(const cograd_batch_info* info, void* user, const cograd_tensor* inputs,
                         const int32_t* in_dims, size_t n_inputs, cograd_results results);
  /* The whole call, from begin to end, on these inputs; pushes the outputs. */
  cograd_status (*call)(void* user, const cograd_tensor* inputs, size_t n_inputs,
                        cograd_results results);
} cograd_function;

/* Starts a call. From here to end or abort, on this thread, nothing is recorded. `inputs` are all
 * its tensor arguments (NULL where None). The context is valid until end or abort, and in
 * backward. Takes over `state`, also when it fails. Where inputs have samples of a vmap, and the
 * function has `batch` or `call`, nothing is started and *out is NULL: use cograd_function_apply.
 */
COGRAD_C_API cograd_status cograd_function_begin(const cograd_function* function, void* state,
                                                 const cograd_tensor* inputs, size_t n,
                                                 cograd_context* out) COGRAD_NOEXCEPT;
/* Ends it: outputs[i] (owned handles, NULL allowed) are replaced by those to hand out, joined to
 * the graph. */
COGRAD_C_API cograd_status cograd_function_end(cograd_context ctx, cograd_tensor* outputs,
                                               size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_function_abort(cograd_context ctx) COGRAD_NOEXCEPT;
/* The function's `call` with `user`; where inputs have samples of a vmap its `batch`, or `call` for
 * each sample. The result, a COGRAD_TENSORS of the outputs, owns what it holds. Since 1.1. */
COGRAD_C_API cograd_status cograd_function_apply(const cograd_function* function, void* user,
                                                 const cograd_tensor* inputs, size_t n,
                                                 cograd_value* result) COGRAD_NOEXCEPT;

/* Whether a gradient may be asked for, so that saving is of use. */
COGRAD_C_API int32_t cograd_context_recording(cograd_context ctx) COGRAD_NOEXCEPT;
/* Keeps tensors for backward after those kept before; NULL allowed. Values written in place in
 * between are found out when they are read. */
COGRAD_C_API cograd_status cograd_context_save(cograd_context ctx, const cograd_tensor* tensors,
                                               size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API size_t cograd_context_num_saved(cograd_context ctx) COGRAD_NOEXCEPT;
/* The same for jvp, which may ask for both. Since 1.1. */
COGRAD_C_API cograd_status cograd_context_save_for_forward(cograd_context ctx,
                                                           const cograd_tensor* tensors,
                                                           size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API size_t cograd_context_num_saved_for_forward(cograd_context ctx) COGRAD_NOEXCEPT;
/* In jvp: as a new handle. */
COGRAD_C_API cograd_status cograd_context_saved_for_forward(cograd_context ctx, size_t i,
                                                            cograd_tensor* out) COGRAD_NOEXCEPT;
/* In backward and jvp: saved tensor i as a new handle. */
COGRAD_C_API cograd_status cograd_context_saved(cograd_context ctx, size_t i,
                                                cograd_tensor* out) COGRAD_NOEXCEPT;
/* Inputs that forward wrote in place; they must be among the outputs. */
COGRAD_C_API cograd_status cograd_context_mark_dirty(cograd_context ctx,
                                                     const cograd_tensor* tensors,
                                                     size_t n) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_context_mark_non_differentiable(cograd_context ctx,
                                                                  const cograd_tensor* tensors,
                                                                  size_t n) COGRAD_NOEXCEPT;
/* Whether backward gets zeros in place of gradients that did not arrive (it does unless told). */
COGRAD_C_API void cograd_context_set_materialize_grads(cograd_context ctx,
                                                       int32_t value) COGRAD_NOEXCEPT;
/* Whether input i's gradient is asked for: in this run, or, in forward, ever. Negative: an error,
 * there is no such input. */
COGRAD_C_API int32_t cograd_context_needs_input_grad(cograd_context ctx, size_t i) COGRAD_NOEXCEPT;
/* A pointer of the op's own, for ops registered with function pointers. */
COGRAD_C_API void cograd_context_set_state(cograd_context ctx, void* state,
                                           void (*destroy)(void*)) COGRAD_NOEXCEPT;
COGRAD_C_API void* cograd_context_state(cograd_context ctx) COGRAD_NOEXCEPT;

/* ---- registering ops ------------------------------------------------------------------------ */
/* Appends one result; the value is copied, tensors get a new reference. */
COGRAD_C_API cograd_status cograd_results_push(cograd_results results,
                                               const cograd_value* v) COGRAD_NOEXCEPT;
COGRAD_C_API cograd_status cograd_results_push_tensor(cograd_results results,
                                                      cograd_tensor t) COGRAD_NOEXCEPT;
/* In a batching rule: the dim of the samples in each tensor among the results in order (a list
 * counts each of its tensors), -1: they are equal. Dim 0 in all unless told. Since 1.1. */
COGRAD_C_API cograd_status cograd_results_set_dims(cograd_results results, const int32_t* dims,
                                                   size_t n) COGRAD_NOEXCEPT;

enum {
  COGRAD_NULLABLE = 0x100, /* or-ed to a parameter's kind: takes None */
  COGRAD_MUTATED = 0x200   /* or-ed to COGRAD_TENSOR: the op writes its elements */
};
enum {
  COGRAD_OP_LIST = 1,                 /* the results are one list, even if there is one */
  COGRAD_OP_DIFFERENTIABLE = 2,       /* `forward` records its node itself */
  COGRAD_OP_TUPLE = 4,                /* the results are one tuple, even if there is one */
  COGRAD_OP_NON_DIFFERENTIABLE = 8,   /* no gradient by nature: else a backward through it raises */
  COGRAD_OP_ONCE_DIFFERENTIABLE = 16, /* COGRAD_FUNCTION_ONCE_DIFFERENTIABLE, of `backward` */
  /* COGRAD_FUNCTION_TAKES_SAMPLES. Of an op that records its node itself, or none: forward is made
   * of ops and functions, which know what to do with samples. */
  COGRAD_OP_TAKES_SAMPLES = 32,
  COGRAD_OP_BATCH_TAKES_SAMPLES = 64 /* COGRAD_FUNCTION_BATCH_TAKES_SAMPLES */
};
typedef struct cograd_op_desc {
  size_t struct_size;
  /* What the caller was compiled against: COGRAD_ABI_MAJOR, COGRAD_ABI_MINOR. */
  int32_t abi_major;
  int32_t abi_minor;
  const char* library; /* namespace */
  const char* name;
  /* "(Tensor x, float alpha=1.0, int[] dims, Tensor? w=None) -> Tensor"; "Tensor(a!) x" is written
   * by the op. Or, with kinds given, names and defaults: "x, alpha=1.0"; "" makes names up. "*,"
   * begins keyword-only ones. */
  const char* schema;
  const int32_t* kinds; /* of the parameters, or NULL */
  size_t n_params;
  const char* doc; /* or NULL */
  uint32_t flags;
  /* ctx is NULL unless `backward` or `jvp` is given. */
  cograd_status (*forward)(cograd_context ctx, void* user, const cograd_value* args, size_t n,
                           cograd_results results);
  /* With it the op has a gradient: as cograd_function's, inputs being the tensors among the
   * parameters in order (a list counts each of its tensors). */
  cograd_status (*backward)(cograd_context ctx, void* user, const cograd_tensor* grads,
                            size_t n_grads, cograd_tensor* out, size_t n_inputs);
  void* user;
  /* Since 1.1; each may be NULL. As cograd_function's: */
  cograd_status (*jvp)(cograd_context ctx, void* user, const cograd_tensor* tangents,
                       size_t n_inputs, cograd_tensor* out, size_t n_outputs);
  /* args are as forward's, with all samples in the tensors; in_dims has one entry for each tensor
   * among the parameters in order (a list counts each of its tensors). */
  cograd_status (*batch)(const cograd_batch_info* info, void* user, const cograd_value* args,
                         size_t n, const int32_t* in_dims, size_t n_inputs, cograd_results results);
  void* batch_user; /* for batch in the place of `user`, unless NULL */
} cograd_op_desc;
/* Strings are copied. A failure is also kept for whoever loads the library, since an initialiser
 * cannot report it. */
COGRAD_C_API cograd_status cograd_op_register(const cograd_op_desc* desc) COGRAD_NOEXCEPT;
/* Gives an op that has no gradient yet one: "namespace::name". */
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
  int32_t (*unwrap_tensor)(void* object, cograd_tensor* t); /* borrowed; 0 if it is none */
  void* (*wrap_dtype)(int32_t dtype);                       /* new reference */
  int32_t (*unwrap_dtype)(void* object, int32_t* dtype);
  void* (*wrap_device)(int32_t type, int32_t index);
  int32_t (*unwrap_device)(void* object, int32_t* type, int32_t* index);
  int32_t (*unwrap_number)(void* object, cograd_value* v); /* BOOLEAN, INT or FLOAT */
  void (*raise)(void); /* sets the Python error of the last error on this thread */
} cograd_python_bridge;
COGRAD_C_API const cograd_python_bridge* cograd_python(void) COGRAD_NOEXCEPT;
COGRAD_C_API void cograd_set_python(const cograd_python_bridge* bridge) COGRAD_NOEXCEPT;

/* Every shared object built against this header says so, where a loader can read it unloaded. */
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
