# SPDX-License-Identifier: BSD-3-Clause
"""Reads the op table's records and runs their samples; the tests made from the table use it.

A record has `name`, `signature`, `doc`, `samples`, `ref`, `namespace` and the flags `method`,
`function`, `inplace`, `out`, `differentiable`, `internal`. `samples` is a ';'-separated list of
Python argument lists that use the functions T, P, S, I and B, with a leading ~ if the gradient is
by definition not the derivative of the values; `ref` is a NumPy expression over the argument
names. In it the tensors are also x (or a), b and c in order, the other parameters p0, p1, ...
"""

import functools
import inspect
import math
import re
import statistics
import warnings
import zlib

import numpy as np

import cograd as torch

F8 = torch.float64
TABLE = torch._C._op_table() if hasattr(torch._C, "_op_table") else []
FLAGS = ("method", "function", "inplace", "out", "differentiable")
TOLERANCE = {F8: 1e-10, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@functools.cache
def split_samples(text):
    """Splits at each ';' outside of brackets and quotes; returns a tuple."""
    parts, depth, quote, current = [], 0, "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == ";" and depth == 0:
            parts.append(current.strip())
            current = ""
            continue
        current += c
    parts.append(current.strip())
    return tuple(p for p in parts if p)


def samples_of(record):
    return [] if record["samples"].startswith("none:") else [*split_samples(record["samples"])]


def has_derivative(sample):
    """Returns whether the gradient is the derivative of the values."""
    return not sample.startswith("~")


def makers(seed):
    rng = np.random.default_rng(seed)

    def make_float(*shape, lo=-1, hi=1):
        return torch.tensor(rng.uniform(lo, hi, shape), dtype=F8)

    def make_positive(*shape):
        return torch.tensor(rng.uniform(0.1, 2, shape), dtype=F8)

    def make_definite(*shape):
        """Returns symmetric matrices with eigenvalues in [1, n + 1]."""
        x = rng.uniform(-1, 1, (*shape, shape[-1]))
        n = shape[-1]
        return torch.tensor(x @ np.swapaxes(x, -1, -2) / n + np.eye(n), dtype=F8)

    def make_int(*shape, lo=0, hi=5):
        return torch.tensor(rng.integers(lo, hi, shape), dtype=torch.int64)

    def make_bool(*shape):
        return torch.tensor(rng.integers(0, 2, shape).astype(bool))

    return {
        "T": make_float,
        "P": make_positive,
        "S": make_definite,
        "I": make_int,
        "B": make_bool,
    }


DTYPES = {
    n: getattr(torch, n)
    for n in "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool".split()
}


def environment():
    """Returns the names that samples and refs may use; dtypes by their names (bool is Python's)."""
    return {
        "torch": torch,
        "cograd": torch,
        "np": np,
        "inf": math.inf,
        "nan": math.nan,
        "math": math,
        "statistics": statistics,
        "vec": np.vectorize,
    } | {n: d for n, d in DTYPES.items() if n != "bool"}


def arguments(record, sample):
    """Returns (args, kwargs) of one sample, the same in every call."""
    env = environment() | makers(zlib.crc32(f"{record['name']}({sample})".encode()))
    env["_call"] = lambda *args, **kwargs: (args, kwargs)
    try:
        return eval(f"_call({sample.removeprefix('~')})", env)
    except Exception as e:
        raise ValueError(f"{record['name']}: sample {sample!r} cannot be evaluated: {e}") from e


def bind(record, args, kwargs):
    """Returns argument name -> value, with defaults from the signature."""
    env = environment()
    signature = record["signature"]
    if variadic := re.search(r"\*(\w+)", signature):
        signature = signature.replace(", *,", ",")  # parameters after *size are keywords anyway
    exec(f"def _f({signature}): pass", env)
    bound = inspect.signature(env["_f"]).bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    if variadic:
        given = values[variadic[1]]
        if len(given) == 1 and isinstance(given[0], (tuple, list)):
            values[variadic[1]] = tuple(given[0])
    return values


def tree_map(f, value):
    """Applies f to every tensor in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        return f(value)
    if isinstance(value, dict):
        return {k: tree_map(f, v) for k, v in value.items()}
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return type(value)(tree_map(f, v) for v in value) if type(value) in (tuple, list) else value
    return value


def tensors_in(value):
    found = []
    tree_map(lambda t: found.append(t) or t, value)
    return found


def results(value):
    """Returns the tensors that an op returned, as a list; a number becomes a 0-dim tensor."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (bool, int, float)):
        return [torch.tensor(value)]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in results(v)]
    return []


