# SPDX-License-Identifier: BSD-3-Clause
"""Training over ranks: DistributedDataParallel, ZeRO, SyncBatchNorm, a program for torch."""

import re
import subprocess
import sys

import pytest
from mpi_ranks import MPIEXEC, PROGRAMS, needs_mpi, run_ranks

import cograd as torch
from cograd import nn


@needs_mpi
@pytest.mark.parametrize("n", [2, 4])
def test_data_parallel(n):
    some = ["check_options", "check_unused", "check_join", "check_identical"] if n == 4 else []
    run_ranks(n, "data_parallel.py", *some, timeout=120)


@needs_mpi
@pytest.mark.parametrize("n", [2, 3])
def test_sharded_state_and_synchronised_statistics(n):
    run_ranks(n, "sharded.py", timeout=120)


@needs_mpi
def test_one_rank_does_nothing():
    code = """
import cograd as torch, cograd.distributed as dist
from cograd.nn.parallel import DistributedDataParallel
dist.init_process_group("mpi")
net = torch.nn.Linear(3, 2)
model = DistributedDataParallel(net, find_unused_parameters=True, gradient_as_bucket_view=True)
with model.join(), model.no_sync():
    model(torch.ones(1, 3)).sum().backward()
assert model._reducer is None and net.weight.grad.sum() == 6
assert list(model.state_dict()) == ["module.weight", "module.bias"]
seen = []
def hook(state, bucket):
    seen.append(bucket.index())
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
model.register_comm_hook(None, hook)
model(torch.ones(1, 3)).sum().backward()
assert seen == [0] and net.weight.grad.sum() == 12
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@needs_mpi
@pytest.mark.parametrize("where", ["in a hook", "in backward"])
def test_a_rank_that_raises_stops_the_others(where):
    outcome = run_ranks(2, "raises_in_backward.py", where, ok=False, timeout=60)
    assert outcome.code != 0
    assert outcome.seconds < 40
    assert "ValueError: this rank is ill" in outcome.err
    assert "DistBackendError" in outcome.err  # the other rank reports which one failed


@needs_mpi
@pytest.mark.parametrize("how", ["spawn", "context", "torchrun"])
def test_a_program_that_starts_its_own_ranks(how):
    """The processes that mpiexec started are the ranks."""
    out = run_ranks(2, "spawned_program.py", "2", how).out
    assert sorted(out.splitlines()) == [f"{how} rank {rank} of 2: 1.0" for rank in (0, 1)]


@needs_mpi
def test_processes_that_a_rank_starts_are_no_ranks():
    out = run_ranks(2, "spawned_program.py", "2", "helpers").out
    assert sorted(out.splitlines()) == [f"helper {i} refused" for i in (0, 0, 1, 1)]


@needs_mpi
@pytest.mark.parametrize("how", ["import cograd as torch", "python -m cograd run"])
def test_a_program_written_for_torch(how, tmp_path):
    text = (PROGRAMS / "torch_program.py").read_text(encoding="utf-8")
    if how == "import cograd as torch":
        text = re.sub(r"^import torch$", "import cograd as torch", text, flags=re.M)
        text = re.sub(r"^(import|from) torch\b", r"\1 cograd", text, flags=re.M)
        text = re.sub(r"^import cograd\.", "import cograd.", text, flags=re.M)
        start, launches = [sys.executable], ((2, "gloo"), (4, "mpi"), (1, "gloo"))
    else:
        start, launches = [sys.executable, "-m", "cograd", "run"], ((2, "mpi"),)
    program, saved = tmp_path / "train.py", tmp_path / "state.pt"
    program.write_text(text, encoding="utf-8")
    epochs = {}
    for ranks, backend in launches:  # each launch continues from the previous one
        command = [str(MPIEXEC), "-n", str(ranks), *start, str(program), str(saved), backend]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        epochs.update(re.findall(r"epoch (\d) loss ([\d.]+)", done.stdout))
    assert list(epochs) == list("012345")[: 2 * len(launches)]
    assert float(epochs[max(epochs)]) < float(epochs["0"])


def test_prefixes_of_state_dicts():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = nn.DataParallel(model).state_dict()
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == list(model.state_dict())
    assert list(state._metadata) == list(model.state_dict()._metadata)
    model.load_state_dict(state)


def test_no_process_group():
    with pytest.raises(ValueError, match="init_process_group"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="init_process_group"):
        torch.distributed.optim.ZeroRedundancyOptimizer([torch.ones(1)], torch.optim.SGD, lr=1.0)
