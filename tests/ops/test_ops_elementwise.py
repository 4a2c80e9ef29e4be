# SPDX-License-Identifier: BSD-3-Clause
"""Elementwise functions: values, special values, integer rules, rounding, clamp, where, pow."""

import math

import numpy as np
import pytest
from op_items import each_cell

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
INF, NAN = math.inf, math.nan
erf = np.vectorize(math.erf, otypes=[float])

# name: (numpy function, low, high), the open interval in which it is smooth
UNARY = {
    "abs": (np.abs, 0.1, 3),
    "neg": (np.negative, -3, 3),
    "exp": (np.exp, -3, 3),
    "expm1": (np.expm1, -3, 3),
    "exp2": (np.exp2, -3, 3),
    "log": (np.log, 0.1, 3),
    "log1p": (np.log1p, -0.9, 3),
    "log2": (np.log2, 0.1, 3),
    "log10": (np.log10, 0.1, 3),
    "sqrt": (np.sqrt, 0.1, 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 3),
    "reciprocal": (np.reciprocal, 0.1, 3),
    "square": (np.square, -3, 3),
    "sin": (np.sin, -3, 3),
    "cos": (np.cos, -3, 3),
    "tan": (np.tan, -1, 1),
    "asin": (np.arcsin, -0.9, 0.9),
    "acos": (np.arccos, -0.9, 0.9),
    "atan": (np.arctan, -3, 3),
    "sinh": (np.sinh, -3, 3),
    "cosh": (np.cosh, -3, 3),
    "tanh": (np.tanh, -3, 3),
    "asinh": (np.arcsinh, -3, 3),
    "acosh": (np.arccosh, 1.1, 3),
    "atanh": (np.arctanh, -0.9, 0.9),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -3, 3),
    "erf": (erf, -3, 3),
    "erfc": (lambda x: 1 - erf(x), -2, 2),
    "sign": (np.sign, 0.1, 3),
    "floor": (np.floor, 0.1, 0.9),
    "ceil": (np.ceil, 0.1, 0.9),
    "round": (np.round, 0.6, 1.4),
    "trunc": (np.trunc, 0.1, 0.9),
    "frac": (lambda x: x - np.trunc(x), 0.1, 0.9),
    "deg2rad": (np.deg2rad, -3, 3),
    "rad2deg": (np.rad2deg, -3, 3),
    "relu": (lambda x: np.maximum(x, 0), 0.1, 3),
}


def rand(shape, lo=-1.0, hi=1.0, seed=0):
    return np.random.default_rng(seed).uniform(lo, hi, shape)


@each_cell("name", UNARY)
@each_cell("shape", [(), (1,), (7,), (3, 5), (2, 0, 3), (1000,)])
@each_cell(
    "dtype,rtol",
    [(torch.float64, 1e-13), (torch.float32, 2e-6), (torch.float16, 4e-3), (torch.bfloat16, 2e-2)],
)
def test_unary_values(name, shape, dtype, rtol):
    f, lo, hi = UNARY[name]
    x = torch.tensor(rand(shape, lo, hi)).to(dtype)
    want = f(x.double().numpy())
    got = getattr(torch, name)(x)
    assert got.dtype is dtype and got.shape == shape
    np.testing.assert_allclose(got.double().numpy(), want, rtol=rtol, atol=rtol / 5)


@pytest.mark.parametrize("name", UNARY)
def test_unary_strided(name):
    f, lo, hi = UNARY[name]
    x = torch.tensor(rand((6, 8, 4), lo, hi))
    g = getattr(torch, name)
    full = g(x)
    for view in (
        lambda t: t[::2, 1::3],
        lambda t: t.permute(2, 0, 1),
        lambda t: t[:1].expand(3, 8, 4),
        lambda t: t.t() if t.ndim < 3 else t.mT,
    ):
        np.testing.assert_allclose(g(view(x)).numpy(), view(full).numpy(), rtol=1e-13)


@pytest.mark.parametrize("name", UNARY)
def test_unary_gradients(name):
    _, lo, hi = UNARY[name]
    x = torch.tensor(rand((2, 3), lo, hi), requires_grad=True)
    assert gradcheck(getattr(torch, name), (x,))
    assert gradgradcheck(getattr(torch, name), (x,))


