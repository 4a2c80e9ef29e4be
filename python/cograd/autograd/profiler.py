# SPDX-License-Identifier: BSD-3-Clause
"""Profiles every op of the forward pass and every node of the backward pass, and GPUs."""

from __future__ import annotations

import functools
import json
import os
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import cograd
from cograd import _C
from cograd._base import absent as _absent
from cograd.autograd._gaps import Gap, Wait, gaps_of, summary_of
from cograd.autograd._gaps import TimeSummary as TimeSummary

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Kernel",
    "profile",
    "record_function",
]

F = TypeVar("F", bound=Callable[..., Any])


class Kernel(NamedTuple):
    """Tells what one launch, copy or fill did on a GPU, and how many microseconds it took."""

    name: str
    device: int
    duration: float


@dataclass(frozen=True)
class FunctionEvent:
    """One timed call. Times are in microseconds since the profiler was entered.

    ``kind`` is "op" (forward), "node" (backward), "user" (record_function) or "kernel" (work of a
    GPU, whose ``thread`` is the stream). ``self_cpu_time_total`` and ``self_device_time_total``
    exclude events nested inside on the same thread. ``kernels`` are those that the event itself
    started, and ``device_time_total`` is the time of all that it started. ``memory`` is the size
    of all tensors at its end, in bytes, -1 without ``profile_memory``; tensors of at most 256 bytes
    are not counted. ``place`` is the calling line, set under ``with_stack`` and for each new
    maximum of memory; for the work of a GPU it names the event that started it.
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
    kernels: tuple[Kernel, ...] = ()
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    device_index: int = -1

    @property
    def cpu_time_total(self) -> float:
        """Duration in microseconds; 0 for the work of a GPU."""
        return 0.0 if self.kind == "kernel" else self.end - self.start

    @property
    def device_time(self) -> float:
        """Microseconds of GPUs, ``device_time_total``."""
        return self.device_time_total

    cuda_time = device_time

    @property
    def cuda_time_total(self) -> float:
        """An older name of ``device_time_total``."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """An older name of ``self_device_time_total``."""
        return self.self_device_time_total

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
        device_time_total: total time of the GPUs' work that the events started.
        self_device_time_total: that without the work of nested events.
    """

    key: str
    kind: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        """Mean duration."""
        return self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Mean time of GPUs."""
        return self.device_time_total / self.count

    cuda_time = device_time

    @property
    def cuda_time_total(self) -> float:
        """An older name of ``device_time_total``."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """An older name of ``self_device_time_total``."""
        return self.self_device_time_total


def _text(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


_SORT = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "key")
_SORT_DEVICE = ("device_time", "device_time_total", "self_device_time_total")


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
            sort_by: cpu_time, cpu_time_total, self_cpu_time_total, the same of ``cuda`` or
                ``device``, count or key; as recorded if None.
            row_limit: maximum number of rows; -1 for all.
            max_name_column_width: length to which names are cut.
            top_level_events_only: accepted and ignored.

        Raises:
            ValueError: ``sort_by`` is unknown.
        """
        rows = self if self and isinstance(self[0], FunctionEventAvg) else self._averages()
        if sort_by is not None:
            of = str(sort_by).replace("cuda", "device")
            if of not in _SORT + _SORT_DEVICE:
                known = _SORT + _SORT_DEVICE
                raise ValueError(f"table(): sort_by must be one of {known}, got {sort_by!r}")
            rows = sorted(rows, key=lambda r: getattr(r, of), reverse=of != "key")
        total = sum(r.self_cpu_time_total for r in rows) or 1.0
        on_device = EventList(rows).self_device_time_total
        shown = list(rows) if row_limit < 0 else list(rows)[:row_limit]
        with_device = on_device > 0
        head = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
        if with_device:
            head += ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
        cells = [[*head, "# of Calls"]]
        for r in shown:
            row = [
                r.key[:max_name_column_width],
                f"{100 * r.self_cpu_time_total / total:.2f}%",
                _text(r.self_cpu_time_total),
                f"{100 * r.cpu_time_total / total:.2f}%",
                _text(r.cpu_time_total),
                _text(r.cpu_time),
            ]
            if with_device:
                row += [
                    _text(r.self_device_time_total),
                    f"{100 * r.self_device_time_total / on_device:.2f}%",
                    _text(r.device_time_total),
                    _text(r.device_time),
                ]
            cells.append([*row, str(r.count)])
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        rule = "  ".join("-" * w for w in widths)
        lines = [
            "  ".join(
                [row[0].ljust(widths[0])]
                + [c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)]
            )
            for row in cells
        ]
        body = [rule, lines[0], rule, *lines[1:], rule, f"Self CPU time total: {_text(total)}"]
        if with_device:
            body.append(f"Self CUDA time total: {_text(on_device)}")
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
                sum(e.device_time_total for e in events),
                sum(e.self_device_time_total for e in events),
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
            sum(e.device_time_total for e in self if e.kind != "kernel"),
            self.self_device_time_total,
        )

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent in all events; nested events are counted once."""
        return float(sum(e.self_cpu_time_total for e in self))

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of all work of GPUs, also of what no event started."""
        return float(sum(e.self_device_time_total for e in self if e.kind == "kernel"))

    self_cuda_time_total = self_device_time_total

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
        thread did: interpreter or waiting. Each stream of a GPU that was measured is a track, too.
        """
        kernels = [e for e in self if e.kind == "kernel"]
        calls = [e for e in self if e.kind != "kernel"]
        threads = {t: i for i, t in enumerate(dict.fromkeys(e.thread for e in calls))}
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
            for e in calls
        ]
        events += self._gap_track(len(threads)) + _stream_tracks(kernels)
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


def _stream_tracks(kernels: list[Any]) -> list[dict[str, Any]]:
    """Returns the tracks of a trace for streams of GPUs; a GPU is a process of its own there."""
    named: dict[tuple[int, int], None] = dict.fromkeys((e.device_index, e.thread) for e in kernels)
    tracks: list[dict[str, Any]] = []
    for gpu in dict.fromkeys(gpu for gpu, _ in named):
        place = {"name": "process_name", "ph": "M", "pid": gpu, "tid": 0}
        tracks.append({**place, "args": {"name": f"GPU {gpu}"}})
    for gpu, stream in named:
        place = {"name": "thread_name", "ph": "M", "pid": gpu, "tid": stream}
        tracks.append({**place, "args": {"name": f"stream {stream}"}})
    for e in kernels:
        kind = next((k for k in ("memcpy", "memset") if e.name.lower().startswith(k)), "kernel")
        place = {"ph": "X", "pid": e.device_index, "tid": e.thread}
        args = {"device": e.device_index, "stream": e.thread, "started by": e.place}
        times = {"ts": e.start, "dur": e.end - e.start}
        tracks.append({"name": e.name, "cat": f"gpu_{kind}" if kind != "kernel" else kind})
        tracks[-1].update(**place, **times, args=args)
    return tracks


class _DeviceTimes:
    """Gives the work of GPUs to the events in which it was started."""

    def __init__(self, device: Iterable[tuple[Any, ...]], events: list[Any], parents: list[int]):
        self.work = list(device)
        self.started: dict[int, list[Kernel]] = {}
        self.owners: list[int] = []
        starts: dict[int, tuple[list[int], list[int]]] = {}
        for i, e in enumerate(events if self.work else ()):
            of_thread = starts.setdefault(e[5], ([], []))
            of_thread[0].append(e[3])
            of_thread[1].append(i)
        for name, gpu, _, thread, launched, begin, end in self.work:
            times, numbers = starts.get(thread, ([], []))
            last = bisect_right(times, launched) - 1
            at = numbers[last] if last >= 0 else -1
            while at >= 0 and events[at][4] < launched:
                at = parents[at]
            self.owners.append(at)
            if at >= 0:
                self.started.setdefault(at, []).append(Kernel(name, gpu, (end - begin) / 1e3))
        self.own = [sum(k.duration for k in self.started.get(i, ())) for i in range(len(events))]
        self.total = list(self.own)
        for i in reversed(range(len(events))):  # those that enclose others come before them
            if parents[i] >= 0:
                self.total[parents[i]] += self.total[i]

    def events(self, calls: list[Any], begin: int) -> Iterable[FunctionEvent]:
        """Yields the events of the work. Streams are numbered; 0 is the default one."""
        numbers: dict[tuple[int, int], int] = {}
        for (name, gpu, stream, *_, start, end), owner in zip(self.work, self.owners, strict=True):
            known = sum(1 for of, handle in numbers if of == gpu and handle)
            number = numbers.setdefault((gpu, stream), known + 1 if stream else 0)
            took = (end - start) / 1e3
            yield FunctionEvent(
                name,
                "kernel",
                (start - begin) / 1e3,
                (end - begin) / 1e3,
                number,
                place=calls[owner][1] if owner >= 0 else "",
                device_time_total=took,
                self_device_time_total=took,
                device_index=gpu,
            )


def _with_self_times(
    raw: Iterable[tuple[Any, ...]],
    begin: int,
    waits: Iterable[tuple[int, ...]] = (),
    device: Iterable[tuple[Any, ...]] = (),
) -> EventList:
    """Sorts events and subtracts nested time from the enclosing events, per thread."""
    events = sorted(raw, key=lambda e: (e[5], e[3], -e[4]))
    own = [float(e[4] - e[3]) for e in events]
    parents = [-1] * len(events)
    stack: list[int] = []
    for i, e in enumerate(events):
        while stack and (events[stack[-1]][5] != e[5] or events[stack[-1]][4] <= e[3]):
            stack.pop()
        if stack:
            own[stack[-1]] -= e[4] - e[3]
            parents[i] = stack[-1]
        stack.append(i)
    gpus = _DeviceTimes(device, events, parents)
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
                tuple(gpus.started.get(i, ())),
                gpus.total[i],
                gpus.own[i],
            )
        )
    if gpus.work:
        out += gpus.events(events, begin)
        out.sort(key=lambda e: e.start)
    return out


def _usable_device(given: Any) -> str | None:
    """Returns "cuda" if it is asked for and there is a GPU; warns and returns None otherwise."""
    if given is None:
        return None
    if given != "cuda":
        warnings.warn(f"The {given} is not a valid device option.", stacklevel=3)
        return None
    if not cograd.cuda.is_available():
        warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=3)
        return None
    return "cuda"


class profile:
    """Context manager that times ops, backward nodes and ``record_function`` blocks.

    Only one may be active at a time. Afterwards the nodes that ran store their time, and
    ``autograd.graph.to_dot`` shows it.

    Args:
        enabled: False disables profiling.
        profile_memory: record the memory of tensors after each event, and the line of each maximum.
        with_stack: record the line that called each op.
        use_device: "cuda" measures GPUs as well: each launch, copy and fill is between two events
            of its stream.
        use_cuda: the same; an older name.
        use_cpu: False leaves only the events of GPUs, if they are measured.
        record_shapes, with_flops, with_modules: accepted and ignored.

    Raises:
        RuntimeError: entered while another profile is active, or read while active.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        use_cpu: bool = True,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        **_ignored: Any,
    ) -> None:
        self.enabled = enabled
        if use_cuda:
            text = "`use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead."
            warnings.warn(f"The attribute {text}", FutureWarning, stacklevel=2)
            use_device = "cuda"
        self.use_device = _usable_device(use_device) if enabled else None
        self._notes = (profile_memory, with_stack, self.use_device is not None)
        self._only_gpus = self.use_device is not None and not use_cpu
        self._device: list[Any] = []  # what GPUs did; set before the events
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
            found = _with_self_times(raw, self._begin, self._waits, self._device)
            if self._only_gpus:
                found = EventList(e for e in found if e.kind == "kernel")
            self._sorted.append(found)
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

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of all measured work of GPUs."""
        return self.function_events.self_device_time_total

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
