# SPDX-License-Identifier: BSD-3-Clause
"""kl_divergence of every registered pair, by quadrature or sums, and the choice of a pair."""

import math

import numpy as np
import pytest

import cograd as torch
from cograd import distributions as D
from cograd.distributions import kl

integrate = pytest.importorskip("scipy.integrate")

F8 = torch.float64


def T(values):
    return torch.tensor(values, dtype=F8)


MATRIX = T([[2.0, 0.3], [0.3, 1.0]])
# Two of each: both ends of every pair, with p in q's support where possible.
MADE = {
    D.Bernoulli: [lambda: D.Bernoulli(T(0.3)), lambda: D.Bernoulli(logits=T(1.2))],
    D.Beta: [lambda: D.Beta(T(2.0), T(3.0)), lambda: D.Beta(T(1.5), T(2.5))],
    D.Binomial: [lambda: D.Binomial(4, T(0.3)), lambda: D.Binomial(4, T(0.6))],
    D.Categorical: [
        lambda: D.Categorical(T([0.2, 0.3, 0.5])),
        lambda: D.Categorical(logits=T([0.1, 0.2, -1.0])),
    ],
    D.Cauchy: [lambda: D.Cauchy(T(0.0), T(1.0)), lambda: D.Cauchy(T(1.0), T(2.0))],
    D.ContinuousBernoulli: [
        lambda: D.ContinuousBernoulli(T(0.3)),
        lambda: D.ContinuousBernoulli(T(0.8)),
    ],
    D.Exponential: [lambda: D.Exponential(T(1.5)), lambda: D.Exponential(T(0.7))],
    D.Gamma: [lambda: D.Gamma(T(2.0), T(1.5)), lambda: D.Gamma(T(3.0), T(0.7))],
    D.Geometric: [lambda: D.Geometric(T(0.4)), lambda: D.Geometric(T(0.7))],
    D.Gumbel: [lambda: D.Gumbel(T(0.0), T(1.0)), lambda: D.Gumbel(T(0.5), T(2.0))],
    D.HalfNormal: [lambda: D.HalfNormal(T(1.0)), lambda: D.HalfNormal(T(2.0))],
    D.Laplace: [lambda: D.Laplace(T(0.0), T(1.0)), lambda: D.Laplace(T(0.5), T(2.0))],
    D.Normal: [lambda: D.Normal(T(0.3), T(1.0)), lambda: D.Normal(T(-0.5), T(2.0))],
    D.Pareto: [lambda: D.Pareto(T(1.0), T(9.0)), lambda: D.Pareto(T(0.2), T(4.0))],
    D.Poisson: [lambda: D.Poisson(T(1.5)), lambda: D.Poisson(T(0.7))],
    D.Uniform: [lambda: D.Uniform(T(0.3), T(0.9)), lambda: D.Uniform(T(-0.5), T(1.5))],
}
OTHERS = {  # pairs of vectors, classes and compositions have separate tests
    D.Dirichlet,
    D.ExponentialFamily,
    D.Independent,
    D.LowRankMultivariateNormal,
    D.MultivariateNormal,
    D.OneHotCategorical,
    D.TransformedDistribution,
}
PAIRS = sorted(((p, q) for p, q in kl._KL_REGISTRY if p not in OTHERS and q not in OTHERS), key=str)


def mean_of_difference(p, q):
    def difference(x):
        log_p = p.log_prob(x)
        return torch.where(log_p > -700, (log_p - q.log_prob(x)) * log_p.exp(), 0.0)

    if p.support.is_discrete:
        values = p.enumerate_support() if p.has_enumerate_support else torch.arange(60, dtype=F8)
        return difference(values).sum().item()
    low = max(getattr(p.support, "lower_bound", -math.inf), -math.inf)
    high = min(getattr(p.support, "upper_bound", math.inf), math.inf)
    low, high = float(low), float(high)
    if low == 0:
        low = 1e-12
    if high == 1:
        high = 1 - 1e-12
    f = lambda v: difference(T(v)).item()
    return integrate.quad(f, low, high, limit=400, epsabs=1e-10)[0]


@pytest.mark.filterwarnings("ignore:The occurrence of roundoff")
@pytest.mark.parametrize("kind_p,kind_q", PAIRS, ids=lambda c: c.__name__)
def test_pairs(kind_p, kind_q):
    p, q = MADE[kind_p][0](), MADE[kind_q][1]()
    got = D.kl_divergence(p, q).item()
    if math.isinf(got):
        # Some value of p is not in q's support.
        torch.manual_seed(0)
        x = p.sample((5000,))
        q._validate_args = False
        inside = q.support.check(x)
        assert not bool(inside.all())
        return
    assert got == pytest.approx(mean_of_difference(p, q), rel=1e-5, abs=1e-7)
    assert got > 0


