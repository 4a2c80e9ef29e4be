# SPDX-License-Identifier: BSD-3-Clause
"""Misuse of cograd.distributed: every rank raises, none hangs, no memory is corrupted."""

import importlib
import multiprocessing
import sys
import warnings

import pytest
from mpi_ranks import needs_mpi, run_ranks

import cograd as torch
from cograd._base.launcher import rank_variables
from cograd.distributed.elastic.multiprocessing.errors import record
from cograd.multiprocessing import spawn

pytestmark = needs_mpi


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("local_groups_differ", 3),
        ("destroyed_by_all", 2),
        ("other_memory_under_irecv", 2),
        ("memory_that_may_not_be_written", 2),
        ("objects_that_cannot_be_pickled", 2),
        ("one_receive_twice_in_a_batch", 2),
        ("hooks_of_wrong_shapes", 2),
        ("waited_for_by_threads", 2),
        ("forked_with_a_handle", 2),
        ("handles_that_nobody_keeps", 2),
        ("mismatches_within_lists", 2),
        ("parts_are_found", 1),
    ],
)
def test_ends_well(name, n):
    run_ranks(n, "misuse.py", name, timeout=40)


def test_calls_after_the_end():
    outcome = run_ranks(2, "misuse.py", "calls_after_the_end", timeout=40)
    assert outcome.out.split().count("let") == 2 and not outcome.err


def test_children_of_ranks():
    outcome = run_ranks(1, "misuse.py", "children", timeout=40, ok=False)
    assert "if __name__ == '__main__'" in outcome.err and "internal_Init" not in outcome.err


def test_error_whose_text_raises():
    outcome = run_ranks(2, "misuse.py", "error_without_text", timeout=40, ok=False)
    assert outcome.code != 0 and "rank 1 failed: Broken" in outcome.err
    assert "excepthook" not in outcome.err


def test_main_function_of_torchrun():
    assert record(lambda x, y: x + y)(1, y=2) == 3
    assert record(sys.exit)(0) is None
    with pytest.raises(SystemExit):
        record(sys.exit)(3)
    with pytest.raises(ValueError, match="told"):
        record(_raise)()


def test_rank_on_the_machine_under_srun():
    """srun's PMI provides rank and size, but not the rank on the machine."""
    srun = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"}
    want = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
    assert rank_variables(srun) == want
    assert rank_variables({**srun, "PMI_RANK": "5", "PMI_SIZE": "8"}) == want
    started = {**srun, "PMI_RANK": "2", "PMI_SIZE": "4"}  # mpiexec in a job: srun's are its own
    assert rank_variables(started) == {"RANK": "2", "WORLD_SIZE": "4"}
    started["MPI_LOCALRANKID"] = "3"
    assert rank_variables(started)["LOCAL_RANK"] == "3"


def test_what_each_rank_has_for_itself(monkeypatch):
    module = importlib.import_module("cograd.multiprocessing.spawn")
    monkeypatch.setattr(module, "_is_rank", lambda nprocs: True)
    shared, queue = torch.zeros(1).share_memory_(), multiprocessing.SimpleQueue()
    for value in (shared, queue):
        with pytest.warns(UserWarning, match="each has made its own"):
            spawn(lambda rank, *args: None, (1, value), nprocs=2)
    with warnings.catch_warnings(action="error"):
        spawn(lambda rank, *args: None, (1, torch.zeros(1)), nprocs=2)


def _raise():
    raise ValueError("told")


def test_damaged_checkpoint(tmp_path):
    run_ranks(2, "misuse.py", "damaged_checkpoint", str(tmp_path), timeout=40)


def test_a_rank_raises_before_it_starts_mpi():
    outcome = run_ranks(2, "misuse.py", "never_begins", timeout=30, ok=False)
    assert outcome.code != 0 and "in init_process_group" in outcome.err


def test_group_of_which_a_member_never_comes():
    outcome = run_ranks(2, "misuse.py", "local_group_without_a_member", timeout=30, ok=False)
    assert outcome.code != 0 and "in new_group(0,1)" in outcome.err


def test_mpi_fails_in_a_handle():
    outcome = run_ranks(2, "misuse.py", "irecv_of_too_much", timeout=30, ok=False)
    assert outcome.code != 0 and "told" in outcome.out and "Traceback" not in outcome.err
