# SPDX-License-Identifier: BSD-3-Clause
"""uint16, uint32 and uint64 agree with NumPy, including wraparound, wherever they are allowed."""

import copy
import itertools
import operator
import pickle

import numpy as np
import pytest
from op_table import TABLE, arguments, samples_of, tree_map

import cograd as torch
from cograd.func import vmap

NAMES = ("uint16", "uint32", "uint64")
OTHERS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
MORE = (*OTHERS, "complex64", "complex128", *NAMES)


def edges(name):
    """Returns numbers around each point at which signed and unsigned integers differ."""
    bits = 8 * np.dtype(name).itemsize
    near = [0, 1, 2, 3, 7, 100, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2 ** (bits - 1) + 1]
    return np.array([*near, 2**bits - 2, 2**bits - 1, 5], dtype=name)


def pairs(name):
    a, b = np.meshgrid(edges(name), edges(name))
    return a.reshape(-1).copy(), b.reshape(-1).copy()


def same(mine, theirs, dtype=None):
    theirs = np.asarray(theirs)
    if dtype is not None:
        theirs = theirs.astype(dtype)
    array = mine.numpy()
    assert array.dtype == theirs.dtype, (array.dtype, theirs.dtype)
    np.testing.assert_array_equal(array, theirs)


# ---------------------------------------------------------------- elements in and out


