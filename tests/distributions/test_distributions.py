# SPDX-License-Identifier: BSD-3-Clause
"""Distributions as objects: shapes, expand, validation, text, copies; one table of cases."""

import copy
import math
import pickle

import pytest
from distribution_cases import ALL, CASES, built

import cograd as torch
from cograd import distributions as D

F8 = torch.float64


def T(values):
    return torch.tensor(values, dtype=F8)


def cases():
    return [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(ALL)]


def made(case, **options):
    return built(D, T, case[0], case[1], **options)


def value_of(case):
    return eval(case[2], {"T": T})


every_case = pytest.mark.parametrize("name,params,value", cases())


def test_every_distribution_has_cases():
    kinds = {
        name
        for name in D.__all__
        if isinstance(getattr(D, name), type) and issubclass(getattr(D, name), D.Distribution)
    }
    assert kinds - set(CASES) == {"Distribution", "ExponentialFamily"}
    assert len(D.__all__) == 67


@every_case
def test_shapes(name, params, value):
    d = built(D, T, name, params)
    torch.manual_seed(0)
    for sample_shape in ((), (4,), (2, 3)):
        x = d.sample(sample_shape)
        assert x.shape == (*sample_shape, *d.batch_shape, *d.event_shape)
        assert not x.requires_grad
        assert d.log_prob(x).shape == (*sample_shape, *d.batch_shape)
        assert bool(d.support.check(x).all())
    assert d.sample((0,)).shape == (0, *d.batch_shape, *d.event_shape)
    assert d.support.event_dim == len(d.event_shape)
    if d.has_rsample:
        assert d.rsample((4,)).shape == (4, *d.batch_shape, *d.event_shape)
    for what in ("mean", "mode", "variance", "stddev"):
        try:
            found = getattr(d, what)
        except NotImplementedError:
            continue
        assert found.shape == (*d.batch_shape, *d.event_shape), what
    try:
        assert d.entropy().shape == d.batch_shape
    except NotImplementedError:
        pass


@every_case
def test_seeds(name, params, value):
    d = built(D, T, name, params)
    torch.manual_seed(5)
    first, second = d.sample((9,)), d.sample((9,))
    torch.manual_seed(5)
    assert torch.equal(d.sample((9,)), first)
    assert not torch.equal(first, second)


@every_case
@pytest.mark.parametrize("more", [(3,), (0,), (2, 3)], ids=str)
def test_expand(name, params, value, more):
    d = built(D, T, name, params)
    x = eval(value, {"T": T})
    before = d.log_prob(x)
    wide = d.expand((*more, *d.batch_shape))
    assert type(wide) is type(d)
    assert wide.batch_shape == (*more, *d.batch_shape)
    assert wide.event_shape == d.event_shape
    assert wide.sample((2,)).shape == (2, *more, *d.batch_shape, *d.event_shape)
    if x.dim() > len(d.batch_shape) + len(d.event_shape):
        return  # a value has its own dims
    after = wide.log_prob(x)
    assert torch.allclose(after, before.expand(after.shape))
    for what in ("mean", "variance"):
        try:
            narrow = getattr(d, what)
        except NotImplementedError:
            continue
        assert torch.allclose(
            getattr(wide, what), narrow.expand(getattr(wide, what).shape), equal_nan=True
        )
    again = wide.expand((2, *wide.batch_shape))
    assert again.batch_shape == (2, *more, *d.batch_shape)


@every_case
def test_copies_and_text(name, params, value):
    d = built(D, T, name, params)
    x = eval(value, {"T": T})
    for other in (pickle.loads(pickle.dumps(d)), copy.deepcopy(d)):
        assert torch.equal(other.log_prob(x), d.log_prob(x))
    assert repr(d).startswith(f"{name}(")


@every_case
def test_values_outside_are_refused(name, params, value):
    d = built(D, T, name, params)
    x = eval(value, {"T": T})
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(x * math.nan)
    if name not in ("Gamma", "Chi2"):  # these accept numbers
        with pytest.raises(ValueError, match="must be a Tensor"):
            d.log_prob(0.5)
    unchecked = built(D, T, name, params, validate_args=False)
    if name != "Independent":  # its base checks
        unchecked.log_prob(x)


