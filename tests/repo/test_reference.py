# SPDX-License-Identifier: BSD-3-Clause
"""The reference: every public name is described, and the docstrings of distributions are true.

The docstring of a distribution has its density or mass, its mean and its variance as Python code,
which is compared here with ``log_prob``, ``mean`` and ``variance``.
"""

import importlib
import inspect
import math
import re
import types

import distribution_cases
import pytest

import cograd
from cograd import distributions as D

SPACES = [
    "autograd",
    "autograd.forward_ad",
    "autograd.function",
    "autograd.functional",
    "autograd.graph",
    "autograd.profiler",
    "distributions",
    "distributions.constraints",
    "distributions.utils",
    "func",
    "library",
    "testing",
    "utils.cpp_extension",
    "utils.data",
]
CODE = "``([^`]+)``"
BASES = {"Distribution", "ExponentialFamily"}
FAMILIES = [
    name
    for name in D.__all__
    if isinstance(getattr(D, name), type) and issubclass(getattr(D, name), D.Distribution)
]


def T(value):
    return cograd.tensor(value, dtype=cograd.float64)


def own_doc(value):
    """Returns the docstring of a class, not of a base; for an object its own or its class's."""
    doc = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    return " ".join((doc or "").split())


def public():
    for space in SPACES:
        module = importlib.import_module(f"cograd.{space}")
        for name in module.__all__:
            value = getattr(module, name)
            if value is not type and not isinstance(value, (types.ModuleType, float)):
                yield f"{space}.{name}", value


PUBLIC = dict(public())


def test_every_public_name_is_described():
    """A sentence describes each; the signature of compiled functions does not count."""
    docs = {name: re.sub(r"^\w+\(.*?\) -> \w+ ?", "", own_doc(v)) for name, v in PUBLIC.items()}
    assert [name for name, doc in docs.items() if len(doc) < 20] == []


def section(doc, title):
    found = re.search(rf"^{title}:\n((?:    .*\n?|\n)*)", inspect.cleandoc(doc), re.M)
    return found[1] if found else ""


@pytest.mark.parametrize("name", FAMILIES)
def test_every_parameter_of_a_distribution_is_described(name):
    cls = getattr(D, name)
    described = re.findall(r"^    (\w+): \S", section(vars(cls)["__doc__"], "Args"), re.M)
    assert described == [p for p in inspect.signature(cls.__init__).parameters if p != "self"]


def names(d, index):
    """Returns the names for a formula: parameters of one distribution of a batch, and functions."""

    def one(value):
        n = len(d.batch_shape)
        batched = isinstance(value, cograd.Tensor) and value.shape[:n] == d.batch_shape
        return value[index] if batched else value

    parameters = [p for p in inspect.signature(type(d).__init__).parameters if hasattr(d, p)]
    scope = {p: one(getattr(d, p)) for p in [*parameters, "probs"] if hasattr(d, p)}
    if d.event_shape:
        scope["K"] = scope["p"] = d.event_shape[-1]
    return {**FUNCTIONS, **scope}


def gamma(x):
    return cograd.exp(cograd.lgamma(cograd.as_tensor(x, dtype=cograd.float64)))


def wrapped(name):
    return lambda x: getattr(cograd, name)(cograd.as_tensor(x, dtype=cograd.float64))


FUNCTIONS = {
    **{f: wrapped(f) for f in ("exp", "log", "sqrt", "cos", "atanh", "i0", "det", "trace", "diag")},
    "abs": abs,
    "beta": lambda a, b: gamma(a) * gamma(b) / gamma(a + b),
    "comb": lambda n, k: gamma(n + 1) / (gamma(k + 1) * gamma(n - k + 1)),
    "euler_gamma": 0.57721566490153286,
    "gamma": gamma,
    "inv": cograd.linalg.inv,
    "mvgamma": lambda a, p: cograd.exp(cograd.mvlgamma(a, p)),
    "outer": cograd.outer,
    "pi": math.pi,
    "prod": cograd.prod,
    "sum": cograd.sum,
}


