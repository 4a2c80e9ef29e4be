# SPDX-License-Identifier: BSD-3-Clause
"""cograd.special compared with mpmath at hard points; its limits, dtypes and derivatives."""

import math
import random

import pytest
from op_items import each_cell

import cograd as torch
from cograd import special

mp = pytest.importorskip("mpmath")
F8 = torch.float64
INF, NAN = math.inf, math.nan


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(40):
        yield


def uniform(low, high, n=60):
    rng = random.Random(1)
    return [rng.uniform(low, high) for _ in range(n)]


def powers(low, high, n=60):
    """Returns numbers from 10**low to 10**high, evenly spaced in the logarithm."""
    return [10**e for e in uniform(low, high, n)]


def negated(values):
    return [-v for v in values]


def amplitude(x):
    """Returns the amplitude of the Bessel functions of order 0 and 1, which has no zeros."""
    return min(mp.mpf(1), mp.sqrt(2 / (mp.pi * max(abs(x), mp.mpf("1e-9")))))


def nothing(x):
    return 0


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_normal(x):
    return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2) if x > 0 else mp.log(normal(x))


def normal_quantile(p):
    if p > 1e-5:
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)
    start = -mp.sqrt(-2 * mp.log(p))
    return mp.findroot(lambda x: log_normal(x) - mp.log(p), start + 1)


# The function, its exact values, the points, and the amplitude that scales errors near zeros.
UNARY = {
    "bessel_j0": (
        lambda x: mp.besselj(0, x),
        [*uniform(-30, 30), *powers(-5, 8), 8.0, math.nextafter(8, 0), 2.404825557695773],
        amplitude,
    ),
    "bessel_j1": (
        lambda x: mp.besselj(1, x),
        [*uniform(-30, 30), *powers(-5, 8), 8.0, 3.831705970207512, -1e-200],
        lambda x: min(abs(x) / 2, amplitude(x)),
    ),
    "bessel_y0": (lambda x: mp.bessely(0, x), [*uniform(0, 30), *powers(-300, 8)], amplitude),
    "bessel_y1": (lambda x: mp.bessely(1, x), [*uniform(0, 30), *powers(-300, 8)], amplitude),
    "i0": (lambda x: mp.besseli(0, x), [*uniform(-30, 30), 713.0, -712.5, 1e-9], nothing),
    "i0e": (
        lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
        [*uniform(-30, 30), *powers(-5, 2.8)],
        nothing,
    ),
    "i1": (lambda x: mp.besseli(1, x), [*uniform(-30, 30), 713.0, 1e-300], nothing),
    "i1e": (
        lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
        [*uniform(-30, 30), *powers(-5, 2.8)],
        nothing,
    ),
    "modified_bessel_i0": (lambda x: mp.besseli(0, x), uniform(-30, 30), nothing),
    "modified_bessel_i1": (lambda x: mp.besseli(1, x), uniform(-30, 30), nothing),
    "modified_bessel_k0": (
        lambda x: mp.besselk(0, x),
        [*uniform(0, 30), *powers(-300, 2.8), 1.0, math.nextafter(1, 2)],
        nothing,
    ),
    "modified_bessel_k1": (
        lambda x: mp.besselk(1, x),
        [*uniform(0, 30), *powers(-300, 2.8), 1.0],
        nothing,
    ),
    "scaled_modified_bessel_k0": (
        lambda x: mp.besselk(0, x) * mp.exp(x),
        [*uniform(0, 30), *powers(-300, 2.8)],
        nothing,
    ),
    "scaled_modified_bessel_k1": (
        lambda x: mp.besselk(1, x) * mp.exp(x),
        [*uniform(0, 30), *powers(-300, 2.8)],
        nothing,
    ),
    "spherical_bessel_j0": (
        lambda x: mp.sin(x) / x,
        [*uniform(-3, 3), *powers(-8, 3)],
        lambda x: min(mp.mpf(1), 1 / abs(x)),
    ),
    "airy_ai": (
        mp.airyai,
        [*uniform(-30, 10), *negated(powers(-2, 6)), *powers(-2, 2), -4.0, 1.0],
        lambda x: 1 / mp.sqrt(mp.pi) / abs(x) ** 0.25 if x < -1 else 0,
    ),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [*uniform(-26, 5), *powers(-5, 4)], nothing),
    "ndtr": (normal, uniform(-35, 8), nothing),
    "log_ndtr": (
        log_normal,
        [*uniform(-40, 8), *negated(powers(-5, 4)), *uniform(8, 30), -1.0],
        nothing,
    ),
    "ndtri": (
        normal_quantile,
        [*uniform(0, 1), *powers(-250, -1, 12), 0.1, 0.9, 0.5 + 1e-12, 1 - 1e-10, 0.1 - 1e-17],
        nothing,
    ),
    "entr": (lambda x: -x * mp.log(x), powers(-300, 2), lambda x: x),
    "digamma": (mp.digamma, [*uniform(-9.5, 9.5), *powers(-9, 9)], lambda x: mp.mpf(1)),
    "gammaln": (
        lambda x: mp.log(abs(mp.gamma(x))),
        [*uniform(-5, 50), *powers(-9, 2)],
        lambda x: mp.mpf(1),
    ),
    "sinc": (lambda x: mp.sin(mp.pi * x) / (mp.pi * x), uniform(-5, 5), lambda x: mp.mpf(1)),
}


