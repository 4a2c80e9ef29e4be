# SPDX-License-Identifier: BSD-3-Clause
"""Extremes, medians, modes and traces under vmap equal those of a loop, in one call."""

import warnings

import pytest
from op_items import each_cell

import cograd
from cograd import tensor
from cograd.func import grad, jvp, vmap

CALLS = {
    "amax": lambda x: x.amax(),
    "amin dim": lambda x: x.amin(0),
    "amax dims": lambda x: x.amax((0, -1), keepdim=True),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "max dim": lambda x: tuple(x.max(0)),
    "min dim": lambda x: tuple(x.min(-1, keepdim=True)),
    "aminmax": lambda x: tuple(cograd.aminmax(x)),
    "aminmax dim": lambda x: tuple(cograd.aminmax(x, dim=0)),
    "median dim": lambda x: tuple(x.median(0)),
    "nanmedian dim": lambda x: tuple(x.nanmedian(-1)),
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
    "mode": lambda x: tuple(x.mode(0)),
    "trace": lambda x: cograd.trace(x),
}
POSITIONS = {
    "argmax": lambda x: x.argmax(),
    "argmin keepdim": lambda x: x.argmin(keepdim=True),
    "argmax of rows": lambda x: x[0].argmax(keepdim=True),
    "argmin of numbers": lambda x: x[0, 0].argmin(),
}
MATRICES = cograd.tensor(
    [[[1.0, 5, 2], [5, 0, -1]], [[3.0, 3, 3], [2, -4, -4]], [[-7.0, 0.5, 9], [9, 9, 8]]]
)


def looped(f, x, dim=0):
    results = [f(sample) for sample in x.unbind(dim)]
    if isinstance(results[0], tuple):
        return tuple(cograd.stack(parts) for parts in zip(*results))
    return cograd.stack(results)


def same(got, want):
    for a, b in zip(got, want) if isinstance(got, tuple) else [(got, want)]:
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert cograd.equal(a.nan_to_num(-99), b.nan_to_num(-99))


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # loops over the batch warn
        yield


@each_cell("dtype", [cograd.float64, cograd.bfloat16, cograd.int64, cograd.uint8])
@each_cell("f", [*CALLS.values(), *POSITIONS.values()], ids=[*CALLS.keys(), *POSITIONS.keys()])
def test_values(f, dtype):
    x = MATRICES.to(dtype)
    same(vmap(f)(x), looped(f, x))
    moved = x.permute(1, 2, 0)
    same(vmap(f, in_dims=-1)(moved), looped(f, moved, 2))
    twice = cograd.stack([x, x.flip(2)])
    same(vmap(vmap(f))(twice), looped(lambda y: looped(f, y), twice))


@pytest.mark.parametrize("name", ["amax", "max", "min", "median", "max dim", "amin dim"])
def test_wide_unsigned_integers(name):
    x = tensor([[[2**64 - 1, 1], [0, 2**63]], [[7, 7], [2**63 + 1, 3]]], dtype=cograd.uint64)
    got, want = vmap(CALLS[name])(x), looped(CALLS[name], x)
    for a, b in zip(got, want) if isinstance(got, tuple) else [(got, want)]:
        assert a.tolist() == b.tolist()


def first(f):
    def value(x):
        y = f(x)
        return ((y[0] if isinstance(y, tuple) else y) ** 2).sum()

    return value


@pytest.mark.parametrize("f", CALLS.values(), ids=CALLS.keys())
def test_gradients(f):
    x = MATRICES.double()
    same(vmap(grad(first(f)))(x), looped(grad(first(f)), x))
    same(
        vmap(grad(lambda v: grad(first(f))(v).sum()))(x),
        looped(grad(lambda v: grad(first(f))(v).sum()), x),
    )
    tangents = cograd.linspace(-1, 1, x.numel(), dtype=x.dtype).reshape(x.shape)
    got = vmap(lambda v, t: jvp(first(f), (v,), (t,))[1])(x, tangents)
    same(got, cograd.stack([jvp(first(f), (v,), (t,))[1] for v, t in zip(x, tangents)]))
    outside = x.clone().requires_grad_()
    vmap(first(f))(outside).sum().backward()
    same(outside.grad, looped(grad(first(f)), x))


@pytest.mark.parametrize("name", ["max", "min", "amax", "median", "nanmedian"])
def test_ties_and_nan(name):
    nan = float("nan")
    x = tensor([[[1.0, 1], [1, 1]], [[nan, 2], [3, nan]], [[0.0, -0.0], [-1, 0]]])
    f = CALLS[name]
    same(vmap(f)(x), looped(f, x))
    same(vmap(grad(f))(x), looped(grad(f), x))


@pytest.mark.parametrize("name", ["amax", "max", "min", "median", "aminmax"])
def test_samples_without_dims(name):
    x = tensor([3.0, 1.0])
    same(vmap(CALLS[name])(x), looped(CALLS[name], x))
    if name != "aminmax":
        same(vmap(grad(CALLS[name]))(x), tensor([1.0, 1.0]))


@pytest.mark.parametrize("name", ["amax", "max", "min dim", "amax dims"])
def test_extremes_of_nothing_raise(name):
    x = cograd.zeros(3, 0, 0)
    with pytest.raises((RuntimeError, IndexError), match="reduction dim"):
        vmap(CALLS[name])(x)


def test_positions_and_medians_of_nothing():
    x = cograd.zeros(3, 0, 2)
    with pytest.raises(IndexError, match="reduction dim"):
        vmap(POSITIONS["argmax"])(x)
    same(vmap(CALLS["median"])(x), looped(CALLS["median"], x))
    assert vmap(POSITIONS["argmin keepdim"])(cograd.zeros(0, 2, 3)).shape == (0, 1, 1)
    for name in "median", "max":
        assert vmap(CALLS[name])(cograd.zeros(0, 2, 3)).shape == (0,)
        assert vmap(vmap(CALLS[name]))(cograd.zeros(0, 2, 3)).shape == (0, 2)


def test_traces_that_raise():
    warnings.simplefilter("ignore")
    with pytest.raises(RuntimeError, match="matrix"):
        vmap(cograd.trace)(cograd.ones(2, 3))
    with pytest.raises(NotImplementedError, match="trace"):
        vmap(cograd.trace)(cograd.ones(2, 3, 3, dtype=cograd.bool))