def test_every_pair_is_here():
    assert len(kl._KL_REGISTRY) >= 86
    assert {c for pair in PAIRS for c in pair} == set(MADE)


@pytest.mark.parametrize("kind", MADE, ids=lambda c: c.__name__)
def test_of_itself(kind):
    p = MADE[kind][0]()
    assert D.kl_divergence(p, p).item() == pytest.approx(0, abs=1e-12)


def test_infinite_by_parameters():
    u, inf = D.Uniform, math.inf
    assert D.kl_divergence(u(0.0, 2.0), u(0.0, 1.0)).item() == inf
    assert D.kl_divergence(u(T(-1.0), T(1.0)), D.Exponential(T(1.0))).item() == inf
    assert D.kl_divergence(D.Bernoulli(T(0.5)), D.Bernoulli(T(1.0))).item() == inf
    assert D.kl_divergence(D.Bernoulli(T(1.0)), D.Bernoulli(T(1.0))).item() == pytest.approx(0)
    assert D.kl_divergence(D.Pareto(T(1.0), T(1.0)), D.Exponential(T(1.0))).item() == inf
    assert D.kl_divergence(D.Pareto(T(1.0), T(9.0)), D.Pareto(T(2.0), T(9.0))).item() == inf
    p, q = D.Categorical(T([0.5, 0.5, 0.0])), D.Categorical(T([1.0, 0.0, 0.0]))
    assert D.kl_divergence(p, q).item() == inf
    assert D.kl_divergence(q, p).item() == pytest.approx(math.log(2), abs=1e-6)
    beta = D.Beta(T(2.0), T(3.0))
    assert D.kl_divergence(beta, u(T(0.1), T(1.0))).item() == inf
    assert D.kl_divergence(beta, u(T(0.0), T(1.0))).item() == pytest.approx(-beta.entropy().item())
    with pytest.raises(NotImplementedError, match="q.total_count > p.total_count"):
        D.kl_divergence(D.Binomial(3, T(0.5)), D.Binomial(4, T(0.5)))
    assert D.kl_divergence(D.Binomial(5, T(0.5)), D.Binomial(4, T(0.5))).item() == inf


def test_vectors():
    full = D.MultivariateNormal(T([0.0, 1.0]), MATRIX)
    other = D.MultivariateNormal(T([0.4, -1.0]), T([[1.0, -0.2], [-0.2, 3.0]]))
    low = D.LowRankMultivariateNormal(T([0.4, -1.0]), T([[0.3], [1.0]]), T([0.5, 2.0]))
    low2 = D.LowRankMultivariateNormal(T([0.0, 0.3]), T([[1.0], [0.2]]), T([1.5, 0.7]))
    alike = {low: low, low2: low2}
    for d in (low, low2):
        alike[d] = D.MultivariateNormal(d.loc, d.covariance_matrix)
    plain = lambda d: alike.get(d, d)
    for p in (full, other, low, low2):
        for q in (full, other, low, low2):
            P, Q = plain(p), plain(q)
            inverse = Q.precision_matrix
            shift = Q.loc - P.loc
            expected = 0.5 * (
                (inverse @ P.covariance_matrix).trace()
                + shift @ inverse @ shift
                - 2
                + Q.covariance_matrix.logdet()
                - P.covariance_matrix.logdet()
            )
            assert D.kl_divergence(p, q).item() == pytest.approx(expected.item(), abs=1e-10)
    batch = D.MultivariateNormal(T([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]), MATRIX)
    got = D.kl_divergence(batch, other)
    assert got.shape == (3,)
    assert got[0].item() == pytest.approx(D.kl_divergence(full, other).item())
    with pytest.raises(ValueError, match="different event shapes"):
        D.kl_divergence(full, D.MultivariateNormal(T([0.0]), T([[1.0]])))


