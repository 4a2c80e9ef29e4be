# SPDX-License-Identifier: BSD-3-Clause
"""Waits for MPI by polling, which stays interruptible and notices timeouts and failures."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from cograd.distributed._board import LEFT
from cograd.distributed._names import DistBackendError

if TYPE_CHECKING:
    from cograd.distributed._group import ProcessGroup
    from cograd.distributed._runtime import Runtime

__all__ = ["call_site", "complete", "describe", "origin", "place", "poll"]

_SPIN = 150  # tests before the clock is first read: about 30 microseconds
_YIELD = 5e-3  # seconds of yielding before sleeps begin, for empty messages
_NAP, _SHORT_NAP = 1e-3, 1e-4  # longest sleeps: for small and for large messages
_LARGE = 1 << 20  # bytes
_SLOWEST = 2e8  # bytes per second; faster transfers never sleep
_LEFT_GRACE = 2.0  # seconds before a rank that ended counts as missing
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_yield: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0))
_inside: dict[str, bool] = {}
# Why a call is made, such as a backward: ``text``, and ``what``, which all ranks share.
origin = threading.local()


def place(depth: int = 1) -> tuple[str, int, str]:
    """Returns file and line of the user's code that called into cograd, and the call's reason.

    ``depth`` is the number of callers known to be in cograd; checking each one costs time.
    """
    try:
        frame: FrameType | None = sys._getframe(depth)
    except ValueError:  # called by C++, as the hook of a backward thread
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
    """Returns the location of the user's code as text."""
    file, line, text = place()
    return f"{file}:{line}{text}"


def describe(text: str, shape: Sequence[int] | None, dtype: object, site: str) -> str:
    """Describes a call in one line."""
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

    It spins first, then yields the core (longer for larger messages: MPI moves data in ``test``),
    then sleeps for short times. Raises DistBackendError ``timeout`` seconds after ``started``, if
    another rank has failed, or if one of ``peers`` (None: all members) has ended. ``look`` is
    called from time to time.
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
    """Polls until requests of MPI are complete; a request that fails keeps its memory.

    ``keep`` is what MPI reads and writes; ``options`` are passed to ``poll``.
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
