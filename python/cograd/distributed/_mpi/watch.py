# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for MPI: polling that stays interruptible, sees timeouts and the failures of others."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from cograd.distributed._mpi.board import LEFT
from cograd.distributed._names import DistBackendError

if TYPE_CHECKING:
    from cograd.distributed._mpi.group import ProcessGroup
    from cograd.distributed._mpi.runtime import Runtime

__all__ = ["call_site", "complete", "describe", "origin", "place", "poll"]

_SPIN = 150  # tests before the first look at the clock: about 30 microseconds
_YIELD = 5e-3  # seconds of yielding before sleeps begin, for messages of no size
_NAP, _SHORT_NAP = 1e-3, 1e-4  # the longest sleeps: for small messages, for large ones
_LARGE = 1 << 20  # bytes
_SLOWEST = 2e8  # bytes per second of the slowest transfer that shall see no sleeps
_LEFT_GRACE = 2.0  # seconds after which a rank that ended is not waited for
_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))
_inside: dict[str, bool] = {}
# What a call is made for, such as a backward: ``text``, and ``what`` that all ranks agree on.
origin = threading.local()


def place(depth: int = 1) -> tuple[str, int, str]:
    """File and line of the user's code that called into cograd, and what for.

    ``depth``: how many callers are surely cograd's own; looking at each costs time.
    """
    try:
        frame: FrameType | None = sys._getframe(depth)
    except ValueError:  # called by C++, as a hook of a backward thread is
        frame = None
    while frame is not None:
        file = frame.f_code.co_filename
        own = _inside.get(file)
        if own is None:
            own = _inside[file] = os.path.abspath(file).startswith(_PACKAGE)
        if not own:
            return file, frame.f_lineno, getattr(origin, "text", "")
        frame = frame.f_back
    return "?", 0, getattr(origin, "text", "")


def call_site() -> str:
    """Returns the same as text."""
    file, line, text = place()
    return f"{file}:{line}{text}"


def describe(text: str, shape: Sequence[int] | None, dtype: object, site: str) -> str:
    """Returns a call in one line."""
    tensor = "" if shape is None else f" of {list(shape)} {dtype}"
    return f"{text}{tensor} at {site}"


def poll(
    test: Callable[[], bool],
    runtime: Runtime,
    group: ProcessGroup,
    text: Callable[[], str],
    *,
    timeout: float,
    nbytes: int = 0,
    started: float | None = None,
    peers: list[int] | None = None,
    fatal: bool = True,
    look: Callable[[], None] | None = None,
) -> None:
    """Calls ``test`` until it is true.

    Spins first, then yields the core (longer for larger messages: MPI moves data in ``test``),
    then sleeps in small steps. Raises DistBackendError after ``timeout`` seconds from ``started``,
    or when another rank has failed, or when one of ``peers`` (all members if None) has ended.
    ``look`` is called now and then.
    """
    for _ in range(_SPIN):
        if test():
            return
    clock = time.monotonic
    began = clock()
    deadline = (began if started is None else started) + timeout
    yield_until = began + _YIELD + nbytes / _SLOWEST
    pause, next_look = 2e-5, began
    longest = _NAP if nbytes < _LARGE else _SHORT_NAP
    alarm = runtime.board.alarm
    while not test():
        now = clock()
        if alarm[0]:
            runtime.fail_with_others(f" in {text()}")
        if now > deadline:
            _expired(runtime, group, text(), timeout, fatal)
        if now < yield_until:
            _yield()
            continue
        if now > next_look:
            next_look = now + 0.1
            if look is not None:
                look()
            if now - began > _LEFT_GRACE:
                _look_for_ended(runtime, group, text, peers)
        time.sleep(pause)
        pause = min(pause * 1.5, longest)


def complete(
    requests: list[Any],
    keep: Any,
    runtime: Runtime,
    group: ProcessGroup,
    text: Callable[[], str],
    **options: Any,
) -> None:
    """``poll`` until requests of MPI are complete; one that fails keeps its memory.

    ``keep``: what MPI reads and writes; ``options``: those of ``poll``.
    """
    try:
        poll(lambda: runtime.MPI.Request.Testall(requests), runtime, group, text, **options)
    except BaseException:
        runtime.parked.append((requests, keep))
        raise


def _expired(runtime: Runtime, group: ProcessGroup, text: str, timeout: float, fatal: bool) -> None:
    message = (
        f"rank {runtime.rank} waited {timeout:g} s (the timeout) in {text}\n"
        f"what the ranks of the group were doing:\n{runtime.board.describe(group.ranks)}"
    )
    raise runtime.fail(message) if fatal else DistBackendError(message)


def _look_for_ended(
    runtime: Runtime, group: ProcessGroup, text: Callable[[], str], peers: list[int] | None
) -> None:
    now = time.time()
    for rank in group.ranks if peers is None else peers:
        life, since = runtime.board.life(rank)
        if life == LEFT and now - since > _LEFT_GRACE:
            raise runtime.fail(
                f"rank {runtime.rank} waits in {text()}, but rank {rank} has ended its program\n"
                "what the ranks of the group were doing:\n"
                f"{runtime.board.describe(group.ranks)}"
            )