@every_case
def test_parameters_outside_are_refused(name, params, value):
    if "D." in params or name in ("TransformedDistribution", "LKJCholesky"):
        return
    bad = lambda v: T(v) * math.nan
    kinds = (ValueError, RuntimeError)  # from a factor that does not exist
    with pytest.raises(kinds, match="but found invalid values|to be greater than|not positive"):
        built(D, bad, name, params)


def test_dtypes():
    for name, params, _ in ALL:
        d = built(D, lambda v: torch.tensor(v, dtype=torch.float32), name, params)
        x = d.sample()
        assert x.dtype is (torch.int64 if name == "Categorical" else torch.float32), name
        assert d.log_prob(x).dtype is torch.float32, name


def test_numbers_as_parameters():
    d = D.Normal(0, 1)
    assert d.loc.dtype is torch.float32
    assert d.batch_shape == ()
    assert repr(d) == "Normal(loc: 0.0, scale: 1.0)"
    assert D.Normal(0, T(1.0)).loc.dtype is F8
    assert D.Normal(torch.zeros(2), 1.0).batch_shape == (2,)
    assert D.Bernoulli(0.5).sample((3,)).shape == (3,)
    assert repr(D.Chi2(3.0)) == "Chi2()"


def test_errors_of_construction():
    for call, kind, message in [
        (lambda: D.Normal("a", 1.0), ValueError, "must all be instances of Number"),
        (lambda: D.Normal(torch.zeros(2), torch.ones(3)), RuntimeError, "broadcast"),
        (lambda: D.Bernoulli(), ValueError, "Either `probs` or `logits` must be specified"),
        (lambda: D.Bernoulli(0.5, 0.5), ValueError, "but not both"),
        (lambda: D.Categorical(T(0.5)), ValueError, "`probs` parameter must be at least one-dim"),
        (lambda: D.Categorical(logits=T(0.5)), ValueError, "`logits` parameter must be"),
        (lambda: D.Dirichlet(T(1.0)), ValueError, "`concentration` parameter must be at least"),
        (lambda: D.MultivariateNormal(T([0.0])), ValueError, "Exactly one of covariance_matrix"),
        (lambda: D.MultivariateNormal(T(0.0), T([[1.0]])), ValueError, "loc must be at least"),
        (lambda: D.MultivariateNormal(T([0.0]), T([1.0])), ValueError, "at least two-dim"),
        (lambda: D.Wishart(T(3.0)), AssertionError, "Exactly one of covariance_matrix"),
        (lambda: D.Wishart(T(0.5), torch.eye(2)), ValueError, "greater than ndim - 1 = 1"),
        (lambda: D.LKJCholesky(1), ValueError, "Found dim=1"),
        (lambda: D.Multinomial(T(3.0), T([0.5, 0.5])), NotImplementedError, "inhomogeneous"),
        (lambda: D.Geometric(T([0.0, 0.2])), ValueError, "to be positive but found"),
        (lambda: D.Uniform(1.0, 0.0), ValueError, r"constraint LessThan\(upper_bound=0.0\)"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), ValueError, "actual 1 vs 0"),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3),
            ValueError,
            "transforms must be a Transform or list, but was 3",
        ),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]),
            ValueError,
            "a Transform or a list of Transforms",
        ),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
            ValueError,
            "shape with size at least 1",
        ),
        (
            lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)),
            ValueError,
            "instance of cograd.distributions.Categorical",
        ),
        (
            lambda: D.MixtureSameFamily(
                D.Categorical(torch.ones(2)), D.Normal(torch.zeros(3), 1.0)
            ),
            ValueError,
            r"\(2\) does not equal",
        ),
        (
            lambda: D.LowRankMultivariateNormal(T([0.0, 0.0]), torch.ones(3, 1), torch.ones(2)),
            ValueError,
            "with shape 2 x m",
        ),
        (lambda: D.Distribution.set_default_validate_args(3), ValueError, "True or False"),
    ]:
        with pytest.raises(kind, match=message):
            call()


