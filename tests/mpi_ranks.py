# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs of tests/mpi on several ranks of MPI.

A test file calls `run_ranks(n, "program.py", ...)`, where a program is a plain script. A check
program imports `checks` (tests/mpi/checks.py): its functions named `check_*` run one after the
other on every rank of one launch, because a launch costs half a second.
"""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAMS = Path(__file__).resolve().parent / "mpi"
MPIEXEC = Path(sys.executable).parent / "mpiexec"

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="mpi4py or mpiexec is not installed: pip install 'cograd[mpi]'",
)


class Outcome(NamedTuple):
    """The result of a launch."""

    code: int  # exit code of mpiexec
    out: str
    err: str
    seconds: float
    left: list  # command lines of processes that outlived mpiexec (they were killed)


def launch(n, program, *arguments, env=None):
    """Starts mpiexec with `program` (a file of tests/mpi or a path), in its own session.

    Returns the process and the mark that the environment of all its processes has.
    """
    path = PROGRAMS / program
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "COGRAD_TEST_LAUNCH": _mark(),
        **(env or {}),
    }
    return subprocess.Popen(
        [str(MPIEXEC), "-n", str(n), sys.executable, "-X", "faulthandler", str(path), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ), environment["COGRAD_TEST_LAUNCH"]


def run_ranks(n, program, *arguments, timeout=60, env=None, ok=True):
    """Runs a program on `n` ranks and returns the Outcome.

    Fails the test after `timeout` seconds, and, if `ok` is set, if the exit code is not zero.
    """
    began = time.monotonic()
    process, mark = launch(n, program, *arguments, env=env)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for pid in _marked(mark):
            _kill(pid)
        process.kill()
        out, err = process.communicate()
        pytest.fail(
            f"{program} on {n} ranks still ran after {timeout} s\n{out[-3000:]}{err[-3000:]}"
        )
    outcome = Outcome(process.returncode, out, err, time.monotonic() - began, _outlived(mark))
    assert not outcome.left, f"processes outlived mpiexec: {outcome.left}"
    if ok:
        assert outcome.code == 0, f"{program} on {n} ranks: code {outcome.code}\n{out}\n{err}"
    return outcome


_launches = [0]


def _mark():
    _launches[0] += 1
    return f"{os.getpid()}.{_launches[0]}"


def _marked(mark):
    """Returns the processes of a launch, recognised by their environment."""
    found, text = [], f"COGRAD_TEST_LAUNCH={mark}\0".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if text in (folder / "environ").read_bytes() + b"\0":
                    found.append(int(folder.name))
            except OSError:
                pass
    return found


def _outlived(mark):
    """Returns the processes that are left a moment after mpiexec has ended."""
    end = time.monotonic() + 3
    left = _marked(mark)
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left = _marked(mark)
    lines = []
    for pid in left:
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
        _kill(pid)
    return lines


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def shared_memory():
    """Returns the names of MPI's files in /dev/shm."""
    folder = Path("/dev/shm")
    return {p.name for p in folder.iterdir() if "mpi" in p.name} if folder.is_dir() else set()
