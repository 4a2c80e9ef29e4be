# SPDX-License-Identifier: BSD-3-Clause
"""Complex functions where a naive formula overflows, underflows or computes inf * 0."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch

INF, NAN = math.inf, math.nan
DTYPES = ("complex64", "complex128")
REAL = {"complex64": np.float32, "complex128": np.float64}
TOLERANCE = {"complex64": 3e-6, "complex128": 2e-14}
BIG = {"complex64": 3e38, "complex128": 1.6e308}
# exp of the first is finite and near the largest number; exp of the second overflows.
EDGE = {"complex64": (88.5, 90.0), "complex128": (709.5, 720.0)}


def compute(name: str, values: list[complex], dtype: str) -> tuple[list[complex], list[complex]]:
    """Returns results and gradients; repeats the values, so that whole vectors are computed too."""
    z = torch.tensor(values * 9, dtype=getattr(torch, dtype)).requires_grad_()
    y = getattr(torch, name)(z)
    (g,) = torch.autograd.grad(y, z, torch.ones_like(y))
    n = len(values)
    rows = y.detach().numpy().reshape(9, n)
    np.testing.assert_allclose(
        rows, np.broadcast_to(rows[:1], rows.shape), rtol=TOLERANCE[dtype], atol=0
    )
    return y.tolist()[:n], g.tolist()[:n]


def same(a: complex, b: complex) -> bool:
    """Returns whether both parts are equal, including NaN and the sign of a zero."""
    return all(
        (math.isnan(p) and math.isnan(q)) or (p == q and math.copysign(1, p) == math.copysign(1, q))
        for p, q in ((a.real, b.real), (a.imag, b.imag))
    )


def magnitudes(dtype: str) -> list[float]:
    """Returns finite sizes from the smallest to the largest."""
    f = np.finfo(REAL[dtype])
    tiny, large = float(f.tiny), float(f.max)
    lists = [0.0, float(f.smallest_subnormal), tiny / 8, tiny, 1e-10, 1e-3, 0.3, 0.5]
    lists += [1.0, 1.0 + float(f.eps), 1.5707, 3.0, 10.0, 40.0, *EDGE[dtype]]
    return lists + [math.sqrt(large) * 1.7, large / 4, large * 0.9]


def plane(dtype: str) -> list[complex]:
    """Returns all pairs of the sizes with both signs, as numbers of the dtype."""
    parts = [s * m for m in magnitudes(dtype) for s in (1.0, -1.0)]
    numbers = np.array([complex(a, b) for a, b in itertools.product(parts, parts)], dtype=dtype)
    return [complex(v) for v in numbers]


def wide(name: str, z: complex, dtype: str) -> complex | None:
    """Returns the function in extended precision, rounded to the dtype; None if that overflows."""
    w = np.clongdouble(z) if dtype == "complex128" else np.complex128(z)
    functions: dict[str, Callable[[Any], Any]] = {
        "reciprocal": lambda v: 1 / v,
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "log2": lambda v: np.log(v) / np.log(v.real * 0 + 2),
        "log10": lambda v: np.log(v) / np.log(v.real * 0 + 10),
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)) if v.real > 0 else np.exp(v) / (1 + np.exp(v)),
    }
    with np.errstate(all="ignore"):
        out = functions.get(name, getattr(np, name, None))(w)  # type: ignore[misc]
        if not np.isfinite(out):
            return None
        return complex(np.dtype(dtype).type(out))


PLANE_OPS = "reciprocal sqrt rsqrt exp log log2 log10 sin cos sinh cosh sigmoid".split()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PLANE_OPS)
def test_finite_plane(name: str, dtype: str) -> None:
    """Results agree with extended precision, relative to the larger part."""
    values = [z for z in plane(dtype) if z != 0]
    got, _ = compute(name, values, dtype)
    smallest = float(np.finfo(REAL[dtype]).smallest_subnormal)
    for z, y in zip(values, got, strict=True):
        want = wide(name, z, dtype)
        if want is None:
            continue
        for p, q in ((y.real, want.real), (y.imag, want.imag)):
            if math.isinf(q):
                assert p == q, (name, z, y, want)
                continue
            size = max((abs(v) for v in (want.real, want.imag) if math.isfinite(v)), default=1)
            assert abs(p - q) <= TOLERANCE[dtype] * size + 2 * smallest, (name, z, y, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log1p(dtype: str) -> None:
    """log1p is correct near 0 and -1, and where the square of the size overflows or underflows."""
    big = 3e19 if dtype == "complex64" else 1e200
    near = [complex(big, 1), complex(big, 0), complex(-1, 1e-30), complex(BIG[dtype], BIG[dtype])]
    got, grads = compute("log1p", near, dtype)
    want = [math.log(big), math.log(big), math.log(1e-30), math.log(BIG[dtype]) + math.log(2) / 2]
    np.testing.assert_allclose([v.real for v in got], want, rtol=1e-6)
    assert all(cmath.isfinite(g) for g in grads)
    tiny = [1e-12 + 1e-12j, -1e-9 + 0j, 1e-20j, -0.5 + 0.5j, -0.99 + 1e-3j]
    got, _ = compute("log1p", tiny, dtype)
    first = [complex(np.dtype(dtype).type(z)) for z in tiny]
    exact = [z - z * z / 2 for z in first[:3]] + [cmath.log(1 + z) for z in first[3:]]
    np.testing.assert_allclose(got, exact, rtol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_near_one(dtype: str) -> None:
    """The real part of log(1 + i t) is t^2 / 2, that of log(1 + t) is t."""
    e = float(np.finfo(REAL[dtype]).eps)
    got, _ = compute("log", [complex(1, 1e-4), complex(1 + e, 0)], dtype)
    assert got[0].real == pytest.approx(0.5e-8, rel=1e-3)
    assert got[1].real == pytest.approx(e, rel=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sigmoid_far_left(dtype: str) -> None:
    """exp(-z) overflows, but the result and the gradient do not."""
    far = [complex(-100, 0), complex(-89, 3), complex(-100, 1), complex(-710, 2), complex(-1e6, 5)]
    for got in (*compute("sigmoid", far, dtype), compute("sigmoid", far, dtype)[0]):
        for z, y in zip(far, got, strict=True):
            size = cmath.exp(z) if z.real > -740 else 0
            assert abs(abs(y) - abs(size)) <= 1e-5 * abs(size) + 3e-45, (z, y)
    z = torch.tensor(far * 9, dtype=getattr(torch, dtype))
    assert bool(torch.isfinite(torch.nn.functional.silu(z)).all())


LIMITS = [
    ("sinh", 1e4 + 0j, complex(INF, 0)),
    ("cosh", 1e4 + 0j, complex(INF, 0)),
    ("sinh", complex(-1e4, -0.0), complex(-INF, -0.0)),
    ("sin", 1e4j, complex(0, INF)),
    ("cos", 1e4j, complex(INF, -0.0)),
    ("exp", complex(-INF, INF), 0j),
    ("exp", complex(1e4, 0), complex(INF, 0)),
    ("exp", complex(NAN, 0), complex(NAN, 0)),
    ("exp", complex(INF, -0.0), complex(INF, -0.0)),
    ("sqrt", complex(INF, NAN), complex(INF, NAN)),
    ("sqrt", complex(3, INF), complex(INF, INF)),
    ("sqrt", complex(NAN, INF), complex(INF, INF)),
    ("sqrt", complex(INF, -1), complex(INF, -0.0)),
    ("sqrt", complex(-INF, 1), complex(0, INF)),
    ("sqrt", complex(-4, -0.0), complex(0, -2)),
    ("sqrt", complex(-4, 0.0), complex(0, 2)),
    ("log", complex(-1, 0.0), complex(0, math.pi)),
    ("log", complex(-1, -0.0), complex(0, -math.pi)),
    ("log", complex(0, 0), complex(-INF, 0)),
    ("log", complex(-INF, 1), complex(INF, math.pi)),
    ("log", complex(INF, NAN), complex(INF, NAN)),
    ("reciprocal", complex(0, INF), complex(0, -0.0)),
    ("reciprocal", complex(INF, 0), complex(0, -0.0)),
    ("reciprocal", complex(0, NAN), complex(NAN, NAN)),
    ("reciprocal", complex(INF, NAN), complex(NAN, NAN)),
    ("rsqrt", complex(INF, 0), complex(0, -0.0)),
    ("sigmoid", complex(-INF, 0), 0j),
    ("sigmoid", complex(INF, 0), 1 + 0j),
]


@each_cell("dtype", DTYPES)
@each_cell(("name", "z", "want"), LIMITS)
def test_limits(name: str, z: complex, want: complex, dtype: str) -> None:
    """Results follow C99 at infinities and on both sides of the branch cuts."""
    got, _ = compute(name, [z], dtype)
    parts = np.dtype(dtype).type(complex(want))
    a, b = got[0], complex(parts)
    assert same(complex(np.dtype(dtype).type(a)), b) or (
        abs(a) == abs(b) == 0 and name in ("reciprocal", "rsqrt", "sigmoid")
    ), (a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_near_overflow(dtype: str) -> None:
    """exp(a) overflows, but its product with the cosine does not."""
    a = 89.0 if dtype == "complex64" else 710.0
    got, _ = compute("exp", [complex(a, 1.5707)], dtype)
    half = cmath.exp(complex(a / 2, 1.5707 / 2))
    assert got[0].real == pytest.approx(
        (half * half).real if dtype == "complex64" else math.exp(a - 9) * math.cos(1.5707)
        * math.exp(9), rel=2e-2)  # fmt: skip
    assert got[0].imag == INF


@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients(dtype: str) -> None:
    """Quotients are right for numbers whose squares or reciprocals overflow or underflow."""
    big, tiny = BIG[dtype], float(np.finfo(REAL[dtype]).tiny) / 4
    cases = [
        (complex(big, big), complex(big, big), 1 + 0j),
        (complex(big, 0), complex(big, big), 0.5 - 0.5j),
        (complex(tiny, tiny), complex(tiny, 0), 1 + 1j),
        (1j, complex(INF, 0), 0j),
        (0j, complex(0, INF), 0j),
        (1 + 0j, complex(INF, INF), 0j),
        (complex(INF, 0), complex(2, 0), complex(INF, NAN)),
        (1 + 0j, 0j, complex(INF, NAN)),
        (0j, 0j, complex(NAN, NAN)),
        (1 + 0j, complex(INF, NAN), complex(NAN, NAN)),
    ]
    for k in (1, 40):
        a = torch.tensor([c[0] for c in cases] * k, dtype=getattr(torch, dtype))
        b = torch.tensor([c[1] for c in cases] * k, dtype=getattr(torch, dtype))
        scaled = torch.addcdiv(torch.zeros_like(a), a, b).tolist()
        np.testing.assert_allclose(scaled[:6], [c[2] for c in cases[:6]], atol=1e-6)
        for y in (a / b, a.clone().div_(b)):
            for (p, q, want), v in zip(cases * k, y.tolist(), strict=True):
                for r, w in ((v.real, want.real), (v.imag, want.imag)):
                    if math.isfinite(want.real):
                        assert r == pytest.approx(w, abs=1e-6), (p, q, v)
                    else:
                        assert math.isinf(r) == math.isinf(w) or math.isinf(v.real), (p, q, v)
    for p, q, want in cases[:5]:  # the same divisor for all
        y = torch.full((33,), p, dtype=getattr(torch, dtype)) / torch.tensor(
            q, dtype=getattr(torch, dtype)
        )
        np.testing.assert_allclose(y.tolist(), [want] * 33, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place_and_strided(dtype: str) -> None:
    """The second pass reads the inputs, also where the result overlaps them."""
    values = [z for z in plane(dtype) if z != 0]
    for name in ("sqrt", "log", "sigmoid", "exp", "reciprocal", "sinh"):
        z = torch.tensor(values, dtype=getattr(torch, dtype))
        want = getattr(torch, name)(z).numpy().copy()
        spread = torch.stack([z, z], 1)[:, 0]
        np.testing.assert_array_equal(getattr(torch, name)(spread).numpy(), want)
        getattr(z, name + "_")()
        np.testing.assert_array_equal(z.numpy(), want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_finite(dtype: str) -> None:
    """Where the derivative is finite, or vanishes, the gradient is finite too."""
    big = math.sqrt(BIG[dtype]) * 3
    for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "log", "log1p", "log10"):
        _, grads = compute(name, [complex(0.3, big), complex(big, 0.5), complex(-big, 2)], dtype)
        assert all(cmath.isfinite(g) and abs(g) < 1e-15 for g in grads), (name, grads)
    small = float(np.finfo(REAL[dtype]).smallest_subnormal)
    _, grads = compute("sinc", [complex(small, 0), complex(small, small), 0j], dtype)
    assert grads == [0, 0, 0]
    _, grads = compute("sqrt", [complex(BIG[dtype], -BIG[dtype])], dtype)
    assert cmath.isfinite(grads[0])
    assert abs(grads[0]) > 0


def test_acosh_gradient_on_the_cut() -> None:
    """The derivative from below is the conjugate of the one from above."""
    _, (above, below) = compute("acosh", [complex(-90, 0.0), complex(-90, -0.0)], "complex128")
    assert below == above.conjugate()
    assert above.real == pytest.approx(-1 / math.sqrt(90**2 - 1))


def test_power_of_a_whole_number() -> None:
    """The gradient of 2 ** z has the precision of z."""
    z = torch.tensor([0.5 + 0.25j], dtype=torch.complex128, requires_grad=True)
    y = 2**z
    (g,) = torch.autograd.grad(y, z, torch.ones_like(y))
    np.testing.assert_allclose(g.numpy(), np.conj(2 ** (0.5 + 0.25j) * np.log(2)), rtol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sgn_of_extremes(dtype: str) -> None:
    """The largest and the smallest numbers keep their direction."""
    small = float(np.finfo(REAL[dtype]).smallest_subnormal)
    z = torch.tensor([complex(s, s) for s in (BIG[dtype], small, 1.0)], dtype=getattr(torch, dtype))
    np.testing.assert_allclose(torch.sgn(z).numpy(), [math.sqrt(0.5) * (1 + 1j)] * 3, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_to_num(dtype: str) -> None:
    """Each part is replaced separately, and passes its gradient separately."""
    z = torch.tensor([complex(NAN, 1), complex(INF, -INF), 2 + 3j], dtype=getattr(torch, dtype))
    big = float(np.finfo(REAL[dtype]).max)
    assert torch.nan_to_num(z).tolist() == [1j, complex(big, -big), 2 + 3j]
    assert torch.nan_to_num(z, 1.0, 2.0, 3.0).tolist() == [1 + 1j, 2 + 3j, 2 + 3j]
    z.requires_grad_()
    y = torch.nan_to_num(z)
    (g,) = torch.autograd.grad(y, z, torch.full_like(y, 1 + 2j))
    assert g.tolist() == [2j, 0, 1 + 2j]
    assert z.detach().nan_to_num_().tolist() == y.tolist()


def test_ranges() -> None:
    """linspace and logspace work between complex numbers."""
    assert torch.linspace(0, 1 + 2j, 3).tolist() == [0, 0.5 + 1j, 1 + 2j]
    assert torch.linspace(0, 1, 3, dtype=torch.complex128).tolist() == [0, 0.5, 1]
    out = torch.empty(3, dtype=torch.complex128)
    assert torch.linspace(1j, 2, 3, out=out) is out
    assert out.tolist() == [1j, 1 + 0.5j, 2]
    assert torch.linspace(1j, 2, 0).shape == (0,)
    got = torch.logspace(0, 1 + 2j, 3, dtype=torch.complex128)
    np.testing.assert_allclose(got.numpy(), np.power(10, np.array([0, 0.5 + 1j, 1 + 2j])))
    got = torch.logspace(1j, 2, 3, base=-2, dtype=torch.complex128)
    np.testing.assert_allclose(got.numpy(), np.power(-2 + 0j, np.array([1j, 1 + 0.5j, 2])))
    for op in (torch.linspace, torch.logspace):
        with pytest.raises(RuntimeError, match="inferred dtype complex64 can't be safely cast"):
            op(0, 1j, 3, dtype=torch.float32)


def test_normal_around_complex_means() -> None:
    """Means are complex, deviations real; each part has half of the variance."""
    torch.manual_seed(0)
    mean = torch.full((20000,), 1 + 2j)
    for std in (2.0, torch.full((20000,), 2.0)):
        x = torch.normal(mean, std).numpy()
        assert x.dtype == np.complex64
        assert abs(x.mean() - (1 + 2j)) < 0.1
        assert x.real.std() == pytest.approx(math.sqrt(2), rel=0.05)
        assert x.imag.std() == pytest.approx(math.sqrt(2), rel=0.05)
    with pytest.raises(RuntimeError, match="standard deviation to be non-complex"):
        torch.normal(0.0, mean)


def test_abs_in_place() -> None:
    """The absolute value of a complex tensor is real, so it cannot be written in place."""
    z = torch.tensor([3 + 4j])
    for run in (z.abs_, z.absolute_, lambda: torch.abs_(z)):
        with pytest.raises(RuntimeError, match="In-place abs is not supported for complex"):
            run()
    assert z.tolist() == [3 + 4j]
    assert torch.tensor([-1.0]).abs_().tolist() == [1.0]
