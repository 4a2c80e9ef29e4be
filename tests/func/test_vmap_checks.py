# SPDX-License-Identifier: BSD-3-Clause
"""Ops that check their values check those of every sample of a vmap."""

import pytest

import cograd as torch
from cograd import func

GOOD = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
COUNTS = torch.tensor([[1, 2, 3], [1, 1, 1], [1, -1, 1]])
CHECKED = {
    "solve": lambda a: torch.linalg.solve(a, GOOD),
    "inv": torch.linalg.inv,
    "lu_factor": torch.linalg.lu_factor,
    "lu_factor_ex": lambda a: torch.linalg.lu_factor_ex(a, check_errors=True),
    "inv_ex": lambda a: torch.linalg.inv_ex(a, check_errors=True),
    "cholesky": lambda a: torch.linalg.cholesky(a - 0.01 * torch.eye(2, dtype=torch.float64)),
    "matrix_power": lambda a: torch.linalg.matrix_power(a, -1),
}


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("nested", [False, True])
def test_a_singular_matrix_in_any_sample_raises(name, nested):
    f = func.vmap(CHECKED[name])
    for at in range(3):
        batch = torch.stack([SINGULAR if k == at else GOOD for k in range(3)])
        with pytest.raises(torch.linalg.LinAlgError, match=rf"\(Batch element {at}\)"):
            func.vmap(f)(batch[:, None]) if nested else f(batch)
    f(GOOD.expand(3, 2, 2))


def test_weights_of_cov_are_checked_in_every_sample():
    x = torch.rand(3, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="fweights cannot be negative"):
        func.vmap(lambda a, w: torch.cov(a, fweights=w))(x, COUNTS)
    none = torch.tensor([[1.0, 2, 3], [1, 1, 1], [0, 0, 0]], dtype=torch.float64)
    with pytest.raises(RuntimeError, match="weights sum to zero"):
        func.vmap(lambda a, w: torch.cov(a, aweights=w))(x, none)


def test_pivots_are_checked_in_every_sample():
    lu, pivots = torch.ones(2, 2, 2, dtype=torch.float64), torch.tensor([[1, 2], [1, 5]])
    with pytest.raises(RuntimeError, match="pivots must be between 1 and"):
        func.vmap(lambda a, p: torch.lu_unpack(a, p)[0])(lu, pivots.int())


def test_a_region_without_elements_may_begin_anywhere():
    x = torch.zeros(2, 0, 3)
    got = func.vmap(lambda t: torch.as_strided(t, (2, 0), (3, 1), 4))(x)
    assert got.shape == (2, 2, 0)
    with pytest.raises(RuntimeError, match="exceeds the memory of a sample"):
        func.vmap(lambda t: torch.as_strided(t, (2, 1), (3, 1), 4))(torch.zeros(2, 2, 3))
