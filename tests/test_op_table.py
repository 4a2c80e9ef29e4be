# SPDX-License-Identifier: BSD-3-Clause
"""Tests made from the op table: every op's own declaration says how it is to be tested.

A record holds `name`, `signature`, `doc`, `samples`, `ref`, `namespace` and the flags `method`,
`function`, `inplace`, `out`, `differentiable`, `internal`. `samples` is a ';'-separated list of
Python argument lists over the makers T, P, I and B; `ref` is a NumPy expression over the argument
names. There the tensors are also x (or a), b and c in order, the other parameters p0, p1, ...
"""

import inspect
import math
import re
import statistics
import warnings
import zlib

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
TABLE = torch._C._op_table() if hasattr(torch._C, "_op_table") else []
FLAGS = ("method", "function", "inplace", "out", "differentiable")
TOLERANCE = {F8: 1e-10, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


# ---------------------------------------------------------------- reading a record


def split_samples(text):
    """Splits at ';' outside brackets and quotes."""
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
    return [p for p in parts if p]


def samples_of(record):
    return [] if record["samples"].startswith("none:") else split_samples(record["samples"])


def makers(seed):
    rng = np.random.default_rng(seed)

    def make_float(*shape, lo=-1, hi=1):
        return torch.tensor(rng.uniform(lo, hi, shape), dtype=F8)

    def make_positive(*shape):
        return torch.tensor(rng.uniform(0.1, 2, shape), dtype=F8)

    def make_int(*shape, lo=0, hi=5):
        return torch.tensor(rng.integers(lo, hi, shape), dtype=torch.int64)

    def make_bool(*shape):
        return torch.tensor(rng.integers(0, 2, shape).astype(bool))

    return {"T": make_float, "P": make_positive, "I": make_int, "B": make_bool}


DTYPES = {
    n: getattr(torch, n)
    for n in "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool".split()
}


def environment():
    """What samples and refs may name; dtypes by their names (bool stays the Python type)."""
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
    """(args, kwargs) of one sample, the same at every call."""
    env = environment() | makers(zlib.crc32(f"{record['name']}({sample})".encode()))
    env["_call"] = lambda *args, **kwargs: (args, kwargs)
    try:
        return eval(f"_call({sample})", env)
    except Exception as e:
        raise ValueError(f"{record['name']}: sample {sample!r} cannot be evaluated: {e}") from e


def bind(record, args, kwargs):
    """Argument name -> value, defaults filled in from the signature."""
    env = environment()
    signature = record["signature"]
    if variadic := re.search(r"\*(\w+)", signature):
        signature = signature.replace(", *,", ",")  # what follows *size is by keyword anyway
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
    """Applies f to every tensor inside tuples, lists and dicts."""
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
    """The tensors an op returned, as a list; a plain number counts as a 0-dim tensor."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (bool, int, float)):
        return [torch.tensor(value)]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in results(v)]
    return []


def plain(t):
    """NumPy array of any tensor (bfloat16 through float64)."""
    t = t.detach()
    return (t.double() if t.dtype is torch.bfloat16 else t).numpy()


def short_names(values):
    """The names a ref of the element-wise table uses: x, a, b, c and p0, p1, ..."""
    tensors = [v for v in values.values() if isinstance(v, (np.ndarray, np.generic))]
    others = [v for v in values.values() if not isinstance(v, (np.ndarray, np.generic))]
    names = dict(zip("abc", tensors, strict=False))
    if tensors:
        names["x"] = tensors[0]
    return names | {f"p{i}": v for i, v in enumerate(others)}


def evaluate_ref(record, args, kwargs, convert):
    """The results of the record's ref; `convert` makes the array of a tensor."""
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
    return t.is_floating_point()


def reads_bytes(record):
    """view(dtype): what it gives depends on the input's dtype and on its layout."""
    return (record["name"], record["signature"]) == ("view", "input, dtype")


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
    """Calls with a fixed seed, so that ops that draw numbers can be compared with themselves."""
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


# ---------------------------------------------------------------- the checks


def check_record(record):
    assert record["doc"].strip(), f"{record['name']}: empty docstring"
    assert all(isinstance(record[flag], bool) for flag in FLAGS), record["name"]
    assert record["namespace"] in ("", "_nn")
    text = record["samples"].strip()
    assert text, f"{record['name']}: no samples; give some or say samples='none: <reason>'"
    if text.startswith("none:"):
        assert text[5:].strip(), f"{record['name']}: samples='none:' needs a reason"
    for sample in samples_of(record):
        bind(record, *arguments(record, sample))


def compare_with_ref(record, got, want, label, rtol):
    got = results(got)
    assert len(got) == len(want), f"{label}: {len(got)} results, ref gives {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        w = np.asarray(w)
        assert tuple(g.shape) == w.shape, (
            f"{label}: result {i} has shape {tuple(g.shape)}, ref {w.shape}"
        )
        if is_float(g):
            np.testing.assert_allclose(
                plain(g).astype(np.float64),
                w.astype(np.float64),
                rtol=rtol,
                atol=rtol,
                err_msg=f"{label}: result {i}",
            )
        else:
            np.testing.assert_array_equal(
                plain(g), w.astype(plain(g).dtype), err_msg=f"{label}: result {i}"
            )


def check_forward(record, sample, ops=OPS):
    """Against the NumPy expression in float64 and float32."""
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    for dtype in (F8,) if reads_bytes(record) else (F8, torch.float32):
        a, k = tree_map(lambda t, d=dtype: t.to(d) if is_float(t) else t, (args, kwargs))
        label = f"{record['name']}({sample}) in {dtype}"
        before = [t.clone() for t in tensors_in((a, k))]
        got = call(f, a, k)
        if not record["name"].endswith("_"):
            for t, b in zip(tensors_in((a, k)), before, strict=True):
                assert torch.equal(t, b), f"{label}: an argument was changed"
        if record["ref"]:
            want = evaluate_ref(
                record, a, k, lambda t: plain(t).astype(np.float64) if is_float(t) else plain(t)
            )
            made = not tensors_in((a, k))  # a creation op: its results have the default dtype
            rtol = TOLERANCE[torch.get_default_dtype() if made else dtype]
            compare_with_ref(record, got, want, label, rtol)


def check_small_floats(record, sample, ops=OPS):
    """float16 and bfloat16 work like a rounded float64, or are refused by name."""
    if reads_bytes(record):
        return
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    for dtype in (torch.float16, torch.bfloat16):
        a, k = tree_map(lambda t, d=dtype: t.to(d) if is_float(t) else t, (args, kwargs))
        label = f"{record['name']}({sample}) in {dtype}"
        try:
            got = call(f, a, k)
        except (RuntimeError, TypeError) as e:
            clear = (record["name"].strip("_"), "not implemented", "dtype")
            assert any(word in str(e) for word in clear), f"{label}: unclear refusal: {e}"
            continue
        wide = call(f, *tree_map(lambda t: t.double() if is_float(t) else t, (a, k)))
        for g, w in zip(results(got), results(wide), strict=True):
            assert g.shape == w.shape, label
            if is_float(g):
                finite = np.abs(plain(w).astype(np.float64)) < torch.finfo(dtype).max / 2
                np.testing.assert_allclose(
                    plain(g).astype(np.float64)[finite],
                    plain(w)[finite],
                    rtol=TOLERANCE[dtype],
                    atol=TOLERANCE[dtype],
                    err_msg=label,
                )


def check_integers(record, sample, ops=OPS):
    """Integer and bool inputs agree with the NumPy expression, or are refused by name."""
    if not record["ref"] or reads_bytes(record):
        return
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool):

        def convert(t, dtype=dtype):
            if not is_float(t):
                return t
            t = (t * 3).round()
            return (t.abs() if dtype is torch.uint8 else t).to(dtype)

        a, k = tree_map(convert, (args, kwargs))
        made = {id(t) for t in tensors_in((a, k))} - {id(t) for t in tensors_in((args, kwargs))}
        label = f"{record['name']}({sample}) in {dtype}"
        try:
            got = call(f, a, k)
        except (RuntimeError, TypeError) as e:
            assert len(str(e)) > 10, f"{label}: unclear refusal: {e!r}"
            continue
        kinds = [g.dtype for g in results(got)]
        kind = (
            np.float64
            if any(d.is_floating_point for d in kinds)
            else np.bool_
            if kinds and all(d is torch.bool for d in kinds)
            else np.int64
        )
        masks = {id(t) for t in tensors_in((args, kwargs)) if t.dtype is torch.bool}

        def wide(t, kind=kind, masks=masks, made=made):
            x = plain(t)
            if id(t) in masks or (x.dtype == bool and kind is np.bool_):
                return x
            return x.astype(np.float64 if kind is np.float64 and id(t) in made else np.int64)

        # torch cuts the scalar factors of integer sums.
        k = {n: int(v) if n in ("alpha", "beta", "value") else v for n, v in k.items()}
        try:
            want = evaluate_ref(record, a, k, wide)
        except (TypeError, ValueError, np.exceptions.AxisError):
            continue
        if all(np.isfinite(np.asarray(w, dtype=np.float64)).all() for w in want):
            compare_with_ref(record, got, want, label, 1e-4)