def worst(name, values, exact, scales):
    """Returns the largest relative error of ``values``, and where it is."""
    errors = []
    for got, want, scale, at in values:
        scale = max(abs(want), scale)
        if scale < mp.mpf("1e-300"):  # subnormal
            continue
        errors.append((float(abs(mp.mpf(got) - want) / scale), at))
    return max(errors)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_values_of_one_argument(name):
    exact, points, scale = UNARY[name]
    got = getattr(special, name)(torch.tensor(points, dtype=F8)).tolist()
    rows = [(g, exact(mp.mpf(x)), scale(mp.mpf(x)), x) for g, x in zip(got, points, strict=True)]
    error, at = worst(name, rows, exact, scale)
    assert error <= 1e-12, f"{name}({at!r}): relative error {error}"


GAMMA_POINTS = [
    *zip(powers(-8, 2), reversed(powers(-5, 2.5)), strict=True),
    *((a, a * f) for a, f in zip(powers(-3, 2.6), uniform(0.5, 1.6), strict=True)),
    *((a, a + d * a**0.5) for a, d in zip(powers(1.3, 4, 40), uniform(-3, 3, 40), strict=True)),
    (20.0, 26.0),
    (20.0, 14.01),
    (19.99, 20.0),
    (20.01, 20.0),
    (1e-10, 1e-5),
    (1e-8, 1.4),
    (0.99, 1.49),
    (1.0, 0.01),
    (1.0, 700.0),
    (16.0, 16.0),
]


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_functions(name):
    a, x = (torch.tensor(v, dtype=F8) for v in zip(*GAMMA_POINTS, strict=True))
    got = getattr(special, name)(a, x).tolist()
    for value, (p, q) in zip(got, GAMMA_POINTS, strict=True):
        limits = (0, mp.mpf(q)) if name == "gammainc" else (mp.mpf(q), mp.inf)
        want = mp.gammainc(mp.mpf(p), *limits, regularized=True)
        if want > 1e-300:
            assert abs(value - want) <= 1e-12 * want, (p, q, value, want)


def test_incomplete_gamma_functions_of_huge_arguments():
    a = torch.tensor([1e8, 1e12, 1e15, 1e300, 1e300], dtype=F8)
    x = torch.tensor([1e8, 1e12, 1e15, 1e299, 1e301], dtype=F8)
    p, q = special.gammainc(a, x), special.gammaincc(a, x)
    assert torch.allclose(p + q, torch.ones(5, dtype=F8), rtol=1e-15)
    # At x = a, the value is 1/2 + 1 / (3 sqrt(2 pi a)): DLMF 8.11.12.
    for got, n in zip(p.tolist()[:3], (1e8, 1e12, 1e15), strict=True):
        assert got == pytest.approx(0.5 + 1 / (3 * math.sqrt(2 * math.pi * n)), rel=1e-12)
    assert p.tolist()[3:] == [0, 1]


