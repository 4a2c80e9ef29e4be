# SPDX-License-Identifier: BSD-3-Clause
"""For arguments that no caller should pass, the C interface reports an error that names the
argument, and does not crash. test_c_api_null.py tests NULL in functions that return a status.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cograd.utils import cpp_extension

LIBRARY = Path(cpp_extension.library_paths()[0]) / "libcograd.so"

OK, VALUE_ERROR, TYPE_ERROR, INDEX_ERROR = 0, 2, 3, 4

# Each case runs in its own process, which prints a status and the message.
PRELUDE = """
import ctypes, sys
from ctypes import POINTER, Structure, Union, byref, c_char_p, c_double, c_int32, c_int64, c_size_t
from ctypes import c_uint8, c_uint32, c_uint64, c_void_p, cast, sizeof
lib = ctypes.CDLL(sys.argv[1])
MANY = c_size_t(-1)
LOW, HIGH = -(2**63), 2**63 - 1
for name in ("data", "sizes", "strides"):
    getattr(lib, "cograd_tensor_" + name).restype = c_void_p
lib.cograd_tensor_numel.restype = c_int64
lib.cograd_last_error.restype = c_char_p
lib.cograd_context_num_saved.restype = c_size_t
def ints(*v): return (c_int64 * len(v))(*v)
class Union_(Union):
    _fields_ = [("tensor", c_void_p), ("integer", c_int64), ("number", c_double),
                ("list", c_void_p)]
class Value(Structure):
    _fields_ = [("kind", c_int32), ("owned", c_uint32), ("u", Union_), ("length", c_size_t)]
class String(Structure):
    _fields_ = [("data", c_char_p), ("length", c_size_t)]
class Index(Structure):
    _fields_ = [("kind", c_int32), ("reserved", c_int32), ("start", c_int64), ("stop", c_int64),
                ("step", c_int64), ("tensor", c_void_p)]
class Info(Structure):
    _fields_ = [("struct_size", c_size_t), ("data", c_void_p), ("sizes", c_void_p),
                ("strides", c_void_p), ("numel", c_int64), ("offset", c_int64), ("dim", c_int32),
                ("dtype", c_int32), ("device", c_int32 * 2), ("flags", c_uint32),
                ("version", c_uint32)]
class Function(Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("backward", c_void_p),
                ("release", c_void_p), ("destroy", c_void_p), ("flags", c_uint32)]
class Desc(Structure):
    _fields_ = [("size", c_size_t), ("major", c_int32), ("minor", c_int32), ("library", c_char_p),
                ("name", c_char_p), ("schema", c_char_p), ("kinds", c_void_p), ("n", c_size_t),
                ("doc", c_char_p), ("flags", c_uint32), ("forward", c_void_p),
                ("backward", c_void_p), ("user", c_void_p)]
def tensor(dtype, *sizes):
    t = c_void_p()
    assert lib.cograd_tensor_empty(dtype, len(sizes), ints(*sizes), byref(t)) == 0
    return t
def op(name):
    o = c_void_p()
    assert lib.cograd_op_find(name, c_size_t(len(name)), byref(o)) == 0
    return o
def value(kind, length=0, **u):
    v = Value(kind=kind, length=length)
    for k, x in u.items(): setattr(v.u, k, x)
    return v
def call(name, *args):
    list_, result = (Value * len(args))(*args), Value()
    return lib.cograd_op_call(op(name), list_, c_size_t(len(args)), byref(result))
def index(x, *items, n=None):
    out = c_void_p()
    n = c_size_t(len(items)) if n is None else n
    return lib.cograd_tensor_index(x, (Index * max(len(items), 1))(*items), n, byref(out))
def said():
    message, token = c_char_p(), c_uint64()
    return lib.cograd_error_get(byref(message), None, byref(token))
