# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of samples and densities of distributions, both also under function transforms."""

import numpy as np
import pytest
from distribution_cases import ALL, built

import cograd as torch
from cograd import distributions as D
from cograd.autograd import gradcheck
from cograd.func import grad, hessian, jvp, vmap

# Ops without a rule warn once; which ops these are does not matter here.
pytestmark = pytest.mark.filterwarnings("ignore:vmap")

F8 = torch.float64


def T(values):
    return torch.tensor(values, dtype=F8)


class Recorded:
    """Makes tensors of a case's parameters, and records the floating ones."""

    def __init__(self, instead=None):
        self.made = []
        self.instead = instead

    def __call__(self, values):
        if self.instead is not None:
            t = self.instead[len(self.made)]
        else:
            t = T(values)
        self.made.append(t)
        return t


def parameters(name, params):
    recorded = Recorded()
    built(D, recorded, name, params)
    return recorded.made


def rebuilt(name, params, tensors, **options):
    return built(D, Recorded(tensors), name, params, **options)


def cases(keep):
    # A matrix is written as a product of one parameter with itself, not of two free ones.
    found = [c for c in ALL if keep(c) and "mT" not in c[1]]
    return [pytest.param(*c, id=f"{c[0]}-{i}") for i, c in enumerate(found)]


def smooth(case):
    """Returns densities that are differentiable with respect to all parameters."""
    return case[0] not in ("LKJCholesky",) and "probs" not in case[1]


def symmetric(t):
    """Keeps matrices symmetric when they are perturbed."""
    if t.dim() == 2 and t.shape[0] == t.shape[1] and torch.equal(t, t.mT):
        return (t + t.mT) / 2
    return t


@pytest.mark.parametrize("name,params,value", cases(smooth))
def test_log_prob_by_parameters(name, params, value):
    start = parameters(name, params)
    x = eval(value, {"T": T})
    matrices = [t.dim() == 2 and t.shape[0] == t.shape[1] for t in start]

    def density(*tensors):
        even = [
            (t + t.mT) / 2 if m and "scale_tril" not in params else t.tril() if m else t
            for t, m in zip(tensors, matrices, strict=True)
        ]
        return rebuilt(name, params, even, validate_args=False).log_prob(x)

    assert gradcheck(density, [t.clone().requires_grad_() for t in start])


@pytest.mark.parametrize(
    "name,params,value", cases(lambda c: smooth(c) and c[0] not in ("Categorical", "Multinomial"))
)
def test_log_prob_under_transforms(name, params, value):
    """log_prob works in vmap over all parameters, grad, jvp, and grad inside vmap."""
    if name in ("MixtureSameFamily", "Independent") and "D." in params:
        pass
    start = parameters(name, params)
    x = eval(value, {"T": T})

    def density(*tensors):
        return rebuilt(name, params, tensors).log_prob(x).sum()

    scaled = [[t * f for t in start] for f in (1.0, 1.0)]
    stacked = [torch.stack(ts) for ts in zip(*scaled, strict=True)]
    together = vmap(density)(*stacked)
    assert torch.allclose(together, torch.stack([density(*ts) for ts in scaled]))
    leaves = [t.clone().requires_grad_() for t in start]
    expected = torch.autograd.grad(density(*leaves), leaves)
    numbers = tuple(range(len(start)))
    got = grad(density, argnums=numbers)(*start)
    for a, b in zip(got, expected, strict=True):
        assert torch.allclose(a, b)
    per_sample = vmap(grad(density, argnums=numbers))(*stacked)
    for a, b in zip(per_sample, expected, strict=True):
        assert torch.allclose(a[1], b)
    directions = [torch.ones_like(t) for t in start]
    _, tangent = jvp(density, tuple(start), tuple(directions))
    assert torch.allclose(tangent, sum(b.sum() for b in expected))


def test_batches_of_none():
    """Every parameter has a new first dim of size 0."""
    seen = set()
    for name, params, _ in ALL:
        mixed = "[2., 2.]" in params or "2.5" in params or name.startswith("Relaxed")
        if "D." in params or (mixed and name not in ("GeneralizedPareto", "Chi2")):
            continue  # batch dims differ, so no first dim fits all
        empty = [t.new_zeros((0, *t.shape)) for t in parameters(name, params)]
        d = rebuilt(name, params, empty)
        assert d.batch_shape[0] == 0, name
        x = d.sample((3,))
        assert x.shape == (3, *d.batch_shape, *d.event_shape), name
        assert d.log_prob(x).shape == (3, *d.batch_shape), name
        for what in ("mean", "variance", "mode"):
            try:
                assert getattr(d, what).shape == (*d.batch_shape, *d.event_shape), name
            except NotImplementedError:
                continue
        try:
            assert d.entropy().shape == d.batch_shape, name
        except NotImplementedError:
            pass
        seen.add(name)
    assert len(seen) > 30


