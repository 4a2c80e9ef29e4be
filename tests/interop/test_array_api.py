# SPDX-License-Identifier: BSD-3-Clause
"""cograd.array_api compared with array-api-strict, function by function, by hypothesis."""

import inspect

import numpy as np
import pytest

import cograd
from cograd import array_api as xp

strict = pytest.importorskip("array_api_strict")
hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

strict.set_array_api_strict_flags(api_version="2024.12")

BOOL = ("bool",)
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = ("int8", "int16", "int32", "int64", *UNSIGNED)
REALS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
FLOATS = REALS + COMPLEX
NUMBERS = INTS + FLOATS
ALL = BOOL + NUMBERS
REAL_NUMBERS = INTS + REALS


def values(draw, shape, dtype, low=-4, high=4):
    """Draws an array of a dtype, with numbers at which few functions are undefined."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTS:
        return rng.integers(max(low, 0) if dtype in UNSIGNED else low, high + 1, shape).astype(
            dtype
        )
    x = rng.uniform(low, high, shape)
    if dtype in COMPLEX:
        x = x + 1j * rng.uniform(low, high, shape)
    return x.astype(dtype)


shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
full_shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def to_mine(value):
    if isinstance(value, np.ndarray):
        return cograd.tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_mine, value))
    return getattr(xp, value[1:]) if isinstance(value, str) and value.startswith("@") else value


def to_strict(value):
    if isinstance(value, np.ndarray):
        return strict.asarray(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(to_strict, value))
    return getattr(strict, value[1:]) if isinstance(value, str) and value.startswith("@") else value


def as_numpy(value):
    if isinstance(value, cograd.Tensor):
        return value.detach().numpy()
    return np.asarray(value._array)


def agree(mine, theirs, where):
    """Compares shapes, dtypes and values; lists item by item."""
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs), where
        for a, b in zip(mine, theirs):
            agree(a, b, where)
        if hasattr(theirs, "_fields"):
            assert mine._fields == theirs._fields
        return
    if isinstance(theirs, (bool, int, float, str)) or theirs is None:
        assert mine == theirs, where
        return
    a, b = as_numpy(mine), as_numpy(theirs)
    assert a.shape == b.shape, (where, a.shape, b.shape)
    assert a.dtype == b.dtype, (where, a.dtype, b.dtype)
    near = 2e-4 if a.dtype in (np.float32, np.complex64) else 1e-9
    np.testing.assert_allclose(a, b, rtol=near, atol=near, err_msg=str(where))


def beside(name, args, kwargs, module=""):
    """Calls both; skips what array-api-strict refuses."""
    one = getattr(getattr(xp, module) if module else xp, name)
    other = getattr(getattr(strict, module) if module else strict, name)
    with np.errstate(all="ignore"):
        try:
            theirs = other(*map(to_strict, args), **{k: to_strict(v) for k, v in kwargs.items()})
        except (TypeError, ValueError, IndexError, np.linalg.LinAlgError):
            return
    mine = one(*map(to_mine, args), **{k: to_mine(v) for k, v in kwargs.items()})
    agree(mine, theirs, (name, args, kwargs))


settings = hypothesis.settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)

UNARY = {
    "abs": NUMBERS,
    "acos": FLOATS,
    "acosh": COMPLEX,
    "asin": FLOATS,
    "asinh": FLOATS,
    "atan": FLOATS,
    "atanh": COMPLEX,
    "bitwise_invert": BOOL + INTS,
    "ceil": REAL_NUMBERS,
    "conj": NUMBERS,
    "cos": FLOATS,
    "cosh": FLOATS,
    "exp": FLOATS,
    "expm1": FLOATS,
    "floor": REAL_NUMBERS,
    "imag": COMPLEX,
    "isfinite": NUMBERS,
    "isinf": NUMBERS,
    "isnan": NUMBERS,
    "log": FLOATS,
    "log10": FLOATS,
    "log1p": FLOATS,
    "log2": FLOATS,
    "logical_not": BOOL,
    "negative": NUMBERS,
    "positive": NUMBERS,
    "real": NUMBERS,
    "reciprocal": FLOATS,
    "round": NUMBERS,
    "sign": NUMBERS,
    "signbit": REALS,
    "sin": FLOATS,
    "sinh": FLOATS,
    "sqrt": FLOATS,
    "square": NUMBERS,
    "tan": FLOATS,
    "tanh": FLOATS,
    "trunc": REAL_NUMBERS,
}
BINARY = {
    "add": NUMBERS,
    "atan2": REALS,
    "bitwise_and": BOOL + INTS,
    "bitwise_left_shift": INTS,
    "bitwise_or": BOOL + INTS,
    "bitwise_right_shift": INTS,
    "bitwise_xor": BOOL + INTS,
    "copysign": REALS,
    "divide": FLOATS,
    "equal": ALL,
    "floor_divide": REAL_NUMBERS,
    "greater": REAL_NUMBERS,
    "greater_equal": REAL_NUMBERS,
    "hypot": REALS,
    "less": REAL_NUMBERS,
    "less_equal": REAL_NUMBERS,
    "logaddexp": REALS,
    "logical_and": BOOL,
    "logical_or": BOOL,
    "logical_xor": BOOL,
    "maximum": REAL_NUMBERS,
    "minimum": REAL_NUMBERS,
    "multiply": NUMBERS,
    "nextafter": REALS,
    "not_equal": ALL,
    "pow": FLOATS,
    "remainder": REAL_NUMBERS,
    "subtract": NUMBERS,
}


@pytest.mark.parametrize("name", UNARY)
@settings
@hypothesis.given(data=st.data())
def test_unary(name, data):
    dtype = data.draw(st.sampled_from(UNARY[name]))
    beside(name, [values(data.draw, data.draw(shapes), dtype)], {})


@pytest.mark.parametrize("name", BINARY)
@settings
@hypothesis.given(data=st.data())
def test_binary(name, data):
    kinds = st.sampled_from(BINARY[name])
    shift = "shift" in name
    low, high = (0, 3) if shift else (-4, 4)
    shape = data.draw(full_shapes)
    other = tuple(n if data.draw(st.booleans()) else 1 for n in shape)
    other = other[data.draw(st.integers(0, len(other))) :]
    a = values(data.draw, shape, data.draw(kinds), low, high)
    b = values(data.draw, other, data.draw(kinds), low, high)
    if name in ("floor_divide", "remainder"):
        b[b == 0] = 3
    beside(name, [a, b], {})
    number = data.draw(st.sampled_from([2, 1, 3]))
    number = (
        bool(number - 1) if a.dtype == bool else float(number) if a.dtype.kind == "f" else number
    )
    beside(name, [a, number], {})
    if name not in ("floor_divide", "remainder") or a.all():
        beside(name, [number, a], {})


REDUCE = {
    "sum": NUMBERS,
    "prod": NUMBERS,
    "max": REAL_NUMBERS,
    "min": REAL_NUMBERS,
    "mean": REALS,
    "std": REALS,
    "var": REALS,
    "all": ALL,
    "any": ALL,
    "count_nonzero": ALL,
}


@pytest.mark.parametrize("name", REDUCE)
@settings
@hypothesis.given(data=st.data())
def test_reductions(name, data):
    x = values(data.draw, data.draw(full_shapes), data.draw(st.sampled_from(REDUCE[name])))
    axes = st.integers(-x.ndim, x.ndim - 1)
    several = st.lists(st.integers(0, x.ndim - 1), unique=True, max_size=x.ndim).map(tuple)
    kwargs = {"axis": data.draw(st.none() | axes | several), "keepdims": data.draw(st.booleans())}
    if name in ("std", "var"):
        kwargs["correction"] = data.draw(st.sampled_from([0, 1, 0.5]))
    count = np.ones(x.shape).sum(axis=kwargs["axis"]).reshape(-1)[0]
    if kwargs.get("correction", 0) >= count or (kwargs["axis"] == () and name in ("std", "var")):
        hypothesis.reject()
    beside(name, [x], kwargs)


ALONG = {
    "argmax": (REAL_NUMBERS, {"axis": None, "keepdims": None}),
    "argmin": (REAL_NUMBERS, {"axis": None, "keepdims": None}),
    "argsort": (REAL_NUMBERS, {"axis": None, "descending": None}),
    "sort": (REAL_NUMBERS, {"axis": None, "descending": None}),
    "cumulative_sum": (NUMBERS, {"axis": None, "include_initial": None}),
    "cumulative_prod": (NUMBERS, {"axis": None, "include_initial": None}),
    "diff": (NUMBERS, {"axis": None}),
    "flip": (ALL, {"axis": None}),
    "unstack": (ALL, {"axis": None}),
    "expand_dims": (ALL, {"axis": None}),
}


@pytest.mark.parametrize("name", ALONG)
@settings
@hypothesis.given(data=st.data())
def test_along_an_axis(name, data):
    dtypes, options = ALONG[name]
    x = values(data.draw, data.draw(full_shapes), data.draw(st.sampled_from(dtypes)))
    kwargs = {key: data.draw(st.booleans()) for key in options if key != "axis"}
    beside(name, [x], {**kwargs, "axis": data.draw(st.integers(-x.ndim, x.ndim - 1))})
    if name == "diff":
        more = values(data.draw, x.shape, str(x.dtype))
        beside(name, [x], {"prepend": more, "append": more, "n": 2, "axis": 0})


@settings
@hypothesis.given(data=st.data())
def test_moving_elements(data):
    x = values(data.draw, data.draw(full_shapes), data.draw(st.sampled_from(ALL)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    order = tuple(data.draw(st.permutations(range(x.ndim))))
    beside("permute_dims", [x, order], {})
    beside("moveaxis", [x, axis, 0], {})
    beside("reshape", [x, (-1,)], {})
    beside("reshape", [x, x.shape[::-1]], {"copy": True})
    beside("roll", [x, 2], {"axis": axis})
    beside("roll", [x, -3], {})
    beside("flip", [x], {})
    beside("repeat", [x, 2], {"axis": axis})
    beside("repeat", [x, 3], {})
    beside("repeat", [x, np.arange(x.shape[axis])], {"axis": axis})
    beside("tile", [x, (2, 1, 2)], {})
    beside("squeeze", [x[None]], {"axis": 0})
    beside("broadcast_to", [x, (2, *x.shape)], {})
    beside("broadcast_arrays", [x, x[..., :1]], {})
    beside("take", [x, np.array([0, -1 % x.shape[axis], 0])], {"axis": axis})
    index = np.zeros_like(x, dtype=np.int64)
    beside("take_along_axis", [x, index], {"axis": axis})
    other = values(data.draw, x.shape, data.draw(st.sampled_from(ALL)))
    for name in ("concat", "stack"):
        beside(name, [[x, other]], {"axis": 0})
    beside("concat", [[x, x]], {"axis": None})
    mask = values(data.draw, x.shape, "bool")
    beside("where", [mask, x, other], {})
    if x.dtype != bool:
        beside("where", [mask, x, 2], {})
        beside("clip", [x], {"min": -1, "max": 2})
        beside("clip", [x], {})
    beside("nonzero", [x], {})


@settings
@hypothesis.given(data=st.data())
def test_sets_and_searches(data):
    x = values(data.draw, data.draw(shapes), data.draw(st.sampled_from(ALL)), -2, 2)
    if x.dtype.kind == "c" or x.dtype.kind == "f":
        x = np.round(x)
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        beside(name, [x], {})
    line = values(data.draw, (6,), data.draw(st.sampled_from(REAL_NUMBERS)))
    side = data.draw(st.sampled_from(["left", "right"]))
    beside("searchsorted", [np.sort(line), line[:3]], {"side": side})
    beside("searchsorted", [line, line[:3]], {"sorter": np.argsort(line), "side": side})


def test_creation():
    for args in ((5,), (1, 5), (0, 3, 0.5), (5, 1, -1), (3, 3), (5, 1), (0,)):
        for dtype in (None, "@float64", "@int32"):
            beside_default("arange", args, {"dtype": dtype})
    for kwargs in ({}, {"endpoint": False}, {"dtype": "@complex128"}, {"dtype": "@float64"}):
        for args in ((0, 1, 5), (3, -1.5, 1), (0, 2, 0)):
            beside_default("linspace", args, kwargs)
    beside_default("linspace", (0, 1j, 3), {})
    for args, kwargs in (((3,), {}), ((2, 4), {"k": 1}), ((4, 2), {"k": -5}), ((0,), {})):
        beside_default("eye", args, kwargs)
    for name in ("zeros", "ones"):
        for shape in ((), 3, (2, 0), (2, 3)):
            for dtype in (None, "@bool", "@int8", "@complex64"):
                beside_default(name, (shape,), {"dtype": dtype})
    for value in (True, 2, 1.5, 1j):
        beside_default("full", ((2, 2), value), {})
        beside_default("asarray", (value,), {})
        beside_default("asarray", ([[value], [value]],), {})
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    for name in ("zeros_like", "ones_like"):
        beside(name, [x], {})
        beside(name, [x], {"dtype": "@float32"})
    beside("full_like", [x, 7], {})
    for name in ("tril", "triu"):
        for k in (-1, 0, 2):
            beside(name, [x], {"k": k})
    for indexing in ("xy", "ij"):
        line = np.arange(3.0)
        got = xp.meshgrid(to_mine(line), to_mine(line[:2]), indexing=indexing)
        agree(got, strict.meshgrid(to_strict(line), to_strict(line[:2]), indexing=indexing), "grid")


def beside_default(name, args, kwargs):
    """Compares as ``beside``; float64 of array-api-strict is our default dtype."""
    theirs = getattr(strict, name)(*args, **{k: to_strict(v) for k, v in kwargs.items()})
    mine = getattr(xp, name)(*args, **{k: to_mine(v) for k, v in kwargs.items()})
    if kwargs.get("dtype") is None and str(theirs.dtype).endswith(("float64", "complex128")):
        assert mine.dtype in (cograd.float32, cograd.complex64)
        mine = mine.to(cograd.complex128 if mine.is_complex() else cograd.float64)
    np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs), rtol=1e-6, atol=1e-7)
    assert as_numpy(mine).dtype == as_numpy(theirs).dtype
    assert mine.shape == theirs.shape


def test_asarray_copies_as_it_is_told():
    x = cograd.ones(3)
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    assert xp.asarray(x, copy=True).data_ptr() != x.data_ptr()
    array = np.ones(3)
    assert xp.asarray(array, copy=False).data_ptr() == array.ctypes.data
    assert xp.asarray(array, copy=True).data_ptr() != array.ctypes.data
    with pytest.raises(ValueError, match="a copy is needed"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(ValueError, match="a copy is needed"):
        xp.asarray([1, 2], copy=False)
    assert xp.from_dlpack(array).data_ptr() == array.ctypes.data
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32).data_ptr() != x.data_ptr()


def test_dtypes():
    names = [*ALL]
    for a in names:
        for kind in (
            "bool",
            "signed integer",
            "unsigned integer",
            "integral",
            "real floating",
            "complex floating",
            "numeric",
        ):
            mine = xp.isdtype(getattr(xp, a), kind)
            assert mine == strict.isdtype(getattr(strict, a), kind), (a, kind)
        assert xp.isdtype(getattr(xp, a), (getattr(xp, a), "bool"))
        for b in names:
            try:
                theirs = strict.result_type(getattr(strict, a), getattr(strict, b))
            except TypeError:
                continue
            mine = xp.result_type(getattr(xp, a), xp.zeros((), dtype=getattr(xp, b)))
            assert str(mine).split(".")[-1] == str(theirs).split(".")[-1], (a, b)
            cast = strict.can_cast(getattr(strict, a), getattr(strict, b))
            assert xp.can_cast(getattr(xp, a), getattr(xp, b)) == cast, (a, b)
    for bad in ("float", 3):
        with pytest.raises((ValueError, TypeError)):
            xp.isdtype(xp.float32, bad)
    assert xp.finfo(xp.complex64).dtype == xp.float32
    assert xp.finfo(cograd.ones(1)).bits == 32
    assert xp.iinfo(xp.int16)[:3] == (16, 32767, -32768)
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert info.default_dtypes()["integral"] == xp.int64
    assert set(info.dtypes(kind="integral")) == set(INTS)
    assert info.devices() == [info.default_device()]


def matrices(draw, dtype, square=True):
    n = draw(st.integers(1, 4))
    m = n if square else draw(st.integers(1, 4))
    batch = draw(st.sampled_from([(), (2,)]))
    x = values(draw, (*batch, m, n), dtype, -2, 2)
    return x + (np.eye(n, dtype=dtype) * 5 if square else 0)


@pytest.mark.parametrize("dtype", FLOATS)
@settings
@hypothesis.given(data=st.data())
def test_linalg(dtype, data):
    a, b = matrices(data.draw, dtype), matrices(data.draw, dtype, square=False)
    n = a.shape[-1]
    hermitian = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(n, dtype=dtype)
    rhs = values(data.draw, (n, 2), dtype)
    for name in ("det", "inv", "slogdet", "trace", "diagonal", "matrix_transpose"):
        beside(name, [a], {}, "linalg")
    for upper in (False, True):
        beside("cholesky", [hermitian], {"upper": upper}, "linalg")
    beside("eigvalsh", [hermitian], {}, "linalg")
    beside("svdvals", [b], {}, "linalg")
    beside("pinv", [b], {}, "linalg")
    beside("matrix_rank", [b], {}, "linalg")
    beside("matrix_power", [a, 3], {}, "linalg")
    beside("solve", [a, rhs], {}, "linalg")
    beside("solve", [a[..., :, :], rhs[:, 0]], {}, "linalg")
    for ord in ("fro", "nuc", 1, -1, 2, np.inf):
        beside("matrix_norm", [b], {"ord": ord}, "linalg")
    for ord in (0, 1, 2, 3, np.inf, -np.inf):
        beside("vector_norm", [b], {"ord": ord, "axis": -1, "keepdims": True}, "linalg")
    beside("vector_norm", [b], {}, "linalg")
    beside("outer", [rhs[:, 0], rhs[:, 1]], {}, "linalg")
    three = values(data.draw, (2, 3), dtype)
    beside("cross", [three, three[::-1].copy()], {}, "linalg")
    for module in ("", "linalg"):
        beside("matmul", [a, rhs], {}, module)
        beside("tensordot", [a, rhs], {"axes": 1}, module)
        beside("tensordot", [rhs, rhs], {"axes": ((0,), (0,))}, module)
        beside("vecdot", [rhs, rhs * 2], {"axis": 0}, module)
    for name, parts in (("qr", {"mode": "reduced"}), ("qr", {"mode": "complete"}), ("svd", {})):
        mine = getattr(xp.linalg, name)(to_mine(b), **parts)
        theirs = getattr(strict.linalg, name)(to_strict(b), **parts)
        assert mine._fields == theirs._fields
        assert [x.shape for x in mine] == [x.shape for x in theirs]
    q, r = map(as_numpy, xp.linalg.qr(to_mine(b)))
    np.testing.assert_allclose(q @ r, b, atol=1e-4)
    values_, vectors = map(as_numpy, xp.linalg.eigh(to_mine(hermitian)))
    scale = np.abs(hermitian).max()
    np.testing.assert_allclose(
        hermitian @ vectors / scale, vectors * values_[..., None, :] / scale, atol=1e-4
    )


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@settings
@hypothesis.given(data=st.data())
def test_fft(name, data):
    real = name in ("rfft", "ihfft")
    dtype = data.draw(st.sampled_from(REALS if real else COMPLEX))
    x = values(data.draw, data.draw(full_shapes), dtype)
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    if name in ("irfft", "hfft") and x.shape[axis] < 2:
        hypothesis.reject()
    beside(name, [x], {"norm": norm, "axis": axis}, "fft")
    beside(name, [x], {"n": 5, "axis": axis}, "fft")
    if name + "n" in xp.fft.__all__ and not (name == "irfft" and x.shape[-1] < 2):
        beside(name + "n", [x], {"norm": norm}, "fft")


def test_fft_frequencies():
    for n in (4, 5):
        for name in ("fftfreq", "rfftfreq"):
            mine = getattr(xp.fft, name)(n, d=0.5, dtype=xp.float64)
            agree(mine, getattr(strict.fft, name)(n, d=0.5, dtype=strict.float64), name)
        for name in ("fftshift", "ifftshift"):
            beside(name, [np.arange(2.0 * n).reshape(2, n)], {}, "fft")
            beside(name, [np.arange(2.0 * n).reshape(2, n)], {"axes": 1}, "fft")


def test_every_name_of_the_standard_is_there():
    skipped = {"broadcast_shapes", "isin", "Device"}  # of later versions, or without a public name
    names = [n for n in strict.__all__ if "flags" not in n.lower() and not n.startswith("__")]
    assert {n for n in names if not hasattr(xp, n)} <= skipped
    for module in ("linalg", "fft"):
        theirs, mine = getattr(strict, module), getattr(xp, module)
        public = getattr(theirs, "__all__", mine.__all__)
        assert {n for n in public if not hasattr(mine, n)} <= {"eig", "eigvals"}
    for name in xp.__all__:
        value = getattr(xp, name)
        if inspect.isfunction(value):
            assert value.__doc__, name


def test_names_of_parameters():
    for module in ("", "linalg", "fft"):
        mine, theirs = (getattr(m, module) if module else m for m in (xp, strict))
        for name in getattr(mine, "__all__", ()):
            a, b = getattr(mine, name), getattr(theirs, name, None)
            if not inspect.isfunction(a) or b is None or name in ("__array_namespace_info__",):
                continue
            keywords = {
                p.name
                for p in inspect.signature(b).parameters.values()
                if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")
            }
            own = inspect.signature(a).parameters
            assert keywords <= set(own), (name, keywords - set(own))


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5, -1.5, 2.5]
SPECIAL += [np.inf, -np.inf, np.nan, 1e-300, 1e300, np.pi, -np.pi]


def test_special_values():
    """Zeros of both signs, infinities and NaN, in every function of one and two real numbers."""
    one = np.array(SPECIAL)
    two = [g.reshape(-1) for g in np.meshgrid(one, one)]
    names = [n for n in xp._elementwise if n not in ("clip", "remainder")]
    tried = 0
    for name in names:
        for arrays in ([one], two):
            with np.errstate(all="ignore"):
                try:
                    theirs = getattr(strict, name)(*map(strict.asarray, arrays))._array
                except (TypeError, ValueError):
                    continue
            tried += 1
            mine = getattr(xp, name)(*map(cograd.tensor, arrays)).numpy()
            if mine.dtype.kind == "f":
                np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=0, err_msg=name)
                numbers = ~np.isnan(theirs)
                mine, theirs = np.signbit(mine)[numbers], np.signbit(theirs)[numbers]
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
    assert tried > 45


def test_the_namespace_of_a_tensor():
    x = cograd.ones(2, requires_grad=True)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="unsupported version '1999.12'"):
        x.__array_namespace__(api_version="1999.12")
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match="no streams"):
        x.to_device("cpu", stream=1)
    y = xp.sum(xp.exp(x) * xp.astype(x, xp.float32))
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * np.e] * 2)