def hurwitz(s, q):
    steps = int(-q) + 1 if q < 0 else 0
    terms = [1 / (mp.mpf(q) + k) ** int(s) for k in range(steps)]
    with mp.workdps(40 if (q + steps) ** -s > 1e-10 else 350):  # its errors are absolute
        tail = mp.zeta(mp.mpf(s), mp.mpf(q) + steps)
    return mp.fsum([*terms, tail]), mp.fsum([*map(abs, terms), tail])


def test_zeta():
    above = list(zip([1 + v for v in powers(-6, 2.5)], powers(-3, 3), strict=True))
    below = [(s, q) for s in (2.0, 3.0, 4.0, 8.0, 13.0) for q in uniform(-50, 0, 12)]
    points = [*above, *below, (2.0, -1e-10), (3.0, -2 - 1e-9), (3.0, -0.5), (2.0, -40.25)]
    s, q = (torch.tensor(v, dtype=F8) for v in zip(*points, strict=True))
    for got, (a, b) in zip(special.zeta(s, q).tolist(), points, strict=True):
        want, scale = hurwitz(a, b)
        if 1e-300 < abs(want) < 1e300:
            assert abs(got - want) <= 1e-12 * scale, (a, b, got, want)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_polygamma(n):
    points = [*powers(-3, 3, 20), *uniform(-9.5, 0, 20)]
    got = special.polygamma(n, torch.tensor(points, dtype=F8)).tolist()
    for value, x in zip(got, points, strict=True):
        want = (-1) ** (n + 1) * mp.factorial(n) * hurwitz(n + 1, x)[0]
        scale = mp.factorial(n) * hurwitz(n + 1, x)[1]
        if scale < 1e300:
            assert abs(value - want) <= 1e-12 * scale, (n, x, value, want)


def test_multigammaln():
    x = torch.tensor([2.5, 3.0, 17.25], dtype=F8)
    for p in (1, 2, 4):
        got = special.multigammaln(x, p).tolist()
        for value, at in zip(got, x.tolist(), strict=True):
            terms = [mp.loggamma(mp.mpf(at) - mp.mpf(k) / 2).real for k in range(p)]
            want = mp.fsum(terms) + mp.mpf(p * (p - 1)) / 4 * mp.log(mp.pi)
            assert abs(value - want) <= 1e-13 * max(1, abs(want))
    assert torch.equal(torch.mvlgamma(x, 3), x.mvlgamma(3))
    with pytest.raises(RuntimeError, match="p has to be greater"):
        torch.mvlgamma(x, 0)


def recurrence(first, step):
    """Returns p_n(x), where p_0 = 1, p_1 = first(x) and p_(k+1) = step(k, x, p_k, p_(k-1))."""

    def value(n, x):
        before, now = mp.mpf(1), first(x)
        if n == 0:
            return before
        for k in range(1, n):
            before, now = now, step(k, x, now, before)
        return now

    return value


def of_chebyshev(first):
    return recurrence(first, lambda k, x, q, p: 2 * x * q - p)


POLYNOMIALS = {
    "chebyshev_polynomial_t": of_chebyshev(lambda x: x),
    "chebyshev_polynomial_u": of_chebyshev(lambda x: 2 * x),
    "chebyshev_polynomial_v": of_chebyshev(lambda x: 2 * x - 1),
    "chebyshev_polynomial_w": of_chebyshev(lambda x: 2 * x + 1),
    "hermite_polynomial_h": recurrence(lambda x: 2 * x, lambda k, x, q, p: 2 * x * q - 2 * k * p),
    "hermite_polynomial_he": recurrence(lambda x: x, lambda k, x, q, p: x * q - k * p),
    "laguerre_polynomial_l": recurrence(
        lambda x: 1 - x, lambda k, x, q, p: ((2 * k + 1 - x) * q - k * p) / (k + 1)
    ),
    "legendre_polynomial_p": recurrence(
        lambda x: x, lambda k, x, q, p: ((2 * k + 1) * x * q - k * p) / (k + 1)
    ),
}
for _kind in "tuvw":
    _plain = POLYNOMIALS[f"chebyshev_polynomial_{_kind}"]
    POLYNOMIALS[f"shifted_chebyshev_polynomial_{_kind}"] = lambda n, x, plain=_plain: plain(
        n, 2 * x - 1
    )


