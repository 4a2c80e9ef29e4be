# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints inside function transforms."""

from __future__ import annotations

import pytest

import cograd
from cograd.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from cograd.nn import functional
from cograd.testing import assert_close as close
from cograd.utils.checkpoint import checkpoint

V = cograd.linspace(0.1, 0.9, 4, dtype=cograd.float64)
T = cograd.linspace(1.0, -1.0, 4, dtype=cograd.float64)
F8 = cograd.float64
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


OPS = {
    "exp": cograd.exp,
    "sqrt": cograd.sqrt,
    "sin": cograd.sin,
    "layer_norm": lambda z: functional.layer_norm(z, (2,)),
}


@pytest.mark.parametrize("name", OPS)
def test_nested_checkpoints_compute_again_what_they_computed(name):
    """The backward runs inside vmaps, dual levels and functions that the forward did not run in."""
    op = OPS[name]
    x = cograd.rand(2, 2, dtype=F8) + 0.1

    def nested(a):
        return again(lambda y: again(lambda z: op(z), y * 1), a).reshape(-1)

    def plain(a):
        return op(a * 1).reshape(-1)

    def again(f, *args):
        return checkpoint(f, *args, use_reentrant=False)

    expected = jacrev(plain)(x)
    close(jacrev(nested)(x), expected)
    close(jacrev(nested, chunk_size=3)(x), expected)
    _, pullback = vjp(nested, x)
    (rows,) = vmap(pullback)(cograd.eye(4, dtype=F8))
    close(rows, expected)
    leaf = x.clone().requires_grad_()
    (rows,) = cograd.autograd.grad(
        nested(leaf), leaf, cograd.eye(4, dtype=F8), is_grads_batched=True
    )
    close(rows, expected)
    # The backward runs inside a dual level, and inside another function.
    weight = cograd.rand(4, dtype=F8)
    value, direction = jvp(lambda v: pullback(v)[0], (weight,), (weight,))
    close(value, direction)
    close(value, (weight @ expected.reshape(4, -1)).reshape(2, 2))
    other = grad(lambda v: pullback(v)[0].sum())(weight)
    close(other, expected.reshape(4, -1).sum(1))
    other = vmap(grad(lambda v: pullback(v)[0].sum()))(cograd.stack([weight, weight]))
    close(other[1], expected.reshape(4, -1).sum(1))


def test_a_checkpoint_of_a_closure_under_vjp_and_jacrev():
    x = cograd.rand(3, dtype=F8)

    def f(x):
        return checkpoint(lambda: x.sin() * x, use_reentrant=False)

    expected = cograd.diag(x.cos() * x + x.sin())
    close(jacrev(f)(x), expected)
    _, pullback = vjp(f, x)
    for _ in range(2):
        close(pullback(cograd.ones(3, dtype=F8))[0], expected.diagonal())
    assert not f(x).requires_grad


AF = cograd.autograd.functional
BACKWARDS = {
    "autograd.grad": lambda f, x: cograd.autograd.grad(f(x).sum(), x)[0],
    "jacobian": lambda f, x: AF.jacobian(lambda y: f(y).sum(0), x),
    "vectorized jacobian": lambda f, x: AF.jacobian(lambda y: f(y).sum(0), x, vectorize=True),
}
CHECKPOINTED = {
    "arguments": lambda f: lambda x: checkpoint(f, x, use_reentrant=False),
    "closure": lambda f: lambda x: checkpoint(lambda: f(x), use_reentrant=False),
    "nested": lambda f: (
        lambda x: checkpoint(
            lambda y: checkpoint(f, y * 1, use_reentrant=False), x, use_reentrant=False
        )
    ),
}


@pytest.mark.parametrize("form", CHECKPOINTED)
@pytest.mark.parametrize("backward", BACKWARDS)
def test_a_backward_after_the_vmap_of_a_gradient(backward, form):
    """The batches do not exist any more; the vmap's own backward recomputed what is needed."""
    run, x = BACKWARDS[backward], X.clone().requires_grad_()
    kept = CHECKPOINTED[form](body)
    got = run(vmap(grad(lambda y: kept(y).sum())), x)
    close(got, run(vmap(grad(lambda y: body(y).sum())), x), rtol=1e-12, atol=1e-12)


def test_what_a_vmap_recomputed_is_not_recomputed_by_the_backward_after_it():
    calls = []

    def f(x):
        calls.append(1)
        return body(x).sum()

    x = X.clone().requires_grad_()
    y = vmap(grad(lambda v: checkpoint(f, v, use_reentrant=False)))(x)
    assert len(calls) == 2
    y.sum().backward()
    assert len(calls) == 2
