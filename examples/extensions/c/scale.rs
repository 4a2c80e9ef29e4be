// SPDX-License-Identifier: BSD-3-Clause
//! Registers scale(x, a) = a * x with its gradient, in Rust and without any crate.
//! rustc --edition=2021 --crate-type=cdylib -O -Lnative=LIB -ldylib=cograd scale.rs
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

type Status = i32;
type Tensor = *mut c_void;
const TENSOR: i32 = 1;
const FLOAT: i32 = 4;

#[repr(C)]
#[derive(Clone, Copy)]
union Payload {
    tensor: Tensor,
    integer: i64,
    number: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
struct Value {
    kind: i32,
    owned: u32,
    u: Payload,
    length: usize,
}
type Forward = extern "C" fn(*mut c_void, *mut c_void, *const Value, usize, *mut c_void) -> Status;
type Backward =
    extern "C" fn(*mut c_void, *mut c_void, *const Tensor, usize, *mut Tensor, usize) -> Status;
#[repr(C)]
struct OpDesc {
    struct_size: usize,
    abi_major: i32,
    abi_minor: i32,
    library: *const c_char,
    name: *const c_char,
    schema: *const c_char,
    kinds: *const i32,
    n_params: usize,
    doc: *const c_char,
    flags: u32,
    forward: Forward,
    backward: Backward,
    user: *mut c_void,
}
extern "C" {
    fn cograd_op_register(desc: *const OpDesc) -> Status;
    fn cograd_op_find(name: *const c_char, length: usize, out: *mut *const c_void) -> Status;
    fn cograd_op_call(op: *const c_void, args: *const Value, n: usize, result: *mut Value)
        -> Status;
    fn cograd_results_push_tensor(results: *mut c_void, t: Tensor) -> Status;
    fn cograd_tensor_release(t: Tensor);
    fn cograd_context_set_state(
        ctx: *mut c_void,
        state: *mut c_void,
        destroy: Option<extern "C" fn(*mut c_void)>,
    );
    fn cograd_context_state(ctx: *mut c_void) -> *mut c_void;
}

/// Returns a * t as a new reference.
unsafe fn times(t: Tensor, a: f64, out: &mut Tensor) -> Status {
    let mut op = null();
    let status = cograd_op_find(c"mul".as_ptr(), 3, &mut op);
    if status != 0 {
        return status;
    }
    let args = [
        Value { kind: TENSOR, owned: 0, u: Payload { tensor: t }, length: 0 },
        Value { kind: FLOAT, owned: 0, u: Payload { number: a }, length: 0 },
    ];
    let mut result = Value { kind: 0, owned: 0, u: Payload { integer: 0 }, length: 0 };
    let status = cograd_op_call(op, args.as_ptr(), 2, &mut result);
    if status == 0 {
        *out = result.u.tensor;
    }
    status
}

extern "C" fn drop_factor(state: *mut c_void) {
    drop(unsafe { Box::from_raw(state as *mut f64) });
}
extern "C" fn forward(
    ctx: *mut c_void,
    _user: *mut c_void,
    args: *const Value,
    _n: usize,
    results: *mut c_void,
) -> Status {
    unsafe {
        let (x, a) = ((*args).u.tensor, (*args.add(1)).u.number);
        let mut y = null_mut();
        let status = times(x, a, &mut y);
        if status != 0 {
            return status;
        }
        cograd_context_set_state(ctx, Box::into_raw(Box::new(a)) as *mut c_void, Some(drop_factor));
        let status = cograd_results_push_tensor(results, y);
        cograd_tensor_release(y);
        status
    }
}
extern "C" fn backward(
    ctx: *mut c_void,
    _user: *mut c_void,
    grads: *const Tensor,
    _n_grads: usize,
    out: *mut Tensor,
    _n_inputs: usize,
) -> Status {
    unsafe { times(*grads, *(cograd_context_state(ctx) as *const f64), &mut *out) }
}

extern "C" fn register() {
    let desc = OpDesc {
        struct_size: std::mem::size_of::<OpDesc>(),
        library: c"t_rustc".as_ptr(),
        name: c"scale".as_ptr(),
        schema: c"(Tensor x, float a=1.0) -> Tensor".as_ptr(),
        kinds: null(),
        n_params: 0,
        doc: c"a * x, written in Rust.".as_ptr(),
        flags: 0,
        forward,
        backward,
        user: null_mut(),
        abi_major: 1,
        abi_minor: 0,
    };
    unsafe { cograd_op_register(&desc) };
}
#[used]
#[link_section = ".init_array"]
static REGISTER: extern "C" fn() = register;