@pytest.mark.parametrize("name", NAMES)
def test_ways_in_and_out(name, tmp_path):
    dtype, array = getattr(torch, name), edges(name)
    values = [int(v) for v in array]
    x = torch.tensor(values, dtype=dtype)
    same(x, array)
    assert x.tolist() == values and [v.item() for v in x] == values and int(x[-2]) == values[-2]
    assert x.sum().dtype == torch.int64
    for made in (torch.from_numpy(array), torch.tensor(array), torch.as_tensor(list(array))):
        assert made.dtype == dtype and made.tolist() == values
    assert torch.from_dlpack(array).tolist() == np.from_dlpack(x).tolist() == values
    assert memoryview(x).tolist() == values
    assert pickle.loads(pickle.dumps(x)).tolist() == copy.deepcopy(x).tolist() == values
    torch.serialization.save({"x": x}, tmp_path / "a.safetensors")
    same(torch.serialization.load(tmp_path / "a.safetensors")["x"], array)
    assert f"{values[-2]}" in repr(x) and f"dtype=cograd.{name}" in repr(x)
    assert eval(repr(x), {"tensor": torch.tensor, "cograd": torch}).tolist() == values
    top = values[-2]
    info = torch.iinfo(dtype)
    assert (info.min, info.max, info.bits) == (0, top, 8 * dtype.itemsize)
    assert not dtype.is_signed and not dtype.is_floating_point and not x.is_signed()
    assert torch.full((2,), top, dtype=dtype).tolist() == [top, top]
    assert torch.zeros(2, dtype=dtype).fill_(top).tolist() == [top, top]
    assert torch.arange(top - 3, top, dtype=dtype).tolist() == [top - 3, top - 2, top - 1]
    assert torch.ones_like(x).sum() == len(values)
    drawn = torch.randint(0, 60000, (1000,), dtype=dtype)
    assert drawn.dtype == dtype and 50000 < drawn.max().item() < 60000
    assert torch.randint_like(x, 3, 5).unique().tolist() == [3, 4]
    assert drawn.random_(7, 9).unique().tolist() == [7, 8]
    assert drawn.random_(2).dtype == dtype and drawn.max().item() == 1
    for wrong in (top + 1, -top - 1, 1e30):
        with pytest.raises((RuntimeError, ValueError)):
            torch.tensor([wrong], dtype=dtype)
    with pytest.raises(RuntimeError, match="floating point and complex dtype"):
        torch.zeros(2, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("other", MORE)
@pytest.mark.parametrize("name", NAMES)
def test_casts(name, other):
    array = edges(name)
    for n in (len(array), 5000):  # also in several blocks, and with strides
        a = np.resize(array, n)
        if other == "float16":
            a = np.minimum(a, 60000)
        with np.errstate(all="ignore"):
            same(torch.tensor(a).to(getattr(torch, other)), a.astype(other))
            same(torch.tensor(a)[::3].to(getattr(torch, other)), a[::3].astype(other))
        back = np.array([0, 1, 2, 100, 127, 3], dtype=other)
        if other in ("float32", "float64", "complex64", "complex128"):
            back = np.append(back, [2.0 ** (8 * array.itemsize - 1), 65535.0, 7.9]).astype(other)
        if other in ("int8", "int16", "int32", "int64"):
            back = np.append(back, [-1, np.iinfo(other).min, np.iinfo(other).max]).astype(other)
        back = np.resize(back, n)
        with np.errstate(all="ignore"):
            expected = (back.real if np.iscomplexobj(back) else back).astype(name)
        same(torch.tensor(back).to(getattr(torch, name)), expected)
        same(torch.tensor(back)[1::2].to(getattr(torch, name)), expected[1::2])


def test_rounding_of_casts():
    """Casts round once, not twice."""
    rng = np.random.default_rng(0)
    a = rng.integers(2**63, 2**64, 3000, dtype=np.uint64) >> rng.integers(0, 40, 3000, dtype="u8")
    for name in ("float32", "float64", "complex64"):
        same(torch.tensor(a).to(getattr(torch, name)), a.astype(name))
    same(torch.tensor(a).to(torch.uint32).to(torch.float32), a.astype("u4").astype("f4"))


# ---------------------------------------------------------------- promotion


def test_promotion():
    for a, b in itertools.product(NAMES, MORE):
        expected = np.promote_types(a, b).name
        if b.startswith(("float", "complex")):  # torch: the float
            expected = b
        for pair in ((a, b), (b, a)):
            mine = torch.promote_types(*(getattr(torch, n) for n in pair))
            assert mine == getattr(torch, expected), pair
    x = torch.ones(2, dtype=torch.uint16)
    assert (x + 1).dtype == (x + torch.tensor(1)).dtype == (x * True).dtype == torch.uint16
    assert (x + 1.5).dtype == (x / x).dtype == torch.float32
    assert (x + torch.ones(2, dtype=torch.int8)).dtype == torch.int32
    assert (x.to(torch.uint64) + torch.ones(2, dtype=torch.int64)).dtype == torch.float64
    with pytest.raises(RuntimeError, match="can't be cast"):
        x += 1.5
    assert torch.can_cast(torch.uint64, torch.float32)
    assert not torch.can_cast(torch.float32, torch.uint64)


# ---------------------------------------------------------------- arithmetic

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "gcd": np.gcd,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "true_divide": np.true_divide,
}
INPLACE = {"add", "sub", "mul", "floor_divide", "remainder", "bitwise_xor", "bitwise_and"}


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("name", NAMES)
def test_two_operands(op, name):
    a, b = pairs(name)
    if op in ("floor_divide", "remainder", "fmod", "true_divide"):
        b = np.where(b == 0, np.array(9, name), b)
    f, g = getattr(torch, op), BINARY[op]
    cast = "float32" if op == "true_divide" else None
    check = same
    if cast:  # NumPy divides in float64

        def check(mine, theirs, dtype):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=3e-7)

    x, y = torch.tensor(a), torch.tensor(b)
    check(f(x, y), g(a, b), cast)
    check(f(x[::2], y[1::2]), g(a[::2], b[1::2]), cast)
    check(f(x.reshape(12, 12).T, y[:12]), g(a.reshape(12, 12).T, b[:12]), cast)
    check(f(x[:0], y[:0]), g(a[:0], b[:0]), cast)
    many = np.resize(a, 40000)
    check(f(torch.tensor(many), y[7]), g(many, b[7]), cast)
    if not op.startswith(("f", "gcd", "maximum", "minimum", "logical")) or op == "floor_divide":
        check(f(x, 5), g(a, np.array(5, name)), cast)
    out = torch.empty(0, dtype=f(x, y).dtype)
    f(x, y, out=out)
    check(out, g(a, b), cast)
    if op in INPLACE:
        z = x.clone()
        getattr(z, op + "_")(y)
        same(z, g(a, b))
        whole = torch.zeros(len(a), 2, dtype=x.dtype)
        whole[:, 1] = x
        getattr(whole[:, 1], op + "_")(y)
        same(whole[:, 1], g(a, b))


