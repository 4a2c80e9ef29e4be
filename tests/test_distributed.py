# SPDX-License-Identifier: BSD-3-Clause
"""cograd.distributed over MPI: the programs of tests/mpi on one, two and four ranks."""

import pytest
from mpi_ranks import needs_mpi, run_ranks


@needs_mpi
@pytest.mark.parametrize("n", [1, 2, 4])
def test_collectives(n):
    run_ranks(n, "basics.py")
