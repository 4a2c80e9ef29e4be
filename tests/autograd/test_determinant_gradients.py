# SPDX-License-Identifier: BSD-3-Clause
"""Derivatives of determinants of singular matrices: the determinant is a polynomial."""

from __future__ import annotations

import pytest

import cograd
from cograd.autograd import gradcheck, gradgradcheck
from cograd.func import hessian

DTYPES = (cograd.float64, cograd.complex128)


def of_rank(rank, n, dtype):
    cograd.manual_seed(rank * 10 + n)
    return cograd.randn(n, rank, dtype=dtype) @ cograd.randn(rank, n, dtype=dtype)


MATRICES = {
    "of rank n - 1": lambda t: of_rank(3, 4, t),
    "of rank n - 2": lambda t: of_rank(2, 4, t),
    "zero": lambda t: cograd.zeros(3, 3, dtype=t),
    "with equal singular values": lambda t: cograd.diag(cograd.tensor([1.0, 1.0, 0.0], dtype=t)),
    "beside the identity": lambda t: cograd.stack([cograd.eye(3, dtype=t), of_rank(1, 3, t)]),
    "a number": lambda t: cograd.zeros(1, 1, dtype=t),
    "empty": lambda t: cograd.zeros(0, 0, dtype=t),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRICES)
def test_two_derivatives_of_singular_matrices(name, dtype):
    a = MATRICES[name](dtype).requires_grad_()
    assert gradcheck(cograd.linalg.det, (a,), check_forward_ad=True)
    assert gradgradcheck(cograd.linalg.det, (a,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nearly_singular_matrices_lose_no_digits(dtype):
    a = cograd.diag(cograd.tensor([1.0, 2.0, 3.0, 1e-9], dtype=dtype)).requires_grad_()
    (g,) = cograd.autograd.grad(cograd.linalg.det(a), a, cograd.ones((), dtype=dtype))
    expected = cograd.tensor([6e-9, 3e-9, 2e-9, 6.0], dtype=dtype)
    cograd.testing.assert_close(g.diagonal(), expected, rtol=1e-12, atol=0)


def test_hessian_at_zero():
    h = hessian(cograd.linalg.det)(cograd.zeros(2, 2))
    expected = cograd.zeros(2, 2, 2, 2)
    expected[0, 0, 1, 1] = expected[1, 1, 0, 0] = 1
    expected[0, 1, 1, 0] = expected[1, 0, 0, 1] = -1
    cograd.testing.assert_close(h, expected)
