# SPDX-License-Identifier: BSD-3-Clause
"""Transforms of transforms to depth 3, in every order, over random programs, by differences."""

import itertools
import random

import pytest
from op_items import each_cell

import cograd as torch
from cograd.func import grad, grad_and_value, jacfwd, jacrev, jvp, linearize, vjp

F8 = torch.float64
N = 3
pytestmark = pytest.mark.filterwarnings("ignore:vmap. Cube has no vmap rule")

STEPS = {
    "sin": lambda h, w: h.sin(),
    "tanh": lambda h, w: h.tanh(),
    "exp": lambda h, w: (0.3 * h).exp(),
    "square": lambda h, w: h * h,
    "quotient": lambda h, w: h / (2 + h * h),
    "weights": lambda h, w: w @ h,
    "outer": lambda h, w: (h.unsqueeze(1) * h).sum(0),
    "softmax": lambda h, w: torch.softmax(h, 0),
    "cumsum": lambda h, w: h.cumsum(0),
    "roll": lambda h, w: h.flip(0) * h,
    "slice": lambda h, w: torch.cat([h[1:], h[:1]]) * h,
    "in place": lambda h, w: h.clone().mul_(h),
    "write a part": lambda h, w: write_part(h),
    "logsumexp": lambda h, w: h + torch.logsumexp(h, 0),
    "solve": lambda h, w: torch.linalg.solve(w @ w.t() + 3 * torch.eye(N, dtype=F8), h),
    "norm": lambda h, w: h / (1 + h.pow(2).sum()).sqrt(),
    "where": lambda h, w: torch.where(h > 0.1, h, 0.5 * h.sin()),
    "function": lambda h, w: Cube.apply(h),
    "inner gradient": lambda h, w: grad(lambda z: (z * z * h).sin().sum())(h),
}


def write_part(h):
    z = torch.zeros(N, dtype=F8)
    z[1:] = h[:-1].sin()
    z[0] = h[2] * h[0]
    return z