def strided_copies(t):
    """Tensors equal to t that lie differently in memory."""
    wide = torch.zeros(
        tuple(t.shape[:-1]) + (2 * t.shape[-1] + 1,) if t.ndim else (3,), dtype=t.dtype
    )
    spaced = wide[..., 1::2] if t.ndim else wide[1]
    spaced.copy_(t)
    yield "spaced", spaced
    if t.ndim >= 2:
        order = tuple(reversed(range(t.ndim)))
        yield "transposed", t.permute(order).contiguous().permute(order)
    if t.ndim and t.shape[0] > 0:
        yield "offset", torch.cat([t[:1], t])[1:]


def check_non_contiguous(record, sample, ops=OPS):
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    want = call(f, args, kwargs)
    for layout in ("spaced", "transposed", "offset"):
        a, k = tree_map(lambda t, w=layout: dict(strided_copies(t)).get(w, t), (args, kwargs))
        try:
            got = call(f, a, k)
        except RuntimeError as e:
            # view() and its kin are the only ops that may depend on the layout.
            words = "must be 1 to view" if reads_bytes(record) else "view size is not compatible"
            assert words in str(e), f"{record['name']}({sample}) {layout}: {e}"
            continue
        if not record["name"].startswith(("empty_like", "as_strided", "is_contiguous", "stride")):
            assert_same(got, want, f"{record['name']}({sample}) {layout}")


