# SPDX-License-Identifier: BSD-3-Clause
"""Transforms of values: inverses, determinants compared with Jacobians, shapes; constraints."""

import copy
import math
import pickle

import pytest

import cograd as torch
from cograd import distributions as D
from cograd.autograd.functional import jacobian
from cograd.distributions import constraints as C

F8 = torch.float64


def T(values):
    return torch.tensor(values, dtype=F8)


TRANSFORMS = {
    "exp": (D.ExpTransform(), (3,)),
    "power": (D.PowerTransform(T(2.5)), (3,)),
    "negative power": (D.PowerTransform(-1.0), (3,)),
    "sigmoid": (D.SigmoidTransform(), (3,)),
    "softplus": (D.SoftplusTransform(), (3,)),
    "tanh": (D.TanhTransform(), (3,)),
    "affine": (D.AffineTransform(T([1.0, 2.0, 3.0]), T([-1.0, 0.5, 2.0])), (3,)),
    "affine of numbers": (D.AffineTransform(1, -3), (3,)),
    "affine of vectors": (D.AffineTransform(0.5, T([2.0]), event_dim=1), (2, 3)),
    "cdf": (D.CumulativeDistributionTransform(D.Normal(T(0.3), T(2.0))), (3,)),
    "inverse": (D.ExpTransform().inv, (3,)),
    "composed": (D.ComposeTransform([D.AffineTransform(0.1, 2.0), D.TanhTransform()]), (3,)),
    "composed of kinds": (
        D.ComposeTransform([D.TanhTransform(), D.StickBreakingTransform(), D.ExpTransform()]),
        (2, 3),
    ),
    "nothing": (D.identity_transform, (3,)),
    "independent": (D.IndependentTransform(D.ExpTransform(), 1), (2, 3)),
    "reshape": (D.ReshapeTransform((2, 3), (6,)), (2, 3)),
    "stick breaking": (D.StickBreakingTransform(), (3,)),
    "correlations": (D.CorrCholeskyTransform(), (6,)),
    "cat": (
        D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], dim=0, lengths=[2, 1]),
        (3, 2),
    ),
    "stack": (D.StackTransform([D.ExpTransform(), D.TanhTransform()], dim=1), (3, 2)),
}


def inputs(name, shape):
    torch.manual_seed(3)
    x = torch.randn(shape, dtype=F8)
    return x.exp() if "power" in name or name == "inverse" else x


@pytest.mark.parametrize("name", TRANSFORMS)
def test_bijections(name):
    t, shape = TRANSFORMS[name]
    assert t.bijective
    x = inputs(name, shape)
    y = t(x)
    assert t.forward_shape(x.shape) == y.shape
    assert t.inverse_shape(y.shape) == x.shape
    assert torch.allclose(t.inv(y), x)
    assert bool(t.domain.check(x).all())
    assert bool(t.codomain.check(y).all())
    assert t.inv.inv is t
    assert t.inv.domain.event_dim == t.codomain.event_dim
    assert torch.allclose(t.inv.log_abs_det_jacobian(y, x), -t.log_abs_det_jacobian(x, y))
    try:
        sign = t.sign
    except NotImplementedError:
        return
    if t.domain.event_dim == 0:
        assert bool(((t(x + 1e-3) - y).sign() == sign).all())


def flat_simplex(y):
    """Drops the last part of a simplex, which the others determine."""
    return y[..., :-1]


def below_diagonal(y):
    return D.utils.tril_matrix_to_vec(y, -1)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_log_abs_det_jacobian(name):
    t, shape = TRANSFORMS[name]
    x = inputs(name, shape)
    free = {"stick breaking": flat_simplex, "correlations": below_diagonal}.get(name)
    if name == "composed of kinds":
        # Events of three: onto the simplex, then back by the inverse of its logarithms.
        first = D.ComposeTransform(t.parts[:2])
        y = first(x)
        expected = first.log_abs_det_jacobian(x, y) + y.sum(-1)
        assert torch.allclose(t.log_abs_det_jacobian(x, t(x)), expected)
        t, free = first, flat_simplex
    got = t.log_abs_det_jacobian(x, t(x))
    assert got.shape == x.shape[: x.dim() - t.domain.event_dim]
    whole = jacobian(lambda v: (free or (lambda y: y))(t(v)), x).reshape(x.numel(), x.numel())
    assert torch.allclose(got.sum(), torch.linalg.slogdet(whole).logabsdet)


