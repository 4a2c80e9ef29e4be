# SPDX-License-Identifier: BSD-3-Clause
"""Distributions compared with SciPy's: densities, CDFs, moments, entropies, samples."""

import numpy as np
import pytest

import cograd as torch
from cograd import distributions as D

stats = pytest.importorskip("scipy.stats")

F8 = torch.float64


def T(values):
    return torch.tensor(values, dtype=F8)


# Name: (parameters, SciPy's equal distribution); names of further cases end in a number.
CONTINUOUS = {
    "Beta": [((a, b), stats.beta(a, b)) for a, b in [(0.5, 0.7), (2, 3), (9, 0.8)]],
    "Cauchy": [((m, s), stats.cauchy(m, s)) for m, s in [(0, 1), (-3, 0.4)]],
    "Chi2": [((k,), stats.chi2(k)) for k in (0.7, 3, 40)],
    "Exponential": [((r,), stats.expon(scale=1 / r)) for r in (0.3, 4)],
    "FisherSnedecor": [((a, b), stats.f(a, b)) for a, b in [(1, 9), (5, 12)]],
    "Gamma": [((a, r), stats.gamma(a, scale=1 / r)) for a, r in [(0.3, 2), (1, 1), (50, 3)]],
    "GeneralizedPareto": [
        ((m, s, c), stats.genpareto(c, m, s)) for m, s, c in [(0, 1, 0.2), (1, 2, -0.4), (0, 3, 0)]
    ],
    "Gumbel": [((m, s), stats.gumbel_r(m, s)) for m, s in [(0, 1), (-2, 3)]],
    "HalfCauchy": [((s,), stats.halfcauchy(scale=s)) for s in (0.3, 2)],
    "HalfNormal": [((s,), stats.halfnorm(scale=s)) for s in (0.3, 2)],
    "InverseGamma": [((a, r), stats.invgamma(a, scale=r)) for a, r in [(0.7, 1), (5, 2)]],
    "Laplace": [((m, s), stats.laplace(m, s)) for m, s in [(0, 1), (-3, 0.4)]],
    "LogNormal": [((m, s), stats.lognorm(s, scale=np.exp(m))) for m, s in [(0, 1), (1, 0.3)]],
    "Normal": [((m, s), stats.norm(m, s)) for m, s in [(0, 1), (-3, 0.4)]],
    "Pareto": [((s, a), stats.pareto(a, scale=s)) for s, a in [(1, 0.7), (2, 5)]],
    "StudentT": [((k, m, s), stats.t(k, m, s)) for k, m, s in [(0.8, 0, 1), (3.5, 1, 2)]],
    "Uniform": [((a, b), stats.uniform(a, b - a)) for a, b in [(0, 1), (-2, 5)]],
    "VonMises": [((m, k), stats.vonmises(k, m)) for m, k in [(0, 0.3), (0.4, 30)]],
    "Weibull": [((s, k), stats.weibull_min(k, scale=s)) for s, k in [(1, 0.7), (2, 3)]],
}
DISCRETE = {
    "Bernoulli": [((p,), stats.bernoulli(p)) for p in (0.2, 0.9)],
    "Binomial": [((n, p), stats.binom(n, p)) for n, p in [(5, 0.3), (40, 0.9)]],
    "Geometric": [((p,), stats.geom(p, loc=-1)) for p in (0.2, 0.9)],
    "NegativeBinomial": [((n, p), stats.nbinom(n, 1 - p)) for n, p in [(0.7, 0.3), (5, 0.6)]],
    "Poisson": [((r,), stats.poisson(r)) for r in (0.3, 30)],
}
WITHOUT_CDF = {"Beta", "FisherSnedecor", "StudentT", "VonMises"}
WITHOUT_ICDF = {*WITHOUT_CDF, "Gamma", "Chi2", "InverseGamma"}
WITHOUT_ENTROPY = {"FisherSnedecor", "VonMises", "NegativeBinomial", "Poisson"}
LEVELS = np.array([1e-3, 0.1, 0.5, 0.8, 0.999])


def cases(table):
    return [
        pytest.param(name, params, law, id=f"{name}{params}")
        for name, laws in table.items()
        for params, law in laws
    ]


def made(name, params):
    return getattr(D, name)(*(T(float(p)) for p in params))