def is_elementwise(record, sample, ops=OPS):
    """Whether same-shaped tensors give one such tensor, and permuting them permutes it."""
    if "elementwise" in record:
        return record["elementwise"]
    if record["name"].endswith(("_as", "_like")) or record["name"].startswith("new_"):
        return False
    if record.get("internal"):
        return False  # its callers have checked the shapes: only the samples' fit
    args, kwargs = arguments(record, sample)
    inputs = tensors_in((args, kwargs))
    shapes = {tuple(t.shape) for t in inputs if t.ndim}
    if len(shapes) != 1 or not inputs:
        return False
    n = math.prod(next(iter(shapes)))
    if n < 2:
        return False
    order = torch.tensor(np.random.default_rng(0).permutation(n))
    try:
        flat = tree_map(lambda t: t.reshape(-1) if t.ndim else t, (args, kwargs))
        mixed = tree_map(lambda t: t[order] if t.ndim else t, flat)
        r = call(ops.function(record), *flat)
        s = call(ops.function(record), *mixed)
    except (RuntimeError, TypeError, ValueError):
        return False
    except IndexError:
        return False
    if not isinstance(r, torch.Tensor) or tuple(r.shape) != (n,) or tuple(s.shape) != (n,):
        return False
    if any(r.data_ptr() == t.data_ptr() for t in tensors_in(flat)):
        return False  # a view takes shapes, not elements
    return np.array_equal(plain(r[order]), plain(s), equal_nan=True)


def check_elementwise_shapes(record, sample, ops=OPS):
    """0-dim, empty, large and broadcast inputs of an element-wise op."""
    if not is_elementwise(record, sample, ops):
        return
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    flat = tree_map(lambda t: t.reshape(-1) if t.ndim else t, (args, kwargs))
    want = call(f, *flat)
    label = f"{record['name']}({sample})"
    zero_dim = call(f, *tree_map(lambda t: t[0] if t.ndim else t, flat))
    assert zero_dim.shape == (), f"{label}: 0-dim input gave {zero_dim.shape}"
    np.testing.assert_allclose(
        plain(zero_dim), plain(want[0]), rtol=1e-10, err_msg=f"{label}: 0-dim"
    )
    for shape in ((0,), (0, 3), (2, 0, 1)):
        r = call(
            f, *tree_map(lambda t, s=shape: torch.zeros(s, dtype=t.dtype) if t.ndim else t, flat)
        )
        assert r.shape == shape and r.dtype is want.dtype, (
            f"{label}: empty {shape} gave {r.shape} {r.dtype}"
        )
    many = call(f, *tree_map(lambda t: t.repeat(5000) if t.ndim else t, flat))
    np.testing.assert_allclose(
        plain(many), plain(want.repeat(5000)), rtol=1e-10, err_msg=f"{label}: large"
    )
    tensors = [t for t in tensors_in(flat) if t.ndim]
    if len(tensors) >= 2:
        # The i-th tensor keeps dim i only; the result must be that of the expanded tensors.
        k, size = len(tensors), 2
        position = iter(range(k))

        def alone(t):
            if not t.ndim:
                return t
            shape = [1] * k
            shape[next(position)] = size
            return t[:size].reshape(shape)

        a = tree_map(alone, flat)
        full = tree_map(lambda t: t.expand((size,) * k).contiguous() if t.ndim else t, a)
        assert_same(call(f, *a), call(f, *full), f"{label}: broadcast")


