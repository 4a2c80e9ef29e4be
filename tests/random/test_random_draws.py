# SPDX-License-Identifier: BSD-3-Clause
"""Random functions with a parameter per element: laws, streams, errors, gradients of samples."""

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck
from cograd.func import vmap

stats = pytest.importorskip("scipy.stats")
mp = pytest.importorskip("mpmath")

OPS = torch._C._ops
F8 = torch.float64
N = 40_000
DRAWS = {
    "poisson": lambda t, **k: torch.poisson(t, **k),
    "binomial": lambda t, **k: torch.binomial(t + 20, t / 20, **k),
    "gamma": lambda t, **k: torch._standard_gamma(t, **k),
    "dirichlet": lambda t, **k: torch._sample_dirichlet(t, **k),
    "von_mises": lambda t, **k: OPS._sample_von_mises(t, **k),
}


def full(value, n=N):
    return torch.full((n,), float(value), dtype=F8)


# --- the laws: Kolmogorov and Smirnov's or the chi-squared test, by one seed ---------------------


@pytest.mark.parametrize("alpha", [0.05, 0.5, 1, 3.3, 200, 1e6])
def test_gamma_law(alpha):
    torch.manual_seed(1)
    x = torch._standard_gamma(full(alpha)).numpy()
    assert stats.kstest(x, stats.gamma(alpha).cdf).pvalue > 1e-3


@pytest.mark.parametrize("kappa", [1e-9, 1e-6, 0.3, 2, 50, 1e7])
def test_von_mises_law(kappa):
    torch.manual_seed(2)
    x = OPS._sample_von_mises(full(kappa)).numpy()
    assert stats.kstest(x, stats.vonmises(kappa).cdf).pvalue > 1e-3


def test_dirichlet_law():
    torch.manual_seed(3)
    alpha = torch.tensor([0.2, 1.0, 3.0], dtype=F8)
    x = torch._sample_dirichlet(alpha.expand(N, 3)).numpy()
    assert np.allclose(x.sum(1), 1)
    for i, a in enumerate(alpha.tolist()):
        assert stats.kstest(x[:, i], stats.beta(a, 4.2 - a).cdf).pvalue > 1e-3