@pytest.mark.parametrize("name", sorted(POLYNOMIALS))
def test_orthogonal_polynomials(name):
    exact = POLYNOMIALS[name]
    points = [*uniform(-1, 1, 12), *uniform(-2, 2, 12), 1.0, -1.0, 0.0, 1e-9, 1 - 1e-9, 0.5, 1e-300]
    if "hermite" in name or "laguerre" in name:
        points = [*uniform(-5, 20, 24), 0.0]
    x = torch.tensor(points, dtype=F8)
    for n in (0, 1, 2, 3, 5, 6, 7, 8, 15, 30, 60):
        want = [exact(n, mp.mpf(v)) for v in points]
        got = getattr(special, name)(x, n)
        assert torch.equal(got, getattr(special, name)(x, torch.tensor(float(n), dtype=F8)))
        for value, w, at in zip(got.tolist(), want, points, strict=True):
            # Relative to the largest value up to there: near zeros, to the amplitude.
            near = [abs(v) for v, p in zip(want, points, strict=True) if abs(p) <= abs(at)]
            scale = max([mp.mpf(1), *near])
            assert abs(value - w) <= 1e-12 * scale, (name, n, at, value, w)
    assert getattr(special, name)(x, -1).eq(0).all()


def test_degrees_are_cut_to_integers_and_overflow_ends_a_recurrence():
    x = torch.tensor([0.5, 3.0], dtype=F8)
    assert torch.equal(special.legendre_polynomial_p(x, 2.9), special.legendre_polynomial_p(x, 2))
    assert special.hermite_polynomial_h(x, 1e15).isfinite().logical_not().all()
    assert special.chebyshev_polynomial_t(x, 1e15)[0].abs() <= 1


LIMITS = [
    ("bessel_j0", INF, 0),
    ("bessel_j1", -INF, 0),
    ("bessel_y0", 0.0, -INF),
    ("bessel_y1", 0.0, -INF),
    ("bessel_y0", -1.0, NAN),
    ("i0", INF, INF),
    ("i0", 1e300, INF),
    ("i0e", INF, 0),
    ("i1", -INF, -INF),
    ("modified_bessel_k0", 0.0, INF),
    ("modified_bessel_k0", INF, 0),
    ("modified_bessel_k1", -1.0, NAN),
    ("scaled_modified_bessel_k1", INF, 0),
    ("spherical_bessel_j0", 0.0, 1),
    ("spherical_bessel_j0", INF, 0),
    ("airy_ai", INF, 0),
    ("airy_ai", 1e300, 0),
    ("entr", 0.0, 0),
    ("entr", -1.0, -INF),
    ("erfcx", INF, 0),
    ("erfcx", -INF, INF),
    ("ndtr", -INF, 0),
    ("log_ndtr", INF, 0),
    ("log_ndtr", -INF, -INF),
    ("ndtri", 0.0, -INF),
    ("ndtri", 1.0, INF),
    ("ndtri", 0.5, 0),
    ("ndtri", 1.5, NAN),
]


@pytest.mark.parametrize(("name", "x", "want"), LIMITS)
def test_limits(name, x, want):
    got = getattr(special, name)(torch.tensor(x, dtype=F8)).item()
    assert math.isnan(got) if math.isnan(want) else got == want


@pytest.mark.parametrize("name", sorted(UNARY))
def test_nan_stays_nan(name):
    assert getattr(special, name)(torch.tensor([NAN, 0.25], dtype=F8)).isnan().tolist()[0]