def test_messages_of_values():
    n = D.Normal(torch.zeros(2), 1.0)
    with pytest.raises(ValueError, match="not broadcastable with batch_shape"):
        n.log_prob(torch.zeros(3))
    m = D.MultivariateNormal(torch.zeros(2), torch.eye(2))
    with pytest.raises(ValueError, match="right-most size of value must match event_shape"):
        m.log_prob(torch.zeros(3))
    with pytest.raises(ValueError, match=r"IntegerInterval\(lower_bound=0, upper_bound=1\)"):
        D.Categorical(T([0.5, 0.2])).log_prob(torch.tensor(2))
    with pytest.raises(NotImplementedError, match="Inhomogeneous total count"):
        D.Binomial(T([10.0, 3.0]), T(0.5)).enumerate_support()
    with pytest.raises(NotImplementedError, match="cartesian product"):
        D.Independent(D.Bernoulli(T([0.5])), 1).enumerate_support()
    with pytest.raises(NotImplementedError, match="does not implement mode"):
        D.ContinuousBernoulli(T(0.5)).mode
    with pytest.warns(FutureWarning, match="sample_n"):
        assert n.sample_n(3).shape == (3, 2)


def test_default_of_validation():
    assert D.Distribution._validate_args is True
    try:
        D.Distribution.set_default_validate_args(False)
        D.Normal(0.0, -1.0)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="GreaterThan"):
        D.Normal(0.0, -1.0)


def test_enumerate_support():
    assert D.Bernoulli(T([0.3, 0.4])).enumerate_support().tolist() == [[0, 0], [1, 1]]
    assert D.Bernoulli(T([0.3, 0.4])).enumerate_support(False).tolist() == [[0], [1]]
    assert D.Categorical(T([0.2, 0.8])).enumerate_support().tolist() == [0, 1]
    one_hot = D.OneHotCategorical(T([[0.2, 0.8]] * 3))
    assert one_hot.enumerate_support().shape == (2, 3, 2)
    assert one_hot.enumerate_support(False).shape == (2, 1, 2)
    assert D.Binomial(3, T(0.5)).enumerate_support().tolist() == [0, 1, 2, 3]


class Standard(D.Normal):
    def __init__(self):
        super().__init__(0.0, 1.0)


class Named(D.Normal):
    def __init__(self, loc, name):
        self.name = name
        super().__init__(loc, 1.0)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Named, _instance)
        new.name = self.name + " wide"
        return super().expand(batch_shape, _instance=new)


def test_subclasses():
    with pytest.raises(NotImplementedError, match="Subclass Standard of Normal that defines a"):
        Standard().expand((2,))
    wide = Named(T([0.0, 1.0]), "mine").expand((3, 2))
    assert wide.name == "mine wide"
    assert wide.sample().shape == (3, 2)

    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare()
    for call in (bare.rsample, bare.entropy, lambda: bare.mean, lambda: bare.expand((2,))):
        with pytest.raises(NotImplementedError):
            call()


def test_straight_through():
    """Samples are one-hot vectors, and gradients are those of the probabilities."""
    logits = T([0.1, 2.0, -1.0]).requires_grad_()
    weight = T([1.0, -2.0, 3.0])
    torch.manual_seed(0)
    x = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
    assert sorted(x.tolist()) == pytest.approx([0, 0, 1])
    (g,) = torch.autograd.grad((x * weight).sum(), logits)
    (expected,) = torch.autograd.grad((logits.softmax(-1) * weight).sum(), logits)
    assert torch.allclose(g, expected)


def test_transformed_shapes():
    """Dims that a transform treats as an event leave the batch."""
    d = D.TransformedDistribution(D.Normal(torch.zeros(4, 3), 1.0), D.StickBreakingTransform())
    assert (d.batch_shape, d.event_shape) == ((4,), (4,))
    assert isinstance(d.base_dist, D.Independent)
    d = D.TransformedDistribution(D.Normal(0.0, 1.0), D.AffineTransform(torch.zeros(3), 2.0))
    assert d.batch_shape == (3,)  # broadcast by the transform
    assert d.base_dist.batch_shape == (3,)
    d = D.TransformedDistribution(
        D.Independent(D.Normal(torch.zeros(4, 6), 1.0), 1), D.ReshapeTransform((6,), (2, 3))
    )
    assert (d.batch_shape, d.event_shape) == ((4,), (2, 3))
    assert d.log_prob(d.sample((5,))).shape == (5, 4)
    with pytest.raises(NotImplementedError):  # no sign: not monotonic
        D.TransformedDistribution(D.Normal(0.0, 1.0), D.AbsTransform()).cdf(torch.tensor(1.0))


def test_lazy_parameters_have_gradients():
    """Gradients exist even if the parameters are first read under no_grad."""
    logits = T([0.1, 2.0]).requires_grad_()
    d = D.Bernoulli(logits=logits)
    with torch.no_grad():
        d.sample()
    assert d.probs.requires_grad
    assert d.probs is d.probs
