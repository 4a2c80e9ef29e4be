# SPDX-License-Identifier: BSD-3-Clause
"""Differentiable communication: tests/mpi/gradients.py on one, two and four ranks."""

import pytest
from mpi_ranks import needs_mpi, run_ranks


@needs_mpi
@pytest.mark.parametrize("n", [1, 2, 4])
def test_derivatives(n):
    run_ranks(n, "gradients.py")