def test_limits_of_two_arguments():
    def row(f, first, seconds):
        return f(torch.tensor(first, dtype=F8), torch.tensor(seconds, dtype=F8)).tolist()

    def check(got, want):
        assert [repr(v) for v in got] == [repr(float(v)) for v in want]

    check(row(special.gammainc, 0.0, [0, 1, INF]), [NAN, 1, 1])
    check(row(special.gammainc, 1.0, [0, INF, -1, NAN]), [0, 1, NAN, NAN])
    check(row(special.gammainc, INF, [1, INF]), [0, NAN])
    check(row(special.gammaincc, 0.0, [0, 1]), [NAN, 0])
    check(row(special.gammaincc, 1.0, [0, INF, -1]), [1, 0, NAN])
    check(row(special.zeta, 1.0, [2, -3]), [INF, INF])
    check(row(special.zeta, 0.5, [2]), [NAN])
    check(row(special.zeta, 2.0, [0, -3, -2.5 - 1e300]), [INF, INF, INF])
    check(row(special.zeta, 2.5, [-0.5]), [NAN])


@each_cell("dtype", [torch.float32, torch.float16, torch.bfloat16])
@each_cell("name", sorted(UNARY))
def test_narrow_dtypes_are_the_rounded_wide_results(name, dtype):
    low, high = (0.1, 0.9) if name == "ndtri" else (0.25, 4)
    x = torch.linspace(low, high, 37).to(dtype)
    got = getattr(special, name)(x)
    wide = getattr(special, name)(x.to(F8))
    assert got.dtype is dtype
    eps = torch.finfo(dtype).eps
    scale = wide.abs().clamp_min(1 if name in ("digamma", "gammaln", "sinc", "entr") else 1e-3)
    assert ((got.to(F8) - wide).abs() <= 4 * eps * scale).all()


def test_integers_are_computed_in_the_default_dtype():
    assert special.i1(torch.tensor([1, 2])).dtype is torch.float32
    assert special.zeta(2, torch.tensor([1, 2])).dtype is torch.float32
    assert special.entr(torch.tensor([True])).item() == 0


DIFFERENTIABLE = "i0 i0e i1 i1e entr erfcx ndtr log_ndtr ndtri".split()


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name):
    f = getattr(special, name)
    low = [0.2, 0.7] if name in ("ndtri", "entr") else [-1.5, 0.7, 3.0]
    x = torch.tensor(low, dtype=F8, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, (x,))


def test_slopes_of_bessel_functions_at_zero():
    for name, slope in (("i0", 0), ("i0e", 0), ("i1", 0.5), ("i1e", 0.5)):
        x = torch.zeros(2, dtype=F8, requires_grad=True)
        getattr(special, name)(x).sum().backward()
        assert x.grad.tolist() == [slope, slope], name


def test_functions_without_a_derivative():
    x = torch.tensor([0.5, 1.5], dtype=F8, requires_grad=True)
    for name in UNARY:
        if "bessel" in name or name == "airy_ai":
            assert not getattr(special, name)(x).requires_grad, name
    for name in POLYNOMIALS:
        assert not getattr(special, name)(x, 3).requires_grad, name


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
def test_the_first_argument_has_no_derivative(name):
    f = getattr(special, name)
    a = torch.tensor([1.5, 2.5], dtype=F8, requires_grad=True)
    x = torch.tensor([0.5, 3.0], dtype=F8, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: f(a.detach(), v), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda v: f(a.detach(), v), (x,))
    with pytest.raises(NotImplementedError, match="the derivative for '.*' is not implemented"):
        f(a, x).sum().backward()


def test_names_are_those_of_the_ops():
    assert special.expit is torch.sigmoid and special.psi is torch.digamma
    assert special.gammainc is torch.igamma and special.multigammaln is torch.mvlgamma
    x = torch.tensor([0.5, 1.0])
    assert torch.equal(x.i0(), torch.i0(x)) and torch.equal(x.igamma(x), torch.igamma(x, x))
    assert torch.equal(x.clone().igammac_(x), torch.igammac(x, x))
    out = torch.empty(0)
    assert special.zeta(2.0, x, out=out) is out and out.shape == (2,)