@each_cell("dtype", [torch.float32, torch.float64])
@each_cell(
    "name,x,want",
    [
        ("exp", [-INF, INF, NAN, 0.0, 1e4, -1e4], [0, INF, NAN, 1, INF, 0]),
        ("expm1", [-INF, INF, NAN, 0.0, 1e-10], [-1, INF, NAN, 0, 1e-10]),
        ("log", [0.0, -0.0, 1.0, INF, -1.0, NAN], [-INF, -INF, 0, INF, NAN, NAN]),
        ("log1p", [-1.0, 0.0, INF, -2.0, 1e-10], [-INF, 0, INF, NAN, 1e-10]),
        ("log2", [0.0, 8.0, INF], [-INF, 3, INF]),
        ("log10", [0.0, 1000.0, INF], [-INF, 3, INF]),
        ("sqrt", [0.0, 4.0, INF, -1.0, NAN], [0, 2, INF, NAN, NAN]),
        ("rsqrt", [0.0, 4.0, INF, -1.0], [INF, 0.5, 0, NAN]),
        ("reciprocal", [0.0, -0.0, INF, 4.0], [INF, -INF, 0, 0.25]),
        ("sin", [INF, -INF, NAN, 0.0], [NAN, NAN, NAN, 0]),
        ("cos", [INF, -INF, NAN, 0.0], [NAN, NAN, NAN, 1]),
        ("tan", [INF, NAN, 0.0], [NAN, NAN, 0]),
        ("asin", [1.5, -1.5, NAN, 0.0], [NAN, NAN, NAN, 0]),
        ("acos", [1.5, -1.5, 1.0], [NAN, NAN, 0]),
        ("atan", [INF, -INF, NAN], [math.pi / 2, -math.pi / 2, NAN]),
        ("sinh", [INF, -INF, NAN, 0.0], [INF, -INF, NAN, 0]),
        ("cosh", [INF, -INF, NAN], [INF, INF, NAN]),
        ("tanh", [INF, -INF, NAN, 50.0, -50.0, 1e-12], [1, -1, NAN, 1, -1, 1e-12]),
        ("sigmoid", [INF, -INF, NAN, 0.0, 1000.0, -1000.0], [1, 0, NAN, 0.5, 1, 0]),
        ("erf", [INF, -INF, NAN, 0.0, 30.0], [1, -1, NAN, 0, 1]),
        ("abs", [-INF, -0.0, NAN, -1.5], [INF, 0, NAN, 1.5]),
        ("sign", [-INF, INF, 0.0, -0.0, NAN, -2.5], [-1, 1, 0, 0, 0, -1]),
        ("floor", [1.5, -1.5, INF, NAN, -0.5], [1, -2, INF, NAN, -1]),
        ("ceil", [1.5, -1.5, -INF, NAN, -0.5], [2, -1, -INF, NAN, -0.0]),
        ("trunc", [1.5, -1.5, INF, NAN], [1, -1, INF, NAN]),
        ("round", [0.5, 1.5, 2.5, -0.5, -1.5, INF, NAN], [0, 2, 2, -0.0, -2, INF, NAN]),
        ("relu", [-INF, INF, NAN, -0.0, -1.0], [0, INF, NAN, 0, 0]),
    ],
)
def test_special_values(name, x, want, dtype):
    # With 17 copies, both the vector body and the tail of a kernel see every value.
    t = torch.tensor(x * 17, dtype=dtype)
    np.testing.assert_allclose(
        getattr(torch, name)(t).double().numpy(), want * 17, rtol=1e-6, atol=1e-30
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_arguments(name, dtype):
    x = torch.tensor([1e5, 1e8, 12345678.0, -3e7] * 5, dtype=dtype)
    want = getattr(np, name)(x.double().numpy())
    np.testing.assert_allclose(getattr(torch, name)(x).double().numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name,scale",
    [
        ("exp", 80),
        ("log", 1e30),
        ("tanh", 10),
        ("sin", 100),
        ("erf", 4),
        ("expm1", 80),
        ("log1p", 1e30),
    ],
)
def test_float32_accuracy(name, scale):
    lo = 1e-30 if name.startswith("log") else -scale
    x = np.random.default_rng(1).uniform(lo, scale, 20001).astype(np.float32)
    want = UNARY[name][0](x.astype(np.float64))
    got = getattr(torch, name)(torch.from_numpy(x)).double().numpy()
    with np.errstate(all="ignore"):
        ulp = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
        error = np.abs(got - want) / ulp
    assert np.nanmax(error) <= 4


@pytest.mark.parametrize("name", ["exp", "log", "tanh"])
def test_float64_accuracy(name):
    rng = np.random.default_rng(2)
    near = rng.uniform(-1, 1, 20000)
    x = {
        "exp": np.concatenate([near, near * 30, near * 700]),
        "log": np.concatenate([1 + near * 0.05, 2.0 ** (near * 1000), np.abs(near) * 4]),
        "tanh": np.concatenate([near, near * 20, near * 2.0 ** -rng.integers(0, 60, near.size)]),
    }[name]
    want = getattr(np, name)(x.astype(np.longdouble))
    got = getattr(torch, name)(torch.from_numpy(x)).numpy()
    error = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float64))
    assert error.max() <= 3


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt"])
@pytest.mark.parametrize("n", [1, 7, 8, 17, 60])
def test_float64_special_values(name, n):
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-310, 1.7e308, -1.7e308]
    special += [709.78, 709.79, -708.4, -745.13, -745.14, -1e300, 1e300, 1, -1, 20, -20]
    x = np.resize(np.array(special), n)
    with np.errstate(all="ignore"):
        want = UNARY[name][0](x)
    got = getattr(torch, name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-15, atol=5e-324)
    number = ~np.isnan(want)
    assert (np.signbit(got) == np.signbit(want))[number].all()


