# SPDX-License-Identifier: BSD-3-Clause
"""The stated order of matrix products (docs/numerics.md), element by element and on every path."""

import hashlib
import itertools
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import cograd as torch
from cograd import backends

BLOCK = 128
LEVEL = backends.cpu.get_cpu_capability()
FUSED = LEVEL != "DEFAULT" or platform.machine() == "aarch64"
DTYPES = ("float32", "float64")


@pytest.fixture(autouse=True)
def keep_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def to_odd(a, b):
    """Returns a + b, rounded to the neighbour with an odd last bit if it is inexact."""
    s, error = two_sum(a, b)
    even = (s.view(np.int64) & 1) == 0
    return np.where((error != 0) & even, np.nextafter(s, np.copysign(np.inf, error)), s)


def fma(a, b, c):
    """Returns a * b + c with one rounding (Boldo and Melquiond), or two without such a level."""
    if not FUSED:
        return a * b + c
    if c.dtype == np.float32:
        a, b, c = (np.asarray(x, np.float64) for x in (a, b, c))
        return to_odd(a * b, c).astype(np.float32)
    a, b = np.broadcast_arrays(np.float64(a), np.float64(b))
    product = a * b
    parts = []
    for x in (a, b):
        big = x * 134217729.0
        high = big - (big - x)
        parts.append((high, x - high))
    (ah, al), (bh, bl) = parts
    low = al * bl - (((product - ah * bh) - al * bh) - ah * bl)
    th, tl = two_sum(c, low)
    vh, vl = two_sum(product, th)
    return vh + to_odd(tl, vl)


def add_block(start, alpha, block):
    if start is None:
        return alpha * block
    return fma(np.full_like(block, alpha), block, start)


def stated(a, b, c=None, alpha=1.0, beta=0.0):
    """Returns alpha a b + beta c in the stated order; a, b and c have the same dtype."""
    alpha, beta = a.dtype.type(alpha), a.dtype.type(beta)
    out = None if beta == 0 else beta * c
    for first in range(0, a.shape[1], BLOCK):
        block = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for p in range(first, min(first + BLOCK, a.shape[1])):
            block = fma(a[:, p, None], b[None, p, :], block)
        out = add_block(out, alpha, block)
    return out


def stated_rows(a, x, y=None, alpha=1.0, beta=0.0, chains=64):
    """Returns alpha a x + beta y for rows of a along k: chains that are added in pairs."""
    chains //= a.itemsize
    alpha, beta = a.dtype.type(alpha), a.dtype.type(beta)
    k = -a.shape[1] % chains
    a, x = np.pad(a, ((0, 0), (0, k))), np.pad(x, (0, k))
    sums = np.zeros((a.shape[0], chains), a.dtype)
    for first in range(0, a.shape[1], chains):
        sums = fma(a[:, first : first + chains], x[None, first : first + chains], sums)
    while chains > 1:
        chains //= 2
        sums = sums[:, :chains] + sums[:, chains:]
    return add_block(None if beta == 0 else beta * y, alpha, sums[:, 0])


def stated_for(la, lb, a, b, c, alpha, beta):
    """Returns what these layouts give: narrow results of rows along k are made column by column."""
    rows_along_k = "t" not in la[0] and "t" in lb[0]
    if not rows_along_k or b.shape[1] > 4 or b.shape[0] < 64:
        return stated(a, b, c, alpha, beta)
    columns = [stated_rows(a, x, y, alpha, beta) for x, y in zip(b.T, c.T, strict=True)]
    return np.stack(columns, axis=1)


