# SPDX-License-Identifier: BSD-3-Clause
"""Transforms with modes, complex numbers, interrupts and nonlinear backwards."""

from __future__ import annotations

import signal
import threading

import pytest

import cograd
from cograd.autograd import Function, forward_ad
from cograd.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

X = cograd.tensor([1.0, 2.0], dtype=cograd.float64)
ONES = cograd.ones(2, dtype=cograd.float64)

CUBES = {
    "grad": (lambda x: grad(lambda t: (t**3).sum())(x), 3 * X**2),
    "jvp": (lambda x: jvp(lambda t: t**3, (x,), (cograd.ones_like(x),))[1], 3 * X**2),
    "vjp": (lambda x: vjp(lambda t: t**3, x)[1](cograd.ones_like(x))[0], 3 * X**2),
    "jacrev": (lambda x: jacrev(lambda t: t**3)(x), cograd.diag(3 * X**2)),
    "jacfwd": (lambda x: jacfwd(lambda t: t**3)(x), cograd.diag(3 * X**2)),
    "hessian": (lambda x: hessian(lambda t: (t**3).sum())(x), cograd.diag(6 * X)),
    "linearize": (lambda x: linearize(lambda t: t**3, x)[1](cograd.ones_like(x)), 3 * X**2),
    "vmap of grad": (lambda x: vmap(grad(lambda t: t**3))(x), 3 * X**2),
    "vmap of jvp": (
        lambda x: vmap(lambda t: jvp(lambda s: s**3, (t,), (cograd.ones_like(t),))[1])(x),
        3 * X**2,
    ),
}


@pytest.mark.parametrize("name", CUBES)
def test_inference_mode_changes_no_derivative(name):
    transformed, expected = CUBES[name]
    with cograd.inference_mode():
        of_plain = transformed(X)
        made_here = X.clone()
        assert made_here.is_inference()
        of_inference = transformed(made_here)
    outside = transformed(made_here)
    for got in (of_plain, of_inference, outside):
        assert cograd.allclose(got, expected)


# ---- complex and real --------------------------------------------------------------------------


def test_complex_tangents_of_real_tensors_are_refused():
    with pytest.raises(RuntimeError, match="imaginary part would be lost"):
        jvp(lambda t: t * 2, (X,), (X * 1j,))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="imaginary part"):
        forward_ad.make_dual(X, X * 1j)

    class Turned(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 2j

    with pytest.raises(RuntimeError, match=r"Turned.*complex tangent at position 1"):
        jvp(Turned.apply, (X,), (ONES,))


@pytest.mark.parametrize(
    "factor, given", [(2, 1j), (2j, 1.0), (2j, cograd.ones((), dtype=cograd.complex64))]
)
def test_gradients_of_complex_outputs_are_of_their_dtype(factor, given):
    x = X.clone().requires_grad_()
    y = x * factor
    grad_output = ONES * given if not isinstance(given, cograd.Tensor) else given.expand(2)
    words = "both grad_output and output are required to have the same dtype"
    with pytest.raises(RuntimeError, match=words):
        y.backward(grad_output, retain_graph=True)
    with pytest.raises(RuntimeError, match=words):
        cograd.autograd.grad(y, x, grad_output)
    with pytest.raises(RuntimeError, match=words):
        vjp(lambda t: t * factor, X)[1](grad_output)


@pytest.mark.parametrize("transform", [jacrev, jacfwd, hessian])
def test_jacobians_are_of_real_functions(transform):
    z = X + 1j
    with pytest.raises(RuntimeError, match="Expected all inputs to be real"):
        transform(lambda t: (t * t).abs().sum())(z)
    if transform is not hessian:
        with pytest.raises(RuntimeError, match="Expected all outputs to be real"):
            transform(lambda t: t * 1j)(X)


# ---- what transforms leave behind --------------------------------------------------------------


def test_detach_in_place_ends_the_tangent():
    def f(x):
        y = x * 2
        y.detach_()
        return y

    assert jvp(f, (X,), (ONES,))[1].count_nonzero() == 0


def test_chunks_have_the_same_random_numbers():
    def f(x):
        return x * 0 + cograd.rand(())

    got = vmap(f, randomness="same", chunk_size=2)(cograd.zeros(5))
    assert (got == got[0]).all()


def test_a_sample_that_requires_grad_is_no_business_of_the_caller():
    x = cograd.ones(3, 2)

    def f(t):
        t.requires_grad_()
        return cograd.autograd.grad((t * t).sum(), t)[0]

    assert (vmap(f)(x) == 2).all()
    assert not x.requires_grad and x.grad is None


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"),
    reason="interrupts reach the main thread by setitimer",
)
def test_interrupts_leave_no_transform_open():
    def work():
        for _ in range(200):
            vmap(grad(lambda t: (t * t).sum()))(cograd.ones(2, 2))
            jvp(cograd.sin, (X,), (ONES,))

    def interrupt(signum, frame):  # a late one would end the test itself
        while frame is not None and frame.f_code is not work.__code__:
            frame = frame.f_back
        if frame is not None:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    hits = 0
    try:
        for attempt in range(150):
            signal.setitimer(signal.ITIMER_REAL, 2e-5 * (1 + attempt % 20))
            try:
                work()
            except KeyboardInterrupt:
                hits += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert hits > 20
    assert cograd._C._vmap_depth() == 0 and cograd._C._dual_level() == -1
    cograd.rand(2).add_(1)  # refused inside vmap, and inside a function for older tensors


# ---- backwards that are not linear -------------------------------------------------------------


def identity_with(rule):
    class Identity(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return rule(g)

    return Identity.apply


@pytest.mark.parametrize(
    "rule",
    [lambda g: g.clamp(-0.1, 0.1), lambda g: g.sign(), lambda g: g / (g.norm() + 1e-6)],
    ids=["clips", "sign", "normalises"],
)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jvp(f, (X,), (ONES,)),
        lambda f: jacfwd(f)(X),
        lambda f: vmap(lambda t: jvp(f, (t,), (ONES,)))(X.expand(3, 2)),
    ],
    ids=["jvp", "jacfwd", "vmap"],
)
@pytest.mark.filterwarnings("ignore:vmap. Identity has no vmap rule")
def test_tangents_are_refused(rule, transform):
    with pytest.raises(RuntimeError, match="not linear in the gradient"):
        transform(identity_with(rule))


def test_clipping_far_above_the_gradient_is_linear():
    f = identity_with(lambda g: g.clamp(-100, 100) * 3)
    assert cograd.equal(jvp(f, (X,), (ONES,))[1], 3 * ONES)