def test_gelu_accuracy():
    x = np.random.default_rng(1).uniform(-8, 8, 40001).astype(np.float32)
    x[:6] = [0, -0.0, -5.57, -6.3, 5.57, 6.3]
    wide = x.astype(np.float64)
    cdf = 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
    slope = cdf + wide * np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    t = torch.from_numpy(x).requires_grad_()
    y = torch.nn.functional.gelu(t)
    (g,) = torch.autograd.grad(y, t, torch.full_like(t, 2.0))
    np.testing.assert_allclose(y.detach().numpy(), wide * cdf, rtol=2e-7, atol=5e-7)
    np.testing.assert_allclose(g.numpy(), 2 * slope, rtol=2e-7, atol=4e-7)


def test_gelu_is_exact_far_from_zero():
    x = torch.tensor([-20, -100, -1e30, 20, 100, 1e30, math.inf, math.nan] * 4, requires_grad=True)
    y = torch.nn.functional.gelu(x)
    (g,) = torch.autograd.grad(y, x, torch.full_like(x, 3.0))
    assert y[:7].tolist() == [0, 0, 0, *x[3:7].tolist()] and y[7].isnan()
    assert g[:6].tolist() == [0, 0, 0, 3, 3, 3] and g[7].isnan()
    low = torch.nn.functional.gelu(torch.tensor([-math.inf]))
    assert low.isnan().all(), "as in torch: -inf * 0"


def test_float64_roots_are_correctly_rounded():
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**63, 60000, dtype=np.int64)
    any_size = np.abs(bits.view(np.float64))
    # Squares of numbers between two neighbours, and their own neighbours: the hardest roots.
    middles = rng.uniform(1, 2, 60000).astype(np.longdouble) + np.longdouble(2.0**-53)
    squares = (middles * middles).astype(np.float64)
    near = squares.view(np.int64) + rng.integers(-2, 3, squares.size)
    around = np.array([1.0, 2.0, 4.0, 2.0**-1022, 2.0**-511, 2.0**511, 0.0, math.inf, math.nan])
    edges = (around.view(np.int64)[:, None] + np.arange(24)).view(np.float64).ravel()
    x = np.concatenate([any_size, near.view(np.float64), edges])
    with np.errstate(all="ignore"):
        want = np.sqrt(x)
    got = torch.from_numpy(x).sqrt().numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "erf"])
@pytest.mark.parametrize("n", [1, 15, 16, 33, 100])
def test_float32_special_values(name, n):
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-39, 3.4e38, -3.4e38]
    special += [88.7, 89, -87.4, -103.9, -105, -1e10, 1e30, -1e30, 1, -1]
    x = np.resize(np.array(special, np.float32), n)
    with np.errstate(all="ignore"):
        want = UNARY[name][0](x.astype(np.float64)).astype(np.float32)
    got = getattr(torch, name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-44)
    number = ~np.isnan(want)
    assert (np.signbit(got) == np.signbit(want))[number].all()


def test_sqrt_is_correctly_rounded():
    # Every mantissa of two neighbouring exponents, and random numbers of all sizes.
    bits = np.arange(0x3F000000, 0x40000000, 3, dtype=np.uint32)
    some = np.random.default_rng(0).integers(0, 0x7F800000, 200003, dtype=np.uint32)
    x = np.concatenate([bits, some]).view(np.float32)
    assert (torch.sqrt(torch.from_numpy(x)).numpy() == np.sqrt(x)).all()


def test_signed_zero_is_kept():
    for f in (torch.sin, torch.tanh, torch.sqrt, torch.floor, torch.trunc, torch.neg):
        r = f(torch.tensor([-0.0])).item()
        assert math.copysign(1, r) == (1 if f is torch.neg else -1)


# ---------------------------------------------------------------- binary

BINARY = {
    "add": (np.add, -3, 3),
    "sub": (np.subtract, -3, 3),
    "mul": (np.multiply, -3, 3),
    "div": (np.divide, 0.5, 3),
    "true_divide": (np.divide, 0.5, 3),
    "pow": (np.power, 0.5, 3),
    "atan2": (np.arctan2, 0.5, 3),
    "maximum": (np.maximum, -3, 3),
    "minimum": (np.minimum, -3, 3),
    "fmax": (np.fmax, -3, 3),
    "fmin": (np.fmin, -3, 3),
    "hypot": (np.hypot, 0.5, 3),
    "logaddexp": (np.logaddexp, -3, 3),
}