class Cube(torch.autograd.Function):
    """Defines only a backward; forward mode is derived from it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def program(seed):
    choose = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    names = [choose.choice(sorted(STEPS)) for _ in range(choose.randint(2, 4))]
    w = torch.randn(N, N, dtype=F8, generator=generator) * 0.5
    x = torch.rand(N, dtype=F8, generator=generator) + 0.2

    def run(x):
        h = x
        for name in names:
            h = STEPS[name](h, w).tanh()  # differences need moderate derivatives
        return h

    return run, x


def direction(shape):
    n = 1
    for s in shape:
        n *= s
    return (torch.arange(n, dtype=F8) + 1).cos().reshape(shape)


TRANSFORMS = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "jvp": lambda f: lambda x: jvp(f, (x,), (direction(x.shape),))[1],
    "vjp": lambda f: lambda x: pulled(*vjp(f, x)),
    "jacrev": jacrev,
    "jacfwd": jacfwd,
}


def pulled(output, pull):
    return pull(direction(output.shape))[0]


def jacobian_by_differences(f, x, step=3e-4):
    """Returns the Jacobian by central differences of the fourth order."""
    columns = []
    for i in range(N):
        e = torch.zeros(N, dtype=F8)
        e[i] = step
        near, far = f(x + e) - f(x - e), f(x + 2 * e) - f(x - 2 * e)
        columns.append((8 * near - far) / (12 * step))
    return torch.stack(columns, -1)


def by_differences(name, f, x):
    j = jacobian_by_differences(f, x)
    if name == "grad":
        return j.reshape(-1, N).sum(0)
    if name == "jvp":
        return j @ direction(x.shape)
    if name == "vjp":
        return direction(j.shape[:-1]).reshape(-1) @ j.reshape(-1, N)
    return j


def close(a, b):
    scale = 1 + b.abs().max().item()
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7 * scale)


DEPTH_THREE = list(itertools.product(TRANSFORMS, repeat=3))


# Every sixth: 21, with each transform in each place.
@each_cell("names", DEPTH_THREE[::6], ids="-".join)
def test_orders_of_depth_three(names):
    every_order(names)


@pytest.mark.nightly
@pytest.mark.parametrize("names", DEPTH_THREE, ids="-".join)
def test_every_order_to_depth_three(names):
    every_order(names)


def every_order(names):
    """Each transform of the function so far agrees with differences of that function."""
    for seed in (hash_of(names), hash_of(names) + 1):
        f, x = program(seed)
        for name in names:
            inner, f = f, TRANSFORMS[name](f)
            got = f(x)
            close(got, by_differences(name, inner, x))
            assert not got.requires_grad
            assert not x.requires_grad


def hash_of(names):
    return sum((i + 1) * sum(map(ord, n)) for i, n in enumerate(names)) % 1000


@pytest.mark.parametrize("step", sorted(STEPS))
@each_cell("pair", list(itertools.product(TRANSFORMS, repeat=2)), ids="-".join)
def test_every_step_under_every_pair(step, pair):
    w = torch.linspace(-0.5, 0.7, N * N, dtype=F8).reshape(N, N)
    x = torch.tensor([0.3, 0.8, -0.4], dtype=F8)

    def f(x):
        return STEPS[step](x.sin() + 0.1, w)

    for name in pair:
        inner, f = f, TRANSFORMS[name](f)
        close(f(x), by_differences(name, inner, x))


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("seed", range(4))
def test_linearize_is_jvp_under_transforms(name, seed):
    f, x = program(seed)
    v = direction(x.shape)

    def by_linearize(x):
        return linearize(f, x)[1](v)

    def by_jvp(x):
        return jvp(f, (x,), (v,))[1]

    close(by_linearize(x), by_jvp(x))
    close(TRANSFORMS[name](by_linearize)(x), TRANSFORMS[name](by_jvp)(x))
    j = jacrev(f)(x)
    close(jacrev(linearize(f, x)[1])(v), j)
    close(jacfwd(linearize(f, x)[1])(v), j)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_backward_through_a_transform(name):
    """Leaves of the caller get gradients of what a transform computes, for x and for w."""
    x = torch.tensor([0.3, 0.8, -0.4], dtype=F8, requires_grad=True)
    w = torch.linspace(-0.5, 0.7, N * N, dtype=F8).reshape(N, N).requires_grad_()

    def value(x, w):
        return (TRANSFORMS[name](lambda z: (w @ z).sin() * z)(x) ** 2).sum()

    value(x, w).backward()
    step = 1e-6
    for t, other in ((x, lambda e: value(x + e, w)), (w, lambda e: value(x, w + e))):
        want = torch.zeros(t.numel(), dtype=F8)
        for i in range(t.numel()):
            e = torch.zeros(t.numel(), dtype=F8)
            e[i] = step
            e = e.reshape(t.shape)
            want[i] = ((other(e) - other(-e)) / (2 * step)).item()
        close(t.grad.reshape(-1), want)


@pytest.mark.parametrize("outer", ["grad", "jvp", "jacrev", "jacfwd", "vjp"])
def test_by_the_direction_of_an_inner_jvp(outer):
    """jvp is linear in its tangent: its derivative with respect to it is the Jacobian."""
    f, x = program(5)
    v = direction(x.shape)

    def g(v):
        return jvp(f, (x,), (v,))[1]

    close(TRANSFORMS[outer](g)(v), by_differences(outer, g, v))

    def hessian_times(v):
        return jvp(grad(lambda z: f(z).sum()), (x,), (v,))[1]

    close(TRANSFORMS[outer](hessian_times)(v), by_differences(outer, hessian_times, v))


def test_variables_are_not_confused():
    """The inner derivative is only for the inner variable (d/dx x * d/dy (x + y) is 1)."""
    one = torch.ones((), dtype=F8)
    for a, b in itertools.product((derivative_by_grad, derivative_by_jvp), repeat=2):
        assert a(lambda x: x * b(lambda y, x=x: x + y)(one))(one).item() == 1.0
        assert a(lambda x: x * b(lambda y, x=x: x * y)(one))(2 * one).item() == 4.0


def derivative_by_grad(f):
    return grad(f)


def derivative_by_jvp(f):
    return lambda x: jvp(f, (x,), (torch.ones_like(x),))[1]


def test_values_inside_transforms():
    x = torch.tensor(0.7, dtype=F8)

    def f(x):
        g, v = grad_and_value(torch.sin)(x)
        return g * v  # sin(2 x) / 2

    close(grad(f)(x), (2 * x).cos())
    close(jvp(f, (x,), (torch.ones_like(x),))[1], (2 * x).cos())
    close(grad(grad(f))(x), -2 * (2 * x).sin())
