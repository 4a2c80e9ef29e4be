# SPDX-License-Identifier: BSD-3-Clause
"""A rule that would lose the derivative of an intermediate result of a Function raises."""

from __future__ import annotations

import numpy as np
import pytest

import cograd
from cograd.autograd import Function, forward_ad
from cograd.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vmap

X = cograd.tensor([1.0, 2.0], dtype=cograd.float64)
T = cograd.ones(2, dtype=cograd.float64)


class Saved(Function):
    @staticmethod
    def forward(ctx, x):
        s = x * x
        ctx.save_for_backward(x, s)
        ctx.save_for_forward(x, s)
        return s * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * 4 * x * s


class SavedWithRule(Saved):
    @staticmethod
    def jvp(ctx, t):
        x, s = ctx.saved_tensors
        return 4 * x * s * t


class Attribute(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.s = x * x
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return ctx.s**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 4 * x * ctx.s


class AttributeWithRule(Attribute):
    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 4 * x * ctx.s * t


class Recomputed(SavedWithRule):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**4

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 4 * x**3

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 4 * x**3 * t


def nested_levels(f):
    with forward_ad.dual_level():
        outer = forward_ad.make_dual(X, T)
        with forward_ad.dual_level():
            y = f(forward_ad.make_dual(outer, T))
            inner = forward_ad.unpack_dual(y).tangent
        return forward_ad.unpack_dual(inner).tangent


SECOND = {
    "jvp of jvp": lambda f: jvp(lambda b: jvp(f, (b,), (T,))[1], (X,), (T,))[1],
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(lambda x: f(x).sum()))(X).diagonal(),
    "jvp of linearize": lambda f: jvp(lambda b: linearize(f, b)[1](T), (X,), (T,))[1],
    "vmap of jvp of jvp": lambda f: vmap(
        lambda x: jvp(lambda b: jvp(f, (b,), (T[:1],))[1], (x,), (T[:1],))[1]
    )(X[:, None])[:, 0],
    "nested levels": nested_levels,
    "hessian": lambda f: hessian(lambda x: f(x).sum())(X).diagonal(),
    "jacrev of jacrev": lambda f: jacrev(jacrev(lambda x: f(x).sum()))(X).diagonal(),
    "grad of jvp": lambda f: grad(lambda x: jvp(f, (x,), (T,))[1].sum())(X),
}


@pytest.mark.filterwarnings("ignore:vmap. .* has no vmap rule")
@pytest.mark.parametrize("function", [Saved, SavedWithRule, Attribute, AttributeWithRule])
@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_raise(name, function):
    with pytest.raises(RuntimeError, match="intermediate result of forward"):
        SECOND[name](function.apply)


@pytest.mark.filterwarnings("ignore:vmap. .* has no vmap rule")
@pytest.mark.parametrize("name", SECOND)
def test_recomputed_ones_are_right(name):
    assert cograd.allclose(SECOND[name](Recomputed.apply), 12 * X**2)


@pytest.mark.parametrize("function", [Saved, SavedWithRule, Attribute, AttributeWithRule])
def test_first_derivatives_are_right(function):
    value, tangent = jvp(function.apply, (X,), (T,))
    assert cograd.allclose(value, X**4) and cograd.allclose(tangent, 4 * X**3)
    assert not tangent.requires_grad
    assert cograd.allclose(grad(lambda x: function.apply(x).sum())(X), 4 * X**3)
    assert cograd.allclose(jacfwd(function.apply)(X).diagonal(), 4 * X**3)


def test_what_leaves_for_numpy_may_not_lose_its_tangent():
    for leave in (lambda a: a.numpy(), np.asarray, np.from_dlpack, memoryview):
        with pytest.raises((RuntimeError, BufferError), match="has a tangent"):
            jvp(lambda a, leave=leave: leave(a), (X,), (T,))
    assert jvp(lambda a: a + cograd.from_numpy(a.detach().numpy()), (X,), (T,))[1].tolist() == [
        1,
        1,
    ]
