# SPDX-License-Identifier: BSD-3-Clause
"""A hook that a transformed function registers belongs to the backward of that function."""

import time

import pytest

import cograd as torch
from cograd import func, nn
from cograd.testing import assert_close

ONE = torch.tensor(1.0, dtype=torch.float64)


def doubled_by_tensor_hook(y):
    y.register_hook(lambda g: 2 * g)


def doubled_by_prehook(y):
    y.grad_fn.register_prehook(lambda g: (2 * g[0],))


def doubled_by_posthook(y):
    y.grad_fn.register_hook(lambda grads, _: tuple(2 * g for g in grads))


@pytest.mark.parametrize(
    "double", [doubled_by_tensor_hook, doubled_by_prehook, doubled_by_posthook]
)
def test_a_hook_runs_at_its_own_level_only(double):
    """y x with y = x^2 has the gradient 3 x^2; with the gradient of y doubled it is 5 x^2."""

    def f(x):
        y = x.square()
        double(y)
        return y * x

    assert_close(func.grad(f)(ONE), 5 * ONE)
    assert_close(func.grad(func.grad(f))(ONE), 10 * ONE)
    assert_close(func.grad(func.grad(func.grad(f)))(ONE), 10 * ONE)
    _, pullback = func.vjp(f, ONE)
    assert_close(pullback(ONE)[0], 5 * ONE)
    assert_close(func.jacrev(func.grad(f))(ONE), 10 * ONE)
    assert_close(func.jacrev(func.jacrev(f))(ONE), 10 * ONE)
    assert_close(func.hessian(f)(ONE), 10 * ONE)


def test_a_hook_of_the_input():
    def f(x):
        x.register_hook(lambda g: 2 * g)
        return x**3

    assert_close(func.grad(func.grad(f))(ONE), 12 * ONE)


def test_a_hook_of_the_outer_function_is_not_called_by_the_inner_one():
    calls = []

    def outer(x):
        y = x.square()
        y.register_hook(lambda g: calls.append(g.item()))
        return func.grad(lambda z: z.square() * y)(x) * y

    func.grad(outer)(ONE)
    assert len(calls) == 1


def test_a_hook_of_what_does_not_depend_on_the_argument_waits_for_the_outer_backward():
    p = torch.tensor(3.0, requires_grad=True)

    def f(x):
        q = p * p
        q.register_hook(lambda g: 2 * g)
        return q * x

    func.grad(f)(torch.tensor(1.0)).backward()
    assert p.grad.item() == 12


def test_retain_grad_keeps_the_gradient_of_its_level():
    kept = []

    def f(x):
        y = x.square()
        y.retain_grad()
        kept.append(y)
        return y * x

    func.grad(func.grad(f))(ONE)
    assert_close(kept[0].grad.detach(), ONE)


def test_hooks_of_a_module_inside_nested_gradients():
    linear = nn.Linear(1, 1, bias=False).double()
    linear.weight.data = torch.tensor([[3.0]], dtype=torch.float64)
    calls = []
    linear.register_full_backward_hook(lambda m, gi, go: calls.append(1))

    def f(x):
        return linear(x.reshape(1)).square().sum()

    assert_close(func.grad(func.grad(f))(ONE), 18 * ONE)
    assert len(calls) == 1
    linear.register_full_backward_hook(lambda m, gi, go: (2 * gi[0],))
    assert_close(func.grad(func.grad(f))(ONE), 36 * ONE)
    linear.register_full_backward_pre_hook(lambda m, go: (2 * go[0],))
    assert_close(func.grad(func.grad(f))(ONE), 72 * ONE)


def test_a_backward_inside_of_the_function_calls_its_hooks():
    def f(x):
        y = x.square()
        y.register_hook(lambda g: 2 * g)
        (g,) = torch.autograd.grad(y, x, create_graph=True)  # 4 x
        return g * x

    assert_close(func.grad(f)(ONE), 8 * ONE)


def test_a_hook_inside_of_vmap_of_a_gradient_sees_each_sample():
    def f(x):
        y = x * 1
        y.register_hook(lambda g: g / g.norm())
        return (y * y).sum()

    x = torch.randn(4, 3, dtype=torch.float64)
    each = torch.stack([func.grad(f)(row) for row in x])
    assert_close(func.vmap(func.grad(f))(x), each)
    assert_close(func.vmap(func.grad(f), in_dims=1)(x.mT), each)
    assert_close(func.vmap(func.jacrev(f))(x), each)
    nested = func.vmap(func.vmap(func.grad(f)))(x.reshape(2, 2, 3))
    assert_close(nested, each.reshape(2, 2, 3))


