# SPDX-License-Identifier: BSD-3-Clause
"""Profiles every op of the forward pass and every node of the backward pass."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar, cast

from cograd import _C
from cograd._base import absent as _absent
from cograd.autograd._gaps import Gap, Wait, gaps_of, summary_of
from cograd.autograd._gaps import TimeSummary as TimeSummary

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "profile", "record_function"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class FunctionEvent:
    """One timed call. Times are in microseconds since the profiler was entered.

    ``kind`` is "op" (forward), "node" (backward) or "user" (record_function);
    ``self_cpu_time_total`` excludes events nested inside on the same thread. ``memory`` is the size
    of all tensors at its end, in bytes, -1 without ``profile_memory``; tensors of at most 256 bytes
    are not counted. ``place`` is the calling line, set under ``with_stack`` and for each new
    maximum of memory.
    """

    name: str
    kind: str
    start: float
    end: float
    thread: int
    sequence_nr: int = -1
    self_cpu_time_total: float = 0.0
    memory: int = -1
    place: str = ""

    @property
    def cpu_time_total(self) -> float:
        """Duration in microseconds."""
        return self.end - self.start

    @property
    def key(self) -> str:
        """The key by which events are grouped."""
        return self.name


@dataclass(frozen=True)
class FunctionEventAvg:
    """All events of one name. Times in microseconds.

    Attributes:
        key: the name.
        kind: as of ``FunctionEvent``.
        count: number of events.
        cpu_time_total: total time of the events.
        self_cpu_time_total: total time without events nested inside on the same thread.
    """

    key: str
    kind: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float

    @property
    def cpu_time(self) -> float:
        """Mean duration."""
        return self.cpu_time_total / self.count


def _text(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


_SORT = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "key")


class EventList(list[Any]):
    """A list of events, or of their averages; ``table()`` formats them as text.

    ``profile.function_events`` is one; ``key_averages()`` returns one with an entry per name.
    """

    _waits: tuple[Wait, ...] = ()  # when threads did not run
    _last: EventList | None = None  # of several runs the last, if these are the events of all

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        top_level_events_only: bool = False,
        **_ignored: Any,
    ) -> str:
        """Formats the events as a table.

        Args:
            sort_by: cpu_time, cpu_time_total, self_cpu_time_total, count or key; as recorded if
                None.
            row_limit: maximum number of rows; -1 for all.
            max_name_column_width: length to which names are cut.
            top_level_events_only: accepted and ignored.

        Raises:
            ValueError: ``sort_by`` is unknown.
        """
        rows = self if self and isinstance(self[0], FunctionEventAvg) else self._averages()
        if sort_by is not None:
            if sort_by not in _SORT:
                raise ValueError(f"table(): sort_by must be one of {_SORT}, got {sort_by!r}")
            rows = sorted(rows, key=lambda r: getattr(r, sort_by), reverse=sort_by != "key")
        total = sum(r.self_cpu_time_total for r in rows) or 1.0
        shown = list(rows) if row_limit < 0 else list(rows)[:row_limit]
        head = ("Name", "Self CPU %", "Self CPU", "CPU total", "CPU time avg", "# of Calls")
        cells = [head] + [
            (
                r.key[:max_name_column_width],
                f"{100 * r.self_cpu_time_total / total:.2f}%",
                _text(r.self_cpu_time_total),
                _text(r.cpu_time_total),
                _text(r.cpu_time),
                str(r.count),
            )
            for r in shown
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
        rule = "  ".join("-" * w for w in widths)
        lines = [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
            )
            for row in cells
        ]
        body = [rule, lines[0], rule, *lines[1:], rule, f"Self CPU time total: {_text(total)}"]
        return "\n".join(body) + "\n"

    def _averages(self) -> list[FunctionEventAvg]:
        groups: dict[tuple[str, str], list[FunctionEvent]] = {}
        for e in self:
            groups.setdefault((e.name, e.kind), []).append(e)
        return [
            FunctionEventAvg(
                name,
                kind,
                len(events),
                sum(e.cpu_time_total for e in events),
                sum(e.self_cpu_time_total for e in events),
            )
            for (name, kind), events in groups.items()
        ]

    def key_averages(self, *_: Any, **__: Any) -> EventList:
        """Returns one entry per name, in the order of first appearance."""
        return EventList(self._averages())

    def total_average(self) -> FunctionEventAvg:
        """Returns all events as one entry."""
        return FunctionEventAvg(
            "Total",
            "total",
            len(self),
            sum(e.cpu_time_total for e in self),
            sum(e.self_cpu_time_total for e in self),
        )

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent in all events; nested events are counted once."""
        return float(sum(e.self_cpu_time_total for e in self))

    def gaps(self) -> list[Gap]:
        """Returns the times between the ops of the thread with the most ops.

        The events of several runs, which ``acc_events`` collects, have the gaps of the last run.
        """
        events = self if self._last is None else self._last
        return gaps_of(events, events._waits)

    def summary(self) -> TimeSummary:
        """Returns how much of the time went to kernels, to the interpreter and to waiting."""
        return summary_of(self if self._last is None else self._last, self.gaps())

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events as JSON for chrome://tracing or Perfetto.

        Gaps of at least 10 microseconds between ops are a track of their own, named by what the
        thread did: interpreter or waiting.
        """
        threads = {t: i for i, t in enumerate(dict.fromkeys(e.thread for e in self))}
        events = [
            {
                "name": e.name,
                "cat": {"op": "cpu_op", "node": "backward", "user": "user_annotation"}[e.kind],
                "ph": "X",
                "ts": e.start,
                "dur": e.cpu_time_total,
                "pid": os.getpid(),
                "tid": threads[e.thread],
                "args": {"Sequence number": e.sequence_nr} if e.kind == "node" else {},
            }
            for e in self
        ]
        events += self._gap_track(len(threads))
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, f)

    def _gap_track(self, number: int) -> list[dict[str, Any]]:
        """Returns the gaps as a track of a trace; nothing if there are none."""
        place = {"pid": os.getpid(), "tid": number}
        track = [
            {"name": g.kind, "cat": "gap", "ph": "X", "ts": g.start, "dur": g.duration, **place}
            | {"args": {"waited": g.waited, "before": g.before.name}}
            for g in self.gaps()
            if g.duration >= 10
        ]
        name = {"name": "thread_name", "ph": "M", **place, "args": {"name": "between ops"}}
        return [name, *track] if track else []

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a self-contained page: timeline, memory over time, table, search.

        A summary says how much of the time went to kernels, to the interpreter and to waiting; a
        strip above the timeline shows when. The memory, and the line after which it was highest,
        are shown under ``profile(profile_memory=True)``.
        """
        from cograd.autograd._profile_page import page

        title = os.path.splitext(os.path.basename(os.fspath(path)))[0]
        with open(path, "w", encoding="utf-8") as f:
            f.write(page(self, title))

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: the page of events, or the table of averages."""
        from cograd._base import notebook
        from cograd.autograd._profile_page import page

        if self and isinstance(self[0], FunctionEvent):
            return notebook.frame(page(self, "profile"))
        return f"<pre>{escape(self.table())}</pre>"

    def __str__(self) -> str:
        return self.table()


def _with_self_times(
    raw: Iterable[tuple[Any, ...]], begin: int, waits: Iterable[tuple[int, ...]] = ()
) -> EventList:
    """Sorts events and subtracts nested time from the enclosing events, per thread."""
    events = sorted(raw, key=lambda e: (e[5], e[3], -e[4]))
    own = [float(e[4] - e[3]) for e in events]
    stack: list[int] = []
    for i, e in enumerate(events):
        while stack and (events[stack[-1]][5] != e[5] or events[stack[-1]][4] <= e[3]):
            stack.pop()
        if stack:
            own[stack[-1]] -= e[4] - e[3]
        stack.append(i)
    out = EventList()
    out._waits = tuple(
        (thread, (start - begin) / 1e3, (end - begin) / 1e3, waited / 1e3)
        for thread, start, end, waited in waits
    )
    for i in sorted(range(len(events)), key=lambda i: events[i][3]):
        kind, name, sequence, start, end, thread, memory, place = events[i]
        out.append(
            FunctionEvent(
                name,
                kind,
                (start - begin) / 1e3,
                (end - begin) / 1e3,
                thread,
                sequence if kind == "node" else -1,
                max(own[i], 0.0) / 1e3,
                memory,
                place,
            )
        )
    return out


class profile:
    """Context manager that times ops, backward nodes and ``record_function`` blocks.

    Only one may be active at a time. Afterwards the nodes that ran store their time, and
    ``autograd.graph.to_dot`` shows it.

    Args:
        enabled: False disables profiling.
        profile_memory: record the memory of tensors after each event, and the line of each maximum.
        with_stack: record the line that called each op.
        use_cpu, record_shapes, with_flops, with_modules: accepted and ignored.

    Raises:
        RuntimeError: entered while another profile is active, or read while active.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cpu: bool = True,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        **_ignored: Any,
    ) -> None:
        self.enabled = enabled
        self._notes = (profile_memory, with_stack)
        self.entered = False
        self._active = False
        self._begin = 0
        self._waits: list[Any] = []  # when threads did not run; set before the events
        self._raw: list[Any] | None = None  # the events, from __exit__ until first access
        self._sorted: list[EventList] = []  # sorted events; if two threads sort, the first wins

    __enter__ = _C._enter_profile
    __exit__ = _C._exit_profile

    @property
    def function_events(self) -> EventList:
        """The events, ordered by start time."""
        raw = self._raw  # read once: another thread may set it to None
        if raw is not None:
            self._sorted.append(_with_self_times(raw, self._begin, self._waits))
            self._raw = None
        if not self._sorted:
            raise RuntimeError("Profiler didn't finish running")
        return self._sorted[0]

    def key_averages(self, *_: Any, **__: Any) -> EventList:
        """Returns one entry per name."""
        return self.function_events.key_averages()

    def total_average(self) -> FunctionEventAvg:
        """Returns all events as one entry."""
        return self.function_events.total_average()

    def table(self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any) -> str:
        """Formats the averages as text; see :meth:`EventList.table`."""
        return self.function_events.table(sort_by, row_limit, **kwargs)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events as JSON for chrome://tracing or Perfetto."""
        self.function_events.export_chrome_trace(path)

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page; see :meth:`EventList.export_html`."""
        self.function_events.export_html(path)

    def summary(self) -> TimeSummary:
        """Returns how much of the time went to kernels, to the interpreter and to waiting."""
        return self.function_events.summary()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent in all events."""
        return self.function_events.self_cpu_time_total

    def _repr_html_(self) -> str | None:
        """Returns the page that a notebook shows; None before the end of the profile."""
        finished = self._raw is not None or bool(self._sorted)
        return self.function_events._repr_html_() if finished else None

    def __str__(self) -> str:
        finished = self._raw is not None or bool(self._sorted)
        return self.table() if finished else "<unfinished autograd.profiler.profile>"

    __repr__ = __str__


class record_function:
    """Names a block (or, as a decorator, a function) in the profile.

    Args:
        name: name in the table and the trace.
        args: accepted and ignored.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._begin = 0

    def __enter__(self) -> record_function:
        self._begin = _C._profile_now()
        return self

    def __exit__(self, *exc: object) -> None:
        if _C._profiling():
            _C._profile_add(self.name, self._begin, _C._profile_now())

    def __call__(self, func: F) -> F:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return func(*args, **kwargs)

        return cast(F, wrapper)


if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
