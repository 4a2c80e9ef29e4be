# SPDX-License-Identifier: BSD-3-Clause
"""distributed.checkpoint: other numbers of ranks read, and ranks die while writing."""

import importlib.util
import os

import pytest
from mpi_ranks import needs_mpi, run_ranks

import cograd as torch
from cograd.distributed import checkpoint as dcp

ACROSS = ("load", "check_saved_and_loaded", "check_training_goes_on")


@needs_mpi
def test_saved_by_one_number_of_ranks_and_loaded_by_another(tmp_path):
    run_ranks(2, "checkpoint.py", tmp_path)
    run_ranks(3, "checkpoint.py", tmp_path, *ACROSS)
    run_ranks(1, "checkpoint.py", tmp_path, *ACROSS)


@needs_mpi
@pytest.mark.skipif(
    importlib.util.find_spec("cograd.distributed.optim") is None,
    reason="ZeroRedundancyOptimizer is not there",
)
def test_state_of_a_zero_redundancy_optimizer(tmp_path):
    run_ranks(2, "checkpoint.py", tmp_path, "zero", "check_training_goes_on")
    run_ranks(4, "checkpoint.py", tmp_path, "zero", *ACROSS[::2])
    run_ranks(1, "checkpoint.py", tmp_path, *ACROSS[::2])


@needs_mpi
@pytest.mark.parametrize(
    "stage", ["in the shard", "after the shard", "in the index", "after the index"]
)
def test_killed_while_saving(tmp_path, stage):
    """The previous checkpoint is intact; once the index is written, the new one is."""
    import cograd.distributed.checkpoint as dcp

    outcome = run_ranks(2, "checkpoint_crash.py", tmp_path / "run", stage, ok=False)
    assert outcome.code != 0
    state = {"rows": torch.zeros(4), "step": 0}
    dcp.load(state, checkpoint_id=tmp_path / "run")
    step = 2 if stage == "after the index" else 1
    assert state["step"] == step
    assert state["rows"].tolist() == [step] * 4
    dcp.save(state, checkpoint_id=tmp_path / "run")
    assert len(os.listdir(tmp_path / "run")) == 2  # what the crash left is removed


def test_saved_again_while_it_is_read(tmp_path):
    """The files of the old index are removed meanwhile, so those of the new one are read."""
    state = {"a": torch.zeros(3)}
    dcp.save({"a": torch.ones(3)}, checkpoint_id=tmp_path)

    class Slow(dcp.FileSystemReader):
        times = 0

        def read_index(self):
            index = super().read_index()
            self.times += 1
            if self.times < 3:
                dcp.save({"a": torch.full((3,), 1.0 + self.times)}, checkpoint_id=self.path)
            return index

    dcp.load(state, storage_reader=Slow(tmp_path))
    assert state["a"].tolist() == [3.0] * 3
    os.unlink(next(tmp_path.glob("shard-*")))
    with pytest.raises(dcp.CheckpointException, match="cannot be read"):
        dcp.load(state, checkpoint_id=tmp_path)
