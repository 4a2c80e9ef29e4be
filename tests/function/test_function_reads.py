# SPDX-License-Identifier: BSD-3-Clause
"""Backwards that read elements without being marked: derivatives of their results raise."""

import pytest

import cograd as torch
from cograd.autograd import Function
from cograd.autograd import grad as gradient
from cograd.autograd.function import once_differentiable

F8 = torch.float64
X = torch.tensor([2.0, 3.0], dtype=F8)


def cube(factor):
    """Returns the cube, whose backward multiplies by ``factor(x)``, which should be 3 x^2."""

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return factor(ctx.saved_tensors[0]) * g

    return Cube.apply


def filled(x):
    out = torch.empty_like(x)
    for i in range(x.numel()):
        out[i] = 3 * x[i].item() ** 2
    return out


READERS = {
    "item": lambda x: torch.tensor([3 * v.item() ** 2 for v in x], dtype=F8),
    "float": lambda x: torch.tensor([3 * float(v) ** 2 for v in x], dtype=F8),
    "tolist": lambda x: torch.tensor([3 * v**2 for v in x.tolist()], dtype=F8),
    "written": filled,
    "half": lambda x: 3 * torch.tensor(x.tolist(), dtype=F8) ** 2,
    "computed": lambda x: torch.tensor((3 * x**2).tolist(), dtype=F8),
}
TEXT = "backward of Cube: it reads elements, by (item|tolist)\\(\\), of a tensor that "


@pytest.mark.parametrize("reader", READERS.values(), ids=list(READERS))
def test_second_derivatives_raise_and_first_ones_do_not(reader):
    f = cube(reader)
    x = X.clone().requires_grad_()
    f(x).sum().backward()
    assert torch.allclose(x.grad, 3 * X**2)
    assert torch.allclose(torch.func.grad(lambda x: f(x).sum())(X), 3 * X**2)
    for outer in (lambda y: y.sum(), lambda y: (y**2).sum()):  # a constant gradient, and not
        (g,) = gradient(outer(f(x)), x, create_graph=True)
        assert torch.allclose(g, gradient(outer(x**3), x)[0])
        with pytest.raises(RuntimeError, match=TEXT + "requires grad.*mark backward as once"):
            gradient(g.sum(), x)
    with pytest.raises(RuntimeError, match=TEXT):
        torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum())(X)
    with pytest.raises(RuntimeError, match=TEXT):
        torch.func.jacfwd(torch.func.grad(lambda x: f(x).sum()))(X)


def test_what_was_recorded_is_still_differentiated():
    """Only the derivative by what was read is unknown: that by the incoming gradient is not."""
    f = cube(READERS["item"])
    x, seed = X.clone().requires_grad_(), torch.ones(2, dtype=F8, requires_grad=True)
    (g,) = gradient(f(x), x, seed, create_graph=True)
    assert torch.allclose(gradient(g.sum(), seed, retain_graph=True)[0], 3 * X**2)
    with pytest.raises(RuntimeError, match=TEXT):
        gradient(g.sum(), x)


def test_reads_that_only_decide_change_nothing():
    def decides(x):
        if x.norm().item() > 1 and x[0] > 0 and not torch.isnan(x).any().item():
            return 3 * x**2
        return x * float("nan")

    def decides_by_an_element(x):
        return 3 * x**2 if x[0].item() > 0 else x * float("nan")

    def shows(x):
        assert "2." in repr(x) and x.detach().tolist() == [2, 3] and x.shape[0] == 2
        return 3 * x**2

    def without_record(x):
        with torch.no_grad():
            assert x.tolist() == [2, 3]
        return 3 * x**2

    for factor in (decides, decides_by_an_element, shows, without_record):
        f = cube(factor)
        x = X.clone().requires_grad_()
        (g,) = gradient(f(x).sum(), x, create_graph=True)
        assert torch.allclose(gradient(g.sum(), x)[0], 6 * X)
        if factor is not shows:
            jacobian = torch.func.jacfwd(torch.func.grad(lambda x, f=f: f(x).sum()))(X)
            assert torch.allclose(jacobian, torch.diag(6 * X))


