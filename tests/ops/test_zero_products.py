# SPDX-License-Identifier: BSD-3-Clause
"""Products of elements some of which are zero: every derivative is that of a polynomial."""

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
INDEX = [0, 1, 0, 0, 1, 2, 0]


def scatter(x, start, include_self=True):
    return torch.scatter_reduce(start, 0, torch.tensor(INDEX), x, "prod", include_self=include_self)


def index(x, start, include_self=True):
    return torch.index_reduce(start, 0, torch.tensor(INDEX), x, "prod", include_self=include_self)


def by_hand(x, start, include_self=True):
    rows = []
    for slot in range(4):
        factors = [x[i] for i in range(7) if INDEX[i] == slot]
        y = start[slot] if include_self or not factors else torch.ones((), dtype=F8)
        for f in factors:
            y = y * f
        rows.append(y)
    return torch.stack(rows)


VALUES = {
    "two zeros": [0.0, 2.0, 3.0, 0.0, 5.0, 7.0, 11.0],
    "three zeros": [0.0, 2.0, 0.0, 0.0, 5.0, 7.0, 11.0],
    "two slots": [0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 11.0],
    "one zero": [0.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0],
    "none": [1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0],
}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("f", [scatter, index])
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("start", [[2.0, 3.0, 4.0, 5.0], [0.0, 3.0, 0.0, 5.0]])
def test_reduced_products_have_right_derivatives_to_third_order(f, values, start, include_self):
    def derivatives(g):
        x = torch.tensor(values, dtype=F8, requires_grad=True)
        s = torch.tensor(start, dtype=F8, requires_grad=True)
        y = (g(x, s, include_self) * torch.arange(1.0, 5.0, dtype=F8)).sum()
        result = [y.detach()]
        for _ in range(3):
            gx, gs = torch.autograd.grad(y, (x, s), create_graph=True, allow_unused=True)
            gs = torch.zeros_like(s) if gs is None else gs
            result += [gx.detach(), gs.detach()]
            weights = torch.arange(1.0, 8.0, dtype=F8).sqrt()
            y = (gx * weights).sum() + (gs * torch.tensor([1.0, 3, 2, 5], dtype=F8)).sum()
            if not y.requires_grad:
                break
        return result

    got, want = derivatives(f), derivatives(by_hand)
    for a, b in zip(got, want, strict=False):
        assert np.allclose(a, b), (a, b)
    assert len(got) >= 5


def test_two_zeros_in_a_matrix_along_either_dim():
    x = torch.tensor([[0.0, 2, 0], [3, 0, 0], [0, 0, 4]], dtype=F8, requires_grad=True)
    at = torch.tensor([[0, 0, 1], [0, 1, 1], [1, 1, 0]])
    start = torch.full((3, 3), 2.0, dtype=F8, requires_grad=True)
    for dim in (0, 1):
        f = lambda t, s, d=dim: torch.scatter_reduce(s, d, at, t, "prod")
        assert gradcheck(f, (x, start))
        assert gradgradcheck(f, (x, start))


@pytest.mark.parametrize("f", [lambda x: x.prod(), lambda x: x.prod(0), lambda x: x.cumprod(0)])
@pytest.mark.parametrize("values", [[0.0, 0.0, 2.0], [0.0, 3.0, 0.0, 0.0]])
def test_prod_and_cumprod_too(f, values):
    x = torch.tensor(values, dtype=F8, requires_grad=True)
    assert gradcheck(f, (x,))
    assert gradgradcheck(f, (x,))