def values(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def laid(x, layout):
    """Returns a tensor of these values: as they lie, transposed, or a window of a larger matrix."""
    if layout == "plain":
        return torch.from_numpy(x.copy())
    if layout == "transposed":
        return torch.from_numpy(x.T.copy()).t()
    room = np.full((x.shape[0] + 2, x.shape[1] + 3), np.nan, x.dtype)
    room[1:-1, 2:-1] = x
    if layout == "window":
        return torch.from_numpy(room)[1:-1, 2:-1]
    return torch.from_numpy(room.T.copy()).t()[1:-1, 2:-1]


LAYOUTS = list(itertools.product(("plain", "transposed", "window", "turned window"), repeat=2))
SIZES = (2, 3, 5, 6, 7, 8, 12, 13, 14, 15, 16, 17, 28, 31, 32, 33, 50, 65)
DEPTHS = (1, 2, 7, 8, 9, 31, 64, 127, 128, 129, 200, 256, 257, 300, 513)


def same(got, expected):
    got = got.numpy() if isinstance(got, torch.Tensor) else got
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), expected.view(f"u{got.itemsize}"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(dtype, seed):
    rng = np.random.default_rng(seed)
    for case in range(10):
        m, n, k = rng.choice(SIZES), rng.choice(SIZES), rng.choice(DEPTHS)
        la, lb = LAYOUTS[(seed * 10 + case) % len(LAYOUTS)]
        alpha, beta = rng.choice([1.0, -1.0, 0.3]), rng.choice([0.0, 1.0, 0.7])
        a, b, c = (values(s, dtype, seed * 31 + i) for i, s in enumerate([(m, k), (k, n), (m, n)]))
        expected = stated_for(la, lb, a, b, c, alpha, beta)
        for threads in (1, 16):
            torch.set_num_threads(threads)
            got = torch.addmm(torch.from_numpy(c), laid(a, la), laid(b, lb), alpha=alpha, beta=beta)
            same(got, expected)


# Shapes that are packed, divided among threads, or have a divided k.
LARGE = [
    (130, 140, 300),
    (300, 70, 260),
    (33, 600, 257),
    (8, 300, 1030),
    (20, 40, 4096),
    (257, 256, 129),
    (15, 33, 700),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large_shapes_on_all_paths(dtype, shape):
    m, n, k = shape
    a, b, c = values((m, k), dtype, 1), values((k, n), dtype, 2), values((m, n), dtype, 3)
    plain, mixed = stated(a, b), stated(a, b, c, 0.3, 0.7)
    for threads, (la, lb) in itertools.product((1, 2, 3, 16), LAYOUTS[::3]):
        torch.set_num_threads(threads)
        x, y = laid(a, la), laid(b, lb)
        same(x @ y, plain)
        same(torch.addmm(torch.from_numpy(c), x, y, alpha=0.3, beta=0.7), mixed)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_change_no_bit(dtype):
    for m, n, k in [(512, 512, 512), (1000, 70, 300), (70, 2000, 300), (14, 32, 9000)]:
        a, b = (
            torch.from_numpy(values((m, k), dtype, 1)),
            torch.from_numpy(values((k, n), dtype, 2)),
        )
        torch.set_num_threads(1)
        expected = (a @ b).numpy()
        some = [0, m // 2, m - 1]
        same(expected[some], stated(a.numpy()[some], b.numpy()))
        for threads in range(2, 17):
            torch.set_num_threads(threads)
            same(a @ b, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype):
    for out, k in itertools.product((1, 2, 3, 5, 17, 64, 131, 1100), DEPTHS):
        a, x, y = values((out, k), dtype, 1), values((k,), dtype, 2), values((out,), dtype, 3)
        columns = stated(a, x[:, None])[:, 0]
        for layout in ("plain", "window"):
            t = laid(a, layout)
            same(t @ torch.from_numpy(x), stated_rows(a, x))
            same(torch.nn.functional.linear(torch.from_numpy(x[None]), t)[0], stated_rows(a, x))
            strided = torch.from_numpy(np.repeat(x, 3))[::3]
            same(t @ strided, stated_rows(a, x))
        if out > 1 and k > 1:
            same(laid(a, "transposed") @ torch.from_numpy(x), columns)
            got = torch.addmm(
                torch.from_numpy(y[:, None].copy()),
                laid(a, "turned window"),
                torch.from_numpy(x[:, None].copy()),
                alpha=0.3,
                beta=0.7,
            )
            same(got[:, 0], stated(a, x[:, None], y[:, None], 0.3, 0.7)[:, 0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_narrow_results_of_rows_along_k(dtype):
    for m, n, k in itertools.product((1, 2, 5, 300), (2, 3, 4), (64, 257, 1030)):
        a, w, c = values((m, k), dtype, 1), values((n, k), dtype, 2), values((m, n), dtype, 3)
        expected = stated_for("plain", "transposed", a, w.T, c, 0.3, 0.7)
        for threads in (1, 16):
            torch.set_num_threads(threads)
            x, y, z = (torch.from_numpy(v) for v in (a, w, c))
            same(torch.addmm(z, x, y.t(), alpha=0.3, beta=0.7), expected)
            whole = torch.nn.functional.linear(x, y)
            same(torch.nn.functional.linear(x[:1], y), whole[:1].numpy())
            same(torch.bmm(x.expand(3, m, k), y.t().expand(3, k, n))[2], whole.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
def test_single_elements(dtype):
    for k in (1, 5, 130, 1000):
        x, y = values((k,), dtype, 1), values((k,), dtype, 2)
        expected = stated_rows(x[None], y)
        row, column = torch.from_numpy(x[None]), torch.from_numpy(y[:, None].copy())
        strided = torch.from_numpy(np.repeat(y, 3)[:, None].copy())[::3]
        same((row @ column)[0], expected)
        same((row @ strided)[0], expected)
        same((strided.t() @ row.t())[0], expected)
        same(torch.bmm(row.expand(3, 1, k), column.expand(3, k, 1))[2, 0], expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_without_alpha_nothing_is_read(dtype):
    dtype = getattr(torch, dtype)
    for m, n, k in [(2, 2, 2), (1, 5, 3), (5, 1, 3), (40, 50, 60), (1, 1, 9)]:
        a, b = torch.full((m, k), float("nan"), dtype=dtype), torch.ones(k, n, dtype=dtype)
        c = torch.ones(m, n, dtype=dtype)
        assert torch.equal(torch.addmm(c, a, b, alpha=0), c)
        assert torch.equal(torch.addmm(c, a, b, alpha=0, beta=2), 2 * c)
        assert torch.equal(torch.baddbmm(c[None], a[None], b[None], alpha=0)[0], c)
    c = torch.ones(3, 3, dtype=dtype)
    none = torch.addmm(c, c[:, :0], c[:0], beta=0, alpha=-1)
    assert torch.equal(1 / none.real.float(), torch.full((3, 3), float("inf")))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_row_is_a_row_of_the_whole(dtype):
    for k, n in [(64, 64), (300, 33), (1000, 1500), (129, 5)]:
        a, b = (
            torch.from_numpy(values((40, k), dtype, 1)),
            torch.from_numpy(values((k, n), dtype, 2)),
        )
        whole = (a @ b).numpy()
        for threads in (1, 5):
            torch.set_num_threads(threads)
            for i in (0, 13, 39):
                same(a[i : i + 1] @ b, whole[i : i + 1])
                same(a[i] @ b, whole[i])
            same(a[7:20] @ b, whole[7:20])
            same(a @ b[:, 2:5], np.ascontiguousarray(whole[:, 2:5]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dot(dtype):
    for n in (1, 5, 31, 32, 33, 255, 256, 257, 1000, 65536):
        x, y = values((n,), dtype, 1), values((n,), dtype, 2)
        expected = stated_rows(x[None], y, chains=128)[0]
        for step in (1, 3):
            a, b = (torch.from_numpy(np.repeat(v, step))[::step] for v in (x, y))
            same(torch.dot(a, b).numpy().reshape(1), expected.reshape(1))
    x, y = (torch.from_numpy(values((200_000,), dtype, i)) for i in (1, 2))
    pieces = [torch.dot(x[i : i + 65536], y[i : i + 65536]) for i in range(0, 200_000, 65536)]
    expected = np.dtype(dtype).type(sum(float(p) for p in pieces))
    for threads in (1, 2, 7):
        torch.set_num_threads(threads)
        same(torch.dot(x, y).numpy().reshape(1), np.array([expected]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_are_loops(dtype):
    for count, m, n, k, step in [
        (9, 5, 7, 130, 1),
        (40, 20, 33, 64, 1),
        (3, 150, 140, 130, 1),
        (2, 300, 310, 280, 1),
        (5, 60, 70, 300, 0),
        (4, 1, 300, 200, 1),
        (4, 300, 1, 200, 1),
    ]:
        a = torch.from_numpy(values((count, m, k), dtype, 1))
        b = torch.from_numpy(values((count if step else 1, k, n), dtype, 2)).expand(count, k, n)
        expected = np.stack([(x @ y).numpy() for x, y in zip(a, b, strict=True)])
        turned = np.stack([(x @ y.mT.contiguous().mT).numpy() for x, y in zip(a, b, strict=True)])
        for threads in (1, 2, 16):
            torch.set_num_threads(threads)
            same(torch.bmm(a, b), expected)
            same(a @ b.mT.contiguous().mT, turned)


@pytest.mark.parametrize("dtype", DTYPES)
def test_forms_of_a_product_agree(dtype):
    for m, n, k in [(9, 11, 200), (64, 256, 300), (150, 150, 150)]:
        a, b = (
            torch.from_numpy(values((m, k), dtype, 1)),
            torch.from_numpy(values((k, n), dtype, 2)),
        )
        bias = torch.from_numpy(values((n,), dtype, 3))
        expected, w = (a @ b).numpy(), b.t().contiguous()
        same(torch.nn.functional.linear(a, w), expected)
        same(torch.einsum("ij,jk->ik", a, b), expected)
        same(torch.addmm(torch.full((m, n), float("nan"), dtype=a.dtype), a, b, beta=0), expected)
        same((b.t() @ a.t()).t().contiguous(), expected)
        same(
            torch.nn.functional.linear(a, w, bias),
            stated(a.numpy(), b.numpy(), np.tile(bias.numpy(), (m, 1)), 1, 1),
        )
        same(torch.addmm(bias, a, b), torch.nn.functional.linear(a, w, bias).numpy())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_overwritten_is_not_read(value):
    for m, n, k in [(3, 5, 7), (200, 70, 300), (1, 40, 50), (40, 1, 50), (14, 14, 4000)]:
        a, b = torch.ones(m, k), torch.ones(k, n)
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            torch.set_num_threads(8)
            out = torch.full((m, n), float(value), dtype=dtype)
            torch.mm(a.to(dtype), b.to(dtype), out=out)
            assert (out == torch.tensor(k).to(dtype)).all()
            out = torch.addmm(torch.full_like(out, value), a.to(dtype), b.to(dtype), beta=0)
            assert (out == torch.tensor(k).to(dtype)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_products_are_rounded_once(dtype):
    short = getattr(torch, dtype)
    shapes = [(2, 3, 5), (17, 33, 140), (60, 70, 300), (200, 130, 260), (12, 16, 3000)]
    for (m, n, k), (la, lb) in itertools.product(shapes, LAYOUTS[::5]):
        a, b, c = (
            torch.from_numpy(values(s, "float32", i)).to(short)
            for i, s in enumerate([(m, k), (k, n), (m, n)])
        )
        wide = [x.float().numpy() for x in (a, b, c)]
        expected = torch.from_numpy(stated(*wide[:2])).to(short).float().numpy()
        mixed = torch.from_numpy(stated(*wide, 0.3, 0.7)).to(short).float().numpy()
        x, y = laid(wide[0], la), laid(wide[1], lb)
        x, y = (v.t().to(short).t() if v.stride(0) == 1 else v.to(short) for v in (x, y))
        for threads in (1, 16):
            torch.set_num_threads(threads)
            same((x @ y).float(), expected)
            same(torch.addmm(c, x, y, alpha=0.3, beta=0.7).float(), mixed)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_vectors(dtype):
    short = getattr(torch, dtype)
    for out, k in [(1, 1), (5, 33), (70, 300), (1100, 1500)]:
        a, x = (torch.from_numpy(values(s, "float32", 1)).to(short) for s in [(out, k), (k,)])
        wide = a.float().numpy(), x.float().numpy()
        rows = torch.from_numpy(stated_rows(*wide)).to(short).float().numpy()
        same((a @ x).float(), rows)
        columns = stated(wide[0], wide[1][:, None])[:, 0]
        if out > 1 and k > 1:
            turned = a.t().contiguous().t()
            same((turned @ x).float(), torch.from_numpy(columns).to(short).float().numpy())


def digest():
    """Returns a hash of products of every path."""
    found = hashlib.sha256()
    for seed, (m, n, k) in enumerate(
        itertools.product((1, 2, 9, 33, 150), (1, 7, 40, 130), (3, 300))
    ):
        for dtype, (la, lb) in itertools.product(DTYPES, LAYOUTS[::5]):
            a, b = values((m, k), dtype, seed), values((k, n), dtype, seed + 1)
            for short in (None, torch.bfloat16, torch.float16):
                x, y = laid(a, la), laid(b, lb)
                if short is not None:
                    x, y = x.to(short), y.to(short)
                found.update((x @ y).to(torch.float64).numpy().tobytes())
            found.update(torch.dot(x.reshape(-1)[:k], y.reshape(-1)[:k]).double().numpy().tobytes())
    q, v = (torch.from_numpy(values((2, 3, 40, 24), "float32", i)) for i in range(2))
    found.update((q @ v.mT).numpy().tobytes())
    return found.hexdigest()


@pytest.mark.skipif(LEVEL == "DEFAULT", reason="the level has no fused multiplication")
def test_levels_agree():
    run = [sys.executable, "-c", "import test_products; print(test_products.digest())"]
    found = {
        subprocess.run(
            run,
            env={**os.environ, "COGRAD_ISA": level},
            cwd=os.path.dirname(__file__),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for level in ("v3", "v4")
    }
    assert len(found) == 1
