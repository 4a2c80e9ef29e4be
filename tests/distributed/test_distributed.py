# SPDX-License-Identifier: BSD-3-Clause
"""cograd.distributed over MPI: the programs of tests/mpi on one, two and four ranks."""

import re
import subprocess
import sys

import pytest
from mpi_ranks import needs_mpi, run_ranks

import cograd as torch

pytestmark = needs_mpi


@pytest.mark.parametrize("n", [1, 2, 4])
def test_collectives(n):
    run_ranks(n, "basics.py")


def fault(name, n=2, ok=False, **env):
    """Returns the ranks' output; each line of an error follows its rank."""
    outcome = run_ranks(n, "faults.py", name, timeout=40, env=env, ok=ok)
    assert ok or outcome.code != 0, outcome
    return outcome


def test_a_rank_raises():
    outcome = fault("raises", 3)
    assert outcome.seconds < 12
    for rank in (0, 2):
        assert re.search(
            rf"DistBackendError: rank {rank} in all_reduce\(SUM\) of \[3\] cograd.float32 at "
            r"\S+faults.py:\d+ \(group default\)(, call 1)?: rank 1 failed: ValueError: broken on "
            r"purpose at \S+faults.py:\d+",
            outcome.err,
        )


def test_a_rank_raises_while_another_computes():
    assert fault("computes_while_another_raises").seconds < 15


def test_a_rank_is_killed_in_backward():
    outcome = fault("killed_in_backward", 3)
    assert outcome.seconds < 10 and outcome.code in (9, 137, 247)


def test_a_hook_raises():
    assert "rank 1 failed: ValueError: broken in a hook" in fault("raises_in_a_hook").err


def test_a_rank_is_interrupted():
    outcome = fault("interrupted", 3)
    assert "KeyboardInterrupt" in outcome.err and "rank 1 failed: KeyboardInterrupt" in outcome.err


def test_a_rank_ends_early():
    outcome = fault("ends_early")
    assert "but rank 1 has ended its program" in outcome.err and outcome.seconds < 15


def test_timeout():
    """Both ranks raise, and report what each was doing."""
    out = fault("times_out").out
    assert re.search(r"\[0\] after \S+ s: rank 0 waited 1.5 s \(the timeout\) in all_reduce", out)
    assert re.search(
        r"rank 0: in all_reduce\(SUM\) of \[3, 2\] cograd.float32 at \S+:\d+ .*call 2", out
    )
    assert re.search(r"rank 1: computing for \S+ s; the last call was barrier at \S+:\d+", out)
    assert re.search(
        r"\[1\] after \S+ s: rank 1 in all_reduce.*: rank 0 failed: rank 0 waited 1.5 s", out
    )
    assert out.count("communication has failed before in barrier at") == 2


@pytest.mark.parametrize("n", [2, 3])
def test_different_calls_are_seen(n):
    """Ranks of one machine see each other's calls, so no rank waits for the timeout."""
    for name in ("different_calls", "calls_look_alike"):
        outcome = fault(name, n)
        found = re.findall(r"\[(\d)\] after \S+ s: .*ran a different call instead", outcome.out)
        assert found and "[1] after" in outcome.out and "[0] after" in outcome.out, outcome
        assert re.search(r"rank 0: .*all_reduce\(SUM\) of \[\d\] cograd.float32 at", outcome.out)


def test_different_calls_time_out():
    """Machines share no memory, so records are read by one-sided MPI."""
    out = fault("different_calls", COGRAD_DISTRIBUTED_TEST_NODES="1").out
    assert "[0] after" in out and "[1] after" in out
    assert "rank 0: in all_reduce(SUM) of [3]" in out
    assert "rank 1: in broadcast(src=0) of [2]" in out


def test_message_larger_than_the_tensor():
    out = fault("sends_too_much").out
    assert "rank 0: MPI failed in recv(src=1, tag=0) of [3]" in out and "truncated" in out
    assert "[1] after" in out


