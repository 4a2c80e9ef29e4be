# SPDX-License-Identifier: BSD-3-Clause
"""Distributions compared with an installed torch: values, shapes, text, types of errors."""

import warnings

import numpy as np
import pytest
from distribution_cases import ALL, built
from reference import needed

import cograd

reference = needed(allow_module_level=True)

WHAT = {
    **{
        name: lambda d, x, T, D, name=name: getattr(d, name)
        for name in (
            "mean",
            "mode",
            "variance",
            "stddev",
            "batch_shape",
            "event_shape",
            "support",
            "has_rsample",
            "has_enumerate_support",
            "arg_constraints",
        )
    },
    "entropy": lambda d, x, T, D: d.entropy(),
    "perplexity": lambda d, x, T, D: d.perplexity(),
    "enumerate_support": lambda d, x, T, D: d.enumerate_support(),
    "enumerate_support(False)": lambda d, x, T, D: d.enumerate_support(False),
    "log_prob": lambda d, x, T, D: d.log_prob(x),
    "cdf": lambda d, x, T, D: d.cdf(x),
    "icdf": lambda d, x, T, D: d.icdf(T(0.3)),
    "repr": lambda d, x, T, D: repr(d),
    "dtype": lambda d, x, T, D: d.sample().dtype,
    "shape": lambda d, x, T, D: d.sample((3, 2)).shape,
    "rsample": lambda d, x, T, D: d.rsample((3,)).shape,
    "expand": lambda d, x, T, D: d.expand((5, *d.batch_shape)).log_prob(x),
    "text of expand": lambda d, x, T, D: repr(d.expand((5, *d.batch_shape))),
    "of nan": lambda d, x, T, D: d.log_prob(x * float("nan")),
}
# Cases in which torch 2.13 is wrong or raises.
OTHERWISE = {
    ("Weibull", "mode"),  # for concentrations below 1
    ("Kumaraswamy", "mode"),
    ("InverseGamma", "cdf"),
    ("GeneralizedPareto", "log_prob"),  # raises in float64
    ("GeneralizedPareto", "cdf"),
    ("GeneralizedPareto", "expand"),
    ("MixtureSameFamily", "shape"),  # raises for a mixture without the components' batch
    ("MixtureSameFamily", "dtype"),
    ("LKJCholesky", "entropy"),
    ("ContinuousBernoulli", "cdf"),  # near probs of 1/2, where torch's are linear
    ("ContinuousBernoulli", "icdf"),
}


def plain(value):
    """Converts values of either library to something comparable."""
    if isinstance(value, (cograd.Tensor, reference.Tensor)):
        value = value.detach()
        return str(value.dtype).rpartition(".")[2], tuple(value.shape), value.numpy()
    if isinstance(value, tuple):
        return tuple(value)
    return str(value).replace("cograd", "torch").replace("torch.torch", "torch")


def outcome(torch, case, what):
    def T(values):
        return torch.tensor(values, dtype=torch.float64)

    D = torch.distributions
    d = built(D, T, case[0], case[1])
    x = eval(case[2], {"T": T})
    try:
        return plain(WHAT[what](d, x, T, D))
    except Exception as error:  # its type is compared
        return type(error)


def same(a, b, rtol=1e-7):
    if isinstance(a, tuple) and len(a) == 3 and isinstance(a[2], np.ndarray):
        return a[:2] == b[:2] and np.allclose(a[2], b[2], rtol=rtol, atol=1e-9, equal_nan=True)
    return a == b


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c[0]}-{i}") for i, c in enumerate(ALL)])
def test_beside_torch(case, what):
    if (case[0], what) in OTHERWISE:
        pytest.skip("torch differs, see docs/distributions.md")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, got = outcome(reference, case, what), outcome(cograd, case, what)
    rtol = 1e-5 if case[0] == "VonMises" else 1e-7  # torch's Bessel functions are of float32
    assert same(expected, got, rtol), f"{what}: torch {expected}, cograd {got}"


def test_names():
    assert set(reference.distributions.__all__) == set(cograd.distributions.__all__)
    for module in ("constraints", "transforms"):
        theirs = getattr(reference.distributions, module).__all__
        assert set(theirs) == set(getattr(cograd.distributions, module).__all__)


def test_pairs_of_divergences():
    def pairs(torch):
        return {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}

    assert pairs(reference) == pairs(cograd)
    cases = {name: params for name, params, _ in reversed(ALL)}
    for p, q in sorted(pairs(cograd)):
        if p not in cases or q not in cases or (p, q) == ("Wishart", "Wishart"):
            continue

        def divergence(torch, p=p, q=q):
            def T(values):
                return torch.tensor(values, dtype=torch.float64)

            D = torch.distributions
            P, Q = built(D, T, p, cases[p]), built(D, T, q, cases[q])
            try:
                return plain(D.kl_divergence(P, Q))
            except Exception as error:
                return type(error)

        got = divergence(cograd)
        if isinstance(got, type):  # shapes that do not broadcast
            continue
        assert same(divergence(reference), got), (p, q)
    assert {n for pair in pairs(cograd) for n in pair} <= {*cases, "ExponentialFamily"}
