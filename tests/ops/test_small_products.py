# SPDX-License-Identifier: BSD-3-Clause
"""Products of small matrices: every edge of the register tiles, and rows and columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cograd as torch

SIZES = (1, 2, 5, 8, 12, 13, 16, 17, 31, 32, 33, 50, 64, 65)
LAYOUT_PAIRS = list(itertools.product(("plain", "transposed", "window"), repeat=2))


def operand(rows, cols, dtype, layout, seed):
    """Returns a matrix in that layout: contiguous, transposed, or a window of a larger one."""
    generator = np.random.default_rng(seed)
    if layout == "transposed":
        values = generator.standard_normal((cols, rows)).astype(dtype)
        return torch.from_numpy(values).t(), values.T
    if layout == "window":
        values = generator.standard_normal((rows + 2, cols + 5)).astype(dtype)
        return torch.from_numpy(values)[1:-1, 2 : cols + 2], values[1:-1, 2 : cols + 2]
    values = generator.standard_normal((rows, cols)).astype(dtype)
    return torch.from_numpy(values), values


def check(got, expected, depth):
    assert got.dtype == torch.from_numpy(expected[:0]).dtype
    eps = np.finfo(expected.dtype).eps
    np.testing.assert_allclose(got.numpy(), expected, rtol=20 * eps, atol=20 * eps * depth**0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layouts", LAYOUT_PAIRS)
def test_all_edges(dtype, layouts):
    for seed, (m, n) in enumerate(itertools.product(SIZES, repeat=2)):
        k = SIZES[(seed * 5) % len(SIZES)]
        a, na = operand(m, k, dtype, layouts[0], seed)
        b, nb = operand(k, n, dtype, layouts[1], seed + 1)
        check(a @ b, (na.astype("float64") @ nb.astype("float64")).astype(dtype), k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
def test_depth_of_several_panels(dtype, transposed):
    for k in (255, 256, 257, 600):
        a, na = operand(19, k, dtype, "plain", k)
        b, nb = operand(k, 37, dtype, "transposed" if transposed else "plain", k + 1)
        check(a @ b, (na.astype("float64") @ nb.astype("float64")).astype(dtype), k)


@pytest.mark.parametrize("m, n", [(9, 40), (9, 11), (1, 40), (40, 1)])
@pytest.mark.parametrize("alpha, beta", [(1, 1), (2, 0), (-1, 0.5), (0, 2)])
def test_alpha_and_beta(m, n, alpha, beta):
    a, na = operand(m, 300, "float64", "plain", 1)
    b, nb = operand(300, n, "float64", "transposed", 2)
    c, nc = operand(m, n, "float64", "plain", 3)
    check(torch.addmm(c, a, b, alpha=alpha, beta=beta), alpha * (na @ nb) + beta * nc, 300)


@pytest.mark.parametrize("m, n", [(9, 40), (9, 11), (1, 40), (40, 1)])
def test_what_is_overwritten_is_not_read(m, n):
    a, b = torch.ones(m, 20), torch.ones(20, n)
    out = torch.full((m, n), float("nan"))
    torch.mm(a, b, out=out)
    assert (out == 20).all()
    assert (torch.addmm(torch.full((m, n), float("nan")), a, b, beta=0) == 20).all()


def test_infinities_stay_in_their_columns():
    b = torch.ones(4, 11)
    b[0, 10] = float("inf")
    got = torch.ones(3, 4) @ b
    assert (got[:, :10] == 4).all() and got[:, 10].isinf().all()


@pytest.mark.parametrize("m, n", [(1, 33), (33, 1), (1, 1)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_rows_and_columns(m, n, dtype):
    real = "float32" if dtype == "complex64" else "float64"
    for la, lb in LAYOUT_PAIRS:
        a, na = operand(m, 20, real, la, 1)
        b, nb = operand(20, n, real, lb, 2)
        got = (a.to(getattr(torch, dtype)) * 1j) @ b.to(getattr(torch, dtype))
        np.testing.assert_allclose(got.numpy(), (na @ nb) * 1j, rtol=1e-4, atol=1e-4)


def test_batches_of_rows():
    a, na = operand(6, 20, "float32", "plain", 1)
    b, nb = operand(20, 30, "float32", "plain", 2)
    got = torch.bmm(a[:, None], b.expand(6, 20, 30))
    check(got[:, 0], (na.astype("float64") @ nb.astype("float64")).astype("float32"), 20)