@pytest.mark.parametrize("name", NAMES)
def test_shifts_powers_and_one_operand(name):
    array, bits = edges(name), 8 * np.dtype(name).itemsize
    x = torch.tensor(array)
    for k in (0, 1, bits // 2, bits - 1):
        by = np.full_like(array, k)
        same(x << k, array << by)
        same(x >> k, array >> by)
        same(torch.bitwise_right_shift(x, torch.tensor(by)), array >> by)
    same(x >> bits, np.zeros_like(array))
    for k in (0, 1, 2, 3, 5):
        same(x**k, array ** np.array(k, name))
        same(torch.pow(x, torch.tensor(np.full_like(array, k))), array ** np.array(k, name))
    same(-x, -array)
    same(~x, ~array)
    same(abs(x), array)
    same(x.sign(), np.sign(array))
    same(torch.square(x), array * array)
    same(x.signbit(), np.zeros(len(array), bool))
    for op in ("floor", "ceil", "trunc", "round", "positive"):
        same(getattr(torch, op)(x), array)
    same(x.logical_not(), array == 0)
    same(torch.isfinite(x), np.ones(len(array), bool))
    np.testing.assert_allclose(x.sqrt().numpy(), np.sqrt(array.astype("f8")), rtol=1e-6)
    top = int(array.max())
    same(x.clamp(3, top - 1), array.clip(3, top - 1))
    same(x.clamp(min=top // 2), array.clip(top // 2, None))
    same(x.clamp(max=x.flip(0)), np.minimum(array, array[::-1]))
    same(torch.where(x > 3, x, x + 1), np.where(array > 3, array, array + 1))
    same(torch.addcmul(x, x, x, value=2), array + 2 * array * array)
    same(torch.add(x, x, alpha=3), array + 3 * array)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x // torch.zeros_like(x)
    same(x == int(array[-2]), array == array[-2])
    same(x < top, array < top)


def test_large_numbers():
    """Only uint64 can hold these Python ints."""
    x = torch.tensor([1, 2**63 + 5, 2**64 - 1], dtype=torch.uint64)
    assert (x - (2**63 + 5)).tolist() == [2**63 - 4, 0, 2**63 - 6]
    assert (x == 2**64 - 1).tolist() == [False, False, True]
    assert (x >= 2**63).tolist() == [False, True, True]
    x[0] = 2**63 + 1
    assert x[0].item() == 2**63 + 1 and bool(x[0] == 2**63 + 1)
    x[x > 2**63 + 4] = 2**64 - 2
    assert x.tolist() == [2**63 + 1, 2**64 - 2, 2**64 - 2]
    assert (x.to(torch.float64) * 1.0).tolist() == [2.0**63, 2.0**64, 2.0**64]
    assert torch.tensor(1.0).add(2**63).item() == 2.0**63
    assert x.clamp(5, 2**63 + 2).tolist() == [2**63 + 1, 2**63 + 2, 2**63 + 2]
    assert torch.where(x > 0, 2**64 - 1, x).tolist() == [2**64 - 1] * 3
    assert x.masked_fill(x > 2**63 + 1, 2**63).tolist() == [2**63 + 1, 2**63, 2**63]
    assert torch.isin(x, 2**64 - 2).tolist() == [False, True, True]
    near = torch.arange(2**63 - 2, 2**63 + 2, dtype=torch.uint64)
    assert near.tolist() == [2**63 - 2, 2**63 - 1, 2**63, 2**63 + 1]
    assert int(near[-1]) == operator.index(near[-1]) == 2**63 + 1 and float(near[2]) == 2.0**63
    assert torch.full((1,), 2**63).dtype == torch.uint64
    with pytest.raises(ValueError, match="an index must fit int64"):
        near[near[2]]
    with pytest.raises(RuntimeError, match="too long"):
        torch.arange(0, 2**63 + 1, dtype=torch.uint64)
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        torch.tensor([2**63])
    with pytest.raises((RuntimeError, ValueError)):
        torch.full((1,), 2**63, dtype=torch.int64)


@pytest.mark.parametrize("name", [*OTHERS, "uint16", "uint32"])
def test_large_numbers_beside_other_dtypes(name):
    """An int that only uint64 can hold is a float there, as larger ints are."""
    x, n = torch.tensor([0, 1]).to(getattr(torch, name)), 2**63 + 3
    functions = [
        lambda v: x + v,
        lambda v: v / (x + 1.0),
        lambda v: x * v,
        lambda v: x < v,
        lambda v: x == v,
        lambda v: x**v,
        lambda v: torch.where(x > 0, x, v),
    ]
    if name != "float16":  # a limit must be representable in the dtype
        functions.append(lambda v: x.clamp(max=v))
    for f in functions:
        mine, as_float = f(n), f(float(n))
        assert mine.dtype == as_float.dtype
        np.testing.assert_array_equal(mine.numpy(), as_float.numpy())
    if x.is_floating_point():
        np.testing.assert_array_equal(x.add(x, alpha=n).numpy(), x.add(x, alpha=float(n)).numpy())
        np.testing.assert_array_equal((x - n).numpy(), (x - float(n)).numpy())


# ---------------------------------------------------------------- reductions, order, indices


@pytest.mark.parametrize("name", NAMES)
def test_sums_and_extremes(name):
    rng = np.random.default_rng(1)
    top = np.iinfo(name).max
    array = rng.integers(0, top, (7, 40, 3), dtype=name, endpoint=True)
    array[2, 5] = top
    x = torch.tensor(array)
    wide = array.astype("uint64")
    for dim in (None, 0, 1, 2):
        same(x.sum(dim), wide.sum(dim).astype("int64"))
        same(x.sum(dim, dtype=torch.uint64), wide.sum(dim))
        same(x.sum(dim, dtype=x.dtype), array.sum(dim, dtype=name))
        same(x.amax(dim), array.max(dim))
        same(x.amin(dim), array.min(dim))
        same(x.argmax(dim), array.argmax(dim))
        same(x.argmin(dim), array.argmin(dim))
        same(x.any(dim), array.any(dim))
        same(torch.count_nonzero(x, dim), np.count_nonzero(array, dim))
    same(x.max(), array.max())
    same(x.min(), array.min())
    values, indices = x.max(1)
    same(values, array.max(1))
    same(indices, array.argmax(1))
    out = torch.empty(0, dtype=x.dtype), torch.empty(0, dtype=torch.int64)
    torch.min(x, 0, out=out)
    same(out[0], array.min(0))
    same(torch.amax(x, 0, out=torch.empty(0, dtype=x.dtype)), array.max(0))
    same(torch.aminmax(x).max, array.max())
    same(x.prod(1, dtype=torch.uint64), wide.prod(1))
    same(x.cumsum(1), wide.cumsum(1).astype("int64"))
    same(x.cumsum(1, dtype=x.dtype), array.cumsum(1, dtype=name))
    same(x.cumprod(1, dtype=torch.uint64), wide.cumprod(1))
    same(x.cummax(1).values, np.maximum.accumulate(array, 1))
    same(x.cummin(1).values, np.minimum.accumulate(array, 1))
    mean = x.mean(dtype=torch.float64).item()
    assert mean == pytest.approx(array.mean())
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        x.mean()


@pytest.mark.parametrize("name", NAMES)
def test_order(name):
    rng = np.random.default_rng(2)
    array = rng.choice(edges(name), (5, 60))
    x = torch.tensor(array)
    for descending in (False, True):
        values, indices = x.sort(1, descending)
        expected = np.sort(array, 1)
        same(values, expected[:, ::-1] if descending else expected)
        same(x.gather(1, indices), values.numpy())
        same(x.gather(1, x.argsort(1, descending)), values.numpy())
    same(x.argsort(0), array.argsort(0, kind="stable"))
    same(x.topk(4, 1).values, np.sort(array, 1)[:, :-5:-1])
    same(x.kthvalue(3, 1).values, np.sort(array, 1)[:, 2])
    same(x.median(1).values, np.sort(array, 1)[:, 29])
    same(x.msort(), np.sort(array, 0))
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    expected = np.unique(array, return_inverse=True, return_counts=True)
    for mine, theirs in zip((values, inverse.reshape(-1), counts), expected):
        same(mine, theirs.reshape(-1))
    same(x.unique(), expected[0])
    same(x[0].unique_consecutive(), array[0][np.append(True, array[0][1:] != array[0][:-1])])
    keys = np.sort(edges(name))
    same(torch.searchsorted(torch.tensor(keys), x), np.searchsorted(keys, array))
    same(torch.bucketize(x, torch.tensor(keys), right=True), np.searchsorted(keys, array, "right"))
    same(torch.isin(x, x[0, :2]), np.isin(array, array[0, :2]))
    small = torch.tensor([3, 1, 3, 0], dtype=x.dtype)
    assert small.bincount().tolist() == [1, 1, 0, 2]
    assert torch.equal(vmap(lambda row: row.sort()[0])(x), x.sort(1)[0])
    assert torch.equal(vmap(lambda row: row.cummax(0)[0])(x), x.cummax(1)[0])
    assert torch.equal(vmap(torch.lt)(x, x.flip(1)), x < x.flip(1))


@pytest.mark.parametrize("name", NAMES)
def test_indices_shapes_and_products(name):
    array = np.resize(edges(name), (6, 8))
    x = torch.tensor(array)
    same(x[1:, ::2], array[1:, ::2])
    same(x[::-1, [0, 3]], array[::-1, [0, 3]])
    same(x[x > 3], array[array > 3])
    same(torch.cat([x, x.T.reshape(6, 8)]), np.concatenate([array, array.T.reshape(6, 8)]))
    same(torch.stack([x, x], 1), np.stack([array, array], 1))
    same(x.roll(3).flip(1), np.roll(array, 3)[:, ::-1])
    same(x.take(torch.tensor([0, 5])), array.take([0, 5]))
    same(x.index_select(1, torch.tensor([2, 2])), array[:, [2, 2]])
    same(x.masked_fill(x > 9, 4), np.where(array > 9, 4, array), name)
    same(x.tril(), np.tril(array))
    same(torch.nonzero(x), np.argwhere(array))
    y, z = x.clone(), array.copy()
    y[2], z[2] = y[3], z[3]
    y[:, 1] += 7
    z[:, 1] += 7
    np.add.at(z, ([1, 1], [0, 0]), z[0, 6:8])
    y.index_put_((torch.tensor([1, 1]), torch.tensor([0, 0])), y[0, 6:8].clone(), accumulate=True)
    same(y, z)
    same(x @ x.T, array @ array.T)
    same(x.to(torch.int64) // 3 * 3 + x.to(torch.int64) % 3, array, "int64")
    same(x.diff(), np.diff(array))
    assert torch.equal(x, x.clone()) and torch.allclose(x, x)
    for _ in range(2):
        with pytest.raises(IndexError, match="tensors used as indices"):
            x[x[0]]
    assert x[torch.tensor(2, dtype=x.dtype)].tolist() == array[2].tolist()
    w = torch.ones(6, 8, requires_grad=True)
    torch.where(x > 3, w * x, w).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.where(array > 3, array, 1), rtol=1e-6)


# ---------------------------------------------------------------- every op


def unsigned_arguments(record, sample, dtype, top):
    """Returns the sample in a dtype (odd ones plus `top`), and whether any is a tensor."""
    found = []

    def convert(t):
        if t.dtype == torch.bool or t.is_complex():
            return t
        found.append(t)
        if t.dtype == torch.int64:  # may be indices
            return t.abs().to(dtype)
        whole = t.abs().mul(9).to(torch.int64)
        return (whole + whole % 2 * top).to(dtype)

    return tree_map(convert, arguments(record, sample)), bool(found)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_every_op_agrees_with_int64_or_refuses(dtype):
    """The same numbers in int64 agree, also above the signed range; others raise with a reason."""
    top = 0 if dtype is torch.uint64 else 2 ** (8 * dtype.itemsize - 1)
    refusals = (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError)
    agreed = refused = 0
    for record in TABLE:
        if record["internal"] or not record["function"] or record["kind"] == "random":
            continue
        f = getattr(torch, record["name"], None)
        if record["name"].startswith(("_", "empty", "resize")) or f is None:
            continue
        if "trap" in record["name"]:  # differences that wrap, in floats
            continue
        for sample in samples_of(record):
            (args, kwargs), found = unsigned_arguments(record, sample, dtype, top)
            if not found:
                continue
            try:
                with torch.no_grad():
                    mine = f(*args, **kwargs)
            except refusals:
                refused += 1
                continue
            (args, kwargs), _ = unsigned_arguments(record, sample, torch.int64, top)
            try:
                theirs = f(*args, **kwargs)
            except refusals:
                continue
            agreed += 1
            compare(record["name"], mine, theirs, dtype)
    assert agreed > 250 and refused > 100, (agreed, refused)


def compare(name, mine, theirs, dtype):
    if isinstance(theirs, (tuple, list)):
        for a, b in zip(mine, theirs):
            compare(name, a, b, dtype)
    elif isinstance(theirs, torch.Tensor):
        assert mine.shape == theirs.shape, name
        if theirs.dtype == torch.int64 and mine.dtype == dtype:
            theirs = theirs.to(dtype)  # wraps as it should
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
    elif not isinstance(theirs, torch.Tensor):
        assert mine == theirs, name
