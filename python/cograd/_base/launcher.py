# SPDX-License-Identifier: BSD-3-Clause
"""Reads rank and size from the environment variables of MPI launchers."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["announce", "library_kind", "position", "rank_variables", "started_by"]

# (rank, size, local rank, local size) of: mpich and its derivatives, Open MPI, srun.
_LAUNCHERS = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
)
_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def rank_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns torchrun's variables with the launcher's values; empty if there is no launcher."""
    for names in _LAUNCHERS:
        found = [environment.get(name, "") for name in names]
        if found[0].isdecimal() and found[1].isdecimal():
            said = {name: v for name, v in zip(_NAMES, found, strict=True) if v.isdecimal()}
            return {**_on_machine(environment), **said}
    return {}


def _on_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns srun's local rank, which its PMI does not set."""
    local, of = environment.get("SLURM_LOCALID", ""), environment.get("SLURM_PROCID", "")
    same = of == environment.get("PMI_RANK", of)  # False in an mpiexec that srun started
    return {"LOCAL_RANK": local} if same and local.isdecimal() else {}


def position() -> tuple[int, int] | None:
    """Returns (rank, size) of this process in its launcher's job; None without a launcher."""
    found = rank_variables(os.environ)
    return (int(found["RANK"]), int(found["WORLD_SIZE"])) if found else None


def library_kind(text: str) -> str:
    """Returns "MPICH" or "Open MPI" for what a library or launcher says of itself, or "".

    Libraries with MPICH's interface, such as Intel's, start each other's ranks.
    """
    if any(name in text for name in ("Open MPI", "OpenRTE", "Open RTE", "PRRTE")):
        return "Open MPI"
    if any(name in text for name in ("MPICH", "HYDRA", "MVAPICH", "Intel(R) MPI")):
        return "MPICH"
    return ""


def started_by() -> tuple[str, int]:
    """Returns the kind of mpiexec that started this process, and its number of ranks."""
    for kind, size in (("Open MPI", "OMPI_COMM_WORLD_SIZE"), ("MPICH", "PMI_SIZE")):
        text = os.environ.get(size, "")
        if text.isdecimal():
            return kind, int(text)
    return "", 1


def announce() -> None:
    """Sets torchrun's variables for programs that read them; keeps those that are already set."""
    for name, value in rank_variables(os.environ).items():
        os.environ.setdefault(name, value)
