# SPDX-License-Identifier: BSD-3-Clause
"""Python's ``multiprocessing`` with tensors that cross processes by shared memory.

Importing it teaches the queues, pipes and process arguments of ``multiprocessing`` itself to send
tensors without a copy: the receiver sees the sender's memory.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import TYPE_CHECKING

from cograd import _absent
from cograd.multiprocessing import reductions
from cograd.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The names that ``set_sharing_strategy`` takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The name that was set; ``"file_descriptor"`` at first."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Keeps a name for programs that choose one: memory is shared by descriptor under both.

    Nothing is ever given a name in the file system, so nothing can be left there.

    Raises:
        ValueError: another name.
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise ValueError(
            f"set_sharing_strategy(): expected one of {sorted(_STRATEGIES)}, got {new_strategy!r}"
        )
    _strategy = new_strategy


reductions.init_reductions()

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING, annotations