# Steps and tolerances of the numeric derivative, by the coarsest dtype among the results.
STEPS = {
    F8: {"eps": 1e-6, "atol": 1e-5},
    torch.float32: {"eps": 2.0**-7, "atol": 1e-3},
    torch.float16: {"eps": 0.25, "atol": 2e-2},
    torch.bfloat16: {"eps": 0.25, "atol": 1e-1},
}
# Samples whose gradient is by definition not the derivative of the values.
OTHER_GRADIENT = {
    ("embedding", "I(4, hi=5), T(5, 4), 1"): "the row padding_idx gets no gradient",
    ("embedding", "I(4, hi=5), T(5, 2), -1"): "the row padding_idx gets no gradient",
}
# Floating arguments that torch refuses to differentiate; test_class_weights_are_constants.
CONSTANTS = {("nll_loss", 2), ("cross_entropy", 2)}


def constants_of(record, args):
    """ids of the tensors that must not require grad: class weights, with class targets."""
    return {
        id(args[i])
        for name, i in CONSTANTS
        if name == record["name"] and len(args) > i and not is_float(args[1])
    }


def check_gradients(record, sample, ops=OPS):
    if (record["name"], sample) in OTHER_GRADIENT:
        return False
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    constants = constants_of(record, args)
    leaves = [
        t.requires_grad_()
        for t in tensors_in((args, kwargs))
        if t.dtype is F8 and id(t) not in constants
    ]
    if not leaves:
        return False
    label = f"{record['name']}({sample})"
    positions = {id(t): i for i, t in enumerate(leaves)}

    def run(*values):
        a, k = tree_map(
            lambda t: values[positions[id(t)]] if id(t) in positions else t, (args, kwargs)
        )
        return tuple(r for r in results(call(f, a, k)) if is_float(r))

    outputs = run(*leaves)
    if not outputs:  # a conversion to integers has no history
        every = results(call(f, args, kwargs))
        assert every and not any(r.requires_grad for r in every), f"{label}: integers with history"
        return True
    assert outputs and any(o.requires_grad for o in outputs), f"{label}: no result requires grad"
    if any(t.numel() == 0 for t in leaves):
        sum(o.sum() for o in outputs).backward()
        assert all(t.grad is None or t.grad.shape == t.shape for t in leaves), label
        return True
    coarsest = max((o.dtype for o in outputs), key=lambda d: torch.finfo(d).eps)
    step = STEPS[coarsest]
    try:
        with warnings.catch_warnings():
            if coarsest is not F8:
                warnings.simplefilter("ignore")  # not double precision: the step is wider instead
            assert gradcheck(run, leaves, **step, rtol=1e-3), label
        if coarsest is F8:
            assert gradgradcheck(run, leaves, atol=1e-4, rtol=1e-3), label
    except RuntimeError as e:
        raise AssertionError(f"{label}: {e}") from e
    return True


def check_not_differentiable(record, sample, ops=OPS):
    """An op declared without a derivative gives results without history."""
    args, kwargs = arguments(record, sample)
    args, kwargs = tree_map(lambda t: t.requires_grad_() if t.dtype is F8 else t, (args, kwargs))
    for r in results(call(ops.function(record), args, kwargs)):
        assert not r.requires_grad or any(r is t for t in tensors_in((args, kwargs))), (
            f"{record['name']}({sample})"
        )


def check_method(record, sample, ops=OPS):
    args, kwargs = arguments(record, sample)
    if not (args and isinstance(args[0], torch.Tensor)):
        return False
    want = call(ops.function(record), args, kwargs)
    assert_same(call(ops.method(record), args, kwargs), want, f"Tensor.{record['name']}({sample})")
    return True


def check_inplace(record, sample, ops=OPS):
    """Same values as out of place, the same object, one version more, the same gradient."""
    args, kwargs = arguments(record, sample)
    if not (args and isinstance(args[0], torch.Tensor)):
        return False
    label = f"Tensor.{record['name']}_({sample})"
    want = call(ops.function(record), args, kwargs)
    if not isinstance(want, torch.Tensor) or want.shape != args[0].shape:
        return False
    if not torch.can_cast(want.dtype, args[0].dtype):
        return False
    target = args[0].clone()
    alias, version = target.view(target.shape), target._version
    assert call(ops.inplace(record), (target, *args[1:]), kwargs) is target, (
        f"{label}: returns another object"
    )
    assert target._version == version + 1, (
        f"{label}: version went from {version} to {target._version}"
    )
    assert target.dtype is args[0].dtype, f"{label}: dtype changed"
    assert_same(target, want.to(target.dtype), label)
    assert torch.equal(alias, target) or target.isnan().any(), f"{label}: storage was replaced"
    if record["differentiable"] and args[0].dtype is F8 and want.dtype is F8:
        grads = []
        for form in (
            lambda x: call(ops.function(record), (x * 1, *args[1:]), kwargs),
            lambda x: call(ops.inplace(record), (x * 1, *args[1:]), kwargs),
        ):
            x = args[0].clone().requires_grad_()
            y = form(x)
            y.backward(
                torch.linspace(1, 2, max(y.numel(), 1), dtype=F8)[: y.numel()].reshape(y.shape)
            )
            grads.append(x.grad)
        assert_same(grads[1], grads[0], f"{label}: gradient")
    return True