@each_cell("name", BINARY)
@each_cell(
    "sa,sb",
    [
        ((), ()),
        ((3,), ()),
        ((), (2, 3)),
        ((2, 3), (3,)),
        ((2, 1), (1, 3)),
        ((4, 1, 3), (2, 1)),
        ((0, 3), (3,)),
        ((2, 0), (1, 1)),
        ((1,), (5,)),
    ],
)
def test_binary_broadcast(name, sa, sb):
    f, lo, hi = BINARY[name]
    a, b = rand(sa, lo, hi), rand(sb, lo, hi, 1)
    for dtype, rtol in ((F8, 1e-13), (torch.float32, 2e-6)):
        got = getattr(torch, name)(torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype))
        np.testing.assert_allclose(got.numpy(), f(a, b), rtol=rtol, atol=rtol)
        assert got.shape == np.broadcast_shapes(sa, sb) and got.dtype is dtype


@pytest.mark.parametrize("name", BINARY)
def test_binary_strided(name):
    f, lo, hi = BINARY[name]
    a, b = rand((4, 6), lo, hi), rand((6, 4), lo, hi, 1)
    t, u = torch.tensor(a), torch.tensor(b)
    g = getattr(torch, name)
    np.testing.assert_allclose(g(t, u.t()).numpy(), f(a, b.T), rtol=1e-13)
    np.testing.assert_allclose(g(t.t(), u).numpy(), f(a.T, b), rtol=1e-13)
    np.testing.assert_allclose(g(t[::2, 1], u[0, ::2]).numpy(), f(a[::2, 1], b[0, ::2]), rtol=1e-13)


@pytest.mark.parametrize("name", BINARY)
def test_binary_gradients(name):
    _, lo, hi = BINARY[name]
    g = getattr(torch, name)
    for sa, sb in [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,))]:
        a = torch.tensor(rand(sa, lo, hi), requires_grad=True)
        b = torch.tensor(rand(sb, lo, hi, 1), requires_grad=True)
        assert gradcheck(g, (a, b))
        assert gradgradcheck(g, (a, b))


def test_aliases():
    a, b = torch.tensor([5.0, -3.0]), torch.tensor([2.0, 2.0])
    for f, g in [
        (torch.subtract, torch.sub),
        (torch.multiply, torch.mul),
        (torch.divide, torch.div),
        (torch.greater, torch.gt),
        (torch.less_equal, torch.le),
        (torch.not_equal, torch.ne),
    ]:
        assert torch.equal(f(a, b), g(a, b))
    for f, g in [
        (torch.negative, torch.neg),
        (torch.absolute, torch.abs),
        (torch.arctan, torch.atan),
        (torch.fix, torch.trunc),
        (torch.clip, torch.clamp),
    ]:
        args = (0, 1) if f is torch.clip else ()
        assert torch.equal(f(a, *args), g(a, *args))
    assert torch.rsub(a, b).tolist() == [-3, 5]


def test_broadcast_error():
    for name in BINARY:
        with pytest.raises(
            RuntimeError,
            match=r"tensor a \(3\) must match .*tensor b \(4\) at non-singleton dimension 1",
        ):
            getattr(torch, name)(torch.ones(2, 3), torch.ones(4))


def test_maximum_minimum_nan():
    a, b = torch.tensor([NAN, 1.0, 2.0]), torch.tensor([1.0, NAN, 3.0])
    assert torch.maximum(a, b).isnan().tolist() == [True, True, False]
    assert torch.minimum(a, b).isnan().tolist() == [True, True, False]
    assert torch.fmax(a, b).tolist() == [1, 1, 3]
    assert torch.max(a, b).isnan().tolist() == [True, True, False]
    assert torch.min(torch.tensor([3]), torch.tensor([2])).item() == 2


def test_maximum_ties_split_the_gradient():
    a = torch.ones(1, dtype=F8, requires_grad=True)
    b = torch.ones(1, dtype=F8, requires_grad=True)
    torch.maximum(a, b).backward()
    assert (a.grad.item(), b.grad.item()) == (0.5, 0.5)


# ---------------------------------------------------------------- integers

INT_DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", INT_DTYPES)
def test_integer_arithmetic_wraps(dtype):
    info = torch.iinfo(dtype)
    top = torch.tensor([info.max], dtype=dtype)
    assert (top + 1).item() == info.min
    assert (torch.tensor([info.min], dtype=dtype) - 1).item() == info.max
    assert (top * 2).item() == (info.max - 1 if info.min == 0 else -2)