Destroy = ctypes.CFUNCTYPE(None, c_void_p)
Forward = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)
out = c_void_p()
x = tensor(8, 2, 3)
xs = (c_void_p * 2)(x, None)
root = tensor(8)
assert lib.cograd_tensor_set_requires_grad(root, 1) == 0
roots = (c_void_p * 2)(root, None)
"""


def run(body):
    """Returns (status, message) for the value of the last line."""
    *lines, last = body.strip().split("\n")
    code = "\n".join([PRELUDE, *lines, f"status = {last}"])
    code += '\nprint("status", status, lib.cograd_last_error().decode(), flush=True)\n'
    done = subprocess.run(
        [sys.executable, "-c", code, str(LIBRARY)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = re.search(r"status (-?\w+) (.*)", done.stdout)
    assert found, f"{body}\n{done}"
    return found.group(1), found.group(2)


READS = {
    "data": "None",
    "numel": "-1",
    "dim": "-1",
    "dtype": "-1",
    "sizes": "None",
    "strides": "None",
    "flags": "0",
}


@pytest.mark.parametrize(("what", "result"), READS.items(), ids=list(READS))
def test_parts_of_no_tensor(what, result):
    assert run(f"lib.cograd_tensor_{what}(None)") == (
        result,
        f"{what}(): got no tensor (None) for t",
    )
    assert run(f"lib.cograd_tensor_{what}(None)\nsaid()")[0] == str(TYPE_ERROR)


def test_description_of_no_tensor():
    made = "info = Info(struct_size=sizeof(Info), data=1, numel=5)\n"
    told = "lib.cograd_tensor_describe(None, byref(info))\n"
    status, message = run(made + told + "(info.numel, info.dim, info.data) == (-1, -1, None)")
    assert (status, message) == ("True", "describe(): got no tensor (None) for t")
    assert run("lib.cograd_tensor_describe(x, None)\nsaid()")[1] == "describe(): info is NULL"


@pytest.mark.parametrize(
    "call",
    [
        "lib.cograd_tensor_bump_version(None)",
        "lib.cograd_tensor_retain(None)",
        "lib.cograd_tensor_release(None)",
        "lib.cograd_tensor_use_count(None)",
        "lib.cograd_function_abort(None)",
        "lib.cograd_context_recording(None)",
        "lib.cograd_context_num_saved(None)",
        "lib.cograd_context_set_materialize_grads(None, 1)",
        "lib.cograd_context_needs_input_grad(None, c_size_t(0))",
        "lib.cograd_context_set_state(None, None, None)",
        "lib.cograd_context_state(None)",
        "lib.cograd_value_free(None)",
        "lib.cograd_op_signature(None)",
        "lib.cograd_heavy_end(None)",
        "lib.cograd_abi_version(None, None)",
    ],
)
def test_null_for_functions_without_a_status(call):
    run(call)


NAMED = {  # body -> status, text in the message
    "backward(roots)": (
        "lib.cograd_backward(roots, None, c_size_t(2), None, c_size_t(0), 0)",
        TYPE_ERROR,
        r"backward\(\): got no tensor \(None\) for roots\[1\]",
    ),
    "grad(inputs)": (
        "lib.cograd_grad(roots, None, c_size_t(1), roots, c_size_t(2), 0, (c_void_p * 2)())",
        TYPE_ERROR,
        r"grad\(\): got no tensor \(None\) for inputs\[1\]",
    ),
    "index_put value": (
        "lib.cograd_tensor_index_put(x, (Index * 1)(), c_size_t(0), None)",
        TYPE_ERROR,
        r"index_put_\(\): got no tensor \(None\) for value",
    ),
    "index x": (
        "lib.cograd_tensor_index(None, (Index * 1)(), c_size_t(0), byref(out))",
        TYPE_ERROR,
        r"index\(\): got no tensor \(None\) for x",
    ),
    "strides": (
        "lib.cograd_tensor_empty_strided(8, 1, ints(2), None, byref(out))",
        TYPE_ERROR,
        r"empty_strided\(\): strides is NULL",
    ),
    "dim": (
        "lib.cograd_tensor_empty(8, -1, ints(2), byref(out))",
        VALUE_ERROR,
        r"empty\(\): dim is -1, expected 0 to 64",
    ),
    "sizes": (
        "lib.cograd_tensor_from_blob(ints(1), 8, 1, ints(-2), None, None, None, byref(out))",
        VALUE_ERROR,
        "none negative",
    ),
    "dtype": ("lib.cograd_tensor_empty(99, 1, ints(2), byref(out))", TYPE_ERROR, "dtype 99"),
    "span": (
        "lib.cograd_tensor_from_blob(ints(1), 1, 1, ints(2), ints(HIGH), None, None, byref(out))",
        VALUE_ERROR,
        "too large",
    ),
    "span of empty_strided": (
        "lib.cograd_tensor_empty_strided(1, 1, ints(2), ints(HIGH), byref(out))",
        VALUE_ERROR,
        "too large",
    ),
    "range": (
        "fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)(lambda *a: 0)\n"
        "lib.cograd_parallel_for(c_int64(LOW), c_int64(HIGH), c_int64(1), fn, None)",
        VALUE_ERROR,
        r"parallel_for\(\): the range from begin -9223372036854775808 to end",
    ),
    "threads": ("lib.cograd_set_num_threads(-3)", 1, "positive number of threads, got -3"),
}
COUNTS = {
    "backward roots": ("lib.cograd_backward(xs, None, MANY, None, c_size_t(0), 0)", "roots"),
    "backward inputs": ("lib.cograd_backward(xs, None, c_size_t(1), xs, MANY, 0)", "inputs"),
    "grad inputs": ("lib.cograd_grad(xs, None, c_size_t(1), xs, MANY, 0, xs)", "inputs"),
    "index items": ("index(x, Index(), n=MANY)", "items"),
    "op_find name": ("lib.cograd_op_find(b'sin', MANY, byref(out))", "name"),
    "op_call args": ("lib.cograd_op_call(op(b'sin'), (Value * 1)(), MANY, byref(Value()))", "args"),
    "grad_fn text": ("lib.cograd_tensor_grad_fn_name(x, b'abc', MANY)", "text"),
    "function_begin inputs": (
        "f = Function(sizeof(Function), b'F')\n"
        "lib.cograd_function_begin(byref(f), None, xs, MANY, byref(out))",
        "inputs",
    ),
    "save tensors": (
        "f = Function(sizeof(Function), b'F')\n"
        "lib.cograd_function_begin(byref(f), None, xs, c_size_t(1), byref(out))\n"
        "lib.cograd_context_save(out, xs, MANY)",
        "tensors",
    ),
    "kinds": (
        "d = Desc(sizeof(Desc), 1, 0, b'wrong', b'kinds', b'', cast((c_int32 * 1)(1), c_void_p),"
        " 2**64 - 1, None, 0, cast(Forward(lambda *a: 0), c_void_p))\n"
        "lib.cograd_op_register(byref(d))",
        "kinds",
    ),
}


@pytest.mark.parametrize("case", NAMED, ids=str)
def test_errors_name_the_argument(case):
    body, status, message = NAMED[case]
    found = run(body)
    assert found[0] == str(status) and re.search(message, found[1]), found


@pytest.mark.parametrize("case", COUNTS, ids=str)
def test_negative_counts(case):
    body, what = COUNTS[case]
    status, message = run(body)
    assert status == str(VALUE_ERROR)
    assert f"the number of {what} is -1, expected one that fits in memory" in message


@pytest.mark.parametrize(
    ("item", "status"),
    [
        ("Index(0, 0, 2)", INDEX_ERROR),
        ("Index(0, 0, -3)", INDEX_ERROR),
        ("Index(0, 0, HIGH)", INDEX_ERROR),
        ("Index(0, 0, LOW)", INDEX_ERROR),
        ("Index(1, 0, 0, 1, 0)", VALUE_ERROR),
        ("Index(1, 0, 0, 1, LOW)", VALUE_ERROR),
        ("Index(1, 0, HIGH, LOW, HIGH)", OK),
        ("Index(4)", VALUE_ERROR),
        ("Index(9)", VALUE_ERROR),
        ("Index(-1)", VALUE_ERROR),
        ("Index(0), Index(0), Index(0)", INDEX_ERROR),
        ("Index(1, 0, 0, 1, 1), Index(3), Index(3)", INDEX_ERROR),
        ("*[Index(2)] * 80", 1),
        ("Index(4, 0, 0, 0, 0, tensor(0, 2, 3, 4))", INDEX_ERROR),
        ("Index(4, 0, 0, 0, 0, tensor(8, 2))", INDEX_ERROR),
    ],
)
def test_indices(item, status):
    assert run(f"index(x, {item})")[0] == str(status)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("b'sin', value(1)", "expected sin"),
        ("b'sin', value(99)", "expected sin"),
        ("b'sin', value(-1)", "expected sin"),
        ("b'sin'", "expected sin"),
        ("b'sin', value(15)", "expected sin"),
        ("b'add', value(1), value(1)", "expected add"),
        ("b'add_', value(1), value(3, integer=1)", "expected add_"),
        (
            "b'cat', value(8, length=1, list=cast((c_void_p * 1)(), c_void_p))",
            "element 0 of tensors",
        ),
        ("b'cat', value(8, length=2)", "argument 'tensors' is a list of 2 elements at NULL"),
        (
            "b'cat', value(8, length=2**64 - 1, list=cast(xs, c_void_p))",
            "argument 'tensors' is a list of -1 elements, expected a number that fits in memory",
        ),
        (
            "b'permute', value(1, tensor=x), value(9, length=2**64 - 2, list=cast(xs, c_void_p))",
            "argument 'dims' is a list of -2 elements",
        ),
        (
            "b'zeros', value(9, length=1, list=cast(ints(2), c_void_p)), value(6, integer=77)",
            "expec",
        ),
        ("b'sin', *[value(1, tensor=x)] * 40", "expected sin"),
    ],
)
def test_arguments_of_ops(arguments, message):
    status, said = run(f"call({arguments})")
    assert status == str(TYPE_ERROR) and message in said


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("value(12, length=2)", "a result is a list of 2 elements at NULL"),
        (
            "value(12, length=1, list=cast((String * 1)(String(None, 3)), c_void_p))",
            "a result is a list of 1 texts, one of them at NULL",
        ),
        ("value(5, length=2**64 - 1, list=cast(xs, c_void_p))", "a list of -1 elements"),
        (
            "value(13, length=1, list=cast((Value * 1)(value(9, length=3)), c_void_p))",
            "a result is a list of 3 elements at NULL",
        ),
        ("value(99)", "a result has unknown kind 99"),
    ],
)
def test_results_of_ops(result, message):
    body = (
        "def forward(ctx, user, args, n, results):\n"
        f"    v = {result}\n"
        "    return lib.cograd_results_push(c_void_p(results), byref(v))\n"
        "held = Forward(forward)\n"
        "d = Desc(sizeof(Desc), 1, 0, b'wrong', b'result', b'() -> Tensor', None, 0, None, 0,"
        " cast(held, c_void_p))\n"
        "assert lib.cograd_op_register(byref(d)) == 0\n"
        "call(b'wrong::result')"
    )
    status, said = run(body)
    assert status == str(TYPE_ERROR) and message in said


@pytest.mark.parametrize("fault", ["out", "inputs", "name"])
def test_state_is_taken_over_by_a_call_that_fails(fault):
    name = "None" if fault == "name" else "b'F'"
    inputs = "None" if fault == "inputs" else "xs"
    out = "None" if fault == "out" else "byref(out)"
    body = (
        "gone = []\n"
        "destroy = Destroy(gone.append)\n"
        f"f = Function(sizeof(Function), {name}, None, None, cast(destroy, c_void_p))\n"
        f"s = lib.cograd_function_begin(byref(f), c_void_p(7), {inputs}, c_size_t(1), {out})\n"
        f"s == {TYPE_ERROR} and gone == [7] and lib.cograd_grad_enabled() == 1"
    )
    assert run(body)[0] == "True"


def test_function_shorter_than_its_struct_is_read_no_further():
    body = (
        "f = Function(16, b'F', 1, 1, 1, 1)\n"
        "s = lib.cograd_function_begin(byref(f), c_void_p(7), xs, c_size_t(1), byref(out))\n"
        "lib.cograd_function_abort(out)\n"
        "s"
    )
    assert run(body)[0] == "0"