def check_out(record, sample, ops=OPS):
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    label = f"{record['name']}({sample}, out=...)"
    want = call(f, args, kwargs)
    fresh = [torch.zeros_like(w) for w in results(want)]
    pointers = [o.data_ptr() for o in fresh]
    got = call(
        f, args, kwargs | {"out": fresh[0] if isinstance(want, torch.Tensor) else tuple(fresh)}
    )
    assert_same(fresh, want, label)
    assert [o.data_ptr() for o in fresh] == pointers, f"{label}: memory was replaced"
    for g, o in zip(results(got), fresh, strict=True):
        assert g is o, f"{label}: returned another tensor"
        assert o._version > 0 or o.numel() == 0, f"{label}: version not bumped"
    if isinstance(want, torch.Tensor) and want.ndim:
        wide = torch.zeros(tuple(want.shape[:-1]) + (2 * want.shape[-1],), dtype=want.dtype)
        call(f, args, kwargs | {"out": wide[..., ::2]})
        assert_same(wide[..., ::2], want, f"{label} strided")
        assert not wide[..., 1::2].any().item(), f"{label}: wrote outside its strides"
    return True


# ---------------------------------------------------------------- the generated tests


def cases(keep=lambda record: True):
    return [
        pytest.param(r, s, id=f"{r['name']}({s})") for r in TABLE if keep(r) for s in samples_of(r)
    ]


def records(keep=lambda record: True):
    return [pytest.param(r, id=r["name"]) for r in TABLE if keep(r)]


def any_sample(check, record):
    """Runs the check on all samples; at least one must apply."""
    applied = [check(record, sample) for sample in samples_of(record)]
    assert any(applied) or not applied, f"{record['name']}: no sample exercises {check.__name__}"


@pytest.mark.beyond_torch
def test_the_table_is_there():
    assert len(TABLE) > 100
    forms = [
        (
            *(r[k] for k in ("namespace", "name", "signature", "function", "method")),
            *(a["kind"] for a in r["args"]),
        )
        for r in TABLE
    ]
    twice = sorted({f[1] for f in forms if forms.count(f) > 1})
    assert not twice, f"declared twice: {twice}"


@pytest.mark.parametrize("record", records())
def test_record(record):
    check_record(record)


@pytest.mark.parametrize("record", records(lambda r: r["function"]))
def test_docstring(record):
    assert (OPS.function(record).__doc__ or "").strip(), record["name"]


@pytest.mark.parametrize("record,sample", cases())
def test_forward(record, sample):
    check_forward(record, sample)


@pytest.mark.parametrize("record,sample", cases())
def test_small_floats(record, sample):
    check_small_floats(record, sample)


@pytest.mark.parametrize("record,sample", cases(lambda r: bool(r["ref"])))
def test_integers(record, sample):
    check_integers(record, sample)


@pytest.mark.parametrize("record,sample", cases())
def test_non_contiguous(record, sample):
    check_non_contiguous(record, sample)


@pytest.mark.parametrize("record,sample", cases())
def test_elementwise_shapes(record, sample):
    check_elementwise_shapes(record, sample)


def is_cast(record):
    """Casts lower the precision below what gradcheck needs: test_dtype_promotion checks them."""
    to_tensor = record["name"] == "to" and record["signature"].startswith("input, other")
    return to_tensor or record["name"] in {"half", "bfloat16", "float", "type_as"}


@pytest.mark.parametrize("record", records(lambda r: r["differentiable"] and not is_cast(r)))
def test_gradients(record):
    any_sample(check_gradients, record)


@pytest.mark.parametrize("record,sample", cases(lambda r: not r["differentiable"]))
def test_not_differentiable(record, sample):
    check_not_differentiable(record, sample)


@pytest.mark.parametrize("record", records(lambda r: r["method"] and r["function"]))
def test_method(record):
    any_sample(check_method, record)


@pytest.mark.parametrize("record", records(lambda r: r["inplace"]))
def test_inplace(record):
    any_sample(check_inplace, record)


@pytest.mark.parametrize("record", records(lambda r: r["out"]))
def test_out(record):
    any_sample(check_out, record)


