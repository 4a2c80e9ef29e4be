# SPDX-License-Identifier: BSD-3-Clause
"""Enums, error classes and names without behaviour: reductions, backends, debug levels."""

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
    """Converts a timeout, a timedelta or None for half an hour, to seconds."""
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
    """Base class of all communication errors."""


class DistBackendError(DistError):
    """Raised if a call of MPI fails or times out, or if another rank fails while this one waits."""


class DistNetworkError(DistError):
    """Raised if the ranks cannot reach each other."""


class DistStoreError(DistError):
    """Exists for handlers written for torch: there is no store here."""


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError):
    _error.__module__ = "cograd.distributed"


class ReduceOp(enum.Enum):
    """The operation that reduces the ranks' values to one.

    ``AVG`` supports floating and complex dtypes, ``BAND``, ``BOR`` and ``BXOR`` integers and bool,
    ``MIN`` and ``MAX`` all but complex dtypes. On bool, ``SUM`` and ``MAX`` mean "any", ``PRODUCT``
    and ``MIN`` mean "all". ``PREMUL_SUM`` exists only as a name; using it raises.
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

    __hash__ = object.__hash__  # Enum's own is a slow Python function

    def __str__(self) -> str:
        return f"ReduceOp.{self.name}"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # torch's type of the members


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Returns whether this op can reduce complex tensors."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT)


class Backend(str):
    """A backend's name in lower case; ``mpi`` is the only one that communicates here."""

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
    """Returns the debug level, read from COGRAD_DISTRIBUTED_DEBUG at group creation."""
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Sets the debug level; call it on all ranks alike and between collectives."""
    global _level
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level: expected a DebugLevel, got {type(level).__name__}")
    _level = level


def set_debug_level_from_env() -> None:
    """Sets the debug level from COGRAD_DISTRIBUTED_DEBUG: 0 or OFF, INFO, 1 or DETAIL."""
    value = os.environ.get("COGRAD_DISTRIBUTED_DEBUG", "")
    level = _LEVELS.get(value.upper())
    if level is None:
        raise ValueError(
            f"COGRAD_DISTRIBUTED_DEBUG is {value!r}, expected one of 0, 1, OFF, INFO, DETAIL"
        )
    set_debug_level(level)
