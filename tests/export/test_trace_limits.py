# SPDX-License-Identifier: BSD-3-Clause
"""Checks that a trace raises or warns, with the program's line, at what it cannot record."""

import math

import pytest

import cograd as torch

X = torch.ones(4)


def cube(x):
    return (x**3).sum()


def dual(x):
    ad = torch.autograd.forward_ad
    with ad.dual_level():
        return ad.unpack_dual(ad.make_dual(x, x) ** 3).tangent


GRADIENTS = {
    "grad": lambda x: torch.func.grad(cube)(x),
    "grad_and_value": lambda x: torch.func.grad_and_value(cube)(x)[0],
    "vjp": lambda x: torch.func.vjp(cube, x)[1](x.sum())[0],
    "jvp": lambda x: torch.func.jvp(cube, (x,), (x,))[1],
    "jacrev": lambda x: torch.func.jacrev(cube)(x),
    "jacfwd": lambda x: torch.func.jacfwd(cube)(x),
    "hessian": lambda x: torch.func.hessian(cube)(x),
    "linearize": lambda x: torch.func.linearize(cube, x)[1](x),
    "make_dual": dual,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_refused(name):
    with pytest.raises(RuntimeError, match="a trace cannot record gradients of its own values"):
        torch.jit.trace(GRADIENTS[name], X)
    GRADIENTS[name](X)  # only the trace refuses


def test_traces_can_be_differentiated():
    traced = torch.jit.trace(cube, X)
    assert torch.func.grad(traced)(2 * X).tolist() == [12] * 4
    assert torch.vmap(traced)(torch.ones(2, 3)).tolist() == [3, 3]


def test_vmap_is_refused():
    with pytest.raises(NotImplementedError, match="cannot record vmap; write the function for"):
        torch.jit.trace(lambda x: torch.vmap(torch.sin)(x), X)


def loop(x):
    total = x[0]
    for i in range(1, x.shape[0]):
        total = total + x[i]
    return total


FROZEN = {
    "len": lambda x: x / len(x),
    "int": lambda x: x / int(x.shape[0]),
    "range": loop,
    "sqrt": lambda x: x / math.sqrt(x.shape[0]),
    "tensor": lambda x: x / torch.tensor(x.shape[0]),
    "iter": lambda x: sum(row * 2 for row in x),
    "unbind": lambda x: torch.stack(x.unbind(0)),
    "second axis": lambda x: x / len(x[0]) if x.ndim > 1 else x / len(x),
    "square": lambda x: x / len(x) + (x.mT @ x).sum() if x.ndim > 1 else x / len(x),
}


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize("shape", [(2,), (3, 2)])
def test_sizes_kept_as_numbers_warn(name, shape):
    with pytest.warns(torch.jit.TracerWarning, match="keeps a size .* at .*limits.py") as found:
        torch.jit.trace(FROZEN[name], torch.ones(shape))
    assert found[0].filename == __file__


def test_sizes_of_one_axis_warn():
    weight = torch.ones(3, 2)
    with pytest.warns(torch.jit.TracerWarning, match="keeps a size"):
        torch.jit.trace(lambda x, y: x @ weight / len(y), (torch.ones(3, 3), torch.ones(3)))


def test_sizes_kept_as_formulas_do_not_warn(recwarn):
    traced = torch.jit.trace(lambda x: x.view(x.shape[0] // 2, -1) / x.numel(), torch.ones(2, 4))
    assert traced(torch.ones(4, 4)).tolist() == [[1 / 16] * 8] * 2
    torch.jit.trace(torch.nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8))
    q = torch.jit.trace(lambda x: x.view(3, -1).unbind(0)[1], torch.arange(6.0))
    assert q(torch.arange(3.0)).tolist() == [1]
    assert not recwarn.list


@pytest.mark.filterwarnings("ignore:To copy")
def test_values_warn_with_the_line():
    with pytest.warns(torch.jit.TracerWarning, match="depends on the values .*limits.py") as found:
        torch.jit.trace(lambda x: x * torch.tensor(x.sum()), X)
    assert found[-1].filename == __file__


@pytest.mark.parametrize("name", ["len", "int", "sqrt", "iter"])
def test_sizes_warn_without_checks(name):
    with pytest.warns(torch.jit.TracerWarning, match="plain number of a size") as found:
        torch.jit.trace(FROZEN[name], torch.ones(2), check_trace=False)
    assert found[0].filename == __file__


def test_lengths_of_constants_do_not_warn(recwarn):
    weight = torch.ones(3)
    call = lambda x: x * len(weight * 2) + sum(torch.ones(2) * weight.sum())
    assert torch.jit.trace(call, X, check_trace=False)(X).tolist() == [9] * 4
    assert not recwarn.list