def formulas(doc):
    """Returns density or mass, mean and variance of a docstring, with their conditions."""
    doc = " ".join(doc.split())
    where = rf"(?: where {CODE}, (else|below) (NaN|infinite))?"
    found = {
        "density": re.search(rf"(?:[Dd]ensity|[Mm]ass)(?: is)? {CODE}", doc),
        "mean": re.search(rf"\b[Mm]ean {CODE}{where}", doc),
        "variance": re.search(rf"\b[Vv]ariance {CODE}{where}", doc),
    }
    definitions = [x for x in re.findall(CODE, doc) if re.match(r"\w+ = ", x)]
    return {k: m.groups() for k, m in found.items() if m}, definitions


def evaluate(code, definitions, scope):
    scope = dict(scope)
    for line in definitions:
        if "x" in scope or not re.search(r"\bx\b", line):
            exec(line, scope)
    return cograd.as_tensor(eval(code, scope), dtype=cograd.float64)


# Their docstrings describe in words what follows from other distributions or from a factor.
IN_WORDS = {"Independent", "LKJCholesky", "LogisticNormal", "MixtureSameFamily"}
IN_WORDS |= {"TransformedDistribution"}


def elements(d):
    """Returns the indices of a batch."""
    shape = d.batch_shape
    return [tuple(int(i) for i in row) for row in cograd.ones(shape).nonzero()]


@pytest.mark.parametrize(("name", "params", "value"), distribution_cases.ALL)
def test_density(name, params, value):
    """``log_prob`` has the density or mass of the docstring."""
    found, definitions = formulas(own_doc(getattr(D, name)))
    if name in IN_WORDS:
        assert "density" not in found or name == "LKJCholesky"
        return
    d = distribution_cases.built(D, T, name, params)
    value = eval(value, {"T": T})
    whole = cograd.broadcast_shapes(value.shape, (*d.batch_shape, *d.event_shape))
    n = len(whole) - len(d.event_shape) - len(d.batch_shape)
    value = value.expand(whole)
    log_prob = d.log_prob(value)
    for index in elements(d):
        for sample in elements(types.SimpleNamespace(batch_shape=whole[:n])):
            x = value[(*sample, *index)]
            scope = {**names(d, index), "x": x.long() if name == "Categorical" else x}
            if name == "GeneralizedPareto" and scope["concentration"] == 0:
                said = evaluate("exp(-z) / scale", definitions[:1], scope)
            elif name == "ContinuousBernoulli" and scope["probs"] == 0.5:
                said = T(1.0)
            else:
                said = evaluate(found["density"][0], definitions, scope)
            seen = log_prob[(*sample, *index)].exp()
            assert seen.item() == pytest.approx(said.item(), rel=1e-6)


@pytest.mark.parametrize("what", ["mean", "variance"])
@pytest.mark.parametrize(("name", "params", "value"), distribution_cases.ALL)
def test_mean_and_variance(name, params, value, what):
    """They have the formulas of the docstring; where it has none, they are NaN or raise."""
    d = distribution_cases.built(D, T, name, params)
    doc = own_doc(getattr(D, name))
    found, definitions = formulas(doc)
    if what not in found or name == "LKJCholesky":
        said_in_words(name, d, what, doc)
        return
    code, condition, _, other = found[what]
    seen = getattr(d, what)
    for index in elements(d):
        scope = names(d, index)
        if condition and not evaluate(condition, definitions, scope):
            wrong = seen[index].isnan() if other == "NaN" else seen[index].isinf()
            assert bool(wrong) or (name == "StudentT" and scope["df"] <= 1)
        elif name == "ContinuousBernoulli" and abs(scope["probs"] - 0.5) < 1e-3:
            half = 0.5 if what == "mean" else 1 / 12
            assert seen[index].item() == pytest.approx(half, rel=1e-3)
        else:
            said = evaluate(code, definitions, scope).expand(d.event_shape)
            assert cograd.allclose(seen[index], said, rtol=1e-6, atol=0.0)


def test_variance_of_a_correlation():
    code = re.search(rf"variance {CODE}", own_doc(D.LKJCholesky))[1]
    for dim, concentration in [(2, 0.7), (3, 1.5), (4, 1.0)]:
        cograd.manual_seed(0)
        factors = D.LKJCholesky(dim, T(concentration)).sample((20000,))
        seen = (factors @ factors.mT).var(0)[dim - 1, 0].item()
        assert seen == pytest.approx(eval(code, {"dim": dim, "concentration": concentration}), 0.05)


