# SPDX-License-Identifier: BSD-3-Clause
"""``python -m cograd torchrun --nproc-per-node=2 train.py ...``: starts ranks by MPI's launcher.

Accepts torchrun's options. Each rank runs the program as ``python -m cograd run`` does, so both
``import torch`` and ``import cograd`` work in it, and has torchrun's variables (RANK, ...).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cograd._base.launcher import library_kind

__all__ = ["main"]

_PROG = "python -m cograd torchrun"
# Options of torchrun that MPI's launcher answers itself, or that have no effect on one machine.
_IGNORED = (
    "--rdzv-backend",
    "--rdzv-endpoint",
    "--rdzv-id",
    "--rdzv-conf",
    "--max-restarts",
    "--monitor-interval",
    "--start-method",
    "--role",
    "--log-dir",
    "--redirects",
    "--tee",
    "--local-addr",
    "--node-rank",
    "--local-ranks-filter",
)


def _option(parser: argparse.ArgumentParser, name: str, **how: object) -> None:
    names = dict.fromkeys([name, "--" + name[2:].replace("-", "_")])
    parser.add_argument(*names, **how)  # type: ignore[arg-type]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=_PROG, description="Starts ranks by MPI's launcher.")
    _option(parser, "--nproc-per-node", default="1", help="number of ranks; auto or cpu: of cores")
    _option(parser, "--nnodes", default="1", help="1; mpiexec or srun start ranks on more machines")
    _option(parser, "--standalone", action="store_true", help="no effect")
    _option(parser, "--master-addr", default="127.0.0.1", help="the ranks' MASTER_ADDR")
    _option(parser, "--master-port", default="29500", help="the ranks' MASTER_PORT")
    _option(parser, "--launcher", default="", help="the mpiexec to use; default: next to python")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    _option(parser, "--no-python", action="store_true", help="the program is no Python program")
    for name in _IGNORED:
        _option(parser, name, default=None, help=argparse.SUPPRESS)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser


def _ranks(text: str) -> int:
    if text in ("auto", "cpu"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError(f"--nproc-per-node={text}: expected a positive number, auto or cpu")


def _launcher(given: str) -> str:
    """Returns the path of mpiexec: the one given, or that of this environment, or of PATH."""
    if given:
        found = shutil.which(given)
        if found is None:
            raise ValueError(f"--launcher={given}: there is no such program")
        return found
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec") or shutil.which("mpirun")
    if found is None:
        raise ValueError("there is no mpiexec; pip install 'cograd[mpi]' brings one, and mpi4py")
    return found


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _library() -> tuple[str, str]:
    """Returns the kind and the version line of mpi4py's MPI library."""
    code = (
        "import mpi4py; mpi4py.rc.initialize = False\n"
        "from mpi4py import MPI; print(MPI.Get_library_version())"
    )
    text = _output([sys.executable, "-c", code])
    if "ModuleNotFoundError" in text and "mpi4py" in text:
        raise ValueError("mpi4py is not installed; pip install 'cograd[mpi]' brings it")
    line = " ".join(next(iter(text.splitlines()), "").split())
    return library_kind(text), line[:80]


def _options(launcher: str, ranks: int) -> list[str]:
    """Returns the launcher's options; raises ValueError if it is of another MPI than mpi4py's."""
    kind = library_kind(_output([launcher, "--version"]))
    library, version = _library()
    if kind and library and kind != library:
        raise ValueError(
            f"{launcher} is the launcher of {kind}, but mpi4py uses {library} ({version}): every "
            f"rank would be alone. Name the launcher of {library} by --launcher, or install both "
            "anew: pip install --force-reinstall mpi4py mpich"
        )
    options = ["-n", str(ranks)]
    if kind == "Open MPI":  # it refuses more ranks than cores, and root
        options.append("--oversubscribe")
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options.append("--allow-run-as-root")
    return options


def _program(given: argparse.Namespace) -> list[str]:
    if given.no_python:
        return [given.program, *given.arguments]
    module = ["-m"] if given.module else []
    return [sys.executable, "-m", "cograd", "run", *module, given.program, *given.arguments]


def main(arguments: Sequence[str]) -> int:
    """Replaces this process by the launcher; returns only if it cannot be started."""
    given = _parser().parse_args(list(arguments))
    try:
        if given.nnodes not in ("1", "1:1"):
            raise ValueError(
                f"--nnodes={given.nnodes}: it starts ranks on this machine only; start a program "
                "on several machines by mpiexec -hosts a,b -ppn N, or by srun"
            )
        if given.module and given.no_python:
            raise ValueError("-m and --no-python exclude each other")
        if not (given.module or given.no_python or os.path.exists(given.program)):
            raise ValueError(f"can't open file {given.program!r}")
        launcher = _launcher(given.launcher)
        command = [launcher, *_options(launcher, _ranks(given.nproc_per_node)), *_program(given)]
    except ValueError as error:
        print(f"{_PROG}: {error}", file=sys.stderr)
        return 2
    master = {"MASTER_ADDR": given.master_addr, "MASTER_PORT": given.master_port}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(launcher, command, {**os.environ, **master})