def test_elements_of_what_needs_no_gradient_may_be_read():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factors):
            ctx.save_for_backward(x, factors)
            return x**2 * factors

        @staticmethod
        def backward(ctx, g):
            x, factors = ctx.saved_tensors
            parts = [2 * factors[i].item() * x[i] * g[i] for i in range(x.numel())]
            return torch.stack(parts), None

    x, factors = X.clone().requires_grad_(), torch.tensor([5.0, 7.0], dtype=F8)
    (g,) = gradient(Scale.apply(x, factors).sum(), x, create_graph=True)
    assert torch.allclose(gradient(g.sum(), x)[0], 2 * factors)
    assert torch.autograd.gradgradcheck(lambda x: Scale.apply(x, factors), (x,))


def test_a_nested_backward_has_reads_of_its_own():
    inner = cube(READERS["tolist"])

    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            fixed = X.clone().requires_grad_()
            gradient(inner(fixed).sum(), fixed, create_graph=True)
            return 2 * ctx.saved_tensors[0] * g

    x = X.clone().requires_grad_()
    (g,) = gradient(Outer.apply(x).sum(), x, create_graph=True)
    assert gradient(g.sum(), x)[0].tolist() == [2, 2]


def test_a_marked_backward_says_that_it_is_marked():
    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return READERS["tolist"](ctx.saved_tensors[0]) * g

    x = X.clone().requires_grad_()
    (g,) = gradient(Marked.apply(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        gradient(g.sum(), x)


def test_check_tells_of_elements_that_are_read():
    from cograd.testing import check

    report = check(cube(READERS["item"]), (X,), raise_exception=False)
    assert "it reads elements, by item()" in report["gradgradcheck"].detail
    assert report["gradcheck"].outcome == "pass"


def first_element(x):
    return 3 * x**2 * (x[0].item() / X[0].item())


@pytest.mark.parametrize("how", ["func", "dual", "dual recorded"])
def test_a_tangent_that_comes_from_the_incoming_gradient_alone_is_no_tangent(how):
    forward = torch.autograd.forward_ad

    def tangent(f, outer):
        if how == "func":
            return torch.func.jvp(torch.func.grad(lambda x: outer(f(x))), (X,), (X,))[1]
        x = X.clone().requires_grad_()
        with forward.dual_level():
            y = outer(f(forward.make_dual(x, X)))
            (g,) = gradient(y, x, create_graph=how == "dual recorded")
            return forward.unpack_dual(g).tangent

    def squared(y):
        return (y**2).sum()

    want = tangent(lambda x: x**3, squared)
    assert torch.allclose(want, 30 * X**5)
    for reader in READERS.values():
        for outer in (squared, torch.sum):
            with pytest.raises(RuntimeError, match=TEXT + "has a tangent"):
                tangent(cube_with_jvp(reader), outer)
    f = cube_with_jvp(first_element)
    assert torch.allclose(tangent(f, torch.sum), 6 * X**2)
    if how == "dual recorded":  # the graph shows that the gradient leads to x
        assert torch.allclose(tangent(f, squared), want)
    else:
        with pytest.raises(RuntimeError, match=TEXT + "has a tangent"):
            tangent(f, squared)


def cube_with_jvp(factor):
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return factor(ctx.saved_tensors[0]) * g

        @staticmethod
        def jvp(ctx, t):
            return 3 * ctx.saved_tensors[0] ** 2 * t

    return Cube.apply


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


def test_a_derivative_by_the_incoming_gradient_of_a_marked_backward_raises():
    """It was silently 0: the history of the result led to the inputs only."""
    for derivative in (
        lambda: torch.autograd.functional.jvp(Once.apply, X, X),
        lambda: torch.func.linearize(Once.apply, X)[1](X),
    ):
        with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
            derivative()
    x, w = X.clone().requires_grad_(), X.clone().requires_grad_()
    (g,) = gradient((Once.apply(x) * w).sum(), x, create_graph=True)
    assert torch.allclose(g, 3 * X**3)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        gradient(g.sum(), w)  # as a penalty on the gradient by x of a network with weights w


def test_a_derivative_by_the_incoming_gradient_knows_what_was_read():
    f = cube(READERS["tolist"])
    x, seed = X.clone().requires_grad_(), torch.ones(2, dtype=F8, requires_grad=True)
    (g,) = gradient(f(x), x, seed, create_graph=True)
    (slope,) = gradient(g, seed, torch.ones(2, dtype=F8), create_graph=True)
    assert torch.allclose(slope, 3 * X**2)
    with pytest.raises(RuntimeError, match=TEXT + "requires grad"):
        gradient(slope.sum(), x)  # it is a function of x, too
