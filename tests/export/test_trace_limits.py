# SPDX-License-Identifier: BSD-3-Clause
"""What a trace cannot record: it raises or warns, with the program's line."""

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