def said_in_words(name, d, what, doc):
    """Checks the words of a docstring that has no formula."""
    if re.search(r"[^.]* have no formula and raise NotImplementedError", doc):
        with pytest.raises(NotImplementedError):
            getattr(d, what)
    elif name == "Categorical":
        assert "mean and variance are NaN" in doc
        assert getattr(d, what).isnan().all()
    elif name == "Cauchy":
        assert ("given as NaN" if what == "mean" else "given as infinite") in doc
        assert (d.mean.isnan() if what == "mean" else d.variance.isinf()).all()
    elif name == "HalfCauchy":
        assert "mean and variance are infinite" in doc
        assert getattr(d, what).isinf().all()
    elif name == "VonMises":
        k = d.concentration
        circular = 1 - cograd.special.i1(k) / cograd.special.i0(k)
        assert cograd.allclose(getattr(d, what), d.loc if what == "mean" else circular)
    else:
        assert name in ("Independent", "LKJCholesky", "MixtureSameFamily")


@pytest.mark.parametrize("name", [n for n in FAMILIES if n not in BASES | IN_WORDS])
def test_gradients(name):
    """Samples, or else ``log_prob``, have gradients for exactly the parameters that are named."""
    doc = own_doc(getattr(D, name))
    sampled, scored = (
        re.search(rf"``{what}`` is differentiable with respect to ([^.]+)\.", doc)
        for what in ("rsample", "log_prob")
    )
    for params, value in distribution_cases.CASES[name]:
        given = parameters(name, params)
        said = re.findall(CODE, (sampled or scored)[1])
        if "the matrix that is given" in doc:
            said += ["covariance_matrix", "precision_matrix", "scale_tril"]
        wanted = {p for p in said if p in given}
        given = {p: v.clone().requires_grad_() for p, v in given.items() if p in wanted}
        assert given
        whole = {**parameters(name, params, tensors=False), **given}
        d = getattr(D, name)(**whole)
        assert d.has_rsample == bool(sampled)
        if sampled:
            result = d.rsample((3,))
        else:
            with pytest.raises(NotImplementedError):
                d.rsample()
            result = d.log_prob(eval(value, {"T": T}))
        slopes = cograd.autograd.grad((result * result.detach().cos()).sum(), list(given.values()))
        assert all(bool((s != 0).any()) and bool(s.isfinite().all()) for s in slopes)


def parameters(name, params, tensors=True):
    """Returns the arguments of a case by their names."""
    scope = {"D": D, "T": T, "bind": inspect.signature(getattr(D, name)).bind}
    bound = eval(f"bind({params})", scope).arguments
    return {k: v for k, v in bound.items() if not tensors or isinstance(v, cograd.Tensor)}


TRANSFORMS = {
    "AffineTransform": (T([0.5, -1.0]), T(-2.0)),
    "ExpTransform": (),
    "PowerTransform": (T([0.5, -2.0]),),
    "SigmoidTransform": (),
    "SoftplusTransform": (),
    "TanhTransform": (),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    """Elementwise transforms have the formula, its derivative and both regions of the docstring."""
    cls = getattr(D, name)
    doc = own_doc(cls)
    t = cls(*TRANSFORMS[name])
    x = T([0.3, 1.7])
    y = t(x)
    scope = {**FUNCTIONS, **vars(t), "tanh": cograd.tanh, "softplus": cograd.nn.functional.softplus}
    scope |= {"x": x, "y": y}
    assert cograd.allclose(y, eval(re.search("``y = ([^`]+)``", doc)[1], dict(scope)))
    slope = eval(re.search(f"``log_abs_det_jacobian`` is {CODE}", doc)[1], dict(scope))
    assert cograd.allclose(t.log_abs_det_jacobian(x, y), slope)
    by_autograd = cograd.func.jacrev(t)(x).diagonal().abs().log()
    assert cograd.allclose(by_autograd, slope.expand(x.shape))
    regions = re.search(f"From {CODE} to {CODE}, bijective", doc).groups()
    for region, said in zip((t.domain, t.codomain), regions):
        assert repr(region) == repr(eval(said, vars(D.constraints).copy()))