@pytest.mark.parametrize("name", ["sort", "topk", "max", "kthvalue"])
def test_out_of_several_results(name):
    x = torch.tensor([[3.0, 1.0, 2.0]])
    args = {"sort": (1,), "topk": (2, 1), "max": (1,), "kthvalue": (2, 1)}[name]
    want = getattr(torch, name)(x, *args)
    out = tuple(torch.zeros_like(w) for w in want)
    got = getattr(torch, name)(x, *args, out=out)
    assert all(g is o for g, o in zip(got, out, strict=True))
    assert_same(out, want, name)


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_class_weights_are_constants(name):
    x = torch.zeros(2, 3, requires_grad=True)
    target, weight = torch.tensor([0, 2]), torch.ones(3, requires_grad=True)
    loss = getattr(torch.nn.functional, name)
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        loss(x, target, weight)
    with torch.no_grad():
        loss(x, target, weight)
    loss(x, target, weight.detach()).backward()


@pytest.mark.parametrize("v", [0.3, 1.0, 4.2, 50.0, -0.5, -2.3])
def test_digamma_derivatives(v):
    """n! sum (-1)^(n+1) / (v + k)^(n+1), the tail by the integral."""
    x = torch.tensor(v, dtype=F8, requires_grad=True)
    y = torch.digamma(x)
    k = np.arange(400000.0)
    for n in (1, 2, 3):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        end = v + len(k)
        tail = 1 / (n * end**n) + 0.5 / end ** (n + 1)
        want = (-1) ** (n + 1) * math.factorial(n) * (np.sum(1 / (v + k) ** (n + 1)) + tail)
        assert y.item() == pytest.approx(want, rel=1e-9), n


# ---------------------------------------------------------------- the checks themselves


def fake(name, signature, samples, ref="", **flags):
    base = {
        "name": name,
        "signature": signature,
        "doc": "text",
        "method": True,
        "function": True,
        "inplace": False,
        "out": False,
        "differentiable": True,
        "samples": samples,
        "ref": ref,
        "namespace": "",
    }
    return base | flags


PLAIN = {"differentiable": False}
FORMS = {"inplace": True, "out": True}
FAKE_TABLE = [
    fake(
        "add",
        "input, other, *, alpha=1",
        "T(3,4), T(3,4); T(2,3), T(3), alpha=2; T(), T(2)",
        "input + alpha * other",
        **FORMS,
    ),
    fake("mul", "input, other", "T(3,4), T(3,4); T(3), 2.5; T(3), T()", "input * other", **FORMS),
    fake("div", "input, other, *, rounding_mode=None", "T(3), P(3)", "input / other", **FORMS),
    fake("exp", "input", "T(3,4); T(); T(0,2)", "np.exp(input)", **FORMS),
    fake("log", "input", "P(3,4)", "np.log(input)", **FORMS),
    fake("sigmoid", "input", "T(3,4)", "1 / (1 + np.exp(-input))", **FORMS),
    fake("abs", "input", "P(3,4)", "np.abs(input)", **FORMS),
    fake("atan2", "input, other", "P(3), P(3)", "np.arctan2(input, other)", **FORMS),
    fake(
        "clamp",
        "input, min=None, max=None",
        "T(3,4), -0.5, 0.5; T(3), max=0.2",
        "np.clip(input, min, max)",
        **FORMS,
    ),
    fake(
        "where",
        "condition, input, other",
        "B(3), T(3), T(3); B(2,3), T(3), 0.0",
        "np.where(condition, input, other)",
        method=False,
    ),
    fake(
        "sum",
        "input, dim=None, keepdim=False",
        "T(3,4); T(3,4), dim=1; T(2,3,4), dim=(0,2), keepdim=True",
        "np.sum(input, axis=dim, keepdims=keepdim)",
    ),
    fake(
        "mean",
        "input, dim=None, keepdim=False",
        "T(3,4); T(3,4), dim=1",
        "np.mean(input, axis=dim, keepdims=keepdim)",
    ),
    fake(
        "amax",
        "input, dim=(), keepdim=False",
        "T(3,4), dim=1",
        "np.max(input, axis=dim, keepdims=keepdim)",
        out=True,
    ),
    fake("cumsum", "input, dim", "T(3,4), 1", "np.cumsum(input, axis=dim)", **FORMS),
    fake(
        "softmax",
        "input, dim",
        "T(3,4), 1; T(3,4), dim=-2",
        "np.exp(input) / np.exp(input).sum(dim, keepdims=True)",
        out=True,
    ),
    fake(
        "matmul",
        "input, other",
        "T(2,3), T(3,4); T(3), T(3); T(2,2,3), T(3)",
        "input @ other",
        out=True,
    ),
    fake("tril", "input, diagonal=0", "T(3,4); T(3,3), 1", "np.tril(input, diagonal)", **FORMS),
    fake("transpose", "input, dim0, dim1", "T(3,4), 0, 1", "np.swapaxes(input, dim0, dim1)"),
    fake(
        "cat",
        "tensors, dim=0",
        "[T(2,3), T(1,3)]; [T(2,3), T(2,2)], dim=1",
        "np.concatenate(tensors, dim)",
        method=False,
        out=True,
    ),
    fake(
        "gather",
        "input, dim, index",
        "T(3,4), 1, I(3,2,hi=4)",
        "np.take_along_axis(input, index, dim)",
        out=True,
    ),
    fake(
        "sort",
        "input, dim=-1, descending=False",
        "T(3,4); T(3,4), dim=0",
        "np.sort(input, dim), np.argsort(input, dim)",
    ),
    fake(
        "argmax",
        "input, dim=None, keepdim=False",
        "T(3,4); T(3,4), dim=1",
        "np.argmax(input, axis=dim)",
        **PLAIN,
    ),
    fake("isnan", "input", "T(3)", "np.isnan(input)", **PLAIN),
    fake("eq", "input, other", "T(3), T(3); I(4), 2", "np.equal(input, other)", out=True, **PLAIN),
    fake(
        "masked_fill",
        "input, mask, value",
        "T(3,4), B(3,4), 2.0; T(3,4), B(4), 1.5",
        "np.where(mask, value, input)",
        inplace=True,
    ),
    fake("view", "input, shape", "T(3,4), (12,)", "np.reshape(input, shape)", function=False),
    fake("dropout", "input, p=0.5, training=True", "T(30), 0.5, True", "", method=False),
    fake(
        "mse_loss",
        "input, target",
        "T(3,4), T(3,4)",
        "np.mean((input - target) ** 2)",
        method=False,
        namespace="_nn",
    ),
    fake("empty", "size", "none: contents are undefined", **PLAIN),
]
FAKE_CASES = [pytest.param(r, s, id=f"{r['name']}({s})") for r in FAKE_TABLE for s in samples_of(r)]