@pytest.mark.parametrize("dtype", INT_DTYPES)
def test_integer_division_rules(dtype):
    signed = dtype is not torch.uint8
    a = [7, 8, 9] + ([-7, -8, -9] if signed else [])
    t = torch.tensor(a, dtype=dtype)
    for b in [2, 3] + ([-2, -3] if signed else []):
        assert (t / b).dtype is torch.float32
        np.testing.assert_allclose((t / b).numpy(), np.array(a) / b, rtol=1e-6)
        floor = [x // b for x in a]
        for r in (
            t // b,
            torch.div(t, b, rounding_mode="floor"),
            torch.floor_divide(t, b),
            t // torch.tensor(b, dtype=dtype),
        ):
            assert r.tolist() == floor and r.dtype is dtype
        assert torch.div(t, b, rounding_mode="trunc").tolist() == [int(x / b) for x in a]
        assert (t % b).tolist() == torch.remainder(t, b).tolist() == [x % b for x in a]
        assert torch.fmod(t, b).tolist() == [int(math.fmod(x, b)) for x in a]


def test_float_division_rules():
    a = [7.0, -7.0, 7.5, -7.5]
    t = torch.tensor(a, dtype=F8)
    for b in (2.0, -2.0, 0.5):
        assert (t // b).tolist() == [x // b for x in a]
        assert torch.div(t, b, rounding_mode="trunc").tolist() == [math.trunc(x / b) for x in a]
        assert (t % b).tolist() == [x % b for x in a]
        assert torch.fmod(t, b).tolist() == [math.fmod(x, b) for x in a]
    assert torch.div(t, 2.0, rounding_mode=None).tolist() == [x / 2 for x in a]
    np.testing.assert_equal((torch.tensor([1.0, -1.0, 0.0]) // 0).numpy(), [INF, -INF, NAN])
    np.testing.assert_equal((torch.tensor([1.0]) % 0).numpy(), [NAN])
    with pytest.raises(RuntimeError, match="rounding_mode .* but found 'x'"):
        torch.div(t, 2, rounding_mode="x")


@pytest.mark.parametrize(
    "f",
    [
        torch.floor_divide,
        torch.remainder,
        torch.fmod,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    ],
)
def test_integer_division_by_zero(f):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(torch.tensor([1, 2]), 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        f(torch.tensor([1, 2]), torch.tensor([1, 0]))
    assert (torch.tensor([1, -1]) / 0).tolist() == [INF, -INF]


def test_integer_minimum_divided_by_minus_one_does_not_crash():
    for dtype in (torch.int8, torch.int32, torch.int64):
        low = torch.tensor([torch.iinfo(dtype).min], dtype=dtype)
        one = torch.tensor([-1], dtype=dtype)
        assert torch.remainder(low, one).item() == 0
        assert torch.fmod(low, one).item() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("op", ["div", "addcdiv"])
def test_quotient_of_zero_by_a_subnormal_number_has_gradients(op, dtype):
    small = torch.finfo(dtype).smallest_normal / 8
    a = torch.zeros(3, dtype=dtype, requires_grad=True)
    b = torch.full((3,), small, dtype=dtype, requires_grad=True)
    out = a / b if op == "div" else torch.addcdiv(torch.ones(3, dtype=dtype), a, b)
    by_a, by_b = torch.autograd.grad(out.sum(), (a, b))
    assert by_a.tolist() == [math.inf] * 3  # 1 / b overflows, a / b and a / b / b are 0
    assert by_b.tolist() == [0.0] * 3


def test_reflected_division():
    assert (7 // torch.tensor([2, -2])).tolist() == [3, -4]
    assert (7 % torch.tensor([3, -3])).tolist() == [1, -2]
    assert (1 / torch.tensor([2.0, 4.0])).tolist() == [0.5, 0.25]


# ---------------------------------------------------------------- pow


def test_pow_of_integers():
    t = torch.tensor([0, 1, 2, -3])
    assert (t**2).tolist() == [0, 1, 4, 9] and (t**2).dtype is torch.int64
    assert (t**0).tolist() == [1, 1, 1, 1]
    assert (t**2.0).dtype is torch.float32
    assert (2 ** torch.tensor([0, 3])).tolist() == [1, 8]
    assert (2.0 ** torch.tensor([1, -1])).tolist() == [2, 0.5]
    assert (torch.tensor([2, 3]) ** torch.tensor([3, 2])).tolist() == [8, 9]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        t**-1
    assert (torch.tensor([2, 1, -1]) ** torch.tensor([-1, -1, -3])).tolist() == [0, 1, -1]
    assert (torch.tensor([2], dtype=torch.uint8) ** 9).item() == 0


def test_pow_of_floats():
    x = torch.tensor([0.0, 1.0, 4.0, -8.0], dtype=F8)
    for e in (-2, -1, -0.5, 0, 0.5, 1, 2, 3, 1 / 3):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose((x**e).numpy(), np.power(x.numpy(), e), rtol=1e-14)
    np.testing.assert_equal(
        torch.pow(torch.tensor([NAN, 1.0, 0.0]), torch.tensor([0.0, NAN, 0.0])).numpy(), [1, 1, 1]
    )
    assert torch.pow(2, torch.tensor([3.0])).item() == 8
    assert torch.float_power(torch.tensor([2]), 3).dtype is F8


def test_pow_gradients_at_zero():
    x = torch.zeros(1, dtype=F8, requires_grad=True)
    (x**2).backward()
    assert x.grad.item() == 0
    x.grad = None
    (x**0).sum().backward()
    assert x.grad.item() == 0
    e = torch.tensor([2.0], dtype=F8, requires_grad=True)
    (torch.zeros(1, dtype=F8) ** e).backward()
    assert e.grad.item() == 0


# ---------------------------------------------------------------- shifts and bits


@pytest.mark.parametrize("dtype", INT_DTYPES)
def test_shifts(dtype):
    t = torch.tensor([1, 5, 64], dtype=dtype)
    assert torch.bitwise_left_shift(t, 0).tolist() == [1, 5, 64]
    assert (t >> 1).tolist() == torch.bitwise_right_shift(t, 1).tolist() == [0, 2, 32]
    assert (t << torch.tensor([1, 1, 0], dtype=dtype)).tolist() == [2, 10, 64]
    if dtype is not torch.uint8:
        assert (torch.tensor([-8], dtype=dtype) >> 1).item() == -4
    bits = torch.iinfo(dtype).bits
    assert (t << bits).tolist() == [0, 0, 0]
    assert (torch.tensor([1], dtype=dtype) >> bits).item() == 0


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
@pytest.mark.parametrize("dtype", [torch.bool] + INT_DTYPES)
def test_bitwise_functions(name, dtype):
    a, b = np.array([0, 1, 1, 0, 3]), np.array([0, 1, 0, 1, 5])
    if dtype is torch.bool:
        a, b = a.astype(bool), b.astype(bool)
    t, u = torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)
    f = getattr(torch, name)
    assert f(t, u).tolist() == getattr(np, name)(a, b).tolist()
    assert getattr(t, name)(u).dtype is dtype
    with pytest.raises(RuntimeError):
        f(torch.ones(1), torch.ones(1))


def test_bitwise_not():
    assert torch.bitwise_not(torch.tensor([True])).tolist() == [False]
    assert torch.bitwise_not(torch.tensor([5])).tolist() == [-6]
    with pytest.raises((RuntimeError, TypeError)):
        torch.bitwise_not(torch.ones(1))


# ---------------------------------------------------------------- rounding, clamp, where, lerp


def test_round_decimals():
    t = torch.tensor([1.2345, -1.2355], dtype=F8)
    np.testing.assert_allclose(torch.round(t, decimals=2).numpy(), [1.23, -1.24], rtol=1e-15)
    assert torch.round(torch.tensor([125.0, 135.0]), decimals=-1).tolist() == [120, 140]
    assert torch.tensor([3, 4]).round().dtype is torch.int64
    for name in ("floor", "ceil", "trunc", "round"):
        assert getattr(torch.tensor([3, -4]), name)().tolist() == [3, -4]


def test_clamp_forms():
    t = torch.tensor([-1.0, 0.5, 3.0])
    assert t.clamp(0, 1).tolist() == [0, 0.5, 1]
    assert t.clamp(min=0).tolist() == t.clamp(0).tolist() == t.clamp_min(0).tolist() == [0, 0.5, 3]
    assert t.clamp(max=1).tolist() == t.clamp_max(1).tolist() == [-1, 0.5, 1]
    assert t.clamp(None, 1).tolist() == [-1, 0.5, 1]
    assert t.clamp(min=torch.tensor([0.0, 1.0, 4.0])).tolist() == [0, 1, 4]
    assert torch.clamp(t, torch.zeros(3), torch.ones(3)).tolist() == [0, 0.5, 1]
    assert torch.clamp(t, max=torch.tensor(0.0)).tolist() == [-1, 0, 0]
    assert t.clamp(2, 1).tolist() == [1, 1, 1], "max wins when min > max"
    assert t.clone().clamp_(0, 1).tolist() == [0, 0.5, 1]
    assert torch.tensor([1, 5]).clamp(2, 4).dtype is torch.int64
    assert torch.tensor([1, 5]).clamp(max=2.5).tolist() == [1, 2.5]
    assert torch.tensor([NAN, 1.0]).clamp(0, 2).isnan().tolist() == [True, False]
    assert torch.tensor([1.0]).clamp(max=NAN).isnan().item()
    assert torch.zeros(0).clamp(0, 1).shape == (0,)
    with pytest.raises(RuntimeError, match="At least one of"):
        t.clamp()


def test_clamp_gradient():
    t = torch.tensor([-1.0, 0.0, 0.5, 1.0, 3.0], dtype=F8, requires_grad=True)
    t.clamp(0, 1).sum().backward()
    assert t.grad.tolist() == [0, 1, 1, 1, 0], "the bounds themselves pass the gradient"
    lo = torch.zeros(3, dtype=F8, requires_grad=True)
    x = torch.tensor([-1.0, 0.5, 2.0], dtype=F8, requires_grad=True)
    torch.clamp(x, min=lo).sum().backward()
    assert x.grad.tolist() == [0, 1, 1] and lo.grad.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("values", "gradients"),
    [
        ((1, 1, 1), (1, 0, 0)),
        ((0, 1, 1), (0, 0, 1)),
        ((2, 1, 1), (0, 0, 1)),
        ((0, 1, 2), (0, 1, 0)),
        ((1, 2, 0), (0, 0, 1)),
        ((1, 1, 2), (1, 0, 0)),
        ((2, 1, 2), (1, 0, 0)),
    ],
)
def test_one_of_the_operands_of_clamp_gets_the_gradient(values, gradients):
    given = [torch.full((20,), float(v), dtype=F8, requires_grad=True) for v in values]
    found = torch.autograd.grad(torch.clamp(*given).sum(), given, create_graph=True)
    assert [g[0].item() for g in found] == list(gradients)
    assert all((g == g[0]).all() for g in found)


def test_where_forms():
    c = torch.tensor([True, False, True])
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])
    assert torch.where(c, a, b).tolist() == a.where(c, b).tolist() == [1, 20, 3]
    assert torch.where(c, a, 0).tolist() == [1, 0, 3]
    assert torch.where(c, 0.5, b).tolist() == [0.5, 20, 0.5]
    assert torch.where(c, 1, 2).dtype is torch.int64
    assert torch.where(c, 1.0, 2).tolist() == [1, 2, 1]
    assert torch.where(c[:, None], a, b).shape == (3, 3)
    assert torch.where(c, a, torch.ones(3, dtype=F8)).dtype is F8
    assert torch.where(torch.tensor(True), a, b).tolist() == [1, 2, 3]
    (only,) = torch.where(c)
    assert only.tolist() == [0, 2]
    assert [i.tolist() for i in torch.where(torch.eye(2) > 0)] == [[0, 1], [0, 1]]
    assert torch.where(torch.zeros(0, dtype=torch.bool), 1.0, 2.0).shape == (0,)
    for bad in (torch.tensor([1, 0, 1]), torch.ones(3)):
        with pytest.raises(RuntimeError, match="condition to be a boolean tensor"):
            torch.where(bad, a, b)
    with pytest.raises(RuntimeError, match="must match"):
        torch.where(c, torch.ones(2), b)


def test_where_gradients():
    c = torch.tensor([[True, False], [False, True]])
    a = torch.tensor(rand((2, 2)), requires_grad=True)
    b = torch.tensor(rand((2,), seed=1), requires_grad=True)
    assert gradcheck(lambda x, y: torch.where(c, x, y), (a, b))
    bad = torch.tensor([0.0, 1.0], dtype=F8, requires_grad=True)
    torch.where(bad > 0, bad, 0.0).sum().backward()
    assert bad.grad.tolist() == [0, 1]


def test_lerp():
    a, b = torch.tensor([0.0, 10.0]), torch.tensor([1.0, 20.0])
    assert torch.lerp(a, b, 0.5).tolist() == [0.5, 15]
    assert torch.lerp(a, b, torch.tensor([0.0, 1.0])).tolist() == [0, 20]
    assert a.lerp(b, 1.0).tolist() == [1, 20]
    x, y, w = (torch.tensor(rand((3,), seed=s), requires_grad=True) for s in range(3))
    assert gradcheck(torch.lerp, (x, y, w)) and gradgradcheck(torch.lerp, (x, y, w))
    with pytest.raises(RuntimeError):
        torch.lerp(torch.tensor([1.0]), torch.tensor([2.0], dtype=F8), 0.5)


def test_addcmul_addcdiv_gradients():
    x, y, z = (torch.tensor(rand((2, 2), 0.5, 2, seed=s), requires_grad=True) for s in range(3))
    for f in (torch.addcmul, torch.addcdiv):
        assert gradcheck(lambda a, b, c, f=f: f(a, b, c, value=1.5), (x, y, z))


def test_nan_to_num():
    t = torch.tensor([NAN, INF, -INF, 1.0])
    top = torch.finfo(torch.float32).max
    assert torch.nan_to_num(t).tolist() == [0, top, -top, 1]
    assert torch.nan_to_num(t, nan=1.0, posinf=2.0, neginf=3.0).tolist() == [1, 2, 3, 1]


# ---------------------------------------------------------------- comparison and logic


def test_logical_functions():
    a, b = torch.tensor([0.0, 1.5, -2.0, NAN]), torch.tensor([0, 0, 3, 1])
    for name in ("logical_and", "logical_or", "logical_xor"):
        got = getattr(torch, name)(a, b)
        assert got.dtype is torch.bool
        assert got.tolist() == getattr(np, name)(a.numpy(), b.numpy()).tolist()
    assert torch.logical_not(a).tolist() == [True, False, False, False]
    assert torch.logical_not(torch.tensor([3, 0])).dtype is torch.bool


def test_isnan_isinf_isfinite():
    t = torch.tensor([NAN, INF, -INF, 0.0])
    assert torch.isnan(t).tolist() == t.isnan().tolist() == [True, False, False, False]
    assert torch.isinf(t).tolist() == [False, True, True, False]
    assert torch.isfinite(t).tolist() == [False, False, False, True]
    assert torch.isposinf(t).tolist() == [False, True, False, False]
    assert torch.isneginf(t).tolist() == [False, False, True, False]
    for f, value in ((torch.isnan, False), (torch.isinf, False), (torch.isfinite, True)):
        assert f(torch.tensor([1, 2])).tolist() == [value, value]
        assert f(torch.tensor([1.0], dtype=torch.float16)).item() is value


def test_equal():
    a = torch.tensor([1.0, 2.0])
    assert torch.equal(a, a.clone()) is True and a.equal(a) is True
    assert torch.equal(a, torch.tensor([1.0, 3.0])) is False
    assert torch.equal(a, torch.ones(3)) is False
    assert torch.equal(torch.tensor([NAN]), torch.tensor([NAN])) is False
    assert torch.equal(torch.zeros(0), torch.zeros(0)) is True
    assert torch.equal(torch.zeros(0, 2), torch.zeros(2, 0)) is False
    assert torch.equal(torch.zeros(2, 3).t(), torch.zeros(3, 2)) is True
    with pytest.raises(TypeError):
        torch.equal(a, [1, 2])


def test_isclose_allclose():
    a, b = torch.tensor([1.0, 1.0, INF, NAN]), torch.tensor([1.0 + 1e-9, 1.1, INF, NAN])
    assert torch.isclose(a, b).tolist() == [True, False, True, False]
    assert torch.isclose(a, b, equal_nan=True).tolist() == [True, False, True, True]
    assert torch.isclose(a, b, rtol=0.2).tolist() == [True, True, True, False]
    assert torch.isclose(a, b, atol=0.2, rtol=0).tolist() == [True, True, True, False]
    assert torch.allclose(a[:1], b[:1]) is True and torch.allclose(a, b) is False
    assert a[:2].allclose(b[:2], rtol=0.2) is True
    assert torch.allclose(torch.tensor([NAN]), torch.tensor([NAN]), equal_nan=True) is True
    assert torch.allclose(torch.zeros(0), torch.zeros(0)) is True
    assert torch.isclose(torch.tensor([INF]), torch.tensor([-INF])).item() is False
    assert torch.isclose(torch.tensor([100]), torch.tensor([101]), rtol=0.05).item() is True
    assert torch.allclose(torch.ones(2, 3), torch.ones(3)) is True
    with pytest.raises(RuntimeError, match="dtype|scalar type|Float"):
        torch.allclose(torch.ones(1), torch.ones(1, dtype=F8))


def test_comparison_functions_broadcast_and_check():
    a, b = torch.tensor([[1], [2]]), torch.tensor([1, 2, 3])
    assert torch.lt(a, b).tolist() == [[False, True, True], [False, False, True]]
    with pytest.raises(RuntimeError, match="must match"):
        torch.eq(torch.ones(2), torch.ones(3))


def test_isin():
    assert torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 5])).tolist() == [
        False,
        True,
        False,
    ]


def test_gradients_do_not_flow_through_comparisons():
    w = torch.ones(2, requires_grad=True)
    assert (
        not (w > 0).requires_grad
        and not torch.isnan(w).requires_grad
        and not w.argmax().requires_grad
    )


@pytest.mark.parametrize("x", [1e-30, 1e-10, 0.3, -0.3, 5.0, -5.0])
def test_derivatives_of_gelu_by_tanh_have_all_their_digits(x):
    mpmath = pytest.importorskip("mpmath")

    def gelu(v):
        u = mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v**3)
        return v * (1 + mpmath.tanh(u)) / 2

    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    y = torch.nn.functional.gelu(t, approximate="tanh")
    with mpmath.workdps(80):
        for order in (1, 2, 3):
            (y,) = torch.autograd.grad(y, t, create_graph=True)
            expected = float(mpmath.diff(gelu, mpmath.mpf(x), order))
            assert y.item() == pytest.approx(expected, rel=1e-9)