def test_others():
    x = T([[0.3, -1.0], [2.0, 0.5]])
    lower = D.LowerCholeskyTransform()
    assert bool(C.lower_cholesky.check(lower(x)))
    assert torch.allclose(lower.inv(lower(x)), x.tril())
    definite = D.PositiveDefiniteTransform()
    assert bool(C.positive_definite.check(definite(x)))
    assert torch.allclose(definite(definite.inv(definite(x))), definite(x))
    soft = D.SoftmaxTransform()
    assert torch.allclose(soft.inv(soft(x)).diff(), x.diff())
    assert torch.equal(D.AbsTransform()(x), x.abs())
    assert D.AbsTransform().inv(T(2.0)).item() == 2
    for t in (soft, lower, definite, D.AbsTransform()):
        assert not t.bijective
        with pytest.raises(NotImplementedError):
            t.log_abs_det_jacobian(x, x)
        with pytest.raises(NotImplementedError):
            t.sign


def test_tails_of_determinants():
    """tanh and sigmoid of large numbers have slopes that vanish."""
    x = T([-400.0, 400.0])
    got = D.TanhTransform().log_abs_det_jacobian(x, x.tanh())
    assert torch.allclose(got, T([2 * math.log(2) - 800.0] * 2))
    assert torch.allclose(D.SigmoidTransform().log_abs_det_jacobian(x, x), T([-400.0] * 2))
    assert bool(D.SigmoidTransform().inv(T([0.0, 1.0])).isfinite().all())


def test_cache():
    t = D.ExpTransform(cache_size=1)
    x = T([0.1, 40.0])
    y = t(x)
    assert t(x) is y
    assert t.inv(y) is x
    assert t.inv(y.clone()) is not x
    assert D.ExpTransform().with_cache()._cache_size == 1
    composed = D.ComposeTransform([D.ExpTransform(), D.TanhTransform()], cache_size=1)
    y = composed(x)
    assert composed.inv(y) is x  # tanh(exp(40)) is 1, whose inverse is infinite
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        D.ExpTransform(cache_size=2)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_copies(name):
    t, shape = TRANSFORMS[name]
    t.inv  # a weak reference by now
    x = inputs(name, shape)
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert torch.equal(other(x), t(x))
        assert torch.equal(other.inv(t(x)), t.inv(t(x)))


def test_equality():
    assert D.ExpTransform() == D.ExpTransform()
    assert D.ExpTransform() != D.TanhTransform()
    assert D.AffineTransform(0.0, 1.0) == D.AffineTransform(0.0, 1.0)
    assert D.AffineTransform(T([0.0, 1.0]), 1.0) != D.AffineTransform(0.0, 1.0)
    assert D.PowerTransform(2.0) == D.PowerTransform(2.0)
    assert D.PowerTransform(2.0) != D.PowerTransform(3.0)
    assert D.ExpTransform().inv == D.ExpTransform().inv
    assert D.ComposeTransform([D.ExpTransform()]) == D.ComposeTransform([D.ExpTransform()])


