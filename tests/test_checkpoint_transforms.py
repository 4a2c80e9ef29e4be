# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints inside of the transforms of functions."""

from __future__ import annotations

import pytest

import cograd
from cograd.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from cograd.nn import functional
from cograd.utils.checkpoint import checkpoint

V = cograd.linspace(0.1, 0.9, 4, dtype=cograd.float64)
T = cograd.linspace(1.0, -1.0, 4, dtype=cograd.float64)
X = cograd.linspace(-1.0, 1.0, 12, dtype=cograd.float64).reshape(3, 4)

TRANSFORMED = {
    "grad": lambda f, g: grad(f)(V),
    "vmap": lambda f, g: vmap(g)(X),
    "vmap of grad": lambda f, g: vmap(grad(f))(X),
    "grad of grad": lambda f, g: grad(lambda y: grad(f)(y).sum())(V),
    "jvp": lambda f, g: jvp(f, (V,), (T,))[1],
    "grad of vmap": lambda f, g: grad(lambda y: vmap(f)(y).sum())(X),
    "grad of vmap of grad": lambda f, g: grad(lambda y: vmap(grad(f))(y).sum())(X),
    "jvp of grad": lambda f, g: jvp(grad(f), (V,), (T,))[1],
    "grad of jvp": lambda f, g: grad(lambda y: jvp(f, (y,), (T,))[1])(V),
    "vmap of jvp": lambda f, g: vmap(lambda y: jvp(f, (y,), (T,))[1])(X),
    "jvp of vmap": lambda f, g: jvp(vmap(f), (X,), (X,))[1],
    "vjp": lambda f, g: vjp(g, V)[1](T)[0],
    "jacrev": lambda f, g: jacrev(g)(V),
    "jacfwd": lambda f, g: jacfwd(g)(V),
    "hessian": lambda f, g: hessian(f)(V),
    "jacrev of jacrev": lambda f, g: jacrev(jacrev(g))(V),
    "vmap of jacrev": lambda f, g: vmap(jacrev(g))(X),
    "vmap of hessian": lambda f, g: vmap(hessian(f))(X),
}


def body(x):
    return cograd.tanh(x * x).sin()


@pytest.mark.parametrize("name", TRANSFORMED)
def test_gives_what_the_function_alone_gives(name):
    transformed = TRANSFORMED[name]
    expected = transformed(lambda x: body(x).sum(), body)

    def kept(x):
        return checkpoint(body, x, use_reentrant=False)

    got = transformed(lambda x: kept(x).sum(), kept)
    cograd.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("transform", [grad, lambda f: lambda v: vjp(f, v)[1](T.sum())[0]])
def test_runs_the_function_again_in_the_backward(transform):
    calls = []

    def counted(x):
        calls.append(1)
        return body(x)

    transform(lambda x: checkpoint(counted, x, use_reentrant=False).sum())(V)
    assert len(calls) == 2


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_dropout_is_repeated(randomness):
    def dropped(x):
        return functional.dropout(body(x), 0.5)

    def gradients(f):
        cograd.manual_seed(3)
        return vmap(grad(lambda x: f(x).sum()), randomness=randomness)(X)

    got = gradients(lambda x: checkpoint(dropped, x, use_reentrant=False))
    cograd.testing.assert_close(got, gradients(dropped))


@pytest.mark.parametrize("batched", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("randomness", ["different", "same"])
def test_dropout_has_tangents_for_each_sample(randomness, batched):
    value = X if batched[0] == 0 else V
    tangent = X.cos() if batched[1] == 0 else T
    cograd.manual_seed(1)
    out, direction = vmap(
        lambda v, t: jvp(lambda y: functional.dropout(y, 0.5), (v,), (t,)),
        in_dims=batched,
        randomness=randomness,
    )(value, tangent)
    assert out.shape == direction.shape == (3, 4)
    factor = cograd.where(out != 0, 2.0, 0.0)
    cograd.testing.assert_close(direction, tangent * factor, check_dtype=False)