def close(got, expected, rtol=1e-8, atol=1e-12):
    np.testing.assert_allclose(got.numpy(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name,params,law", cases(CONTINUOUS))
def test_continuous_functions(name, params, law):
    d = made(name, params)
    x = law.ppf(LEVELS)
    close(d.log_prob(T(x)), law.logpdf(x))
    if name in WITHOUT_CDF:
        with pytest.raises(NotImplementedError):
            d.cdf(T(x))
    else:
        close(d.cdf(T(x)), LEVELS)
    if name in WITHOUT_ICDF:
        with pytest.raises(NotImplementedError):
            d.icdf(T(LEVELS))
    else:
        close(d.icdf(T(LEVELS)), x)


@pytest.mark.parametrize("name,params,law", cases(CONTINUOUS) + cases(DISCRETE))
def test_moments_and_entropy(name, params, law):
    d = made(name, params)
    if name == "VonMises":  # the moments are circular
        close(d.mean, params[0])
        return
    mean, variance = law.stats("mv")
    undefined = {"HalfCauchy": np.inf, "FisherSnedecor": np.nan, "InverseGamma": np.inf}
    if not np.isfinite(mean):
        mean = undefined.get(name, mean)
    if name == "StudentT" and params[0] <= 1:
        mean, variance = np.nan, np.nan
    if name == "Cauchy":
        variance = np.inf
    if name == "InverseGamma" and params[0] <= 1:
        variance = np.inf
    close(d.mean, mean)
    close(d.variance, variance)
    close(d.stddev, np.sqrt(variance))
    if name in WITHOUT_ENTROPY:
        with pytest.raises(NotImplementedError):
            d.entropy()
    else:
        close(d.entropy(), law.entropy())
        close(d.perplexity(), np.exp(law.entropy()))


@pytest.mark.parametrize("name,params,law", cases(CONTINUOUS))
def test_continuous_modes(name, params, law):
    """No value on a fine grid has a higher density than the mode, if the support contains it."""
    mode = made(name, params).mode
    ends = np.linspace(1e-4, 1 - 1e-4, 41)  # SciPy inverts some laws by search: no more of them
    x = np.interp(np.linspace(0, 1, 2001), np.linspace(0, 1, 41), law.ppf(ends))
    if name == "Uniform" or (name == "FisherSnedecor" and params[0] <= 2):
        assert bool(mode.isnan())
        return
    with np.errstate(divide="ignore"):
        density = law.pdf(mode.item())
    assert np.isinf(density) or density >= law.pdf(x).max() * (1 - 1e-6)


@pytest.mark.parametrize("name,params,law", cases(DISCRETE))
def test_discrete_functions(name, params, law):
    d = made(name, params)
    x = np.unique(law.ppf(LEVELS))
    close(d.log_prob(T(x)), law.logpmf(x), rtol=1e-7)
    everything = np.arange(law.ppf(1 - 1e-9) + 1)
    assert law.pmf(d.mode.item()) >= law.pmf(everything).max() * (1 - 1e-9)
    if d.has_enumerate_support:
        chances = d.log_prob(d.enumerate_support()).exp()
        close(chances.sum(0), 1)
    else:
        with pytest.raises(NotImplementedError):
            d.enumerate_support()


@pytest.mark.parametrize("name,params,law", cases(CONTINUOUS))
def test_continuous_samples(name, params, law):
    torch.manual_seed(11)
    x = made(name, params).sample((20_000,))
    assert x.shape == (20_000,)
    assert stats.kstest(x.numpy(), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name,params,law", cases(DISCRETE))
def test_discrete_samples(name, params, law):
    torch.manual_seed(12)
    x = made(name, params).sample((20_000,)).numpy()
    values, counts = np.unique(x, return_counts=True)
    expected = law.pmf(values) * len(x)
    often = expected > 5
    seen = np.append(counts[often], len(x) - counts[often].sum())
    chances = np.append(expected[often], len(x) - expected[often].sum())
    if chances[-1] < 1:
        seen, chances = seen[:-1], chances[:-1] * seen[:-1].sum() / chances[:-1].sum()
    assert stats.chisquare(seen, chances).pvalue > 1e-3


# --- vectors and matrices -------------------------------------------------------------------------

MEAN = np.array([0.5, -1.0, 2.0])
FACTOR = np.array([[1.0, 0, 0], [0.5, 2, 0], [-0.3, 0.1, 0.7]])
COVARIANCE = FACTOR @ FACTOR.T


def normals():
    loc = T(MEAN)
    low = T([[0.3], [1.0], [-0.5]])
    diagonal = T([0.5, 1.0, 2.0])
    return {
        "covariance": (D.MultivariateNormal(loc, T(COVARIANCE)), COVARIANCE),
        "precision": (
            D.MultivariateNormal(loc, precision_matrix=T(np.linalg.inv(COVARIANCE))),
            COVARIANCE,
        ),
        "factor": (D.MultivariateNormal(loc, scale_tril=T(FACTOR)), COVARIANCE),
        "low rank": (
            D.LowRankMultivariateNormal(loc, low, diagonal),
            (low @ low.T + diagonal.diag()).numpy(),
        ),
    }


@pytest.mark.parametrize("kind", normals())
def test_multivariate_normal(kind):
    d, covariance = normals()[kind]
    law = stats.multivariate_normal(MEAN, covariance)
    x = np.random.default_rng(0).normal(size=(4, 5, 3))
    close(d.log_prob(T(x)), law.logpdf(x))
    close(d.entropy(), law.entropy())
    close(d.covariance_matrix, covariance)
    close(d.precision_matrix @ d.covariance_matrix, np.eye(3), atol=1e-10)
    close(d.scale_tril, np.linalg.cholesky(covariance))
    close(d.variance, np.diag(covariance))
    close(d.mean, MEAN)
    torch.manual_seed(13)
    samples = d.sample((40_000,)).numpy()
    np.testing.assert_allclose(np.cov(samples.T), covariance, atol=0.1)
    scores = np.linalg.solve(np.linalg.cholesky(covariance), (samples - MEAN).T)
    for row in scores:
        assert stats.kstest(row, "norm").pvalue > 1e-3


def test_batches_of_multivariate_normals():
    """Matrices and means broadcast with each other and with the values."""
    rng = np.random.default_rng(1)
    factors = np.stack([FACTOR, 2 * FACTOR, FACTOR])
    locs = rng.normal(size=(4, 1, 3))
    d = D.MultivariateNormal(T(locs), scale_tril=T(factors))
    assert d.batch_shape == (4, 3)
    x = rng.normal(size=(2, 4, 3, 3))
    got = d.log_prob(T(x))
    assert d.rsample((5,)).shape == (5, 4, 3, 3)
    for i, j, k in np.ndindex(2, 4, 3):
        law = stats.multivariate_normal(locs[j, 0], factors[k] @ factors[k].T)
        assert got[i, j, k].item() == pytest.approx(law.logpdf(x[i, j, k]))


def test_dirichlet():
    alpha = np.array([0.5, 2.0, 3.0])
    d, law = D.Dirichlet(T(alpha)), stats.dirichlet(alpha)
    x = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    close(d.log_prob(T(x)), law.logpdf(x.T))
    close(d.mean, law.mean())
    close(d.variance, law.var())
    close(d.entropy(), law.entropy())
    close(D.Dirichlet(T([2.0, 3.0, 5.0])).mode, [1 / 7, 2 / 7, 4 / 7])


def test_wishart():
    d, law = D.Wishart(T(4.5), T(COVARIANCE)), stats.wishart(4.5, COVARIANCE)
    torch.manual_seed(14)
    x = d.sample((30_000,))
    close(d.log_prob(x[:5]), [law.logpdf(v) for v in x[:5].numpy()])
    close(d.mean, law.mean())
    close(d.variance, law.var())
    close(d.entropy(), law.entropy())
    close(D.Wishart(T(9.0), T(COVARIANCE)).mode, stats.wishart(9, COVARIANCE).mode())
    np.testing.assert_allclose(x.mean(0).numpy(), law.mean(), atol=0.2)
    assert stats.kstest(x[:, 0, 0].numpy() / COVARIANCE[0, 0], stats.chi2(4.5).cdf).pvalue > 1e-3


def test_lkj():
    """A correlation of two is a shifted beta variable; densities of three integrate to 1."""
    torch.manual_seed(15)
    d = D.LKJCholesky(2, T(1.7))
    r = d.sample((20_000,))[:, 1, 0].numpy()
    assert stats.kstest((r + 1) / 2, stats.beta(1.7, 1.7).cdf).pvalue > 1e-3
    d = D.LKJCholesky(3, T(0.6))
    samples = d.sample((20_000,))
    correlations = (samples @ samples.mT).numpy()
    for i, j in ((0, 1), (0, 2), (1, 2)):  # each one is Beta(eta + (n - 2) / 2) on [-1, 1]
        law = stats.beta(1.1, 1.1)
        assert stats.kstest((correlations[:, i, j] + 1) / 2, law.cdf).pvalue > 1e-3
    to = torch.distributions.biject_to(d.support)
    z = torch.randn(200_000, 3, dtype=F8) * 1.5
    base = D.Normal(T(0.0), T(1.5))
    y = to(z)
    weight = d.log_prob(y) + to.log_abs_det_jacobian(z, y) - base.log_prob(z).sum(-1)
    assert weight.exp().mean().item() == pytest.approx(1, abs=0.02)


def test_multinomial_and_categorical():
    p = np.array([0.2, 0.5, 0.3])
    d, law = D.Multinomial(6, T(p)), stats.multinomial(6, p)
    x = np.array([[1.0, 3, 2], [0, 6, 0]])
    close(d.log_prob(T(x)), law.logpmf(x))
    close(d.entropy(), law.entropy())
    close(d.mean, 6 * p)
    close(d.variance, np.diag(law.cov()))
    torch.manual_seed(16)
    counts = d.sample((10_000,))
    assert bool((counts.sum(-1) == 6).all())
    np.testing.assert_allclose(np.cov(counts.numpy().T), law.cov(), atol=0.1)
    c = D.Categorical(T([2.0, 5.0, 3.0]))
    close(c.log_prob(torch.arange(3)), np.log(p))
    close(c.entropy(), stats.entropy(p))
    drawn = np.bincount(c.sample((20_000,)).numpy(), minlength=3)
    assert stats.chisquare(drawn, 20_000 * p).pvalue > 1e-3
    assert D.Categorical(T([0.0, 1.0])).entropy().item() == pytest.approx(0, abs=1e-15)


def test_continuous_bernoulli():
    """The density p^x (1 - p)^(1 - x) is normalised on both sides of the switch to series."""
    from scipy import integrate

    for p in (0.02, 0.3, 0.4995, 0.5, 0.5009, 0.97):
        d = D.ContinuousBernoulli(T(p))

        def density(x, p=p):
            return p**x * (1 - p) ** (1 - x)

        norm = integrate.quad(density, 0, 1)[0]
        mean = integrate.quad(lambda x: x * density(x), 0, 1)[0] / norm
        square = integrate.quad(lambda x: x * x * density(x), 0, 1)[0] / norm
        x = np.array([0.1, 0.5, 0.8])
        # The series of the moments are truncated after two terms.
        close(d.log_prob(T(x)), np.log(density(x) / norm), rtol=1e-6, atol=1e-8)
        close(d.mean, mean, rtol=1e-6)
        close(d.variance, square - mean**2, rtol=1e-5)
        if abs(p - 0.5) > 1e-3:
            below = [integrate.quad(density, 0, v)[0] / norm for v in x]
            close(d.cdf(T(x)), below)
            close(d.icdf(T(below)), x)


def test_continuous_bernoulli_of_large_logits():
    """Its probability is 1 in float32, but density, samples and gradients are finite."""
    logits = torch.tensor([-90.0, -20.0, 20.0, 90.0], requires_grad=True)
    d = D.ContinuousBernoulli(logits=logits)
    x = torch.tensor([0.0, 0.01, 0.99, 0.5])
    got = d.log_prob(x)
    expected = [np.log(90), np.log(20) - 0.2, np.log(20) - 0.2, np.log(90) - 45]
    close(got.detach(), expected, rtol=1e-5)
    (g,) = torch.autograd.grad(got.sum(), logits)
    close(g, [-1 / 90, 0.01 - 1 / 20, -(0.01 - 1 / 20), 1 / 90 - 0.5], rtol=1e-4)
    assert bool(d.rsample((100,)).isfinite().all())


def test_relaxed_distributions():
    """The densities integrate to 1 and fit the samples."""
    from scipy import integrate

    d = D.RelaxedBernoulli(T(0.8), T(0.3))
    total = integrate.quad(lambda v: d.log_prob(T(v)).exp().item(), 1e-9, 1 - 1e-9)[0]
    assert total == pytest.approx(1, abs=1e-4)
    torch.manual_seed(17)
    x = d.sample((20_000,)).numpy()
    half = integrate.quad(lambda v: d.log_prob(T(v)).exp().item(), 1e-9, 0.5)[0]
    assert np.mean(x < 0.5) == pytest.approx(half, abs=0.02)
    c = D.RelaxedOneHotCategorical(T(0.9), T([0.3, 0.7]))
    # For two categories, the first share is a relaxed Bernoulli variable.
    b = D.RelaxedBernoulli(T(0.9), T(0.3))
    for v in (0.2, 0.6):
        assert c.log_prob(T([v, 1 - v])).item() == pytest.approx(b.log_prob(T(v)).item())
    shares = c.sample((20_000,))
    close(shares.sum(-1), np.ones(20_000))
    assert (shares[:, 0] > 0.5).double().mean().item() == pytest.approx(0.3, abs=0.015)


def test_kumaraswamy():
    from scipy import integrate

    for a, b in ((0.5, 0.8), (2, 3)):
        d = D.Kumaraswamy(T(float(a)), T(float(b)))
        x = np.array([0.1, 0.5, 0.9])
        close(d.cdf(T(x)), 1 - (1 - x**a) ** b)
        close(d.icdf(d.cdf(T(x))), x)

        def mean_of(f, d=d):
            return integrate.quad(lambda v: f(v) * d.log_prob(T(v)).exp().item(), 0, 1)[0]

        close(d.mean, mean_of(lambda v: v), rtol=1e-6)
        close(d.variance, mean_of(lambda v: v * v) - d.mean.item() ** 2, rtol=1e-6)
        entropy = mean_of(lambda v, d=d: -d.log_prob(T(v)).item())
        close(d.entropy(), entropy, rtol=1e-4)
    torch.manual_seed(18)
    x = d.sample((20_000,)).numpy()
    assert stats.kstest(x, lambda v: 1 - (1 - v**2) ** 3).pvalue > 1e-3


def test_mixture():
    weights, locs, scales = [0.3, 0.7], np.array([0.0, 4.0]), np.array([1.0, 0.5])
    d = D.MixtureSameFamily(D.Categorical(T(weights)), D.Normal(T(locs), T(scales)))

    def mixed(f):
        return sum(w * f(stats.norm(m, s)) for w, m, s in zip(weights, locs, scales, strict=True))

    x = np.array([-1.0, 2.0, 4.2])
    close(d.log_prob(T(x)), np.log(mixed(lambda n: n.pdf(x))))
    close(d.cdf(T(x)), mixed(lambda n: n.cdf(x)))
    close(d.mean, mixed(lambda n: n.mean()))
    close(d.variance, mixed(lambda n: n.var() + n.mean() ** 2) - d.mean.item() ** 2)
    torch.manual_seed(19)
    samples = d.sample((20_000,)).numpy()
    assert stats.kstest(samples, lambda v: mixed(lambda n: n.cdf(v))).pvalue > 1e-3


def test_logistic_normal():
    """The logits of stick breaking are normal."""
    torch.manual_seed(20)
    d = D.LogisticNormal(T([0.2, -0.4]), T([1.0, 0.5]))
    x = d.sample((20_000,))
    assert x.shape == (20_000, 3)
    z = D.StickBreakingTransform().inv(x).numpy()
    assert stats.kstest(z[:, 0], stats.norm(0.2, 1).cdf).pvalue > 1e-3
    assert stats.kstest(z[:, 1], stats.norm(-0.4, 0.5).cdf).pvalue > 1e-3


def test_float32_tails():
    """Tails keep values that a plain formula would round away."""
    n = D.Normal(0.0, 1.0)
    assert n.cdf(torch.tensor(-10.0)).item() == pytest.approx(stats.norm.cdf(-10), rel=1e-5)
    v = D.VonMises(torch.tensor(0.0), torch.tensor(1e5))
    assert v.log_prob(torch.tensor(0.001)).item() == pytest.approx(
        stats.norm(0, 1e-5**0.5).logpdf(0.001), abs=1e-3
    )
    b = D.Bernoulli(logits=torch.tensor(60.0))
    assert b.log_prob(torch.tensor(0.0)).item() == -60
    r = D.RelaxedBernoulli(torch.tensor(0.5), logits=torch.tensor(200.0))
    assert bool(r.base_dist.log_prob(torch.tensor(0.0)).isfinite())