def chi_squared(x, law):
    """Returns the p-value for integers, in bins that are expected to contain more than five."""
    low, high = int(law.ppf(1e-3)), int(law.ppf(1 - 1e-3))
    edges = np.unique(np.linspace(low, high, min(60, high - low + 1)).astype(int))
    seen = np.histogram(x, [-np.inf, *(edges + 0.5), np.inf])[0]
    expected = np.diff([0, *law.cdf(edges), 1]) * len(x)
    rare = expected <= 5
    if rare.any():
        seen = np.append(seen[~rare], seen[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("rate", [0.01, 0.5, 9.9, 10.1, 37.5, 1000, 1e6, 1e8])
def test_poisson_law(rate):
    torch.manual_seed(4)
    assert chi_squared(torch.poisson(full(rate)).numpy(), stats.poisson(rate)) > 1e-3


@pytest.mark.parametrize(
    "n,p", [(20, 0.2), (50, 0.21), (50, 0.79), (1000, 0.5), (1000, 0.003), (1e6, 0.9), (1e9, 0.4)]
)
def test_binomial_law(n, p):
    torch.manual_seed(5)
    x = torch.binomial(full(n), full(p)).numpy()
    assert x.min() >= 0
    assert x.max() <= n
    assert chi_squared(x, stats.binom(int(n), p)) > 1e-3


def test_binomial_of_one_trial():
    torch.manual_seed(6)
    x = torch.binomial(full(1), full(0.3)).numpy()
    assert set(x) == {0, 1}
    assert abs(x.mean() - 0.3) < 5 * (0.21 / N) ** 0.5


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWS)
def test_seed_generator_and_threads(name):
    draw = DRAWS[name]
    t = full(4, 5000).view(500, 10)
    torch.manual_seed(7)
    first = draw(t)
    second = draw(t)
    assert not torch.equal(first, second)
    given = draw(t, generator=torch.Generator().manual_seed(7))
    assert torch.equal(given, first)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = draw(t, generator=torch.Generator().manual_seed(7))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(alone, first)
    if name != "dirichlet":  # an element depends only on its position
        part = draw(t.flatten()[:100], generator=torch.Generator().manual_seed(7))
        assert torch.equal(part, first.flatten()[:100])


@pytest.mark.parametrize("name", DRAWS)
def test_layouts_and_empty(name):
    draw = DRAWS[name]
    t = torch.linspace(1, 6, 12, dtype=F8).view(3, 4)

    def seeded(x):
        return draw(x, generator=torch.Generator().manual_seed(8))

    assert torch.equal(seeded(t.T.contiguous().T), seeded(t))
    assert draw(t[:0]).shape == (0, 4)
    assert draw(t[:, :0]).shape == (3, 0)
    assert draw(torch.tensor(2.0)).shape == ()


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(name, dtype):
    x = DRAWS[name](torch.full((2000,), 4.0, dtype=dtype))
    assert x.dtype is dtype
    assert bool(x.isfinite().all())


@pytest.mark.parametrize("name", DRAWS)
def test_inside_vmap(name):
    t = full(4, 60).view(3, 20)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(DRAWS[name])(t)
    same = vmap(DRAWS[name], randomness="same")(t)
    assert torch.equal(same[0], same[1])
    different = vmap(DRAWS[name], randomness="different")(t)
    assert not torch.equal(different[0], different[1])


def test_out():
    out = torch.empty(3, 2).T
    t = torch.full((2, 3), 30.0)
    torch.manual_seed(9)
    expected = torch.poisson(t)
    torch.manual_seed(9)
    assert torch.poisson(t, out=out) is out
    assert torch.equal(out, expected)


# --- what is refused, and edges ------------------------------------------------------------------


def test_refused():
    for bad in (-1.0, float("nan")):
        with pytest.raises(RuntimeError, match="invalid Poisson rate"):
            torch.poisson(torch.tensor([1.0, bad]))
    for op in (torch.poisson, torch._standard_gamma, torch._sample_dirichlet):
        with pytest.raises(NotImplementedError, match="floating"):
            op(torch.tensor([1]))
    with pytest.raises(ValueError, match="floating-point dtypes for count, got: Long"):
        torch.binomial(torch.tensor([1]), torch.tensor([0.5]))
    with pytest.raises(RuntimeError, match="one dtype"):
        torch.binomial(torch.tensor([1.0]), torch.tensor([0.5], dtype=F8))
    with pytest.raises(RuntimeError, match="do not broadcast"):
        torch.binomial(torch.ones(2), torch.ones(3))
    with pytest.raises(RuntimeError, match="one dtype and shape"):
        OPS._standard_gamma_grad(torch.ones(2), torch.ones(3))


def test_edges():
    nan, inf = float("nan"), float("inf")
    t = torch.tensor
    counts = torch.binomial(t([-1.0, 10.0, 10.5, 10.0, nan]), t([0.5, 1.5, 1.0, -0.1, 0.5]))
    assert counts[:4].tolist() == [0, 10, 10, 0]
    assert bool(counts[4].isnan())
    assert torch.poisson(t([0.0, inf])).tolist() == [0, inf]
    tiny = torch.finfo(torch.float32).tiny
    g = torch._standard_gamma(t([0.0, 1e-10, inf, nan]))
    assert g[:3].tolist() == [tiny, tiny, inf]
    assert bool(g[3].isnan())
    rows = torch._sample_dirichlet(t([[1e-10, 1e-10], [1e-30, 1e-25]]))
    assert torch.allclose(rows.sum(1), torch.ones(2))
    assert torch.binomial(torch.ones(3, 1) * 9, torch.ones(2)).tolist() == [[9, 9]] * 3


# --- gradients of samples: the implicit function theorem on mpmath's distribution functions ------


def implicit(cdf, density, a):
    with mp.workdps(40):
        return float(-mp.diff(cdf, a) / density)


@pytest.mark.parametrize("a", [1e-6, 1e-3, 0.1, 0.5, 1, 1.5, 3, 10, 50, 300, 3000])
def test_gamma_sample_gradient(a):
    spread = a**0.5
    points = [a * 1e-5, a * 0.1, a * 0.5, a, a + 1, a + 3 * spread, a + 6 * spread, a * 3, a + 20]
    if a >= 20:
        points = [a + z * spread for z in (-7, -4, -1, 0, 0.3, 2, 7)]
    for x in points:
        density = mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))
        lower = x < a
        with mp.workdps(40):
            if lower:
                expected = implicit(lambda s: mp.gammainc(s, 0, x, regularized=True), density, a)
            else:
                expected = implicit(
                    lambda s: 1 - mp.gammainc(s, x, mp.inf, regularized=True), density, a
                )
        got = OPS._standard_gamma_grad(full(a, 1), full(x, 1)).item()
        assert got == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("a", [1e-3, 0.1, 1, 3, 200])
