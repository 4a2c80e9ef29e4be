# SPDX-License-Identifier: BSD-3-Clause
"""Differentiable communication: tests/mpi/gradients.py on one, two and four ranks."""

import re
from pathlib import Path

import pytest
from mpi_ranks import needs_mpi, run_ranks

ROOT = Path(__file__).resolve().parents[2]
HEAT = ROOT / "examples" / "heat_equation_mpi.py"
PAGE = ROOT / "docs" / "distributed_gradients.md"


@needs_mpi
@pytest.mark.parametrize("n", [1, 2, 4])
def test_derivatives(n):
    run_ranks(n, "gradients.py")


@needs_mpi
def test_a_rank_that_leaves_out_a_backward_is_named():
    """In debug mode every rank raises, and the message names the call whose backward it is."""
    outcome = run_ranks(
        2, "gradients_mismatch.py", env={"COGRAD_DISTRIBUTED_DEBUG": "1"}, ok=False, timeout=30
    )
    assert outcome.code != 0
    for rank in (0, 1):
        assert f"rank {rank} saw a mismatch" in outcome.out
    for line, number in ((16, 1), (17, 2)):
        assert f"in the backward of AllReduce {number} of [3]" in outcome.out
        assert f"gradients_mismatch.py:{line})" in outcome.out
    assert "ordered()" in outcome.out


def numbers(out):
    return [float(x) for x in re.findall(r"\d+\.\d+", out)]


@needs_mpi
@pytest.mark.skipif(not HEAT.exists(), reason="not run from a source checkout")
def test_heat_equation_is_the_same_for_any_number_of_ranks():
    outs = [run_ranks(n, HEAT, "--iterations", "5").out for n in (1, 2, 4)]
    first, last, measured, found = numbers(outs[0])
    assert last < first / 100
    assert found < 0.95 * measured
    for out in outs[1:]:
        assert numbers(out) == pytest.approx(numbers(outs[0]), rel=1e-8)


@needs_mpi
@pytest.mark.skipif(not PAGE.exists(), reason="not run from a source checkout")
def test_the_page_runs(tmp_path):
    """The listings of the documentation run one after the other, on two ranks."""
    listings = re.findall(r"^```python no-run\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(listings) == 5
    program = tmp_path / "page.py"
    program.write_text("\n".join(listings))
    assert "Warning" not in run_ranks(2, program).err