@pytest.mark.parametrize("record,sample", FAKE_CASES)
def test_checks_accept_right_ops(record, sample):
    check_record(record)
    check_forward(record, sample)
    check_small_floats(record, sample)
    check_integers(record, sample)
    check_non_contiguous(record, sample)
    check_elementwise_shapes(record, sample)
    if record["differentiable"]:
        assert check_gradients(record, sample)
    else:
        check_not_differentiable(record, sample)
    if record["method"] and record["function"]:
        check_method(record, sample)
    if record["inplace"]:
        check_inplace(record, sample)
    if record["out"]:
        check_out(record, sample)


def test_elementwise_is_recognised():
    found = {r["name"] for r in FAKE_TABLE for s in samples_of(r) if is_elementwise(r, s)}
    assert found == {
        "add", "mul", "div", "exp", "log", "sigmoid", "abs", "atan2", "clamp", "where", "isnan",
        "eq", "masked_fill"
    }  # fmt: skip


class Wrong(Ops):
    """Ops whose forms are replaced by the given callables."""

    def __init__(self, **forms):
        self.forms = forms

    def function(self, record):
        return self.forms.get("function") or super().function(record)

    def method(self, record):
        return self.forms.get("method") or super().method(record)

    def inplace(self, record):
        return self.forms.get("inplace") or super().inplace(record)


EXP = fake("exp", "input", "T(3,4)", "np.exp(input)", **FORMS)
ADD = fake("add", "input, other", "T(3,4), T(3,4)", "input + other", **FORMS)


def contiguous_only(x):
    return torch.exp(torch.as_strided(x, x.shape, torch.empty(x.shape).stride()))


def wrong_gradient(x):
    return torch.exp(x).detach() + x - x.detach()


def wrong_second_gradient(x):
    y = torch.exp(x)
    return y.detach() * (x - x.detach()) + y.detach()


def out_in_fresh_memory(x, out=None):
    y = torch.exp(x)
    if out is not None:
        out.data = y
        return out
    return y


def out_ignored(x, out=None):
    return torch.exp(x)


def inplace_through_data(x):
    x.data.exp_()
    return x


def no_broadcast(a, b):
    if a.shape != b.shape:
        raise RuntimeError("shapes differ")
    return a + b


def breaks_on_empty(x):
    if x.numel() == 0:
        raise RuntimeError("empty")
    return torch.exp(x)


def breaks_when_large(x):
    y = torch.exp(x)
    if y.numel() > 10000:
        y.view(-1)[-1] = 0
    return y


def changes_input(x):
    y = torch.exp(x)
    x.zero_()
    return y