def test_by_monte_carlo():
    """Monte Carlo integration checks pairs whose values are vectors or matrices."""
    torch.manual_seed(1)
    pairs = [
        (D.Dirichlet(T([2.0, 3.0, 1.5])), D.Dirichlet(T([1.0, 2.0, 2.0]))),
        (D.Wishart(T(5.0), MATRIX), D.Wishart(T(4.0), 1.3 * MATRIX)),
        (D.OneHotCategorical(T([0.2, 0.3, 0.5])), D.OneHotCategorical(T([0.5, 0.3, 0.2]))),
        (D.LogNormal(T(0.2), T(1.0)), D.LogNormal(T(0.0), T(1.5))),
        (
            D.Independent(D.Normal(T([0.0, 1.0]), T(1.0)), 1),
            D.Independent(D.Normal(T([0.5, 0.0]), T(2.0)), 1),
        ),
    ]
    for p, q in pairs:
        x = p.sample((40_000,))
        terms = p.log_prob(x) - q.log_prob(x)
        error = 5 * (terms.std() / 40_000**0.5).item()
        got = D.kl_divergence(p, q)
        assert got.shape == p.batch_shape
        assert got.item() == pytest.approx(terms.mean().item(), abs=error)
    w = D.Wishart(T([5.0, 6.0]), MATRIX)  # one matrix of the batch at a time
    single = D.Wishart(T(4.0), MATRIX)
    both = D.kl_divergence(w, single)
    for i, nu in enumerate((5.0, 6.0)):
        one = D.kl_divergence(D.Wishart(T(nu), MATRIX), single)
        assert both[i].item() == pytest.approx(one.item())


def test_compositions_that_differ_are_refused():
    n = D.Normal(T([0.0, 1.0]), T(1.0))
    for p, q in [
        (D.LogNormal(T(0.0), T(1.0)), D.TransformedDistribution(n, D.TanhTransform())),
        (D.Independent(n, 1), D.Independent(n, 0)),
    ]:
        with pytest.raises(NotImplementedError):
            D.kl_divergence(p, q)


def test_generic_formula_of_exponential_families():
    """Bregman's divergence and the generic entropy apply where a family has no formula."""

    class Rate(D.ExponentialFamily):
        arg_constraints = {}
        _mean_carrier_measure = 0

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, x):
            return -torch.log(-x)

    a, b = T([0.5, 2.0]), T([1.0, 3.0])
    expected = D.kl_divergence(D.Exponential(a), D.Exponential(b))
    assert torch.allclose(D.kl_divergence(Rate(a), Rate(b)), expected)
    assert torch.allclose(Rate(a).entropy(), D.Exponential(a).entropy())
    with pytest.raises(NotImplementedError, match="different exponential families"):
        D.kl_divergence(Rate(a), D.Poisson(b))


# --- dispatch -------------------------------------------------------------------------------------


class Wide(D.Normal):
    pass


class Wider(Wide):
    pass


@pytest.fixture
def registry():
    known = dict(kl._KL_REGISTRY)
    yield
    kl._KL_REGISTRY.clear()
    kl._KL_REGISTRY.update(known)
    kl._KL_MEMOIZE.clear()


def test_the_most_specific_pair(registry):
    n, w = D.Normal(0.0, 1.0), Wider(0.0, 1.0)
    assert D.kl_divergence(w, n).item() == 0  # inherited
    D.register_kl(Wide, D.Normal)(lambda p, q: "wide")
    assert D.kl_divergence(w, n) == "wide"
    assert D.kl_divergence(n, w).item() == 0
    D.register_kl(Wider, D.Normal)(lambda p, q: "wider")
    assert D.kl_divergence(w, n) == "wider"
    assert D.kl_divergence(Wide(0.0, 1.0), n) == "wide"
    D.register_kl(Wide, Wide)(lambda p, q: "both")
    with pytest.warns(RuntimeWarning, match=r"register_kl\(Wider, Wide\)"):
        assert D.kl_divergence(w, w) == "wider"  # p first


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match="p type Normal and q type Cauchy"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="q type int"):
        D.kl_divergence(D.Normal(0.0, 1.0), 3)
    with pytest.raises(TypeError, match="type_p to be a Distribution subclass but got 3"):
        D.register_kl(3, D.Normal)
    with pytest.raises(TypeError, match="type_q"):
        D.register_kl(D.Normal, None)


def test_gradients():
    """Optimisation drives a divergence to 0."""
    loc = torch.zeros((), dtype=F8, requires_grad=True)
    log_scale = torch.ones((), dtype=F8, requires_grad=True)
    target = D.Normal(T(2.0), T(0.5))
    optimizer = torch.optim.Adam([loc, log_scale], lr=0.1)
    for _ in range(400):
        optimizer.zero_grad()
        D.kl_divergence(D.Normal(loc, log_scale.exp()), target).backward()
        optimizer.step()
    assert loc.item() == pytest.approx(2, abs=1e-3)
    assert np.exp(log_scale.item()) == pytest.approx(0.5, abs=1e-3)