def plain(t):
    """Returns any tensor as a NumPy array (bfloat16 through float64)."""
    t = t.detach()
    return (t.double() if t.dtype is torch.bfloat16 else t).numpy()


def short_names(values):
    """Returns the names that a ref of the elementwise table uses: x, a, b, c and p0, p1, ..."""
    tensors = [v for v in values.values() if isinstance(v, (np.ndarray, np.generic))]
    others = [v for v in values.values() if not isinstance(v, (np.ndarray, np.generic))]
    names = dict(zip("abc", values.values(), strict=False))  # operands may be numbers
    names |= zip("abc", tensors, strict=False)
    if tensors:
        names["x"] = tensors[0]
    return names | {f"p{i}": v for i, v in enumerate(others)}


def evaluate_ref(record, args, kwargs, convert):
    """Evaluates the record's ref; `convert` makes the array of a tensor."""
    dtypes = {v: np.dtype(n) for n, v in DTYPES.items() if n != "bfloat16"}
    values = bind(record, *tree_map(convert, (args, kwargs)))
    values = {k: dtypes.get(v, v) if isinstance(v, torch.dtype) else v for k, v in values.items()}
    for arg in record.get("args", ()):  # f(x, (2, 3)) and f(x, 2, 3) are the same call
        value = values.get(arg["name"])
        if arg["variadic"] and len(value) == 1 and isinstance(value[0], (tuple, list)):
            values[arg["name"]] = value[0]
    env = environment() | {n: np.dtype(n) for n in DTYPES if n not in ("bfloat16", "bool")}
    with np.errstate(all="ignore"):
        value = eval(record["ref"], env | short_names(values) | values)
    return list(value) if isinstance(value, (tuple, list)) else [value]


def is_float(t):
    return t.is_floating_point() or t.is_complex()


class Ops:
    """Finds the callable forms of a record; the self-tests replace it to plant mistakes."""

    def function(self, record):
        if record.get("internal"):
            return getattr(torch._C._ops, record["name"])
        if record["namespace"] == "_nn":
            home = getattr(torch._C, "_nn", None) if TABLE else None
            return getattr(
                home if hasattr(home, record["name"]) else torch.nn.functional, record["name"]
            )
        if record["function"]:
            return getattr(torch, record["name"])
        if record.get("internal", False):
            return getattr(torch._C._ops, record["name"])
        return self.method(record)

    def method(self, record):
        return getattr(torch.Tensor, record["name"])

    def inplace(self, record):
        return getattr(torch.Tensor, record["name"] + "_")


OPS = Ops()


def call(f, args, kwargs):
    """Calls with a fixed seed, so that random ops can be compared with themselves."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args, **kwargs)


def assert_same(got, want, label, rtol=1e-10, atol=None):
    got, want = results(got), results(want)
    assert len(got) == len(want), f"{label}: {len(got)} results, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert g.shape == w.shape, f"{label}: result {i} has shape {g.shape}, expected {w.shape}"
        assert g.dtype is w.dtype, f"{label}: result {i} is {g.dtype}, expected {w.dtype}"
        np.testing.assert_allclose(
            plain(g),
            plain(w),
            rtol=rtol,
            atol=rtol if atol is None else atol,
            err_msg=f"{label}: result {i}",
        )
