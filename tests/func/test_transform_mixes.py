# SPDX-License-Identifier: BSD-3-Clause
"""Mixed levels: batched tangents of unbatched values, writes, Jacobians by columns."""

import warnings

import pytest

import cograd as torch
from cograd.autograd import forward_ad as fwd
from cograd.func import grad, hessian, jacfwd, jacrev, jvp, vmap

F8 = torch.float64
X = torch.tensor([0.3, -0.8, 0.5], dtype=F8)
DIRECTIONS = torch.tensor([[1.0, 0.5, -1.0], [0.2, 2.0, 0.1]], dtype=F8)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


# ---- tangents with samples ---------------------------------------------------------------------


def along(f, x=X):
    return lambda t: jvp(f, (x,), (t,))[1]


FUNCTIONS = {
    "product": lambda x: x.sin() * x.sum(),
    "write": lambda x: x.clone().mul_(x),
    "gradient": lambda x: grad(lambda z: (z * z * x).sin().sum())(x),
    "samples": lambda x: vmap(lambda a: a * x.sum())(x.exp()),
    "tangent": lambda x: jvp(lambda z: z.sin() * x, (x,), (x * 2,))[1],
    "no dependence": lambda x: torch.ones(3, dtype=F8),
    "itself": lambda x: x,
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_many_directions_of_one_point(f):
    want = torch.stack([along(f)(t) for t in DIRECTIONS])
    close(vmap(along(f))(DIRECTIONS), want)
    # Inside another vmap in which the directions are unbatched, and the other way round.
    points = torch.stack([X, X + 0.1])
    both = torch.stack([torch.stack([along(f, x)(t) for x in points]) for t in DIRECTIONS])
    close(vmap(lambda t: vmap(lambda x: along(f, x)(t))(points))(DIRECTIONS), both)
    turned = vmap(lambda x: vmap(along(f, x))(DIRECTIONS), out_dims=1)(points)
    close(turned, both)


def test_a_dual_has_the_samples_of_its_tangent():
    def run(t):
        with fwd.dual_level():
            value, tangent = fwd.unpack_dual(fwd.make_dual(X, t))
            return value * 1, tangent

    values, tangents = vmap(run)(DIRECTIONS)
    close(values, X.expand(2, 3))
    close(tangents, DIRECTIONS)


def test_a_tangent_with_samples_has_the_size_of_the_value():
    with pytest.raises(RuntimeError, match="different size"), fwd.dual_level():
        vmap(lambda t: fwd.make_dual(X[:2], t))(DIRECTIONS)


# ---- Jacobians by forward mode -----------------------------------------------------------------


def write_into_zeros(x):
    z = torch.zeros(3, dtype=F8)
    z[1:] = x[:-1].sin()
    z[0] = x[2] * x[0]
    return z


def branch(x):
    return x.sin() if x.sum() > 0 else x.exp() * x[0]


@pytest.mark.parametrize("f", [write_into_zeros, branch])
def test_jacobians_of_what_vmap_refuses(f):
    close(jacfwd(f)(X), jacrev(f)(X))
    close(hessian(lambda x: f(x).sum())(X), jacrev(jacrev(lambda x: f(x).sum()))(X))


def test_jacfwd_runs_the_function_once():
    calls = []

    def f(x):
        calls.append(tuple(x.shape))
        return x * x.sum()

    close(jacfwd(f)(X), jacrev(lambda x: x * x.sum())(X))
    assert calls == [(3,)]


def test_jacfwd_draws_as_it_is_told():
    def f(x):
        return x * torch.rand(3, dtype=F8)

    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(f)(X)
    torch.manual_seed(3)
    j = jacfwd(f, randomness="same")(X)
    torch.manual_seed(3)
    close(j, torch.diag(torch.rand(3, dtype=F8)))


def test_aux_of_jacfwd_is_that_of_one_evaluation():
    def f(x):
        y = x.sin()
        return y * x, {"y": y, "name": "sine"}

    j, aux = jacfwd(f, has_aux=True)(X)
    close(j, torch.diag(X.sin() + X * X.cos()))
    close(aux["y"], X.sin())
    assert aux["name"] == "sine"
    js, several = vmap(jacfwd(f, has_aux=True), out_dims=(0, {"y": 0, "name": None}))(DIRECTIONS)
    close(js[1], jacfwd(f, has_aux=True)(DIRECTIONS[1])[0])
    close(several["y"], DIRECTIONS.sin())


# ---- new tensors, and writes of ops that are made of others --------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        torch.zeros_like,
        torch.ones_like,
        lambda x: torch.full_like(x, 2.0),
        lambda x: torch.zeros_like(torch.empty_like(x)),
        lambda x: x.new_zeros(2, 2),
        lambda x: x.new_ones((4,)),
        lambda x: x.new_full((2,), 3.0),
        lambda x: x.new_empty(2).fill_(1.0),
        lambda x: x.new_zeros(()),
    ],
)
def test_new_tensors_are_made_for_all_samples(make):
    """They get their own memory, without a loop over the batch, which would warn."""
    got = vmap(make)(DIRECTIONS)
    close(got, torch.stack([make(t) for t in DIRECTIONS]))
    written = vmap(lambda x: make(x).add_(x.sum()))(DIRECTIONS)
    close(written, torch.stack([make(t) + t.sum() for t in DIRECTIONS]))


M = torch.linspace(-1, 1, 12, dtype=F8).reshape(3, 4)
V = torch.linspace(0.2, 1, 4, dtype=F8)
FACTORS = (M.expand(2, 3, 4)[:, :2], M.t().expand(2, 4, 3))
WRITES = {
    "addmv_": lambda x: x.addmv_(M, V * x.sum(), beta=2),
    "addr_": lambda x: x.expand(3, 3).clone().addr_(x.sin(), x),
    "addbmm_": lambda x: x.expand(2, 3).clone().addbmm_(*FACTORS),
    "renorm_": lambda x: x.expand(2, 3).clone().renorm_(2, 0, 0.5),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("recording", [True, False])
def test_writes_of_composed_ops(write, recording):
    def f(x):
        return write(x * 1)

    with torch.set_grad_enabled(recording), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(vmap(f)(DIRECTIONS), torch.stack([f(t) for t in DIRECTIONS]))
        step = 1e-6
        want = (f(X + step * DIRECTIONS[0]) - f(X - step * DIRECTIONS[0])) / (2 * step)
        got = along(f)(DIRECTIONS[0])
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-8)
        close(vmap(along(f))(DIRECTIONS), torch.stack([along(f)(t) for t in DIRECTIONS]))


def test_a_composed_op_cannot_write_samples_into_what_has_none():
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda v: torch.zeros(3, dtype=F8).addmv_(M, v))(M)