def test_validation_inside_of_vmap():
    """The parameters of every sample are checked."""
    scales = T([1.0, 2.0, -1.0])
    with pytest.raises(ValueError, match="GreaterThan"):
        vmap(lambda s: D.Normal(T(0.0), s).log_prob(T(1.0)))(scales)
    got = vmap(lambda s: D.Normal(T(0.0), s).log_prob(T(1.0)))(scales.abs())
    assert torch.allclose(got, D.Normal(0.0, scales.abs()).log_prob(T(1.0)))


def test_samples_inside_of_vmap():
    scales = T([1.0, 2.0, 3.0])

    def draw(s):
        return D.Gamma(s, T(1.0)).rsample((4,))

    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(draw)(scales)
    assert vmap(draw, randomness="different")(scales).shape == (3, 4)
    normal = vmap(lambda s: D.Normal(T(0.0), s).rsample(), randomness="same")(scales)
    assert torch.allclose(normal / scales, (normal[:1] / scales[:1]).expand(3))


def test_hessian_of_a_density():
    def density(p):
        return D.Normal(p[0], p[1]).log_prob(T(2.0))

    h = hessian(density)(T([0.5, 2.0]))
    assert h[0, 0].item() == pytest.approx(-1 / 4)
    assert h[0, 1].item() == pytest.approx(-2 * 1.5 / 8)


# --- samples: the derivative of the quantile at the sample's level ------------------------------

QUANTILES = {
    "Normal": [(0.5, 2.0)],
    "Uniform": [(-1.0, 2.0)],
    "Exponential": [(2.0,)],
    "Laplace": [(0.5, 2.0)],
    "Cauchy": [(0.5, 2.0)],
    "Gumbel": [(0.5, 2.0)],
    "HalfNormal": [(2.0,)],
    "HalfCauchy": [(2.0,)],
    "LogNormal": [(0.5, 0.7)],
    "Weibull": [(1.5, 2.5)],
    "Pareto": [(1.5, 2.5)],
    "Kumaraswamy": [(1.5, 2.5), (0.5, 0.6)],
    "GeneralizedPareto": [(0.5, 2.0, 0.3), (0.5, 2.0, -0.3)],
    "Gamma": [(0.3, 2.0), (5.0, 0.5)],
    "Beta": [(0.5, 0.7), (3.0, 8.0)],
    "Chi2": [(0.7,), (5.0,)],
    "InverseGamma": [(2.5, 2.0)],
    "StudentT": [(3.0, 0.5, 2.0)],
    "FisherSnedecor": [(5.0, 9.0)],
}
# They combine several variables: the gradient of a sample is not that of the quantile.
OF_SEVERAL = {"StudentT", "FisherSnedecor"}


def scipy_quantile(name):
    stats = pytest.importorskip("scipy.stats")
    return {
        "Gamma": lambda q, a, r: stats.gamma(a, scale=1 / r).ppf(q),
        "Beta": lambda q, a, b: stats.beta(a, b).ppf(q),
        "Chi2": lambda q, k: stats.chi2(k).ppf(q),
        "InverseGamma": lambda q, a, r: stats.invgamma(a, scale=r).ppf(q),
    }.get(name)


@pytest.mark.parametrize(
    "name,params", [(n, p) for n, ps in QUANTILES.items() for p in ps if n not in OF_SEVERAL]
)
def test_sample_gradients(name, params):
    tensors = [T(p).requires_grad_() for p in params]
    torch.manual_seed(21)
    d = getattr(D, name)(*tensors)
    x = d.rsample()
    got = torch.autograd.grad(x, tensors)
    quantile = scipy_quantile(name)
    if quantile is None:
        q = d.cdf(x.detach()).item()
        quantile = lambda q, *p: getattr(D, name)(*map(T, p)).icdf(T(q)).item()
    else:
        stats = pytest.importorskip("scipy.stats")
        laws = {
            "Gamma": lambda a, r: stats.gamma(a, scale=1 / r),
            "Beta": stats.beta,
            "Chi2": stats.chi2,
            "InverseGamma": lambda a, r: stats.invgamma(a, scale=r),
        }
        q = laws[name](*params).cdf(x.item())
    for i in range(len(params)):
        h = 1e-5 * params[i]
        ends = []
        for sign in (1, -1):
            moved = list(params)
            moved[i] += sign * h
            ends.append(quantile(q, *moved))
        assert got[i].item() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", sorted(OF_SEVERAL))
