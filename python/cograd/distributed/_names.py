# SPDX-License-Identifier: BSD-3-Clause
"""Names without behaviour: reductions, backends, debug levels, errors."""

from __future__ import annotations

import enum
import os
from datetime import timedelta
from typing import Any, ClassVar

__all__ = [
    "Backend",
    "DebugLevel",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "ReduceOp",
    "default_pg_timeout",
    "get_debug_level",
    "seconds",
    "set_debug_level",
    "set_debug_level_from_env",
    "supports_complex",
]

default_pg_timeout = timedelta(minutes=30)


def seconds(name: str, timeout: Any) -> float:
    """Returns a timeout as torch takes it: a timedelta, or None for half an hour."""
    if timeout is None:
        return default_pg_timeout.total_seconds()
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"{name}: Expected timeout argument to be of type datetime.timedelta, got {timeout!r}"
        )
    if timeout.total_seconds() <= 0:
        raise ValueError(f"{name}: timeout must be positive, got {timeout!r}")
    return timeout.total_seconds()


class DistError(RuntimeError):
    """Any error of communication."""


class DistBackendError(DistError):
    """A call of MPI failed, timed out, or another rank failed while this one waited for it."""


class DistNetworkError(DistError):
    """The ranks cannot reach each other."""


class DistStoreError(DistError):
    """Kept for handlers written for torch: there is no store here."""


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError):
    _error.__module__ = "cograd.distributed"


class ReduceOp(enum.Enum):
    """How the ranks' values become one.

    ``AVG`` is for floating and complex dtypes, ``BAND``, ``BOR`` and ``BXOR`` for integers and
    bool, ``MIN`` and ``MAX`` for all but complex ones. On bool, ``SUM`` and ``MAX`` mean "any",
    ``PRODUCT`` and ``MIN`` mean "all". ``PREMUL_SUM`` is there to be named and is refused.
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    __hash__ = object.__hash__  # Enum's own is a Python function

    def __str__(self) -> str:
        return f"ReduceOp.{self.name}"


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Returns whether complex tensors can be reduced by this op."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)


class Backend(str):
    """A backend's name in lower case; ``mpi`` is the one that communicates here."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: name must be a str, got {type(name).__name__}")
        return str.__new__(cls, name.lower())


class DebugLevel(enum.Enum):
    """How much is checked: at INFO and DETAIL the ranks compare each collective beforehand."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_LEVELS = {
    "": DebugLevel.OFF,
    "0": DebugLevel.OFF,
    "OFF": DebugLevel.OFF,
    "INFO": DebugLevel.INFO,
    "1": DebugLevel.DETAIL,
    "DETAIL": DebugLevel.DETAIL,
}
_level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """The level in force, read from COGRAD_DISTRIBUTED_DEBUG when the process group is made."""
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Chooses how much is checked, on all ranks alike and between collectives."""
    global _level
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level: expected a DebugLevel, got {type(level).__name__}")
    _level = level


def set_debug_level_from_env() -> None:
    """Reads COGRAD_DISTRIBUTED_DEBUG: 0 or OFF, INFO, 1 or DETAIL; ValueError for another value."""
    value = os.environ.get("COGRAD_DISTRIBUTED_DEBUG", "")
    level = _LEVELS.get(value.upper())
    if level is None:
        raise ValueError(
            f"COGRAD_DISTRIBUTED_DEBUG is {value!r}, expected one of 0, 1, OFF, INFO, DETAIL"
        )
    set_debug_level(level)
