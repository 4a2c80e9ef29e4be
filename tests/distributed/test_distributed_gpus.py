# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of GPUs between ranks, on fakes of the driver and of NCCL.

The fake NCCL moves bytes between processes. NVIDIA's own needs a GPU for each rank.
"""

import re
import sys
from pathlib import Path

import pytest
from mpi_ranks import needs_mpi, run_ranks

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cuda"))
import fakes

pytestmark = [
    needs_mpi,
    pytest.mark.skipif(fakes.why_not() is not None, reason=str(fakes.why_not())),
]


def variables(tmp_path, **more):
    return {**fakes.environment(TMPDIR=tmp_path, **more), "PYTHONWARNINGS": "ignore"}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_by_nccl(n, tmp_path):
    run_ranks(n, "gpus.py", "nccl", timeout=300, env=variables(tmp_path))
    assert not list(tmp_path.glob("cograd-nccl-*"))  # every communicator has been ended


@pytest.mark.parametrize(
    ("backend", "checks"),
    [
        ("cpu:mpi,cuda:nccl", ("check_names", "check_gathers")),
        ("nccl", ("check_rooted", "check_all_to_all", "check_reduce_scatter")),
    ],
)
def test_by_device_and_in_debug_mode(backend, checks, tmp_path):
    env = variables(tmp_path, COGRAD_DISTRIBUTED_DEBUG=1)
    run_ranks(2, "gpus.py", backend, *checks, timeout=200, env=env)


def test_through_the_host(tmp_path):
    checks = (
        "check_all_reduce check_layouts_and_versions check_rooted check_gathers "
        "check_reduce_scatter check_all_to_all check_messages check_groups check_gradients "
        "check_data_parallel"
    )
    env = variables(tmp_path)
    run_ranks(2, "gpus.py", "mpi", *checks.split(), timeout=300, env=env)


def fault(name, tmp_path, ok=False):
    return run_ranks(2, "gpu_faults.py", name, timeout=100, env=variables(tmp_path), ok=ok)


def test_a_call_fails(tmp_path):
    out = fault("call_fails", tmp_path).out
    for rank in (0, 1):
        assert f"[{rank}]" in out
    assert "nccl:all_reduce: NCCL failed in ncclAllReduce: invalid usage (5)" in out


def test_no_id(tmp_path):
    out = fault("no_id", tmp_path).out
    assert out.count("NCCL failed in ncclGetUniqueId: unhandled system error (2)") == 2


def test_a_failure_afterwards(tmp_path):
    out = fault("fails_later", tmp_path).out
    # The rank that notices first may end the other one before it has said so.
    assert re.search(r"\[[01]\].*NCCL failed in .*: a failure of the fake NCCL \(6\)", out)


def test_nobody_else_comes(tmp_path):
    out = fault("nobody_else_comes", tmp_path).out
    waited = float(re.search(r"\[0\] waited (\S+) s", out)[1])
    assert 0.5 < waited < 15
    assert "waited 2 s (the timeout) in all_reduce(SUM) of [3] cograd.float32" in out
    assert "rank 1: computing" in out


def test_another_rank_raises(tmp_path):
    outcome = fault("another_rank_raises", tmp_path)
    assert outcome.seconds < 30
    assert "rank 1 failed: ValueError: broken on purpose" in outcome.out + outcome.err


def test_different_calls(tmp_path):
    outcome = fault("different_calls", tmp_path)
    assert "ran a different call instead" in outcome.out, outcome


def test_a_fork(tmp_path):
    assert fault("forked", tmp_path, ok=True).out.count("complete") == 2


def end(name, tmp_path, ok=True, **more):
    return run_ranks(2, "gpu_ends.py", name, timeout=100, env=variables(tmp_path, **more), ok=ok)


def test_no_context_on_another_gpu(tmp_path):
    out = end("device_one", tmp_path, FAKE_CUDA_DEVICES=2).out
    assert out.count("contexts: 1\n") == 2


def test_destroyed_with_an_unfinished_call(tmp_path):
    outcome = end("destroyed_early", tmp_path, ok=False)
    waited = float(re.search(r"\[0\] (\S+) s: ", outcome.out)[1])
    assert 0.5 < waited < 5, outcome
    assert "waited 2 s (the timeout) in all_reduce(SUM) of [3] cograd.float32" in outcome.out


def test_ended_without_destroy(tmp_path):
    out = end("not_destroyed", tmp_path).out
    assert out.count("left; finalized False, watched False\n") == 4, out  # of the group and a pair


def test_one_rank_has_no_nccl(tmp_path):
    out = end("one_without", tmp_path).out
    for name in ("new_group", "init_process_group"):
        said = f"said: {name}: Distributed package doesn't have NCCL built in: rank 1: "
        assert out.count(said) == 2, out


def test_the_watch(tmp_path):
    assert end("lost", tmp_path).out.count("complete") == 2
    assert end("again", tmp_path).out.count("complete") == 2