def test_gradients_of_expectations(name):
    """The mean of the gradient of f(x) equals the gradient of the mean of f, by quadrature."""
    integrate = pytest.importorskip("scipy.integrate")
    (params,) = QUANTILES[name]
    tensors = [T(p).requires_grad_() for p in params]
    torch.manual_seed(22)
    f = lambda v: (v / 2).tanh()
    x = getattr(D, name)(*tensors).rsample((200_000,))
    got = torch.autograd.grad(f(x).mean(), tensors)
    low = 0 if name == "FisherSnedecor" else -np.inf

    def mean(p):
        d = getattr(D, name)(*map(T, p), validate_args=False)
        density = lambda v: (f(T(v)) * d.log_prob(T(v)).exp()).item()
        return integrate.quad(density, low, np.inf, limit=200)[0]

    for i in range(len(params)):
        h = 1e-3
        up, down = list(params), list(params)
        up[i] += h
        down[i] -= h
        assert got[i].item() == pytest.approx((mean(up) - mean(down)) / (2 * h), abs=3e-3)


def test_gradients_of_vectors():
    """Means and covariances of samples follow their parameters."""
    loc = T([0.5, -1.0]).requires_grad_()
    factor = T([[1.0, 0.0], [0.5, 2.0]]).requires_grad_()
    torch.manual_seed(23)
    x = D.MultivariateNormal(loc, scale_tril=factor).rsample((100_000,))
    (g,) = torch.autograd.grad(x.sum(-1).mean(), loc, retain_graph=True)
    assert torch.allclose(g, torch.ones(2, dtype=F8))
    covariance = ((x - loc)[:, 0] * (x - loc)[:, 1]).mean()
    (g,) = torch.autograd.grad(covariance, factor)
    # Cov = L L^T: its element (0, 1) is L00 L10 (+ L01 L11, where L01 is zero).
    assert g[0, 0].item() == pytest.approx(0.5, abs=0.05)
    assert g[1, 0].item() == pytest.approx(1.0, abs=0.05)
    scale = T([[2.0, 0.3], [0.3, 1.0]]).requires_grad_()
    w = D.Wishart(T(5.0), scale).rsample((50_000,))
    (g,) = torch.autograd.grad(w[:, 0, 0].mean(), scale)
    assert g[0, 0].item() == pytest.approx(5, abs=0.1)  # the mean is df times the scale
    low = T([[0.5], [1.0]]).requires_grad_()
    x = D.LowRankMultivariateNormal(T([0.0, 0.0]), low, T([1.0, 0.4])).rsample((100_000,))
    (g,) = torch.autograd.grad(x[:, 0].square().mean(), low)
    assert g[0, 0].item() == pytest.approx(1.0, abs=0.05)


def test_gradients_of_relaxed_samples():
    """At every temperature the gradient of the sample's log odds is 1 / temperature."""
    logits = T([0.3, -0.4]).requires_grad_()
    torch.manual_seed(24)
    x = D.RelaxedBernoulli(T(0.7), logits=logits).rsample()
    (g,) = torch.autograd.grad(torch.logit(x).sum(), logits)
    assert torch.allclose(g, T([1 / 0.7] * 2), rtol=1e-5)
    y = D.RelaxedOneHotCategorical(T(0.7), logits=logits).rsample()
    (g,) = torch.autograd.grad((y[0].log() - y[1].log()), logits)
    assert torch.allclose(g, T([1 / 0.7, -1 / 0.7]), rtol=1e-5)


@pytest.mark.parametrize("name,params,value", cases(lambda c: True))
def test_has_rsample_says_so(name, params, value):
    start = [t.clone().requires_grad_() for t in parameters(name, params)]
    d = rebuilt(name, params, start)
    if not d.has_rsample:
        assert not d.sample().requires_grad
        return
    x = d.rsample()
    assert x.requires_grad
    assert all(
        bool(g.isfinite().all())
        for g in torch.autograd.grad(x.sum(), start, allow_unused=True)
        if g is not None
    )
