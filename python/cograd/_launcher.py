# SPDX-License-Identifier: BSD-3-Clause
"""What an MPI launcher tells its processes through the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["announce", "position", "rank_variables"]

# (rank, size, rank on the machine, ranks on the machine): mpich and its kin, Open MPI, srun.
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
    """Torchrun's variables as the launcher's say them; empty where there is no launcher."""
    for names in _LAUNCHERS:
        found = [environment.get(name, "") for name in names]
        if found[0].isdecimal() and found[1].isdecimal():
            said = {name: v for name, v in zip(_NAMES, found, strict=True) if v.isdecimal()}
            return {**_on_machine(environment), **said}
    return {}


def _on_machine(environment: Mapping[str, str]) -> dict[str, str]:
    """Srun's rank on the machine, which its PMI does not say."""
    local, of = environment.get("SLURM_LOCALID", ""), environment.get("SLURM_PROCID", "")
    same = of == environment.get("PMI_RANK", of)  # not those of srun that started mpiexec
    return {"LOCAL_RANK": local} if same and local.isdecimal() else {}


def position() -> tuple[int, int] | None:
    """(rank, size) of this process among those of its launcher; None where there is none."""
    found = rank_variables(os.environ)
    return (int(found["RANK"]), int(found["WORLD_SIZE"])) if found else None


def announce() -> None:
    """Sets torchrun's variables for programs that read them; those that are set stay."""
    for name, value in rank_variables(os.environ).items():
        os.environ.setdefault(name, value)