def test_a_hook_that_returns_none_or_one_gradient_for_all_samples():
    seen = []

    def look(x):
        y = x * 1
        y.register_hook(lambda g: seen.append(g.shape))
        return (y * y).sum()

    def replace(x):
        y = x * 1
        y.register_hook(torch.ones_like)
        return (y * y).sum()

    x = torch.randn(4, 3)
    assert_close(func.vmap(func.grad(look))(x), 2 * x)
    assert seen == [(3,)]
    assert_close(func.vmap(func.grad(replace))(x), torch.ones(4, 3))


def test_a_hook_of_a_gradient_inside_of_a_vmap_inside_of_another_function():
    """The sum of 2 x, doubled by the hook, is 4 x, and 4 once more for each element."""

    def f(x):
        y = x * x
        y.register_hook(lambda g: 2 * g)
        return y.sum()

    x = torch.randn(2, 3, dtype=torch.float64)
    each = func.vmap(func.grad(f))
    fours = 4 * torch.eye(6, dtype=torch.float64).reshape(2, 3, 2, 3)
    assert_close(func.jacfwd(each)(x), fours)
    assert_close(func.jacrev(each)(x), fours)
    assert_close(func.jvp(each, (x,), (x,)), (4 * x, 4 * x))
    outer = func.vmap(func.grad(lambda x: each(x).sum()))
    assert_close(outer(torch.stack([x, -x])), torch.full((2, 2, 3), 4.0, dtype=torch.float64))
    captured = func.grad(lambda c: func.vmap(func.grad(lambda x: f(c * x)))(x).sum())
    c = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert_close(captured(c), 8 * c * x.sum(0))


def test_a_hook_in_a_vmap_that_ends_before_the_backward_raises():
    def f(x):
        y = x * 1
        y.register_hook(lambda g: 2 * g)
        return y.sum()

    x = torch.randn(4, 3, requires_grad=True)
    for call in (lambda: func.vmap(f)(x), lambda: func.grad(lambda x: func.vmap(f)(x).sum())(x)):
        with pytest.raises(RuntimeError, match=r"register_hook\(\) is not possible"):
            call()


def test_linearize_does_not_call_hooks():
    def f(x):
        y = x.square()
        y.register_hook(lambda g: 2 * g)
        return y * x

    value, product = func.linearize(f, ONE)
    assert_close(value, ONE)
    assert_close(product(ONE), 3 * ONE)


def test_the_search_for_a_hook_s_function_ends_at_the_next_hook():
    """4000 hooks in one graph take 0.1 s; walking to the input from each one took 11 s."""
    calls = []

    def f(x):
        for _ in range(4000):
            x = x * 1
            x.register_hook(calls.append)
        return x

    start = time.thread_time()
    assert_close(func.grad(f)(ONE), ONE)
    assert len(calls) == 4000
    assert time.thread_time() - start < 3


def test_hooks_of_several_functions_in_one_chain():
    """z = 2 y = 2 x^2 with hooks of both functions, each found past hooks of the other."""
    calls = []

    def note(t, name):
        t.register_hook(lambda g: calls.append(name))

    def outer(x):
        y = x.square()
        note(y, "y")

        def inner(v):
            note(y, "y, inside")
            p = v * 1
            note(p, "p")
            z = p * y
            note(z, "z")
            t = y * 2
            note(t, "t")
            return z * t

        return func.grad(inner)(x)

    assert_close(func.grad(outer)(ONE), 8 * ONE)
    assert calls == ["z", "p", "t", "y", "y, inside"]


@pytest.mark.parametrize("outer", [func.grad, lambda f: func.vmap(func.grad(f))])
def test_hooks_inside_linearize_do_not_run(outer):
    def f(x):
        y = x * 1
        y.register_hook(lambda g: g * 2)
        return y**3

    def of_direction(way):
        return lambda x: way(x, torch.tensor([1.0, 2.0, 3.0])).sum()

    x = torch.tensor([[1.0, 1.0, 2.0]] * 2) if outer is not func.grad else torch.tensor([1.0, 1, 2])
    linear = outer(of_direction(lambda x, v: func.linearize(f, x)[1](v)))(x)
    forward = outer(of_direction(lambda x, v: func.jvp(f, (x,), (v,))[1]))(x)
    assert linear.reshape(-1, 3)[0].tolist() == [6.0, 12.0, 36.0]
    assert torch.equal(forward, 2 * linear)
