# SPDX-License-Identifier: BSD-3-Clause
"""Uses the C interface from another language, here Python's ctypes: tensors, ops, gradients."""

import ctypes
from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from pathlib import Path

from cograd.utils.cpp_extension import library_paths

lib = ctypes.CDLL(str(Path(library_paths()[0]) / "libcograd.so"))
lib.cograd_last_error.restype = c_char_p
lib.cograd_tensor_data.restype = c_void_p
lib.cograd_tensor_data.argtypes = [c_void_p]
FLOAT64, TENSOR, FLOAT = 9, 1, 4


class Payload(ctypes.Union):
    """Mirrors the union in cograd_value."""

    _fields_ = [
        ("tensor", c_void_p),
        ("integer", c_int64),
        ("number", c_double),
        ("list", c_void_p),
    ]


class Value(ctypes.Structure):
    """Mirrors cograd_value."""

    _fields_ = [("kind", c_int32), ("owned", c_uint32), ("u", Payload), ("length", c_size_t)]


def check(status):
    """Raises the last error if the call failed."""
    if status != 0:
        raise RuntimeError(lib.cograd_last_error().decode())


def tensor(values):
    """Returns a float64 vector."""
    out = c_void_p()
    check(lib.cograd_tensor_empty(FLOAT64, 1, (c_int64 * 1)(len(values)), byref(out)))
    ctypes.memmove(lib.cograd_tensor_data(out), (c_double * len(values))(*values), 8 * len(values))
    return out


def values(t, n):
    """Returns the first n elements of a float64 tensor."""
    return ctypes.cast(lib.cograd_tensor_data(t), POINTER(c_double))[:n]


def call(name, *tensors):
    """Calls an op that accepts tensors and returns one."""
    op, result = c_void_p(), Value()
    check(lib.cograd_op_find(name.encode(), c_size_t(len(name)), byref(op)))
    args = (Value * len(tensors))(*[Value(TENSOR, 0, Payload(tensor=t.value), 0) for t in tensors])
    check(lib.cograd_op_call(op, args, c_size_t(len(tensors)), byref(result)))
    return c_void_p(result.u.tensor)


x = tensor([1.0, 2.0, 3.0])
check(lib.cograd_tensor_set_requires_grad(x, 1))
square = call("mul", x, x)
total = call("sum", square)
check(lib.cograd_backward(byref(total), None, c_size_t(1), None, c_size_t(0), c_uint32(0)))
gradient = c_void_p()
check(lib.cograd_tensor_grad(x, byref(gradient)))
print("sum of squares:", values(total, 1)[0])
print("gradient:", values(gradient, 3))
try:
    call("mul", x)
except RuntimeError as e:
    print("an error:", e)
for t in (x, square, total, gradient):
    lib.cograd_tensor_release(t)