def test_nobody_receives():
    assert "in send(dst=1, tag=0) of [1000000] cograd.float32" in fault("nobody_receives").out


def test_monitored_barrier():
    out = fault("missing_at_barrier", 3).out
    assert "monitored_barrier: rank 1 did not come within 0.5 s" in out
    assert "[2] after" in out and "[1] after" in out


def test_handle_that_times_out_can_be_waited_for_again():
    out = fault("handle_times_out", ok=True).out
    assert re.search(r"\[0\] after \S+ s", out) and out.count("complete") == 2


@pytest.mark.parametrize("n", [2, 4])
def test_debug_mode(n):
    out = fault("debug", n, ok=True, COGRAD_DISTRIBUTED_DEBUG="1").out
    assert out.count("goes on") == n
    for name in ("op", "shape", "dtype", "reduction", "root"):
        for rank in range(n):
            assert f"[{rank}] {name}: the ranks of group default are about to run" in out
    assert re.search(r"rank 0 is at \S+faults.py:\d+, rank 1 at \S+faults.py:\d+", out)


def test_debug_mode_passes_what_agrees():
    checks = ("check_empty", "check_groups", "check_gather_and_scatter", "check_objects")
    run_ranks(2, "basics.py", *checks, env={"COGRAD_DISTRIBUTED_DEBUG": "1"})


def test_fork_and_workers():
    assert fault("forked", ok=True).out.count("complete") == 2


def test_workers_end_with_a_killed_rank():
    assert fault("killed_with_workers").seconds < 15


def test_no_names_of_shared_memory_are_left():
    fault("segments", ok=True)


def python(code, **env):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_without_mpi4py():
    done = python(
        "import sys; sys.modules['mpi4py'] = None\n"
        "import cograd.distributed as dist\n"
        "assert not dist.is_initialized()\n"
        "try: dist.init_process_group()\n"
        "except ImportError as e: print(e)\n"
    )
    assert "pip install 'cograd[mpi]'" in done.stdout, done.stderr


def test_without_an_mpi_library():
    """The message begins with what to do; the paths that mpi4py searched may take many lines."""
    done = python(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mpi4py.MPI': raise ImportError('no libmpi.so.12')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import cograd.distributed as dist\n"
        "for options in ({}, {'backend': 'nccl'}):\n"
        "    try: dist.init_process_group(**options)\n"
        "    except (ImportError, RuntimeError) as e: print(e)\n"
    )
    first, said, backend = done.stdout.splitlines()
    assert "install one by pip install 'cograd[mpi]'" in first and "libmpi" not in first
    assert said == "mpi4py said: no libmpi.so.12"
    assert "doesn't have NCCL built in" in backend and "use 'mpi'" in backend


def test_thread_level_is_checked():
    done = python(
        "import mpi4py; mpi4py.rc.thread_level = 'single'\n"
        "from mpi4py import MPI\n"
        "import cograd.distributed as dist\n"
        "try: dist.init_process_group()\n"
        "except RuntimeError as e: print(e)\n"
    )
    assert "MPI_THREAD_MULTIPLE" in done.stdout, done.stderr


def test_import_is_lazy():
    done = python("import sys, cograd.distributed; print('mpi4py' in sys.modules)")
    assert done.stdout.strip() == "False", done.stderr


def test_before_it_is_initialized():
    dist = torch.distributed
    assert dist.is_available() and dist.is_mpi_available() and not dist.is_initialized()
    assert not dist.is_nccl_available() and not dist.is_torchelastic_launched()
    for call in (
        dist.get_rank,
        dist.barrier,
        lambda: dist.all_reduce(torch.ones(1)),
        lambda: dist.new_group([0]),
        dist.destroy_process_group,
    ):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
    assert dist.group.WORLD is None and dist.Backend("MPI") == "mpi"
    assert str(dist.ReduceOp.SUM) == "ReduceOp.SUM"
    with pytest.raises(ImportError, match="are not offered"):
        from cograd.distributed import rpc  # noqa: F401
