# SPDX-License-Identifier: BSD-3-Clause
"""python -m cograd torchrun, and launchers of another MPI than mpi4py's."""

import os
import subprocess
import sys

import pytest
from mpi_ranks import needs_mpi

from cograd._base.launcher import library_kind

PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
dist.init_process_group("mpi")
x = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(x)
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
said = [os.environ[n] for n in names]
line = " ".join(["said", *said, str(int(x)), *sys.argv[1:]])
os.write(1, f"{line}\\n".encode())  # at once: the ranks share the stream
"""


def torchrun(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "cograd", "torchrun", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def said(outcome):
    assert outcome.returncode == 0, outcome.stderr
    return sorted(line for line in outcome.stdout.splitlines() if line.startswith("said"))


@needs_mpi
def test_ranks_run_the_program_under_the_alias(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    outcome = torchrun("--nproc-per-node=2", "--standalone", program, "--lr", "1")
    assert said(outcome) == [f"said {r} 2 {r} 127.0.0.1 29500 3 --lr 1" for r in (0, 1)]
    outcome = torchrun(
        "--nproc_per_node",
        "2",
        "--master_port=5",
        "--rdzv_backend=c10d",
        "-m",
        "train",
        PYTHONPATH=str(tmp_path),
    )
    assert said(outcome) == [f"said {r} 2 {r} 127.0.0.1 5 3" for r in (0, 1)]


@needs_mpi
def test_torch_distributed_run_under_the_alias(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    module = ["-m", "torch.distributed.run", "--nproc-per-node=2", str(program)]
    outcome = subprocess.run(
        [sys.executable, "-m", "cograd", "run", *module],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert said(outcome) == [f"said {r} 2 {r} 127.0.0.1 29500 3" for r in (0, 1)]


@needs_mpi
def test_exit_status_and_other_programs(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("raise SystemExit(3)")
    assert torchrun(program).returncode == 3
    outcome = torchrun("--nproc-per-node=2", "--no-python", "echo", "said", "--x")
    assert said(outcome) == ["said --x"] * 2


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--nproc-per-node=0", __file__], "expected a positive number"),
        (["--nproc-per-node=gpu", __file__], "expected a positive number"),
        (["--nnodes=2", __file__], "on this machine only"),
        (["--nnodes=1:4", __file__], "on this machine only"),
        (["no_such_file.py"], "can't open file 'no_such_file.py'"),
        (["-m", "--no-python", "x"], "exclude each other"),
        (["--launcher=no_such_program", __file__], "there is no such program"),
        ([], "the following arguments are required: program"),
    ],
)
def test_mistakes(arguments, text):
    outcome = torchrun(*arguments)
    assert outcome.returncode == 2 and text in outcome.stderr
    assert "Traceback" not in outcome.stderr


@needs_mpi
def test_a_launcher_of_another_mpi_is_named(tmp_path):
    fake = tmp_path / "mpiexec"
    fake.write_text("#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1.4'\n")
    fake.chmod(0o755)
    outcome = torchrun(f"--launcher={fake}", __file__)
    assert outcome.returncode == 2
    assert f"{fake} is the launcher of Open MPI, but mpi4py uses MPICH (MPICH" in outcome.stderr


@needs_mpi
@pytest.mark.parametrize("size", [1, 2])
def test_ranks_that_another_mpi_started(size):
    code = "import cograd.distributed as d; d.init_process_group(); print('said')"
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": str(size)},
    )
    if size == 1:
        assert outcome.stdout == "said\n", outcome.stderr
    else:
        assert "the mpiexec of Open MPI started 2 processes, but mpi4py uses MPICH" in (
            outcome.stderr
        )


def test_kinds():
    assert library_kind("mpirun (Open MPI) 5.0.3") == "Open MPI"
    assert library_kind("HYDRA build details:\n Version: 4.2") == "MPICH"
    assert library_kind("Intel(R) MPI Library for Linux* OS") == "MPICH"
    assert library_kind("srun 23.02") == ""