def test_shapes_that_do_not_fit():
    for call, message in [
        (lambda: D.ReshapeTransform((2, 3), (5,)), "different numbers of elements"),
        (lambda: D.ReshapeTransform((2, 3), (6,)).forward_shape((3,)), "Too few dimensions"),
        (lambda: D.ReshapeTransform((2, 3), (6,)).forward_shape((5, 4)), "Shape mismatch"),
        (lambda: D.StickBreakingTransform().forward_shape(()), "Too few dimensions"),
        (lambda: D.CorrCholeskyTransform().forward_shape((2,)), "lower-diagonal number"),
        (lambda: D.CorrCholeskyTransform().inverse_shape((3, 2)), "not square"),
        (lambda: D.CorrCholeskyTransform()(torch.zeros(2)), "lower triangular part"),
        (lambda: D.IndependentTransform(D.ExpTransform(), 1)(T(1.0)), "Too few dimensions"),
        (lambda: D.CatTransform([D.ExpTransform()], lengths=[1, 2]), "2 lengths for 1"),
        (lambda: D.CatTransform([D.ExpTransform()])(torch.zeros(2)), "expected 1 elements"),
        (lambda: D.StackTransform([D.ExpTransform()])(torch.zeros(2)), "expected 1 slices"),
        (lambda: D.StickBreakingTransform().event_dim, None),
    ]:
        if message is None:
            assert call() == 1
            continue
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="sequence of Transforms"):
        D.StackTransform([3])
    with pytest.raises(ValueError, match=r"use either .domain.event_dim"):
        D.CorrCholeskyTransform().event_dim


# --- constraints ----------------------------------------------------------------------------------