@pytest.mark.parametrize("b", [1e-3, 0.5, 1, 20, 200])
def test_dirichlet_sample_gradient(a, b):
    total = a + b
    b = total - a
    mean = a / total
    spread = (mean * (1 - mean) / (total + 1)) ** 0.5
    points = [x for x in (1e-6, 0.01, 0.2, 0.5, 0.7, 0.95, 0.999) if abs(x - mean) < 9 * spread]
    assert points
    for x in points:
        with mp.workdps(50):
            density = mp.exp((a - 1) * mp.log(x) + (b - 1) * mp.log1p(-x)) / mp.beta(a, b)
            expected = implicit(
                lambda s, x=x: mp.betainc(s, b, 0, x, regularized=True), density * (1 - x), a
            )
        got = OPS._dirichlet_grad(full(x, 1), full(a, 1), full(total, 1)).item()
        assert got == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("z", [-6, -2, 0, 0.5, 3, 7])
def test_gamma_sample_gradient_where_formulas_change(z):
    """dx/da = 1 + z / (2 sqrt(a)) + ... changes little with a, whichever formula computes it."""
    a = torch.tensor([0.99999e5, 1.00001e5], dtype=F8)
    below, above = OPS._standard_gamma_grad(a, a + z * a.sqrt()).tolist()
    assert abs(below - above) < 2e-7
    assert below == pytest.approx(1 + z / (2 * 1e5**0.5), abs=2e-4)


@pytest.mark.parametrize("name", ["gamma", "dirichlet"])
def test_gradients_by_quantiles(name):
    """Forward and reverse mode agree; with a fixed seed, the sample is a function."""
    alpha = torch.tensor([[2.0, 0.7, 5.0]], dtype=F8, requires_grad=True)

    def draw(a):
        return DRAWS[name](a, generator=torch.Generator().manual_seed(3))

    x = draw(alpha)
    if name == "gamma":
        q = [stats.gamma(a).cdf(v) for a, v in zip(alpha[0].tolist(), x[0].tolist(), strict=True)]
        (g,) = torch.autograd.grad(x.sum(), alpha)
        h = 1e-5
        for i, a in enumerate(alpha[0].tolist()):
            slope = (stats.gamma(a + h).ppf(q[i]) - stats.gamma(a - h).ppf(q[i])) / (2 * h)
            assert g[0, i].item() == pytest.approx(slope, rel=1e-6)
    direction = torch.tensor([[0.3, -1.0, 0.4]], dtype=F8)
    _, tangent = torch.func.jvp(draw, (alpha.detach(),), (direction,))
    weight = torch.tensor([[1.0, 2.0, -1.5]], dtype=F8)
    (g,) = torch.autograd.grad((draw(alpha) * weight).sum(), alpha)
    assert torch.allclose((g * direction).sum(), (tangent * weight).sum())


def test_dirichlet_gradient_of_expectations():
    """The mean of the gradient of x_0 is the gradient of its mean, a_0 / sum(a)."""
    torch.manual_seed(10)
    alpha = torch.tensor([2.0, 0.7, 5.0], dtype=F8, requires_grad=True)
    x = torch._sample_dirichlet(alpha.expand(N, 3))
    (g,) = torch.autograd.grad(x[:, 0].mean(), alpha)
    (expected,) = torch.autograd.grad(alpha[0] / alpha.sum(), alpha)
    assert torch.allclose(g, expected, atol=2e-3)


def test_second_derivatives_are_refused():
    alpha = torch.tensor([2.0], requires_grad=True)
    (g,) = torch.autograd.grad(torch._standard_gamma(alpha).sum(), alpha, create_graph=True)
    with pytest.raises(NotImplementedError, match="'_standard_gamma_grad' is not implemented"):
        g.backward()


def test_gradients_that_are_zero():
    rate = torch.tensor([3.0], requires_grad=True)
    assert torch.autograd.grad(torch.poisson(rate).sum(), rate)[0].item() == 0
    assert not torch.binomial(torch.tensor([3.0]), rate / 4).requires_grad
    assert gradcheck(lambda r: torch.poisson(r, generator=torch.Generator()) * 2, (rate.double(),))