@pytest.mark.parametrize(
    "check,record,ops",
    [
        (check_forward, EXP, Wrong(function=torch.sin)),
        (check_forward, EXP, Wrong(function=lambda x: torch.exp(x).reshape(-1))),
        (check_forward, EXP, Wrong(function=lambda x: (torch.exp(x), x))),
        (check_forward, EXP, Wrong(function=changes_input)),
        (check_forward, EXP, Wrong(function=lambda x: torch.exp(x.half()).to(x.dtype))),
        (
            check_small_floats,
            EXP,
            Wrong(function=lambda x: torch.exp(x) + (x.dtype is torch.float16)),
        ),
        (check_integers, EXP, Wrong(function=lambda x: torch.exp(x) + (x.dtype is torch.int32))),
        (check_non_contiguous, EXP, Wrong(function=contiguous_only)),
        (check_elementwise_shapes, ADD, Wrong(function=no_broadcast)),
        (check_elementwise_shapes, EXP, Wrong(function=breaks_on_empty)),
        (check_elementwise_shapes, EXP, Wrong(function=breaks_when_large)),
        (check_gradients, EXP, Wrong(function=wrong_gradient)),
        (check_gradients, EXP, Wrong(function=wrong_second_gradient)),
        (check_gradients, EXP, Wrong(function=lambda x: torch.exp(x.detach()))),
        (check_not_differentiable, EXP | PLAIN, OPS),
        (check_method, EXP, Wrong(method=torch.Tensor.sin)),
        (check_inplace, EXP, Wrong(inplace=lambda x: torch.exp(x))),
        (check_inplace, EXP, Wrong(inplace=torch.Tensor.sin_)),
        (check_inplace, EXP, Wrong(inplace=inplace_through_data)),
        (check_inplace, EXP, Wrong(inplace=lambda x: x.exp_().add_(0))),
        (check_out, EXP, Wrong(function=out_ignored)),
        (check_out, EXP, Wrong(function=out_in_fresh_memory)),
    ],
)
def test_checks_refuse_wrong_ops(check, record, ops):
    with pytest.raises((AssertionError, RuntimeError)):
        check(record, record["samples"], ops)


@pytest.mark.parametrize(
    "change",
    [
        {"samples": ""},
        {"samples": "none: "},
        {"doc": " "},
        {"samples": "T(3"},
        {"samples": "T(3), 5"},
        {"inplace": 1},
    ],
)
def test_bad_records_are_refused(change):
    with pytest.raises((AssertionError, ValueError, TypeError)):
        check_record(EXP | change)


def test_split_samples():
    assert split_samples("T(3), dim=1; T(2,3), mode='a;b' ; [I(2)],;") == [
        "T(3), dim=1",
        "T(2,3), mode='a;b'",
        "[I(2)],",
    ]
    assert samples_of(fake("x", "a", "none: because")) == []


def test_samples_are_repeatable():
    a, b = arguments(EXP, "T(3,4)"), arguments(EXP, "T(3,4)")
    assert torch.equal(a[0][0], b[0][0])


# ---------------------------------------------------------------- promised names

PROMISED = """
tensor as_tensor empty zeros ones full empty_like zeros_like ones_like full_like rand_like
randn_like arange linspace logspace eye rand randn randint randperm tril triu meshgrid add sub
mul div pow sqrt rsqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh
tanh sigmoid erf abs sign floor ceil round trunc clamp minimum maximum where lerp relu
logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not
sum mean prod var std min max amin amax argmin argmax all any norm logsumexp cumsum cumprod
count_nonzero softmax log_softmax mm bmm matmul mv dot addmm baddbmm outer einsum reshape
flatten unflatten squeeze unsqueeze permute transpose t movedim flip roll repeat_interleave tile
cat stack split chunk unbind narrow select diagonal as_strided gather scatter scatter_add
index_select index_add index_copy masked_fill masked_select take_along_dim nonzero sort argsort
topk unique bincount searchsorted allclose equal isclose isnan isinf isfinite eq ne lt le gt ge
finfo iinfo Generator manual_seed from_numpy from_dlpack set_printoptions get_default_dtype
set_default_dtype set_num_threads get_num_threads is_tensor result_type promote_types
""".split()
METHODS = """
view expand expand_as repeat new_tensor new_zeros new_ones new_full new_empty add_ sub_ mul_
div_ copy_ fill_ zero_ uniform_ normal_ detach requires_grad_ retain_grad numpy tolist item size
stride dim numel contiguous clone to type double float half bfloat16 long int short char bool
byte is_contiguous data_ptr storage_offset element_size
""".split()
FUNCTIONAL = """
relu gelu silu softplus leaky_relu elu softmax log_softmax layer_norm dropout embedding linear
cross_entropy nll_loss mse_loss l1_loss binary_cross_entropy binary_cross_entropy_with_logits
""".split()


@pytest.mark.parametrize(
    "home,names",
    [("torch", PROMISED), ("Tensor", METHODS), ("functional", FUNCTIONAL)],
)
def test_promised_names_exist(home, names):
    where = {"torch": torch, "Tensor": torch.Tensor, "functional": torch.nn.functional}[home]
    assert [n for n in names if not callable(getattr(where, n, None))] == []
