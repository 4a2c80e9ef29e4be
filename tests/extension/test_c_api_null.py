# SPDX-License-Identifier: BSD-3-Clause
"""Every function of the C interface that returns a status reports an error for NULL.

The functions and their parameters are read from the headers, so a new function is tested at once.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cograd.utils import cpp_extension

INCLUDE = Path(cpp_extension.include_paths()[0]) / "cograd"
HEADERS = [INCLUDE / "c_api.h", INCLUDE / "c_devices.h"]
LIBRARY = Path(cpp_extension.library_paths()[0]) / "libcograd.so"

TYPE_ERROR = 3

# Parameters for which NULL is valid, by function; "*": in every function.
MAY_BE_NULL = {
    "*": {"context", "state", "user", "destroy", "deleter", "doc", "data", "strides", "grads"},
    "cograd_tensor_item": {"as_double", "as_int"},
    "cograd_tensor_register_hook": {"id"},
    "cograd_tensor_set_grad": {"grad"},
    "cograd_tensor_summary": {"t"},
    "cograd_error_get": {"message", "length", "token"},
    "cograd_error_set": {"message"},
    "cograd_fail": {"format"},
    "cograd_backward": {"inputs"},
    "cograd_results_push_tensor": {"t"},
    "cograd_cuda_set_stream": {"stream"},
    "cograd_cuda_synchronize_stream": {"stream"},
}


def functions():
    """Returns (name, [(type, parameter)]) of every function that returns a status."""
    text = re.sub(r"/\*.*?\*/", " ", "".join(h.read_text() for h in HEADERS), flags=re.S)
    found = []
    for name, inside in re.findall(
        r"COGRAD_C_API\s+cograd_status\s+(\w+)\s*\((.*?)\)\s*COGRAD_NOEXCEPT", text, flags=re.S
    ):
        parameters = []
        for part in split(" ".join(inside.split())):
            if part in ("...", "void", ""):
                continue
            pointer = re.match(r".*\(\*(\w+)\)\(.*\)$", part)
            if pointer:
                parameters.append(("function", pointer.group(1)))
                continue
            kind, parameter = re.match(r"(.*?)(\w+)$", part).groups()
            parameters.append((kind.strip(), parameter))
        found.append((name, parameters))
    return found


def split(text):
    """Splits at the commas that are not in parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


HANDLES = ("cograd_tensor", "cograd_op", "cograd_context", "cograd_results", "cograd_cuda_kernel")


def is_pointer(kind):
    return "*" in kind or kind in (*HANDLES, "function", "cograd_hook_fn", "cograd_range_fn")


# Calls one function with NULL for one parameter and valid values for the others.
CHILD = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
name, nulls = sys.argv[2], sys.argv[3].split(",")
kinds = sys.argv[4].split(";")
sizes = (ctypes.c_int64 * 4)(2, 2, 2, 2)
x = ctypes.c_void_p()
assert lib.cograd_tensor_empty(8, 1, sizes, ctypes.byref(x)) == 0
op = ctypes.c_void_p()
assert lib.cograd_op_find(b"sin", ctypes.c_size_t(3), ctypes.byref(op)) == 0
class Function(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("calls", ctypes.c_void_p * 3), ("flags", ctypes.c_uint32)]
function = Function(ctypes.sizeof(Function), b"Null", (ctypes.c_void_p * 3)(), 0)
context = ctypes.c_void_p()
if "cograd_context" in kinds:
    begun = lib.cograd_function_begin(ctypes.byref(function), None, (ctypes.c_void_p * 1)(x),
                                      ctypes.c_size_t(1), ctypes.byref(context))
    assert begun == 0
class Kernel(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("text", ctypes.c_char_p), ("rest", ctypes.c_void_p * 5)]
text = b"__global__ void f(int* p) {}"
described = Kernel(ctypes.sizeof(Kernel), text, (ctypes.c_void_p * 5)())
kernel = ctypes.c_void_p()
assert lib.cograd_cuda_kernel_create(ctypes.byref(described), ctypes.byref(kernel)) == 0
callback = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda *a: 0)
room = [ctypes.create_string_buffer(4096) for _ in kinds]
keep = []
def good(kind, i):
    base = kind.replace("const", "").replace(" ", "")
    if base == "cograd_tensor": return x
    if base == "cograd_op": return op
    if base == "cograd_tensor*" and "const" in kind:
        keep.append((ctypes.c_void_p * 1)(x)); return keep[-1]
    if base == "int64_t*" and "const" in kind: return sizes
    if base == "char*" and "const" in kind: return ctypes.c_char_p(b"s")
    if base in ("function", "cograd_hook_fn", "cograd_range_fn"): return callback
    if base == "cograd_context": return context
    if base == "cograd_cuda_kernel": return kernel
    if base == "cograd_results": return None  # exists in callbacks only
    if "*" in base: return room[i]
    if base == "size_t": return ctypes.c_size_t(1)
    if base in ("int64_t", "uint64_t"): return ctypes.c_int64(1)
    return ctypes.c_int32(1)
args = [None if str(i) in nulls else good(k, i) for i, k in enumerate(kinds)]
f = getattr(lib, name)
f.restype = ctypes.c_int32
print("status", f(*args), flush=True)
"""


def call(name, parameters, nulls):
    kinds = ";".join(kind for kind, _ in parameters)
    command = [sys.executable, "-c", CHILD, str(LIBRARY), name, ",".join(map(str, nulls)), kinds]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"status (-?\d+)", done.stdout)
    assert found, f"{name} with NULL for {[parameters[i][1] for i in nulls]}: {done}"
    return int(found.group(1))


def required(name, parameters):
    """Returns the parameters for which NULL is an error."""
    allowed = MAY_BE_NULL["*"] | MAY_BE_NULL.get(name, set())
    return [i for i, (kind, p) in enumerate(parameters) if is_pointer(kind) and p not in allowed]


def test_the_header_is_read():
    names = [name for name, _ in functions()]
    assert len(names) > 25 and {"cograd_tensor_empty", "cograd_op_set_backward"} <= set(names)
    assert all(parameter for _, ps in functions() for _, parameter in ps)


@pytest.mark.parametrize(("name", "parameters"), functions(), ids=[f[0] for f in functions()])
def test_null_is_an_error_and_no_crash(name, parameters):
    places = required(name, parameters)
    pointers = [i for i, (kind, _) in enumerate(parameters) if is_pointer(kind)]
    if pointers:
        assert call(name, parameters, pointers) != 0 or not places
    for i in places:
        assert call(name, parameters, [i]) == TYPE_ERROR, f"{name}: NULL for {parameters[i][1]}"