INSIDE = {  # a constraint, values inside, values outside
    "boolean": (C.boolean, [0.0, 1.0], [2.0, 0.5]),
    "one_hot": (C.one_hot, [[0.0, 1.0]], [[1.0, 1.0], [0.5, 0.5]]),
    "nonnegative_integer": (C.nonnegative_integer, [0.0, 3.0], [-1.0, 0.5]),
    "positive_integer": (C.positive_integer, [1.0], [0.0, 1.5]),
    "integer_interval": (C.integer_interval(1, 3), [1.0, 3.0], [0.0, 4.0, 1.5]),
    "real": (C.real, [0.0, math.inf], [math.nan]),
    "positive": (C.positive, [1e-9], [0.0, -1.0, math.nan]),
    "nonnegative": (C.nonnegative, [0.0], [-1e-9, math.nan]),
    "greater_than": (C.greater_than(2.0), [2.1], [2.0]),
    "greater_than_eq": (C.greater_than_eq(2.0), [2.0], [1.9]),
    "less_than": (C.less_than(2.0), [1.9], [2.0]),
    "unit_interval": (C.unit_interval, [0.0, 1.0], [1.1, math.nan]),
    "half_open_interval": (C.half_open_interval(0.0, 1.0), [0.0], [1.0]),
    "simplex": (C.simplex, [[0.2, 0.8]], [[0.2, 0.7], [1.2, -0.2]]),
    "multinomial": (C.multinomial(3), [[1.0, 2.0]], [[2.0, 2.0], [-1.0, 2.0]]),
    "lower_triangular": (C.lower_triangular, [[[1.0, 0], [2, 0]]], [[[1.0, 1], [0, 1]]]),
    "lower_cholesky": (C.lower_cholesky, [[[1.0, 0], [2, 1]]], [[[1.0, 0], [2, -1]]]),
    "corr_cholesky": (C.corr_cholesky, [[[1.0, 0], [0.6, 0.8]]], [[[1.0, 0], [0.6, 0.9]]]),
    "symmetric": (C.symmetric, [[[1.0, 2], [2, 1]]], [[[1.0, 2], [2.1, 1]]]),
    "positive_definite": (C.positive_definite, [[[1.0, 0], [0, 1]]], [[[1.0, 2], [2, 1]]]),
    "positive_semidefinite": (
        C.positive_semidefinite,
        [[[1.0, 0], [0, 0]]],
        [[[1.0, 2], [2, 1]], [[1.0, 1], [0, 1]]],
    ),
    "independent": (C.independent(C.positive, 1), [[1.0, 2]], [[1.0, -1]]),
    "real_vector": (C.real_vector, [[1.0, 2]], [[1.0, math.nan]]),
    "square": (C.square, [[[1.0, 0], [0, 0]]], None),
    "mixture": (C.MixtureSameFamilyConstraint(C.positive), [1.0], [-1.0]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_checks(name):
    constraint, inside, outside = INSIDE[name]
    values = T(inside)
    checked = constraint.check(values)
    assert checked.dtype is torch.bool
    assert checked.shape == values.shape[: values.dim() - constraint.event_dim]
    assert bool(checked.all())
    if outside is not None:
        assert not bool(constraint.check(T(outside)).any())


def test_checks_of_parts():
    joined = C.cat([C.positive, C.real], lengths=[1, 2])
    assert joined.check(T([-1.0, -1.0, 2.0])).tolist() == [False, True, True]
    stacked = C.stack([C.positive, C.real], dim=1)
    assert stacked.check(T([[1.0, -1.0], [-1.0, 0.0]])).tolist() == [[True, True], [False, True]]
    for matrix in (C.square, C.symmetric, C.positive_definite, C.positive_semidefinite):
        assert not bool(matrix.check(torch.ones(4, 2, 3)).any())
    with pytest.raises(ValueError, match=r"Expected value.dim\(\) >= 2 but got 1"):
        C.independent(C.real, 2).check(torch.ones(3))
    with pytest.raises(ValueError, match="validity of dependent constraint"):
        C.dependent.check(torch.ones(3))
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined"):
        C.dependent.event_dim
    assert C.is_dependent(D.Uniform.support)
    assert D.Uniform.support.event_dim == 0
    assert not C.is_dependent(D.Uniform(0.0, 1.0).support)
    assert repr(C.interval(0, 1)) == "Interval(lower_bound=0, upper_bound=1)"
    assert repr(C.real_vector) == "IndependentConstraint(Real(), 1)"


REGISTERED = {
    "real": (C.real, (3,)),
    "positive": (C.positive, (3,)),
    "nonnegative": (C.nonnegative, (3,)),
    "greater_than": (C.greater_than(T([1.0, 2.0, 3.0])), (3,)),
    "less_than": (C.less_than(2.0), (3,)),
    "unit_interval": (C.unit_interval, (3,)),
    "interval": (C.interval(-2.0, 3.0), (3,)),
    "half_open_interval": (C.half_open_interval(-2.0, 3.0), (3,)),
    "simplex": (C.simplex, (3,)),
    "corr_cholesky": (C.corr_cholesky, (6,)),
    "independent": (C.independent(C.positive, 1), (2, 3)),
    "cat": (C.cat([C.positive, C.real], lengths=[1, 2]), (3,)),
    "stack": (C.stack([C.positive, C.unit_interval]), (2, 3)),
    "lower_cholesky": (C.lower_cholesky, (2, 3, 3)),
    "positive_definite": (C.positive_definite, (2, 3, 3)),
}


@pytest.mark.parametrize("name", REGISTERED)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries(name, registry):
    """The transforms map any numbers into the region."""
    constraint, shape = REGISTERED[name]
    x = 3 * torch.randn(shape, dtype=F8, generator=torch.Generator().manual_seed(5))
    if registry == "biject_to" and name in ("lower_cholesky", "positive_definite"):
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            D.biject_to(constraint)
        return
    t = getattr(D, registry)(constraint)
    y = t(x)
    assert bool(constraint.check(y).all())
    back = t(t.inv(y))
    assert torch.allclose(back, y, atol=1e-6)
    if registry == "biject_to":
        assert t.bijective
        assert torch.allclose(t.inv(y), x, atol=1e-4)


def test_registering():
    class Even(C.Constraint):
        def check(self, value):
            return value % 2 == 0

    registry = type(D.biject_to)()
    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        registry(Even())
    registry.register(Even, lambda c: D.AffineTransform(0.0, 2.0))
    assert registry(Even())(T(3.0)).item() == 6
    with pytest.raises(TypeError, match="Constraint subclass or instance, but got 3"):
        registry.register(3, lambda c: c)
