# SPDX-License-Identifier: BSD-3-Clause
"""Says what a profiled thread did between its ops: it ran Python, or it waited."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Gap", "TimeSummary", "gaps_of", "summary_of"]

Wait = tuple[int, float, float, float]  # thread, begin, end, of which it did not run; in us
_ENGINE = 5.0  # The engine's own work between two nodes takes less than this; hooks take more.


@dataclass
class Gap:
    """A time between two ops of a thread. Times are in microseconds.

    ``waited`` is the part in which the thread did not run. ``after`` and ``before`` are the events
    around it; ``after`` is None before the first one.
    """

    start: float
    end: float
    after: Any
    before: Any
    waited: float = 0.0

    @property
    def duration(self) -> float:
        """Length in microseconds."""
        return self.end - self.start

    @property
    def kind(self) -> str:
        """The kind of most of it: "interpreter" or "waiting"."""
        return "waiting" if self.waited > self.duration / 2 else "interpreter"


@dataclass(frozen=True)
class TimeSummary:
    """Divides the time of the thread with the most ops until its last op ended, in microseconds.

    Attributes:
        kernel: it computed ops and backward nodes.
        interpreter: it ran between them: Python, NumPy, and the profiler.
        waiting: it did not run between them: it slept, read files, waited for a lock or a core.
    """

    kernel: float
    interpreter: float
    waiting: float

    @property
    def total(self) -> float:
        """Sum of the three."""
        return self.kernel + self.interpreter + self.waiting

    def __str__(self) -> str:
        whole = self.total or 1.0
        parts = [
            f"{name} {value / 1e3:.3f} ms ({100 * value / whole:.0f} %)" for name, value in self
        ]
        return f"{self.total / 1e3:.3f} ms: " + ", ".join(parts)

    def __iter__(self) -> Any:
        return iter(vars(self).items())


def main_thread(events: Sequence[Any]) -> int | None:
    """Returns the thread with the most ops and nodes."""
    count: dict[int, int] = defaultdict(int)
    for e in events:
        count[e.thread] += e.kind in ("op", "node")
    return max(count, key=lambda t: count[t], default=None)


def _innermost(events: Sequence[Any], thread: int | None) -> list[Any]:
    """Returns the ops and nodes that contain no other one; Python code runs in those that do."""
    found: list[Any] = []
    own = [e for e in events if e.thread == thread and e.kind in ("op", "node")]
    for e in sorted(own, key=lambda e: (e.start, -e.end)):
        while found and found[-1].end >= e.end:
            found.pop()
        found.append(e)
    return found


def gaps_of(events: Sequence[Any], waits: Sequence[Wait]) -> list[Gap]:
    """Returns the gaps of the main thread from the start of the profile, by their start."""
    thread = main_thread(events)
    found: list[Gap] = []
    last, end = None, 0.0
    for e in _innermost(events, thread):
        engine = last is not None and last.kind == e.kind == "node" and e.start - end < _ENGINE
        if e.start > end and not engine:
            found.append(Gap(end, e.start, last, e))
        last, end = e, max(end, e.end)
    starts = [g.start for g in found]
    for of, begin, until, waited in waits:
        if of != thread:
            continue
        first = max(bisect_left(starts, begin) - 1, 0)
        inside = found[first : bisect_left(starts, until)]
        for gap in sorted(inside, key=lambda g: -g.duration):  # the longest is the likeliest
            part = min(min(gap.end, until) - max(gap.start, begin), waited)
            if part > 0:
                gap.waited += part
                waited -= part
    return found


def summary_of(events: Sequence[Any], gaps: Sequence[Gap]) -> TimeSummary:
    """Returns how much of the time of the main thread is of which kind."""
    thread = main_thread(events)
    own = (e.end for e in events if e.thread == thread and e.kind in ("op", "node"))
    end = max(own, default=0.0)
    between = sum(g.duration for g in gaps)
    waiting = sum(g.waited for g in gaps)
    return TimeSummary(max(end - between, 0.0), between - waiting, waiting)
