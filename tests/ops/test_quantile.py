# SPDX-License-Identifier: BSD-3-Clause
"""quantile and nanquantile as functions of their fractions."""

import numpy as np
import pytest

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck

F8 = torch.float64
X = [[1.0, 5.0, 2.0, 9.0], [3.0, 4.0, 7.0, 0.5]]


@pytest.mark.parametrize("f", [torch.quantile, torch.nanquantile])
@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("q", [0.3, [0.3, 0.55, 0.8]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_gradient_with_respect_to_a_tensor_of_fractions(f, dim, q, keepdim):
    x = torch.tensor(X, dtype=F8, requires_grad=True)
    q = torch.tensor(q, dtype=F8, requires_grad=True)
    g = lambda a, b: f(a, b, dim, keepdim)
    assert gradcheck(g, (x, q))
    assert gradgradcheck(g, (x, q))


def test_the_gradient_is_the_step_between_neighbours():
    x = torch.tensor([1.0, 5.0, 2.0], requires_grad=True)
    q = torch.tensor(0.3, requires_grad=True)
    torch.quantile(x, q).backward()
    assert q.grad.item() == pytest.approx(2.0)
    assert x.grad.tolist() == pytest.approx([0.4, 0, 0.6])


def test_rows_shortened_by_nan_have_shorter_steps():
    x = torch.tensor([[1.0, 5, 2], [3, float("nan"), 4]])
    q = torch.tensor([0.3, 0.5], requires_grad=True)
    torch.nanquantile(x, q, dim=1).sum().backward()
    # From 1 to 2 in two steps and from 3 to 4 in one; 0.5 is at the 2 of the first row.
    assert q.grad[0].item() == pytest.approx(2 * 1 + 1)


@pytest.mark.parametrize("interpolation", ["lower", "higher", "midpoint", "nearest"])
def test_steps_have_no_slope(interpolation):
    x = torch.tensor(X, dtype=F8, requires_grad=True)
    q = torch.tensor([0.3, 0.6], dtype=F8, requires_grad=True)
    y = torch.quantile(x, q, dim=1, interpolation=interpolation)
    want = np.quantile(np.array(X), [0.3, 0.6], axis=1, method=interpolation)
    assert np.allclose(y.detach(), want)
    y.sum().backward()
    assert q.grad is None
