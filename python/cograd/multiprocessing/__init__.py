# SPDX-License-Identifier: BSD-3-Clause
"""Python's ``multiprocessing`` with tensors in shared memory.

Importing this module makes queues, pipes and process arguments of ``multiprocessing`` itself send
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
    """Returns the names that ``set_sharing_strategy`` accepts."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Returns the name that was set; ``"file_descriptor"`` at first."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Stores a name, which has no effect: memory is always shared by descriptor.

    Shared memory never has a name in the file system, so it cannot be left there.

    Raises:
        ValueError: the name is unknown.
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
